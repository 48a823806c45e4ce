"""Tables: CSV and TSV files with a column per feature, and either a column per label or one column that lists the
labels.

A table is read twice. The first reading finds what each column is, from all its cells; the second yields the rows. Both
take little memory.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from math import isfinite
from operator import itemgetter
from os import PathLike
from typing import IO, Any

from manylabel_core.datasets.dataset import Dataset
from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.column_kinds import Column, KindChooser, Value
from manylabel_core.datasets.formats.column_scan import Budget, ColumnScan
from manylabel_core.datasets.formats.example_rows import ExampleRow, RowParts, checked_weight
from manylabel_core.datasets.formats.examples import read_examples
from manylabel_core.datasets.formats.label_cells import LabelCells, cells_of, separated
from manylabel_core.datasets.formats.open_quotes import OpenQuotes
from manylabel_core.datasets.formats.report import (
    EXAMPLES,
    MAX_FIELDS,
    ColumnReport,
    TableReport,
    label_warnings,
    shortened,
)
from manylabel_core.datasets.formats.table_lines import Row, Shape, shape_of, table_rows
from manylabel_core.datasets.formats.text import Source, check_names, opened_text, shown
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, check_number
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, MAX_MAGNITUDE

LISTED = 10
"""Maximum number of columns listed in an error."""

CHUNK_ROWS = 256
CHUNK_CHARACTERS = 2**20
"""Maximum rows and characters of a part of the first reading, after which its columns are counted."""

MAX_LISTS = 100_000
MAX_LIST_CHARACTERS = 2**25
"""Number of different cells with labels that are stored, and of their characters."""


def read_csv(
    source: Source,
    label_columns: int | str | Sequence[str] = (),
    *,
    delimiter: str | None = None,
    limits: ReaderLimits = ReaderLimits(),  # noqa: B008
    **options: Any,
) -> Dataset:
    """Return a dataset from a CSV file, which may be gzip.

    The first line has the names of the columns, every other line has a value for each feature and 0 or 1 (or false,
    true, no, yes) for each label. Each column has one kind, by all its cells: numbers, truth values (TRUE is 1),
    vectors (``[0.1, 0.2]``), or else categories; a text column has to be named. An empty cell is a missing value, and
    so is a word such as NA among numbers. A row whose labels are all empty is unlabelled. A row without any value is
    left out. Double quotes enclose a cell, and are doubled inside. `Dataset.report` has what was understood.

    If all features are numbers and no column is text, they are a dense view of all columns, with NaN for missing
    values. Otherwise each row is a record (`manylabel_core.records.RecordEncoder`), and the features are sparse and
    named.

    Parameters
    ----------
    source : path or binary stream
    label_columns, tags, separator, ignore, text, weight, number, category, names, decimal, missing, empty
        See `RowParts`. Labels of `tags` are numbered in order of appearance. Weights are above 0 and at most 1,000;
        none may be empty.
    delimiter : str, optional
        Separator of cells. None: the one that a first line ``sep=;`` declares, or the most frequent of comma,
        semicolon, tab and vertical bar in the first line.
    limits : ReaderLimits

    Raises
    ------
    BadDataset
        With the line: a row with more or fewer values than there are columns, a column that contradicts itself or has
        two readings (decimal commas and points), a number that is not finite, a quote that is not closed, a weight that
        is not allowed.
    """
    return _read(source, RowParts(label_columns, **options), delimiter, None, limits)


def read_tsv(
    source: Source,
    label_columns: int | str | Sequence[str] = (),
    *,
    limits: ReaderLimits = ReaderLimits(),  # noqa: B008
    **options: Any,
) -> Dataset:
    """Return a dataset from a table with tab-separated cells; otherwise like `read_csv`."""
    return _read(source, RowParts(label_columns, **options), None, "\t", limits)


def _read(
    source: Source, parts: RowParts, delimiter: str | None, preferred: str | None, limits: ReaderLimits
) -> Dataset:
    with rereadable(source, limits.bytes) as file:
        table = Table(file, parts, delimiter, preferred, limits)
        columns = table.feature_names if table.is_numeric else None
        dataset = read_examples(table, limits, parts.settings, columns, table.label_names)
        report = table.report()
    return replace(dataset, report=report)


class rereadable:  # noqa: N801  # a context manager in the form of a function
    """Source that can be read twice: a stream that cannot go back is copied to a temporary file."""

    def __init__(self, source: Source, max_bytes: int) -> None:
        self._source, self._max_bytes = source, max_bytes
        self._copy: IO[bytes] | None = None

    def __enter__(self) -> Source:
        if isinstance(self._source, (str, PathLike)) or self._source.seekable():
            return self._source
        self._copy = tempfile.TemporaryFile()
        n_bytes = 0
        while chunk := self._source.read(2**20):
            n_bytes += len(chunk)
            if n_bytes > self._max_bytes:
                self._copy.close()
                raise BadDataset(f"more than {self._max_bytes:,} bytes, the limit")
            self._copy.write(chunk)
        self._copy.seek(0)
        return self._copy

    def __exit__(self, *_: object) -> None:
        if self._copy is not None:
            self._copy.close()


class Table:
    """The rows of a table, each an `ExampleRow` with the values of its columns; it can be iterated repeatedly.

    `label_names` are the columns that are labels themselves, empty if one column lists the labels. `columns` are the
    columns of features, with their kinds. Raises the errors of `read_csv`, but label columns are optional.
    """

    def __init__(
        self,
        source: Source,
        parts: RowParts = RowParts(),  # noqa: B008
        delimiter: str | None = None,
        preferred: str | None = None,
        limits: ReaderLimits = ReaderLimits(),  # noqa: B008
    ) -> None:
        self.parts, self._source, self._limits = parts, source, limits
        self._start = 0 if isinstance(source, (str, PathLike)) else source.tell()
        with opened_text(source, limits.bytes) as file:
            self._shape = shape_of(file, delimiter, preferred, tuple(parts.names))
        self._roles = Roles(self._shape, parts, limits)
        self._scan()

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of features."""
        return [column.name for column in self.columns]

    @property
    def label_names(self) -> list[str]:
        """Names of the columns that are labels themselves."""
        return [self._shape.names[place] for place in self._roles.labels]

    @property
    def is_numeric(self) -> bool:
        """Whether all features are numbers or truth values."""
        return self.parts.text is None and all(column.kind in ("number", "flag") for column in self.columns)

    def _opened_rows(self) -> Iterator[Row]:
        if not isinstance(self._source, (str, PathLike)):
            self._source.seek(self._start)
        with opened_text(self._source, self._limits.bytes) as file:
            yield from table_rows(file, self._shape)

    def _scan(self) -> None:
        """Read the table for the first time, and choose the kinds of its columns."""
        roles, names, budget = self._roles, self._shape.names, Budget()
        missing = None if self.parts.missing is None else frozenset(self.parts.missing)
        places = [*roles.features, *(() if roles.listed is None else (roles.listed,))]
        scans = {place: ColumnScan(budget, missing) for place in places}
        lists = _Lists()
        self._marks = _Marks(roles.labels, self._missing_labels, self.parts.empty == "none")
        quotes = OpenQuotes(self._shape.delimiter, len(names))
        chunk: list[Row] = []
        n_characters = self._n_rows = self._n_empty = 0
        for row in self._opened_rows():
            if not any(map(str.strip, row.cells)):
                self._n_empty += 1
                continue
            self._n_rows += 1
            self._limits.check("rows", self._n_rows, line=row.line)
            chunk.append(row)
            n_characters += sum(map(len, row.texts))
            if len(row.texts) > 1:
                quotes.add(row)
                chunk[-1] = row._replace(texts=[])
            if len(chunk) == CHUNK_ROWS or n_characters > CHUNK_CHARACTERS:
                self._count(chunk, scans, lists)
                chunk, n_characters = [], 0
        self._count(chunk, scans, lists)
        left_out = {place: names[place] for place in roles.features if self._is_left_out(place, scans[place])}
        chosen = {names[place]: scans[place] for place in roles.features if place not in left_out}
        chooser = KindChooser(chosen, roles.kinds, self.parts.decimal, self.parts.missing)
        quotes.check([place for place in scans if scans[place].solid and not scans[place].examples])
        self.columns = [chooser.column(names[place]) for place in roles.features if place not in left_out]
        self._places = [place for place in roles.features if place not in left_out]
        self._left_out = left_out
        self._listed_scan = None if roles.listed is None else scans[roles.listed]
        self._lists = lists
        self._label_cells: LabelCells | None = None
        self._unknown: frozenset[str] = frozenset()
        if self._listed_scan is not None and roles.listed is not None:
            name = names[roles.listed]
            if missing is not None:
                self._unknown = missing
            elif self._listed_scan.is_numeric:
                self._unknown = frozenset(self._listed_scan.words or ())
            else:
                self._unknown = chooser.missing_names(self._listed_scan, name)
            counts = {cell: n for cell, n in lists.counts.items() if cell.strip() not in self._unknown}
            is_number = chooser.decimal == "," and self._listed_scan.is_numeric
            self._label_cells = separated("") if is_number else cells_of(counts, self.parts.separator, name)
        self._decimal = chooser.decimal
        self._warnings = [*self._warnings_of_shape(), *chooser.warnings]

    def _count(self, chunk: list[Row], scans: dict[int, ColumnScan], lists: _Lists) -> None:
        if not chunk:
            return
        columns = list(zip(*(row.cells for row in chunk), strict=True))
        lines = [row.line for row in chunk]
        is_first = chunk[0].line == lines[0] and next(iter(scans.values())).n == 0 if scans else False
        for place, scan in scans.items():
            column = columns[place]
            before = sum(scan.words.values()) if scan.words else 0
            scan.add(column, lines)
            if is_first:
                scan.is_quoted = _is_quoted(chunk, place, self._shape.delimiter)
            if scan.words and sum(scan.words.values()) > before:
                scan.quoted_words += _quoted_words(chunk, place, self._shape.delimiter)
        if self._roles.listed is not None:
            lists.add(columns[self._roles.listed])
        self._marks.add(columns)

    def _is_left_out(self, place: int, scan: ColumnScan) -> bool:
        """Return whether a column without a name has the names of the rows, or nothing."""
        name = self._shape.names[place]
        if name in self._roles.kinds:
            return False
        is_unnamed = place in self._shape.unnamed
        return (place == 0 and (is_unnamed or name == "Unnamed: 0")) or (is_unnamed and scan.n == scan.counts[0])

    def _warnings_of_shape(self) -> Iterator[str]:
        names = self._shape.names
        if self._shape.unnamed_first:
            yield "each row begins with a cell more than there are names: it is ignored as the name of the row"
        for place, name in self._left_out.items():
            what = "seems to have the names of the rows" if place == 0 else "has no name and no values"
            yield f"column {shown(name)} {what} and is ignored"
        for place in self._shape.unnamed:
            if place not in self._left_out and place in self._places:
                yield f"column {place + 1} has no name: it is called {shown(names[place])}"
        for column in self.columns:
            if column.scan.steps is not None and column.scan.n >= EXAMPLES and column.kind == "number":
                yield f"column {shown(column.name)} counts the rows: ignore it"

    def __iter__(self) -> Iterator[ExampleRow]:
        roles, n_rows = self._roles, 0
        as_row = _RowReader(self.columns, self._places, self.is_numeric)
        for row in islice(self._filled_rows(), self._n_rows):
            n_rows += 1
            line, found = row.line, row.cells
            x = as_row.read(found, line)
            weight = None if roles.weight is None else self._weighed(found[roles.weight], line)
            ref = None if roles.ref is None else found[roles.ref].strip() or None
            yield ExampleRow(line, x, self._truth(found, line), weight, ref)
        if n_rows < self._n_rows:
            raise BadDataset("the file changed while it was read: it has fewer rows")

    def _filled_rows(self) -> Iterator[Row]:
        return (row for row in self._opened_rows() if any(map(str.strip, row.cells)))

    def _weighed(self, cell: str, line: int) -> float:
        """Return the weight of a row."""
        try:
            return checked_weight(cells.number(cell))
        except ValueError:
            place, due = shown(self.parts.weight), f"expected a number above 0 and at most {MAX_EXAMPLE_WEIGHT:g}"
            raise BadDataset(f"a weight is {shown(cell)}, in column {place}: {due}", line=line) from None

    def _truth(self, row: Sequence[str], line: int) -> list[str] | dict[str, bool] | None:
        roles, is_none = self._roles, self.parts.empty == "none"
        if roles.listed is not None:
            cell = row[roles.listed]
            text = cell.strip()
            if not text or text in self._unknown:
                return [] if is_none else None
            assert self._label_cells is not None
            found = self._label_cells.read(cell, line)
            return found if found or text[0] in "[{" else [] if is_none else None
        truth = {}
        for place in roles.labels:
            cell = row[place].strip()
            if (relevant := cells.TRUTHS.get(cell.lower())) is None:
                if cell and cell not in self._missing_labels:
                    hint = (
                        "; if its cells list labels, it is the column of tags, with a separator"
                        if len(roles.labels) == 1
                        else ""
                    )
                    name = shown(self._shape.names[place])
                    raise BadDataset(f"label {name} is {shown(row[place])}: expected 0 or 1{hint}", line=line)
                if not is_none:
                    continue
                relevant = False
            truth[self._shape.names[place]] = relevant
        return truth or None

    @cached_property
    def _missing_labels(self) -> frozenset[str]:
        return cells.MISSING_WORDS if self.parts.missing is None else frozenset(self.parts.missing)

    @property
    def counts_are_partial(self) -> bool:
        """Whether there are too many different lists of labels for `label_counts`."""
        return self._lists.more

    def label_counts(self) -> tuple[dict[str, int], int]:
        """Return the number of rows of each label, and the number of rows with unknown labels."""
        if self._label_cells is None:
            return dict(zip(self.label_names, self._marks.counts, strict=True)), self._marks.n_unknown
        counts, n_unknown = dict[str, int](), 0
        for cell, n in self._lists.counts.items():
            if not cell.strip() or cell.strip() in self._unknown:
                n_unknown += n
            else:
                for label in self._label_cells.read(cell):
                    counts[label] = counts.get(label, 0) + n
        return counts, 0 if self.parts.empty == "none" else n_unknown

    @property
    def n_rows(self) -> int:
        """Number of rows, without those left out."""
        return self._n_rows

    def report(self) -> TableReport:
        """Return what was understood of the table."""
        names, roles = self._shape.names, self._roles
        counts, n_unlabelled = self.label_counts()
        first = [
            {"x": shortened(row.x), "y": row.y, **({} if row.weight is None else {"weight": row.weight})}
            for row in islice(self, EXAMPLES)
        ]
        by_place: dict[int, ColumnReport] = {
            place: column.report() for place, column in zip(self._places, self.columns, strict=True)
        }
        texts = set(_fields_of(self.parts))
        for place, name in enumerate(names):
            if place not in by_place:
                kind = roles.role_of(place) or "ignored"
                note = "" if place not in self._left_out else "names of rows" if place == 0 else "no values"
                by_place[place] = ColumnReport(name, kind, 0, 0, "", note)
        columns = tuple(
            _as_text(by_place[place]) if names[place] in texts else by_place[place]
            for place in range(min(len(names), MAX_FIELDS))
        )
        settings = {"separator of cells": {"\t": "tab", " ": "space"}.get(self._shape.delimiter, self._shape.delimiter)}
        settings["decimal mark"] = self._decimal
        if self._label_cells is not None:
            settings["labels"] = self._label_cells.style
        left_out = {"without any value": self._n_empty} if self._n_empty else {}
        return TableReport(
            self._n_rows,
            columns,
            counts,
            n_unlabelled,
            left_out,
            settings,
            tuple(first),
            self.warnings(),
        )

    def warnings(self) -> tuple[str, ...]:
        """Return what is strange about the table."""
        return (*self._warnings, *self._label_warnings(*self.label_counts()))

    def _label_warnings(self, counts: dict[str, int], n_unlabelled: int) -> Iterator[str]:
        if self._label_cells is None and not self._roles.labels:
            return
        n_rows = self._n_rows - n_unlabelled
        if n_unlabelled:
            yield f"{n_unlabelled:,} rows have no known labels (empty cells); they can also mean that there is no label"
        if self._lists.more:
            yield f"there are more than {len(self._lists.counts):,} different lists of labels: not all are counted"
        yield from label_warnings(counts, n_rows)


