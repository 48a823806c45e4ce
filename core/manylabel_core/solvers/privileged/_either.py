"""Rows of either form, an ndarray or `Rows`, for functions that are written once and compiled for both."""

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from manylabel_core.compiled import compiled
from manylabel_core.rows import Rows
from manylabel_core.solvers._csr import add_row, inner_product, squared_lengths

Either = NDArray[np.float64] | Rows


def score(X: Either, i: int, z: NDArray[np.float64]) -> float:
    """Return `x_i z`; only for compiled code."""
    raise NotImplementedError


def add(X: Either, i: int, w: float, z: NDArray[np.float64]) -> None:
    """Add `w x_i` to z; only for compiled code."""
    raise NotImplementedError


@overload(score)
def _score(X, i, z):  # type: ignore[no-untyped-def]
    if isinstance(X, types.Array):
        return lambda X, i, z: np.dot(X[i], z)
    return lambda X, i, z: inner_product(X, i, z)


@overload(add)
def _add(X, i, w, z):  # type: ignore[no-untyped-def]
    if isinstance(X, types.Array):
        return lambda X, i, w, z: _add_dense(X[i], w, z)
    return lambda X, i, w, z: add_row(X, i, w, z)


@compiled
def _add_dense(x, w, z):  # type: ignore[no-untyped-def]
    for j in range(len(z)):
        z[j] += w * x[j]


def squares_of(X: Either) -> NDArray[np.float64]:
    """Return `|x|^2` of every row, (n_samples,)."""
    if isinstance(X, Rows):
        return np.asarray(squared_lengths(X, 0.0))
    return np.asarray(np.einsum("ij,ij->i", X, X))
