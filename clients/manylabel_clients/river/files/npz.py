"""Multi-label data in NumPy's ``.npz``: dense or CSR arrays with names."""

from collections.abc import Iterator
from os import PathLike

import numpy as np

from manylabel_clients.river.files.stream import NO_LIMITS, FileStream, LabelledRow, naming
from manylabel_core.datasets.formats.npz import read_npz


class NpzFile(FileStream):
    """NumPy ``.npz`` file as a river stream.

    The file has ``X`` (n x d numbers), or ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape`` (CSR); ``Y`` (n x L of 0
    and 1), or ``Y_indices``, ``Y_indptr``, ``Y_shape`` (CSR whose stored entries are the relevant labels); optionally
    ``feature_names`` and ``label_names`` (default: "0", "1", ...). An optional array ``weight`` has the sample weights,
    which `examples` returns and iteration omits. Other arrays are ignored. Rows omit features that are NaN in a dense
    ``X``, and features that CSR does not store.

    Nothing is unpickled: arrays of objects are rejected. The file is read as a whole.

    Raises
    ------
    FileFormatError
        There are no rows, arrays are missing or have inconsistent shapes, a value is not finite, a feature is stored
        twice, or a weight is not above 0 and at most 1,000.

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
        with naming(self.path):
            self._data = read_npz(self.path, limits=NO_LIMITS)
        with np.load(self.path, allow_pickle=False) as arrays:
            # `read_npz` has checked the arrays. They are read again here, because a dataset has another precision, and
            # views.
            self.sparse = "X" not in arrays
            self._X = [arrays[name] for name in (("X_indptr", "X_indices", "X_data") if self.sparse else ("X",))]
            self.n_features = int(arrays["X_shape"][1]) if self.sparse else self._X[0].shape[1]
            names = arrays["feature_names"].tolist() if "feature_names" in arrays else range(self.n_features)
        self._features = tuple(map(str, names))
        self.labels, self.n_samples = self._data.label_names, self._data.n_rows

    def examples(self) -> Iterator[LabelledRow]:
        """Iterate over (x, y), and (x, y, weight) if the file has weights."""
        Y, weights = self._data.Y, self._data.weights
        for row in range(self.n_samples):
            y = dict.fromkeys(self.labels, False)
            y.update((self.labels[column], True) for column in Y.indices[Y.indptr[row] : Y.indptr[row + 1]])
            yield (self._x(row), y) if weights is None else (self._x(row), y, float(weights[row]))

    def _x(self, row: int) -> dict[str, float]:
        if not self.sparse:
            values = zip(self._features, self._X[0][row].tolist(), strict=True)
            return {name: value for name, value in values if value == value}
        indptr, indices, data = self._X
        at = slice(int(indptr[row]), int(indptr[row + 1]))
        return {self._features[column]: value for column, value in zip(indices[at], data[at].tolist(), strict=True)}
