"""The optimal label covariance of MLRL for fixed weights, Eq. (11) of the paper, Eq. (26) of docs/mathematics.md.

Omega is positive semi-definite with trace 1. With S = Omega / lambda and M = B'KB the weights have the Gram
matrix W'W = S M S, and cost lambda/2 tr(inv(Omega) W'W).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FLOOR = 1e-7
"""Smallest eigenvalue of a covariance, relative to its trace, above rounding errors: below it, eps I is added."""

Matrix = NDArray[np.float64]


class Best(NamedTuple):
    """Optimal covariance with its cost, tr(inv(Omega) W'W), and its eps."""

    covariance: Matrix
    cost: float
    eps: float


def best_covariance(WW: Matrix) -> Best:
    """Return `Omega = (W'W)^1/2 / tr((W'W)^1/2)`; before the scaling, eps I is added to a singular matrix."""
    squares, V = np.linalg.eigh(WW)
    squares = np.maximum(squares, 0.0)
    roots = np.sqrt(squares)
    roots /= roots.sum()
    eps = float(max(0.0, FLOOR - roots[0]))
    values = (roots + eps) / (1.0 + len(roots) * eps)
    return Best(rebuilt(values, V), float((squares / values).sum()), eps)


def correlation(covariance: Matrix) -> Matrix:
    """Return the covariance scaled to a unit diagonal."""
    spread = np.sqrt(np.diag(covariance))
    scaled = covariance / np.outer(spread, spread)
    np.fill_diagonal(scaled, 1.0)
    return np.asarray(scaled)


def rebuilt(values: Matrix, V: Matrix) -> Matrix:
    """Return `V diag(values) V'`, exactly symmetric."""
    product = (V * values) @ V.T
    return (product + product.T) / 2
