"""Stored examples of a kernel model (support vectors or landmarks), its settings, and scratch memory for kernel
values."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import MAX_MAGNITUDE, Rows
from manylabel_core.storage import check_range, enlarged

MAX_KEPT = 2**20
"""Maximum number of features for which a thread keeps its scratch memory; larger scratch is allocated for each call."""


class _Kept(threading.local):
    """Memory of a thread: zeros in the first half, arbitrary values in the second half."""

    def __init__(self) -> None:
        self.memory = np.zeros(0)


_kept = _Kept()


def scratch(n_features: int) -> NDArray[np.float64]:
    """Return an array of shape (2, n_features) whose row 0 is zero.

    It is memory that the thread reuses, so that zeros need not be written for each call. A caller that writes to row 0
    must reset it; the next call may return the same memory.
    """
    if n_features > MAX_KEPT:
        return np.zeros((2, n_features))
    half = len(_kept.memory) // 2
    if half < n_features:
        half = min(max(n_features, 2 * half), MAX_KEPT)
        _kept.memory = np.zeros(2 * half)
    return _kept.memory[half - n_features : half + n_features].reshape(2, n_features)


class KernelSettings(NamedTuple):
    """Validated settings of a kernel model."""

    shape: tuple[int, float, float, int]  # kind, gamma, coef0, degree: see `kernel_value`
    constant: float  # root of the constant added to the kernel; 0 for none
    budget: int | None  # maximum number of support vectors, or the number of features
    dtype: str  # type of coefficients, weights and values


class Points:
    """Pool of examples, each in one of the first `n_points` slots.

    `place`, (>= n_points, 2), has the first and last + 1 entry of each example in the pool `indices` and `values`,
    which has gaps; `norms` has the squared norms.
    """

    def __init__(self, dtype: str) -> None:
        self.n_points = 0
        self.place = np.zeros((0, 2), dtype=np.int64)
        self.norms = np.zeros(0, dtype=np.float64)
        self.indices = np.zeros(0, dtype=np.int32)
        self.values = np.zeros(0, dtype=dtype)
        self._end = 0

    @property
    def parts(self) -> tuple[Any, Any, Any, Any, int]:
        """Return the inputs of `kernel_column`."""
        return self.place, self.norms, self.indices, self.values, self.n_points

    def point(self, slot: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return the columns and values of an example."""
        first, last = self.place[slot]
        return self.indices[first:last], self.values[first:last]

    def append(self, indices: NDArray[np.int32], values: NDArray[Any], norm: float) -> None:
        """Add an example, without zeros, and its squared norm in a new slot."""
        self.place = enlarged(self.place, (self.n_points + 1, 2))
        self.norms = enlarged(self.norms, (self.n_points + 1,))
        self.place[self.n_points] = self._end, self._end
        self.n_points += 1
        self.move(self.n_points - 1, indices, values, norm)

    def move(self, slot: int, indices: NDArray[np.int32], values: NDArray[Any], norm: float) -> None:
        """Replace the example of a slot."""
        if len(values) > len(self.values) - self._end:
            self._make_room(len(values))
        start, self._end = self._end, self._end + len(values)
        self.indices[start : self._end] = indices
        self.values[start : self._end] = values
        self.place[slot] = start, self._end
        self.norms[slot] = norm

    def remove(self, slot: int) -> None:
        """Remove an example; the last one moves to its slot."""
        self.n_points -= 1
        self.place[slot] = self.place[self.n_points]
        self.norms[slot] = self.norms[self.n_points]

    def _make_room(self, n_values: int) -> None:
        """Move the examples, without gaps, to a pool of twice the size needed."""
        indptr, indices, values = self.packed()
        self._end = len(values)
        self.place[: self.n_points] = np.stack([indptr[:-1], indptr[1:]], axis=1)
        self.indices = np.zeros(2 * (self._end + n_values), dtype=indices.dtype)
        self.values = np.zeros(2 * (self._end + n_values), dtype=values.dtype)
        self.indices[: self._end] = indices
        self.values[: self._end] = values

    def packed(self) -> Rows:
        """Return the examples as compressed sparse rows."""
        place = self.place[: self.n_points]
        lengths = place[:, 1] - place[:, 0]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        entries = np.arange(indptr[-1]) + np.repeat(place[:, 0] - indptr[:-1], lengths)
        return Rows(indptr, self.indices[entries], self.values[entries])

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the state of the examples under a name."""
        return {f"{name}.{part}": array for part, array in self.packed()._asdict().items()}

    @property
    def n_values(self) -> int:
        """Return the number of values of all examples."""
        place = self.place[: self.n_points]
        return int((place[:, 1] - place[:, 0]).sum())


def stored_rows(name: str, arrays: Mapping[str, NDArray[Any]], n_features: int) -> Rows:
    """Return the rows of the state of some points; raise ValueError unless compiled functions can rely on them."""
    indptr, indices, values = rows = Rows(*(arrays[f"{name}.{part}"] for part in Rows._fields))
    if len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != len(indices) or len(indices) != len(values):
        raise ValueError(f"state: {name}.indptr must begin with 0, and end with the number of indices and of values")
    if (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"state: {name}.indptr must ascend")
    begins = np.zeros(len(indices) + 1, dtype=np.bool_)
    begins[indptr] = True
    if ((indices[1:] <= indices[:-1]) & ~begins[1:-1]).any():
        raise ValueError(f"state: {name}.indices must ascend in each row")
    check_range(f"{name}.indices", indices, 0, n_features - 1)
    # Rounding to float32 may have increased the largest value slightly.
    check_range(f"{name}.values", values, -1.001 * MAX_MAGNITUDE, 1.001 * MAX_MAGNITUDE)
    return rows
