"""The metric of each weight of SALT (AdaGrad), and an implicit update of one example in it, Eq. (9) of
docs/mathematics.md.

A weight moves by its rate, inv(H) in the notation of `_implicit`: rate = 1 / (delta + sqrt(S)), with the sum S of its
squared gradients in plane 1. The gradient that the update ends with is the step of a column, over eta, times x; its
square is added afterwards.

Weights stay within `MAX_WEIGHT_STEPPED`, and squares within `MAX_SQUARES`: other values are clipped, which is the
projection onto this box in any such metric. An overflow on the way is clipped too, and no difference of two values that
can overflow occurs, so there is no NaN.

Examples are divided by a power of two about as large as their largest value. This changes no bit of the result, but
prevents an overflow of the gain of a column in float32.
"""

import math

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._table import padded
from manylabel_core.online.updates._implicit import GAINS, STEPS, has_loss, implicit_update

SQUARES = 1
"""The plane of the squares."""

MAX_WEIGHT_STEPPED = 1e28
MAX_SQUARES = 1e38
MIN_DELTA = 1 / MAX_WEIGHT_STEPPED
"""delta is at least this, so that no rate is larger than `MAX_WEIGHT_STEPPED`."""

MIN_EXAMPLE = 1e-80
"""An example whose values are all smaller teaches nothing: its gains would be too small for float64."""


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


@compiled
def adaptive_implicit_update(table, rows, x, eta, delta, weight, scores, signs, scratch):  # type: ignore[no-untyped-def]
    """Solve the problem of one example, and write it into the table."""
    rates, sums, order, work = scratch
    scale = _scale_down(x)
    if scale < MIN_EXAMPLE or not has_loss(scores, signs):
        return
    wide = slice(0, padded(table, len(scores)))
    gains, moves, gradient = sums[0, wide], sums[1, wide], sums[2, wide]
    set_metric(table, rows, x, delta, rates, gains)
    exact, steps = work[GAINS, : len(scores)], work[STEPS, : len(scores)]
    for column in range(len(scores)):
        exact[column] = scale * scale * gains[column]
    implicit_update(scores, signs, weight * eta, exact, steps, order, work)
    moves[len(scores) :], gradient[len(scores) :] = 0.0, 0.0
    for column in range(len(scores)):
        moves[column], gradient[column] = scale * steps[column], scale * (steps[column] / eta)
    step_by_rates(table, rows, x, moves, gradient, rates)


@compiled
def _scale_down(x):  # type: ignore[no-untyped-def]
    """Divide the values by a power of two, so that the largest is between 1/2 and 1; return it, or 0 if all are 0."""
    largest = 0.0
    for value in x:
        largest = max(largest, abs(np.float64(value)))
    if largest == 0.0:
        return 0.0
    scale = math.ldexp(1.0, math.frexp(largest)[1])
    for p in range(len(x)):
        x[p] /= scale
    return scale
