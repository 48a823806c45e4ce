"""Support vectors: where a kernel model keeps what it has learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online._linear import squared_norm
from manylabel_core.online._storage import check_range, enlarged
from manylabel_core.rows import MAX_MAGNITUDE, Rows


class SupportVectors:
    """Examples with a row of coefficients each, in the order in which they got their places.

    Parameters
    ----------
    dtype : str
        Type of the coefficients and of the examples' values.
    budget : int or None
        Most vectors kept. When they are that many, a new one takes the place of the one with the smallest
        norm of coefficients (the first of them, if several).

    Attributes
    ----------
    alpha : ndarray of shape (>= n_vectors, >= 1 + n_labels)
        Coefficients, threshold first.
    place : ndarray of shape (>= n_vectors, 2), int64
        First and last + 1 entry of a vector in the pool.
    norms : ndarray of shape (>= n_vectors, 2), float64
        Squared norm of a vector, and of its coefficients.
    indices, values : ndarrays
        The pool: feature columns and values of the vectors, with gaps where vectors were replaced.
    """

    def __init__(self, dtype: str, budget: int | None) -> None:
        self.budget = budget
        self.n_vectors = 0
        self.alpha = np.zeros((0, 1), dtype=dtype)
        self.place = np.zeros((0, 2), dtype=np.int64)
        self.norms = np.zeros((0, 2), dtype=np.float64)
        self.indices = np.zeros(0, dtype=np.int32)
        self.values = np.zeros(0, dtype=dtype)
        self._end = 0

    @property
    def expansion(self) -> tuple[Any, Any, Any, Any, Any, int]:
        """What `score_expansion` needs of the vectors."""
        return self.alpha, self.place, self.norms, self.indices, self.values, self.n_vectors

    def grow(self, n_columns: int) -> None:
        """Make room for coefficients of at least this many columns."""
        self.alpha = enlarged(self.alpha, (len(self.alpha), n_columns))

    def add(self, indices: NDArray[np.int32], values: NDArray[Any], norm: float, tau: NDArray[np.float64]) -> None:
        """Add a vector, its squared norm, and its coefficients (missing columns are 0)."""
        if len(values) > len(self.values) - self._end:
            self._make_room(len(values))
        slot = self._take_slot()
        start, self._end = self._end, self._end + len(values)
        self.indices[start : self._end] = indices
        self.values[start : self._end] = values
        self.place[slot] = start, self._end
        self.alpha[slot, : len(tau)] = tau
        self.alpha[slot, len(tau) :] = 0
        self.norms[slot] = norm, squared_norm(self.alpha[slot], 0.0)

    def _take_slot(self) -> int:
        if self.budget is not None and self.n_vectors >= self.budget:
            return int(np.argmin(self.norms[: self.n_vectors, 1]))
        slot, self.n_vectors = self.n_vectors, self.n_vectors + 1
        self.alpha = enlarged(self.alpha, (self.n_vectors, self.alpha.shape[1]))
        self.place = enlarged(self.place, (self.n_vectors, 2))
        self.norms = enlarged(self.norms, (self.n_vectors, 2))
        return slot

    def _make_room(self, n_values: int) -> None:
        """Move the vectors, without gaps, to a pool of twice the size needed."""
        indptr, indices, values = self.packed()
        self._end = len(values)
        self.place[: self.n_vectors] = np.stack([indptr[:-1], indptr[1:]], axis=1)
        self.indices = np.zeros(2 * (self._end + n_values), dtype=indices.dtype)
        self.values = np.zeros(2 * (self._end + n_values), dtype=values.dtype)
        self.indices[: self._end] = indices
        self.values[: self._end] = values

    def packed(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """The vectors as compressed sparse rows: indptr, indices, values."""
        place = self.place[: self.n_vectors]
        lengths = place[:, 1] - place[:, 0]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        entries = np.arange(indptr[-1]) + np.repeat(place[:, 0] - indptr[:-1], lengths)
        return indptr, self.indices[entries], self.values[entries]

    @property
    def n_values(self) -> int:
        """Number of values in all vectors."""
        place = self.place[: self.n_vectors]
        return int((place[:, 1] - place[:, 0]).sum())


def check_rows(name: str, rows: Rows, n_features: int) -> None:
    """Raise ValueError if the kernels cannot rely on rows that are to become support vectors."""
    indptr, indices, values = rows
    if len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != len(indices) or len(indices) != len(values):
        raise ValueError(f"state must hold a {name}.indptr from 0 to the number of indices and values")
    if (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"state must hold a {name}.indptr that ascends")
    begins = np.zeros(len(indices) + 1, dtype=np.bool_)
    begins[indptr] = True
    if ((indices[1:] <= indices[:-1]) & ~begins[1:-1]).any():
        raise ValueError(f"state must hold {name}.indices that ascend in each row")
    check_range(f"{name}.indices", indices, 0, n_features - 1)
    # Rounding to float32 may have made the largest a little larger.
    check_range(f"{name}.values", values, -1.001 * MAX_MAGNITUDE, 1.001 * MAX_MAGNITUDE)
