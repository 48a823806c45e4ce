"""Privileged weights that miss a constraint a little are made feasible, so that a duality gap can be told.

With a constant among the privileged features that is simple: it raises all slacks. The printed problem has none; there
a linear program finds weights that raise every slack that can be positive at all, and the others are 0 in every
solution.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import svd
from scipy.optimize import linprog

from manylabel_core.solvers.privileged.task import Task

Vector = NDArray[np.float64]


class Unbounded(ValueError):
    """The dual is unbounded, because no weights satisfy the constraints; or that cannot be excluded."""


class Repair(Protocol):
    """Feasible copy of the weights v of a label, reached by adding enough of the second vector."""

    def __call__(self, label: int, v: Vector) -> tuple[Vector, Vector]: ...


class ByConstant:
    """Repair by adding to the weight of the constant feature, which raises all slacks."""

    def __init__(self, task: Task) -> None:
        self._direction = np.zeros(len(task.mask) + 1)
        self._direction[-1] = 1.0

    def __call__(self, label: int, v: Vector) -> tuple[Vector, Vector]:
        return v.copy(), self._direction


class _Cone(NamedTuple):
    """Cone of the weights of a label whose slacks are not negative.

    Attributes
    ----------
    direction : weights in it, with a slack of at least 1 wherever that is possible
    forced : orthonormal rows, to which all weights in it are orthogonal
    """

    direction: Vector
    forced: NDArray[np.float64]


class ByProgram:
    """In the printed problem, a linear program is solved for each label.

    Raises
    ------
    Unbounded
        If rho is infinite and some examples of a label can have no slack.
    """

    def __init__(self, task: Task) -> None:
        self._cones = [_cone(task, label) for label in range(len(task.mask))]

    def __call__(self, label: int, v: Vector) -> tuple[Vector, Vector]:
        cone = self._cones[label]
        return v - cone.forced.T @ (cone.forced @ v), cone.direction


def repair_for(task: Task) -> Repair:
    """Return the repair that suits a task."""
    return ByConstant(task) if task.constant else ByProgram(task)


def _cone(task: Task, label: int) -> _Cone:
    T = task.features(label)
    n_kinds, width = T.shape
    # max sum s with s <= T v and 0 <= s <= 1: in a cone, every slack that can be above 0 can be 1.
    costs = np.concatenate([np.zeros(width), -np.ones(n_kinds)])
    bounds: list[tuple[Any, Any]] = [(None, None)] * width + [(0.0, 1.0)] * n_kinds
    limits = sp.hstack([sp.csr_array(-T), sp.eye_array(n_kinds)], format="csr")
    solved = linprog(costs, limits, np.zeros(n_kinds), bounds=bounds, method="highs")
    if not solved.success:
        raise RuntimeError(f"the slacks of label {label} cannot be told: {solved.message}")
    v = np.asarray(solved.x)[:width]
    without = T @ v < 0.5
    if task.rho == np.inf and without.any():
        number = int(np.isin(task.kinds, np.flatnonzero(without)).sum())
        raise Unbounded(
            f"literal=True with an infinite rho gives label {label} no slack for {number} of its examples: "
            "unless these are separable, the dual is unbounded. Set literal=False, which gives slacks a constant term, "
            "or a finite rho, which gives every example a slack of its own"
        )
    v = v / (T @ v)[~without].min(initial=1.0)
    return _Cone(v, _rows_spanned(T[without]))


def _rows_spanned(T: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an orthonormal basis of the rows."""
    if not T.any():
        return np.zeros((0, T.shape[1]))
    _, values, V = svd(T, full_matrices=False)
    return np.asarray(V[values > 1e-10 * values[0]])
