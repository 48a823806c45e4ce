"""Validation of the inputs of solvers: control parameters, signs, and the matrix of examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from manylabel_core.checks import canonical, is_sparse


@dataclass(frozen=True, slots=True)
class Control:
    """Control parameters of a solver."""

    tol: float
    max_iter: int
    n_threads: int
    seed: int


def make_control(tol: float, max_iter: int, n_threads: int, seed: int) -> Control:
    """Check the parameters of a solver."""
    if not (math.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a finite number above 0, not {tol!r}")
    for name, value, least in (("max_iter", max_iter, 0), ("n_threads", n_threads, 1), ("seed", seed, 0)):
        if int(value) != value or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return Control(float(tol), int(max_iter), int(n_threads), int(seed))


def check_signs(Y: ArrayLike, n: int) -> NDArray[np.int8]:
    signs = np.asarray(Y)
    if signs.ndim != 2 or signs.shape[0] != n:
        raise ValueError(f"Y must have the shape (n_samples, n_labels) with n_samples = {n}, not {signs.shape}")
    if signs.size == 0:
        raise ValueError(f"Y must not be empty, but has the shape {signs.shape}")
    if signs.dtype.kind not in "iuf" or not (np.abs(signs) == 1).all():
        raise ValueError("Y must contain only -1 and +1")
    return np.ascontiguousarray(signs, dtype=np.int8)


def as_matrix(X: Any, dtype: DTypeLike | None) -> Any:
    """Check X, and return it as an ndarray or a CSR array in single or double precision."""
    sparse = is_sparse(X)
    matrix: Any = sp.csr_array(X) if sparse else np.asarray(X)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"X must be a matrix with rows and columns, not of shape {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"X must contain real numbers, not {matrix.dtype}")
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, not {np.dtype(dtype)}")
    if dtype is None:
        dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    matrix = matrix.astype(dtype, copy=False)
    if not np.isfinite(matrix.data if sparse else matrix).all():
        raise ValueError("X must be finite")
    return canonical(matrix) if sparse else np.ascontiguousarray(matrix)
