"""Weights as a product Z = D'W of two factors of small rank, and its best split.

See Eq. (34) of docs/mathematics.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

LOST = 1e-12
"""Singular values of Z below this share of the largest are 0."""


class Factors(NamedTuple):
    """The factors are D of shape (rank, n_features) and W of shape (rank, n_labels)."""

    D: Matrix
    W: Matrix

    def product(self) -> Matrix:
        """Return Z as (n_labels, n_features)."""
        return self.W.T @ self.D

    def cost(self, gamma1: float) -> float:
        """Return `|D|^2/2 + gamma1 |W|^2/2`."""
        return 0.5 * float(np.vdot(self.D, self.D)) + 0.5 * gamma1 * float(np.vdot(self.W, self.W))


def leading(Z: Matrix, rank: int, gamma1: float) -> Factors:
    """Return the cheapest factors of the best approximation of Z, (n_labels, n_features), by a matrix of some rank.

    Of all factors with the product Z, those with `|D|^2 = gamma1 |W|^2` along every singular vector cost least:
    `sqrt(gamma1)` times the sum of the singular values.
    """
    small = Z @ Z.T if len(Z) <= Z.shape[1] else Z.T @ Z
    squares, V = np.linalg.eigh(small)
    squares, V = squares[::-1][:rank], V[:, ::-1][:, :rank]
    values = np.sqrt(np.maximum(squares, 0.0))
    kept = values > LOST**0.5 * max(values[0], 1e-300)
    scale = np.zeros_like(values)
    scale[kept] = 1.0 / values[kept]
    # Z = U diag(values) Q': one side are the eigenvectors, the other one follows.
    U, Q = (V, (Z.T @ V) * scale) if len(Z) <= Z.shape[1] else ((Z @ V) * scale, V)
    root = np.sqrt(np.where(kept, values, 0.0))
    factors = Factors(gamma1**0.25 * root[:, None] * Q.T, gamma1**-0.25 * root[:, None] * U.T)
    return Factors(*(np.ascontiguousarray(np.pad(part, ((0, rank - len(part)), (0, 0)))) for part in factors))
