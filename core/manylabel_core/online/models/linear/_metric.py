"""The metric of each weight of SALT (AdaGrad), and how a weight moves by it.

A weight moves by its rate, inv(H) in the notation of `_implicit`: rate = 1 / (delta + sqrt(S)), with the sum S of its
squared gradients in plane 1.

Weights stay within `MAX_WEIGHT_STEPPED`, and squares within `MAX_SQUARES`: what would leave the box is put on its edge,
which is the projection onto it in any such metric. An overflow on the way so has the edge for its result, and there
is no NaN: nothing is the difference of two that can overflow.

See Eq. (9) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core.compiled import compiled

SQUARES = 1
"""The plane of the squares."""

MAX_WEIGHT_STEPPED = 1e28
MAX_SQUARES = 1e38
MIN_DELTA = 1 / MAX_WEIGHT_STEPPED
"""delta is at least this, so that no rate is larger than `MAX_WEIGHT_STEPPED`."""


@compiled
def set_metric(table, rows, x, delta, rates, gains):  # type: ignore[no-untyped-def]
    """Write the rates of the rows of an example by their squares, and the gains of the columns by x."""
    gains[:] = 0
    one = table.dtype.type(1)
    for p in range(len(rows)):
        row, square = rows[p], x[p] * x[p]
        for column in range(len(gains)):
            rate = one / (delta + np.sqrt(table[row, SQUARES, column]))
            rates[p, column] = rate
            gains[column] += square * rate


@compiled
def step_by_rates(table, rows, x, moves, gradient, rates):  # type: ignore[no-untyped-def]
    """Move the weights by their rates, and add the squares of their gradients; unchanged columns move by 0."""
    largest, most = table.dtype.type(MAX_WEIGHT_STEPPED), table.dtype.type(MAX_SQUARES)
    for p in range(len(rows)):
        row, value = rows[p], x[p]
        for column in range(len(moves)):
            weight = table[row, 0, column] + value * rates[p, column] * moves[column]
            table[row, 0, column] = min(max(weight, -largest), largest)
            g = value * gradient[column]
            table[row, SQUARES, column] = min(table[row, SQUARES, column] + g * g, most)
