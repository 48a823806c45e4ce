"""Probabilities and decision thresholds on public streams: Brier score, log loss, calibration error, reliability
diagrams, F1.

Prequential evaluation in file order (scene, which is sorted by class, in random order), with defaults on every set.
Probabilities are compared with the sigmoid of score minus threshold, and with the label frequencies so far. The
calibration error has 20 bins. The last two columns are the mean probability and the share of true labels of the last
bin, .95 to 1.

With --noise, 8 % of the true labels are dropped and 5 % as many are added beforehand.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import load_stream
from benchmarks.output import save_plot
from manylabel_core import FALT, SALT, KernelFALT
from manylabel_core.checks import is_sparse
from manylabel_core.metrics import macro_f1, micro_f1
from manylabel_core.rows import as_rows, as_targets

SETS = ("emotions", "scene", "yeast", "enron", "corel5k", "bibtex", "tmc2007_500", "rcv1sub1", "delicious")
SORTED = ("scene",)
"""Sets that are learnt in random order."""

LINEAR: dict[str, Callable[..., Any]] = {"FALT": FALT, "SALT": SALT}
LEARNERS: dict[str, Callable[..., Any]] = {**LINEAR, "KernelFALT": KernelFALT}
CUTS = ("none", "micro_f1", "macro_f1", "hamming")
BINS = 20
FEWEST = 30
"""Minimum number of probabilities in a plotted bin."""

Array = NDArray[np.float64]


class Curve(NamedTuple):
    """Mean probability, share of true labels and number of probabilities per bin."""

    probability: Array
    share: Array
    size: NDArray[np.int64]


def run(args: argparse.Namespace) -> None:
    print(f"seed {args.seed}")
    for name in args.sets or SETS:
        X, Y = _stream(args.data, name, args.seed)
        Y = noisy(Y, args.seed) if args.noise else Y
        print(f"\n== {name}: {len(Y):,} examples, {X.shape[1]:,} features, {Y.shape[1]} labels")
        rates = (np.cumsum(Y, axis=0) - Y + 0.5) / np.arange(1, 1 + len(Y))[:, np.newaxis]
        print(f"{'probabilities':28}{'Brier':>9}{'log loss':>10}{'error':>8}{'last bin':>10}{'true':>7}")
        _print_probabilities("base rates", rates, Y)
        curves, table = {}, []
        for learner, make in (LINEAR if is_sparse(X) else LEARNERS).items():
            for cut in CUTS:
                scores, probabilities = prequential(make(optimise=cut), X, Y)
                table.append((f"{learner}, {cut}", np.asarray(scores[:, 1:] > scores[:, :1], dtype=np.int8)))
                if cut == "none":
                    plain = 1.0 / (1.0 + np.exp(-np.clip(scores[:, 1:] - scores[:, :1], -30.0, 30.0)))
                    _print_probabilities(f"{learner}, plain sigmoid", plain, Y)
                    _print_probabilities(f"{learner}, calibrated", probabilities, Y)
                    curves[learner] = reliability(plain, Y), reliability(probabilities, Y)
        print(f"{'cuts':28}{'micro-F1':>9}{'macro-F1':>10}{'Hamming':>9}")
        for title, predicted in table:
            cells = f"{micro_f1(Y, predicted):9.3f}{macro_f1(Y, predicted):10.3f}{(predicted != Y).mean():9.4f}"
            print(f"{title:28}{cells}", flush=True)
        if args.out:
            _draw(args.out, name, curves)


def prequential(model: Any, X: Any, Y: NDArray[np.int8]) -> tuple[Array, Array]:
    """Return scores and probabilities of each example before it was learnt."""
    rows, n_features = as_rows(X, model.dtype)
    model.pipeline.grow(n_features, Y.shape[1])
    learnt = model.pipeline.learn(rows, as_targets(Y), probabilities=True)
    return learnt.scores, learnt.probabilities


def reliability(probabilities: Array, Y: NDArray[np.int8]) -> Curve:
    """Return the reliability diagram with bins of equal width."""
    which = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1).ravel()
    size = np.bincount(which, minlength=BINS)
    probability, share = (np.bincount(which, of.ravel(), BINS) / np.maximum(size, 1) for of in (probabilities, Y))
    return Curve(probability, share, size)


def _print_probabilities(title: str, probabilities: Array, Y: NDArray[np.int8]) -> None:
    brier = float(((probabilities - Y) ** 2).mean())
    inside = np.clip(probabilities, 1e-12, 1.0 - 1e-12)
    log_loss = float(-np.where(Y > 0, np.log(inside), np.log1p(-inside)).mean())
    curve = reliability(probabilities, Y)
    error = float((np.abs(curve.probability - curve.share) * curve.size).sum() / Y.size)
    last = f"{curve.probability[-1]:10.3f}{curve.share[-1]:7.3f}"
    print(f"{title:28}{brier:9.4f}{log_loss:10.4f}{error:8.4f}{last}", flush=True)


def _stream(folder: Path, name: str, seed: int) -> tuple[Any, NDArray[np.int8]]:
    X, Y = load_stream(folder, name)
    Y = Y.toarray() if is_sparse(Y) else Y
    rows = np.random.default_rng(seed).permutation(len(Y)) if name in SORTED else np.arange(len(Y))
    return X[rows], Y[rows]


def noisy(Y: NDArray[np.int8], seed: int) -> NDArray[np.int8]:
    """Return labels of which 8 % of the true ones are dropped, and 5 % as many are added at random."""
    generator = np.random.default_rng(seed)
    dropped, added = generator.random(Y.shape) < 0.08, generator.random(Y.shape) < 0.05 * Y.mean()
    return np.where(Y > 0, ~dropped, added).astype(np.int8)


def _draw(folder: Path, name: str, curves: dict[str, tuple[Curve, Curve]]) -> None:
    """Draw the reliability diagram of a set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(curves), 4.4), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(curves), sharey=True))
    for place, (learner, pair) in zip(axes, curves.items(), strict=True):
        place.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for curve, title, style in zip(pair, ("plain sigmoid", "calibrated"), ("o--", "o-"), strict=True):
            drawn = curve.size >= FEWEST
            place.plot(curve.probability[drawn], curve.share[drawn], style, label=title, markersize=4)
        place.set(title=f"{name}, {learner}", xlabel="probability", aspect="equal")
    axes[0].set_ylabel("share of true labels")
    axes[0].legend()
    save_plot(figure, folder / f"reliability-{name}.png", bbox_inches="tight")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets, one .npz each")
    parser.add_argument("--sets", nargs="+", choices=SETS, help="datasets; all of them by default")
    parser.add_argument("--out", type=Path, help="folder for the reliability curves, one PNG a set")
    parser.add_argument("--noise", action="store_true", help="drop 8 %% of the true labels and add 5 %% as many")
    parser.add_argument("--seed", type=int, default=0, help="of the random order and of the noise")
