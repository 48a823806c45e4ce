"""Files whose labels are known only when all of them is read: CSV and NDJSON."""

from collections.abc import Iterator
from os import PathLike
from typing import Any

import scipy.sparse as sp

from manylabel_clients.river.files.stream import NO_LIMITS, FileStream, Row, naming, present
from manylabel_core.datasets import Dataset, read_dataset
from manylabel_core.datasets.dataset import SINGLE


class WholeFile(FileStream):
    """A file that is read as a whole, and kept in memory, is a river stream; rows without known labels are left out.

    Raises
    ------
    FileFormatError
        It is not what its format promises.
    """

    n_samples: int
    n_features: int
    _format: str

    def __init__(self, path: str | PathLike[str], **options: Any) -> None:
        super().__init__(path)
        with naming(self.path):
            data = read_dataset(self.path, self._format, limits=NO_LIMITS, **options)
        if tuple(data.views) != (SINGLE,):
            raise ValueError(f"{self.path}: its examples have views, which a stream has not")
        self._data: Dataset = data.take(data.labelled)
        self.labels = data.label_names
        self.n_samples, self.n_features = self._data.n_rows, data.n_features
        self.sparse = sp.issparse(data.X)
        self._names = data.names or tuple(map(str, range(data.n_features)))

    def __iter__(self) -> Iterator[Row]:
        X, Y = self._data.X, sp.csr_array(self._data.Y)
        for row in range(self.n_samples):
            yield self._x(X, row), self._y(Y, row)

    def _x(self, X: Any, row: int) -> dict[str, float]:
        if not self.sparse:
            return present(self._names, X[row])
        start, end = X.indptr[row], X.indptr[row + 1]
        columns, values = X.indices[start:end].tolist(), X.data[start:end].tolist()
        return {self._names[column]: value for column, value in zip(columns, values, strict=True)}

    def _y(self, Y: Any, row: int) -> dict[str, bool]:
        y = dict.fromkeys(self.labels, False)
        y.update((self.labels[column], True) for column in Y.indices[Y.indptr[row] : Y.indptr[row + 1]])
        return y


class CsvFile(WholeFile):
    """A CSV file is a river stream; options are those of `manylabel_core.datasets.read_csv`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "songs.csv")
    ...     _ = path.write_text("id,tempo,tags\\n7,120,rock;loud\\n8,80,jazz\\n")
    ...     for x, y in CsvFile(path, tags="tags", separator=";", ignore=["id"]):
    ...         print(x, y)
    {'tempo': 120.0} {'rock': True, 'loud': True, 'jazz': False}
    {'tempo': 80.0} {'rock': False, 'loud': False, 'jazz': True}
    """

    _format = "csv"


class NdjsonFile(WholeFile):
    """An NDJSON file is a river stream: one example ``{"x": ..., "y": [...]}`` a line."""

    _format = "ndjson"
