"""Multi-label data in NumPy's ``.npz``: dense or CSR arrays with names."""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_clients.river.files.stream import FileFormatError, FileStream, LabelledRow, naming
from manylabel_core.datasets import BadDataset
from manylabel_core.datasets.formats.npz import WEIGHT, checked_weights
from manylabel_core.datasets.formats.npz_arrays import Archive, read_names

MAX_NAMES_BYTES = 2**30
"""Maximum bytes of the array of names, which is read as a whole."""
MAX_WEIGHTS_BYTES = 2**30
"""Maximum bytes of the weights, which are read as a whole, too."""


class NpzFile(FileStream):
    """NumPy ``.npz`` file as a river stream.

    The file has ``X`` (n x d numbers), or ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape`` (CSR); ``Y`` (n x L of 0
    and 1), or ``Y_indices``, ``Y_indptr``, ``Y_shape`` (CSR whose stored entries are the relevant labels); optionally
    ``feature_names`` and ``label_names`` (default: "0", "1", ...). An optional array ``weight`` has the sample weights,
    which `examples` returns and iteration omits. Other arrays are ignored. Rows omit features that are NaN in a dense
    ``X``, and features that CSR does not store.

    Nothing is unpickled: arrays of objects are rejected. Rows are read during iteration; only a dense array in Fortran
    order is read as a whole.

    Raises
    ------
    FileFormatError
        Arrays are missing or have inconsistent shapes, a value is not finite, a feature is stored twice, or a weight is
        not above 0 and at most 1,000.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "songs.npz")
    ...     np.savez(path, X=np.float32([[0.5, 0]]), Y=np.int8([[1, 0]]), label_names=["rock", "jazz"])
    ...     for x, y in NpzFile(path):
    ...         print(x, y)
    {'0': 0.5, '1': 0.0} {'rock': True, 'jazz': False}
    """

    n_samples: int
    n_features: int

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__(path)
        with naming(self.path), self.path.open("rb") as file, Archive(file) as archive:
            self.sparse = "X" not in archive
            self._sparse_labels = "Y" not in archive
            n_samples, n_features = archive.shape("X", ("data", "indices", "indptr", "shape"))
            n_rows, n_labels = archive.shape("Y", ("indices", "indptr", "shape"))
            if n_samples != n_rows:
                raise FileFormatError(self.path, f"X has {n_samples} rows, Y has {n_rows}")
            self._features = _names(archive, "feature_names", n_features, "features")
            self.labels = _names(archive, "label_names", n_labels, "labels")
        self.n_samples, self.n_features = n_samples, n_features

    def examples(self) -> Iterator[LabelledRow]:
        """Iterate over (x, y), and (x, y, weight) if the file has weights."""
        with naming(self.path), self.path.open("rb") as file, Archive(file) as archive:
            features = _csr_rows(archive, "X", True) if self.sparse else _dense_rows(archive, "X")
            labels = _csr_rows(archive, "Y", False) if self._sparse_labels else _dense_rows(archive, "Y")
            weights = _weights(archive, self.n_samples)
            for row, (x, y) in enumerate(zip(features, labels, strict=True)):
                example = self._x(row, *x), self._y(row, *y)
                yield example if weights is None else (*example, float(weights[row]))

    def _x(self, row: int, columns: NDArray[Any] | None, values: NDArray[Any]) -> dict[str, float]:
        if not (np.isfinite(values) | (columns is None and np.isnan(values))).all():
            raise FileFormatError(self.path, "X is not finite", row=row)
        if columns is None:
            return {name: value for name, value in zip(self._features, values.tolist(), strict=True) if value == value}
        _check_columns(self.path, "X", columns, self.n_features, row)
        return {self._features[column]: value for column, value in zip(columns, values.tolist(), strict=True)}

    def _y(self, row: int, columns: NDArray[Any] | None, values: NDArray[Any]) -> dict[str, bool]:
        if columns is None:
            if not np.isin(values, (0, 1)).all():
                raise FileFormatError(self.path, "Y must be 0 or 1", row=row)
            return dict(zip(self.labels, values.astype(bool).tolist(), strict=True))
        _check_columns(self.path, "Y", columns, len(self.labels), row)
        y = dict.fromkeys(self.labels, False)
        y.update((self.labels[column], True) for column in columns)
        return y


def _check_columns(path: Path, name: str, columns: NDArray[Any], width: int, row: int) -> None:
    if len(columns) == 0:
        return
    if columns.min() < 0 or columns.max() >= width:
        raise FileFormatError(path, f"{name}_indices must be 0 to {width - 1}", row=row)
    if len(np.unique(columns)) != len(columns):
        raise FileFormatError(path, f"{name}_indices has a column twice", row=row)


def _names(archive: Archive, name: str, count: int, what: str) -> tuple[str, ...]:
    names = read_names(archive, name, count, what, MAX_NAMES_BYTES)
    return tuple(map(str, range(count))) if names is None else names


def _weights(archive: Archive, n_rows: int) -> NDArray[np.float64] | None:
    """Return the weights of all rows; None if the file has none."""
    if WEIGHT not in archive:
        return None
    with archive.open(WEIGHT, 1) as array:
        return checked_weights(array.whole(MAX_WEIGHTS_BYTES), n_rows)


def _dense_rows(archive: Archive, name: str) -> Iterator[tuple[None, NDArray[Any]]]:
    with archive.open(name, 2) as array:
        n_rows, width = array.shape
        if array.by_columns:  # the first row ends at the end of the array
            whole = array.read(n_rows * width).reshape(n_rows, width, order="F")
            yield from ((None, row) for row in whole)
            return
        for _ in range(n_rows):
            yield None, array.read(width)


def _csr_rows(archive: Archive, name: str, with_values: bool) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    n_rows, _ = archive.shape(name, ("indptr",))
    with (
        archive.open(f"{name}_indptr", 1) as indptr,
        archive.open(f"{name}_indices", 1) as indices,
        archive.open(f"{name}_{'data' if with_values else 'indices'}", 1) as data,
    ):
        if indptr.shape != (n_rows + 1,) or data.shape != indices.shape:
            raise BadDataset(f"the arrays of {name} do not fit one another")
        start = int(indptr.read(1)[0])
        if start != 0:
            raise BadDataset(f"{name}_indptr must start with 0, not {start}")
        for row in range(n_rows):
            end = int(indptr.read(1)[0])
            if not start <= end <= indices.shape[0]:
                raise BadDataset(f"{name}_indptr goes from {start} to {end}", row=row)
            yield indices.read(end - start), data.read(end - start)
            start = end
