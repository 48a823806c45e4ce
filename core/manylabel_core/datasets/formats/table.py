"""Tables: CSV files with a column for each feature and each label."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from typing import IO

from manylabel_core.datasets.building import Columns, DatasetBuilder
from manylabel_core.datasets.dataset import SINGLE, Dataset
from manylabel_core.datasets.formats.text import Source, check_name, check_names, numbered_lines, opened, shown
from manylabel_core.datasets.limits import BadDataset, Limits, check_number

_TRUTH = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


def read_csv(
    source: Source,
    label_columns: int | Sequence[str] = (),
    *,
    tags: str | None = None,
    separator: str = " ",
    ignore: Sequence[str] = (),
    limits: Limits = Limits(),  # noqa: B008
) -> Dataset:
    """Return a data set from a CSV file.

    The first line has the names of the columns, every other one a number for each feature and 0 or 1 (or false, true)
    for each label. An empty cell of a feature is a missing value, NaN; a row whose labels are all empty is unlabelled.
    Commas separate; double quotes hold together, and
    are doubled inside.

    Parameters
    ----------
    source : path or binary stream
    label_columns : int or sequence of str
        How many of the last columns are labels, or the names of those that are; none where `tags` names a column.
    tags : str, optional
        The column whose cells list the relevant labels; they are numbered as they appear. An empty cell is a row whose
        labels are not known.
    separator : str
        What stands between two labels in such a cell; spaces around them do not count.
    ignore : sequence of str
        The names of columns that are neither features nor labels.
    limits : Limits

    Raises
    ------
    BadDataset
        With the line: a row with more or fewer values than there are columns, a value that is no number, a quote that
        is not closed.
    """
    builder = DatasetBuilder(limits)
    columns = builder.views[SINGLE] = Columns(dense=True)
    with opened(source) as file:
        table = CsvTable(file, label_columns, tags=tags, separator=separator, ignore=ignore, limits=limits)
        for line, values, relevant in table:
            columns.add_dense(values)
            builder.end_row(relevant, line)
    return builder.done_single(table.label_names, len(table.feature_names), table.feature_names)


class CsvTable:
    """A table is iterated over once, row by row, for (line, values, columns of the relevant labels or None).

    Parameters and errors are those of `read_csv`, but that no column need have labels.

    Attributes
    ----------
    feature_names : list of str
    label_names : list of str
        With `tags` those of the rows so far.
    """

    def __init__(
        self,
        file: IO[bytes],
        label_columns: int | Sequence[str] = (),
        *,
        tags: str | None = None,
        separator: str = " ",
        ignore: Sequence[str] = (),
        limits: Limits = Limits(),  # noqa: B008
    ) -> None:
        self._rows, self._separator, self._limits = _rows(_Lines(numbered_lines(file))), separator, limits
        self._names = names = check_names(next(self._rows, (0, []))[1], "columns", line=1)
        limits.check("features", max(len(names) - limits.labels, 0), line=1)
        left_out = {_place(names, name, "ignored column") for name in ignore}
        self._labels = _label_places(names, label_columns) if tags is None else {}
        self._tags_at = None if tags is None else _place(names, tags, "column of tags")
        if self._tags_at is not None and (label_columns or not separator):
            raise BadDataset("a column of tags needs a separator, and goes without label columns")
        if left_out & {self._tags_at, *self._labels}:
            raise BadDataset("a column with labels cannot be ignored", line=1)
        taken = {*self._labels, *left_out, self._tags_at}
        self._features = [place for place in range(len(names)) if place not in taken]
        limits.check("features", len(self._features), line=1)
        limits.check("labels", len(self._labels), line=1)
        self.feature_names = [names[place] for place in self._features]
        self._known = {names[place]: column for place, column in self._labels.items()}

    @property
    def label_names(self) -> list[str]:
        return list(self._known)

    def __iter__(self) -> Iterator[tuple[int, list[float], list[int] | None]]:
        names = self._names
        for line, row in self._rows:
            if len(row) != len(names):
                raise BadDataset(f"{len(row)} values, there are {len(names)} columns", line=line)
            values = [_value(row[place], names[place], line) for place in self._features]
            yield line, values, self._relevant(row, line)

    def _relevant(self, row: Sequence[str], line: int) -> list[int] | None:
        if self._tags_at is None:
            return _relevant(row, self._names, self._labels, line)
        relevant = _tagged(row[self._tags_at], self._separator, self._known, line)
        self._limits.check("labels", len(self._known), line=line)
        return relevant


class _Lines:
    """These lines are for the csv module: they have their ends, and it is known which one was given last."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for number, text in self._lines:
            self.number = number
            yield f"{text}\n"


def _rows(lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    """Return the rows, each with the number of its last line; empty lines are skipped."""
    reader = csv.reader(lines, strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise BadDataset(f"not CSV: {error}", line=lines.number) from None
        if row is None:
            return
        if row:
            yield lines.number, row


def _label_places(names: Sequence[str], label_columns: int | Sequence[str]) -> dict[int, int]:
    """Return the columns that are labels, in the order of the file, with the place of each among the labels."""
    if isinstance(label_columns, int):
        if not 0 < label_columns <= len(names):
            raise BadDataset(f"{label_columns} label columns asked for, there are {len(names)} columns", line=1)
        chosen = set(names[-label_columns:])
    else:
        chosen = set(check_names(tuple(label_columns), "label columns"))
        if absent := chosen - set(names):
            raise BadDataset(f"label column {shown(min(absent))} is not among the columns", line=1)
    places = (place for place, name in enumerate(names) if name in chosen)
    return {place: column for column, place in enumerate(places)}


def _place(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise BadDataset(f"{what} {shown(name)} is not among the columns", line=1)
    return names.index(name)


def _tagged(cell: str, separator: str, known: dict[str, int], line: int) -> list[int] | None:
    """Return the labels that a cell lists, which get their columns as they appear; None for an empty one."""
    relevant = set()
    for tag in filter(None, (part.strip() for part in cell.split(separator))):
        check_name(tag, "labels", line)
        relevant.add(known.setdefault(tag, len(known)))
    return sorted(relevant) if relevant else None


def _value(text: str, name: str, line: int) -> float:
    if not text or text.isspace():
        return math.nan
    try:
        return check_number(float(text))
    except ValueError:
        raise BadDataset(f"column {shown(name)} is {shown(text)}: expected a finite number", line=line) from None


def _relevant(row: Sequence[str], names: Sequence[str], labels: dict[int, int], line: int) -> list[int] | None:
    if not any(row[place] for place in labels):
        return None
    relevant = []
    for place, column in labels.items():
        if (truth := _TRUTH.get(row[place].strip().lower())) is None:
            raise BadDataset(f"label {shown(names[place])} is {shown(row[place])}: expected 0 or 1", line=line)
        if truth:
            relevant.append(column)
    return relevant
