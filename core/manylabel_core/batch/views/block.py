"""Implicitly centred and scaled matrix with missing rows, for LSA-MML."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.checks import is_sparse
from manylabel_core.rows import row_blocks

Matrix = NDArray[np.float64]


class Block:
    """Implicit matrix `present * (X - mean) / scale`, used only in products.

    X is an ndarray or CSR array, (n_samples, n_features), whose missing rows are 0; `present`, (n_samples,), is None if
    no row is missing.
    """

    def __init__(self, X: Any, present: NDArray[np.bool_] | None, mean: Matrix, scale: float) -> None:
        self.X = X
        self.present = present
        self.mean = mean
        self.scale = scale

    @property
    def n_present(self) -> int:
        return int(self.X.shape[0] if self.present is None else np.count_nonzero(self.present))

    def rows(self, which: NDArray[np.int64]) -> Block:
        """Return the block with a subset of the rows."""
        present = None if self.present is None else self.present[which]
        return Block(self.X[which], present, self.mean, self.scale)

    def times(self, B: Matrix) -> Matrix:
        """Return the product with B (n_features, n_columns), shape (n_samples, n_columns)."""
        B = B / self.scale
        product: Matrix = np.asarray(self.X @ B)
        shift = self.mean @ B
        if self.present is None:
            product -= shift
        else:
            product[self.present] -= shift
        return product

    def cross(self, P: Matrix) -> Matrix:
        """Return the product of the transpose with P (n_samples, n_columns), shape (n_features, n_columns)."""
        total = P.sum(axis=0) if self.present is None else P[self.present].sum(axis=0)
        product: Matrix = np.ascontiguousarray(self.X.T @ P)
        product -= np.outer(self.mean, total)
        product /= self.scale
        return product

    def gram(self, P: Matrix) -> Matrix:
        """Return `P'P` over the present rows."""
        rows = P if self.present is None else P[self.present]
        return rows.T @ rows

    def energy(self) -> float:
        """Return the sum of the squares of all entries, without subtracting large sums from each other."""
        total = _sparse_energy(self) if is_sparse(self.X) else _dense_energy(self)
        return total / self.scale**2


def column_means(X: Any, n_present: int) -> Matrix:
    """Return means of the columns over the present rows; missing rows are 0."""
    return np.asarray(X.sum(axis=0), dtype=np.float64).ravel() / max(1, n_present)


def without_rows(X: Any, missing: NDArray[np.bool_]) -> Any:
    """Return X with 0 in the missing rows, whose contents are ignored."""
    if not missing.any():
        return X
    if not is_sparse(X):
        return np.where(missing[:, np.newaxis], 0.0, X)
    X = sp.csr_array(X)
    kept = ~np.repeat(missing, np.diff(X.indptr))
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return sp.csr_array((X.data[kept], X.indices[kept], before[X.indptr]), shape=X.shape)


def _dense_energy(block: Block) -> float:
    total = 0.0
    for rows in row_blocks(block.X.shape[0], 8 * block.X.shape[1]):
        part = block.X[rows] - block.mean
        if block.present is not None:
            part[~block.present[rows]] = 0.0
        total += float(np.vdot(part, part))
    return total


def _sparse_energy(block: Block) -> float:
    stored = block.X.data - block.mean[block.X.indices]
    absent = block.n_present - np.bincount(block.X.indices, minlength=block.X.shape[1])
    return float(np.vdot(stored, stored) + absent @ block.mean**2)
