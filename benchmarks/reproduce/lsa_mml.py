"""LSA-MML on emotions, yeast and 3sources_mv: do several views beat the best one, and their concatenation?

The paper's own views cannot be had, so its Table 2 has no counterpart here; its protocol has. Half of the examples,
drawn at random, are for training, the other half is predicted; 20 % to 100 % of the training half keep their labels.
All other examples are there without labels, those to be predicted included. LSA-MML sees all views, each view alone, or
all columns as one view; M3L sees all columns of the labelled examples. Every one of them chooses its parameters
for itself in every trial, by the average precision of three folds of the labelled examples.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.data_sets import load_views
from manylabel_core.batch import LSAMML, M3L
from manylabel_core.checks import is_sparse
from manylabel_core.metrics import average_precision, micro_f1, ranking_loss

SETS = ("emotions", "yeast", "3sources_mv")
SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
MEASURES = ("ranking loss", "average precision", "micro F1")
ALL, CONCATENATED, PEER = "all views", "concatenated", "M3L, concatenated"
MARGINS = {"Corel5k": (0.462, 0.419), "ESP Game": (0.345, 0.267), "PASCAL VOC": (0.610, 0.528)}
"""The paper's average precision with all views and with the best one, Table 2."""

CANDIDATES = [{"n_components": k, "ridge": ridge} for k, ridge in product((7, 20, 50), (0.2, 1.0))]
"""As many components as there are, where these are too many."""
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""M3L's C, for rows with a mean energy of 1."""
FOLDS = 3
CHOICE = {"tol": 1e-3, "max_iter": 50}

Matrix = NDArray[Any]
Views = dict[str, Any]
Scores = tuple[Matrix, Matrix]
"""Of the rows to be predicted: what ranks labels, and what is above 0 where a label is predicted."""
Learn = Callable[[Views, Matrix, Matrix, Matrix, dict[str, Any]], Scores]


class Case(NamedTuple):
    """Examples in views, their labels, which of them are known, and the examples to predict."""

    X: Views
    Y: Matrix
    labelled: Matrix
    test: Matrix


def run(args: argparse.Namespace) -> None:
    found = {}
    for name in args.sets or SETS:
        X, Y = load_views(args.data, name)
        found[name] = {method: np.empty((len(SHARES), args.trials, len(MEASURES))) for method in _methods(X)}
        for (k, share), trial in product(enumerate(SHARES), range(args.trials)):
            case = _case(X, Y, share, (args.seed, trial))
            for method, (views, learn, candidates) in _methods(X).items():
                found[name][method][k, trial] = _measured(case._replace(X=views), learn, candidates)
        _print(name, X, Y, found[name])
    margins = (f"{several - best:+.3f} on {name}" for name, (several, best) in MARGINS.items())
    print(f"gain in average precision over the best view in the paper: {', '.join(margins)}")
    if args.out is not None:
        print(f"drawn: {_draw(args.out, found)}")


def _methods(X: Views) -> dict[str, tuple[Views, Learn, Sequence[dict[str, Any]]]]:
    """What every method sees, how it learns, and from what it chooses."""
    together = {"all": sp.csr_array(sp.hstack([*X.values()])) if _sparse(X) else np.hstack([*X.values()])}
    alone = {f"{name} alone": ({name: view}, _lsa_mml, CANDIDATES) for name, view in X.items()}
    return {
        ALL: (X, _lsa_mml, CANDIDATES),
        **alone,
        CONCATENATED: (together, _lsa_mml, CANDIDATES),
        PEER: (together, _m3l, [{"C": cost} for cost in COSTS]),
    }


def _sparse(X: Views) -> bool:
    return any(is_sparse(view) for view in X.values())


def _case(X: Views, Y: Matrix, share: float, seed: Sequence[int]) -> Case:
    """A random half to predict; a share of the other half is labelled, the same examples and more for larger shares."""
    order = np.random.default_rng(seed).permutation(len(Y))
    train, test = np.array_split(order, 2)
    return Case(X, Y, train[: round(share * len(train))], test)


def _measured(case: Case, learn: Learn, candidates: Sequence[dict[str, Any]]) -> list[float]:
    chosen = max(candidates, key=lambda candidate: _validated(case, learn, candidate | CHOICE))
    scores, decisions = learn(case.X, case.Y, case.labelled, case.test, chosen)
    truth = case.Y[case.test]
    predicted = (decisions > 0).astype(np.int8)
    return [ranking_loss(truth, scores), average_precision(truth, scores), micro_f1(truth, predicted)]


