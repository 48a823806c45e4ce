"""Mercer kernels of two examples, from their inner products."""

import numpy as np

from manylabel_core._elementary import exp
from manylabel_core.compiled import compiled

RBF, LINEAR, POLY = 0, 1, 2
KERNELS = {"rbf": RBF, "linear": LINEAR, "poly": POLY}
"""Names of the kernels, and the numbers they have in compiled code."""

MAX_KERNEL = 1e100
"""Values of the polynomial kernel saturate here, so that sums of them stay finite."""


@compiled
def kernel_value(shape, uv, uu, vv):  # type: ignore[no-untyped-def]
    """Return K(u, v)."""
    kind, gamma, coef0, degree = shape
    if kind == RBF:
        return exp(-gamma * max(uu + vv - 2.0 * uv, 0.0))
    if kind == LINEAR:
        return uv
    base = gamma * uv + coef0
    value = 1.0
    for _ in range(degree):
        value = min(max(value * base, -MAX_KERNEL), MAX_KERNEL)
    return value


@compiled
def kernel_values(shape, products, norms, own):  # type: ignore[no-untyped-def]
    """Write K(u, v) for each u over its u.v, from the |u|^2 and |v|^2; those of "rbf" by vector instructions."""
    kind, gamma, _, _ = shape
    if kind == RBF:
        for p in range(len(products)):
            products[p] = exp(-gamma * max(norms[p] + own - 2.0 * products[p], 0.0))
    else:
        for p in range(len(products)):
            products[p] = kernel_value(shape, products[p], norms[p], own)


@compiled
def inner_product(u, v):  # type: ignore[no-untyped-def]
    """Return u.v in float64, by eight sums of a fixed order: quick, and the same bits every time."""
    last = len(u) // 8 * 8
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(0, last, 8):
        a += np.float64(u[p]) * np.float64(v[p])
        b += np.float64(u[p + 1]) * np.float64(v[p + 1])
        c += np.float64(u[p + 2]) * np.float64(v[p + 2])
        d += np.float64(u[p + 3]) * np.float64(v[p + 3])
        e += np.float64(u[p + 4]) * np.float64(v[p + 4])
        f += np.float64(u[p + 5]) * np.float64(v[p + 5])
        g += np.float64(u[p + 6]) * np.float64(v[p + 6])
        h += np.float64(u[p + 7]) * np.float64(v[p + 7])
    for p in range(last, len(u)):
        a += np.float64(u[p]) * np.float64(v[p])
    return ((a + b) + (c + d)) + ((e + f) + (g + h))
