"""Examples and their labels as index arrays, the common input of learners.

Sparse and dense input have the same representation, so learners need only one implementation. A row lists the values of
its example: all values of a dense matrix, including zeros, or the stored values of a sparse matrix. Models do not
distinguish a 0 from an absent feature; a scaling may.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from manylabel_core.checks import check_zero_one, names_hint
from manylabel_core.frames import as_array

MAX_COLUMNS = 2**31 - 1
"""Maximum number of columns of a matrix, which are counted in int32."""

MAX_MAGNITUDE = 1e15
"""Largest absolute value of a feature. With this bound no sum inside a learner can overflow."""

VECTOR_COLUMNS = 2**30
"""Column of the first value of the first vector. The values of all vectors have the columns from here on, field by
field; other features have lower columns."""

BLOCK_BYTES = 1 << 26
"""Maximum bytes of a block of rows of a large matrix (64 MB); a block has at least one row."""

Matrix = ArrayLike | sp.sparray | sp.spmatrix
"""Types accepted as a matrix."""


class Rows(NamedTuple):
    """Examples in compressed sparse rows."""

    # (n_samples + 1,): row i is `indices[indptr[i]:indptr[i + 1]]`, with the `values` at the same places
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]  # (n_values,): feature columns, ascending and unique within a row
    # (n_values,): at most `MAX_MAGNITUDE` in absolute value; NaN, like a feature that is not listed, is missing, and 0
    # is a value
    values: NDArray[Any]

    def row(self, i: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return columns and values of row i."""
        listed = slice(self.indptr[i], self.indptr[i + 1])
        return self.indices[listed], self.values[listed]

    def without_zeros(self) -> Rows:
        """Return the rows without zeros and missing values, for models."""
        stored = np.abs(self.values) > 0  # not NaN
        if stored.all():
            return self
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(stored)])
        return Rows(before[self.indptr], self.indices[stored], self.values[stored])

    def part(self, first: int, last: int) -> Rows:
        """Return rows first to last - 1."""
        if last - first == len(self.indptr) - 1:
            return self
        indptr = self.indptr[first : last + 1]
        listed = slice(indptr[0], indptr[-1])
        return Rows(indptr - indptr[0], self.indices[listed], self.values[listed])


class VectorRows(NamedTuple):
    """Vectors of the examples in `Rows`."""

    # (n_fields + 1,): field b has the columns `starts[b]` to `starts[b + 1]` - 1 of the values
    starts: NDArray[np.int64]
    present: NDArray[np.bool_]  # (n_samples, n_fields): whether an example has the vector
    values: NDArray[Any]  # (n_samples, n_values): 0 where an example lacks the vector

    def part(self, first: int, last: int) -> VectorRows:
        """Return rows first to last - 1."""
        return VectorRows(self.starts, self.present[first:last], self.values[first:last])


MAX_EXAMPLE_WEIGHT = 1000.0
"""Largest weight of an example; weights are above 0."""

NO_WEIGHTS: NDArray[np.float64] = np.zeros(0)
"""Weights of examples that all weigh 1."""


class Targets(NamedTuple):
    """True labels of the examples in `Rows`."""

    indptr: NDArray[np.int64]  # (n_samples + 1,)
    # (n_listed,): label columns listed for an example, unique within a row and below its `n_labels`
    indices: NDArray[np.int32]
    signs: NDArray[np.int8]  # (n_listed,): +1 for a relevant, -1 for an irrelevant label
    # (n_samples,): whether labels that are not listed are irrelevant; otherwise they are unknown, and the loss omits
    # them
    complete: NDArray[np.bool_]
    n_labels: NDArray[np.int64]  # (n_samples,): number of label columns when the example is learnt
    # (n_samples,), or (0,) where all are 1: factor of the loss, above 0, at most `MAX_EXAMPLE_WEIGHT`
    weights: NDArray[np.float64] = NO_WEIGHTS

    def part(self, first: int, last: int) -> Targets:
        """Return targets first to last - 1."""
        if last - first == len(self.complete):
            return self
        indptr = self.indptr[first : last + 1]
        listed, rows = slice(indptr[0], indptr[-1]), slice(first, last)
        return Targets(
            indptr - indptr[0],
            self.indices[listed],
            self.signs[listed],
            self.complete[rows],
            self.n_labels[rows],
            self.weights[rows],
        )


