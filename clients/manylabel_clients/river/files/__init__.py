"""Multi-label files as river streams: libsvm, ARFF (Mulan, MEKA), NPZ, CSV, TSV and JSON lines.

Each can be iterated repeatedly over ``(x, y)``: features by name and a bool for every label. Rows are read lazily, one
at a time. All but NPZ may be gzip.
"""

from os import PathLike
from typing import Any

from manylabel_clients.river.files.arff import ArffFile
from manylabel_clients.river.files.libsvm import LibsvmFile
from manylabel_clients.river.files.npz import NpzFile
from manylabel_clients.river.files.records import CsvFile, NdjsonFile, TsvFile
from manylabel_clients.river.files.stream import FileFormatError, FileStream
from manylabel_core.datasets.reading import EXTENSIONS, extension_of, format_of

__all__ = [
    "ArffFile",
    "CsvFile",
    "FileFormatError",
    "FileStream",
    "LibsvmFile",
    "NdjsonFile",
    "NpzFile",
    "TsvFile",
    "open_stream",
]

FORMATS: dict[str, type[FileStream]] = {
    "arff": ArffFile,
    "libsvm": LibsvmFile,
    "npz": NpzFile,
    "csv": CsvFile,
    "ndjson": NdjsonFile,
    "tsv": TsvFile,
}
"""Classes by format of `manylabel_core.datasets.reading`."""


def open_stream(path: str | PathLike[str], **options: Any) -> FileStream:
    """Return a multi-label file as a river stream, by its extension.

    Parameters
    ----------
    path : str or path
        A file with the extension .arff, .libsvm, .svm, .svmlight, .npz, .csv, .tsv, .ndjson or .jsonl; all but .npz may
        be followed by .gz.
    **options
        Parameters of `ArffFile` (labels), `LibsvmFile` (labels, features, zero_based), or `CsvFile`, `TsvFile` and
        `NdjsonFile` (labels, tags, separator, ignore, text); `NpzFile` has none.

    Raises
    ------
    ValueError
        Unknown extension.
    FileFormatError
        The file is invalid.
    OSError
        The file cannot be read.
    """
    kind = FORMATS.get(format_of(path) or "")
    if kind is None:
        allowed = ", ".join(known for known, format in EXTENSIONS.items() if format in FORMATS)
        raise ValueError(f"{path}: unknown extension {extension_of(path)!r}, allowed are {allowed}")
    return kind(path, **options)
