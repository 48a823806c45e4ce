"""Map from the indices of numbered features to columns."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core._index_columns import find_columns, insert_columns, place_columns

_MULTIPLIER = np.uint64(secrets.randbits(64) | 1)
"""Random multiplier of this process, which does not affect the columns."""

_NO_SLOTS = np.zeros(0, dtype=np.int32)

Placed = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Columns of one example, ascending, and their values."""


class IndexColumns:
    """Map from indices to columns, in order of first appearance, like `Vocabulary` for names.

    The memory grows with the number of indices seen, however large they are. While the indices are 0, 1, ... in this
    order, as in dense examples, there is no table: each index is its column.

    Examples
    --------
    >>> import numpy as np
    >>> columns = IndexColumns()
    >>> columns.add(np.array([7, 1000000], dtype=np.int32))
    >>> columns.add(np.array([5, 7], dtype=np.int32))
    >>> columns.indices
    array([      7, 1000000,       5], dtype=int32)
    >>> columns.place(np.array([5, 6, 7], dtype=np.int32), np.array([0.5, 0.6, 0.7], dtype=np.float32))
    (array([0, 2, 3], dtype=int32), array([0.7, 0.5, 0.6], dtype=float32))
    """

    __slots__ = ("_indices", "_n_columns", "_slots")

    def __init__(self, n_columns: int = 0) -> None:
        """Start with the indices below `n_columns`, each with its own column."""
        self._n_columns = n_columns
        self._indices: NDArray[np.int32] | None = None  # None: each index is its column
        self._slots = _NO_SLOTS

    def __len__(self) -> int:
        return self._n_columns

    @property
    def indices(self) -> NDArray[np.int32]:
        """The index of each column, shape (n_columns,)."""
        if self._indices is None:
            return np.arange(self._n_columns, dtype=np.int32)
        return self._indices[: self._n_columns]

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use."""
        return 0 if self._indices is None else self._indices.nbytes + self._slots.nbytes

    def begins_with(self, earlier: IndexColumns) -> bool:
        """Return whether the columns of an earlier state are the first columns of this one."""
        if len(earlier) > len(self):
            return False
        both_plain = self._indices is None and earlier._indices is None
        return both_plain or np.array_equal(self.indices[: len(earlier)], earlier.indices)

    def unknown(self, indices: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return which of the ascending indices have no column."""
        if self._indices is None:
            all_known = not len(indices) or indices[-1] < self._n_columns
            return indices[:0] if all_known else indices[np.searchsorted(indices, self._n_columns) :]
        columns = np.empty(len(indices), dtype=np.int32)
        if not find_columns(self._slots, self._indices, _MULTIPLIER, _writeable(indices), columns):
            return indices[:0]
        return indices[columns < 0]

    def add(self, indices: NDArray[np.int32]) -> None:
        """Assign columns, in order, to the ascending indices that have no column."""
        new = self.unknown(indices)
        if len(new):
            self._append(new)

    def place(self, indices: NDArray[np.int32], values: NDArray[np.float32], add: bool = False) -> Placed:
        """Return the columns of ascending indices, sorted, and their values. New indices get the next columns; with
        `add`, these are stored.
        """
        if self._indices is None:
            return self._place_plain(indices, values, add)
        columns, placed = np.empty(len(indices), dtype=np.int32), np.empty(len(indices), dtype=np.float32)
        given = _writeable(indices), _writeable(values)
        n_new = place_columns(self._slots, self._indices, _MULTIPLIER, self._n_columns, *given, columns, placed)
        if add and n_new:
            self._append(self.unknown(indices))
        return columns, placed

    def _place_plain(self, indices: NDArray[np.int32], values: NDArray[np.float32], add: bool) -> Placed:
        """Return the result of `place` while each index is its own column."""
        columns = indices
        if len(indices) and indices[-1] >= self._n_columns:
            n_known = int(np.searchsorted(indices, self._n_columns))
            n_columns = self._n_columns + len(indices) - n_known
            columns = np.concatenate([indices[:n_known], np.arange(self._n_columns, n_columns, dtype=np.int32)])
            if add:
                self._append(indices[n_known:])
        return columns, values

    def _append(self, new: NDArray[np.int32]) -> None:
        first, n_columns = self._n_columns, self._n_columns + len(new)
        if self._indices is None:
            if new[0] == first and new[-1] == n_columns - 1:  # ascending: no index is missing
                self._n_columns = n_columns
                return
            self._indices = self.indices
        if n_columns > len(self._indices):
            larger = np.empty(max(n_columns, 2 * len(self._indices)), dtype=np.int32)
            larger[:first] = self._indices[:first]
            self._indices = larger
        self._indices[first:n_columns] = new
        if 2 * n_columns > len(self._slots):
            self._slots, first = _free_slots(n_columns), 0
        insert_columns(self._slots, self._indices, _MULTIPLIER, first, n_columns)
        self._n_columns = n_columns

    def to_array(self) -> NDArray[np.int32]:
        """Return the index of each column, as input for `from_array`."""
        return self.indices

    @classmethod
    def from_array(cls, indices: NDArray[Any]) -> IndexColumns:
        """Return the columns from the output of `to_array`; raise ValueError unless it has distinct indices."""
        if indices.dtype != np.int32 or indices.ndim != 1:
            raise ValueError("indices: expected a one-dimensional array of int32")
        plain = cls(len(indices))
        if np.array_equal(indices, plain.indices):
            return plain
        ascending = np.sort(indices)
        if ascending[0] < 0 or (ascending[1:] == ascending[:-1]).any():
            raise ValueError("indices must be distinct integers of at least 0")
        columns = cls()
        columns._indices, columns._n_columns = np.array(indices), len(indices)
        columns._slots = _free_slots(len(indices))
        insert_columns(columns._slots, columns._indices, _MULTIPLIER, 0, len(indices))
        return columns


def _free_slots(n_columns: int) -> NDArray[np.int32]:
    """Return a hash table with capacity for twice the number of columns."""
    return np.full(1 << (4 * n_columns - 1).bit_length(), -1, dtype=np.int32)


def _writeable(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a copy if it is not writeable and contiguous, as compiled functions require."""
    return array if array.flags.writeable and array.flags.c_contiguous else np.array(array)
