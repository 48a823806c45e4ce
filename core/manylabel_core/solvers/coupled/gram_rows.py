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
"""Number of rows of a Gram matrix that are compared with their columns."""
PROBED_ROWS = 64
"""Number of rows of a Gram matrix in single precision that are compared with the rows in double precision."""
RANGE = (1e-30, 1e30)
"""Range of kernel values for single precision, well within its exponents."""
_CHUNK_BYTES = 1 << 24

TakeRows = Callable[[NDArray[np.int64]], NDArray[Any]]
"""Function from points to their kernel values with all points, shape (len(points), n_samples)."""


class RowSource(Protocol):
    """Rows of a positive semi-definite Gram matrix that need not be stored."""

    def rows(self, block: NDArray[np.int64]) -> NDArray[Any]:
        """Return the kernel values between some points and all points, (len(block), n_samples), float32 or float64."""

    def diagonal(self) -> NDArray[Any]:
        """Return the kernel value of each point with itself, shape (n_samples,)."""


class CachedRows:
    """Source of rows that caches the first requested rows, up to `max_bytes`.

    Passes visit the points in random order, so no other cache policy would have more hits.
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
        """Return the kernel values between some points and all points, shape (len(block), n_samples)."""
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
    """A few rows in double precision, to estimate the rounding error of scores."""

    points: NDArray[np.int64]  # (m,), drawn with a preference for large kernel values, which have large rounding errors
    rows: NDArray[np.float64]  # (m, n_samples)
    weights: NDArray[np.float64]  # (m,): number of points that each row represents


class StoredGram:
    """Gram matrix in single precision, replaced by one in double precision when a solver needs it.

    A solver switches when the requested gap is below its estimate of rounding errors. The matrix then stays in double
    precision.

    Parameters
    ----------
    rows : callable
        Rows of some points in double precision.
    make : callable
        Makes the matrix in a precision; in double precision a `RowSource` if memory is insufficient.
    """

    def __init__(self, rows: TakeRows, make: Callable[[type], NDArray[Any] | RowSource]) -> None:
        self._rows = rows
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

        return cls(K.__getitem__, make)

    def kept(self) -> NDArray[Any] | RowSource:
        """Return the matrix or rows in the current precision, single at first."""
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
            self._probe = Probe(points, np.asarray(self._rows(points), dtype=np.float64), weights)
        return self._probe

    def sharpen(self) -> None:
        """Switch to double precision."""
        self.kept()
        if self._is_single:
            self._kept = self._probe = None  # both matrices at once would need 1.5 times the memory
            self._kept, self._is_single = self._make(np.float64), False


class CheckedRows:
    """Checked rows of a Gram matrix of `n` points. If they are `stored`, they need not be computed. `probe` is None if
    nothing was rounded.
    """

    probe: Probe | None = None

    def __init__(self, rows: TakeRows, n: int, dtype: np.dtype[Any], stored: bool) -> None:
        self._rows = rows
        self.n = n
        self.dtype = dtype
        self.stored = stored

    def take(self, block: NDArray[np.int64], dtype: DTypeLike) -> NDArray[Any]:
        """Return the rows of some points."""
        rows = np.asarray(self._rows(block), dtype=dtype)
        if rows.shape != (len(block), self.n):
            raise ValueError(f"rows of K must have the shape {(len(block), self.n)}, not {rows.shape}")
        if not (self.stored or np.isfinite(rows).all()):
            raise ValueError("K must be finite")
        return rows


def as_row_source(K: NDArray[Any] | RowSource | StoredGram) -> CheckedRows:
    """Check a Gram matrix or a source of rows."""
    if isinstance(K, StoredGram):
        checked = as_row_source(K.kept())
        checked.probe = K.probe()
        return checked
    if not isinstance(K, np.ndarray) and hasattr(K, "rows") and hasattr(K, "diagonal"):
        diagonal = _checked_diagonal(np.asarray(K.diagonal()))
        return CheckedRows(K.rows, len(diagonal), K.rows(np.zeros(1, np.int64)).dtype, stored=False)
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
    return CheckedRows(gram.__getitem__, len(gram), gram.dtype, stored=True)


def _checked_diagonal(diagonal: NDArray[Any]) -> NDArray[Any]:
    if diagonal.ndim != 1 or not len(diagonal):
        raise ValueError("K must not be empty")
    if not (np.isfinite(diagonal).all() and (diagonal >= 0).all()):
        raise ValueError(f"K must be positive semi-definite, but has {diagonal.min():g} on its diagonal")
    return diagonal


def _drawn(diagonal: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return points and their weights: all points, or a sample in proportion to the possible rounding errors, which
    grow with sqrt(K_ii K_jj).
    """
    n = len(diagonal)
    if n <= PROBED_ROWS:
        return np.arange(n), np.ones(n)
    lengths = np.sqrt(diagonal)
    shares = lengths + lengths.mean()
    ends = np.cumsum(shares / shares.sum())
    points = np.minimum(np.searchsorted(ends, (np.arange(PROBED_ROWS) + 0.5) / PROBED_ROWS), n - 1)
    return points, shares.sum() / (PROBED_ROWS * shares[points])
