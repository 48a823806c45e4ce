"""The SVM+ dual with two slacks, for linear models of many labels: Eqs. (29) and (30) of docs/mathematics.md.

With S = W'W it is the D-step of PrML; with S = I it is PrBR.

Privileged features follow from label sets, so examples with equal sets form a kind. beta enters the dual through its
sum over a kind, and only this sum is stored.

The Z of dual variables is feasible with any slacks, but before the optimum their w~ may be infeasible. Then the weight
of the constant is increased, which raises all slacks. The primal objective is the lowest of three: with this w~, with
an earlier feasible w~, and with 0, each with its best zeta.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.solvers.inputs import Control, as_matrix, check_signs, make_control
from manylabel_core.solvers.privileged._visits import lost
from manylabel_core.solvers.privileged.sides import GROUP, HALF, Coupled, Independent, PrivilegedSide
from manylabel_core.solvers.privileged.task import Kinds, Task, Variables, kinds_of, moved_to, zero
from manylabel_core.solvers.result import TINY, Progress, ProgressCallback
from manylabel_core.solvers.workers import workers

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PrivilegedResult:
    """Feasible point of the SVM+ dual, its model, and a bound on its distance from the optimum."""

    at: Variables  # a later call can start from it
    Z: Matrix  # (n_labels, n_features): S-coupled sums of `X'(y a)`
    intercept: NDArray[np.float64]  # (n_labels,)
    D: Matrix | None  # (rank, n_features) with W: `sum_l w_l (X'(y a)_l)'`, so that Z = W'D
    primal: float
    dual: float
    losses: NDArray[np.float64]  # (n_labels,): primal objective of each label without its parts in Z and the intercepts
    n_iter: int  # passes, including earlier ones
    converged: bool
    trace: list[Progress] = field(default_factory=list, repr=False)

    @property
    def gap(self) -> float:
        """Return the relative duality gap, (primal - dual) / |primal|."""
        return (self.primal - self.dual) / max(abs(self.primal), TINY)


class Privileged:
    """Privileged labels of the examples in the arrays of the solver.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        -1 and +1.
    C, rho, gamma : float
        Above 0.
    intercept : float
        B^2, at least 0; 0 for no intercepts.
    weights : ndarray of shape (n_samples,), float64, optional
        Factor of the loss of each example, above 0. None: 1.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or values.
    """

    def __init__(
        self,
        Y: Any,
        *,
        C: float,
        rho: float,
        gamma: float,
        intercept: float = 0.0,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        signs = check_signs(Y, len(Y))
        for name, value in (("C", C), ("gamma", gamma), ("rho", rho)):
            if not (value > 0 and np.isfinite(value)):
                raise ValueError(f"{name} must be a number above 0, not {value!r}")
        if not (intercept >= 0 and np.isfinite(intercept)):
            raise ValueError(f"intercept must be a finite number of at least 0, not {intercept!r}")
        self.weights = np.ones(len(signs)) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        if not (self.weights.shape == (len(signs),) and np.isfinite(self.weights).all() and self.weights.min() > 0):
            raise ValueError("weights must be finite and above 0, one for each row of Y")
        self.kinds: Kinds = kinds_of(signs, self.weights)
        by_label = np.ascontiguousarray(signs.T)
        self.task = Task(by_label, *self.kinds, float(C), float(rho), float(gamma), float(1.0 / rho), float(intercept))

    def losses(self, F: Any, known: Matrix) -> NDArray[np.float64]:
        """Return the cost of w~ and the slacks of each label, (n_labels,). `F` returns the scores of labels. Infeasible
        w~ are made feasible in place.
        """
        found = np.empty(len(known))
        slacks = np.empty(len(self.task.sizes))
        for first in range(0, len(known), GROUP):
            for label, f in enumerate(F(slice(first, first + GROUP)), first):
                found[label] = lost(self.task, self.weights, f * self.task.Y[label], known[label], slacks)
        return found

    def start(self, at: Variables | None = None) -> Variables:
        """Return the initial variables: 0, or a feasible copy of earlier ones."""
        return zero(self.task) if at is None else moved_to(at)


__all__ = ["Privileged", "PrivilegedResult", "Variables", "solve_privileged_dual"]


def solve_privileged_dual(
    X: Any,
    problem: Privileged,
    *,
    W: Matrix | None = None,
    start: Variables | None = None,
    weights: Matrix | None = None,
    done: int = 0,
    tol: float = 1e-2,
    max_iter: int = 1000,
    progress: ProgressCallback | None = None,
    n_threads: int = 1,
    seed: int = 0,
) -> PrivilegedResult:
    """Solve the SVM+ dual by coordinate descent in double precision.

    A pass evaluates all labels, then visits those with a share in the gap, with sweeps in random order over the
    variables that are not at a bound.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
    W : ndarray of shape (rank, n_labels), float64, optional
        Couples the labels by S = W'W; without it labels are independent. A pass costs O(L (n nnz + n m + rank
        n_features)), m the labels in a label set.
    start : Variables, optional
        Variables of an earlier result, which are copied and made feasible for this problem.
    weights : ndarray of shape (n_labels, n_features), float64, optional
        Z of the same result, or with W its D, (rank, n_features). With `weights` and `done`, a resumed solver computes
        the same bits as an uninterrupted one. Otherwise weights are computed from `start`, with other rounding errors.
    done : int
        Number of passes of the earlier result.
    tol, max_iter, progress, seed
        See `solve_linear_dual`.
    n_threads : int
        Number of threads; it affects the result only by rounding errors.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or values.
    """
    control = make_control(tol, max_iter, n_threads, seed)
    rows, task = as_matrix(X, np.float64), problem.task
    if rows.shape[0] != task.Y.shape[1]:
        raise ValueError(f"X must have {task.Y.shape[1]} rows, like Y, not {rows.shape[0]}")
    if W is not None and (W.ndim != 2 or W.shape[1] != len(task.Y) or not np.isfinite(W).all()):
        raise ValueError(f"W must be finite, of shape (rank, n_labels) with n_labels = {len(task.Y)}, not {W.shape}")
    at = problem.start(start)
    with workers(control.n_threads) as threads:
        about = rows, task, problem.weights, at, threads
        side: PrivilegedSide
        if W is None:
            side = Independent(*about, weights)
        else:
            side = Coupled(*about, np.ascontiguousarray(W, np.float64), weights)
        return _run(side, control, done, progress)


def _run(side: PrivilegedSide, control: Control, done: int, progress: ProgressCallback | None) -> PrivilegedResult:
    """Make passes until the gap is small, the caller stops the solver, or the maximum number is reached."""
    begin = time.perf_counter()
    n_labels, goal = len(side.at.alpha), 0.0
    trace: list[Progress] = []
    for iteration in range(control.max_iter + 1):
        primal, dual = side.evaluate(goal, again=done > 0 and iteration == 0)
        gap = (primal - dual) / max(abs(primal), TINY)
        active = side.n_open / side.at.alpha.size
        trace.append(Progress(iteration, dual, gap, active, time.perf_counter() - begin))
        converged = gap <= control.tol
        stopped = bool(progress is not None and progress(trace[-1]))
        if converged or stopped or iteration == control.max_iter:
            break
        goal = HALF * control.tol * abs(primal) / n_labels
        side.sweep(goal, (control.seed * 1_000_003 + (done + iteration) * 7_919) % 2**62)
    D = side.D if isinstance(side, Coupled) else None
    model = side.at, side.weights(), side.intercepts, D
    return PrivilegedResult(*model, primal, dual, side.losses, done + iteration, converged, trace)
