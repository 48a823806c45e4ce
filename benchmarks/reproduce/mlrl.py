"""MLRL and SSMLRL on emotions, image, scene and yeast: Tables II to VI, VIII to X and XI to XV of the paper.

Supervised: ten folds. Semi-supervised: ten random splits with a fifth of the examples labelled, evaluated on the rest,
which the learner gets without labels. The RBF kernel's width is the mean distance of two training examples. Only the
features of emotions are standardised.

The paper does not say how it chose lambda from its grid. Here each trial chooses it by average precision on half of its
labelled examples, after learning the other half, and then learns all of them. "Width chosen" chooses the kernel width
too, among multiples of the mean distance.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import DataSet, load, standardised
from benchmarks.reproduce.figures import draw_correlations
from benchmarks.reproduce.mlrl_tables import (
    CORRELATIONS,
    LARGER_IS_BETTER,
    MEASURES,
    SEMI_SUPERVISED,
    SEMI_SUPERVISED_MLRL,
    SUPERVISED,
    Figures,
)
from manylabel_core.batch import MLRL, SSMLRL
from manylabel_core.mercer import mean_distance
from manylabel_core.metrics import average_precision, coverage, hamming_loss, one_error, ranking_loss

SETS = tuple(SUPERVISED)
LAMBDAS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Grid of the paper, for a loss that is a sum over examples; divided by their number."""
WIDTHS = (1.0, 0.7, 0.5, 0.35)
"""Kernel widths in mean distances; the first one is the paper's."""
CHOICE_TOL = 1e-2
LABELLED = 0.2

Matrix = NDArray[Any]


class Split(NamedTuple):
    """Labelled examples, and examples to predict."""

    X: Matrix
    Y: Matrix
    X_test: Matrix
    Y_test: Matrix


class Setting(NamedTuple):
    """Kernel width in mean distances, and lambdas times the number of labelled examples (the second: SSMLRL)."""

    width: float
    lam: float
    lam2: float | None = None


class Trial(NamedTuple):
    """Result of one split: metrics, chosen setting, and model."""

    measures: list[float]
    chosen: Setting
    model: Any
    seconds: float


Learn = Callable[[Split, Setting, float], Any]
Choose = Callable[[Split], tuple[Setting, Setting]]
"""Function that returns the best setting with the paper's width, and the best of all."""


def run(args: argparse.Namespace) -> None:
    names = args.sets or SETS
    means: dict[str, tuple[DataSet, Matrix]] = {}
    for name in names:
        data = load(args.data, name)
        if args.setting != "semi":
            trials = _supervised(data, args)
            means[name] = data, np.mean([trial.model.label_correlation_ for trial in trials], axis=0)
        if args.setting != "supervised":
            _semi_supervised(data, args)
    if args.out is not None and means:
        pairs = [(data, found, CORRELATIONS[name]) for name, (data, found) in means.items() if name in CORRELATIONS]
        draw_correlations(args.out, pairs)


def _supervised(data: DataSet, args: argparse.Namespace) -> list[Trial]:
    """Print Tables II to VI; return the trials with the paper's width."""
    splits = list(folds(data, args.seed))[: args.trials]
    at_width, chosen = _trials(splits, choose_mlrl, fit_mlrl, args.tol)
    print(f"== {data.name}, supervised")
    _print_table({"MLRL": at_width, "MLRL, width chosen": chosen}, SUPERVISED[data.name])
    return at_width


def _semi_supervised(data: DataSet, args: argparse.Namespace) -> None:
    """Print Tables XI to XV, and the same splits with MLRL on the labelled examples alone."""
    splits = list(random_splits(data, args.seed))[: args.trials]
    for name, choose, learn, paper in (
        ("SSMLRL", choose_ssmlrl, fit_ssmlrl, SEMI_SUPERVISED),
        ("MLRL", choose_mlrl, fit_mlrl, SEMI_SUPERVISED_MLRL),
    ):
        at_width, chosen = _trials(splits, choose, learn, args.tol)
        print(f"== {data.name}, {LABELLED:.0%} labelled")
        _print_table({name: at_width, f"{name}, width chosen": chosen}, paper[data.name])


def folds(data: DataSet, seed: int, number: int = 10) -> Iterator[Split]:
    """Return the splits of ten-fold cross-validation."""
    order = np.random.default_rng(seed).permutation(len(data.Y))
    for part in np.array_split(order, number):
        yield _split(data, np.setdiff1d(order, part), part)


def random_splits(data: DataSet, seed: int, number: int = 10) -> Iterator[Split]:
    """Return splits of a random fifth of the examples and the rest."""
    for trial in range(number):
        order = np.random.default_rng([seed, trial]).permutation(len(data.Y))
        n_labelled = round(LABELLED * len(order))
        yield _split(data, order[:n_labelled], order[n_labelled:])


def _split(data: DataSet, train: Matrix, test: Matrix) -> Split:
    X, X_test = data.X[train], data.X[test]
    if data.name == "emotions":  # tempi and spectral moments have different scales
        X, X_test = standardised(X, X_test)
    return Split(X, data.Y[train], X_test, data.Y[test])


