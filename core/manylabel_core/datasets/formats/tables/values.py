"""Second reading of a table: the features of a row by column."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from operator import itemgetter

from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.tables.column_kinds import Column, Value
from manylabel_core.datasets.limits import BadDataset, check_number, shown
from manylabel_core.rows import MAX_MAGNITUDE


class RowReader:
    """Reader of the features of a row."""

    def __init__(self, columns: Sequence[Column], places: Sequence[int], is_numeric: bool) -> None:
        self._columns = [
            (column.name, place, column.read, column.missing) for column, place in zip(columns, places, strict=True)
        ]
        self._names = [column.name for column in columns]
        self._places = places
        self._cells = itemgetter(*places) if len(places) > 1 else self._few
        self._is_plain = is_numeric and all(
            column.read is float and not any(map(cells.NUMBER.fullmatch, column.missing)) for column in columns
        )

    def _few(self, row: list[str]) -> list[str]:
        return [row[place] for place in self._places]

    def read(self, row: list[str], line: int) -> dict[str, Value]:
        """Return the values of a row by column."""
        if self._is_plain:
            try:
                numbers = list(map(float, self._cells(row)))
            except ValueError:
                pass
            else:
                if (
                    numbers
                    and max(numbers) <= MAX_MAGNITUDE
                    and min(numbers) >= -MAX_MAGNITUDE
                    and isfinite(sum(numbers))
                ):
                    return dict(zip(self._names, numbers, strict=True))
        return self._record(row, line)

    def _record(self, row: list[str], line: int) -> dict[str, Value]:
        x: dict[str, Value] = {}
        for name, place, read, missing in self._columns:
            cell = row[place]
            if not cell or cell.isspace() or (missing and cell.strip() in missing):
                continue
            try:
                value = read(cell)
            except (ValueError, KeyError):
                raise BadDataset(
                    f"column {shown(name)} is {shown(cell)}: other cells have another kind; state its kind",
                    line=line,
                ) from None
            if value is not None:
                if type(value) is float and not abs(value) <= MAX_MAGNITUDE:
                    check_finite(name, cell, value, line)
                x[name] = value
        return x


def check_finite(name: str, cell: str, value: float, line: int) -> None:
    """Raise BadDataset, with the column and the line, for a number that is not finite or too large."""
    try:
        check_number(value)
    except ValueError:
        raise BadDataset(f"column {shown(name)} is {shown(cell)}: expected a finite number", line=line) from None
