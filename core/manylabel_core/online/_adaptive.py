"""SALT's learning: a step size for every weight.

The sum of squared gradients of a weight stands in plane 1 of the table (see `_linear`). Every step needs its own
root and division, so the M passes are run literally; only labels with a violation move. The column of such a label
is copied out of the table, takes its steps of this round there, in one contiguous run, and is copied back. Only
when M is 1 and most labels move does it pay to go through the table itself, row by row.
"""

import numpy as np

from manylabel_core._compiled import kernel
from manylabel_core.online._linear import score_row
from manylabel_core.online._rounds import pass_limit, set_sides

SMALLEST_DELTA = 1e-37
"""delta is at least this, above the smallest normal float32, so that no step divides 0 by 0."""


@kernel
def learn_salt(  # type: ignore[no-untyped-def]
    table,
    constant,
    eta,
    delta,
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
    """Learn rows in order by Algorithm 3; write each one's scores before it was learnt."""
    width = scores.shape[1]
    longest = 1
    for i in range(len(indptr) - 1):
        longest = max(longest, 1 + indptr[i + 1] - indptr[i])
    rows, x = np.empty(longest, np.int64), np.empty(longest, table.dtype)
    columns, changes = np.empty((width, 2, longest), table.dtype), np.empty(longest, np.float64)
    current, gradient = np.empty(width, np.float64), np.empty(width, table.dtype)
    sides, out = np.empty(width, np.int8), np.empty(width, np.bool_)
    eta, delta = table.dtype.type(eta), table.dtype.type(max(delta, SMALLEST_DELTA))
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        now = slice(0, 1 + n_labels[i])  # columns of labels that do not exist yet stay untouched
        scores[i, now.stop :] = 0.0
        score_row(table, constant, indices[row], values[row], scores[i, now])
        current[now] = scores[i, now]
        set_sides(listed[truth], signs[truth], complete[i], sides[now])
        n_rows = _set_example(constant, indices[row], values[row], rows, x)
        limit = pass_limit(passes, passes_per_label, n_labels[i])
        here = slice(0, n_rows)
        _run(
            table,
            rows[here],
            x[here],
            eta,
            delta,
            limit,
            current[now],
            sides[now],
            gradient,
            columns,
            changes,
            out,
        )


@kernel
def _set_example(constant, features, values, rows, x):  # type: ignore[no-untyped-def]
    """Write the rows of the table that an example touches and its values there; give their number."""
    first = 0 if constant == 0.0 else 1
    rows[0], x[0] = 0, constant
    for p in range(len(features)):
        rows[first + p] = 1 + features[p]
        x[first + p] = values[p]
    return first + len(features)


@kernel
def _run(  # type: ignore[no-untyped-def]
    table, rows, x, eta, delta, passes, scores, sides, gradient, columns, changes, out
):
    """The passes of one round; `scores` follows the weights."""
    width = len(scores)
    out[:width] = False
    for _ in range(passes):
        violated = set_gradient(scores, sides, gradient)
        if violated == 0:
            break
        if passes == 1 and 2 * violated > width:
            for p in range(len(rows)):
                _step_row(table, rows[p], x[p], gradient[:width], eta, delta)
            break
        for column in range(width):
            if gradient[column] != 0:
                if not out[column]:
                    out[column] = True
                    _copy_out(table, rows, column, columns)
                scores[column] += _step_column(columns[column], x, gradient[column], eta, delta, changes)
    for column in range(width):
        if out[column]:
            _copy_back(table, rows, column, columns)


@kernel
def set_gradient(scores, sides, gradient):  # type: ignore[no-untyped-def]
    """Write the factor of x in the gradient of each column below Eq. (6); give the number of violations."""
    n_relevant, n_irrelevant, raised, lowered = 0, 0, 0, 0
    for column in range(1, len(scores)):
        violation = np.int64(sides[column] * (scores[column] - scores[0]) < 1.0)
        n_relevant += sides[column] > 0
        n_irrelevant += sides[column] < 0
        raised += violation * (sides[column] > 0)
        lowered += violation * (sides[column] < 0)
    up, down = 1.0 / max(n_relevant, 1), 1.0 / max(n_irrelevant, 1)
    gradient[0] = raised * up - lowered * down
    for column in range(1, len(scores)):
        violated = sides[column] * (scores[column] - scores[0]) < 1.0
        gradient[column] = -np.float64(violated) * (up * (sides[column] > 0) - down * (sides[column] < 0))
    return raised + lowered


@kernel
def _step_row(table, row, value, gradient, eta, delta):  # type: ignore[no-untyped-def]
    """Step the weights of one feature in all columns."""
    for column in range(len(gradient)):
        before, squares, g = table[row, 0, column], table[row, 1, column], value * gradient[column]
        table[row, 0, column], table[row, 1, column] = _step(before, squares, g, eta, delta)


@kernel
def _step_column(weights, x, factor, eta, delta, changes):  # type: ignore[no-untyped-def]
    """Step the weights of one column for all features; give the change of its score."""
    for p in range(len(x)):
        before = weights[0, p]
        weights[0, p], weights[1, p] = _step(before, weights[1, p], x[p] * factor, eta, delta)
        changes[p] = np.float64(x[p]) * (np.float64(weights[0, p]) - np.float64(before))
    change = 0.0
    for p in range(len(x)):
        change += changes[p]
    return change


@kernel
def _step(weight, squares, g, eta, delta):  # type: ignore[no-untyped-def]
    """Give a weight and its sum of squared gradients after a step against g; all are of the weights' type."""
    squares += g * g
    return weight - eta * g / (delta + np.sqrt(squares)), squares


@kernel
def _copy_out(table, rows, column, columns):  # type: ignore[no-untyped-def]
    for p in range(len(rows)):
        columns[column, 0, p] = table[rows[p], 0, column]
        columns[column, 1, p] = table[rows[p], 1, column]


@kernel
def _copy_back(table, rows, column, columns):  # type: ignore[no-untyped-def]
    for p in range(len(rows)):
        table[rows[p], 0, column] = columns[column, 0, p]
        table[rows[p], 1, column] = columns[column, 1, p]
