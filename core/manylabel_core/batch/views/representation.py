"""Common representation of rows for given bases and any available views, Eqs. (12) and (14)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.views.block import Block, Matrix
from manylabel_core.batch.views.steps import representation


class Patterns:
    """Patterns group rows by which blocks they have: all rows that have the same ones have one normal matrix.

    Parameters
    ----------
    blocks : list of Block
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        n = blocks[0].X.shape[0]
        present = [np.ones(n, dtype=np.bool_) if b.present is None else b.present for b in blocks]
        kinds, which = np.unique(np.column_stack(present), axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(which.ravel(), minlength=len(kinds)))
        self.kinds: list[NDArray[np.bool_]] = list(kinds)
        self.rows: list[NDArray[np.int64]] = np.split(order, ends[:-1])

    def solve(self, right: Matrix, normals: Sequence[Matrix], ridge: float | Matrix) -> Matrix:
        """Return rows of P: `P (ridge I + sum of the normals of the blocks a row has) = right`.

        A matrix as ridge stands for `ridge I`.
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
    """Minimise `sum of factors |X - P B'|^2, each over the rows that are there, + ridge |P|^2` over P.

    Parameters
    ----------
    blocks : list of Block
        Blocks with the same number of rows.
    matrices : list of ndarrays of shape (n_features of the block, n_components), float64
        Their bases; the weights of labels are one, too.
    factors : list of float
    ridge : float, or ndarray of shape (n_components, n_components), float64
        Above 0, so that a row with few features, or with views that look alike, has one answer. A matrix stands for
        `ridge I`, and for the price `tr(P ridge P')`.

    Returns
    -------
    ndarray of shape (n_samples, n_components), float64
    """
    right = np.zeros((blocks[0].X.shape[0], matrices[0].shape[1]))
    for factor, matrix, block in zip(factors, matrices, blocks, strict=True):
        right += block.times(factor * matrix)
    normals = [factor * (matrix.T @ matrix) for factor, matrix in zip(factors, matrices, strict=True)]
    return (patterns or Patterns(blocks)).solve(right, normals, ridge)


def view_factors(alpha: Matrix, shares: Matrix, r: float) -> Matrix:
    """Return the factors of the errors of the views, alpha_v^r in (8), scaled to 1 for equal weights.

    So the other prices mean the same for every r and any number of views.
    """
    return np.asarray((alpha * shares.sum()) ** r)


def gauge(bases: Sequence[Matrix], factors: Sequence[float] | Matrix) -> Matrix:
    """Return the root of G = sum_v f_v B_v'B_v: rows of `P root` have the norms of the views explained by P.

    What P and the bases are turned and stretched by, one against the other, has no part in them.
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
