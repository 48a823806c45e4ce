"""Merging of two support vectors of an RBF kernel into one, Eq. (20) of docs/mathematics.md.

The vectors a and b are replaced by z = h a + (1 - h) b. If alpha_a is not the longer of the two, the best h is at most
1/2.
"""

import math
from typing import Any

import numpy as np

from manylabel_core._elementary import exp, log
from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._table import squared_norm

GOLDEN = 0.6180339887498949
STEPS = 24
"""Steps of the golden section: h comes within 5e-6, and the loss, flat there, within rounding."""

MAX_DISTANCE = 690.0
"""Maximum c: above it the kernel is 0 but for rounding."""


@compiled
def find_partner(alpha, alpha_norms, slot, column, n_vectors):  # type: ignore[no-untyped-def]
    """Return the vector to merge that of a slot with, and h."""
    a = alpha_norms[slot]
    nearest: Any = np.int64(-1)  # not a literal, which has another type
    for v in range(n_vectors):
        if v != slot and (nearest < 0 or column[v] > column[nearest]):
            nearest = v
    h, least = best_mixture(a, alpha_norms[nearest], _product(alpha, slot, nearest), column[nearest])
    partner = nearest
    for v in range(n_vectors):
        if v in (slot, nearest):
            continue
        ab = _product(alpha, slot, v)
        if _least_loss(a, alpha_norms[v], ab, column[v]) < least:  # otherwise no h is better
            mixture, loss = best_mixture(a, alpha_norms[v], ab, column[v])
            if loss < least:
                partner, h, least = v, mixture, loss
    return partner, h


@compiled
def best_mixture(aa, bb, ab, value):  # type: ignore[no-untyped-def]
    """Return h in [0, 1/2] and the loss, from the products of the coefficients (aa <= bb) and K(a, b)."""
    c = -log(value) if value > 0.0 else MAX_DISTANCE
    low, high = 0.0, 0.5
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    kept_left, kept_right = _kept(aa, bb, ab, c, left), _kept(aa, bb, ab, c, right)
    for _ in range(STEPS):
        if kept_left >= kept_right:
            high, right, kept_right = right, left, kept_left
            left = high - GOLDEN * (high - low)
            kept_left = _kept(aa, bb, ab, c, left)
        else:
            low, left, kept_left = left, right, kept_right
            right = low + GOLDEN * (high - low)
            kept_right = _kept(aa, bb, ab, c, right)
    h = 0.5 * (low + high)
    kept, at_b = _kept(aa, bb, ab, c, h), _kept(aa, bb, ab, c, 0.0)
    if at_b >= kept:
        h, kept = 0.0, at_b
    return h, aa + bb + 2.0 * exp(-c) * ab - kept


@compiled
def _kept(aa, bb, ab, c, h):  # type: ignore[no-untyped-def]
    """Return |alpha_z|^2."""
    u, v = exp(-c * (1.0 - h) * (1.0 - h)), exp(-c * h * h)
    return aa * u * u + bb * v * v + 2.0 * ab * u * v


@compiled
def similarities(value, h):  # type: ignore[no-untyped-def]
    """Return K(a, z) and K(b, z), from K(a, b), which is 0 for vectors too far apart for float64."""
    if value <= 0.0:
        return 1.0 if h == 1.0 else 0.0, 1.0 if h == 0.0 else 0.0
    c = -log(value)
    return exp(-c * (1.0 - h) * (1.0 - h)), exp(-c * h * h)


@compiled
def _least_loss(aa, bb, ab, value):  # type: ignore[no-untyped-def]
    """Return the loss of the best single direction in feature space, the smaller eigenvalue: a bound for every z."""
    trace = aa + bb + 2.0 * value * ab
    determinant = max(aa * bb - ab * ab, 0.0) * max(1.0 - value * value, 0.0)
    return 0.5 * (trace - math.sqrt(max(trace * trace - 4.0 * determinant, 0.0)))


@compiled
def _product(alpha, u, v):  # type: ignore[no-untyped-def]
    total = 0.0
    for column in range(alpha.shape[2]):
        total += np.float64(alpha[u, 0, column]) * np.float64(alpha[v, 0, column])
    return total


@compiled
def shrink(alpha, alpha_norms, n_vectors, kept):  # type: ignore[no-untyped-def]
    """Multiply the coefficients of the first vectors, all planes, by `kept`; update their weights."""
    for v in range(n_vectors):
        for plane in range(alpha.shape[1]):
            for column in range(alpha.shape[2]):
                alpha[v, plane, column] *= kept
        alpha_norms[v] = squared_norm(alpha[v, 0], 0.0)


@compiled
def mix(first_indices, first_values, second_indices, second_values, h, indices, values):  # type: ignore[no-untyped-def]
    """Write h a + (1 - h) b without zeros; return the number of values."""
    p, q, n = 0, 0, 0
    while p < len(first_indices) or q < len(second_indices):
        at = np.int64(2**31)
        if p < len(first_indices):
            at = np.int64(first_indices[p])
        if q < len(second_indices):
            at = min(at, np.int64(second_indices[q]))
        value = 0.0
        if p < len(first_indices) and first_indices[p] == at:
            value += h * first_values[p]
            p += 1
        if q < len(second_indices) and second_indices[q] == at:
            value += (1.0 - h) * second_values[q]
            q += 1
        indices[n], values[n] = at, value
        n += values[n] != 0
    return n
