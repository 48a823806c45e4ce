"""Construction of a dataset row by row, within limits."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.datasets.dataset import SINGLE, Dataset, View
from manylabel_core.datasets.limits import BadDataset, ReaderLimits
from manylabel_core.records import TextSettings


class Columns:
    """Growing matrix of numbers, dense or CSR.

    Parameters
    ----------
    dense : whether each row has a value for each column.
    """

    def __init__(self, dense: bool) -> None:
        self.dense = dense
        self.values = array("f")
        self.indices = array("i")
        self.indptr = array("q", [0])
        self._lacking = array("q")

    @property
    def n_rows(self) -> int:
        """Return the number of rows so far, including those that lack the view."""
        return len(self.indptr) - 1

    @property
    def n_values(self) -> int:
        """Return the number of values of the matrix; in a dense view, rows that lack the view also count."""
        if not (self.dense and self._lacking and self.values):
            return len(self.values)
        return self.n_rows * (len(self.values) // (self.n_rows - len(self._lacking)))

    @property
    def nbytes(self) -> int:
        """Return the bytes of the matrix, and of the rows that lack the view."""
        return 4 * (self.n_values + len(self.indices)) + 8 * len(self.indptr) + 9 * len(self._lacking)

    def skip_to(self, n_rows: int) -> None:
        """Add rows that lack the view, until there are `n_rows` rows."""
        for row in range(self.n_rows, n_rows):
            self._lacking.append(row)
            self.indptr.append(len(self.values))

    def missing(self) -> NDArray[np.bool_]:
        """Return which rows lack the view."""
        mask = np.zeros(self.n_rows, dtype=np.bool_)
        mask[np.frombuffer(self._lacking, dtype=np.int64) if self._lacking else []] = True
        return mask

    def add_dense(self, values: Iterable[float]) -> None:
        """Add one row of values; missing values are NaN."""
        self.values.extend(values)
        self.indptr.append(len(self.values))

    def add_vector(self, values: NDArray[np.float32]) -> None:
        """Add one row of values, none of which is missing."""
        self.values.frombytes(values.tobytes())
        self.indptr.append(len(self.values))

    def add_sparse(self, row: Mapping[int, float]) -> None:
        """Add one row by its columns; other columns are missing."""
        columns = sorted(row)
        self.indices.extend(columns)
        self.values.extend([row[column] for column in columns])
        self.indptr.append(len(self.values))

    def view(self, width: int) -> View:
        """Return the rows as a matrix with the requested number of columns."""
        values = np.frombuffer(self.values, dtype=np.float32) if self.values else np.zeros(0, np.float32)
        if self.dense and self._lacking:
            whole = np.zeros((self.n_rows, width), dtype=np.float32)
            there = ~self.missing()
            whole[there] = values.reshape(np.count_nonzero(there), width)
            return whole
        if self.dense:
            return values.reshape(self.n_rows, width)
        return sp.csr_array((values, _indices(self.indices), _indptr(self.indptr)), shape=(self.n_rows, width))


class DatasetBuilder:
    """Builder of a dataset, row by row, within limits that are checked after each row; `views` has the features."""

    def __init__(self, limits: ReaderLimits) -> None:
        self.views: dict[str, Columns] = {}
        self._limits = limits
        self._relevant = array("i")
        self._indptr = array("q", [0])
        self._labelled = bytearray()
        self._weights: array[float] | None = None

    @property
    def n_rows(self) -> int:
        """Return the number of rows so far."""
        return len(self._labelled)

    def end_row(self, relevant: Iterable[int] | None, line: int, weight: float | None = None) -> None:
        """Close a row with its relevant labels (None if unknown) and its weight (None for 1).

        Its features have been added; the row lacks each view without a feature.
        """
        if weight is not None and self._weights is None:
            self._weights = array("d", [1.0]) * self.n_rows
        if self._weights is not None:
            self._weights.append(1.0 if weight is None else weight)
        if relevant is not None:
            self._relevant.extend(sorted(relevant))
        self._indptr.append(len(self._relevant))
        self._labelled.append(relevant is not None)
        for view in self.views.values():
            view.skip_to(self.n_rows)
        self._limits.check("rows", self.n_rows, line=line)
        self.check_size(line=line)

    def check_size(self, n_more: int = 0, line: int | None = None) -> None:
        """Raise BadDataset if the dataset would be too large with additional values of a sparse view."""
        limits, views = self._limits, self.views.values()
        limits.check("nonzeros", len(self._relevant) + n_more + sum(view.n_values for view in views), line=line)
        n_bytes = 4 * len(self._relevant) + 8 * n_more + 9 * self.n_rows + sum(view.nbytes for view in views)
        n_bytes += 8 * len(self._weights or ())
        limits.check("bytes", n_bytes, line=line)

    def done(
        self,
        label_names: Sequence[str],
        widths: Mapping[str, int],
        feature_names: Mapping[str, tuple[str, ...] | None] | None = None,
        text: TextSettings | None = None,
    ) -> Dataset:
        """Return the dataset; each view gets its number of columns."""
        shape = (self.n_rows, len(label_names))
        indices, indptr = _indices(self._relevant), _indptr(self._indptr)
        return checked(
            Dataset(
                {name: columns.view(widths[name]) for name, columns in self.views.items()},
                sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, indptr), shape=shape),
                tuple(label_names),
                dict(feature_names or {}),
                {},
                np.frombuffer(self._labelled, dtype=np.bool_) if self._labelled else np.zeros(0, np.bool_),
                {name: columns.missing() for name, columns in self.views.items()},
                text,
                None if self._weights is None else np.frombuffer(self._weights, dtype=np.float64),
            )
        )

    def done_single(
        self, label_names: Sequence[str], width: int, feature_names: Sequence[str] | None = None
    ) -> Dataset:
        """Return the dataset, which has one view."""
        return self.done(label_names, {SINGLE: width}, {SINGLE: None if feature_names is None else (*feature_names,)})


def checked(dataset: Dataset) -> Dataset:
    """Return the dataset; raise BadDataset if it has no rows, labels or features."""
    if not dataset.n_rows:
        raise BadDataset("there are no rows")
    if not dataset.n_labels:
        raise BadDataset("the data have no labels, and need at least one")
    if empty := [name for name, view in dataset.views.items() if not view.shape[1]]:
        of_view = "" if len(dataset.views) == 1 else f" in view {empty[0]!r}"
        raise BadDataset(f"the data have no features{of_view}, and need at least one")
    return dataset


def _indices(indices: array[int]) -> NDArray[Any]:
    return np.frombuffer(indices, dtype=np.int32) if indices else np.zeros(0, np.int32)


def _indptr(indptr: array[int]) -> NDArray[Any]:
    return np.frombuffer(indptr, dtype=np.int64)
