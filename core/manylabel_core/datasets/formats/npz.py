"""Multi-label data in NumPy's ``.npz``: dense or CSR arrays with names, splits and views."""

from __future__ import annotations

import sys
from math import prod
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from manylabel_core.datasets.building import checked
from manylabel_core.datasets.dataset import SINGLE, Dataset, View
from manylabel_core.datasets.formats.npz_arrays import Archive, read_names
from manylabel_core.datasets.formats.text import Source, opened
from manylabel_core.datasets.limits import BadDataset, ReaderLimits
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, MAX_MAGNITUDE

MAX_VIEWS = 100
WEIGHT = "weight"
"""Name of the array of row weights."""


def read_npz(source: Source, *, limits: ReaderLimits = ReaderLimits()) -> Dataset:  # noqa: B008
    """Return a dataset from a NumPy ``.npz`` file.

    The file holds ``X`` (n x d numbers), or ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape`` (CSR); ``Y`` (n x L of
    0 and 1), or ``Y_indices``, ``Y_indptr``, ``Y_shape`` (CSR whose stored entries are the relevant labels). Optional
    arrays are ``feature_names`` and ``label_names`` (by default "0", "1", ...); ``train_idx`` and ``test_idx``, rows of
    the splits; ``view_id``, the number of the view of each column, with ``view_names``; ``labelled``, a bool for each
    row; ``missing`` (n x views, bools), true where a row lacks a view, whose values in ``X`` are ignored and may be
    NaN; ``weight``, sample weights above 0 and at most 1,000. Other arrays are ignored.

    Nothing is unpickled: an array of objects is rejected. The declared size of an array is compared with the limits
    before the array is read, and no more than the declared size is read.

    Parameters
    ----------
    source : path or binary stream that can seek
    limits : ReaderLimits

    Raises
    ------
    BadDataset
        With the array, and the row: arrays that are missing or inconsistent, values that are not finite, a
        feature stored twice, an array larger than the limits.
    """
    with opened(source) as file, Archive(file) as archive:
        reading = Reading(archive, limits)
        layout = reading.layout()
        X, Y = reading.matrix("X", layout), reading.labels()
        if X.shape[0] != Y.shape[0]:
            raise BadDataset(f"X has {X.shape[0]} rows, Y has {Y.shape[0]}")
        features = reading.names("feature_names", X.shape[1], "features")
        labels = reading.names("label_names", Y.shape[1], "labels") or tuple(map(str, range(Y.shape[1])))
        views = layout.views(X, features)
        labelled, weights = reading.labelled(Y), reading.weights(Y.shape[0])
        splits = {
            name: rows for name in ("train", "test") if (rows := reading.rows(f"{name}_idx", Y.shape[0])) is not None
        }
    matrices, names = ({name: part[at] for name, part in views.items()} for at in (0, 1))
    missing = dict(zip(matrices, layout.missing.T, strict=True))
    return checked(Dataset(matrices, Y, labels, names, splits, labelled, missing, weights=weights))  # type: ignore[arg-type]


