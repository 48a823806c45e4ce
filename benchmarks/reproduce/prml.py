"""PrML and PrBR on enron, yeast, corel5k and bibtex: Table 2 of the paper.

Ten trials: half of the examples, drawn at random, learn, and the other half is predicted. The paper does not say how
it chose the parameters. Here every trial chooses for itself: two thirds of its training half learn, one third decides,
by the mean rank that a candidate has in the six measures, and the whole half then learns with the winner.
The half that is predicted decides nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.data_sets import DataSet, load
from manylabel_core.batch import PrBR, PrML
from manylabel_core.metrics import average_precision, coverage, hamming_loss, macro_auc, one_error, ranking_loss

Figures = tuple[tuple[float, float], ...]
"""Mean and standard deviation of each of `MEASURES`."""

MEASURES = ("Hamming loss", "one-error", "coverage", "ranking loss", "average precision", "macro AUC")
"""Coverage is divided by the number of labels."""
LARGER_IS_BETTER = np.array([False, False, False, False, True, True])

PAPER: dict[str, dict[str, Figures]] = {
    "enron": {
        "PrBR": ((0.053, 0.001), (0.342, 0.010), (0.238, 0.006), (0.088, 0.003), (0.618, 0.004), (0.638, 0.005)),
        "PrML": ((0.050, 0.001), (0.288, 0.005), (0.221, 0.005), (0.088, 0.006), (0.685, 0.005), (0.674, 0.004)),
    },
    "yeast": {
        "PrBR": ((0.227, 0.004), (0.237, 0.006), (0.487, 0.005), (0.204, 0.003), (0.719, 0.005), (0.623, 0.004)),
        "PrML": ((0.201, 0.003), (0.214, 0.005), (0.459, 0.004), (0.165, 0.003), (0.771, 0.003), (0.685, 0.003)),
    },
    "corel5k": {
        "PrBR": ((0.010, 0.001), (0.740, 0.007), (0.367, 0.005), (0.165, 0.004), (0.227, 0.004), (0.560, 0.005)),
        "PrML": ((0.010, 0.001), (0.675, 0.003), (0.266, 0.007), (0.118, 0.003), (0.282, 0.005), (0.651, 0.004)),
    },
    "bibtex": {
        "PrBR": ((0.014, 0.001), (0.426, 0.004), (0.178, 0.010), (0.096, 0.005), (0.529, 0.009), (0.702, 0.003)),
        "PrML": ((0.012, 0.001), (0.367, 0.003), (0.131, 0.007), (0.066, 0.003), (0.571, 0.004), (0.819, 0.005)),
    },
}
"""Table 2 of You, Xu, Wang, Xu and Tao, "Privileged multi-label learning" (2017), as printed."""
SETS = tuple(PAPER)

COSTS = (0.0003, 0.001, 0.003, 0.01, 0.1)
"""C: of a unit of the slack that the other labels explain."""
ORDINARY = (1.0, 3.0, np.inf)
"""rho, of a unit of the ordinary slack, in C: with 1 nothing is left to the other labels, infinite is the paper's."""
GAMMAS = (0.1, 10.0)
"""Beside the default 1."""
DECIDE = 1 / 3
"""Of the training half."""
CHOICE_TOL = 3e-2
TOL = 1e-2

Matrix = NDArray[Any]
Model = PrBR | PrML


class Split(NamedTuple):
    """Examples to learn from, and those to predict."""

    X: Any
    Y: Matrix
    X_test: Any
    Y_test: Matrix


class Trial(NamedTuple):
    """What one half gave: the six measures, the parameters that were chosen, and the seconds of the last fit."""

    measures: list[float]
    chosen: dict[str, Any]
    seconds: float


