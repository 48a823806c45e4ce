"""Budget of support vectors, enforced by projection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.expansion._project import (
    RIDGE,
    border,
    cosine_matrix,
    fits,
    invert,
    least_missed,
    multiply,
    normalise,
    project,
    replace,
)
from manylabel_core.online.models.expansion.strategy import Example, Strategy, SupportVectors
from manylabel_core.online.models.points import KernelSettings, scratch
from manylabel_core.storage import check_range, enlarged

REFRESH = 4
"""Number of replaced vectors, as a multiple of the budget, after which the inverse is recomputed to bound rounding
errors.
"""

TOLERANCE = 1e-3
"""Maximum distance from the identity of the product of a restored matrix and its inverse."""


class Project(Strategy):
    """Projection: above the budget, the vector best represented by the others is removed.

    This is the Projectron's projection, by an inverse kernel matrix with rank-one updates. Unlike the Projectron, it
    can remove any vector, not only the newest, so the span follows the stream. The time per example is proportional to
    the square of the budget.
    """

    separate_intercept = True

    def __init__(self, settings: KernelSettings, budget: int) -> None:
        self._shape, self._budget = settings.shape, budget
        self._inverse = np.zeros((0, 0))
        self._scales = np.ones(1)
        self._replaced = np.zeros(1, dtype=np.int64)

    def add(self, support: SupportVectors, x: Example, tau: NDArray[np.float64]) -> None:
        """Add a vector if the budget allows it. Otherwise project the vector, or another one, whose slot it gets."""
        n = support.n_points
        cosines, product = np.empty(n), np.empty(n)
        scale = normalise(x.column, x.own, self._scales, n, cosines)
        rest = multiply(self._inverse, cosines, n, product)
        self._scales = enlarged(self._scales, (n + 2,))
        self._scales[n] = scale
        support.add(x.features, x.values, x.norm, tau)
        if not fits(self._inverse, product, rest, n):
            self._project(support, n, product / max(1.0, 1.0 + RIDGE - rest))  # at most the length of the vector
        elif n < self._budget:
            self._inverse = enlarged(self._inverse, (n + 1, n + 1))
            border(self._inverse, product, rest, n)
        else:
            self._replace(support, product, rest, x.work)

    def _replace(
        self, support: SupportVectors, product: NDArray[np.float64], rest: float, work: NDArray[np.float64]
    ) -> None:
        n = support.n_points - 1
        slot = least_missed(self._inverse, product, rest, self._scales, support.alpha_norms, n)
        if slot == n:
            self._project(support, n, product)
            return
        leaving = np.empty(n + 1)
        replace(self._inverse, product, rest, slot, n, leaving)
        self._project(support, slot, -leaving / leaving[slot])
        self._replaced += 1
        if self._replaced[0] >= REFRESH * self._budget:
            self._replaced[0] = 0
            self._refresh(support, work)

    def _refresh(self, support: SupportVectors, work: NDArray[np.float64]) -> None:
        n = support.n_points
        C, inverse = np.empty((n, n)), np.empty((n, n))
        cosine_matrix(self._shape, *support.parts, self._scales, work, C)
        if invert(C, n, inverse):
            self._inverse = inverse

    def _project(self, support: SupportVectors, slot: int, shares: NDArray[np.float64]) -> None:
        """Project a vector, and free its slot."""
        n = support.n_points
        project(support.alpha, support.alpha_norms, slot, np.resize(shares, n), self._scales, n)
        support.remove(slot)
        self._scales[slot] = self._scales[n - 1]

    def arrays(self, n_vectors: int) -> dict[str, NDArray[Any]]:
        """Return the inverse, and the number of vectors replaced since it was computed from scratch."""
        return {"inverse": self._inverse[:n_vectors, :n_vectors], "replaced": self._replaced}

    def nbytes(self, n_vectors: int) -> int:
        return 8 * (n_vectors * n_vectors + 1)

    def restore(self, arrays: Mapping[str, NDArray[Any]], support: SupportVectors) -> None:
        """Restore the arrays if the inverse is valid."""
        n, inverse, replaced = support.n_points, arrays["inverse"], arrays["replaced"]
        if inverse.shape != (n, n) or replaced.shape != (1,):
            raise ValueError(
                "state: inverse must have a row and a column for each vector, and replaced must have one number"
            )
        check_range("replaced", replaced, 0, REFRESH * self._budget - 1)
        check_range("inverse", inverse, -2.0 / RIDGE, 2.0 / RIDGE)
        C, scales = np.empty((n, n)), np.ones(n + 1)
        work = scratch(int(support.indices.max(initial=-1)) + 1)
        if not cosine_matrix(self._shape, *support.parts, scales, work, C):
            raise ValueError("state: no vector may be 0 in feature space")
        C[np.diag_indices(n)] += RIDGE
        if n and not np.abs(C @ inverse - np.eye(n)).max() <= TOLERANCE:
            raise ValueError("state: inverse must be the inverse of the kernel matrix of the vectors")
        self._inverse, self._scales, self._replaced = inverse, scales, replaced
