"""Checks of the input of batch learners. Every error is a ValueError that names the argument."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.checks import canonical, check_zero_one, is_sparse, names_hint
from manylabel_core.rows import row_blocks


def check_labels(Y: Any, n_samples: int) -> NDArray[np.int8]:
    """Check an indicator matrix of shape (n_samples, n_labels), and return its signs, +1 and -1, as C-contiguous
    int8."""
    if Y is None:
        # scikit-learn's wording, which its test tools match
        raise ValueError("requires y to be passed, but the target y is None: Y must be an indicator matrix")
    try:
        Y = canonical(sp.csr_array(Y)) if is_sparse(Y) else np.asarray(Y)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"Unknown label type: Y must be an indicator matrix: {error}{names_hint(Y)}") from error
    if Y.ndim != 2 or Y.shape[1] == 0:
        raise ValueError(
            f"Unknown label type: Y must be an indicator matrix of shape (n_samples, n_labels), not of shape {Y.shape}"
            f"{names_hint(Y)}"
        )
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"Unknown label type: Y must contain only 0 and 1, but its type is {Y.dtype}{names_hint(Y)}")
    check_zero_one("Unknown label type: Y", Y)
    if Y.shape[0] != n_samples:
        hint = "; is it transposed?" if Y.shape[1] == n_samples else ""
        raise ValueError(f"Y must have {n_samples} rows, like X, not {Y.shape[0]}{hint}")
    dense = Y.astype(np.int8)
    dense = dense.toarray() if is_sparse(dense) else dense
    return np.ascontiguousarray(2 * dense - 1)


def check_label_names(names: Iterable[str] | None, Y: Any, n_labels: int) -> NDArray[np.object_] | None:
    """Return the names of the labels: the names passed, otherwise the columns of a data frame, otherwise None."""
    if not (names is None or isinstance(names, Iterable)):
        raise ValueError(f"label_names must be a sequence of names, not {names!r}")
    columns = getattr(Y, "columns", None) if names is None else list(names)
    if columns is None or (names is None and not all(isinstance(name, str) for name in columns)):
        return None
    found = np.array([str(name) for name in columns], dtype=object)
    if len(found) != n_labels or len(set(found)) != n_labels:
        raise ValueError(f"label_names must contain {n_labels} different names, one for each column of Y")
    return found


def check_diagonal(values: NDArray[Any]) -> None:
    """Check the diagonal of a Gram matrix: no value is negative, and the sum is finite."""
    with np.errstate(over="ignore"):
        total = values.sum()
    if not np.isfinite(total):
        raise ValueError(f"X has values that are too large for {values.dtype}: the kernel values of examples overflow")
    if values.min() < 0:
        raise ValueError(f"kernel must be positive semi-definite, but is {values.min():.6g} for an example with itself")


def check_gram(K: NDArray[Any]) -> None:
    """Check that a precomputed Gram matrix is square, symmetric and not negative on its diagonal."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"X must be a square Gram matrix with kernel='precomputed', not of shape {K.shape}")
    if K.diagonal().min() < 0:
        raise ValueError(f"X must be positive semi-definite, but has {K.diagonal().min():.6g} on its diagonal")
    for rows in row_blocks(len(K), K.nbytes // len(K)):
        across = K[:, rows].T
        if np.abs(K[rows] - across).max() > 1e-5 * np.abs(across).max():
            raise ValueError("X must be a symmetric Gram matrix with kernel='precomputed'")