def _as_text(column: ColumnReport) -> ColumnReport:
    return ColumnReport(column.name, "text", column.values, column.missing, column.example, column.note)


class Roles:
    """Roles of the columns of a table, by place. Raises BadDataset if the options contradict the names."""

    def __init__(self, shape: Shape, parts: RowParts, limits: ReaderLimits) -> None:
        names = shape.names
        limits.check("features", max(len(names) - limits.labels, 0), line=1)
        left_out = {_place(names, name, "ignored column") for name in parts.ignore}
        listed = parts.listed_in([name for place, name in enumerate(names) if place not in shape.unnamed or not place])
        self.listed = None if listed is None else _place(names, listed, "column of tags")
        self.labels = [] if listed is not None else _label_places(shape, parts.label_columns)
        self.weight = None if parts.weight is None else _place(names, parts.weight, "column of weights")
        if self.weight is not None and self.weight in left_out | {self.listed, *self.labels}:
            raise BadDataset("the column of weights cannot have labels or be ignored", line=1)
        self.ref = None if parts.ref is None else _place(names, parts.ref, "column of references")
        if self.ref is not None and self.ref in left_out | {self.listed, self.weight, *self.labels}:
            raise BadDataset("the column of references cannot have labels or weights, or be ignored", line=1)
        if left_out & {self.listed, *self.labels}:
            raise BadDataset("a column with labels cannot be ignored", line=1)
        taken = {*self.labels, *left_out, self.listed, self.weight, self.ref}
        self.features = [place for place in range(len(names)) if place not in taken]
        self.kinds: dict[str, str] = {}
        for kind, given in (("text", _fields_of(parts)), ("number", parts.number), ("category", parts.category)):
            for name in given:
                what = f"{kind} column" if kind == "text" else f"column of {kind.replace('y', 'ie')}s"
                if _place(names, name, what) not in self.features:
                    raise BadDataset(f"a {what} cannot have labels or be ignored", line=1)
                if self.kinds.setdefault(name, kind) != kind:
                    raise BadDataset(f"column {shown(name)} has more than one kind", line=1)
        limits.check("features", len(self.features), line=1)
        limits.check("labels", len(self.labels), line=1)
        self._ignored = left_out

    def role_of(self, place: int) -> str | None:
        """Return the role of a column that is no feature."""
        roles: dict[str, set[int | None]] = {"labels": {self.listed}, "label": {*self.labels}}
        roles |= {"weight": {self.weight}, "ref": {self.ref}}
        return next((role for role, places in roles.items() if place in places), None)


