"""Quality and time of the online learners on streams, compared with river, MOA and published results.

Prequential evaluation in file order, in which neighbours often have similar labels (scene is sorted by class, corel5k
by topic), and in random order. Our learners have their defaults on every set. Seconds are CPU time for conversion,
prediction, learning and metrics, on one thread; the median of several runs, without compilation. The other learners
(river's, and MOA's with --moa) have a time limit for predicting and learning; their
metrics are those of the examples reached, and "there" and "fading there" are our best metrics on the same examples.

"Fading" is the micro-F1 of canoalberto/AESAKNNS: counts decay by .995 per example, and the figure is the mean of the F1
after each example. Generated streams have one order.

The defaults were chosen on the sets in DEVELOPED_ON; those in HELD_OUT were not used.

--search tries a grid for each learner and set, and prints the distance of the default from the best setting.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from benchmarks.data_sets import load_stream
from benchmarks.online import generated, moa_peers
from benchmarks.online.published import PUBLISHED
from benchmarks.online.river_peers import RIVER, predict_and_learn
from benchmarks.online.search import search
from manylabel_core import FALT, SALT, KernelFALT, KernelSALT, PassiveAggressive
from manylabel_core.checks import is_sparse
from manylabel_core.metrics import macro_f1, micro_f1
from manylabel_core.rows import as_rows, as_targets

DEVELOPED_ON = ("emotions", "scene", "yeast", "enron", "corel5k", "bibtex", "tmc2007_500", "rcv1sub1", "delicious")
"""Sets on which the defaults of the online learners were chosen."""
HELD_OUT = ("image", "mfeat", "debtags")
"""Sets that were not used to choose anything of the online learners."""
GENERATED = (*generated.OURS, *generated.MOA)
SETS = DEVELOPED_ON + HELD_OUT + GENERATED
ORDERS = ("file", "random")
LEARNERS: dict[str, Callable[..., Any]] = {
    "FALT": FALT,
    "SALT": SALT,
    "KernelFALT": KernelFALT,
    "KernelSALT": KernelSALT,
    "PassiveAggressive": PassiveAggressive,
}
FADING = 0.995
MOST_WORK, MOST_SEARCHED = 3e10, 7e9
"""Maximum numbers of products of a kernel learner without a budget, and in a search. The work grows with the square of
the examples.
"""
BUDGET = 500
HEAD = f"{'micro-F1':>10}{'macro-F1':>10}{'fading':>10}{'seconds':>12}{'examples':>10}{'there':>8}{'fading there':>14}"
SLOW = 5.0
"""Seconds above which a learner is run once."""


class Run(NamedTuple):
    """Result of one learner: metrics, seconds, number of examples, and predictions."""

    micro_f1: float
    macro_f1: float
    fading: float
    seconds: float
    predicted: NDArray[np.int8]


def run(args: argparse.Namespace) -> None:
    print(f"seed {args.seed}\n")
    summaries = []
    for name in args.sets or [name for name in SETS if args.moa or name not in generated.MOA]:
        X, Y = generated.generate(name, args.seed, args.moa) if name in GENERATED else load_stream(args.data, name)
        Y = Y.toarray() if is_sparse(Y) else Y
        for order in ORDERS[:1] if name in GENERATED else ORDERS:
            rows = np.arange(len(Y)) if order == "file" else np.random.default_rng(args.seed).permutation(len(Y))
            title = f"{name}, order {order}: {len(Y):,} examples, {X.shape[1]:,} features, {Y.shape[1]} labels"
            if args.search:
                print(f"== {title}", flush=True)
                small = work(X, Y) < MOST_SEARCHED
                asked = {key: LEARNERS[key] for key in args.learners}
                learners = {key: make for key, make in asked.items() if small or make is not KernelFALT}
                search(learners, X[rows], Y[rows])
            else:
                print(f"== {title}\n{'':46}{HEAD}")
                summaries.append(compare(name, order, X[rows], Y[rows], args))
    print("\n".join(summaries))


def compare(name: str, order: str, X: Any, Y: NDArray[np.int8], args: argparse.Namespace) -> str:
    """Print the table of one stream; return the line that compares our best learner with the best published one."""
    ours = {}
    for learner, make in ((name, LEARNERS[name]) for name in args.learners):
        if make is KernelFALT and work(X, Y) > MOST_WORK:
            learner, make = f"{learner}, budget {BUDGET}", partial(KernelFALT, budget=BUDGET)
        ours[learner] = measured(make, X, Y, args.repeats)
        _print_row(learner, ours[learner])
    best = max(ours, key=lambda learner: ours[learner].micro_f1)
    for peer, (predicted, seconds) in _peers(X, Y, args):
        reached = slice(0, len(predicted))
        there = _measured(Y[reached], ours[best].predicted[reached], 0.0)
        _print_row(peer, _measured(Y[reached], predicted, seconds), there)
    for other in PUBLISHED.get(name, ()) if order == "file" else ():
        cells = f"{other.micro_f1:10.3f}{other.macro_f1:10.3f}{'':10}{other.seconds:12,.2f}"
        print(f"  {f'published: {other.method}':44}{cells}")
    print(flush=True)
    return _summary(name, order, best, ours)


def _peers(X: Any, Y: NDArray[np.int8], args: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Return predictions and seconds of each other learner that could be run."""
    if args.peers == "river":
        for peer, make in RIVER.items():
            yield peer, predict_and_learn(make, X, Y, args.peer_seconds)
    for peer, learner in moa_peers.MOA.items() if args.moa else ():
        try:
            yield peer, moa_peers.predict_and_learn(learner, X, Y, args.peer_seconds, args.moa)
        except RuntimeError as error:
            print(f"  {peer:44}{error}", flush=True)


