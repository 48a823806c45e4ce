"""Multi-label data in NumPy's ``.npz``: dense or CSR arrays with names."""

import zipfile
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from manylabel_clients.river._stream import FileFormatError, FileStream, Row, unique_names

MAX_NAMES_BYTES = 2**30
"""The names are read as a whole, so their array has a limit."""


class NpzFile(FileStream):
    """A NumPy ``.npz`` file as a river stream.

    The file holds ``X`` (n x d numbers), or ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape`` (CSR); ``Y``
    (n x L of 0 and 1), or ``Y_indices``, ``Y_indptr``, ``Y_shape`` (CSR whose stored entries are the relevant
    labels); and, if it has them, ``feature_names`` and ``label_names`` (without them the names are "0", "1",
    ...). Further arrays are left alone. A dense ``X`` gives every feature in every row, CSR the stored ones.

    Nothing is unpickled: an array of objects is refused. Rows are read as the iteration goes on; only a dense
    array that was stored by columns (Fortran order) has to be held as a whole.

    Raises
    ------
    FileFormatError
        Arrays that are missing or do not fit one another, values that are not finite, a feature stored twice.

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
        with _Archive(self.path) as archive:
            self.sparse = "X" not in archive
            self._sparse_labels = "Y" not in archive
            n_samples, n_features = archive.shape("X", ("data", "indices", "indptr", "shape"))
            n_rows, n_labels = archive.shape("Y", ("indices", "indptr", "shape"))
            if n_samples != n_rows:
                raise FileFormatError(self.path, f"X has {n_samples} rows, Y has {n_rows}")
            self._features = archive.names("feature_names", n_features, "features")
            self.labels = archive.names("label_names", n_labels, "labels")
        self.n_samples, self.n_features = n_samples, n_features

    def __iter__(self) -> Iterator[Row]:
        with _Archive(self.path) as archive:
            features = archive.csr_rows("X", True) if self.sparse else archive.dense_rows("X")
            labels = archive.csr_rows("Y", False) if self._sparse_labels else archive.dense_rows("Y")
            for row, (x, y) in enumerate(zip(features, labels, strict=True)):
                yield self._x(row, *x), self._y(row, *y)

    def _x(self, row: int, columns: NDArray[Any] | None, values: NDArray[Any]) -> dict[str, float]:
        if not np.isfinite(values).all():
            raise FileFormatError(self.path, "X is not finite", row=row)
        if columns is None:
            return dict(zip(self._features, values.tolist(), strict=True))
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


class _Archive:
    """The arrays of an ``.npz`` file, read from front to back without holding them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile:
            raise FileFormatError(path, "not an .npz file (no zip archive)") from None
        self._members = set(self._zip.namelist())

    def __enter__(self) -> "_Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self._members

    def open(self, name: str, dimensions: int) -> "_Array":
        if name not in self:
            raise FileFormatError(self._path, f"array {name!r} is missing")
        return _Array(self._path, name, self._zip.open(f"{name}.npy"), dimensions)

    def shape(self, name: str, parts: tuple[str, ...]) -> tuple[int, int]:
        """Return the shape of a dense array, or of the CSR matrix in `parts`."""
        if name in self:
            with self.open(name, 2) as array:
                return array.shape[0], array.shape[1]
        absent = [f"{name}_{part}" for part in parts if f"{name}_{part}" not in self]
        if absent:
            raise FileFormatError(self._path, f"neither {name!r} nor {', '.join(map(repr, absent))} is there")
        with self.open(f"{name}_shape", 1) as array:
            shape = array.read(min(array.shape[0], 3)).tolist()
        if len(shape) != 2 or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise FileFormatError(self._path, f"{name}_shape must be two sizes, not {shape}")
        return shape[0], shape[1]

    def names(self, name: str, count: int, what: str) -> tuple[str, ...]:
        if name not in self:
            return tuple(str(column) for column in range(count))
        with self.open(name, 1) as array:
            if array.dtype.kind != "U" or array.shape != (count,):
                raise FileFormatError(self._path, f"{name!r} must be {count} strings")
            if count * array.dtype.itemsize > MAX_NAMES_BYTES:
                raise FileFormatError(self._path, f"{name!r} is larger than {MAX_NAMES_BYTES} bytes")
            return unique_names(self._path, array.read(count).tolist(), what)

    def dense_rows(self, name: str) -> Iterator[tuple[None, NDArray[Any]]]:
        with self.open(name, 2) as array:
            n_rows, width = array.shape
            if array.by_columns:  # the first row ends where the array ends
                whole = array.read(n_rows * width).reshape(n_rows, width, order="F")
                yield from ((None, row) for row in whole)
                return
            for _ in range(n_rows):
                yield None, array.read(width)

    def csr_rows(self, name: str, with_values: bool) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        n_rows, _ = self.shape(name, ("indptr",))
        with (
            self.open(f"{name}_indptr", 1) as indptr,
            self.open(f"{name}_indices", 1) as indices,
            self.open(f"{name}_{'data' if with_values else 'indices'}", 1) as data,
        ):
            if indptr.shape != (n_rows + 1,) or data.shape != indices.shape:
                raise FileFormatError(self._path, f"the arrays of {name} do not fit one another")
            start = int(indptr.read(1)[0])
            if start != 0:
                raise FileFormatError(self._path, f"{name}_indptr must start with 0, not {start}")
            for row in range(n_rows):
                end = int(indptr.read(1)[0])
                if not start <= end <= indices.shape[0]:
                    raise FileFormatError(self._path, f"{name}_indptr goes from {start} to {end}", row=row)
                yield indices.read(end - start), data.read(end - start)
                start = end


class _Array:
    """One array of the archive: its header, then its items in order."""

    def __init__(self, path: Path, name: str, file: IO[bytes], dimensions: int) -> None:
        self._path, self._name, self._file = path, name, file
        self.shape, self.by_columns, self.dtype = self._header()
        if len(self.shape) != dimensions:
            raise FileFormatError(path, f"{name!r} must have {dimensions} dimension(s), it has {len(self.shape)}")
        if self.dtype.kind not in "fiubU":
            raise FileFormatError(path, f"{name!r} must hold numbers or strings, not {self.dtype}")

    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        try:
            version = npy.read_magic(self._file)
            if version == (1, 0):
                return npy.read_array_header_1_0(self._file)
            return npy.read_array_header_2_0(self._file)
        except (ValueError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise FileFormatError(self._path, f"{self._name!r} is not a NumPy array: {error}") from None

    def __enter__(self) -> "_Array":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, count: int) -> NDArray[Any]:
        """Return the next `count` items."""
        size = count * self.dtype.itemsize
        try:
            data = self._file.read(size) if size else b""
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise FileFormatError(self._path, f"{self._name!r} is damaged: {error}") from None
        if len(data) != size:
            raise FileFormatError(self._path, f"{self._name!r} ends too early")
        return np.frombuffer(data, self.dtype)