def row_blocks(n_rows: int, row_bytes: int, block_bytes: int | None = None) -> Iterator[slice]:
    """Return consecutive slices that cover the rows, each of at most `block_bytes` (`BLOCK_BYTES`) or of one row."""
    step = max(1, (block_bytes or BLOCK_BYTES) // max(1, row_bytes))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def as_rows(X: Matrix, dtype: DTypeLike = np.float32) -> tuple[Rows, int]:
    """Check a matrix of features and return it as rows of this dtype, with the number of features.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features) Real numbers. NaN in an array, and an entry that a
        sparse matrix does not store, are missing values. Repeated entries of a sparse matrix are added, as SciPy
        defines it.

    Raises
    ------
    ValueError
        If `X` is not two-dimensional, not real, or has a value that is not finite or beyond `MAX_MAGNITUDE`.
    """
    given, is_sparse = _as_matrix(X, "X", "n_features"), sp.issparse(X)
    n_features = given.shape[1]
    if is_sparse:
        csr = _as_csr(given)
        rows = Rows(*_index_arrays(csr), csr.data)
    else:
        rows = _full_rows(given)
    sizes = np.abs(rows.values)
    rejected = ~(sizes <= MAX_MAGNITUDE) if is_sparse else sizes > MAX_MAGNITUDE
    if rejected.any():
        at = int(np.argmax(rejected))
        row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
        raise ValueError(
            f"X[{row}, {rows.indices[at]}] is {rows.values[at]}: "
            f"values must be finite and at most {MAX_MAGNITUDE:g} in absolute value"
        )
    return rows._replace(values=rows.values.astype(dtype, copy=False)), n_features


def as_weights(weights: ArrayLike | None, n_samples: int, name: str = "sample_weight") -> NDArray[np.float64]:
    """Check the weights of examples, and return them in the form of `Targets.weights`.

    Raises ValueError unless there is one for each example, above 0 and at most `MAX_EXAMPLE_WEIGHT`.
    """
    if weights is None:
        return NO_WEIGHTS
    given = np.asarray(weights)
    if given.shape != (n_samples,) or given.dtype.kind not in "fiu":
        raise ValueError(f"{name} must have a number for each of {n_samples} examples, not {given.dtype} {given.shape}")
    found = np.require(given, np.float64, ["C", "W"])  # compiled functions take only writeable arrays
    allowed = (found > 0.0) & (found <= MAX_EXAMPLE_WEIGHT)
    if not allowed.all():
        at = int(np.argmin(allowed))
        shown = f"{found[at]:g}" if found[at] else "zero"  # scikit-learn's wording, which its test tools match
        raise ValueError(f"{name}[{at}] is {shown}: must be above 0 and at most {MAX_EXAMPLE_WEIGHT:g}")
    return NO_WEIGHTS if (found == 1.0).all() else found


def uneven_weights(weights: ArrayLike | None, n_samples: int) -> NDArray[np.float64] | None:
    """Return the weights of examples, checked like `as_weights`, or None if all weights are 1."""
    found = as_weights(weights, n_samples)
    return found if len(found) else None


def as_targets(Y: Matrix, known: Matrix | None = None) -> Targets:
    """Check an indicator matrix of labels and return it as targets.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        1 (or True) for a relevant label, 0 (or False) for an irrelevant one.
    known : array-like or sparse matrix of shape (n_samples, n_labels), bool, optional
        Labels with known truth; `Y` is ignored elsewhere. None: all.

    Raises
    ------
    ValueError
        If `Y` or `known` is not two-dimensional, holds anything but 0 and 1, or their shapes differ.
    """
    (indptr, columns), shape = _indicator(Y, "Y")
    n_samples, n_labels = shape
    width = np.full(n_samples, n_labels, dtype=np.int64)
    if known is None:
        signs = np.ones(len(columns), dtype=np.int8)
        return Targets(indptr, columns, signs, np.ones(n_samples, dtype=np.bool_), width)
    listed, its_shape = _indicator(known, "known")
    if its_shape != shape:
        raise ValueError(f"known must have the shape of Y, {shape}, not {its_shape}")
    relevant = _places(indptr, columns, n_labels)
    signs = np.where(np.isin(_places(*listed, n_labels), relevant, assume_unique=True), 1, -1).astype(np.int8)
    return Targets(*listed, signs, np.zeros(n_samples, dtype=np.bool_), width)


def _places(indptr: NDArray[np.int64], columns: NDArray[np.int32], n_columns: int) -> NDArray[np.int64]:
    """Return a number for the position of each stored entry: row times number of columns plus column."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr)) * n_columns + columns


def _full_rows(matrix: NDArray[Any]) -> Rows:
    """Return a copy of a dense matrix as rows that list every column."""
    n_rows, n_columns = matrix.shape
    indptr = np.arange(n_rows + 1, dtype=np.int64) * n_columns
    return Rows(indptr, np.tile(np.arange(n_columns, dtype=np.int32), n_rows), matrix.flatten())


def _as_csr(matrix: Any) -> sp.csr_array:
    """Return a canonical CSR copy of a sparse matrix: sorted indices, repeated entries added."""
    csr = sp.csr_array(matrix, copy=True)
    csr.sum_duplicates()
    return csr


def _as_matrix(matrix: Matrix, name: str, columns: str) -> Any:
    """Return a checked matrix of real numbers: an ndarray, or sparse."""
    given: Any = matrix if sp.issparse(matrix) else as_array(matrix, name)
    if given.ndim != 2:
        raise ValueError(f"{name} must be 2-D of shape (n_samples, {columns}), not {given.ndim}-D")
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{name} must contain real numbers, not {given.dtype}")
    if given.dtype.kind == "b" or given.dtype == np.float16:
        given = given.astype(np.float32)
    if given.shape[1] > MAX_COLUMNS:
        raise ValueError(f"{name} must have at most {MAX_COLUMNS:,} columns, not {given.shape[1]:,}")
    return given


def _indicator(matrix: Matrix, name: str) -> tuple[tuple[NDArray[np.int64], NDArray[np.int32]], tuple[int, int]]:
    """Return the places of the ones of an indicator matrix, as index arrays, and its shape."""
    try:
        given = _as_matrix(matrix, name, "n_labels")
    except ValueError as error:
        raise ValueError(f"{name} must be an indicator matrix: {error}{names_hint(matrix)}") from error
    if sp.issparse(given):
        csr = _as_csr(given)
        csr.eliminate_zeros()
        check_zero_one(name, csr)
        return _index_arrays(csr), csr.shape
    check_zero_one(name, given)
    rows, columns = np.nonzero(given)
    indptr = np.searchsorted(rows, np.arange(len(given) + 1))
    return (indptr.astype(np.int64, copy=False), columns.astype(np.int32)), given.shape


def _index_arrays(csr: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return csr.indptr.astype(np.int64), csr.indices.astype(np.int32)
