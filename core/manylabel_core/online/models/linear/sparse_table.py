"""Table of weights by feature and column that stores only non-zero blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear._sparse_table import (
    BLOCK,
    FREE,
    HELD,
    N_CLASSES,
    NONE,
    clear_column,
    count_blocks,
    gather,
    pack_numbers,
    pack_weights,
    room_of,
    unpack_blocks,
)
from manylabel_core.state import LateArray
from manylabel_core.storage import check_range, enlarged

DENSE_BYTES = 1 << 26
"""Maximum size of a dense table that could be sparse."""

MIN_SPARSE_BLOCKS = 8
"""A table with fewer blocks of columns is dense: its rows are short."""

PARTS = ("ends", "blocks", "values")
"""Names of the arrays of a state."""

MIN_GROWTH, MAX_GROWTH = 1 << 14, 1 << 18
"""Minimum and maximum number of blocks by which the pool grows, unless a single row needs more."""

GROWTH_PARTS = 16
"""Divisor: between these bounds, the pool grows by its number of blocks divided by this."""

MAX_PLACES = 2**31 - 1
"""Maximum number of blocks in the pool, which int32 can index."""

Parts = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]
"""For every row, the end of its blocks; the numbers of the blocks; their weights, shape (n_blocks, 8)."""


def is_sparse(n_features: int, n_columns: int, itemsize: int) -> bool:
    """Return whether a table is sparse, which depends only on its size."""
    return n_blocks(n_columns) >= MIN_SPARSE_BLOCKS and itemsize * n_features * n_columns > DENSE_BYTES


def n_blocks(n_columns: int) -> int:
    """Return the number of blocks for `n_columns` columns."""
    return -(-n_columns // BLOCK)


class SparseTable:
    """Sparse table; see `_sparse_table`. `parts` has the arrays that are passed to compiled functions."""

    def __init__(self, dtype: Any) -> None:
        book = np.zeros(FREE + N_CLASSES, np.int64)
        book[FREE:] = NONE
        pool = np.zeros(0, np.int32), np.zeros((0, BLOCK), dtype)
        self.parts: Any = np.zeros((0, 3), np.int32), book, *pool
        self._dtype = np.dtype(dtype)

    def enlarge(self, n_rows: int) -> None:
        """Grow to at least this many rows."""
        self.parts = (enlarged(self.parts[0], (n_rows, 3)), *self.parts[1:])

    def reserve(self, n_places: int) -> None:
        """Extend the pool by at least this number of blocks; must not run concurrently with other functions of the
        table.
        """
        if n_places == 0:
            return
        size = len(self.parts[-1])
        size += max(n_places, min(size // GROWTH_PARTS, MAX_GROWTH), MIN_GROWTH)
        if size > MAX_PLACES:
            raise MemoryError(f"a table of weights has at most {MAX_PLACES:,} blocks")
        heads, book, *pool = self.parts
        self.parts = None
        self.parts = heads, book, _longer(pool, size), _longer(pool, size)

    def dense(self, n_rows: int, n_columns: int) -> NDArray[Any]:
        """Return the first rows and columns as a dense table."""
        ends, numbers, weights = self.pack(n_rows)
        table = np.zeros((n_rows, n_blocks(n_columns), BLOCK), self._dtype)
        table[np.repeat(np.arange(n_rows), np.diff(ends, prepend=0)), numbers] = np.asarray(weights)
        return table.reshape(n_rows, n_blocks(n_columns) * BLOCK)[:, :n_columns]

    @property
    def n_rows(self) -> int:
        """Return the row capacity."""
        return len(self.parts[0])

    @property
    def held(self) -> int:
        """Number of blocks of all rows."""
        return int(self.parts[1][HELD])

    def nbytes_after(self, n_rows: int, n_columns: int, n_changed: int) -> int:
        """Return the maximum bytes of a state with these rows and columns, after this many rows have changed."""
        most = min(n_rows * n_blocks(n_columns), self.held + n_changed * n_blocks(n_columns))
        return 8 * n_rows + self.block_bytes * most

    @property
    def block_bytes(self) -> int:
        """Number of bytes of a block."""
        return int(4 + BLOCK * self._dtype.itemsize)

    def column(self, rows: NDArray[np.int32], column: int) -> NDArray[np.float64]:
        """Return the weights of rows in a column."""
        values = np.empty(len(rows))
        gather(self.parts, rows, column, values)
        return values

    def clear(self, column: int) -> None:
        """Set the weights of a column to 0."""
        clear_column(self.parts, column)

    def pack(self, n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int32], Any]:
        """Return the state of the first rows, without blocks that are all 0. The weights are a `LateArray`."""
        ends = np.empty(n_rows, np.int64)
        count_blocks(self.parts, ends)
        size = int(ends[-1]) if n_rows else 0
        numbers = np.empty(size, np.int32)
        pack_numbers(self.parts, n_rows, numbers)
        return ends, numbers, LateArray((size, BLOCK), self._dtype, partial(pack_weights, self.parts, n_rows))

    @classmethod
    def of(cls, parts: Parts) -> SparseTable:
        """Return the table with these checked parts."""
        table = cls(parts[2].dtype)
        table.enlarge(len(parts[0]))
        table.reserve(int(room_of(parts[0])))
        unpack_blocks(table.parts, *parts)
        return table


def empty_parts(dtype: Any) -> Parts:
    """Return the parts of a state without rows."""
    return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, BLOCK), dtype)


def dense_parts(dense: NDArray[Any]) -> Parts:
    """Return the parts of a dense table, whose number of columns must be a multiple of the block width."""
    blocks = dense.reshape(len(dense), dense.shape[1] // BLOCK, BLOCK)
    stored = blocks.any(axis=2)
    return np.cumsum(stored.sum(axis=1)), np.nonzero(stored)[1].astype(np.int32), blocks[stored]


def check_parts(name: str, parts: Parts, n_columns: int) -> None:
    """Raise ValueError unless these are valid parts of a table with `n_columns` columns, as compiled functions
    require."""
    ends, numbers, weights = parts
    check_range(f"{name}.ends", ends, 0, len(numbers))
    counts = np.diff(ends, prepend=0)
    if counts.min(initial=0) < 0 or len(numbers) != (ends[-1] if len(ends) else 0):
        raise ValueError(f"state: {name}.ends must ascend to {len(numbers)}, the number of {name}.blocks")
    if weights.shape != (len(numbers), BLOCK):
        raise ValueError(f"state: {name}.values must have {BLOCK} values for each of {name}.blocks")
    rows = np.repeat(np.arange(len(ends)), counts)
    ascending = (np.diff(numbers) > 0) | (np.diff(rows) > 0)
    if not ascending.all() or (numbers < 0).any() or (numbers >= n_blocks(n_columns)).any():
        raise ValueError(f"state: {name}.blocks must ascend in each row, and be below {n_blocks(n_columns)}")
    beyond = n_columns % BLOCK
    if beyond and weights[numbers == n_blocks(n_columns) - 1, beyond:].any():
        raise ValueError(f"state: {name}.values must be 0 after the last label")


def _longer(arrays: list[NDArray[Any]], length: int) -> NDArray[Any]:
    """Return a longer array that begins with the first of some arrays.

    If possible, the system moves the memory without a second copy.
    """
    array = arrays.pop(0)
    shape = length, *array.shape[1:]
    try:
        array.resize(shape)
    except ValueError:  # another reference to the array exists
        longer = np.empty(shape, array.dtype)
        longer[: len(array)] = array
        return longer
    return array
