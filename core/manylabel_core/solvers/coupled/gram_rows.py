"""Sources of Gram matrix rows for the kernel solver: stored, or computed on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manylabel_core.rows import row_blocks

SYMMETRY = 1e-3
"""Maximum asymmetry of a Gram matrix, relative to its largest entry: rounding errors are accepted."""
CHECKED_ROWS = 64
"""Rows of a Gram matrix that are compared with their columns."""
PROBED_ROWS = 64
"""Rows of a Gram matrix in single precision that are held against those in double precision."""
RANGE = (1e-30, 1e30)
"""Kernel values that single precision holds, well within its exponents."""
_CHUNK_BYTES = 1 << 24


class RowSource(Protocol):
    """Rows of a positive semi-definite Gram matrix that need not be stored."""

    def rows(self, block: NDArray[np.int64]) -> NDArray[Any]:
        """Return the kernel values of some points with all, shape (len(block), n_samples), float32 or float64."""

    def diagonal(self) -> NDArray[Any]:
        """Return the kernel value of each point with itself, shape (n_samples,)."""


class CachedRows:
    """Source of rows with a cache of the first requested ones.

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


class Probe(NamedTuple):
    """Estimate of the rounding error of scores, from a few rows in double precision.

    Attributes
    ----------
    points : ndarray of shape (m,), int64
        Drawn so that one with large kernel values, and so with large rounding errors, is not missed.
    rows : ndarray of shape (m, n_samples), float64
    weights : ndarray of shape (m,), float64
        How many points each stands for.
    """

    points: NDArray[np.int64]
    rows: NDArray[np.float64]
    weights: NDArray[np.float64]


class StoredGram:
    """Gram matrix in single precision, computed again in double precision when a solver needs it.

    A solver asks for the double precision when the gap it has been given is below what it makes out of rounding errors;
    from then on the matrix keeps to it.

    Parameters
    ----------
    source : RowSource
        Rows in double precision.
    make : callable
        Makes the matrix in the precision given; in double precision it may make a `RowSource`, where memory is short.
    """

    def __init__(self, source: RowSource, make: Callable[[type], NDArray[Any] | RowSource]) -> None:
        self._source = source
        self._make = make
        self._kept: NDArray[Any] | RowSource | None = None
        self._is_single = False
        self._probe: Probe | None = None

    @classmethod
    def of(cls, K: NDArray[np.float64]) -> StoredGram:
        """Create a source from a matrix in double precision, which is retained."""

        def make(dtype: type) -> NDArray[Any]:
            with np.errstate(over="ignore"):
                return K.astype(dtype, copy=False)

        return cls(_StoredRows(K), make)

    def kept(self) -> NDArray[Any] | RowSource:
        """Return the matrix, or the rows instead of it, as it is now; in single precision at first."""
        if self._kept is None:
            single = self._make(np.float32)
            largest = np.asarray(single.diagonal()).max()
            self._is_single = bool(RANGE[0] < largest < RANGE[1])
            self._kept = single if self._is_single else self._make(np.float64)
        return self._kept

    def probe(self) -> Probe | None:
        """Return rows to estimate rounding errors; None in double precision."""
        kept = self.kept()
        if not self._is_single:
            return None
        if self._probe is None:
            points, weights = _drawn(np.asarray(kept.diagonal(), dtype=np.float64))
            self._probe = Probe(points, np.asarray(self._source.rows(points), dtype=np.float64), weights)
        return self._probe

    def sharpen(self) -> None:
        """Switch to double precision."""
        self.kept()
        if self._is_single:
            self._kept = self._probe = None  # both precisions at once would need half as much memory again
            self._kept, self._is_single = self._make(np.float64), False


class CheckedRows:
    """Checked rows are in the precision that the solver works in.

    Attributes
    ----------
    n : int
        Number of points.
    dtype : dtype
        Type of the kernel values.
    stored : bool
        Whether they only must be read.
    probe : Probe or None
        The kernel values in double precision, if they were rounded.
    """

    probe: Probe | None = None

    def __init__(self, source: RowSource, n: int, dtype: np.dtype[Any], stored: bool) -> None:
        self._source = source
        self.n = n
        self.dtype = dtype
        self.stored = stored

    def take(self, block: NDArray[np.int64], dtype: DTypeLike) -> NDArray[Any]:
        """Return the rows of some points."""
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


def as_row_source(K: NDArray[Any] | RowSource | StoredGram) -> CheckedRows:
    """Check a Gram matrix or a source of rows."""
    if isinstance(K, StoredGram):
        checked = as_row_source(K.kept())
        checked.probe = K.probe()
        return checked
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


def _drawn(diagonal: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return points and their weights: all, or a sample in proportion to the possible rounding errors.

    Kernel values with other points are at most sqrt(K_ii K_jj), and rounding errors grow with them.
    """
    n = len(diagonal)
    if n <= PROBED_ROWS:
        return np.arange(n), np.ones(n)
    lengths = np.sqrt(diagonal)
    shares = lengths + lengths.mean()
    ends = np.cumsum(shares / shares.sum())
    points = np.minimum(np.searchsorted(ends, (np.arange(PROBED_ROWS) + 0.5) / PROBED_ROWS), n - 1)
    return points, shares.sum() / (PROBED_ROWS * shares[points])
