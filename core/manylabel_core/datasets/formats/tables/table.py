"""Tables: CSV and TSV files with a column per feature, and either a column per label or one column that lists the
labels.

A table is read twice, with little memory. The first reading finds the kind of each column from all its cells; the
second one yields the rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from os import PathLike
from typing import IO, Any

from manylabel_core.alike import MergedLabels
from manylabel_core.datasets.dataset import Dataset
from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.example_rows import ExampleRow, RowParts, checked_weight
from manylabel_core.datasets.formats.examples import read_examples
from manylabel_core.datasets.formats.tables.column_kinds import KindChooser
from manylabel_core.datasets.formats.tables.column_scan import Budget, ColumnScan
from manylabel_core.datasets.formats.tables.counts import LabelLists, LabelMarks
from manylabel_core.datasets.formats.tables.label_cells import LabelCells, cells_of, separated
from manylabel_core.datasets.formats.tables.lines import Row, shape_of, table_rows
from manylabel_core.datasets.formats.tables.quotes import OpenQuotes, column_is_quoted, quoted_words
from manylabel_core.datasets.formats.tables.roles import Roles, text_fields
from manylabel_core.datasets.formats.tables.values import RowReader
from manylabel_core.datasets.formats.text import Source, opened_text
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, shown
from manylabel_core.datasets.report import (
    EXAMPLES,
    MAX_FIELDS,
    ColumnReport,
    TableReport,
    label_warnings,
    shortened,
)
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT

TOTALS = frozenset(
    {"total", "totals", "grand total", "sum", "average", "mean", "summe", "gesamt", "mittelwert", "totale"}
)
"""First cell, in lower case, of a last row with the sums of the others."""
CHUNK_ROWS = 256
CHUNK_CHARACTERS = 2**20
"""Maximum rows and characters that the first reading collects before it counts the cells."""


def read_csv(
    source: Source,
    label_columns: int | str | Sequence[str] = (),
    *,
    delimiter: str | None = None,
    limits: ReaderLimits = ReaderLimits(),  # noqa: B008
    **options: Any,
) -> Dataset:
    """Return a dataset from a CSV file, which may be gzip.

    The first line has the names of the columns. Every other line has a value for each feature, and 0 or 1 (or false,
    true, no, yes) for each label. Each column has one kind, which depends on all its cells: numbers, truth values (TRUE
    is 1), vectors (``[0.1, 0.2]``), or else categories. A text column must be named. An empty cell is a missing value,
    and so is a word such as NA among numbers. A row whose labels are all empty is unlabelled. A row without any value
    is omitted. Double quotes enclose a cell, and are doubled inside. `Dataset.report` shows how the file was read.

    If all features are numbers and no column is text, they are a dense view of all columns, with NaN for missing
    values. Otherwise each row is a record (`manylabel_core.records.RecordEncoder`), and the features are sparse and
    named.

    Parameters
    ----------
    source : path or binary stream
    label_columns : int, str or sequence of str, default=()
        See `RowParts`.
    delimiter : str, optional
        Separator of cells. None: the one that a first line ``sep=;`` declares, or the most frequent of comma,
        semicolon, tab and vertical bar in the first line.
    limits : ReaderLimits
    **options
        Other attributes of `RowParts`. Labels of `tags` are numbered in order of appearance. Weights are above 0 and at
        most 1,000; none may be empty.

    Raises
    ------
    BadDataset
        With the line: a row with more or fewer values than there are columns, a column that contradicts itself or can
        be read in two ways (decimal commas and points), a number that is not finite, a quote that is not closed, a
        weight that is not allowed.
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
                raise BadDataset(f"the file has more than {self._max_bytes:,} bytes, the limit of its size")
            self._copy.write(chunk)
        self._copy.seek(0)
        return self._copy

    def __exit__(self, *_: object) -> None:
        if self._copy is not None:
            self._copy.close()


