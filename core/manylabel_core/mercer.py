"""Kernels of whole matrices: Gram matrices, rows of them, and the width of an RBF.

`_mercer` has the same kernels for two examples at a time, for online learners.

A matrix of examples is an ndarray or a CSR array of float32 or float64. These have no common type, so matrices are
annotated as `Any`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from manylabel_core.checks import is_sparse
from manylabel_core.rows import row_blocks

KERNELS = ("linear", "rbf", "poly", "precomputed")
"""Names of the kernels; a callable is allowed as well."""

DISTANCE_ROWS = 10_000
"""Maximum number of examples for an exact mean pairwise distance; if there are more, a sample of this size is used."""

KernelFunction = Callable[[Any, Any], NDArray[Any]]


@dataclass(frozen=True)
class Kernel:
    """Kernel function on the rows of two matrices.

    "linear": u.v; "rbf": exp(-gamma |u - v|^2); "poly": (gamma u.v + coef0)^degree; "precomputed": the rows of the
    first matrix are the kernel values; a callable returns the (n, m) kernel values of matrices of n and m examples.
    `constant` is added to every value.
    """

    shape: str | KernelFunction
    gamma: float = 1.0
    coef0: float = 0.0
    degree: int = 3
    constant: float = 0.0

    def __call__(self, X: Any, Z: Any) -> NDArray[Any]:
        """Return the kernel values of X, (n_samples, n_features), and Z, (n_others, n_features), in the dtype of X.

        Raises ValueError unless a callable returns finite real numbers of shape (n_samples, n_others).
        """
        if self.shape == "precomputed":
            values = np.asarray(X)
        elif callable(self.shape):
            values = _checked(self.shape(X, Z), (X.shape[0], Z.shape[0]))
        elif self.shape == "rbf":
            values = _rbf(X, Z, self.gamma)
        else:
            values = safe_sparse_dot(X, Z.T, dense_output=True)
            if self.shape == "poly":
                values = (self.gamma * values + self.coef0) ** self.degree
        values = values + self.constant if self.constant else values
        return np.asarray(values, dtype=X.dtype)

    def diagonal(self, X: Any) -> NDArray[np.float64]:
        """Return K(x, x) of every row of X, shape (n_samples,); not for a precomputed kernel."""
        n_samples = X.shape[0]
        if self.shape == "rbf":
            return np.full(n_samples, 1.0 + self.constant)
        if callable(self.shape):
            each = [float(self(X[i : i + 1], X[i : i + 1])[0, 0]) for i in range(n_samples)]
            return np.array(each)
        squares = row_norms(X, squared=True).astype(np.float64)
        if self.shape == "poly":
            squares = (self.gamma * squares + self.coef0) ** self.degree
        return np.asarray(squares + self.constant)


def gram(kernel: Kernel, X: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return the Gram matrix (n_samples, n_samples), exactly symmetric, in the type of X or the type passed."""
    n_samples = X.shape[0]
    K = np.empty((n_samples, n_samples), dtype=X.dtype if dtype is None else dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller validates the matrix
        for rows in row_blocks(n_samples, n_samples * 8):
            K[rows] = kernel(X[rows], X)
    # BLAS may sum the two halves in different orders.
    for rows in row_blocks(n_samples, n_samples * 8):
        K[rows, rows.stop :] = K[rows.stop :, rows].T
        corner = np.tril(K[rows, rows])
        K[rows, rows] = corner + np.tril(corner, -1).T
    return K


class GramRows:
    """Rows of a Gram matrix that is never stored: the source of kernel values when memory is insufficient."""

    def __init__(self, kernel: Kernel, X: Any) -> None:
        self.kernel = kernel
        self.X = X
        self.shape = (X.shape[0], X.shape[0])
        self.dtype = X.dtype

    def rows(self, block: Any) -> NDArray[Any]:
        """Return kernel values between some examples and all examples: `block` is a slice or an array of indices."""
        return self.kernel(self.X[block], self.X)

    def diagonal(self) -> NDArray[np.float64]:
        return self.kernel.diagonal(self.X)


def scale_gamma(X: Any) -> float:
    """Return scikit-learn's "scale": 1 / (n_features * variance of X), or 1 for a constant X."""
    variance = _sparse_variance(X) if is_sparse(X) else float(X.var(dtype=np.float64))
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def _sparse_variance(X: Any) -> float:
    """Return the variance of all entries in two passes: E[x^2] - E[x]^2 loses all its digits if the mean is large."""
    X = X.astype(np.float64)  # a copy
    X.sum_duplicates()
    size = math.prod(X.shape)
    mean = float(X.data.sum()) / size
    deviations = X.data - mean
    n_zeros = size - len(X.data)
    error = float(deviations.sum()) - n_zeros * mean  # 0 except for rounding
    squares = float(deviations @ deviations) + n_zeros * mean**2
    return float(max(squares - error**2 / size, 0.0) / size)


def mean_distance(X: Any, random_state: np.random.RandomState) -> float:
    """Return the mean Euclidean distance of two different examples, 0 for one example; above `DISTANCE_ROWS` examples,
    of a random sample.
    """
    if X.shape[0] > DISTANCE_ROWS:
        X = X[np.sort(random_state.choice(X.shape[0], DISTANCE_ROWS, replace=False))]
    n_samples = X.shape[0]
    total = 0.0
    for rows in row_blocks(n_samples, n_samples * 8):
        total += float(np.sqrt(squared_distances(X[rows], X)).sum())
    return float(total / max(1, n_samples * (n_samples - 1)))


def squared_distances(X: Any, Z: Any) -> NDArray[np.float64]:
    """Return |x - z|^2 of all rows, shape (n_samples, n_others); in float64 where float32 rounding would matter."""
    X, Z = X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)
    squares: NDArray[np.float64] = safe_sparse_dot(X, Z.T, dense_output=True)
    squares *= -2.0
    squares += row_norms(X, squared=True)[:, np.newaxis]
    squares += row_norms(Z, squared=True)[np.newaxis, :]
    return np.maximum(squares, 0.0, out=squares)


def _rbf(X: Any, Z: Any, gamma: float) -> NDArray[np.float64]:
    squares = squared_distances(X, Z)
    squares *= -gamma
    return np.exp(squares, out=squares)


def _checked(values: Any, shape: tuple[int, int]) -> NDArray[Any]:
    """Return the values of a callable kernel."""
    values = values.toarray() if is_sparse(values) else np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "fiu":
        raise ValueError(f"kernel must return real numbers of shape {shape}, not of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("kernel must return finite numbers")
    return np.asarray(values)
