"""Common representation of rows, from bases and any available views, Eqs. (12) and (14)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.views.block import Block, Matrix
from manylabel_core.batch.views.steps import representation


class Patterns:
    """Groups of rows with the same blocks and thus the same normal matrix."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        n = blocks[0].X.shape[0]
        present = [np.ones(n, dtype=np.bool_) if b.present is None else b.present for b in blocks]
        kinds, which = np.unique(np.column_stack(present), axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(which.ravel(), minlength=len(kinds)))
        self.kinds: list[NDArray[np.bool_]] = list(kinds)
        self.rows: list[NDArray[np.int64]] = np.split(order, ends[:-1])

    def solve(self, right: Matrix, normals: Sequence[Matrix], ridge: float | Matrix) -> Matrix:
        """Return rows of P: `P (ridge I + sum of the normals of the blocks of a row) = right`; a matrix replaces `ridge
        I`.
        """
        price = ridge if isinstance(ridge, np.ndarray) else ridge * np.eye(right.shape[1])
        if len(self.kinds) == 1:
            return representation(_sum(price, normals, self.kinds[0]), right)
        P = np.empty_like(right)
        for kind, rows in zip(self.kinds, self.rows, strict=True):
            P[rows] = representation(_sum(price, normals, kind), right[rows])
        return P


def represent(
    blocks: Sequence[Block],
    matrices: Sequence[Matrix],
    factors: Sequence[float],
    ridge: float | Matrix,
    patterns: Patterns | None = None,
) -> Matrix:
    """Minimise `sum of factors |X - P B'|^2, each over its present rows, + ridge |P|^2` over P, (n_samples,
    n_components).

    `matrices` has the bases, or weights of labels, of the blocks. A matrix as ridge replaces `ridge I`.
    """
    right = np.zeros((blocks[0].X.shape[0], matrices[0].shape[1]))
    for factor, matrix, block in zip(factors, matrices, blocks, strict=True):
        right += block.times(factor * matrix)
    normals = [factor * (matrix.T @ matrix) for factor, matrix in zip(factors, matrices, strict=True)]
    return (patterns or Patterns(blocks)).solve(right, normals, ridge)


def view_factors(alpha: Matrix, shares: Matrix, r: float) -> Matrix:
    """Return the factors of the errors of the views, alpha_v^r in (8), scaled to 1 for equal weights."""
    return np.asarray((alpha * shares.sum()) ** r)


def gauge(bases: Sequence[Matrix], factors: Sequence[float] | Matrix) -> Matrix:
    """Return the root of G = sum_v f_v B_v'B_v: rows of `P root` have norms that do not depend on the coordinates that
    P and the bases share.
    """
    G = sum(factor * (B.T @ B) for factor, B in zip(factors, bases, strict=True))
    values, vectors = np.linalg.eigh(G)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _sum(start: Matrix, normals: Sequence[Matrix], kind: NDArray[np.bool_]) -> Matrix:
    total = start.copy()
    for has, normal in zip(kind, normals, strict=True):
        if has:
            total += normal
    return total
