"""Scaling of vectors: every field of vectors is a separate block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.part import Array, Part, Sizes
from manylabel_core.records.bounds import MAX_VECTOR_FIELDS, MAX_VECTOR_LENGTH
from manylabel_core.rows import MAX_MAGNITUDE, VECTOR_COLUMNS, Rows, VectorRows
from manylabel_core.scaling._automatic import FAR_IN_A_ROW, NEAR_IN_A_ROW
from manylabel_core.scaling._vectors import join_vectors, split_vectors, standardise_vectors, take_words
from manylabel_core.scaling.scaling import MAX_SCALED_VALUES
from manylabel_core.storage import MAX_COUNT


class VectorScaling(Part):
    """Scaling of vectors: values are standardised over the examples with the field, then divided by the norm.

    A value is clipped at ten deviations from its mean, so that an outlier does not distort the scale; its moments
    restart as in `AutomaticScaling` when it has another level or unit. A vector has no effect if all its values are at
    their mean, as in the first vector.
    """

    prefix = "vectors."
    _lengths: NDArray[np.int64]
    _rows_before: NDArray[np.int64]
    _moments: NDArray[np.float64]

    def __init__(self) -> None:
        self.lengths: tuple[int, ...] = ()
        self._starts = np.zeros(1, np.int64)
        size, squares = (-2 * MAX_MAGNITUDE, 2 * MAX_MAGNITUDE), (0.0, 4 * MAX_MAGNITUDE**2 * MAX_COUNT)
        moments = size, squares, (0, MAX_COUNT), (1 - NEAR_IN_A_ROW, FAR_IN_A_ROW - 1), size
        super().__init__(
            {
                "lengths": Array(("fields",), ((1, MAX_VECTOR_LENGTH),), dtype="int64"),
                "rows_before": Array(("fields",), ((0, "features"),), dtype="int64"),
                "moments": Array((len(moments), "values"), moments),
            }
        )

    def _sizes(self, n_features: int, n_labels: int, arrays: Mapping[str, NDArray[Any]] | None = None) -> Sizes:
        return {**super()._sizes(n_features, n_labels), "fields": len(self.lengths), "values": self.n_values}

    def add_fields(self, lengths: Sequence[int], n_features: int) -> None:
        """Grow to fields of these lengths; `n_features` is the number of other features so far."""
        found = tuple(lengths)
        if found[: len(self.lengths)] != self.lengths:
            raise ValueError(f"lengths of vectors must begin with {self.lengths}")
        if len(found) > MAX_VECTOR_FIELDS or not all(1 <= length <= MAX_VECTOR_LENGTH for length in found):
            raise ValueError(f"at most {MAX_VECTOR_FIELDS} fields may have vectors, of 1 to {MAX_VECTOR_LENGTH} values")
        new = slice(len(self.lengths), len(found))
        self.lengths = found
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(found, np.int64))])
        self.reserve(n_features, 0)
        self._lengths[new], self._rows_before[new] = found[new], n_features

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
        """Split rows into their other features and their vectors, without scaling."""
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
        standardise_vectors(self._moments, self._starts, store, vectors.present, vectors.values)
        return vectors

    def join(self, rows: Rows, vectors: VectorRows, shares: NDArray[np.float64]) -> Rows:
        """Return scaled rows with their vectors among the other features, weighted by the gains of their blocks."""
        most = len(rows.indices) + vectors.values.size
        indptr = np.empty(len(rows.indptr), np.int64)
        indices, values = np.empty(most, rows.indices.dtype), np.empty(most, rows.values.dtype)
        n = join_vectors(self._rows_before, shares, *vectors, *rows, indptr, indices, values)
        return Rows(indptr, indices[:n], values[:n])

    def origin(self, columns: NDArray[np.int32]) -> NDArray[np.int32]:
        """Map columns back to those before `join`; each value of a vector gets the column of its first value."""
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

    def _check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if (np.diff(arrays["rows_before"]) < 0).any():
            raise ValueError("state: vectors.rows_before must ascend")
