"""Tables: CSV and TSV files with a column per feature, and either a column per label or one column that lists the
labels.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from math import isfinite
from operator import itemgetter

from manylabel_core.datasets.dataset import Dataset
from manylabel_core.datasets.formats.example_rows import ExampleRow, RowParts, Text, checked_weight
from manylabel_core.datasets.formats.examples import read_examples
from manylabel_core.datasets.formats.text import Lines, Source, check_names, numbered_lines, opened_text, shown
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, check_number
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, MAX_MAGNITUDE

Value = float | str | list[float]
"""Value of a cell: a number, a string, or a vector."""

LISTED = 10
"""Maximum number of columns listed in an error."""

_TRUTH = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


def read_csv(
    source: Source,
    label_columns: int | str | Sequence[str] = (),
    *,
    tags: str | None = None,
    separator: str | None = None,
    ignore: Sequence[str] = (),
    text: Text | None = None,
    weight: str | None = None,
    delimiter: str | None = None,
    limits: ReaderLimits = ReaderLimits(),  # noqa: B008
) -> Dataset:
    """Return a dataset from a CSV file, which may be gzip.

    The first line has the names of the columns, every other line has a value for each feature and 0 or 1 (or false,
    true) for each label. A number is a value, a list of numbers in JSON (``[0.1, 0.2]``) a vector, any other string a
    category, or a text in a text column; an empty cell is a missing value. A row whose labels are all empty is
    unlabelled. Double quotes enclose a cell, and are doubled inside.

    If all features are numbers and no column is text, they are a dense view of all columns, with NaN for missing
    values. Otherwise each row is a record (`manylabel_core.records.RecordEncoder`), and the features are sparse and
    named.

    Parameters
    ----------
    source : path or binary stream
    label_columns, tags, separator, ignore, text
        See `RowParts`. Labels of `tags` are numbered in order of appearance; an empty cell means unknown labels.
    weight : str, optional
        The column of sample weights, above 0 and at most 1,000; none of its cells may be empty.
    delimiter : str, optional
        Separator of cells. None: the most frequent of comma, semicolon and tab in the first line.
    limits : ReaderLimits

    Raises
    ------
    BadDataset
        With the line: a row with more or fewer values than there are columns, a number that is not finite, a quote that
        is not closed, a weight that is not allowed.
    """
    with opened_text(source, limits.bytes) as file:
        parts = RowParts(label_columns, tags, separator, ignore, text, weight)
        table = Table(file, parts, delimiter, limits)
        return read_examples(table, limits, table.parts.settings, table.feature_names, table.label_names)


def read_tsv(source: Source, label_columns: int | str | Sequence[str] = (), **options: object) -> Dataset:
    """Return a dataset from a table with tab-separated cells; otherwise like `read_csv`."""
    return read_csv(source, label_columns, delimiter="\t", **options)  # type: ignore[arg-type]


class Table:
    """One-pass iterator over the rows of a table, each an `ExampleRow` with numbers and strings by column.

    `label_names` are the columns that are labels themselves, empty if one column lists the labels. Raises the errors of
    `read_csv`, but label columns are optional.
    """

    def __init__(
        self,
        file: Lines,
        parts: RowParts = RowParts(),  # noqa: B008
        delimiter: str | None = None,
        limits: ReaderLimits = ReaderLimits(),  # noqa: B008
    ) -> None:
        self.parts = parts
        lines = numbered_lines(file)
        header = next(((number, text) for number, text in lines if text), None)
        if header is None:
            raise BadDataset("the file is empty: its first line must have the names of the columns")
        self._rows = _rows(_Lines(chain([header], lines)), delimiter or _delimiter_of(header[1]))
        self._names = names = check_names(next(self._rows, (0, []))[1], "columns", line=1)
        limits.check("features", max(len(names) - limits.labels, 0), line=1)
        left_out = {_place(names, name, "ignored column") for name in parts.ignore}
        listed = parts.listed_in(names)
        self._listed = None if listed is None else _place(names, listed, "column of tags")
        self._labels = [] if listed is not None else _label_places(names, parts.label_columns)
        self._weight = None if parts.weight is None else _place(names, parts.weight, "column of weights")
        if self._weight is not None and self._weight in left_out | {self._listed, *self._labels}:
            raise BadDataset("the column of weights cannot have labels or be ignored", line=1)
        self._ref = None if parts.ref is None else _place(names, parts.ref, "column of references")
        if self._ref is not None and self._ref in left_out | {self._listed, self._weight, *self._labels}:
            raise BadDataset("the column of references cannot have labels or weights, or be ignored", line=1)
        if left_out & {self._listed, *self._labels}:
            raise BadDataset("a column with labels cannot be ignored", line=1)
        taken = {*self._labels, *left_out, self._listed, self._weight, self._ref}
        self._features = [place for place in range(len(names)) if place not in taken]
        self._texts = {_place(names, name, "text column") for name in _fields_of(parts)}
        if self._texts - {*self._features}:
            raise BadDataset("a text column cannot have labels or be ignored", line=1)
        limits.check("features", len(self._features), line=1)
        limits.check("labels", len(self._labels), line=1)
        self.feature_names = [names[place] for place in self._features]
        self.label_names = [names[place] for place in self._labels]
        self._cells = itemgetter(*self._features) if len(self._features) > 1 else self._few_cells

    def __iter__(self) -> Iterator[ExampleRow]:
        for line, row in self._rows:
            if len(row) != len(self._names):
                raise BadDataset(f"{len(row)} values for {len(self._names)} columns", line=line)
            x, weight = self._numbers(row) or self._record(row, line), None
            if self._weight is not None:
                weight = self._weighed(row[self._weight], line)
            ref = None if self._ref is None else row[self._ref].strip() or None
            yield ExampleRow(line, x, self._truth(row, line), weight, ref)

    def _numbers(self, row: list[str]) -> dict[str, Value] | None:
        """Return the features of a row if all cells are valid numbers (the fast path), else None."""
        if self._texts:
            return None
        try:
            numbers = list(map(float, self._cells(row)))
        except ValueError:
            return None
        if numbers and max(numbers) <= MAX_MAGNITUDE and min(numbers) >= -MAX_MAGNITUDE and isfinite(sum(numbers)):
            return dict(zip(self.feature_names, numbers, strict=True))
        return None

    def _weighed(self, cell: str, line: int) -> float:
        """Return the weight of a row."""
        try:
            return checked_weight(float(cell))
        except ValueError:
            place, due = shown(self.parts.weight), f"expected a number above 0 and at most {MAX_EXAMPLE_WEIGHT:g}"
            raise BadDataset(f"a weight is {shown(cell)}, in column {place}: {due}", line=line) from None

    def _few_cells(self, row: list[str]) -> list[str]:
        return [row[place] for place in self._features]

    def _record(self, row: list[str], line: int) -> dict[str, Value]:
        x: dict[str, Value] = {}
        for place in self._features:
            if (cell := row[place]) and not cell.isspace():
                x[self._names[place]] = cell if place in self._texts else self._value(cell, place, line)
        return x

    def _value(self, cell: str, place: int, line: int) -> Value:
        try:
            number = float(cell)
        except ValueError:
            return _vector(cell) or cell
        try:
            return check_number(number)
        except ValueError:
            name = shown(self._names[place])
            raise BadDataset(f"column {name} is {shown(cell)}: expected a finite number", line=line) from None

    def _truth(self, row: Sequence[str], line: int) -> list[str] | dict[str, bool] | None:
        if self._listed is not None:
            return self.parts.split(row[self._listed], line) or None
        if not any(row[place] for place in self._labels):
            return None
        truth = {}
        for place in self._labels:
            if (relevant := _TRUTH.get(row[place].strip().lower())) is None:
                hint = "; if its cells list labels, say what separates them" if len(self._labels) == 1 else ""
                found = f"label {shown(self._names[place])} is {shown(row[place])}: expected 0 or 1{hint}"
                raise BadDataset(found, line=line)
            truth[self._names[place]] = relevant
        return truth


class _Lines:
    """Iterator of lines for the csv module, with line ends, that stores the number of the latest line."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for number, text in self._lines:
            self.number = number
            yield f"{text}\n"


