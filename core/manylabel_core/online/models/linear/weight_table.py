"""A table of weights by feature and column: dense while it is small, and sparse when it is large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear._table import PADDING
from manylabel_core.online.models.linear.sparse_table import (
    PARTS,
    SparseTable,
    check_parts,
    dense_parts,
    empty_parts,
    is_sparse,
)
from manylabel_core.storage import MAX_WEIGHT, check_range, enlarged


class WeightTable:
    """Weights with a row for the constant feature and each feature, and a column for the threshold and each label.

    `both` has a dense table, (>= 1 + n_features, n_planes, >= 1 + n_labels), and None; or a dense table of the constant
    feature, (1, 1, >= 1 + n_labels), and a sparse one. A table of several planes is always dense.
    """

    def __init__(self, dtype: str, n_planes: int = 1, can_be_sparse: bool = True) -> None:
        self.can_be_sparse = can_be_sparse and n_planes == 1
        self.both: tuple[NDArray[Any], SparseTable | None] = np.zeros((1, n_planes, padded_width(1)), dtype=dtype), None

    @property
    def dense(self) -> NDArray[Any]:
        return self.both[0]

    @property
    def sparse(self) -> SparseTable | None:
        return self.both[1]

    def enlarge(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        """Grow to at least these numbers of features and labels; `touch` as in `enlarged`."""
        dense, sparse = self.both
        if sparse is None and self._is_sparse(n_features, n_labels):
            sparse = SparseTable.of(dense_parts(dense[1:, 0]))
            dense = np.array(dense[:1])
        if sparse is not None:
            sparse.enlarge(n_features)
            n_features = 0
        self.both = enlarged(dense, (1 + n_features, dense.shape[1], padded_width(1 + n_labels)), touch), sparse

    def stay_dense(self) -> None:
        """Convert to a table that stays dense, whatever its size."""
        dense, sparse = self.both
        self.can_be_sparse = False
        if sparse is not None:
            rows = sparse.dense(sparse.n_rows, dense.shape[2])
            self.both = np.concatenate([dense, rows[:, np.newaxis]]), None

    def _is_sparse(self, n_features: int, n_labels: int) -> bool:
        return self.can_be_sparse and is_sparse(n_features, 1 + n_labels, self.dense.itemsize)

    def column(self, features: NDArray[np.int32], column: int) -> NDArray[np.float64]:
        """Return the weights of the constant feature and of some features in a column."""
        dense, sparse = self.both
        if sparse is not None:
            return np.concatenate([dense[:, 0, column], sparse.column(features, column)])
        weights: NDArray[np.float64] = dense[np.concatenate([[0], 1 + features]), 0, column].astype(np.float64)
        return weights

    def clear(self, column: int) -> None:
        """Set a column to 0."""
        self.dense[:, :, column] = 0.0
        if self.sparse is not None:
            self.sparse.clear(column)

    def arrays(self, name: str, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of a state under a name: a view of the first plane, or copies of the parts of a sparse
        table."""
        dense, sparse = self.both
        rows, parts = 1 + n_features, empty_parts(dense.dtype)
        if sparse is not None and self._is_sparse(n_features, n_labels):
            rows, parts = 1, sparse.pack(n_features)
        elif sparse is not None:  # the capacity was reserved for a larger table
            dense = np.concatenate([dense[:, 0, : 1 + n_labels], sparse.dense(n_features, 1 + n_labels)])[:, np.newaxis]
        named = _named(name, parts) if self.can_be_sparse else {}
        return {name: dense[:rows, 0, : 1 + n_labels], **named}

    def nbytes_after(self, n_features: int, n_labels: int, n_changed: int) -> int:
        """Return the maximum bytes of a state with these columns, after the weights of `n_changed` features changed."""
        dense, sparse = self.both
        if not self._is_sparse(n_features, n_labels):
            return int(dense.itemsize * dense.shape[1] * (1 + n_features) * (1 + n_labels))
        if sparse is None:
            sparse = SparseTable(dense.dtype)
            n_changed += len(dense) - 1
        return dense.itemsize * (1 + n_labels) + sparse.nbytes_after(n_features, 1 + n_labels, n_changed)

    def nbytes_if_dense(self, n_features: int, n_labels: int) -> int:
        """Return the bytes of a dense table with these columns if it would be sparse, else 0."""
        sparse = self._is_sparse(n_features, n_labels)
        return self.dense.itemsize * (1 + n_features) * (1 + n_labels) if sparse else 0

    def size(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        """Return the numbers of features and labels of a state; raise ValueError if they are missing."""
        dense, n_sparse = arrays[name], len(arrays[f"{name}.ends"]) if self.can_be_sparse else 0
        if 0 in dense.shape:
            raise ValueError(f"state: {name} must have at least one row and one column")
        return n_sparse or len(dense) - 1, dense.shape[1] - 1

    def restore(self, name: str, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        """Restore the first plane of a state with these numbers of columns into an empty table."""
        dense, can, n_columns = arrays[name], self.can_be_sparse, 1 + n_labels
        if self.size(name, arrays) != (n_features, n_labels):
            raise ValueError(f"state: {name} must be for {n_features} features and {n_labels} labels")
        check_range(name, dense, -MAX_WEIGHT, MAX_WEIGHT)
        ends, blocks, values = (arrays[f"{name}.{part}"] for part in PARTS) if can else empty_parts(dense.dtype)
        if len(dense) > 1 and (len(ends) or len(blocks) or len(values)):
            raise ValueError(f"state: {name} must have one row if {name}.ends is not empty")
        check_parts(name, (ends, blocks, values), n_columns)
        check_range(f"{name}.values", values, -MAX_WEIGHT, MAX_WEIGHT)
        if len(ends):
            sparse = SparseTable.of((ends, blocks, values))
            if not self._is_sparse(n_features, n_labels):
                dense = np.concatenate([dense, sparse.dense(n_features, n_columns)])
        elif self._is_sparse(n_features, n_labels):
            wide = np.pad(dense[1:], ((0, 0), (0, padded_width(n_columns) - n_columns)))
            sparse = SparseTable.of(dense_parts(wide))
        self.enlarge(n_features, n_labels)
        if self.sparse is not None:
            self.both = self.dense, sparse
        self.dense[:, 0, :n_columns] = dense[: len(self.dense)]


def padded_width(n_columns: int) -> int:
    """Return `n_columns` rounded up to a multiple of PADDING, the width of a table."""
    return -(-n_columns // PADDING) * PADDING


def dense_state(name: str, dense: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the state of a dense table with these weights, of shape (1 + n_features, 1 + n_labels), under a name."""
    return {name: dense, **_named(name, empty_parts(dense.dtype))}


def may_be_sparse(name: str, arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether the restored table under a name will use the sparse functions; the arrays are not checked."""
    dense, ends = arrays.get(name), arrays.get(f"{name}.ends")
    if ends is None:  # the table stays dense
        return False
    if len(ends):
        return True
    return dense is not None and dense.ndim == 2 and is_sparse(len(dense) - 1, dense.shape[1], dense.itemsize)


def _named(name: str, parts: tuple[NDArray[Any], ...]) -> dict[str, NDArray[Any]]:
    """Return the parts of a sparse table under their names in a state."""
    return {f"{name}.{part}": array for part, array in zip(PARTS, parts, strict=True)}
