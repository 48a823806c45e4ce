"""scikit-learn's support vector machines, one per label, solved to the same duality gap as the trainers."""

import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

TOLERANCES = (1e-1, 5e-2, 2e-2, 1e-2, 7e-3, 5e-3, 3e-3, 1e-3, 3e-4, 1e-4)
"""Tolerances of scikit-learn, from loose to tight; the first one that reaches the gap is used."""


class Solved(NamedTuple):
    """Result of the fit of one label. `bound` is a lower bound of the optimum: the dual objective, or a better one."""

    seconds: float
    primal: float
    bound: float


class Total(NamedTuple):
    """Results of many labels."""

    seconds: float
    gap: float


Fit = Callable[[int, float], Solved]
"""Fit a label to a tolerance."""


def total(fits: Sequence[Solved], seconds: float | None = None) -> Total:
    """Return the sums over labels, and their relative duality gap."""
    primal, bound = sum(fit.primal for fit in fits), sum(fit.bound for fit in fits)
    spent = sum(fit.seconds for fit in fits) if seconds is None else seconds
    return Total(spent, (primal - bound) / primal)


def tuned(fit: Fit, labels: Sequence[int], gap: float) -> float:
    """Return the loosest tolerance with which some labels together reach the gap."""
    for tol in TOLERANCES[:-1]:
        if total([fit(label, tol) for label in labels]).gap <= gap:
            return tol
    return TOLERANCES[-1]


def fit_all(fit: Fit, labels: Sequence[int], tol: float, n_threads: int) -> Total:
    """Fit labels, in parallel if there are threads (scikit-learn releases the GIL)."""
    if n_threads == 1:
        return total([fit(label, tol) for label in labels])
    start = time.perf_counter()
    with ThreadPoolExecutor(n_threads) as pool:
        fits = list(pool.map(lambda label: fit(label, tol), labels))
    return total(fits, time.perf_counter() - start)


def svc(K: NDArray[np.float64], Y: NDArray[np.int8], C: float, **parameters: Any) -> Fit:
    """Fit SVC, with `kernel="precomputed"` on K, otherwise on X; K is then used for the gap only."""
    X = parameters.pop("X", K)

    def fit(label: int, tol: float) -> Solved:
        y = Y[:, label]
        model = SVC(C=C, tol=tol, cache_size=1000, **parameters)
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        b = model.dual_coef_[0]
        F = K[:, model.support_] @ b
        quadratic = float(b @ F[model.support_])
        return Solved(seconds, quadratic / 2 + C * _least_hinge(F, y), float(np.abs(b).sum()) - quadratic / 2)

    return fit


def linear_svc(X: Any, Y: NDArray[np.int8], C: float, optima: NDArray[np.float64]) -> Fit:
    """Fit LinearSVC with its regularised intercept.

    LIBLINEAR does not return its dual variables, so its gap is measured to the optima, which is in its favour.
    """

    def fit(label: int, tol: float) -> Solved:
        y = Y[:, label]
        model = LinearSVC(C=C, loss="hinge", tol=tol, max_iter=100_000, random_state=0)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        seconds = time.perf_counter() - start
        hinge = np.maximum(0, 1 - y * model.decision_function(X)).sum()
        squares = (model.coef_**2).sum() + model.intercept_[0] ** 2
        return Solved(seconds, float(squares / 2 + C * hinge), float(optima[label]))

    return fit


def _least_hinge(F: NDArray[np.float64], y: NDArray[np.int8]) -> float:
    """Return the hinge loss at the best bias."""
    rank = max(int((y > 0).sum()) - 1, 0)
    bias = np.partition(y - F, rank)[rank]
    return float(np.maximum(0, 1 - y * (F + bias)).sum())
