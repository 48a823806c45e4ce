"""Base of multi-label files: river's rows, limits, and errors with locations."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from manylabel_core.datasets import BadDataset, ReaderLimits

Row: TypeAlias = tuple[dict[str, Any], dict[str, bool]]
"""Example: features by name (numbers, or a record), and whether each label is relevant (a missing label is unknown)."""

LabelledRow: TypeAlias = Row | tuple[dict[str, Any], dict[str, bool], float]
"""Row, optionally followed by its weight."""

_Truth: TypeAlias = dict[str, bool] | list[str]

Example: TypeAlias = tuple[Any, _Truth] | tuple[Any, _Truth, float] | tuple[Any, _Truth, float | None, None, str]
"""Example for the service, with features that can be a record or a text, and true labels that can be a list; optionally
followed by its weight, the source of its labels, and its reference.
"""

NO_LIMITS = ReaderLimits(rows=2**62, features=2**31 - 1, labels=2**31 - 1, nonzeros=2**62, bytes=2**62)
"""Limits of the reader: none, because rows are read one at a time."""


class FileFormatError(ValueError):
    """The file is invalid; the message has the line (from 1) or the row (from 0)."""

    def __init__(self, path: Path, detail: str, *, line: int | None = None, row: int | None = None) -> None:
        place = f", line {line}" if line is not None else f", row {row}" if row is not None else ""
        super().__init__(f"{path}{place}: {detail}")
        self.path = path
        self.line = line
        self.row = row
        self.detail = detail


class FileStream(ABC):
    """Multi-label file as a river stream of ``(x, y)``, which can be iterated repeatedly.

    ``x`` maps feature names to numbers, ``y`` maps every label of the file to a bool. The file is read lazily, one row
    at a time, from its beginning at each iteration.

    Attributes
    ----------
    path : Path
    labels : tuple of str
        All labels of the file: the keys of every ``y``, except unknown labels.
    n_samples : int or None
        Number of rows; None if it is unknown before the file is read.
    n_features : int or None
        Number of different features; None if it is unknown before the file is read.
    sparse : bool
        Whether ``x`` has only the features that the file stores for a row; otherwise it has all that are not missing.
    """

    labels: tuple[str, ...]
    n_samples: int | None
    n_features: int | None
    sparse: bool

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def n_outputs(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @abstractmethod
    def examples(self) -> Iterator[Example]:
        """Iterate over (x, y), or (x, y, weight), for a model of a server."""

    def __iter__(self) -> Iterator[Row]:
        for x, y, *_ in self.examples():
            yield x, y if isinstance(y, dict) else {**dict.fromkeys(self.labels, False), **dict.fromkeys(y, True)}

    def take(self, k: int) -> Iterator[Row]:
        """Iterate over the first `k` rows."""
        return islice(iter(self), k)

    def __repr__(self) -> str:
        rows = "" if self.n_samples is None else f"{self.n_samples} rows, "
        return f"{type(self).__name__}({str(self.path)!r}: {rows}{self.n_outputs} labels)"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name of the file to errors of the reader."""
    try:
        yield
    except BadDataset as error:
        raise FileFormatError(path, error.detail, line=error.line, row=error.row) from None
