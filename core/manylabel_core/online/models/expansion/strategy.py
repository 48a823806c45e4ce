"""Support vectors of an expansion, and the strategies that keep them within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear._table import squared_norm
from manylabel_core.online.models.points import Points
from manylabel_core.storage import enlarged


class SupportVectors(Points):
    """Examples with rows of coefficients.

    `alpha`, (>= n_points, >= 1 + n_labels), has the coefficients, threshold first, and `alpha_norms` their squared
    norms.
    """

    def __init__(self, dtype: str) -> None:
        super().__init__(dtype)
        self.alpha = np.zeros((0, 1), dtype=dtype)
        self.alpha_norms = np.zeros(0, dtype=np.float64)

    def grow(self, n_columns: int) -> None:
        """Allocate coefficients for at least this number of columns."""
        self.alpha = enlarged(self.alpha, (len(self.alpha), n_columns))

    def add(self, indices: NDArray[np.int32], values: NDArray[Any], norm: float, tau: NDArray[Any]) -> None:
        """Add an example with its squared norm and coefficients; missing ones are 0."""
        slot = self.n_points
        self.alpha = enlarged(self.alpha, (slot + 1, self.alpha.shape[1]))
        self.alpha_norms = enlarged(self.alpha_norms, (slot + 1,))
        self.append(indices, values, norm)
        self.alpha[slot, : len(tau)] = tau
        self.alpha[slot, len(tau) :] = 0
        self.update_norm(slot)

    def update_norm(self, slot: int) -> None:
        """Recompute the norm of coefficients that have changed."""
        self.alpha_norms[slot] = squared_norm(self.alpha[slot], 0.0)

    def remove(self, slot: int) -> None:
        """Remove a vector; the last one takes its slot."""
        super().remove(slot)
        self.alpha[slot] = self.alpha[self.n_points]
        self.alpha_norms[slot] = self.alpha_norms[self.n_points]


class Example(NamedTuple):
    """Values of an example, its kernel values with the vectors and with itself, its squared norm, and scratch space."""

    features: NDArray[np.int32]
    values: NDArray[Any]
    column: NDArray[np.float64]
    own: float
    norm: float
    work: NDArray[np.float64]


class Strategy:
    """Budget strategy: adds support vectors and enforces the budget; this base class retains all."""

    separate_intercept = False
    """True if the constant added to the kernel has separate coefficients, which no strategy changes."""

    def add(self, support: SupportVectors, x: Example, tau: NDArray[np.float64]) -> None:
        """Add an example with its coefficients, and reduce the vectors to the budget."""
        support.add(x.features, x.values, x.norm, tau)

    def arrays(self, n_vectors: int) -> dict[str, NDArray[Any]]:
        """Return the state of the strategy, without the vectors."""
        return {}

    def nbytes(self, n_vectors: int) -> int:
        """Return the bytes of this state for this number of vectors."""
        return 0

    def restore(self, arrays: Mapping[str, NDArray[Any]], support: SupportVectors) -> None:
        """Restore the arrays for these vectors; raises ValueError if they do not match."""