def measured(make: Callable[[], Any], X: Any, Y: NDArray[np.int8], repeats: int) -> Run:
    """Return the run with the median time, from matrices to metrics."""
    _once(make, X[:20], Y[:20])
    runs = [_once(make, X, Y)]
    runs += [_once(make, X, Y) for _ in range(repeats - 1 if runs[0].seconds < SLOW else 0)]
    return runs[0]._replace(seconds=statistics.median(run.seconds for run in runs))


def _once(make: Callable[[], Any], X: Any, Y: NDArray[np.int8]) -> Run:
    began = time.process_time()
    predicted = prequential(make(), X, Y)
    micro_f1(Y, predicted), macro_f1(Y, predicted)
    return _measured(Y, predicted, time.process_time() - began)


def _measured(Y: NDArray[np.int8], predicted: NDArray[np.int8], seconds: float) -> Run:
    return Run(micro_f1(Y, predicted), macro_f1(Y, predicted), fading_micro_f1(Y, predicted), seconds, predicted)


def fading_micro_f1(Y: NDArray[np.int8], predicted: NDArray[np.int8]) -> float:
    """Return the mean over the examples of the micro-F1 of exponentially decaying counts."""
    hits, sizes = (Y & predicted).sum(axis=1, dtype=float), (Y + predicted).sum(axis=1, dtype=float)
    faded = lfilter([1.0], [1.0, -FADING], np.stack([2.0 * hits, sizes]))
    return float(np.mean(faded[0] / np.maximum(faded[1], 1e-300)))


def prequential(model: Any, X: Any, Y: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the prediction of each example before it was learnt."""
    rows, n_features = as_rows(X, model.dtype)
    model.pipeline.grow(n_features, Y.shape[1])
    scores = model.pipeline.learn(rows, as_targets(Y)).scores
    return np.asarray(scores[:, 1:] > scores[:, :1], dtype=np.int8)


def work(X: Any, Y: NDArray[np.int8]) -> float:
    """Return the number of products of a kernel learner if every example becomes a support vector."""
    values = X.nnz / len(Y) if is_sparse(X) else X.shape[1]
    return 0.5 * len(Y) ** 2 * float(values + Y.shape[1])


def _print_row(title: str, run: Run, there: Run | None = None) -> None:
    cells = f"{run.micro_f1:10.3f}{run.macro_f1:10.3f}{run.fading:10.3f}{run.seconds:12,.3f}{len(run.predicted):10,}"
    print(f"  {title:44}{cells}" + ("" if there is None else f"{there.micro_f1:8.3f}{there.fading:14.3f}"), flush=True)


def _summary(name: str, order: str, best: str, ours: dict[str, Run]) -> str:
    text = f"{name:12} {order:6} best of ours {ours[best].micro_f1:.3f} ({best}, {ours[best].seconds:.3f} s)"
    if order != "file" or name not in PUBLISHED:
        return text
    other = max(PUBLISHED[name], key=lambda each: each.micro_f1)
    fastest = max(ours.values(), key=lambda run: (run.micro_f1 > other.micro_f1, -run.seconds))
    verdict = "ours" if ours[best].micro_f1 > other.micro_f1 else "THEIRS"
    return (
        f"{text}, best published {other.micro_f1:.3f} ({other.method}, {other.seconds:,.0f} s): {verdict}, "
        f"{other.seconds / ours[best].seconds:,.0f} x faster; the fastest that beats it, or of all: "
        f"{other.seconds / fastest.seconds:,.0f} x"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets, one .npz each")
    parser.add_argument("--sets", nargs="+", choices=SETS, help="datasets; all of them by default")
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=[*LEARNERS], help="ours; all by default")
    parser.add_argument("--peers", choices=("none", "river"), default="river")
    parser.add_argument(
        "--peer-seconds", "--river-seconds", type=float, default=10.0, help="time for each peer and stream"
    )
    parser.add_argument(
        "--moa", type=Path, help="MOA's jar, as capymoa's wheel has it: its learners and generators too"
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs of each of our learners")
    parser.add_argument("--search", action="store_true", help="look for each learner's best setting instead")
    parser.add_argument("--seed", type=int, default=0, help="of the random order")
