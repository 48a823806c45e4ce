"""Implicit update of one example from its scores, Eqs. (4) to (6) of docs/mathematics.md: its problem is solved
exactly.

H_c of Eq. (4) is the identity (FALT, kernel FALT) or the adaptive metric of column c (SALT). Each column moves along
inv(H_c) x, by a step, and its score by the step times its gain k_c = x' inv(H_c) x. For a threshold th every label has
its step in closed form. The threshold is the root of an increasing, piecewise linear function, found by Newton's method
and guarded by bisection.

References
----------
B. Kulis, P. Bartlett: Implicit online learning, ICML 2010.

H. Asi, J. Duchi: Stochastic (approximate) proximal point methods: convergence, optimality, and adaptivity, SIAM Journal
on Optimization 29(3), 2019.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.updates._targets import group_known

MAX_STEPS = 200
"""Newton steps and bisections. Bisection alone would meet float64's resolution sooner."""

GAINS, STEPS, SCRATCH = 4, 5, 6
"""Rows of `work`: first a label's rate, its kink, and, for a threshold, its step and its slope; then two for callers
that have no place for the gains and the steps; their number."""

MIN_GAIN = 1e-200
"""Gains are at least this, so that nothing overflows when it is divided by one."""


@compiled
def has_loss(scores, signs):  # type: ignore[no-untyped-def]
    """Return whether any margin is below 1."""
    violations = 0
    for column in range(1, len(signs)):
        violations += (signs[column] != 0) & (signs[column] * (scores[column] - scores[0]) < 1.0)
    return violations > 0


@compiled
def implicit_update(scores, signs, eta, gains, steps, order, work):  # type: ignore[no-untyped-def]
    """Solve the problem of one example."""
    n_relevant, n_known = group_known(signs, order)
    for p in range(n_known):
        column = order[p]
        work[0, p] = 1.0 / gains[column]
        work[1, p] = scores[column] - signs[column]  # a relevant label moves above it, an irrelevant one below
    most_up, most_down = eta * n_known / max(n_relevant, 1), eta * n_known / max(n_known - n_relevant, 1)
    _find_threshold(scores[0], np.float64(gains[0]), work, n_relevant, n_known, most_up, most_down)
    steps[:] = 0
    total = 0.0
    for p in range(n_known):
        step = work[2, p] if p < n_relevant else -work[2, p]
        steps[order[p]] = step
        total += step
    steps[0] = -total


@compiled
def _find_threshold(start, gain, work, n_relevant, n_known, most_up, most_down):  # type: ignore[no-untyped-def]
    """Find the root from `start`, and leave the steps there in `work`.

    Thresholds with the same number of kinks below them are on one piece, and a Newton step leads from one of them to
    the root of the piece. So two of them in a row give the root.
    """
    threshold, low, high, piece = start, -np.inf, np.inf, -1
    for _ in range(MAX_STEPS):
        raised, raising, below = _take_steps(work, np.int64(0), n_relevant, 1.0, most_up, threshold)
        lowered, lowering, above = _take_steps(work, n_relevant, n_known, -1.0, most_down, threshold)
        before, piece = piece, below + 2 * (n_known - n_relevant) - above
        excess = threshold - start + gain * (raised - lowered)
        following = threshold - excess / (1.0 + gain * (raising + lowering))
        if piece == before or following == threshold:
            break
        if excess > 0.0:
            high = threshold
        else:
            low = threshold
        if not low < following < high:
            following, piece = 0.5 * (low + high), -1
        threshold = following


@compiled
def _take_steps(work, first, last, sign, most, threshold):  # type: ignore[no-untyped-def]
    """Write the steps of the labels of one sign; return their sum, its slope, and the number of kinks passed."""
    rate, kink, step, slope = work[0, first:last], work[1, first:last], work[2, first:last], work[3, first:last]
    passed = 0
    for p in range(len(rate)):
        wanted = sign * (threshold - kink[p]) * rate[p]
        step[p] = min(max(wanted, 0.0), most)
        slope[p] = rate[p] if (wanted > 0.0) & (wanted < most) else 0.0
        passed += (wanted > 0.0) + (wanted >= most)
    return ordered_sum(step), ordered_sum(slope), passed


@compiled
def ordered_sum(values):  # type: ignore[no-untyped-def]
    """Return the sum, by four sums of a fixed order: quick, and the same bits every time."""
    last = len(values) // 4 * 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for p in range(0, last, 4):
        a += values[p]
        b += values[p + 1]
        c += values[p + 2]
        d += values[p + 3]
    for p in range(last, len(values)):
        a += values[p]
    return (a + b) + (c + d)
