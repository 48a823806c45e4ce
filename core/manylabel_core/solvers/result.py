"""Progress and results of the dual solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

TINY = 1e-300
"""Stands for a primal objective of 0 in the relative gap."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A solver is here.

    Attributes
    ----------
    iteration : int
        Passes over the active points so far; 0 is the start.
    objective : float
        The dual objective. It never falls from one report to the next.
    gap : float
        The relative duality gap, (primal - dual) / |primal|.
    active : float
        Share of the variables that have a part in the gap: all that are not at the bound where they belong.
    seconds : float
        Since the start.
    fold : int
        Counts from 1 in the fits that omit a fold of the rows, for cuts and probabilities; 0 in the model's own.
    """

    iteration: int
    objective: float
    gap: float
    active: float
    seconds: float
    fold: int = 0


ProgressCallback = Callable[[Progress], bool | None]
"""Called after every pass; True ends the solver, whose result then is what has been reached."""


@dataclass(frozen=True, slots=True)
class DualResult:
    """Feasible point of the coupled dual, its model, and a bound on its distance from the optimum.

    Attributes
    ----------
    alpha : ndarray of shape (n_samples, n_labels), float64
        The dual variables, 0 <= alpha <= c. A later call can start from them.
    bias : ndarray of shape (n_labels,), float64
        With the equality: the mean of y - F over the free points of a label (0 < alpha < c); where none is
        free, the midpoint of the interval that the optimality conditions leave, or its only end. With a
        constant feature: what that adds to every score. Else 0.
    primal, dual : float
        The objectives. With the equality the primal one is taken at the bias that is best for it.
    n_iter : int
        Passes over the points.
    converged : bool
        Whether `gap` has come down to the tolerance.
    F : ndarray of shape (n_samples, n_labels), float64, or None
        Kernel: the scores `K B S` of the training examples without bias, B = Y * alpha.
    Z : ndarray of shape (n_features, n_labels), float64, or None
        Linear: the weights `X'B S`; the scores of X are `X @ Z + bias`.
    V : ndarray of shape (n_features + 1, n_labels), float64, or None
        Linear, with coupled labels: `X'B` and below it the row of the constant feature, if it is known.
    trace : list of Progress
    """

    alpha: NDArray[np.float64]
    bias: NDArray[np.float64]
    primal: float
    dual: float
    n_iter: int
    converged: bool
    F: NDArray[np.float64] | None = None
    Z: NDArray[np.float64] | None = None
    V: NDArray[np.float64] | None = None
    trace: list[Progress] = field(default_factory=list, repr=False)

    @property
    def absolute_gap(self) -> float:
        """Return primal - dual: the dual objective is at most that far from its maximum."""
        return self.primal - self.dual

    @property
    def gap(self) -> float:
        """Return the relative duality gap, (primal - dual) / |primal|."""
        return self.absolute_gap / max(abs(self.primal), TINY)
