"""The kernel solver's rows come from a stored Gram matrix, or something that computes them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manylabel_core.rows import row_blocks

SYMMETRY = 1e-3
"""How far a Gram matrix may be from symmetric, relative to its largest entry: rounding is not refused."""
CHECKED_ROWS = 64
"""Rows of a Gram matrix that are compared with their columns."""
_CHUNK_BYTES = 1 << 24


class RowSource(Protocol):
    """A source gives rows of a positive semi-definite Gram matrix that need not exist as a whole."""

    def rows(self, block: NDArray[np.int64]) -> NDArray[Any]:
        """Return the kernel values of some points with all, shape (len(block), n_samples), float32 or float64."""

    def diagonal(self) -> NDArray[Any]:
        """Return the kernel value of each point with itself, shape (n_samples,)."""


class CachedRows:
    """This source of rows keeps as many as fit: the first ones asked for stay.

    Passes take the points in random order, for which no policy has more hits than that.

    Parameters
    ----------
    source : RowSource
    max_bytes : int
        Memory for rows.
    """

    def __init__(self, source: RowSource, max_bytes: int) -> None:
        self._source = source
        self._diagonal = source.diagonal()
        self._slot = np.full(len(self._diagonal), -1)
        self._kept: NDArray[Any] | None = None
        self._max_bytes = max_bytes
        self._used = 0
        self.computed = 0

    def diagonal(self) -> NDArray[Any]:
        """Return the kernel value of each point with itself, shape (n_samples,)."""
        return self._diagonal

    def rows(self, block: NDArray[np.int64]) -> NDArray[Any]:
        """Return the kernel values of some points with all, shape (len(block), n_samples)."""
        missing = np.flatnonzero(self._slot[block] < 0)
        if self._kept is not None and not len(missing):
            return np.asarray(self._kept[self._slot[block]])
        fresh = self._source.rows(block[missing])
        self.computed += len(missing)
        if self._kept is None:
            n = len(self._diagonal)
            self._kept = np.empty((min(n, self._max_bytes // (n * fresh.itemsize)), n), fresh.dtype)
        rows = np.empty((len(block), len(self._diagonal)), fresh.dtype)
        found = np.flatnonzero(self._slot[block] >= 0)
        rows[found] = self._kept[self._slot[block[found]]]
        rows[missing] = fresh
        room = fresh[: len(self._kept) - self._used]
        self._kept[self._used : self._used + len(room)] = room
        self._slot[block[missing[: len(room)]]] = np.arange(self._used, self._used + len(room))
        self._used += len(room)
        return rows


class CheckedRows:
    """Checked rows are in the precision that the solver works in.

    Attributes
    ----------
    n : int
        Number of points.
    dtype : dtype
        Of the kernel values.
    stored : bool
        Whether they only have to be read.
    """

    def __init__(self, source: RowSource, n: int, dtype: np.dtype[Any], stored: bool) -> None:
        self._source = source
        self.n = n
        self.dtype = dtype
        self.stored = stored

    def take(self, block: NDArray[np.int64], dtype: DTypeLike) -> NDArray[Any]:
        """Return the rows of some points.

        Raises
        ------
        ValueError
            If the source gives something else.
        """
        rows = np.asarray(self._source.rows(block), dtype=dtype)
        if rows.shape != (len(block), self.n):
            raise ValueError(f"K must give rows of shape {(len(block), self.n)}, not {rows.shape}")
        if not (self.stored or np.isfinite(rows).all()):
            raise ValueError("K must be finite")
        return rows


class _StoredRows:
    def __init__(self, K: NDArray[Any]) -> None:
        self._K = K

    def rows(self, block: NDArray[np.int64]) -> NDArray[Any]:
        return np.asarray(self._K[block])

    def diagonal(self) -> NDArray[Any]:
        return self._K.diagonal()


def as_row_source(K: NDArray[Any] | RowSource) -> CheckedRows:
    """Check a Gram matrix or a source of rows.

    Raises
    ------
    ValueError
        If it is not square, empty, not finite, visibly not symmetric, or has a negative diagonal.
    """
    if not isinstance(K, np.ndarray) and hasattr(K, "rows") and hasattr(K, "diagonal"):
        diagonal = _checked_diagonal(np.asarray(K.diagonal()))
        return CheckedRows(K, len(diagonal), K.rows(np.zeros(1, np.int64)).dtype, stored=False)
    gram = np.asarray(K)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ValueError(f"K must be a square matrix, not of shape {gram.shape}")
    if gram.dtype not in (np.float32, np.float64):
        gram = gram.astype(np.float64)
    _checked_diagonal(gram.diagonal())
    if not all(np.isfinite(gram[rows]).all() for rows in row_blocks(len(gram), gram.nbytes // len(gram), _CHUNK_BYTES)):
        raise ValueError("K must be finite")
    sample = np.unique(np.linspace(0, len(gram) - 1, CHECKED_ROWS).astype(np.int64))
    rows, columns = gram[sample], gram[:, sample].T
    if np.abs(rows - columns).max() > SYMMETRY * np.abs(rows).max():
        raise ValueError("K must be symmetric")
    return CheckedRows(_StoredRows(gram), len(gram), gram.dtype, stored=True)


def _checked_diagonal(diagonal: NDArray[Any]) -> NDArray[Any]:
    if diagonal.ndim != 1 or not len(diagonal):
        raise ValueError("K must not be empty")
    if not (np.isfinite(diagonal).all() and (diagonal >= 0).all()):
        raise ValueError(f"K must be positive semi-definite, but has {diagonal.min():g} on its diagonal")
    return diagonal
