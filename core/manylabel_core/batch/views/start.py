"""Start of LSA-MML's alternation: the leading singular vectors of all views and the labels, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manylabel_core.batch.views import steps
from manylabel_core.batch.views.alternation import Model, Prices
from manylabel_core.batch.views.block import Block, Matrix
from manylabel_core.batch.views.representation import view_factors

SHORT = 1e-6
"""A direction with at most this share of the norm of every view is a rounding error."""
ROUNDS, EXTRA = 4, 8
"""Steps of subspace iteration, and additional directions: the start need not be exact."""


def start(
    views: Sequence[Block],
    labels: Block,
    prices: Prices,
    n_components: int,
    random: np.random.RandomState,
    alpha: Matrix | None = None,
) -> Model:
    """Return bases and weights from a truncated singular value decomposition, which needs only products.

    Missing rows count as average. alpha gives the weights of views (None: equal weights), and the penalties give the
    weights of labels. Columns beyond the rank of the views are random: singular vectors there are rounding errors, and
    several columns of 0 would stay equal.
    """
    shares = np.array([view.n_present for view in views]) / views[0].X.shape[0]
    if alpha is None:
        alpha = np.full(len(views), 1.0 / shares.sum())
    factors = [*np.sqrt(view_factors(alpha, shares, prices.r)), np.sqrt(prices.beta)]
    blocks = [*views, labels]
    parts, Z = _range(blocks, factors, n_components, random)
    left, _, _ = np.linalg.svd(sum(part.T @ part for part in parts))
    bases = [part @ left / factor for part, factor in zip(parts[:-1], factors[:-1], strict=True)]
    lengths = np.max([np.linalg.norm(B, axis=0) for B in bases], axis=0)
    there = lengths > SHORT * np.sqrt(views[0].X.shape[0])
    kept = np.argsort(~there, kind="stable")[:n_components]  # the leading directions that depend on the views
    left, *bases = (np.where(there, B, 0.0)[:, kept] for B in (left, *bases))
    lengths = np.where(there, lengths, 1.0)[kept]
    P = Z @ (left * lengths)
    W = steps.weights(labels.gram(P), labels.cross(P))
    bases = [np.where(there[kept], B / lengths, _directions(B.shape, random)) for B in bases]
    return Model([steps.in_ball(np.ascontiguousarray(B)) for B in bases], W, alpha)


def _directions(shape: tuple[int, ...], random: np.random.RandomState) -> Matrix:
    columns = random.standard_normal(shape)
    return np.asarray(columns / np.linalg.norm(columns, axis=0))


def _range(
    blocks: Sequence[Block], factors: Sequence[float], n_components: int, random: np.random.RandomState
) -> tuple[list[Matrix], Matrix]:
    """Return an orthonormal Z near the leading left singular vectors, and each block's transpose times Z.

    Algorithm 4.4 by Halko, Martinsson, Tropp (SIAM Review 53, 2011).
    """
    n = min(n_components + EXTRA, blocks[0].X.shape[0])
    parts = [random.standard_normal((block.X.shape[1], n)) for block in blocks]
    for _ in range(ROUNDS):
        total = sum(block.times(factor * part) for block, factor, part in zip(blocks, factors, parts, strict=True))
        Z, _ = np.linalg.qr(total)
        parts = [factor * block.cross(Z) for block, factor in zip(blocks, factors, strict=True)]
    return parts, np.ascontiguousarray(Z)
