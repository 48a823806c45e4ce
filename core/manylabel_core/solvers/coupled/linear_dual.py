"""The coupled dual for linear models, of dense rows or CSR; kernel values are never stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from manylabel_core.rows import Rows
from manylabel_core.solvers.coupled.linear_sides import CsrSide, DenseSide, LinearSide
from manylabel_core.solvers.coupled.loop import Loop, joined, precisions, sides_by_thread
from manylabel_core.solvers.coupled.problem import Task, make_task, start_from
from manylabel_core.solvers.inputs import as_matrix, make_control
from manylabel_core.solvers.result import DualResult, ProgressCallback
from manylabel_core.solvers.workers import Workers, workers


def solve_linear_dual(
    X: Any,
    Y: ArrayLike,
    S: ArrayLike,
    c: float | ArrayLike,
    *,
    equality: bool = False,
    bias_feature: float = 0.0,
    tol: float = 1e-3,
    max_iter: int = 1000,
    alpha0: ArrayLike | None = None,
    V0: NDArray[np.float64] | None = None,
    progress: ProgressCallback | None = None,
    n_threads: int = 1,
    seed: int = 0,
    dtype: DTypeLike | None = None,
) -> DualResult:
    """Solve the label-coupled dual (see `problem`) for a linear kernel, K = X X' + bias_feature^2.

    A pass visits the points that still have a share in the gap, in random order. It solves the dual of a point, or of a
    block of points, for all labels, then updates the weights Z = X'B S.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
    Y : array-like of shape (n_samples, n_labels)
        -1 and +1.
    S : array-like of shape (n_labels, n_labels)
        Symmetric and positive semi-definite.
    c : float or array-like of shape (n_samples,)
        Upper bound of the dual variables: one for all rows, or one for each row.
    equality : bool
        Whether `sum_i y_il alpha_il = 0` for each label, which makes the bias free.
    bias_feature : float
        Value of a constant feature, whose weight is regularised like all others; 0 for none.
    tol : float
        Relative duality gap, (primal - dual) / |primal|, at which to stop.
    max_iter : int
        Maximum number of passes over the points.
    alpha0 : array-like of shape (n_samples, n_labels), optional
        Feasible start, for example an earlier result's `alpha`.
    V0 : ndarray of shape (n_features + 1, n_labels), float64, optional
        `V` of the same result, so that it need not be computed again.
    progress : callable, optional
        Called with a `Progress` after each pass; the solver ends if it returns True.
    n_threads : int
        Threads: over labels if S is diagonal, otherwise only for the scores in the duality gap.
    seed : int
        Random seed of the order of the points. Equal seeds and thread counts give equal results.
    dtype : float32 or float64, optional
        Precision of the work. By default, float32 rows are solved in single precision until the requested gap is below
        its resolution. With float32 the gap may stay open. The weights of the result are computed in double precision.

    Returns
    -------
    DualResult
        With `Z`.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or values, S is not positive semi-definite, or alpha0 not feasible.
    """
    control = make_control(tol, max_iter, n_threads, seed)
    if not (math.isfinite(bias_feature) and bias_feature >= 0):
        raise ValueError(f"bias_feature must be a finite number of at least 0, not {bias_feature!r}")
    rows = as_matrix(X, dtype)
    task = make_task(Y, S, c, rows.shape[0], equality)
    dtypes = precisions(rows.dtype) if dtype is None else [rows.dtype]
    with workers(control.n_threads) as threads:
        known = [V0]  # V is known at the start, but not for sides that continue in another precision

        def make_sides(dtype: np.dtype[Any], B: NDArray[np.float64]) -> list[LinearSide]:
            return _sides(rows, float(bias_feature), known.pop() if known else None, task, threads, dtype, B)

        loop = Loop(make_sides, dtypes, start_from(alpha0, task), control, progress, threads)
        loop.run()
        weights = joined([side.weights for side in loop.sides])
        bias = np.concatenate([side.bias() for side in loop.sides]) + bias_feature * weights[-1]
    return loop.result(bias, Z=weights[:-1], V=loop.sides[0].V)


def _sides(
    X: Any,
    constant: float,
    V: NDArray[np.float64] | None,
    task: Task,
    threads: Workers,
    dtype: np.dtype[Any],
    B: NDArray[np.float64],
) -> list[LinearSide]:
    """Return one side per thread if labels are independent, otherwise a single side."""
    make: Callable[[Task, NDArray[np.float64], Workers], LinearSide]
    X = X.astype(dtype, copy=False)
    if isinstance(X, np.ndarray):
        make = partial(DenseSide, X, constant, V)
    else:
        rows = Rows(X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False), X.data)
        make = partial(CsrSide, rows, X.shape[1], constant, V)
    return sides_by_thread(make, task, B, threads, together=task.coupled)
