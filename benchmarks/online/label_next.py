"""Number of labels needed by active learning, compared with random labelling.

Each run splits a set at random into 2,000 test examples (a third of a smaller set) and 5,000 stored predictions. FALT
with defaults learns batches of 20 of these: random ones, or the first 20 of `order=uncertainty`, by the functions of
the server. Micro-F1 on the test examples is measured after every 100 labels. The result is the number of labels after
which the mean of the runs first reaches the quality of random labelling with all labels. Random labelling may reach it
earlier too, if its curve is flat.
"""

import argparse
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.data_sets import load_stream
from benchmarks.output import save_plot
from manylabel_core import FALT
from manylabel_service.hosting.examples import Features
from manylabel_service.online.label_next import ALIKE_AMONG, spread, unit_row
from manylabel_service.online.state.uncertainty import counting, uncertainty

BATCH, EVERY = 20, 100
POOL, TEST = 5_000, 2_000

Rule = Callable[[FALT, Any, NDArray[np.int64]], NDArray[np.int64]]
"""Rule that chooses positions in the remaining pool, best first, by the counts of true labels."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets")
    parser.add_argument("--sets", default="debtags,bibtex,yeast", help="by default %(default)s")
    parser.add_argument("--runs", type=int, default=5, help="by default %(default)s")
    parser.add_argument("--labels", type=int, default=1_000, help="of random labelling; by default %(default)s")
    parser.add_argument("--out", type=Path, help="folder for the plot")


def run(args: argparse.Namespace) -> None:
    curves = {}
    for name in args.sets.split(","):
        X, Y = (sp.csr_array(part) for part in load_stream(args.data, name))
        curves[name] = {
            rule: [curve(X, Y, choose, seed, args.labels) for seed in range(args.runs)]
            for rule, choose in RULES.items()
        }
        _print(name, curves[name], args.labels)
    if args.out is not None:
        _plot(args.out, curves)


def curve(X: Any, Y: Any, choose: Rule, seed: int, labels: int) -> list[float]:
    """Return the micro-F1 on test examples after every 100 labels."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    n_test = min(TEST, len(order) // 3)
    test, pool = order[:n_test], order[n_test : n_test + POOL]
    known, model, found = np.zeros(0, dtype=np.int64), FALT(), []
    counts = np.zeros(Y.shape[1], dtype=np.int64)
    for learnt in range(BATCH, labels + 1, BATCH):
        places = choose(model, X[pool], counts[known]) if learnt > BATCH else np.arange(len(pool))
        rows, pool = pool[places[:BATCH]], np.delete(pool, places[:BATCH])
        new = np.setdiff1d(np.unique(Y[rows].nonzero()[1]), known)  # a label gets a column when it first occurs
        known = np.concatenate([known, new])
        model.partial_fit(X[rows], Y[rows][:, known].toarray())
        counts += Y[rows].toarray().sum(axis=0)
        if learnt % EVERY == 0:
            found.append(_micro_f1(model, X[test], Y[test], known))
    return found


def uncertain(model: FALT, X: Any, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose like the server."""
    found = uncertainty(model.decision_function(X)[:, counting(counts, ())])
    ranked = np.argsort(-found, kind="stable")[: ALIKE_AMONG * BATCH]
    rows = [X[[place]] for place in ranked]
    xs = [Features(None, row.indices.astype(np.int32), row.data.astype(np.float32)) for row in rows]
    columns_of: dict[Any, int] = {}
    unit_rows = [unit_row(x, columns_of) for x in xs]
    return np.array([ranked[place] for place in islice(spread(unit_rows), BATCH)])


RULES: dict[str, Rule] = {"random": lambda model, X, counts: np.arange(X.shape[0]), "uncertainty": uncertain}


def _micro_f1(model: FALT, X: Any, Y: Any, known: NDArray[np.int64]) -> float:
    predicted, true = model.decision_function(X) > 0, Y[:, known].toarray() > 0
    return float(2 * (predicted & true).sum() / (predicted.sum() + Y.sum()))


def _print(name: str, curves: dict[str, list[list[float]]], labels: int) -> None:
    steps = np.arange(EVERY, labels + 1, EVERY)
    means = {rule: np.mean(runs, axis=0) for rule, runs in curves.items()}
    print(f"{name}, mean of {len(curves['random'])} runs (standard deviation of the last)")
    print(f"{'labels':14}" + "".join(f"{count:>7,}" for count in steps))
    for rule, mean in means.items():
        print(f"{rule:14}" + "".join(f"{f1:7.3f}" for f1 in mean) + f"  ({np.std([r[-1] for r in curves[rule]]):.3f})")
    target = means["random"][-1]
    for rule, mean in means.items():
        reached = steps[mean >= target]
        needed = f"{reached[0]:,}, ratio {reached[0] / labels:.2f}" if reached.size else f"more than {labels:,}"
        print(f"labels for the {target:.3f} of {labels:,} random ones, {rule}: {needed}")
    print(flush=True)


def _plot(folder: Path, curves: dict[str, dict[str, list[list[float]]]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(curves), 4.0), layout="constrained")
    for axis, (name, by_rule) in zip(np.atleast_1d(figure.subplots(1, len(curves))), curves.items(), strict=True):
        for rule, runs in by_rule.items():
            steps = EVERY * np.arange(1, len(runs[0]) + 1)
            axis.errorbar(steps, np.mean(runs, axis=0), np.std(runs, axis=0), marker="o", capsize=2, label=rule)
        axis.set(title=name, xlabel="examples labelled", ylabel="micro-F1 on test examples")
        axis.legend()
    save_plot(figure, folder / "label-next.png")