Params = dict[str, Any]
Stage = Sequence[Params]
"""What is tried in the place of the best parameters so far."""
BOTH: Stage = [{"C": C, "rho": C * times} for C, times in product(COSTS, ORDINARY)]
METHODS: dict[str, tuple[Callable[..., Model], Sequence[Stage]]] = {
    "PrBR": (PrBR, (BOTH, [{"gamma2": gamma} for gamma in GAMMAS])),
    "PrML": (PrML, (BOTH, [{"gamma1": gamma} for gamma in GAMMAS], [{"gamma2": gamma} for gamma in GAMMAS])),
}


def run(args: argparse.Namespace) -> None:
    for name in args.sets or SETS:
        data = load(args.data, name)
        print(f"== {name}")
        for method in METHODS:
            _print_table(method, [_trial(split, method) for split in _halves(data, args)], PAPER[name][method])
        print()


def _halves(data: DataSet, args: argparse.Namespace) -> Iterator[Split]:
    for trial in range(args.trials):
        yield _cut(data.X, data.Y, 0.5, (args.seed, trial))


def _cut(X: Any, Y: Matrix, share: float, seed: Sequence[int]) -> Split:
    """A random share of the examples to predict, the rest to learn from."""
    order = np.random.default_rng(seed).permutation(len(Y))
    test, train = np.split(order, [round(share * len(Y))])
    return Split(X[train], Y[train], X[test], Y[test])


def _trial(split: Split, method: str) -> Trial:
    estimator, stages = METHODS[method]
    chosen = _choose(_cut(split.X, split.Y, DECIDE, (len(split.Y),)), estimator, stages)
    began = time.perf_counter()
    model = estimator(**chosen, tol=TOL).fit(split.X, split.Y)
    return Trial(_measures(model, split), chosen, time.perf_counter() - began)


def _choose(split: Split, estimator: Callable[..., Model], stages: Sequence[Stage]) -> Params:
    """The candidate with the best mean rank over the measures, stage by stage."""
    best: Params = {}
    found: list[list[float]] = []
    for stage in stages:
        candidates = [best | change for change in stage]
        found += [_measures(estimator(**each, tol=CHOICE_TOL).fit(split.X, split.Y), split) for each in candidates]
        costs = np.where(LARGER_IS_BETTER, -np.array(found), np.array(found))
        winner = int(np.argmin(rankdata(costs, axis=0).mean(axis=1)))
        found = [found[winner]]
        best = ([best] * (len(costs) - len(candidates)) + candidates)[winner]
    return best


def _measures(model: Model, split: Split) -> list[float]:
    """In the order of `MEASURES`."""
    scores = model.decision_function(split.X_test)
    return [
        hamming_loss(split.Y_test, (scores > 0).astype(np.int8)),
        one_error(split.Y_test, scores),
        coverage(split.Y_test, scores, normalize=True),
        ranking_loss(split.Y_test, scores),
        average_precision(split.Y_test, scores),
        macro_auc(split.Y_test, scores),
    ]


def _print_table(method: str, trials: list[Trial], figures: Figures) -> None:
    """Means, standard deviations, and how much worse they are, in the paper's standard deviations."""
    values, paper = np.array([trial.measures for trial in trials]), np.array(figures)
    worse = (values.mean(axis=0) - paper[:, 0]) * np.where(LARGER_IS_BETTER, -1, 1) / paper[:, 1]
    print(f"{method:18}{'ours':>20}{'paper':>18}   worse by, in its standard deviations")
    for k, measure in enumerate(MEASURES):
        ours = f"{values[:, k].mean():.4f} +- {values[:, k].std():.4f}"
        theirs = f"{paper[k, 0]:.3f} +- {paper[k, 1]:.3f}"
        print(f"  {measure:16}{ours:>20}{theirs:>18}   {worse[k]:+.1f}{'  MISSED' if worse[k] > 1 else ''}")
    chosen = sorted({", ".join(f"{name}={value:g}" for name, value in trial.chosen.items()) for trial in trials})
    seconds = np.median([trial.seconds for trial in trials])
    print(f"  no worse than one standard deviation in {(worse <= 1).sum()} of {len(MEASURES)};", end=" ")
    print(f"{seconds:.1f} s a fit; chose {' | '.join(chosen)}", flush=True)
