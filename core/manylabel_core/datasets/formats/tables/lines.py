"""Rows of cells of a table: its separator, its header, and the shape of its rows."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.text import Lines as Source
from manylabel_core.datasets.formats.text import check_names, numbered_lines
from manylabel_core.datasets.limits import BadDataset, shown

DELIMITERS = ",;\t|"
_DECLARED = re.compile(r'"?sep=(.|\\t)"?', re.IGNORECASE)
_QUOTES = re.compile(r'"[^"]*"')
_CURLY = re.compile("[\u201c\u201d\u201e]")


class Row(NamedTuple):
    """A row with the numbers of its first and last line, and its text if it is on one line."""

    first: int
    line: int
    cells: list[str]
    texts: list[str]


_NO_ROW = Row(0, 0, [], [])


class Shape(NamedTuple):
    """Style of a table."""

    delimiter: str
    skips_spaces: bool
    names: tuple[str, ...]
    has_header: bool
    unnamed_first: bool
    """Whether each row begins with an additional cell without a column name, as R writes names of rows."""
    trails: bool
    """Whether each row ends in an additional separator, which the line of names does not have."""
    n_skipped: int
    """Number of lines before the first row."""
    unnamed: tuple[int, ...]
    """Columns without a name, which are called by their number."""
    header: tuple[str, ...]
    """The first line, unchanged."""


class _Lines:
    """Iterator of the lines of one row, with line ends, for the csv module; it stores the lines."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self.number = 0
        self.texts: list[str] = []

    def __iter__(self) -> Iterator[str]:
        for number, text in self._lines:
            self.number = number
            self.texts.append(text)
            yield f"{text}\n"


def rows_of(lines: Iterator[tuple[int, str]], delimiter: str, skips_spaces: bool) -> Iterator[Row]:
    """Yield the rows; empty lines are skipped. Raises BadDataset with the line where an invalid row begins."""
    most = csv.field_size_limit()
    for number, text in lines:
        # The csv module would split a line without quotes in the same way, but more slowly.
        if '"' not in text and not skips_spaces and len(text) <= most and "\r" not in text:
            row, last, texts = text.split(delimiter), number, [text]
        else:
            row, last, texts = _quoted_row(chain([(number, text)], lines), delimiter, skips_spaces, number)
        if len(row) > 1 or (row and row[0].strip()):
            yield Row(number, last, row, texts)


def _quoted_row(
    lines: Iterator[tuple[int, str]], delimiter: str, skips_spaces: bool, first: int
) -> tuple[list[str], int, list[str]]:
    source = _Lines(lines)
    try:
        row = next(csv.reader(source, strict=True, delimiter=delimiter, skipinitialspace=skips_spaces), [])
    except csv.Error as error:
        raise BadDataset(_said(str(error)), line=first) from None
    return row, source.number, source.texts


def _said(error: str) -> str:
    if "end of data" in error:
        return "not CSV: a quote that opens in this line is not closed"
    if "expected after" in error:
        return f"not CSV: {error}; a quote inside a cell in quotes must be doubled"
    return f"not CSV: {error}; is a quote not closed?" if "field limit" in error else f"not CSV: {error}"


def shape_of(
    file: Source, delimiter: str | None = None, preferred: str | None = None, names: tuple[str, ...] = ()
) -> Shape:
    """Find the style of a table from its first lines.

    Parameters
    ----------
    delimiter : separator of cells; None: the separator that the first line declares (``sep=;``) or contains.
    preferred : separator that is used if the first line contains it.
    names : names of the columns of a table without a header.
    """
    lines = numbered_lines(file)
    n_skipped, first = 0, next(((number, text) for number, text in lines if text.strip()), None)
    if first is not None and (declared := _DECLARED.fullmatch(first[1].strip())):
        delimiter = delimiter or declared[1].replace("\\t", "\t")
        n_skipped, first = first[0], next(((number, text) for number, text in lines if text.strip()), None)
    if first is None:
        raise BadDataset("the file is empty: its first line must have the names of the columns")
    number, header = first
    if header.lstrip()[:1] in ("{", "[") and '"' in header and not names:
        raise BadDataset("this seems to be JSON: name the file .jsonl, with one object a line", line=number)
    if header.lstrip()[:9].lower() in ("<!doctype", "<html><he") or header.lstrip()[:5].lower() in ("<html", "<?xml"):
        raise BadDataset("this is a web page or XML, not a table", line=number)
    second = next(((number, text) for number, text in lines if text.strip()), None)
    if not names and second is not None and header.lstrip()[:1] == "#" and not _has_as_many(header, second[1]):
        raise BadDataset("the first line is a comment: remove the lines before the names of the columns", line=number)
    delimiter = delimiter or _delimiter_of(header, preferred, None if second is None else second[1])
    unquoted = _QUOTES.sub("", header)
    spaced = delimiter != " " and 0 < unquoted.count(delimiter) == unquoted.count(f"{delimiter} ")
    rest = chain([first], [] if second is None else [second], lines)
    rows = rows_of(rest, delimiter, spaced or delimiter == " ")
    found = () if names else tuple(name.strip() for name in next(rows, _NO_ROW).cells)
    if not found and not names:
        raise BadDataset("the first line must have the names of the columns", line=number)
    row = next(rows, None)
    given = names or found
    extra = 0 if row is None else len(row.cells) - len(given)
    last_is_empty = row is not None and not row.cells[-1].strip()
    trails = extra == 1 and last_is_empty
    unnamed_first = extra == 1 and not trails and not names and delimiter in " \t,;" and _may_be_row_name(row)
    if not names:
        _check_header(found, number, row)
    return Shape(
        delimiter,
        spaced or delimiter == " ",
        check_names(_named(given), "columns", line=number),
        not names,
        unnamed_first,
        trails,
        n_skipped,
        tuple(place for place, name in enumerate(given) if not name),
        given,
    )


