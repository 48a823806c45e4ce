"""The dual restricted to a block of points: a few sweeps over its variables, all in cache.

A visit to a label updates only its gradient; the other labels get the sum of the changes when the visit ends (the
papers' delayed update). Points are in a new random order in every sweep: kernel matrices have a large common part, on
which a fixed order needs about ten times the sweeps.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.solvers._shuffle import shuffle

ENOUGH = 0.1
"""The sweeps end when one gains less than this share of the first gain."""


@compiled
def solve_block(K, T, B, points, task, sweeps, state, moves):  # type: ignore[no-untyped-def]
    """Solve the dual for some points and all labels, with the other points fixed."""
    Y, S, c, _, coupled, equality = task
    m, n_labels = T.shape
    t, before = np.empty((n_labels, m), T.dtype), np.empty(m, T.dtype)
    b, upper, lower = np.empty((n_labels, m)), np.empty((n_labels, m)), np.empty((n_labels, m))
    for p in range(m):
        most = c[points[p]]
        for label in range(n_labels):
            t[label, p] = T[p, label]
            b[label, p] = B[points[p], label]
            upper[label, p] = most if Y[points[p], label] > 0 else 0.0
            lower[label, p] = upper[label, p] - most
    order = np.arange(m)
    first = 0.0
    for _ in range(sweeps):
        gain = 0.0
        if not equality:
            shuffle(order, state)
        for label in range(n_labels):
            before[:] = t[label]
            if equality:
                gained = sweep_pairs(K, t[label], b[label], upper[label], lower[label], S[label, label])
            else:
                gained = sweep_points(K, t[label], b[label], upper[label], lower[label], S[label, label], order)
            if coupled and gained > 0.0 and S[label, label] > 0.0:
                _tell_others(t, label, before, S)
            gain += gained
        first = max(first, gain)
        if gain <= ENOUGH * first:
            break
    for p in range(m):
        for label in range(n_labels):
            moves[p, label] = b[label, p] - B[points[p], label]
            B[points[p], label] = b[label, p]
    return first > 0.0


@compiled
def sweep_points(K, t, b, upper, lower, s, order):  # type: ignore[no-untyped-def]
    """Maximise over the variables b of a label in turn, within `lower` and `upper`; return the gain."""
    gain = 0.0
    for p in range(len(order)):
        i = order[p]
        curvature = s * np.float64(K[i, i])
        slope = np.float64(t[i])
        low, high = lower[i], upper[i]
        if curvature > 0.0:
            new = min(max(b[i] + slope / curvature, low), high)
        else:  # a point or label of length 0: the dual is linear here
            new = high if slope > 0.0 else (low if slope < 0.0 else b[i])
        move = new - b[i]
        if move != 0.0:
            b[i] = new
            gain += move * (slope - 0.5 * curvature * move)
            w = t.dtype.type(s * move)
            for j in range(len(t)):
                t[j] -= w * K[i, j]
    return gain


@compiled
def sweep_pairs(K, t, b, upper, lower, s):  # type: ignore[no-untyped-def]
    """Maximise over pairs of variables of a label with constant sum, the most violating pair first as in SMO (Keerthi
    et al., 2001); return the gain.

    Variables to raise and variables to lower are matched in the order of their violation, so one sort serves the sweep.
    """
    rising, falling = np.empty(len(t), np.int64), np.empty(len(t), np.int64)
    top, bottom = _extremes(t, b, upper, lower)
    if not top > bottom:
        return 0.0
    middle = 0.5 * (top + bottom)
    n_rising, n_falling = 0, 0
    for i in range(len(t)):
        if t[i] > middle and b[i] < upper[i]:
            rising[n_rising] = i
            n_rising += 1
        elif t[i] < middle and b[i] > lower[i]:
            falling[n_falling] = i
            n_falling += 1
    if n_rising == 0 or n_falling == 0:  # the two bounds are adjacent floating-point numbers
        return 0.0
    first, second = np.argsort(-t[rising[:n_rising]]), np.argsort(t[falling[:n_falling]])
    gain = 0.0
    for p in range(max(n_rising, n_falling)):
        i, j = rising[first[p % n_rising]], falling[second[p % n_falling]]
        gain += _move_pair(K, t, b, upper, lower, s, i, j)
    return gain


@compiled
def _extremes(t, b, upper, lower):  # type: ignore[no-untyped-def]
    """Return the largest gradient of variables that can rise, and the smallest of those that can fall."""
    top, bottom = -np.inf, np.inf
    for i in range(len(t)):
        if b[i] < upper[i]:
            top = max(top, np.float64(t[i]))
        if b[i] > lower[i]:
            bottom = min(bottom, np.float64(t[i]))
    return top, bottom


@compiled
def _move_pair(K, t, b, upper, lower, s, i, j):  # type: ignore[no-untyped-def]
    """Raise b_i and lower b_j by the best amount; return the gain."""
    slope = np.float64(t[i]) - np.float64(t[j])
    room = min(upper[i] - b[i], b[j] - lower[j])
    if not (slope > 0.0 and room > 0.0):
        return 0.0
    curvature = s * (np.float64(K[i, i]) + np.float64(K[j, j]) - 2.0 * np.float64(K[i, j]))
    move = room if slope >= curvature * room else slope / curvature
    at_upper, at_lower = move == upper[i] - b[i], move == b[j] - lower[j]
    b[i] = upper[i] if at_upper else b[i] + move
    b[j] = lower[j] if at_lower else b[j] - move
    w = t.dtype.type(s * move)
    for p in range(len(t)):
        t[p] -= w * (K[i, p] - K[j, p])
    return move * (slope - 0.5 * max(curvature, 0.0) * move)


@compiled
def _tell_others(t, label, before, S):  # type: ignore[no-untyped-def]
    """Add the change of a label's gradient, times S_kl / S_ll, to every other label k."""
    for j in range(len(before)):
        before[j] = t[label, j] - before[j]
    for other in range(len(t)):
        if other != label and S[other, label] != 0.0:
            w = t.dtype.type(S[other, label] / S[label, label])
            for j in range(len(before)):
                t[other, j] += w * before[j]
