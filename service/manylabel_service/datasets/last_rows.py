"""Buffer of the last rows of a stream in bounded memory."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.datasets import BadDataset, Dataset
from manylabel_core.datasets.dataset import SINGLE, View
from manylabel_core.datasets.optional_numbers import with_optional_numbers
from manylabel_core.datasets.vectors import names_of, view_of
from manylabel_core.rows import VECTOR_COLUMNS

EVERY = 2**62
"""Number of known labels of a row with complete labels."""

SPARE_ROWS = 1_000
"""Number of rows buffered in addition to twice the retained ones, before old rows are dropped."""


class LastRows:
    """Buffer of rows that retains the last ones.

    Parameters
    ----------
    last : number of rows to retain.
    most_bytes : maximum bytes of memory.
    """

    def __init__(self, last: int, most_bytes: int) -> None:
        self._last = last
        self._most_bytes = most_bytes
        self._columns, self._values, self._ends = array("i"), array("f"), array("q", [0])
        self._relevant, self._label_ends = array("i"), array("q", [0])
        self._weights: deque[float] = deque(maxlen=last)
        self._known: deque[int] = deque(maxlen=last)
        self._skipped_before: deque[int] = deque(maxlen=last)
        self._skipped = self._added = 0
        self._replaced: dict[int, tuple[NDArray[np.int32] | None, int]] = {}

    @property
    def n_rows(self) -> int:
        """Number of retained rows."""
        return len(self._skipped_before)

    @property
    def n_skipped(self) -> int:
        """Number of rows without labels after the first retained row, or in total if none was dropped."""
        return self._skipped - (self._skipped_before[0] if self.n_rows == self._last else 0)

    @property
    def n_skipped_in_all(self) -> int:
        """The number of rows without labels."""
        return self._skipped

    def add(
        self,
        columns: NDArray[np.int32],
        values: NDArray[np.float32],
        relevant: NDArray[np.int32] | None,
        n_known: int = EVERY,
        weight: float = 1.0,
        may_change: bool = False,
    ) -> int:
        """Add a row: its features, its relevant labels (None if some are unknown), and its weight. Raises BadDataset.

        Only the first `n_known` labels are known; the row is omitted if the dataset finally has more labels. Returns
        the number of the row for `replace`; a row without labels has a number only if it `may_change`.
        """
        if relevant is None and may_change:
            relevant, n_known = np.zeros(0, np.int32), -1
        if relevant is None:
            self._skipped += 1
            return -1
        self._added += 1
        self._skipped_before.append(self._skipped)
        self._known.append(n_known)
        self._weights.append(weight)
        _extend(self._columns, columns)
        _extend(self._values, values)
        _extend(self._relevant, np.sort(relevant))
        self._ends.append(len(self._values))
        self._label_ends.append(len(self._relevant))
        if len(self._ends) > 2 * self._last + SPARE_ROWS or self._nbytes > 2 * self._most_bytes:
            self._drop()
            if self._nbytes > self._most_bytes:
                raise BadDataset(f"the rows take more than the limit of {self._most_bytes:,} bytes: use fewer rows")
        return self._added - 1

    def replace(self, row: int, relevant: NDArray[np.int32] | None, n_known: int) -> None:
        """Replace the labels of a row, which may have been dropped. The arguments are those of `add`."""
        self._replaced[row] = relevant, n_known

    @property
    def _nbytes(self) -> int:
        return 4 * (len(self._columns) + len(self._values) + len(self._relevant)) + 16 * len(self._ends)

    def _drop(self) -> None:
        """Forget the rows before the last ones."""
        n_dropped = len(self._ends) - 1 - self.n_rows
        for ends, others in ((self._ends, (self._columns, self._values)), (self._label_ends, (self._relevant,))):
            begin = ends[n_dropped]
            for other in others:
                del other[:begin]
            del ends[:n_dropped]
            shifted = np.frombuffer(ends, dtype=np.int64) - begin
            ends[:] = array("q", shifted.tobytes())

    def _apply_replaced(self) -> None:
        """Put the replaced labels into the retained rows."""
        first = self._added - self.n_rows
        kept = {row - first: new for row, new in self._replaced.items() if row >= first}
        if not kept:
            return
        parts = np.split(_array(self._relevant, np.int32), _array(self._label_ends, np.int64)[1:-1])
        for row, (relevant, n_known) in kept.items():
            parts[row] = np.zeros(0, np.int32) if relevant is None else np.sort(relevant)
            self._known[row] = -1 if relevant is None else n_known
        self._relevant, self._label_ends = array("i"), array("q", [0])
        for part in parts:
            _extend(self._relevant, part)
            self._label_ends.append(len(self._relevant))

    def dataset(
        self,
        n_features: int,
        features: Sequence[str] | None,
        labels: Sequence[str],
        indices: NDArray[np.int32] | None = None,
        vectors: Sequence[tuple[str | None, int]] = (),
    ) -> Dataset:
        """Return the last rows with complete labels, with the given columns; raises BadDataset like `add`.

        `indices` maps the columns of the rows to new columns; None: unchanged. `vectors` are the blocks of vectors, as
        fields with their lengths. Each block becomes a view, which rows may lack; a block without a field is omitted.
        """
        self._drop()
        if self._nbytes > self._most_bytes:
            raise BadDataset(f"the rows take more than the limit of {self._most_bytes:,} bytes: use fewer rows")
        self._apply_replaced()
        relevant = _array(self._relevant, np.int32)
        Y = _csr(np.ones(len(relevant), dtype=np.int8), relevant, self._label_ends, len(labels))
        values, columns = _array(self._values, np.float32), _array(self._columns, np.int32)
        ends = _array(self._ends, np.int64)
        full = n_features > 0 and not vectors and bool((np.diff(ends) == n_features).all())
        if indices is not None:
            columns = indices[columns]
        width = VECTOR_COLUMNS + sum(length for _, length in vectors) if vectors else n_features
        rows = _csr(values, columns, self._ends, width)
        rows.sort_indices()
        all_rows, rows = rows, rows[:, :n_features] if vectors else rows
        X: View = rows.data.reshape(-1, n_features) if full else _without_nan(rows)
        names = None if features is None else tuple(features)
        data = Dataset.of(X, Y, tuple(labels), feature_names=names, weights=np.array(self._weights, dtype=np.float64))
        data = _with_vectors(data, all_rows, vectors) if vectors else data
        is_whole = np.array(self._known, dtype=np.int64) >= len(labels)
        return with_optional_numbers(data if is_whole.all() else data.take(is_whole))


def _with_vectors(data: Dataset, rows: sp.csr_array, vectors: Sequence[tuple[str | None, int]]) -> Dataset:
    """Return a dataset with a view for each field of vectors; `rows` has the vectors in its columns."""
    first, views, names, missing = VECTOR_COLUMNS, dict(data.views), dict(data.feature_names), {}
    for field, length in vectors:
        own = sp.csr_array(rows[:, first : first + length])
        first += length
        if field is None:
            continue
        view = view_of(field, views)
        views[view], names[view] = own.toarray(), names_of(field, length)
        missing[view] = np.diff(own.indptr) == 0
    if not views[SINGLE].shape[1]:
        del views[SINGLE], names[SINGLE]
    return replace(data, views=views, feature_names=names, missing=missing)


def _extend(target: array[Any], items: NDArray[Any]) -> None:
    target.frombytes(items.astype({"i": np.int32, "f": np.float32}[target.typecode], copy=False).tobytes())


def _array(items: array[Any], dtype: Any) -> NDArray[Any]:
    return np.array(items, dtype=dtype)


def _csr(values: NDArray[Any], columns: NDArray[Any], ends: array[int], width: int) -> sp.csr_array:
    indptr = _array(ends, np.int64)
    return sp.csr_array((values, columns, indptr), shape=(len(indptr) - 1, width))


def _without_nan(rows: sp.csr_array) -> sp.csr_array:
    """Return rows without explicit entries for values that a dense example lacked."""
    known = ~np.isnan(rows.data)
    if known.all():
        return rows
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])
    return sp.csr_array((rows.data[known], rows.indices[known], before[rows.indptr]), shape=rows.shape)
