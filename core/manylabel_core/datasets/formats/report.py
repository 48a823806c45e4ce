"""Report of what a reader understood of a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

EXAMPLES = 10
"""Number of first rows, and of odd cells of a column, in a report."""


@dataclass(frozen=True, slots=True)
class OddCell:
    """A cell that does not fit its column, with its line."""

    line: int
    cell: str


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """A column as it was read."""

    name: str
    kind: str
    """number, category, text, flag, vector, labels, label, weight, ref or ignored."""
    values: int
    """Number of rows with a value."""
    missing: int
    """Number of rows without one."""
    example: str = ""
    note: str = ""
    """How the cells are written if not plainly, why the column is ignored, or what means a missing value."""
    odd: int = 0
    odd_cells: tuple[OddCell, ...] = ()


@dataclass(frozen=True, slots=True)
class TableReport:
    """What was understood of a file, before anything is learnt."""

    rows: int
    """Number of rows, without those left out."""
    columns: tuple[ColumnReport, ...]
    labels: dict[str, int]
    """Number of rows for which each label is relevant."""
    unlabelled: int
    """Number of rows with unknown labels, which a stream leaves out."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of rows that were left out, by reason."""
    settings: dict[str, str] = field(default_factory=dict)
    """How the file is written: separator of cells, decimal mark, separator of labels."""
    first: tuple[dict[str, Any], ...] = ()
    """The first rows as they are learnt: objects of x and y."""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        return asdict(self)
