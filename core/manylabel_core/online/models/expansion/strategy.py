"""Strategies of an expansion: which support vectors stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.expansion.support import SupportVectors


class Example(NamedTuple):
    """Values of an example, its kernel with the vectors and with itself, its squared norm, and scratch space."""

    features: NDArray[np.int32]
    values: NDArray[Any]
    column: NDArray[np.float64]
    own: float
    norm: float
    work: NDArray[np.float64]


class Strategy:
    """Budget strategy: adds support vectors and enforces the budget; this base class retains all."""

    separate_intercept = False
    """True if the constant that is added to the kernel has separate coefficients, which no strategy touches."""

    def add(self, support: SupportVectors, x: Example, tau: NDArray[np.float64]) -> None:
        """Add an example with its coefficients (planes, columns), and reduce the vectors to the budget."""
        support.add(x.features, x.values, x.norm, tau)

    def arrays(self, n_vectors: int) -> dict[str, NDArray[Any]]:
        """Return the state of the strategy besides the vectors."""
        return {}

    def nbytes(self, n_vectors: int) -> int:
        """Return the bytes of that for this number of vectors."""
        return 0

    def restore(self, arrays: Mapping[str, NDArray[Any]], support: SupportVectors) -> None:
        """Restore the arrays for these vectors; raises ValueError if they do not fit."""