def _validated(case: Case, learn: Learn, candidate: dict[str, Any]) -> float:
    """Mean average precision of the folds, each predicted by what the others have taught."""
    precisions = []
    for fold in np.array_split(case.labelled, FOLDS):
        scores, _ = learn(case.X, case.Y, np.setdiff1d(case.labelled, fold), fold, candidate)
        precisions.append(average_precision(case.Y[fold], scores))
    return float(np.mean(precisions))


def _lsa_mml(X: Views, Y: Matrix, labelled: Matrix, test: Matrix, parameters: dict[str, Any]) -> Scores:
    most = min(sum(view.shape[1] for view in X.values()), len(Y))
    parameters = parameters | {"n_components": min(parameters["n_components"], most)}
    known = np.zeros(len(Y), dtype=np.bool_)
    known[labelled] = True
    model = LSAMML(limit_components=False, **parameters).fit(X, Y, known)
    rows = {name: view[test] for name, view in X.items()}
    return model.label_scores(rows), model.decision_function(rows)


def _m3l(X: Views, Y: Matrix, labelled: Matrix, test: Matrix, parameters: dict[str, Any]) -> Scores:
    rows = X["all"] / np.sqrt((X["all"] ** 2).sum() / len(Y))
    scores = M3L(C=parameters["C"], tol=1e-2).fit(rows[labelled], Y[labelled]).decision_function(rows[test])
    return scores, scores


def similarity(X: Views, Y: Matrix) -> Iterator[tuple[str, float]]:
    """How the similarity of two examples in a view goes with that of their labels: a correlation over pairs."""
    pairs = np.triu_indices(len(Y), 1)
    labels = _cosines(Y.astype(np.float64))[pairs]
    for name, view in X.items():
        yield name, float(np.corrcoef(_cosines(view.toarray() if is_sparse(view) else view)[pairs], labels)[0, 1])


def _cosines(X: Matrix) -> Matrix:
    X = X - X.mean(axis=0)
    X = X / np.maximum(np.linalg.norm(X, axis=1), 1e-12)[:, np.newaxis]
    return np.asarray(X @ X.T)


def _print(name: str, X: Views, Y: Matrix, found: dict[str, Matrix]) -> None:
    print(f"== {name}: {len(Y)} examples, {Y.shape[1]} labels", end="; ")
    print("pairs alike in a view and in labels: " + ", ".join(f"{view} {r:+.3f}" for view, r in similarity(X, Y)))
    for m, measure in enumerate(MEASURES):
        print(f"{measure:30}" + "".join(f"{f'{share:.0%} labelled':>18}" for share in SHARES))
        for method, values in found.items():
            cells = (f"{trials.mean():.4f} +- {trials.std():.4f}" for trials in values[:, :, m])
            print(f"  {method:28}" + "".join(f"{cell:>18}" for cell in cells))
    _print_margins(found)


def _print_margins(found: dict[str, Matrix]) -> None:
    """Average precision with all views less that of others, trial by trial; the best view is the best on the test."""
    precision = {method: values[:, :, 1] for method, values in found.items()}
    alone = [values for method, values in precision.items() if method.endswith(" alone")]
    best = np.array([max((values[k] for values in alone), key=np.mean) for k in range(len(SHARES))])
    others = {"the best view": best, "the concatenation": precision[CONCATENATED], "M3L": precision[PEER]}
    for other, values in others.items():
        gain = precision[ALL] - values
        cells = (f"{row.mean():+.4f} ({np.mean(row > 0):.0%})" for row in gain)
        print(f"  {f'gain over {other}':28}" + "".join(f"{cell:>18}" for cell in cells))
    print(flush=True)


def _draw(folder: Path, found: dict[str, dict[str, Matrix]]) -> Path:
    """Average precision over the share of labels kept, with standard deviations; a panel for each data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(found), 4.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(found)))
    for panel, (name, methods) in zip(panels, found.items(), strict=True):
        for method, values in methods.items():
            precision = values[:, :, 1]
            style = {"linewidth": 2.5} if method == ALL else {"linestyle": "--", "linewidth": 1.2}
            panel.errorbar(SHARES, precision.mean(axis=1), precision.std(axis=1), capsize=2, label=method, **style)
        panel.set(title=name, xlabel="share of training labels kept", ylabel="average precision")
        panel.legend(frameon=False, fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lsa-mml.svg"
    figure.savefig(path, metadata={"Date": None})
    return path
