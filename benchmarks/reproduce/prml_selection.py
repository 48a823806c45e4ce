"""Selection of a trial of PrML's table inside its training half: features, prices, and whether scores are mapped.

Candidates are compared by the six measures of their out-of-fold scores in the training half; the one with the best mean
rank over the measures wins. All kinds of features with all rho are ranked together: of two candidates alone, ranks tell
which is better by a measure, but not by how much. Labels' scores are taken as they are or mapped by a shrunk Platt map,
fitted to out-of-fold scores; that, too, is chosen by scores of folds that the map has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata
from sklearn.preprocessing import normalize

from manylabel_core.batch import PrBR, PrML
from manylabel_core.mercer import Kernel, mean_distance
from manylabel_core.metrics import average_precision, coverage, hamming_loss, macro_auc, one_error, ranking_loss

MEASURES = ("Hamming loss", "one-error", "coverage", "ranking loss", "average precision", "macro AUC")
"""Metrics in the order of the table; coverage is divided by the number of labels."""
LARGER_IS_BETTER = np.array([False, False, False, False, True, True])

FOLDS = 3
RHOS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
FINER = 1.75
"""Factor between the best of `RHOS` and further values around it; its square is tried too."""
WIDTHS = (1.0, 2.0, 4.0, 8.0)
"""Values of gamma of RBF features, in units of 1 / (2 w^2), with w the mean distance of two examples."""
COMPONENTS = 400
CHOICE_TOL = 3e-2
TOL = 1e-2
OWN = 1.0
"""Price of the deviation of a label from the map shared by all labels."""

Matrix = NDArray[Any]
Rows = Any
Transform = Callable[[Rows], Rows]


class Half(NamedTuple):
    """Training examples with their labels, and examples to score."""

    X: Rows
    Y: Matrix
    X_other: Rows


class Form(NamedTuple):
    """Form of PrML: an estimator, its parameters except the prices, and C in units of rho."""

    estimator: Callable[..., PrML | PrBR]
    multiple: float
    params: dict[str, Any]
    constant: bool = False
    """Whether a constant feature replaces intercepts."""

    def scores(self, half: Half, rho: float, tol: float) -> Matrix:
        model = self.estimator(rho=rho, C=self.multiple * rho, tol=tol, optimise="none", **self.params)
        X, other = (_with_constant(half.X), _with_constant(half.X_other)) if self.constant else (half.X, half.X_other)
        return np.asarray(model.fit(X, half.Y).decision_function(other))


class Choice(NamedTuple):
    """Choice of a form, and the metrics of its out-of-fold scores."""

    rho: float
    scores: Matrix
    found: list[float]


class Folds:
    """Folds of a training half, for one kind of features."""

    def __init__(self, X: Rows, Y: Matrix, features: Callable[[Rows], Transform], seed: int) -> None:
        self.Y = Y
        order = np.random.default_rng(seed).permutation(len(Y))
        self.held = np.array_split(order, FOLDS)
        self._halves = []
        for held in self.held:
            rest = np.setdiff1d(order, held)
            transform = features(X[rest])
            self._halves.append(Half(transform(X[rest]), Y[rest], transform(X[held])))

    def choose(self, form: Form, rhos: Iterable[float]) -> Choice:
        """Choose rho for a form."""
        return best_of(self.tried(form, rhos))

    def tried(self, form: Form, rhos: Iterable[float] = RHOS) -> list[Choice]:
        """Try each rho for a form."""
        return [self._choice(form, rho) for rho in rhos]

    def mapped(self, scores: Matrix) -> bool:
        """Return whether a map fitted to the scores of the other folds improves out-of-fold scores."""
        after = np.empty_like(scores)
        for held in self.held:
            rest = np.setdiff1d(np.arange(len(scores)), held)
            after[held] = Platt.fit(scores[rest], self.Y[rest])(scores[held])
        better = costs(measures(self.Y, after)) - costs(measures(self.Y, scores))
        return int((better < 0).sum()) > int((better > 0).sum())

    def _choice(self, form: Form, rho: float) -> Choice:
        scores = np.empty(self.Y.shape)
        for held, half in zip(self.held, self._halves, strict=True):
            scores[held] = form.scores(half, rho, CHOICE_TOL)
        return Choice(rho, scores, measures(self.Y, scores))


class Platt(NamedTuple):
    """Map of scores to logits, `(a0 + a_l) s + b0 + b_l`, with a squared penalty on a_l and b_l."""

    slopes: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    def __call__(self, scores: Matrix) -> Matrix:
        return np.asarray(scores * self.slopes + self.intercepts)

    @classmethod
    def fit(cls, scores: Matrix, Y: Matrix) -> Platt:
        n_labels = scores.shape[1]

        def cost(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            own = values[2:].reshape(2, n_labels)
            logits = scores * (values[0] + own[0]) + values[1] + own[1]
            wrong = expit(logits) - Y
            slopes, intercepts = (wrong * scores).sum(axis=0), wrong.sum(axis=0)
            gradient = np.concatenate(
                [[slopes.sum(), intercepts.sum()], (np.stack([slopes, intercepts]) + OWN * own).ravel()]
            )
            return float((np.logaddexp(0.0, logits) - Y * logits).sum() + 0.5 * OWN * (own**2).sum()), gradient

        start = np.zeros(2 + 2 * n_labels)
        start[0] = 1.0
        values = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 100, "ftol": 1e-7}).x
        return cls(values[0] + values[2 : 2 + n_labels], values[1] + values[2 + n_labels :])


def near(rho: float) -> list[float]:
    """Return a value and its neighbours on both sides."""
    return [rho * FINER**power for power in (-2, -1, 0, 1, 2)]


def best_of(found: Sequence[Choice]) -> Choice:
    """Return the candidate with the best mean rank over the metrics."""
    return found[best_index([choice.found for choice in found])]


def best_index(found: Sequence[Sequence[float]]) -> int:
    return int(np.argmin(rankdata([costs(values) for values in found], axis=0).mean(axis=1)))


def costs(values: Iterable[float]) -> NDArray[np.float64]:
    """Return metrics as costs: smaller is better."""
    return np.where(LARGER_IS_BETTER, -1.0, 1.0) * np.array(list(values))


def measures(Y: Matrix, scores: Matrix) -> list[float]:
    """Return the metrics in the order of `MEASURES`."""
    return [
        hamming_loss(Y, (scores > 0).astype(np.int8)),
        one_error(Y, scores),
        coverage(Y, scores, normalize=True),
        ranking_loss(Y, scores),
        average_precision(Y, scores),
        macro_auc(Y, scores),
    ]


def feature_kinds(X: Rows) -> dict[str, Callable[[Rows], Transform]]:
    """Return the kinds of features to choose from: RBF features of dense numbers, weightings of sparse words."""
    plain: dict[str, Callable[[Rows], Transform]] = {"as they are": lambda _: lambda rows: rows}
    if sp.issparse(X):
        return plain | {"idf, unit rows": _rare_words}
    return plain | {f"RBF, {width:g}": lambda rows, width=width: _eigenvectors(rows, width) for width in WIDTHS}  # type: ignore[misc]


def _rare_words(X: Rows) -> Transform:
    """Return L2-normalised rows with IDF weighting."""
    found = np.bincount(X.indices, minlength=X.shape[1])
    weights = np.where(found > 0, np.log(X.shape[0] / np.maximum(found, 1)), 0.0)
    return lambda rows: sp.csr_array(normalize(sp.csr_array(rows.multiply(weights[None, :]))))


def _eigenvectors(X: Rows, width: float) -> Transform:
    """Return the leading eigenvectors of the kernel matrix of X, extended to other rows."""
    distance = mean_distance(X, np.random.RandomState(0))
    kernel = Kernel("rbf", width / (2.0 * distance**2), 0.0, 1)
    values, vectors = np.linalg.eigh(kernel(X, X))
    values, vectors = values[::-1][:COMPONENTS], vectors[:, ::-1][:, :COMPONENTS]
    kept = values > 1e-10 * values[0]
    projection = vectors[:, kept] / np.sqrt(values[kept])
    return lambda rows: kernel(rows, X) @ projection


def _with_constant(X: Rows) -> Rows:
    ones = np.ones((X.shape[0], 1))
    return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])
