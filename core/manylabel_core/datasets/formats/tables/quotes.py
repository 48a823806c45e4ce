"""Quotes of a table: cells in quotes, and quotes that are not closed, so that the cell contains the next rows."""

from __future__ import annotations

from collections.abc import Sequence

from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.tables.lines import Row
from manylabel_core.datasets.limits import BadDataset

MAX_ROWS = 20
MAX_CHARACTERS = 10_000


class OpenQuotes:
    """Rows of several lines, one of which looks like a row."""

    def __init__(self, delimiter: str, n_columns: int) -> None:
        self._delimiter, self._n_columns = delimiter, n_columns
        self._found: list[tuple[int, int, int, list[str]]] = []

    def add(self, row: Row) -> None:
        """Store the lines of a row that have as many cells as there are columns."""
        if len(self._found) >= MAX_ROWS or self._n_columns < 2:
            return
        place = next((place for place, cell in enumerate(row.cells) if "\n" in cell), 0)
        # The last line ends a text of the first column, so it has as many cells as a row.
        inner = row.texts[1:] if place else row.texts[1:-1]
        for offset, text in enumerate(inner, row.first + 1):
            if len(text) > MAX_CHARACTERS:
                continue
            found = text.replace('"', "").split(self._delimiter)
            if len(found) == self._n_columns:
                self._found.append((row.first, row.line, offset, found))
                return

    def check(self, numeric: Sequence[int]) -> None:
        """Raise BadDataset if a line inside a cell has numbers in all columns of numbers; the columns are given by
        index."""
        for first, last, line, found in self._found:
            numbers = [found[place].strip() for place in numeric]
            if any(numbers) and all(not one or cells.NUMBER.fullmatch(one) for one in numbers):
                raise BadDataset(
                    f"a quote opens in this line and closes in line {last}, but line {line} looks like a row: is the "
                    "quote not closed? A quote inside a cell in quotes must be doubled",
                    line=first,
                )


def column_is_quoted(chunk: Sequence[Row], place: int, delimiter: str) -> bool:
    """Return whether a cell of a column is in quotes."""
    rows = [row for row in chunk[:20] if len(row.texts) == 1 and row.cells[place] and '"' in row.texts[0]]
    return any(_cell_is_quoted(row.texts[0], place, delimiter) for row in rows)


def quoted_words(chunk: Sequence[Row], place: int, delimiter: str) -> int:
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