class Table:
    """The rows of a table, each an `ExampleRow` with the values of its columns; it can be iterated repeatedly.

    `label_names` are the columns of single labels, empty if one column lists the labels. `columns` are the columns of
    features, with their kinds. Raises the errors of `read_csv`, but label columns are optional.
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
        with opened_text(source, limits.bytes, parts.encoding) as file:
            self._shape = shape_of(file, delimiter, preferred, tuple(parts.names))
        self._roles = Roles(self._shape, parts, limits)
        if parts.merge_alike and self._roles.listed is None and self._roles.labels:
            raise BadDataset("labels that are columns cannot be merged: rename the columns, or omit merge_alike")
        self._scan()

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of features."""
        return [column.name for column in self.columns]

    @property
    def label_names(self) -> list[str]:
        """Names of the columns of single labels."""
        return [self._shape.names[place] for place in self._roles.labels]

    @property
    def is_numeric(self) -> bool:
        """Return whether all features are numbers or truth values."""
        return self.parts.text is None and all(column.is_number for column in self.columns)

    def _opened_rows(self) -> Iterator[Row]:
        if not isinstance(self._source, (str, PathLike)):
            self._source.seek(self._start)
        with opened_text(self._source, self._limits.bytes, self.parts.encoding) as file:
            yield from table_rows(file, self._shape)

    def _scan(self) -> None:
        """Read the table for the first time, and choose the kinds of its columns."""
        roles, names, budget = self._roles, self._shape.names, Budget()
        missing = None if self.parts.missing is None else frozenset(self.parts.missing)
        places = [*roles.features, *(() if roles.listed is None else (roles.listed,))]
        scans = {place: ColumnScan(budget, missing) for place in places}
        lists = LabelLists()
        self._marks = LabelMarks(roles.labels, self._missing_labels, self.parts.empty == "none")
        quotes = OpenQuotes(self._shape.delimiter, len(names))
        chunk: list[Row] = []
        row = None
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
        if row is not None and next(filter(None, map(str.strip, row.cells)), "").rstrip(":").lower() in TOTALS:
            self._warnings.append(f"the last row (line {row.line}) seems to be a total: remove it")

    def _count(self, chunk: list[Row], scans: dict[int, ColumnScan], lists: LabelLists) -> None:
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
                scan.is_quoted = column_is_quoted(chunk, place, self._shape.delimiter)
            if scan.words and sum(scan.words.values()) > before:
                scan.quoted_words += quoted_words(chunk, place, self._shape.delimiter)
        if self._roles.listed is not None:
            lists.add(columns[self._roles.listed])
        self._marks.add(columns)

    def _is_left_out(self, place: int, scan: ColumnScan) -> bool:
        """Return whether a column without a name is empty or contains the names of the rows."""
        name = self._shape.names[place]
        if name in self._roles.kinds:
            return False
        is_unnamed = place in self._shape.unnamed
        return (place == 0 and (is_unnamed or name == "Unnamed: 0")) or (is_unnamed and scan.n == scan.counts[0])

    def _warnings_of_shape(self) -> Iterator[str]:
        names = self._shape.names
        if self._shape.unnamed_first:
            yield "each row has one cell more than the line of names: the first cell is ignored, as the name of the row"
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
        merged = MergedLabels() if self.parts.merge_alike else None
        as_row = RowReader(self.columns, self._places, self.is_numeric)
        for row in islice(self._filled_rows(), self._n_rows):
            n_rows += 1
            line, found = row.line, row.cells
            x = as_row.read(found, line)
            weight = None if roles.weight is None else self._weighed(found[roles.weight], line)
            ref = None if roles.ref is None else found[roles.ref].strip() or None
            y = self._truth(found, line)
            yield ExampleRow(line, x, y if merged is None else merged.merged(y), weight, ref)
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
            raise BadDataset(f"the weight in column {place} is {shown(cell)}: {due}", line=line) from None

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
            cell = row[place]
            if (relevant := cells.TRUTHS.get(cell)) is None and (
                relevant := cells.TRUTHS.get((cell := cell.strip()).lower())
            ) is None:
                if cell and cell not in self._missing_labels:
                    hint = (
                        "; if its cells list labels, pass it as the column of tags, with a separator"
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
        """Return whether `label_counts` is incomplete, because there are too many different lists of labels."""
        return self._lists.more

    def label_counts(self) -> tuple[dict[str, int], int]:
        """Return the number of rows of each label, and the number of rows with unknown labels."""
        if self._label_cells is None:
            return dict(zip(self.label_names, self._marks.counts, strict=True)), self._marks.n_unknown
        counts, n_unknown = dict[str, int](), 0
        merged = MergedLabels() if self.parts.merge_alike else None
        for cell, n in self._lists.counts.items():
            if not cell.strip() or cell.strip() in self._unknown:
                n_unknown += n
            else:
                labels = self._label_cells.read(cell)
                for label in labels if merged is None else dict.fromkeys(map(merged.name, labels)):
                    counts[label] = counts.get(label, 0) + n
        return counts, 0 if self.parts.empty == "none" else n_unknown

    @property
    def n_rows(self) -> int:
        """Number of rows, without omitted rows."""
        return self._n_rows

    def report(self) -> TableReport:
        """Return the report of how the table was read."""
        names, roles = self._shape.names, self._roles
        counts, n_unlabelled = self.label_counts()
        first = [
            {"x": shortened(row.x), "y": row.y, **({} if row.weight is None else {"weight": row.weight})}
            for row in islice(self, EXAMPLES)
        ]
        by_place: dict[int, ColumnReport] = {
            place: column.report() for place, column in zip(self._places, self.columns, strict=True)
        }
        texts = set(text_fields(self.parts))
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
        """Return warnings about the table."""
        return (*self._warnings, *self._label_warnings(*self.label_counts()))

    def _label_warnings(self, counts: dict[str, int], n_unlabelled: int) -> Iterator[str]:
        if self._label_cells is None and not self._roles.labels:
            return
        n_rows = self._n_rows - n_unlabelled
        if n_unlabelled:
            rows = "1 row has" if n_unlabelled == 1 else f"{n_unlabelled:,} rows have"
            yield f"{rows} unknown labels (empty cells); if an empty cell means no label, set empty to 'none'"
        if self._lists.more:
            yield f"there are more than {len(self._lists.counts):,} different lists of labels: not all are counted"
        yield from label_warnings(counts, n_rows, mergeable=self._roles.listed is not None)


def _as_text(column: ColumnReport) -> ColumnReport:
    return ColumnReport(column.name, "text", column.values, column.missing, column.example, column.note)
