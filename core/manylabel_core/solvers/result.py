"""Progress and results of the dual solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

TINY = 1e-300
"""Replacement of a primal objective of 0 in the relative gap."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a solver."""

    iteration: int  # passes over the active points so far; 0 is the start
    objective: float  # dual objective, which never falls from one report to the next
    gap: float  # relative duality gap, (primal - dual) / |primal|
    active: float  # share of the variables that are not at their optimal bound
    seconds: float  # since the start
    fold: int = 0  # number of the fold, from 1, in fits for thresholds and probabilities; 0 in the fit of the model


ProgressCallback = Callable[[Progress], bool | None]
"""Callback after each pass. If it returns True, the solver ends with its current result."""


@dataclass(frozen=True, slots=True)
class DualResult:
    """Feasible point of the coupled dual, its model, and a bound on its distance from the optimum.

    With the equality, the primal objective is computed at its best bias, and `bias` is the mean of y - F over the free
    points of a label (0 < alpha < c). Without a free point, it is the middle of the interval that the optimality
    conditions allow, or the only end of the interval. Without the equality, `bias` is the contribution of the constant
    feature to every score, or 0.
    """

    alpha: NDArray[np.float64]  # (n_samples, n_labels), from 0 to c; a later call can start from it
    bias: NDArray[np.float64]  # (n_labels,)
    primal: float
    dual: float
    n_iter: int  # passes over the points
    converged: bool
    F: NDArray[np.float64] | None = None  # kernel: scores `K B S` of the training examples without bias, B = Y * alpha
    # linear: weights `X'B S`, (n_features, n_labels); the scores of X are `X @ Z + bias`
    Z: NDArray[np.float64] | None = None
    # linear and coupled: `X'B`, then the row of the constant feature, if it is known
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
