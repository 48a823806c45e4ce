"""What calls about data sets take and give: plain frozen values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

Source: TypeAlias = str | Path | bytes | IO[bytes]
"""A file by its name, its bytes, or a binary file that can be read again from where it stands."""

LabelColumns: TypeAlias = int | str | list[str] | tuple[str, ...]
"""Which columns are labels: so many (the first; the last, if negative), or their names."""


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A data set that a server has."""

    name: str
    format: str
    """What it was uploaded as."""
    rows: int
    features: int
    labels: int
    cardinality: float
    """Mean number of labels of a row."""
    density: float
    """That, divided by the number of labels."""
    views: dict[str, int]
    """Number of features of each view; one view has the name ``x``."""
    splits: dict[str, int]
    """Number of rows of each split, as ``train`` and ``test``."""
    checksum: str
    bytes: int
    """Size on the server."""
    created: str
    """When: RFC 3339, UTC."""
    details: dict[str, Any] | None = None
    """What more the server says when asked for details: the labels' names, and how many rows have each."""


ReportBytes: TypeAlias = Callable[[int], object]
"""Called with how many bytes of a body have been handed over so far."""

_KNOWN = (
    "name", "format", "rows", "features", "labels", "cardinality", "density", "views", "splits", "checksum", "bytes",
    "created",
)  # fmt: skip


def dataset_info(answer: Mapping[str, Any]) -> DatasetInfo:
    """A data set from its JSON."""
    details = {name: value for name, value in answer.items() if name not in _KNOWN}
    return DatasetInfo(**{name: answer[name] for name in _KNOWN}, details=details or None)