def table_rows(file: Source, shape: Shape) -> Iterator[Row]:
    """Yield the rows after the header, each with as many cells as there are columns.

    Raises BadDataset with the line of a row that has more or fewer cells.
    """
    lines = ((number, text) for number, text in numbered_lines(file) if number > shape.n_skipped)
    rows = rows_of(lines, shape.delimiter, shape.skips_spaces)
    if shape.has_header:
        next(rows)
    n = len(shape.names)
    for row in rows:
        found = row.cells
        if shape.unnamed_first:
            if len(found) != n + 1:
                curly = "; quotes must be straight" if _CURLY.search("".join(row.texts)) else ""
                detail = f"{len(found):,} values, but the first row has {n + 1:,}, for {n:,} columns{curly}"
                raise BadDataset(detail, line=row.first)
            row = row._replace(cells=found[1:])
        elif shape.trails and len(found) == n + 1 and not found[-1].strip():
            row = row._replace(cells=found[:-1])
        elif len(found) != n:
            raise BadDataset(_other_length(row, n, shape.delimiter), line=row.first)
        if n > 1 and shape.has_header and tuple(map(str.strip, row.cells)) == shape.header:
            detail = "repeats the names of the columns: were files joined? Remove the line"
            raise BadDataset(detail, line=row.first)
        yield row


def _other_length(row: Row, n: int, delimiter: str) -> str:
    found, text = row.cells, "".join(row.texts)
    detail = f"{len(found):,} value{'s' if len(found) > 1 else ''} for {n:,} columns"
    if _CURLY.search(text):
        return f"{detail}: quotes must be straight"
    if text.startswith("#"):
        return f"{detail}: remove comments"
    if len(found) == 1 and n > 2:
        return f"{detail}: remove lines that are no rows, such as a source or a comment"
    if len(found) > n:
        mark = "; a decimal comma needs another separator of cells" if delimiter == "," else ""
        return f"{detail}: put a cell with {_NAMED.get(delimiter, delimiter)} in quotes{mark}"
    return detail


_NAMED = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar", " ": "a space"}


def _has_as_many(header: str, second: str) -> bool:
    """Return whether a line has as many cells as the next one."""
    mark = max(DELIMITERS, key=second.count)
    return header.count(mark) >= second.count(mark)


def _may_be_row_name(row: Row | None) -> bool:
    return row is not None and bool(row.cells[0].strip()) and row.cells[0].lstrip()[:1] not in "[{"


def _delimiter_of(header: str, preferred: str | None, second: str | None) -> str:
    """Return the separator of the names in the first line; in a tie, the comma."""
    unquoted = _QUOTES.sub("", header)
    if preferred is not None and preferred in unquoted:
        return preferred
    best = max(DELIMITERS, key=unquoted.count)
    if best in unquoted or second is None or any(mark in second for mark in DELIMITERS):
        return best
    n_first, n_second = (len(_QUOTES.sub("q", text).split()) for text in (header, second))
    return " " if 2 <= n_first <= n_second <= n_first + 1 else best


def _named(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names; columns without a name get one."""
    return tuple(name or f"column {place}" for place, name in enumerate(names, 1))


def _check_header(names: tuple[str, ...], line: int, row: Row | None) -> None:
    """Raise BadDataset if the names of the columns look like data, or like a title."""
    n_empty = names.count("")
    if n_empty > 1 and 2 * n_empty > len(names):
        raise BadDataset(
            f"the first line names {len(names) - n_empty} of {len(names)} columns: is it a title? Remove the lines "
            "before the names of the columns",
            line=line,
        )
    numbers = [name for name in names if cells.NUMBER.fullmatch(name)]
    strange = next((name for name in names if name.startswith(("<http", "http://", "https://", "[", "{"))), None)
    if strange is None and numbers and not _are_counted(numbers):
        strange = numbers[0]
    if strange is None or row is None:
        return
    raise BadDataset(
        f"the first line seems to be data, not names of columns: it has {shown(strange)}; state the names of the "
        "columns, or rename that column",
        line=line,
    )


def _are_counted(numbers: list[str]) -> bool:
    """Return whether numbers count up, like the numbers of columns that pandas writes, or years."""
    if not all(one.isdigit() for one in numbers):
        return False
    values = list(map(int, numbers))
    steps = {after - before for before, after in itertools.pairwise(values)}
    return values[0] in (0, 1) if len(values) == 1 else steps == {1} or (len(values) > 2 and len(steps) == 1)
