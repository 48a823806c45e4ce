"""LSA-MML on corel5k_inria, mfeat, scene, emotions and yeast: do several views beat the best one, and their columns?

corel5k_inria has two of the paper's views (DenseHue and DenseSift), two other ones (colour histograms), and its
official split. In the other sets a random half of the rows is for training. A random 20 % to 100 % of the training rows
retain their labels; all other rows, including those to predict, are unlabelled training rows, as in the paper. LSA-MML
gets all views, each view alone, or all columns as one view, with its defaults (except `tol`), linear and with maps. The
only choice is the best single view: by average precision on every fifth of the labelled rows, after learning the
others.

In the sets `_lacking`, rows lack views: labelled rows have half of the views, rows to predict the other half, and
unlabelled rows all; or every row lacks some views at random. The alternatives to LSA-MML impute missing columns by
means or by ridge regression on the available views, and predict labels from all columns by ridge regression with a
penalty chosen by leave-one-out.
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV

from benchmarks.data_sets import load_views, load_views_split
from manylabel_core.batch import LSAMML
from manylabel_core.checks import is_sparse
from manylabel_core.metrics import average_precision, micro_f1, ranking_loss

LACKING = {"scene_lacking": "scene", "mfeat_lacking": "mfeat"}
SETS = ("emotions", "yeast", "scene", "mfeat", "corel5k_inria", *LACKING)
SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
QUICK_SHARES = (0.2, 0.8)
"""Shares of labelled rows with --quick, and without maps."""
MEASURES = ("average precision", "ranking loss", "micro F1")
KERNELS = ("linear", "rbf")
VALIDATION = 5
"""Interval of the labelled rows that choose the view."""
TOL = 1e-3
MARGINS = {"Corel5k": (0.462, 0.419), "ESP Game": (0.345, 0.267), "PASCAL VOC": (0.610, 0.528)}
"""The paper's average precision with all views and with the best one, Table 2: 80 % of the training rows labelled."""

Matrix = NDArray[Any]
Views = dict[str, Any]
Drawn = dict[float, list[dict[str, list[float]]]]
"""Metrics of every method in each draw, by the share of labelled training rows."""


class Case(NamedTuple):
    """Views of the examples, missing views, labels, mask of labelled rows, and the rows to predict."""

    X: Views
    Y: Matrix
    labelled: Matrix
    test: Matrix
    missing: Mapping[str, Matrix] = {}


def run(args: argparse.Namespace) -> None:
    for name in args.sets or SETS:
        X, Y = load_views(args.data, LACKING.get(name, name))
        print(f"== {name}: {len(Y)} rows, {Y.shape[1]} labels, views {_shapes(X)}", flush=True)
        if name in LACKING:
            lacking = []
            for trial in range(args.trials):
                lacking.append(_lacking_ways(X, Y, (args.seed, trial)))
                for title, precisions in lacking[-1].items():
                    each = ", ".join(f"{way} {precision:.4f}" for way, precision in precisions.items())
                    print(f"draw {trial}, {title}: {each}", flush=True)
            _print_lacking(lacking)
            continue
        official = load_views_split(args.data, name)
        kernels = args.kernels or (KERNELS[:1] if args.quick else KERNELS)
        shares = QUICK_SHARES if args.quick else SHARES
        found: Drawn = {share: [] for share in shares}
        for trial, share in product(range(args.trials), shares):
            ways = _measured_ways(X, Y, official, share, kernels, (args.seed, trial))
            found[share].append(ways)
            each = ", ".join(f"{way} {measures[0]:.4f}" for way, measures in ways.items())
            print(f"draw {trial}, {share:.0%} labelled: {each}", flush=True)
        _print(found, kernels)
    margins = (f"{several - best:+.3f} on {name}" for name, (several, best) in MARGINS.items())
    print(f"gain in average precision over the best view in the paper: {', '.join(margins)}")


def _shapes(X: Views) -> str:
    return ", ".join(f"{name} {view.shape[1]}" for name, view in X.items())


def _measured_ways(
    X: Views,
    Y: Matrix,
    official: tuple[Matrix, Matrix] | None,
    share: float,
    kernels: Sequence[str],
    seed: Sequence[int],
) -> dict[str, list[float]]:
    """Return the metrics of every method on one draw of labelled rows."""
    random = np.random.default_rng(seed)
    train, test = official or np.array_split(random.permutation(len(Y)), 2)
    labelled = random.permutation(train)[: round(share * len(train))]
    ways = {}
    for kernel in kernels:
        case = Case(X, Y, labelled, test)
        ways[f"all views, {kernel}"] = measured(case, kernel)
        ways[f"best view, {kernel}"] = measured(case._replace(X=_best_view(case, kernel)), kernel)
        ways[f"concatenated, {kernel}"] = measured(case._replace(X=together(X)), kernel)
    return ways


def _best_view(case: Case, kernel: str) -> Views:
    """Return the view that predicts held-out labelled rows best."""
    held = np.arange(len(case.labelled)) % VALIDATION == 0
    inner = case._replace(labelled=case.labelled[~held], test=case.labelled[held])
    alone = {name: measured(inner._replace(X={name: view}), kernel)[0] for name, view in case.X.items()}
    best = max(alone, key=lambda name: alone[name])
    return {best: case.X[best]}


