"""The account of a point of the dual: the two objectives, the share of each variable in the gap, and the biases.

With `t = y (T - beta)` the gap is a sum over the variables, each term at least 0: `(c - a) t` where t is positive, `-a
t` where it is negative. (beta drops out of the dual, because `sum_i b_il = 0`.)
"""

import numpy as np

from manylabel_core.compiled import compiled


@compiled
def account(T, B, Y, c, beta, shares):  # type: ignore[no-untyped-def]
    """Write each point's share of the gap; return the gap, the dual objective, and the number of variables with a share
    in the gap.
    """
    linear, quadratic, n_open = 0.0, 0.0, 0
    for i in range(len(T)):
        share, most = 0.0, c[i]
        for label in range(len(beta)):
            y, b, t = np.float64(Y[i, label]), B[i, label], np.float64(T[i, label])
            margin = y * (t - beta[label])
            own = (most - abs(b)) * margin if margin > 0.0 else -abs(b) * margin
            share += own
            n_open += own > 0.0
            linear += abs(b)
            quadratic += b * (y - t)
        shares[i] = share
    return shares.sum(), linear - 0.5 * quadratic, n_open


@compiled
def kkt_bias(T, B, Y, c):  # type: ignore[no-untyped-def]
    """Return the biases from the optimality conditions, (n_labels,): see `DualResult.bias`."""
    n_labels = T.shape[1]
    total, free = np.zeros(n_labels), np.zeros(n_labels, np.int64)
    top, bottom = np.full(n_labels, -np.inf), np.full(n_labels, np.inf)
    for i in range(len(T)):
        for label in range(n_labels):
            b, t = B[i, label], np.float64(T[i, label])
            upper = c[i] if Y[i, label] > 0 else 0.0
            if upper - c[i] < b < upper:
                total[label] += t
                free[label] += 1
            if b < upper:
                top[label] = max(top[label], t)
            if b > upper - c[i]:
                bottom[label] = min(bottom[label], t)
    bias = np.empty(n_labels)
    for label in range(n_labels):
        if free[label] > 0:
            bias[label] = total[label] / free[label]
        elif np.isinf(top[label]):
            bias[label] = bottom[label]
        elif np.isinf(bottom[label]):
            bias[label] = top[label]
        else:
            bias[label] = 0.5 * (top[label] + bottom[label])
    return bias


@compiled
def worst_pairs(T, B, Y, c, pairs):  # type: ignore[no-untyped-def]
    """Write the points of each label's most violating pair, (n_labels, 2) int64, or -1 if none violates."""
    n_labels = T.shape[1]
    top, bottom = np.full(n_labels, -np.inf), np.full(n_labels, np.inf)
    pairs[:] = -1
    for i in range(len(T)):
        for label in range(n_labels):
            t = np.float64(T[i, label])
            upper = c[i] if Y[i, label] > 0 else 0.0
            if B[i, label] < upper and t > top[label]:
                top[label], pairs[label, 0] = t, i
            if B[i, label] > upper - c[i] and t < bottom[label]:
                bottom[label], pairs[label, 1] = t, i
    for label in range(n_labels):
        if not top[label] > bottom[label]:
            pairs[label] = -1
