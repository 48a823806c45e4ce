"""Probabilities of scores: Platt scaling per label, fitted to out-of-fold scores, Eq. (42) of docs/mathematics.md.

One pair of slope and intercept for all labels is fitted first (Platt, 1999). A small penalty keeps the pair of each
label near it, so that rare labels can be calibrated too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from manylabel_core.batch.decisions.thresholds import Matrix, Truth
from manylabel_core.rows import row_blocks

PRICE = 1.0
"""Weight of the distance between the curve of a label and the curve of all labels."""
LONGEST_STEP = 2.0
MOST_STEPS = 50
SMALLEST_STEP = 1e-9
SAMPLE = 1 << 22
"""Approximate maximum number of scores, of evenly spaced rows, to which the curve of all labels is fitted."""


def fit_curves(scores: Matrix, Y: Truth, weights: Matrix | None = None) -> Matrix:
    """Return slopes, at least 0, and intercepts, shape (2, n_labels), fitted to scores and true labels."""
    some = slice(None, None, -(-scores.size // SAMPLE))
    width = _spread(scores[some], None if weights is None else weights[some]) or 1.0
    of_some = None if weights is None else np.repeat(weights[some], scores.shape[1])
    common = _newton(scores[some].reshape(-1, 1) / width, Y[some].reshape(-1, 1), of_some, np.zeros((2, 1)), PRICE)
    curves = np.empty((2, scores.shape[1]))
    for labels in row_blocks(scores.shape[1], 8 * len(scores)):
        z, y = scores[:, labels] / width, Y[:, labels]
        own = _newton(z, y, weights, common, PRICE)
        if (falling := own[0] < 0).any():
            level = common * np.array([[0.0], [1.0]])
            own[:, falling] = _newton(np.zeros_like(z[:, falling]), y[:, falling], weights, level, PRICE)
        curves[:, labels] = own
    curves[0] /= width
    return curves


def probabilities(scores: Matrix, curves: Matrix) -> Matrix:
    """Return the probabilities of scores, both of shape (n_samples, n_labels), float64."""
    found: NDArray[np.float64] = expit(scores * curves[0] + curves[1])
    return found


def _spread(scores: Matrix, weights: Matrix | None) -> float:
    """Return the standard deviation of scores."""
    if weights is None:
        return float(scores.std())
    counts = np.broadcast_to(weights[:, None], scores.shape)
    return float(np.sqrt(np.average((scores - np.average(scores, weights=counts)) ** 2, weights=counts)))


def _newton(z: Matrix, Y: Truth, weights: Matrix | None, near: Matrix, price: float) -> Matrix:
    """Return the curve of each column, shrunk towards `near` of shape (2, 1): ndarray of shape (2, n_columns)."""
    a, b = (np.repeat(part, z.shape[1]) for part in near)
    for _ in range(MOST_STEPS):
        p = expit(z * a + b)
        error, weight = p - Y, p * (1.0 - p)
        if weights is not None:
            error, weight = weights[:, None] * error, weights[:, None] * weight
        slope = (error * z).sum(axis=0) + price * (a - near[0])
        level = error.sum(axis=0) + price * (b - near[1])
        zz, zo, oo = (weight * z * z).sum(axis=0) + price, (weight * z).sum(axis=0), weight.sum(axis=0) + price
        determinant = zz * oo - zo * zo
        steps = np.clip(
            [(oo * slope - zo * level) / determinant, (zz * level - zo * slope) / determinant],
            -LONGEST_STEP,
            LONGEST_STEP,
        )
        a, b = a - steps[0], b - steps[1]
        if np.abs(steps).max(initial=0.0) < SMALLEST_STEP:
            break
    return np.stack([a, b])
