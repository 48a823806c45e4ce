"""Compiled products of sparse rows with dense vectors.

Indices are made unsigned where they are used: for signed ones the compiler looks after Python's negative indices,
which costs about as much as the arithmetic.
"""

import numpy as np

from manylabel_core.compiled import compiled


@compiled
def inner_product(X, i, z):  # type: ignore[no-untyped-def]
    """Return `x_i z` for a contiguous z, in the precision of z."""
    total = z.dtype.type(0.0)
    for q in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
        total += X.values[q] * z[np.uint32(X.indices[q])]
    return total


@compiled
def add_row(X, i, w, z):  # type: ignore[no-untyped-def]
    """Add `w x_i` to a contiguous z."""
    for q in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
        z[np.uint32(X.indices[q])] += w * X.values[q]


@compiled
def squared_lengths(X, constant):  # type: ignore[no-untyped-def]
    """Return `|x|^2` with the constant, (n_samples,), float64."""
    squares = np.empty(len(X.indptr) - 1)
    for i in range(len(squares)):
        total = np.float64(constant) ** 2
        for q in range(X.indptr[i], X.indptr[i + 1]):
            total += np.float64(X.values[q]) ** 2
        squares[i] = total
    return squares
