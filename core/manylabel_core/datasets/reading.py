"""Dataset readers by format, and formats by file extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from manylabel_core.datasets.dataset import Dataset
from manylabel_core.datasets.formats.arff import read_arff
from manylabel_core.datasets.formats.libsvm import read_libsvm
from manylabel_core.datasets.formats.ndjson import read_ndjson
from manylabel_core.datasets.formats.npz import read_npz
from manylabel_core.datasets.formats.tables.table import read_csv, read_tsv
from manylabel_core.datasets.formats.text import Source
from manylabel_core.datasets.limits import ReaderLimits

FORMATS: Mapping[str, Callable[..., Dataset]] = {
    "libsvm": read_libsvm,
    "arff": read_arff,
    "npz": read_npz,
    "ndjson": read_ndjson,
    "csv": read_csv,
    "tsv": read_tsv,
}
"""Readers by format."""

EXTENSIONS: Mapping[str, str] = {
    ".arff": "arff",
    ".csv": "csv",
    ".jsonl": "ndjson",
    ".libsvm": "libsvm",
    ".ndjson": "ndjson",
    ".npz": "npz",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".tsv": "tsv",
}
"""Format of a file by its lower-case extension."""

PACKED = ".gz"
"""Additional extension of a gzip file, for any format except NPZ."""


def extension_of(path: str | PathLike[str]) -> str:
    """Return the extension that determines the format of a file, in lower case: ``.csv`` for ``rows.csv.gz``."""
    path = Path(path)
    return (Path(path.stem) if path.suffix.lower() == PACKED else path).suffix.lower()


def format_of(path: str | PathLike[str]) -> str | None:
    """Return the format of a file by its name, or None."""
    return EXTENSIONS.get(extension_of(path))


def read_dataset(source: Source, format: str, *, limits: ReaderLimits = ReaderLimits(), **options: Any) -> Dataset:  # noqa: B008
    """Return a dataset from a file in one of `FORMATS`; `options` are options of the reader.

    Raises BadDataset if the file is invalid in its format or exceeds the limits, and ValueError for another format.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    return FORMATS[format](source, limits=limits, **options)