def _delimiter_of(header: str) -> str:
    """Return the separator of the names in the first line; in a tie, the comma."""
    unquoted = re.sub('"[^"]*"', "", header)
    return max(",;\t", key=unquoted.count)


def _rows(lines: _Lines, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows, each with the number of its last line; empty lines are skipped."""
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise BadDataset(f"not CSV: {error}", line=lines.number) from None
        if row is None:
            return
        if row:
            yield lines.number, row


def _vector(cell: str) -> list[float] | None:
    """Return the numbers of a cell with a JSON list of numbers, or None."""
    if not (cell.lstrip().startswith("[") and cell.rstrip().endswith("]")):
        return None
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    return found if all(type(one) in (int, float) for one in found) else None


def _fields_of(parts: RowParts) -> Sequence[str]:
    settings = parts.settings
    return () if settings is None else settings.fields or ()


def _label_places(names: Sequence[str], label_columns: int | str | Sequence[str]) -> list[int]:
    """Return the columns that are labels, in the order of the file."""
    if isinstance(label_columns, int):
        if not 0 < label_columns <= len(names):
            detail = f"{label_columns} label columns requested, but there are {len(names)} columns: {_listed(names)}"
            raise BadDataset(detail, line=1)
        chosen = set(names[-label_columns:])
    else:
        chosen = set(check_names(tuple(label_columns), "label columns"))
        if absent := chosen - set(names):
            detail = f"label column {shown(min(absent))} is not among the columns: {_listed(names)}"
            raise BadDataset(detail, line=1)
    return [place for place, name in enumerate(names) if name in chosen]


def _place(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise BadDataset(f"{what} {shown(name)} is not among the columns: {_listed(names)}", line=1)
    return names.index(name)


def _listed(names: Sequence[str]) -> str:
    """Return the columns for an error message, shortened if there are many."""
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(map(shown, names[:LISTED])) + more