def together(X: Views) -> Views:
    """Return all columns as one view."""
    sparse = any(is_sparse(view) for view in X.values())
    return {"all": sp.csr_array(sp.hstack([*X.values()])) if sparse else np.hstack([*X.values()])}


def measured(case: Case, kernel: str = "linear") -> list[float]:
    """Return the metrics of LSA-MML on the rows to predict."""
    known = np.zeros(len(case.Y), dtype=np.bool_)
    known[case.labelled] = True
    model = LSAMML(kernel=kernel, tol=TOL, optimise="none", scaling="none").fit(case.X, case.Y, known, case.missing)
    rows = {name: view[case.test] for name, view in case.X.items()}
    lacking = {name: mask[case.test] for name, mask in case.missing.items()}
    scores, truth = model.label_scores(rows, lacking), case.Y[case.test]
    predicted = (scores > model.threshold_).astype(np.int8)
    return [average_precision(truth, scores), ranking_loss(truth, scores), micro_f1(truth, predicted)]


def _lacking_ways(X: Views, Y: Matrix, seed: Sequence[int]) -> dict[str, dict[str, float]]:
    """Return the average precision of every method for rows that lack views, in both situations."""
    random = np.random.default_rng(seed)
    labelled, _, test = np.array_split(random.permutation(len(Y)), 3)
    apart = {name: np.zeros(len(Y), dtype=np.bool_) for name in X}
    for number, mask in enumerate(apart.values()):
        mask[labelled if number % 2 else test] = True
    lost = random.random((len(Y), len(X))) < 0.5
    lost[np.arange(len(Y)), random.integers(len(X), size=len(Y))] = False
    some = dict(zip(X, lost.T, strict=True))
    found = {}
    for title, missing in (("other views where asked", apart), ("half of the views", some)):
        case = Case(X, Y, labelled, test, missing)
        filled = {"means": _mean_filled(case), "regression": _regression_filled(case)}
        found[title] = {
            **{f"LSA-MML, {kernel}": measured(case, kernel)[0] for kernel in KERNELS},
            **{
                f"filled in by {how}, ridge regression": _precision_by_ridge(case._replace(X=views))
                for how, views in filled.items()
            },
            "nothing missing": measured(Case(X, Y, labelled, test))[0],
        }
    return found


def _precision_by_ridge(case: Case) -> float:
    """Return the average precision of ridge regression on all columns; each view is centred with a mean energy of 1 per
    row.
    """
    centred = [view - view.mean(axis=0) for view in case.X.values()]
    F = np.hstack([view / np.sqrt((view**2).sum() / len(view)) for view in centred])
    penalties = np.logspace(-6, 2, 17) * np.linalg.norm(F[case.labelled], 2) ** 2
    ridge = RidgeCV(penalties).fit(F[case.labelled], case.Y[case.labelled].astype(np.float64))
    return average_precision(case.Y[case.test], ridge.predict(F[case.test]))


def _mean_filled(case: Case) -> Views:
    return {
        name: np.where(case.missing[name][:, np.newaxis], view[~case.missing[name]].mean(axis=0), view)
        for name, view in case.X.items()
    }


def _regression_filled(case: Case) -> Views:
    """Return the views with missing ones imputed by ridge regression on the available ones, learnt from rows that have
    both.
    """
    lacks = np.column_stack([case.missing[name] for name in case.X])
    filled = _mean_filled(case)
    for pattern in np.unique(lacks, axis=0):
        rows = (lacks == pattern).all(axis=1)
        has = [name for name, gone in zip(case.X, pattern, strict=True) if not gone]
        seen = np.hstack([case.X[name] for name in has])
        for name, gone in zip(case.X, pattern, strict=True):
            known = ~np.any([case.missing[other] for other in (name, *has)], axis=0)
            if gone and known.sum() > 1:
                ridge = RidgeCV(np.logspace(-2, 5, 15)).fit(seen[known], case.X[name][known])
                filled[name][rows] = ridge.predict(seen[rows])
    return filled


def _print(found: Drawn, kernels: Sequence[str]) -> None:
    ways = list(next(iter(found.values()))[0])
    for m, measure in enumerate(MEASURES):
        print(f"{measure:30}" + "".join(f"{f'{share:.0%} labelled':>18}" for share in found))
        for way in ways:
            values = [[trial[way][m] for trial in trials] for trials in found.values()]
            cells = (f"{np.mean(each):.4f} +- {np.std(each):.4f}" for each in values)
            print(f"  {way:28}" + "".join(f"{cell:>18}" for cell in cells))
    for kernel in kernels:
        for other in (f"best view, {kernel}", f"concatenated, {kernel}"):
            every = f"all views, {kernel}"
            gains = [[trial[every][0] - trial[other][0] for trial in trials] for trials in found.values()]
            cells = (f"{np.mean(each):+.4f} ({np.mean(np.array(each) > 0):.0%})" for each in gains)
            print(f"  {f'gain over {other}':28}" + "".join(f"{cell:>18}" for cell in cells))
    print(flush=True)


def _print_lacking(found: list[dict[str, dict[str, float]]]) -> None:
    for title, ways in found[0].items():
        print(f"average precision, a third labelled; rows lack {title}")
        for way in ways:
            values = [trial[title][way] for trial in found]
            print(f"  {way:40} {np.mean(values):.4f} +- {np.std(values):.4f}")
    print(flush=True)
