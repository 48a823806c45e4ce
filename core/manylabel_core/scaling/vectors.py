"""Scaling of vectors: every field of vectors is a separate block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.records.bounds import MAX_VECTOR_FIELDS, MAX_VECTOR_LENGTH
from manylabel_core.rows import MAX_MAGNITUDE, VECTOR_COLUMNS, Rows, VectorRows
from manylabel_core.scaling._vectors import join_vectors, split_vectors, standardise_vectors, take_words
from manylabel_core.scaling.scaling import MAX_SCALED_VALUES
from manylabel_core.storage import MAX_COUNT, check_range


class VectorScaling:
    """Scaling of vectors: values are standardised over the examples with the field, then divided by the norm.

    A value further from its mean than ten deviations counts as one that far, so that a wild value does not spoil the
    scale. A vector says nothing if it is missing, or if all its values are at their mean, as those of a first one.

    Attributes
    ----------
    lengths : tuple of int
        Length of the vectors of each field.
    """

    def __init__(self) -> None:
        self.lengths: tuple[int, ...] = ()
        self._rows_before = np.zeros(0, np.int64)
        self._starts = np.zeros(1, np.int64)
        self._counts = np.zeros(0, np.int64)
        self._moments = np.zeros((2, 0))

    def grow(self, lengths: Sequence[int], n_features: int) -> None:
        """Grow to fields of these lengths; `n_features` is the number of other features so far."""
        found = tuple(lengths)
        if found[: len(self.lengths)] != self.lengths:
            raise ValueError(f"lengths of vectors must begin with {self.lengths}")
        if len(found) > MAX_VECTOR_FIELDS or not all(1 <= length <= MAX_VECTOR_LENGTH for length in found):
            raise ValueError(f"at most {MAX_VECTOR_FIELDS} fields may have vectors, of 1 to {MAX_VECTOR_LENGTH} values")
        new = len(found) - len(self.lengths)
        self.lengths = found
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(found, np.int64))])
        self._rows_before = np.concatenate([self._rows_before, np.full(new, n_features, np.int64)])
        self._counts = np.concatenate([self._counts, np.zeros(new, np.int64)])
        before, self._moments = self._moments, np.zeros((2, self.n_values))
        self._moments[:, : before.shape[1]] = before

    @property
    def n_values(self) -> int:
        """The number of values of all fields together."""
        return int(self._starts[-1])

    @property
    def columns(self) -> NDArray[np.int32]:
        """The column of the first value of each field."""
        return (VECTOR_COLUMNS + self._starts[:-1]).astype(np.int32)

    @property
    def rows_at_once(self) -> int:
        """Return the maximum rows per call, each of which has the values of all fields."""
        return max(1, MAX_SCALED_VALUES // self.n_values)

    def split(self, rows: Rows) -> tuple[Rows, VectorRows]:
        """Return the other features of rows, and their vectors, unscaled."""
        indptr, indices, values = rows
        n_rows = len(indptr) - 1
        if n_rows < 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
            raise ValueError("indptr must ascend from 0 to the number of indices and values")
        vectors = np.zeros((n_rows, self.n_values), values.dtype)
        word_indptr, present = np.empty(n_rows + 1, np.int64), np.zeros((n_rows, len(self.lengths)), np.bool_)
        if not split_vectors(VECTOR_COLUMNS, self._starts, *rows, word_indptr, present, vectors):
            raise ValueError("rows contain an incomplete vector")
        if n_rows == 1:  # the common case
            words = Rows(word_indptr, indices[: word_indptr[1]], values[: word_indptr[1]])
        else:
            taken = np.empty(word_indptr[-1], indices.dtype), np.empty(word_indptr[-1], values.dtype)
            for entries, own in zip((indices, values), taken, strict=True):
                take_words(indptr, word_indptr, entries, own)
            words = Rows(word_indptr, *taken)
        return words, VectorRows(self._starts, present, vectors)

    def scale(self, vectors: VectorRows, store: bool) -> VectorRows:
        """Scale vectors in place; with `store`, add each to the statistics."""
        standardise_vectors(self._counts, self._moments, self._starts, store, vectors.present, vectors.values)
        return vectors

    def join(self, rows: Rows, vectors: VectorRows) -> Rows:
        """Return scaled rows with their vectors among the other features, weighted one to four in squared norm."""
        most = len(rows.indices) + vectors.values.size
        indptr = np.empty(len(rows.indptr), np.int64)
        indices, values = np.empty(most, rows.indices.dtype), np.empty(most, rows.values.dtype)
        n = join_vectors(self._rows_before, *vectors, *rows, indptr, indices, values)
        return Rows(indptr, indices[:n], values[:n])

    def origin(self, columns: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the columns before `join`; for values of a vector, that of its first value."""
        origin = columns.astype(np.int64)
        n_before = np.zeros(len(columns), np.int64)
        for field, length in enumerate(self.lengths):
            first = self._rows_before[field] + self._starts[field]
            own = (columns >= first) & (columns < first + length)
            n_before[columns >= first + length] += length
            origin[own] = VECTOR_COLUMNS + self._starts[field]
        of_words = origin < VECTOR_COLUMNS
        origin[of_words] -= n_before[of_words]
        return origin.astype(np.int32)

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return 24 * len(self.lengths) + 16 * self.n_values

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the lengths, the features known before, the counts and the moments of the fields."""
        return {
            "vectors.lengths": np.array(self.lengths, np.int64),
            "vectors.rows_before": self._rows_before,
            "vectors.counts": self._counts,
            "vectors.moments": self._moments,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
        """Restore a state, given the number of other features; raise ValueError if it is invalid."""
        lengths, before, counts, moments = (arrays[f"vectors.{name}"] for name in _PARTS)
        self.grow(lengths.tolist(), 0)
        if before.shape != lengths.shape or counts.shape != lengths.shape or moments.shape != (2, self.n_values):
            raise ValueError(
                "state must hold rows_before and counts for each field of vectors, and two rows of moments"
            )
        if (np.diff(before) < 0).any():
            raise ValueError("state must hold vectors.rows_before that ascend")
        check_range("vectors.rows_before", before, 0, n_features)
        check_range("vectors.counts", counts, 0, MAX_COUNT)
        check_range("vectors.moments", moments[0], -2 * MAX_MAGNITUDE, 2 * MAX_MAGNITUDE)
        check_range("vectors.moments", moments[1], 0.0, 4 * MAX_MAGNITUDE**2 * MAX_COUNT)
        self._rows_before, self._counts, self._moments = before, counts, moments


_PARTS = ("lengths", "rows_before", "counts", "moments")
