"""Sweeps over the active pairs of point and label only, label by label, for sparse rows.

Most pairs are settled early: their variable is 0 and the margin is passed, or it is c and the margin is missed. When a
few per cent are left, scores for all labels at once no longer pay. A visit to a label moves only its weights; the
effect on other labels is added when the visit ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.compiled import compiled
from manylabel_core.solvers._csr import add_row, inner_product
from manylabel_core.solvers._shuffle import shuffle

SLACK = 0.01
"""A pair at a bound is settled if it is on the right side of its margin by at least this."""
ENOUGH = 0.1
"""The visit of a label ends when its gap has fallen to this share of the gap at the start."""


class Pairs(NamedTuple):
    """Active pairs of point and label, label by label."""

    starts: NDArray[np.int64]  # (n_labels + 1,)
    points: NDArray[np.int32]  # (n_pairs,)
    signs: NDArray[np.int8]  # (n_pairs,)
    a: NDArray[np.float64]  # (n_pairs,): dual variables

    @classmethod
    def empty(cls, counts: NDArray[np.int64]) -> Pairs:
        """Allocate memory for this number of pairs per label."""
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        n = starts[-1]
        return cls(starts, np.empty(n, np.int32), np.empty(n, np.int8), np.empty(n))


@compiled
def is_active(t, b, y, c):  # type: ignore[no-untyped-def]
    """Return whether a pair of gradient t is free, violates the optimality conditions, or is near to that."""
    if b == 0.0:
        return t * y > -SLACK
    if abs(b) == c:
        return t * y < SLACK
    return True


@compiled
def count_active(T, B, Y, c, counts):  # type: ignore[no-untyped-def]
    """Write how many active pairs each label has, (n_labels,) int64."""
    counts[:] = 0
    for i in range(len(T)):
        most = c[i]
        for label in range(len(counts)):
            counts[label] += is_active(T[i, label], B[i, label], Y[i, label], most)


@compiled
def list_active(T, B, Y, c, pairs):  # type: ignore[no-untyped-def]
    """Write the active pairs."""
    fill = pairs.starts[:-1].copy()
    for i in range(len(T)):
        most = c[i]
        for label in range(len(fill)):
            if is_active(T[i, label], B[i, label], Y[i, label], most):
                k = fill[label]
                fill[label] += 1
                pairs.points[k], pairs.signs[k], pairs.a[k] = i, Y[i, label], abs(B[i, label])


@compiled
def keep_active(pairs, B):  # type: ignore[no-untyped-def]
    """Write the variables of the active pairs back."""
    for label in range(len(pairs.starts) - 1):
        for k in range(pairs.starts[label], pairs.starts[label + 1]):
            B[pairs.points[k], label] = pairs.signs[k] * pairs.a[k]


@compiled
def visit_labels(X, constant, squares, pairs, task, labels, W, moved, sweeps, goal, state):  # type: ignore[no-untyped-def]
    """Visit some labels in turn."""
    gap = 0.0
    before = np.empty(W.shape[1], W.dtype)
    for k in range(len(labels)):
        label = labels[k]
        listed = slice(pairs.starts[label], pairs.starts[label + 1])
        own = Pairs(pairs.starts, pairs.points[listed], pairs.signs[listed], pairs.a[listed])
        if task.coupled:
            before[:] = W[k]
        s = task.S[label, label]
        gap += _visit(X, constant, squares, own, s, task.c, W[k], sweeps, goal, state)
        if task.coupled and task.S[label, label] > 0.0:
            for j in range(len(before)):
                before[j] = (W[k, j] - before[j]) / task.S[label, label]
                moved[k, j] += before[j]
            for other in range(len(labels)):
                if other != k and task.S[labels[other], label] != 0.0:
                    w = W.dtype.type(task.S[labels[other], label])
                    for j in range(len(before)):
                        W[other, j] += w * before[j]
    return gap


@compiled
def _visit(X, constant, squares, own, s, c, z, sweeps, goal, state):  # type: ignore[no-untyped-def]
    """Run coordinate descent on the pairs of one label, with the shrinking of LIBLINEAR (Hsieh et al., ICML 2008);
    return the gap that the first sweep found.
    """
    order = np.arange(len(own.points))
    lowest, highest = -np.inf, np.inf
    first = 0.0
    for sweep in range(sweeps):
        shuffle(order, state)
        gap, bottom, top, kept = 0.0, 0.0, 0.0, 0
        for k in order:
            i, sign, old = own.points[k], own.signs[k], own.a[k]
            most = c[i]
            t = 1.0 - sign * (np.float64(inner_product(X, i, z)) + constant * np.float64(z[-1]))
            gap += (most - old) * t if t > 0.0 else -old * t
            if (old == 0.0 and t < lowest) or (old == most and t > highest):
                continue
            order[kept] = k
            kept += 1
            if (old == 0.0 and t <= 0.0) or (old == most and t >= 0.0):
                continue
            bottom, top = min(bottom, t), max(top, t)
            curvature = s * squares[i]
            new = min(max(old + t / curvature, 0.0), most) if curvature > 0.0 else (most if t > 0.0 else 0.0)
            own.a[k] = new
            w = z.dtype.type(s * sign * (new - old))
            add_row(X, i, w, z)
            z[-1] += w * constant
        order = order[:kept]
        lowest = bottom if bottom < 0.0 else -np.inf
        highest = top if top > 0.0 else np.inf
        if sweep == 0:
            first = gap
        if gap <= max(goal, ENOUGH * first if sweep else 0.0):
            break
    return first
