"""Update of SALT by the passes of the paper (Algorithm 3), Eq. (8) of docs/mathematics.md.

Every step needs its own root and division, so the M passes are run literally, for labels with a violation only. The
column of such a label is copied out of the table, stepped in contiguous memory, and copied back. Only if M is 1 and
most labels move, the table itself is changed row by row.
"""

import numpy as np

from manylabel_core.compiled import compiled


@compiled
def adaptive_multipass_update(  # type: ignore[no-untyped-def]
    table, rows, x, eta, delta, weight, passes, scores, signs, scratch
):
    """Run the passes over one example and write them into the table; `scores` follows the weights."""
    gradient, columns, changes, out = scratch
    eta, width = table.dtype.type(eta), len(scores)
    out[:width] = False
    for _ in range(passes):
        violated = set_gradient(scores, signs, weight, gradient)
        if violated == 0:
            break
        if passes == 1 and 2 * violated > width:
            _step_rows(table, rows, x, gradient[:width], eta, delta)
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


@compiled
def set_gradient(scores, signs, weight, gradient):  # type: ignore[no-untyped-def]
    """Write the factor of x in the gradient of each column below Eq. (6); return the number of violations."""
    n_relevant, n_irrelevant, raised, lowered = 0, 0, 0, 0
    for column in range(1, len(scores)):
        violation = np.int64(signs[column] * (scores[column] - scores[0]) < 1.0)
        n_relevant += signs[column] > 0
        n_irrelevant += signs[column] < 0
        raised += violation * (signs[column] > 0)
        lowered += violation * (signs[column] < 0)
    up, down = weight / max(n_relevant, 1), weight / max(n_irrelevant, 1)
    gradient[0] = raised * up - lowered * down
    for column in range(1, len(scores)):
        violated = signs[column] * (scores[column] - scores[0]) < 1.0
        gradient[column] = -np.float64(violated) * (up * (signs[column] > 0) - down * (signs[column] < 0))
    return raised + lowered


@compiled
def _step_rows(table, rows, x, gradient, eta, delta):  # type: ignore[no-untyped-def]
    """Step the weights of all columns, feature by feature."""
    for p in range(len(rows)):
        row, value = rows[p], x[p]
        for column in range(len(gradient)):
            before, squares, g = table[row, 0, column], table[row, 1, column], value * gradient[column]
            table[row, 0, column], table[row, 1, column] = _step(before, squares, g, eta, delta)


@compiled
def _step_column(weights, x, factor, eta, delta, changes):  # type: ignore[no-untyped-def]
    """Step the weights of one column for all features; return the change of its score."""
    for p in range(len(x)):
        before = weights[0, p]
        weights[0, p], weights[1, p] = _step(before, weights[1, p], x[p] * factor, eta, delta)
        changes[p] = np.float64(x[p]) * (np.float64(weights[0, p]) - np.float64(before))
    change = 0.0
    for p in range(len(x)):
        change += changes[p]
    return change


@compiled
def _step(weight, squares, g, eta, delta):  # type: ignore[no-untyped-def]
    """Return a weight and its sum of squared gradients after a step against g; all are of the weights' type."""
    squares += g * g
    return weight - eta * g / (delta + np.sqrt(squares)), squares


@compiled
def _copy_out(table, rows, column, columns):  # type: ignore[no-untyped-def]
    for p in range(len(rows)):
        columns[column, 0, p] = table[rows[p], 0, column]
        columns[column, 1, p] = table[rows[p], 1, column]


@compiled
def _copy_back(table, rows, column, columns):  # type: ignore[no-untyped-def]
    for p in range(len(rows)):
        table[rows[p], 0, column] = columns[column, 0, p]
        table[rows[p], 1, column] = columns[column, 1, p]
