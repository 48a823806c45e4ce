"""Linear models: scores, and FALT's learning.

Weights stand feature by feature, `table[1 + feature, 0, column]`, so that an example touches one contiguous run
of weights for each of its values. Row 0 belongs to a constant feature, the intercept (0 if there is none), and
column 0 to the threshold. SALT keeps its sums of squares in a second plane, `table[1 + feature, 1, column]`.

Nothing can overflow: a round moves a weight by at most MAX_PASSES x 2^20 (the largest eta) x MAX_MAGNITUDE, about
1e26, and a sum in float32 takes no more steps that are 2^25 times smaller than itself, so that weights stay below
1e34, and their scores, in float64, far below infinity.
"""

import numpy as np

from manylabel_core._compiled import kernel
from manylabel_core.online._rounds import pass_limit, set_sides, settle


@kernel
def score_linear(table, constant, indptr, indices, values, scores):  # type: ignore[no-untyped-def]
    """Write the scores (n_samples, 1 + n_labels) of rows; features without weights count as 0."""
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        score_row(table, constant, indices[row], values[row], scores[i])


@kernel
def score_row(table, constant, features, values, scores):  # type: ignore[no-untyped-def]
    """Write the scores of one example: sums over its features in their order, in float64."""
    for column in range(len(scores)):
        scores[column] = constant * table[0, 0, column]
    known = np.searchsorted(features, len(table) - 1)
    for p in range(0, known - 1, 2):  # in pairs: half as many passes over the scores, the same order of sums
        i, x, j, y = 1 + features[p], np.float64(values[p]), 1 + features[p + 1], np.float64(values[p + 1])
        for column in range(len(scores)):
            scores[column] = (scores[column] + x * table[i, 0, column]) + y * table[j, 0, column]
    if known % 2:
        i, x = 1 + features[known - 1], np.float64(values[known - 1])
        for column in range(len(scores)):
            scores[column] += x * table[i, 0, column]


@kernel
def squared_norm(values, constant):  # type: ignore[no-untyped-def]
    """|x|^2 in float64, the constant feature included."""
    total = constant * constant
    for value in values:
        total += np.float64(value) * value
    return total


@kernel
def learn_falt(  # type: ignore[no-untyped-def]
    table,
    constant,
    eta,
    passes,
    passes_per_label,
    indptr,
    indices,
    values,
    listed_indptr,
    listed,
    signs,
    complete,
    n_labels,
    scores,
):
    """Learn rows in order by Eqs. (4) to (6); write each one's scores before it was learnt."""
    width = scores.shape[1]
    sides, tau = np.empty(width, np.int8), np.empty(width, table.dtype)
    order, start, moves = np.empty(width, np.int32), np.empty(width, np.float64), np.empty(width, np.int32)
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        now = slice(0, 1 + n_labels[i])  # columns of labels that do not exist yet stay untouched
        scores[i, now.stop :] = 0.0
        score_row(table, constant, indices[row], values[row], scores[i, now])
        set_sides(listed[truth], signs[truth], complete[i], sides[now])
        k = squared_norm(values[row], constant)
        limit = pass_limit(passes, passes_per_label, n_labels[i])
        if settle(scores[i, now], sides[now], eta, k, limit, tau[now], order, start, moves):
            _add_outer(table, constant, indices[row], values[row], tau[now])


@kernel
def _add_outer(table, constant, features, values, tau):  # type: ignore[no-untyped-def]
    """Add x tau' to the weights."""
    _add(table, 0, table.dtype.type(constant), tau)
    for p in range(len(features)):
        _add(table, 1 + features[p], values[p], tau)


@kernel
def _add(table, row, value, tau):  # type: ignore[no-untyped-def]
    """Everything is of the table's type: a conversion for each weight would cost as much as the sum."""
    for column in range(len(tau)):
        table[row, 0, column] += value * tau[column]
