"""Input checks, blocks that bound memory, and division with 0/0 = 0, for all batch metrics.

A matrix is an ndarray or a CSR array. These have no common type, so matrices are annotated as `Any`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manylabel_core.checks import check_zero_one, is_sparse
from manylabel_core.rows import row_blocks, uneven_weights

_BLOCK_ELEMENTS = 1 << 18  # cells per chunk of a matrix; a metric needs about 60 bytes of temporaries per cell


def as_labels(matrix: Any, name: str) -> Any:
    """Return zeros and ones as an ndarray, or as a CSR array that stores only the ones; raise ValueError for other
    values.
    """
    sparse = is_sparse(matrix)
    labels: Any = sp.csr_array(matrix, copy=True) if sparse else np.asarray(matrix)
    if labels.ndim != 2:
        raise ValueError(f"{name} must have the shape (n_samples, n_labels), not {labels.shape}")
    if sparse:
        labels.sum_duplicates()
        labels.eliminate_zeros()
    check_zero_one(name, labels)
    return labels


def as_pair(Y: Any, P: Any) -> tuple[Any, Any]:
    """Check true and predicted labels; return both dense or both sparse."""
    Y, P = as_labels(Y, "Y"), as_labels(P, "P")
    if Y.shape != P.shape:
        raise ValueError(f"P must have the shape of Y, which is {Y.shape}, not {P.shape}")
    if is_sparse(Y) or is_sparse(P):
        return sp.csr_array(Y), sp.csr_array(P)
    return Y, P


def as_scored(Y: Any, scores: ArrayLike) -> tuple[Any, NDArray[Any]]:
    """Check true labels and their scores."""
    Y, scores = as_labels(Y, "Y"), np.asarray(scores)
    if scores.shape != Y.shape or scores.dtype.kind not in "fiu":
        raise ValueError(f"scores must be real numbers of the shape of Y, {Y.shape}, not {scores.shape}")
    if any(np.isnan(part).any() for part in _parts(scores)):
        raise ValueError("scores must not contain NaN")
    return Y, scores


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield consecutive slices of rows that cover a matrix, each with a bounded number of elements or one row."""
    return row_blocks(n_rows, n_columns, _BLOCK_ELEMENTS)


def scored_blocks(Y: Any, scores: NDArray[Any]) -> Iterator[tuple[NDArray[np.bool_], NDArray[Any]]]:
    """Yield dense blocks of labels with their scores."""
    for rows in blocks(*Y.shape):
        part = Y[rows].toarray() if is_sparse(Y) else Y[rows]
        yield part.astype(bool), scores[rows]


def weights_of(sample_weight: ArrayLike | None, rows: Any) -> NDArray[np.float64] | None:
    """Check and return the weights of the rows; None without weights."""
    return uneven_weights(sample_weight, rows.shape[0])


def outcomes(Y: Any, P: Any, axis: int, weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
    """Count true positives, false positives, false negatives per example (axis 1) or, weighted, per label (axis 0)."""
    if is_sparse(Y):
        matrices = (Y.multiply(P).tocsr(), P, Y)
        counts = (_ones(matrix, axis) if weights is None else weights @ matrix for matrix in matrices)
        hits, predicted, relevant = counts
    else:
        hits, predicted, relevant = np.zeros((3, Y.shape[1 - axis]), dtype=np.int64 if weights is None else np.float64)
        for rows in blocks(*Y.shape):
            y, p = Y[rows].astype(bool), P[rows].astype(bool)
            place = rows if axis else slice(None)
            for total, part in ((hits, y & p), (predicted, p), (relevant, y)):
                total[place] += part.sum(axis=axis) if weights is None else weights[rows] @ part
    return np.stack([hits, predicted - hits, relevant - hits])


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Divide element by element, with 0/0 = 0."""
    quotients = np.zeros(whole.shape)
    np.divide(part, whole, out=quotients, where=whole != 0)
    return quotients


def mean(values: NDArray[Any], weights: NDArray[np.float64] | None = None) -> float:
    """Return the mean as a Python float; 0.0 for an empty array."""
    if weights is not None:
        return float(weights @ values / weights.sum())
    return float(values.mean()) if len(values) else 0.0


def _ones(matrix: Any, axis: int) -> NDArray[np.int64]:
    counts = np.diff(matrix.indptr) if axis else np.bincount(matrix.indices, minlength=matrix.shape[1])
    return counts.astype(np.int64, copy=False)


def _parts(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (array[rows] for rows in blocks(len(array), array.size // max(1, len(array))))
