"""Weights as a product Z = D'W of two low-rank factors, and the best split of Z.

See Eq. (31) of docs/mathematics.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Matrix = NDArray[np.float64]

LOST = 1e-12
"""Singular values of Z count as 0 if their squares are below this share of the largest square."""
SINGLE = 1000
"""Larger matrices are decomposed in single precision, and only up to the rank."""


class Factors(NamedTuple):
    """Factors D of shape (rank, n_features) and W of shape (rank, n_labels)."""

    D: Matrix
    W: Matrix

    def product(self) -> Matrix:
        """Return Z as (n_labels, n_features)."""
        return self.W.T @ self.D

    def cost(self, gamma1: float) -> float:
        """Return `|D|^2/2 + gamma1 |W|^2/2`."""
        return 0.5 * float(np.vdot(self.D, self.D)) + 0.5 * gamma1 * float(np.vdot(self.W, self.W))


def leading(Z: Matrix, rank: int, gamma1: float) -> Factors:
    """Return the cheapest factors of the best approximation of Z, (n_labels, n_features), by a given rank; Eq. (31)."""
    wide = len(Z) <= Z.shape[1]
    V = _eigenvectors(Z if wide else Z.T, rank)
    # Z = U diag(values) Q': the eigenvectors are one side, the other side follows.
    follows = (Z.T if wide else Z) @ V
    values = np.linalg.norm(follows, axis=0)
    kept = values > LOST**0.5 * max(values[0], 1e-300)
    scale = np.zeros_like(values)
    scale[kept] = 1.0 / values[kept]
    U, Q = (V, follows * scale) if wide else (follows * scale, V)
    root = np.sqrt(np.where(kept, values, 0.0))
    factors = Factors(gamma1**0.25 * root[:, None] * Q.T, gamma1**-0.25 * root[:, None] * U.T)
    return Factors(*(np.ascontiguousarray(np.pad(part, ((0, rank - len(part)), (0, 0)))) for part in factors))


def _eigenvectors(Z: Matrix, rank: int) -> Matrix:
    """Return the eigenvectors of `Z Z'` with the largest eigenvalues, largest first, (len(Z), rank or len(Z))."""
    n = len(Z)
    if n <= SINGLE:
        return np.asarray(np.linalg.eigh(Z @ Z.T)[1][:, ::-1][:, :rank])
    single = Z.astype(np.float32)
    _, V = eigh(single @ single.T, subset_by_index=[max(0, n - rank), n - 1], overwrite_a=True, check_finite=False)
    return np.asarray(V[:, ::-1], dtype=np.float64)
