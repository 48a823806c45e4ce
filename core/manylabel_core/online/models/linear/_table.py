"""Linear models: their table of weights, and the scores.

Weights are stored by feature, in `table[1 + feature, 0, column]`, so an example reads one contiguous run of weights for
each of its values. Row 0 is the intercept, the weights of a constant feature, or 0 without one. Column 0 is the
threshold. Further numbers of each weight are in further planes, `table[1 + feature, plane, column]`.

Nothing can overflow. Gradient passes of FALT or SALT move a weight by at most MAX_PASSES x 2^20 (the largest eta) x
MAX_EXAMPLE_WEIGHT x MAX_MAGNITUDE, about 1e29, and an implicit update of FALT with 2^20 labels by 1e30. A sum in
float32 ignores steps 2^25 times smaller than the sum, so weights stay below 1e37 and 1e38. Weights with a metric of
their own are clipped (see `_adaptive_implicit`). Scores, in float64, are far below infinity.
"""

import numpy as np

from manylabel_core._ascending import count_below
from manylabel_core.compiled import compiled

PADDING = 8
"""Divisor of the number of columns; columns without a label hold zeros."""

WEIGHTS = np.int64(0)
"""The plane of the weights: not a literal, for which numba would compile `score_plane` once more."""


@compiled
def score_linear(table, constant, examples, scores):  # type: ignore[no-untyped-def]
    """Write the scores (n_samples, 1 + n_labels) of rows to predict by; features without weights count as 0."""
    indptr, indices, values = examples
    scored = np.empty(padded(table, scores.shape[1]), np.float64)
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        score_example(table, constant, indices[row], values[row], scored, scores[i])


@compiled
def padded(table, n_columns):  # type: ignore[no-untyped-def]
    """Return this number of columns rounded up to `PADDING` within the table: loops over a multiple of it are twice as
    fast for few labels. Values beyond the columns of an example must be written back unchanged.
    """
    return min(table.shape[2], (n_columns + PADDING - 1) // PADDING * PADDING)


@compiled
def score_example(table, constant, features, values, scored, scores):  # type: ignore[no-untyped-def]
    """Write the scores of one example; `scored` is scratch, which holds them too."""
    present = scored[: padded(table, len(scores))]
    score_plane(table, WEIGHTS, constant, features, values, present)
    for column in range(len(scores)):
        scores[column] = present[column]


@compiled
def score_plane(table, plane, constant, features, values, scores):  # type: ignore[no-untyped-def]
    """Write the scores of one example by one plane: sums over its features in their order, in float64."""
    for column in range(len(scores)):
        scores[column] = constant * table[0, plane, column]
    known = count_below(features, len(table) - 1)
    last = known // 4 * 4
    for p in range(0, last, 4):  # four at a time: a quarter of the passes over the scores, and the same order of sums
        a, b, c, d = _row(features[p]), _row(features[p + 1]), _row(features[p + 2]), _row(features[p + 3])
        u, v, w, x = (
            np.float64(values[p]),
            np.float64(values[p + 1]),
            np.float64(values[p + 2]),
            np.float64(values[p + 3]),
        )
        for column in range(len(scores)):
            before = (scores[column] + u * table[a, plane, column]) + v * table[b, plane, column]
            scores[column] = (before + w * table[c, plane, column]) + x * table[d, plane, column]
    for p in range(last, known):
        a, u = _row(features[p]), np.float64(values[p])
        for column in range(len(scores)):
            scores[column] += u * table[a, plane, column]


@compiled
def _row(feature):  # type: ignore[no-untyped-def]
    """Return the row of a feature as unsigned, because numba checks signed indices for negative values."""
    return np.uint64(1 + feature)


@compiled
def set_example(constant, features, values, rows, x):  # type: ignore[no-untyped-def]
    """Write the rows of the table that an example touches and its values there; return their number."""
    first = 0 if constant == 0.0 else 1
    rows[0], x[0] = 0, constant
    for p in range(len(features)):
        rows[first + p] = 1 + features[p]
        x[first + p] = values[p]
    return first + len(features)


@compiled
def add_outer(table, rows, direction, tau):  # type: ignore[no-untyped-def]
    """Add direction tau' to the weights; all are of the table's type, because conversions would cost as much as the
    sums.
    """
    for p in range(len(rows)):
        weights, value = table[rows[p], 0], direction[p]
        for column in range(len(tau)):
            weights[column] += value * tau[column]


@compiled
def squared_norm(values, constant):  # type: ignore[no-untyped-def]
    """Return |x|^2 in float64, the constant feature included."""
    total = constant * constant
    for value in values:
        total += np.float64(value) * value
    return total


@compiled
def longest_row(indptr):  # type: ignore[no-untyped-def]
    """Return the most entries of a row, the constant feature included."""
    longest = 1
    for i in range(len(indptr) - 1):
        longest = max(longest, 1 + indptr[i + 1] - indptr[i])
    return longest
