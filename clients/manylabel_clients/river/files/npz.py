"""Multi-label data in NumPy's ``.npz``: dense or CSR arrays with names."""

from collections.abc import Iterator
from os import PathLike

import numpy as np

from manylabel_clients.river.files.stream import NO_LIMITS, FileFormatError, FileStream, LabelledRow, naming
from manylabel_core.datasets.dataset import View
from manylabel_core.datasets.formats.npz import Reading
from manylabel_core.datasets.formats.npz_arrays import Archive, read_names


class NpzFile(FileStream):
    """NumPy ``.npz`` file as a river stream.

    The file has ``X`` (n x d numbers), or ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape`` (CSR); ``Y`` (n x L of 0
    and 1), or ``Y_indices``, ``Y_indptr``, ``Y_shape`` (CSR whose stored entries are the relevant labels); optionally
    ``feature_names`` and ``label_names`` (default: "0", "1", ...). An optional array ``weight`` has the sample weights,
    which `examples` returns and iteration omits. Other arrays are ignored. Rows omit features that are NaN in a dense
    ``X``, and features that CSR does not store.

    Nothing is unpickled: arrays of objects are rejected. The arrays are read as a whole at each iteration.

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
            reading = Reading(archive, NO_LIMITS, np.float64)
            X, Y = reading.matrix("X", reading.one_view()), reading.labels()
            weights = reading.weights(self.n_samples)
        for row in range(self.n_samples):
            y = dict.fromkeys(self.labels, False)
            y.update((self.labels[label], True) for label in Y.indices[Y.indptr[row] : Y.indptr[row + 1]])
            example = self._x(X, row), y
            yield example if weights is None else (*example, float(weights[row]))

    def _x(self, X: View, row: int) -> dict[str, float]:
        if isinstance(X, np.ndarray):
            values = zip(self._features, X[row].tolist(), strict=True)
            return {name: value for name, value in values if value == value}
        stored = slice(X.indptr[row], X.indptr[row + 1])
        return {self._features[at]: value for at, value in zip(X.indices[stored], X.data[stored].tolist(), strict=True)}


def _names(archive: Archive, name: str, count: int, what: str) -> tuple[str, ...]:
    names = read_names(archive, name, count, what, NO_LIMITS.bytes)
    return tuple(map(str, range(count))) if names is None else names