def _trials(splits: Iterable[Split], choose: Choose, learn: Learn, tol: float) -> tuple[list[Trial], list[Trial]]:
    """Return the trials of all splits with the paper's width, and with the chosen width."""
    pairs = []
    for split in splits:
        settings = choose(split)
        trials = {setting: _trial(split, setting, learn, tol) for setting in dict.fromkeys(settings)}
        pairs.append([trials[setting] for setting in settings])
    return [first for first, _ in pairs], [second for _, second in pairs]


def _trial(split: Split, setting: Setting, learn: Learn, tol: float) -> Trial:
    began = time.perf_counter()
    model = learn(split, setting, tol)
    return Trial(measures(model, split), setting, model, time.perf_counter() - began)


def fit_mlrl(split: Split, setting: Setting, tol: float) -> MLRL:
    gamma = _gamma(split.X, setting.width)
    return MLRL(
        lam=setting.lam / len(split.Y), kernel="rbf", gamma=gamma, tol=tol, optimise="none", scaling="none"
    ).fit(split.X, split.Y)


def fit_ssmlrl(split: Split, setting: Setting, tol: float) -> SSMLRL:
    assert setting.lam2 is not None
    lam1, lam2 = (lam / len(split.Y) for lam in (setting.lam, setting.lam2))
    gamma = _gamma(np.vstack([split.X, split.X_test]), setting.width)
    return SSMLRL(lam1=lam1, lam2=lam2, kernel="rbf", gamma=gamma, tol=tol, optimise="none", scaling="none").fit(
        split.X, split.Y, split.X_test
    )


def choose_mlrl(split: Split) -> tuple[Setting, Setting]:
    half = _halved(split)
    candidates = [Setting(*each) for each in product(WIDTHS, LAMBDAS)]
    found = {each: _precision(fit_mlrl(half, each, CHOICE_TOL), half) for each in candidates}
    return max(candidates[: len(LAMBDAS)], key=found.__getitem__), max(candidates, key=found.__getitem__)


def choose_ssmlrl(split: Split) -> tuple[Setting, Setting]:
    """Choose width and lambda_1 as for MLRL, then lambda_2 with all other examples unlabelled."""
    half, (first, second) = _halved(split), choose_mlrl(split)
    unlabelled = half._replace(X_test=np.vstack([half.X_test, split.X_test]))

    def precision(setting: Setting) -> float:
        return _precision(fit_ssmlrl(unlabelled, setting, CHOICE_TOL), half)

    def with_lam2(setting: Setting) -> Setting:
        return max((setting._replace(lam2=lam2) for lam2 in (1e-4, *LAMBDAS)), key=precision)

    chosen = with_lam2(first)
    return chosen, chosen if second == first else with_lam2(second)


def _halved(split: Split) -> Split:
    """Split the labelled examples into halves for training and selection."""
    order = np.random.default_rng(len(split.Y)).permutation(len(split.Y))
    learn, decide = np.array_split(order, 2)
    return Split(split.X[learn], split.Y[learn], split.X[decide], split.Y[decide])


def _precision(model: Any, half: Split) -> float:
    return average_precision(half.Y_test, model.decision_function(half.X_test))


def _gamma(X: Matrix, width: float) -> float:
    return float(1.0 / (2.0 * (width * mean_distance(X, np.random.RandomState(0))) ** 2))


def measures(model: Any, split: Split) -> list[float]:
    """Return the metrics in the order of `MEASURES`."""
    scores = model.decision_function(split.X_test)
    ranked = [measure(split.Y_test, scores) for measure in (one_error, coverage, ranking_loss, average_precision)]
    return [hamming_loss(split.Y_test, (scores > 0).astype(np.int8)), *ranked]


def _print_table(runs: dict[str, list[Trial]], paper: Figures) -> None:
    """Print means, standard deviations, and whether a mean is worse by at most the paper's standard deviation."""
    print(f"{'':20}" + "".join(f"{name:>32}" for name in runs) + f"{'paper':>18}")
    columns = {name: np.array([trial.measures for trial in trials]) for name, trials in runs.items()}
    for k, measure in enumerate(MEASURES):
        mean, spread = paper[k]
        line = f"{measure:20}"
        for values in columns.values():
            ours = values[:, k].mean()
            worse = mean - ours if measure in LARGER_IS_BETTER else ours - mean
            verdict = "" if worse <= spread else f" {worse / spread:.1f} sd worse"
            line += f"{f'{ours:.4f} +- {values[:, k].std():.4f}{verdict}':>32}"
        print(line + f"{f'{mean:.4f} +- {spread:.4f}':>18}")
    for name, trials in runs.items():
        chosen = sorted({trial.chosen for trial in trials}, key=str)
        gap, seconds = max(trial.model.duality_gap_ for trial in trials), np.median([trial.seconds for trial in trials])
        print(f"  {name}: gap at most {gap:.1e}, {seconds:.1f} s a fit; chose {_described(chosen)}")
    print(flush=True)


def _described(chosen: Iterable[Setting]) -> str:
    parts = (f"{s.width:g}w {s.lam:g}" + ("" if s.lam2 is None else f" {s.lam2:g}") for s in chosen)
    return ", ".join(parts)
