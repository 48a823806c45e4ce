"""The SVM+ dual with two slacks, for linear models of many labels with privileged information.

It is Eqs. (32) and (33) of docs/mathematics.md.

For n examples of L labels, with signs y_il, features x_i, and the privileged features t_il of example i for label l
(the signs of other labels, and a constant 1, which the printed problem lacks):

    min_(z, b, w~)  1/2 tr(inv(S) Z'Z) + sum_l [b_l^2/(2 B^2) + gamma/2 |w~_l|^2
                                                + sum_i (C <w~_l, t_il> + rho/2 zeta_il^2)]
        y_il (z_l.x_i + b_l) >= 1 - <w~_l, t_il> - zeta_il,     <w~_l, t_il> >= 0,     zeta_il >= 0

    max_(a, beta)  sum (a - a^2 / (2 rho)) - 1/2 sum_lk S_lk (y a)_l' X X' (y a)_k - B^2/2 sum_l (sum_i y a)^2
                   - 1/(2 gamma) sum_l |sum_i e_il t_il|^2
        0 <= a,     beta >= 0,     e = a + beta - C

with `z_l = sum_k S_lk X'(y a)_k`, `b_l = B^2 sum_i y a` and `w~_l = 1/gamma sum_i e_il t_il`. With S = W'W this is
the D-step of PrML, Eq. (11) of the paper; with S = I it is PrBR. With the hinge loss `rho zeta` replaces
`rho/2 zeta^2`: then a is at most rho, and the dual has no `a^2 / (2 rho)`. An infinite rho leaves zeta out, as the
paper does, with either loss.

An example may count more often than once: with a weight v_i, its C and its rho are v_i times theirs.

Privileged features follow from label sets, so examples with equal sets are of one kind: beta enters the dual by its sum
over a kind, and only that is kept.

**The gap.** z of the dual variables is feasible for any slacks; w~ of them need not be, until the optimum. The missing
part is added to the weight of the constant, which raises all slacks, and the primal objective is taken at the best of
this w~, of one that was feasible before, and of 0, with the zeta that they leave.

**Idle labels.** Where the best a of a label is at most C, its best e is 0 (beta = C - a) and so is w~: a slack from w~
costs no less than what zeta costs at the margin, and what is left is an ordinary machine. (It is enough that the mean
of a over each kind is at most C.) With the hinge loss and rho <= C that is known beforehand; else it shows on the way:
e is 0 at the start, and its features are not touched before a step is better for changing it.
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


LOSSES = ("squared_hinge", "hinge")


@dataclass(frozen=True, slots=True)
class PrivilegedResult:
    """Feasible point of the SVM+ dual, its model, and a bound on its distance from the optimum.

    Attributes
    ----------
    at : Variables
        alpha (n_labels, n_samples), beta (n_labels, n_kinds), and the best feasible w~ found (n_labels, n_labels + 1).
        A later call can start from them.
    Z : ndarray of shape (n_labels, n_features), float64
        The weights, S-coupled sums of `X'(y a)`.
    intercept : ndarray of shape (n_labels,), float64
    D : ndarray of shape (rank, n_features), float64, or None
        With W: `sum_l w_l (X'(y a)_l)'`, so that Z = W'D.
    primal, dual : float
    losses : ndarray of shape (n_labels,), float64
        Cost of w~ and the slacks per label: the primal objective without its parts in Z and the intercepts.
    n_iter : int
        Passes, with those done before.
    converged : bool
    trace : list of Progress
    """

    at: Variables
    Z: Matrix
    intercept: NDArray[np.float64]
    D: Matrix | None
    primal: float
    dual: float
    losses: NDArray[np.float64]
    n_iter: int
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
    C, gamma : float
        Above 0.
    rho : float
        Above 0; may be infinite.
    loss : {"squared_hinge", "hinge"}
        Loss of zeta.
    intercept : float
        B^2, at least 0; 0 for no intercepts.
    mask : ndarray of shape (n_labels, n_labels), bool, optional
        Which labels, in the columns, are privileged features of which, in the rows. None: all others.
    weights : ndarray of shape (n_samples,), float64, optional
        How often the loss of each example counts; above 0. None: once.

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
        loss: str = "squared_hinge",
        intercept: float = 0.0,
        mask: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        signs = check_signs(Y, len(Y))
        n_labels = signs.shape[1]
        for name, value in (("C", C), ("gamma", gamma), ("rho", rho)):
            if not (value > 0 and (np.isfinite(value) or name == "rho")):
                raise ValueError(f"{name} must be a number above 0, not {value!r}")
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, not {loss!r}")
        if not (intercept >= 0 and np.isfinite(intercept)):
            raise ValueError(f"intercept must be a finite number of at least 0, not {intercept!r}")
        ridge, upper = (1.0 / rho, np.inf) if loss == "squared_hinge" else (0.0, float(rho))
        mask = ~np.eye(n_labels, dtype=bool) if mask is None else np.ascontiguousarray(mask, dtype=bool)
        if mask.shape != (n_labels, n_labels) or mask.diagonal().any():
            raise ValueError(f"mask must have the shape {(n_labels, n_labels)} and False on its diagonal")
        self.weights = np.ones(len(signs)) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        if not (self.weights.shape == (len(signs),) and np.isfinite(self.weights).all() and self.weights.min() > 0):
            raise ValueError("weights must be finite and above 0, one for each row of Y")
        self.kinds: Kinds = kinds_of(signs, self.weights)
        by_label = np.ascontiguousarray(signs.T)
        prices = float(C), float(rho), float(gamma), float(ridge), upper, float(intercept)
        self.task = Task(by_label, *self.kinds, mask, *prices)

    def losses(self, F: Any, known: Matrix) -> NDArray[np.float64]:
        """Return the cost of w~ and the slacks of each label at scores F, (n_labels,); infeasible w~ are lifted in
        place.

        Parameters
        ----------
        F : callable
            Gives the scores (m, n_samples) of labels, a slice, with their intercepts.
        known : ndarray of shape (n_labels, n_labels + 1), float64
        """
        found = np.empty(len(known))
        slacks = np.empty(len(self.task.sizes))
        for first in range(0, len(known), GROUP):
            for label, f in enumerate(F(slice(first, first + GROUP)), first):
                found[label] = lost(self.task, self.weights, f * self.task.Y[label], known[label], slacks)
        return found

    def start(self, at: Variables | None = None) -> Variables:
        """Return variables to start from: 0, or a copy of some that is made feasible."""
        return zero(self.task) if at is None else moved_to(self.task, self.weights, at)


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
    """Solve the SVM+ dual by coordinate descent.

    A pass evaluates all labels, and then visits those that have a share in the gap: sweeps over the variables
    that are not at their bound, in random order. Work is in double precision.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
    problem : Privileged
    W : ndarray of shape (rank, n_labels), float64, optional
        Couples the labels by S = W'W; without it S is I, and they are independent. A pass costs O(L (n nnz + n m +
        rank n_features)), m the labels in a label set.
    start : Variables, optional
        Variables of an earlier result, which are copied and made feasible for this problem.
    weights : ndarray of shape (n_labels, n_features), float64, optional
        Z of that result; with W its D, (rank, n_features). With `weights` and `done`, a resumed solver computes the
        same bits as one that ran without a break. Without `weights`, they are computed from `start`, which rounds
        differently.
    done : int
        Passes of the earlier result.
    tol : float
        Relative duality gap, (primal - dual) / |primal|, at which to stop.
    max_iter : int
        The most passes.
    progress : callable, optional
        Gets a `Progress` after each pass; True ends the solver.
    n_threads : int
        The result depends on it by rounding only.
    seed : int
        Random seed of the order of the variables.

    Returns
    -------
    PrivilegedResult

    Raises
    ------
    ValueError
        If an argument has the wrong shape or values.
    """
    control = make_control(tol, max_iter, n_threads, seed)
    rows, task = as_matrix(X, np.float64), problem.task
    if rows.shape[0] != task.Y.shape[1]:
        raise ValueError(f"X must have as many rows as Y, {task.Y.shape[1]}, not {rows.shape[0]}")
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
    """Make passes until the gap is small, the caller stops it, or they are used up."""
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
