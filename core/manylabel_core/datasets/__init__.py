"""Multi-label datasets in memory, and readers of common file formats.

A reader runs no code of a file, uses memory only within `ReaderLimits`, and returns a `Dataset` or raises `BadDataset`
with the line or the array.
"""

from manylabel_core.datasets.dataset import Dataset
from manylabel_core.datasets.formats.arff import read_arff
from manylabel_core.datasets.formats.libsvm import read_libsvm
from manylabel_core.datasets.formats.ndjson import read_ndjson
from manylabel_core.datasets.formats.npz import read_npz
from manylabel_core.datasets.formats.tables.table import read_csv, read_tsv
from manylabel_core.datasets.limits import BadDataset, ReaderLimits
from manylabel_core.datasets.reading import FORMATS, read_dataset

__all__ = [
    "FORMATS",
    "BadDataset",
    "Dataset",
    "ReaderLimits",
    "read_arff",
    "read_csv",
    "read_dataset",
    "read_libsvm",
    "read_ndjson",
    "read_npz",
    "read_tsv",
]
