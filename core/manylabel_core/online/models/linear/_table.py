"""Linear models: their table of weights, the scores, and running means.

Weights stand feature by feature, `table[1 + feature, 0, column]`, so that an example touches one contiguous run
of weights for each of its values. Row 0 belongs to a constant feature, the intercept (0 if there is none), and
column 0 to the threshold. Sums that a learner keeps for every weight stand in further planes, `table[1 + feature,
plane, column]`; then come, for a pair of models (see `_pair`), the weights of the second, and last, where means are
kept, the drag of each model's weights.

The drag U gives the running mean of a weight W without touching it in every round: with t the age of its column, the
number of examples since the label exists, the mean of W after each of them is W - U / t. A change D of the weight
at age a (before the example) adds a D to U; a round that moves nothing writes nothing. A column so has the mean since
its label appeared: with zeros before, it would be the same, times a share that only makes a new label fainter.

In float32, with R the largest distance of the weight from its mean so far: U is at most t R, and each of the n changes
of the weight is rounded to 2^-24 of it, so that the mean is wrong by at most about 2^-24 n R, and since the
roundings do not conspire, by about 2^-24 sqrt(n) R: 6e-5 R after a million. D is the change of the weight as it stands
in the table: its own roundings are in the mean, as they are in the weight.

Nothing can overflow: a gradient round of FALT or SALT moves a weight by at most MAX_PASSES x 2^20 (the largest eta) x
MAX_MAGNITUDE, about 1e26, and an exact round of FALT with 2^31 labels by 1e30. A sum in float32 takes no more steps
that are 2^25 times smaller than itself, so that weights stay below 1e34 and 1e38. What steps by a metric of every
weight, and the drag, is kept in a box (see `_rates`, and `MOST_DRAG`). Scores, in float64, are far below infinity.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._experts import constant_of, leader

PADDING = 8
"""The table has columns in multiples of this; those of no label hold zeros."""

MOST_DRAG = 1e38
"""The drag is cut here, for float32; the mean is wrong once a weight has come beyond this over the age of its label."""


@compiled
def score_linear(table, ages, record, constant, indptr, indices, values, scores):  # type: ignore[no-untyped-def]
    """Write the scores (n_samples, 1 + n_labels) of rows to predict by; features without weights count as 0."""
    planes = planes_scored(table, ages, record)
    scored = np.empty((len(planes), padded(table, scores.shape[1])), np.float64)
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        score_example(table, planes, ages, record, constant, indices[row], values[row], scored, scores[i])


@compiled
def padded(table, n_columns):  # type: ignore[no-untyped-def]
    """How many columns loops should run over: so many, and what is left of the last `PADDING` of them in the table.

    Loops over a multiple of it are twice as fast for few labels. What they write beyond the columns of an example must
    be what was there.
    """
    return min(table.shape[2], (n_columns + PADDING - 1) // PADDING * PADDING)


@compiled
def planes_scored(table, ages, record):  # type: ignore[no-untyped-def]
    """The planes that scores are taken by: the weights of each model, then their drags, if there are any."""
    n_models, n_drags = 1 + (len(record) > 0), 0
    if len(ages) > 0:
        n_drags = n_models
    planes = np.zeros(n_models + n_drags, np.int64)
    for q in range(1, len(planes)):  # all but the first stand at the end of the table
        planes[q] = table.shape[1] - len(planes) + q
    return planes


@compiled
def score_example(table, planes, ages, record, constant, features, values, scored, scores):  # type: ignore[no-untyped-def]
    """Write the scores of one example to predict by, and what they come from.

    Parameters
    ----------
    planes : array of shape (n_planes,)
        As `planes_scored` gives them.
    ages : array of shape (1 + n_labels,), or (0,) where there are no means
    record : array of shape (2, 2), or (0, 2) where there is one model
    scored : array of shape (n_planes, >= 1 + n_labels), float64
        Result: the present scores of each model and, where there are means, those by which each of them predicts.
        Whatever stands beyond the labels is of no use.
    scores : array of shape (1 + n_labels,), float64
        Result: those by which the leading model predicts.
    """
    n_models = 1 + (len(record) > 0)
    for q in range(len(planes)):
        own = constant_of(q % n_models, constant)
        _score_plane(table, planes[q], own, features, values, scored[q, : padded(table, len(scores))])
    if len(ages) > 0:
        for q in range(n_models):
            for column in range(len(scores)):
                drag = scored[n_models + q, column]
                scored[n_models + q, column] = scored[q, column] - drag / max(ages[column], 1)
    best = scored[len(planes) - n_models + leader(record)]
    for column in range(len(scores)):
        scores[column] = best[column]


@compiled
def _score_plane(table, plane, constant, features, values, scores):  # type: ignore[no-untyped-def]
    """Write the scores of one example by one plane: sums over its features in their order, in float64."""
    for column in range(len(scores)):
        scores[column] = constant * table[0, plane, column]
    known = np.searchsorted(features, len(table) - 1)
    for p in range(0, known - 1, 2):  # in pairs: half as many passes over the scores, the same order of sums
        i, x, j, y = 1 + features[p], np.float64(values[p]), 1 + features[p + 1], np.float64(values[p + 1])
        for column in range(len(scores)):
            scores[column] = (scores[column] + x * table[i, plane, column]) + y * table[j, plane, column]
    if known % 2:
        i, x = 1 + features[known - 1], np.float64(values[known - 1])
        for column in range(len(scores)):
            scores[column] += x * table[i, plane, column]


@compiled
def set_example(constant, features, values, rows, x):  # type: ignore[no-untyped-def]
    """Write the rows of the table that an example touches and its values there; give their number."""
    first = 0 if constant == 0.0 else 1
    rows[0], x[0] = 0, constant
    for p in range(len(features)):
        rows[first + p] = 1 + features[p]
        x[first + p] = values[p]
    return first + len(features)


@compiled
def add_outer(table, plane, rows, direction, tau):  # type: ignore[no-untyped-def]
    """Add direction tau' to the weights of one plane.

    Everything is of the table's type: a conversion for each weight would cost as much as the sum.
    """
    for p in range(len(rows)):
        row, value = rows[p], direction[p]
        for column in range(len(tau)):
            table[row, plane, column] += value * tau[column]


@compiled
def keep(table, plane, rows, before):  # type: ignore[no-untyped-def]
    """Copy the weights of some rows, to know their change; `before` has no rows where there are no means."""
    for p in range(min(len(rows), len(before))):
        row = rows[p]
        for column in range(before.shape[1]):
            before[p, column] = table[row, plane, column]


@compiled
def drag(table, plane, drags, rows, age, before):  # type: ignore[no-untyped-def]
    """Take the change of some rows' weights since `before` into their drags, of plane `drags`.

    `age` holds the ages of the columns, in the table's type.
    """
    most = table.dtype.type(MOST_DRAG)
    for p in range(min(len(rows), len(before))):
        row = rows[p]
        for column in range(len(age)):
            change = table[row, plane, column] - before[p, column]
            dragged = table[row, drags, column] + age[column] * change
            table[row, drags, column] = min(max(dragged, -most), most)


@compiled
def squared_norm(values, constant):  # type: ignore[no-untyped-def]
    """|x|^2 in float64, the constant feature included."""
    total = constant * constant
    for value in values:
        total += np.float64(value) * value
    return total


@compiled
def longest_row(indptr):  # type: ignore[no-untyped-def]
    """Most entries of a row, the constant feature included."""
    longest = 1
    for i in range(len(indptr) - 1):
        longest = max(longest, 1 + indptr[i + 1] - indptr[i])
    return longest