class _Lists:
    """Different cells of the column that lists labels, with their counts, up to a limit."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.more = False
        self._n_characters = 0

    def add(self, column: Sequence[str]) -> None:
        counts = self.counts
        for cell in column:
            if cell in counts:
                counts[cell] += 1
            elif len(counts) < MAX_LISTS and self._n_characters < MAX_LIST_CHARACTERS:
                counts[cell] = 1
                self._n_characters += len(cell)
            else:
                self.more = True


class _Marks:
    """Numbers of rows of labels that have columns of their own."""

    def __init__(self, places: Sequence[int], missing: frozenset[str], is_none: bool) -> None:
        self._places, self._missing, self._is_none = places, missing, is_none
        self.counts = [0] * len(places)
        self.n_unknown = 0

    def add(self, columns: Sequence[Sequence[str]]) -> None:
        """Count the next rows; whether their cells are truth values is checked later."""
        for label, place in enumerate(self._places):
            for cell, n in Counter(columns[place]).items():
                if cells.TRUTHS.get(cell.strip().lower()):
                    self.counts[label] += n
        if self._places and not self._is_none:
            n_rows = len(columns[self._places[0]])
            unknown: Sequence[int] = range(n_rows)
            for place in self._places:
                column = columns[place]
                unknown = [row for row in unknown if self._is_unknown(column[row])]
            self.n_unknown += len(unknown)

    def _is_unknown(self, cell: str) -> bool:
        text = cell.strip()
        return not text or text in self._missing


class _RowReader:
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
                    f"column {shown(name)} is {shown(cell)}: expected what its other cells are; state its kind",
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


def _is_quoted(chunk: Sequence[Row], place: int, delimiter: str) -> bool:
    """Return whether a cell of a column is in quotes."""
    rows = [row for row in chunk[:20] if len(row.texts) == 1 and row.cells[place] and '"' in row.texts[0]]
    return any(_cell_is_quoted(row.texts[0], place, delimiter) for row in rows)


def _quoted_words(chunk: Sequence[Row], place: int, delimiter: str) -> int:
    """Return the number of words for a missing value that are in quotes."""
    return sum(
        row.cells[place].strip() in cells.MISSING_NAMES
        and len(row.texts) == 1
        and '"' in row.texts[0]
        and _cell_is_quoted(row.texts[0], place, delimiter)
        for row in chunk
    )


def _cell_is_quoted(text: str, place: int, delimiter: str) -> bool:
    at = 0
    for _ in range(place):
        begin = text[at:].lstrip(" ")
        if begin.startswith('"'):
            at = text.index('"', at) + 1
            while at < len(text):
                at = text.find('"', at)
                if text[at + 1 : at + 2] != '"':
                    break
                at += 2
        at = text.find(delimiter, at)
        if at < 0:
            return False
        at += 1
    return text[at:].lstrip(" ").startswith('"')


def _fields_of(parts: RowParts) -> Sequence[str]:
    settings = parts.settings
    return () if settings is None else settings.fields or ()


def _label_places(shape: Shape, label_columns: int | str | Sequence[str]) -> list[int]:
    """Return the columns that are labels, in the order of the file."""
    names = shape.names
    if isinstance(label_columns, int):
        named = [place for place in range(len(names)) if place not in shape.unnamed or not place]
        if not 0 < label_columns <= len(named):
            detail = f"{label_columns} label columns requested, but there are {len(named)} columns: {_listed(names)}"
            raise BadDataset(detail, line=1)
        return named[-label_columns:]
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