class _Layout(NamedTuple):
    """Columns of each view, and the rows that lack a view."""

    ids: NDArray[Any]  # (n_features,): number of the view of each column
    names: tuple[str, ...]
    missing: NDArray[np.bool_]  # (n_samples, n_views)

    def views(self, X: View, features: tuple[str, ...] | None) -> dict[str, tuple[View, tuple[str, ...] | None]]:
        """Return the columns of each view, and their names."""
        if len(self.names) == 1:
            return {self.names[0]: (X, features)}
        chosen = {name: np.flatnonzero(self.ids == at) for at, name in enumerate(self.names)}
        return {name: (X[:, at], _at(features, at)) for name, at in chosen.items()}

    def blank(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return a dense matrix with 0 where rows lack views."""
        for at in np.flatnonzero(self.missing.any(axis=0)):
            X = np.where(self.missing[:, at, np.newaxis] & (self.ids == at), X.dtype.type(0), X)
        return X

    def has(self, indices: NDArray[Any], indptr: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for each entry of a CSR matrix whether its row has the view of its column."""
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        lacked: NDArray[np.bool_] = self.missing[rows, self.ids[indices]]
        return ~lacked


class Reading:
    """Reader of the arrays of an archive within the remaining limits; features have the type `dtype`."""

    def __init__(self, archive: Archive, limits: ReaderLimits, dtype: DTypeLike = np.float32) -> None:
        self._archive = archive
        self._dtype = dtype
        self._limits = limits
        self._bytes = limits.bytes
        self._nonzeros = limits.nonzeros

    def array(self, name: str, dimensions: int) -> NDArray[Any]:
        if dimensions == 2:
            self._take(prod(self._archive.header(name, dimensions).shape), name)
        whole = self._archive.array(name, dimensions, self._bytes)
        self._bytes -= whole.nbytes
        return whole

    def _take(self, count: int, name: str) -> None:
        if count > self._nonzeros:
            raise BadDataset(f"{name!r} has {count:,} values; at most {self._nonzeros:,} more are allowed")
        self._nonzeros -= count

    def matrix(self, name: str, layout: _Layout) -> View:
        """Return the features, dense or CSR; where a row lacks a view, they are 0 or not stored."""
        n_rows, n_columns = self._archive.shape(name, ("data", "indices", "indptr", "shape"))
        self._limits.check("rows", n_rows, member=name)
        self._limits.check("features", n_columns, member=name)
        if name in self._archive:
            values = layout.blank(self.array(name, 2))
            _check_values(name, values, lambda at: at // max(n_columns, 1), missing=True)
            return np.ascontiguousarray(values, dtype=self._dtype)
        return self._csr(name, n_rows, n_columns, self.array(f"{name}_data", 1), layout)

    def labels(self) -> sp.csr_array:
        """Return the labels, as CSR of int8."""
        n_rows, n_columns = self._archive.shape("Y", ("indices", "indptr", "shape"))
        self._limits.check("rows", n_rows, member="Y")
        self._limits.check("labels", n_columns, member="Y")
        if "Y" not in self._archive:
            return self._csr("Y", n_rows, n_columns, None)
        values = self.array("Y", 2)
        wrong = ~((values == 0) | (values == 1))
        if wrong.any():
            raise BadDataset("Y must contain only 0 and 1", row=int(np.argmax(wrong.any(axis=1))))
        return sp.csr_array(values.astype(np.int8))

    def _csr(
        self, name: str, n_rows: int, n_columns: int, data: NDArray[Any] | None, layout: _Layout | None = None
    ) -> sp.csr_array:
        indptr, indices = self.array(f"{name}_indptr", 1), self.array(f"{name}_indices", 1)
        _check_integers(f"{name}_indptr", indptr)
        _check_integers(f"{name}_indices", indices)
        self._take(len(indices), f"{name}_indices")
        if indptr.shape != (n_rows + 1,) or (data is not None and data.shape != indices.shape):
            raise BadDataset(f"the arrays of {name} are inconsistent")
        _check_indptr(name, indptr, len(indices))

        def row_of(at: int) -> int:
            return int(np.searchsorted(indptr, at, side="right")) - 1

        outside = (indices < 0) | (indices >= n_columns)
        if outside.any():
            raise BadDataset(f"{name}_indices must be from 0 to {n_columns - 1}", row=row_of(int(np.argmax(outside))))
        if data is None:
            values: NDArray[Any] = np.ones(len(indices), dtype=np.int8)
        else:
            if layout is not None and layout.missing.any():
                has = layout.has(indices, indptr)
                before = np.concatenate([np.zeros(1, np.int64), np.cumsum(has)])
                data, indices, indptr = data[has], indices[has], before[indptr]
            _check_values(name, data, row_of)
            values = data.astype(self._dtype)
        csr = sp.csr_array((values, indices.astype(np.int32), indptr.astype(np.int64)), shape=(n_rows, n_columns))
        csr.sort_indices()
        twice = _repeats(csr)
        if len(twice):
            raise BadDataset(f"{name}_indices contains a column twice", row=row_of(int(twice[0])))
        return csr

    def names(self, name: str, count: int, what: str) -> tuple[str, ...] | None:
        """Return the names in an array of the expected length; None if the array is missing."""
        names = read_names(self._archive, name, count, what, self._bytes)
        self._bytes = max(self._bytes - sum(map(sys.getsizeof, names or ())), 0)
        return names

    def one_view(self) -> _Layout:
        """Return the layout of a single view with all columns, which every row has."""
        n_rows, n_columns = self._archive.shape("X", ("data", "indices", "indptr", "shape"))
        self._limits.check("rows", n_rows, member="X")
        self._limits.check("features", n_columns, member="X")
        return _Layout(np.zeros(n_columns, dtype=np.int64), (SINGLE,), np.zeros((n_rows, 1), dtype=np.bool_))

    def layout(self) -> _Layout:
        """Return the columns of the views, and the mask of the rows that lack them."""
        ids, names, lacking = self.one_view()
        n_rows, n_columns = len(lacking), len(ids)
        if "view_id" in self._archive:
            ids = self.array("view_id", 1)
            _check_integers("view_id", ids)
            if ids.shape != (n_columns,) or (len(ids) and not 0 <= ids.min() <= ids.max() < MAX_VIEWS):
                raise BadDataset(f"'view_id' must be the number of a view, 0 to {MAX_VIEWS - 1}, for each column of X")
            n_views = int(ids.max()) + 1 if len(ids) else 0  # an unsigned type cannot represent -1
            names = self.names("view_names", n_views, "views") or tuple(map(str, range(n_views)))
        if "missing" not in self._archive:
            return _Layout(ids, names, np.zeros((n_rows, len(names)), dtype=np.bool_))
        missing = self.array("missing", 2)
        if missing.dtype != np.bool_ or missing.shape != (n_rows, len(names)):
            raise BadDataset(f"'missing' must have a boolean for each of {n_rows} rows and {len(names)} views")
        if missing.size and (lost := missing.all(axis=1)).any():
            raise BadDataset("has no view according to 'missing'", row=int(np.argmax(lost)))
        return _Layout(ids, names, missing)

    def labelled(self, Y: sp.csr_array) -> NDArray[np.bool_]:
        """Return which rows have labels."""
        if "labelled" not in self._archive:
            return np.ones(Y.shape[0], dtype=np.bool_)
        labelled = self.array("labelled", 1)
        if labelled.dtype != np.bool_ or labelled.shape != (Y.shape[0],):
            raise BadDataset(f"'labelled' must be {Y.shape[0]} booleans")
        if (wrong := np.flatnonzero(~labelled & (np.diff(Y.indptr) > 0))).size:
            raise BadDataset("has labels, but 'labelled' is false", row=int(wrong[0]))
        return labelled

    def weights(self, n_rows: int) -> NDArray[np.float64] | None:
        """Return the weights of rows, or None."""
        if WEIGHT not in self._archive:
            return None
        return checked_weights(self.array(WEIGHT, 1), n_rows)

    def rows(self, name: str, n_rows: int) -> NDArray[np.int64] | None:
        """Return the rows of a split, ascending; None if the file has no such split."""
        if name not in self._archive:
            return None
        rows = self.array(name, 1)
        _check_integers(name, rows)
        if len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
            raise BadDataset(f"{name!r} must contain numbers of rows, 0 to {n_rows - 1}")
        unique: NDArray[np.int64] = np.unique(rows).astype(np.int64)
        if len(unique) < len(rows):
            raise BadDataset(f"{name!r} contains a row twice")
        return unique


def checked_weights(weights: NDArray[Any], n_rows: int) -> NDArray[np.float64]:
    """Return the array `WEIGHT` of a file; raises BadDataset unless every row has an allowed weight."""
    if weights.dtype.kind not in "fiu" or weights.shape != (n_rows,):
        raise BadDataset(f"{WEIGHT!r} must be {n_rows} numbers, not {weights.shape} of {weights.dtype}")
    found = weights.astype(np.float64)
    allowed = (found > 0.0) & (found <= MAX_EXAMPLE_WEIGHT)
    if not allowed.all():
        row = int(np.argmin(allowed))
        due = f"above 0 and at most {MAX_EXAMPLE_WEIGHT:g}"
        raise BadDataset(f"{WEIGHT!r} must be {due}, not {found[row]:g}", row=row)
    return found


def _at(names: tuple[str, ...] | None, places: NDArray[np.int64]) -> tuple[str, ...] | None:
    return None if names is None else tuple(names[at] for at in places)


def _check_integers(name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind not in "iu":
        raise BadDataset(f"{name!r} must contain integers, not {array.dtype}")


def _check_indptr(name: str, indptr: NDArray[Any], n_values: int) -> None:
    if len(indptr) == 0 or indptr[0] != 0:
        raise BadDataset(f"{name}_indptr must start with 0, not {indptr[0] if len(indptr) else 'nothing'}")
    falls = (indptr[1:] < indptr[:-1]) | (indptr[1:] > n_values)
    if falls.any():
        row = int(np.argmax(falls))
        found = f"{indptr[row]} to {indptr[row + 1]}"
        raise BadDataset(f"{name}_indptr must ascend to at most {n_values}, but goes from {found}", row=row)
    if indptr[-1] != n_values:
        raise BadDataset(f"{name}_indptr ends with {indptr[-1]}, but there are {n_values} indices")


def _check_values(name: str, values: NDArray[Any], row_of: Any, missing: bool = False) -> None:
    if values.dtype.kind == "U":
        raise BadDataset(f"{name!r} must contain numbers, not {values.dtype}")
    if values.size == 0 or (values.min() >= -MAX_MAGNITUDE and values.max() <= MAX_MAGNITUDE):
        return  # both are NaN if any value is
    sizes = np.abs(values.reshape(-1))
    wrong = sizes > MAX_MAGNITUDE if missing else ~(sizes <= MAX_MAGNITUDE)
    at = int(np.argmax(wrong))
    if not wrong[at]:
        return
    raise BadDataset(f"{name} must be finite and at most {MAX_MAGNITUDE:g} in absolute value", row=row_of(at))


def _repeats(csr: sp.csr_array) -> NDArray[np.int64]:
    """Return the positions in `csr.indices` of columns that equal the previous column of the same row."""
    first = np.zeros(csr.nnz + 1, dtype=np.bool_)
    first[csr.indptr[:-1]] = True
    return np.flatnonzero((csr.indices[1:] == csr.indices[:-1]) & ~first[1:-1]) + 1
