"""An implicit update of SALT, in the metric that its weights have before it.

The gradient that the update ends with is the step of a column, over eta, times x; its square goes into the metric
afterwards.

Examples are divided by a power of two about as large as their largest value: it changes no bit of the result, but
that no gain of a column overflows in float32.

See Eq. (9) of docs/mathematics.md.
"""

import math

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._metric import set_metric, step_by_rates
from manylabel_core.online.models.linear._table import padded
from manylabel_core.online.updates._implicit import GAINS, STEPS, has_loss, implicit_update

MIN_EXAMPLE = 1e-80
"""An example whose values are all smaller teaches nothing: its gains would be too small for float64."""


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
