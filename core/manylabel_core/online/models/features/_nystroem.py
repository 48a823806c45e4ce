"""Nystroem features, Eq. (20) of docs/mathematics.md: coordinates of an example in the span of landmarks of a kernel.

The landmarks are made orthonormal in turn: with the Cholesky factor L of their matrix of cosines (see
`expansion._project`), R = inv(L), and c the cosines of x with the landmarks, the features are sqrt(K(x, x)) R c. So
another landmark adds a feature and leaves the earlier ones unchanged.

R is a triangle, stored row by row in one array.
"""

import math

import numpy as np

from manylabel_core._mercer import inner_product
from manylabel_core.compiled import compiled
from manylabel_core.online.models._kernel_column import kernel_column

MAX_LENGTH = 1e15
"""Upper bound of sqrt(K(x, x)) in a feature."""


@compiled
def to_landmark_features(  # type: ignore[no-untyped-def]
    shape, place, norms, pool_indices, pool_values, n_points, scales, R, work, indptr, indices, values, features
):
    """Write the features (n_samples, n_points) of rows without zeros; return the residual of the last one."""
    column, z, rest = np.empty(n_points), np.empty(n_points), 0.0
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        own, _ = kernel_column(
            shape, 0.0, place, norms, pool_indices, pool_values, n_points, work, indices[row], values[row], column
        )
        scale, rest = math.sqrt(max(own, 0.0)), 0.0
        if scale > 0.0:
            rest = coordinates(column, scale, scales, R, n_points, z)
        for b in range(n_points):
            features[i, b] = min(scale, MAX_LENGTH) * z[b] if scale > 0.0 else 0.0
    return rest


@compiled
def coordinates(column, scale, scales, R, n_points, z):  # type: ignore[no-untyped-def]
    """Write R c, and c over the kernel's column; return 1 - |R c|^2."""
    for b in range(n_points):
        column[b] = min(max(column[b] / scales[b] / scale, -1.0), 1.0)
    for b in range(n_points):
        first = b * (b + 1) // 2
        value = inner_product(R[first : first + b + 1], column[: b + 1])
        z[b] = min(max(value, -1.0), 1.0)
    return 1.0 - inner_product(z, z)


@compiled
def admit(shape, place, norms, pool_indices, pool_values, n_points, scales, R, work):  # type: ignore[no-untyped-def]
    """Write the scale and the row of R of the last point; return its residual besides the others."""
    n = n_points - 1
    column, z = np.empty(n), np.empty(n)
    row = slice(place[n, 0], place[n, 1])
    own, _ = kernel_column(
        shape, 0.0, place, norms, pool_indices, pool_values, n, work, pool_indices[row], pool_values[row], column
    )
    if own <= 0.0:
        return 0.0
    scales[n] = math.sqrt(own)
    rest = coordinates(column, scales[n], scales, R, n, z)
    if rest <= 0.0:
        return 0.0
    start, length = n * (n + 1) // 2, math.sqrt(rest)
    R[start : start + n] = 0.0
    for b in range(n):
        first = b * (b + 1) // 2
        for c in range(b + 1):
            R[start + c] -= z[b] / length * R[first + c]
    R[start + n] = 1.0 / length
    return rest
