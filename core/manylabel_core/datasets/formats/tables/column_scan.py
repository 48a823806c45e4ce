"""First reading of a column: counts of its cells by kind, in bounded memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from operator import not_

from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.tables import dates
from manylabel_core.datasets.report import EXAMPLES
from manylabel_core.rows import MAX_MAGNITUDE

EMPTY, NUMBER, STYLED, WORD, FLAG, INFINITE, VECTOR, STRINGS, DATE, OTHER = range(10)
"""Kinds of cells."""

MAX_VALUES = 1_000
"""Maximum number of different cells that are stored of a column."""
MAX_STORED = 200_000
"""Maximum number of cells that are stored of all columns."""
MAX_CHARACTERS = 256
"""Maximum number of characters of a cell that is stored whole."""

_DIGITS = frozenset("0123456789")
_NUMERIC = b"0123456789+-.eE \n"
_POINT = re.compile(r"(?:^|[\s+-])(?:0[0-9]*|[1-9][0-9]{3,}|)\.|\.(?:[0-9]{0,2}|[0-9]{4,})(?![0-9])")
"""Part of a number with a point that is not a mark of thousands."""
_PADDED = re.compile(r"(?:^|\n)[+-]?0[0-9]")
_PADDED_CELL = re.compile(r"\s*+[+-]?0[0-9]+\s*+")


class Seen(dict[str, int]):
    """Different cells with their counts, up to a limit; `more` is true if there were other cells."""

    __slots__ = ("more",)

    def __init__(self) -> None:
        super().__init__()
        self.more = False


class Budget:
    """Number of cells that may still be stored for all columns together."""

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_STORED) -> None:
        self.left = left


class ColumnScan:
    """Counts of the cells of a column by kind, and examples with their lines."""

    __slots__ = (
        "_budget",
        "_kinds",
        "_missing",
        "counts",
        "dotted",
        "examples",
        "first",
        "is_quoted",
        "n",
        "offsets",
        "orders",
        "padded",
        "point",
        "quoted_words",
        "steps",
        "too_large",
        "values",
        "words",
    )

    def __init__(self, budget: Budget, missing: frozenset[str] | None) -> None:
        self._budget, self._missing = budget, missing
        self._kinds: dict[str, int] = {}
        """Kinds of the cells in `values`."""
        self.n = 0
        self.counts = [0] * 10
        self.first: str = ""
        self.examples: dict[int, list[tuple[int, str]]] | None = None
        """First cells of a kind, with their lines."""
        self.values: Seen | None = None
        """Different cells that are not numbers."""
        self.words: dict[str, int] | None = None
        """Words for a missing value."""
        self.quoted_words = 0
        self.is_quoted = False
        """Whether its strings are in quotes."""
        self.point: tuple[int, str] | None = None
        """The first number with a point that is no mark of thousands, with its line."""
        self.dotted: tuple[int, str] | None = None
        """The first number with points that may all be marks of thousands, with its line."""
        self.padded: tuple[int, str] | None = None
        self.too_large: tuple[int, str] | None = None
        self.orders = dates.ORDERS
        """Orders that all dates so far allow."""
        self.offsets: set[bool] | None = None
        """Whether dates have a time with an offset from UTC."""
        self.steps: float | None = None
        """The last value, if the values so far are steps of one from a whole number."""

    def add(self, column: Sequence[str], lines: Sequence[int]) -> None:
        """Count the cells of the next rows."""
        self.n += len(column)
        if self._add_numbers(column, lines):
            return
        if self._missing is None and not cells.MISSING_WORDS.isdisjoint(column):
            is_word = [cell in cells.MISSING_WORDS for cell in column]
            others = list(map(not_, is_word))
            if self._add_numbers(list(compress(column, others)), list(compress(lines, others))):
                column, lines = list(compress(column, is_word)), list(compress(lines, is_word))
        self._add_cells(column, lines)

    def _add_numbers(self, column: Sequence[str], lines: Sequence[int]) -> bool:
        """Count the cells if all are numbers or empty; a quick method for the common case."""
        joined = "\n".join(column)
        if not joined.isascii() or joined.encode().translate(None, _NUMERIC) or self._missing:
            return False
        filled: Sequence[str] = column if all(column) else list(filter(None, column))
        try:
            numbers = list(map(float, filled))
        except ValueError:
            return False
        if not numbers:
            self.counts[EMPTY] += len(column)
            return True
        if max(numbers) > MAX_MAGNITUDE or min(numbers) < -MAX_MAGNITUDE:
            return False
        self.counts[EMPTY] += len(column) - len(filled)
        self.counts[NUMBER] += len(filled)
        self.first = self.first or filled[0]
        if self.point is None and "." in joined:
            self._note_points(column, lines, joined)
        if self.padded is None and _may_be_padded(joined) and _PADDED.search(joined):
            at = next((i for i, cell in enumerate(column) if _PADDED_CELL.fullmatch(cell)), None)
            self.padded = None if at is None else (lines[at], column[at])
        self._count_steps(numbers, len(filled) == len(column))
        return True

    def _note_points(self, column: Sequence[str], lines: Sequence[int], joined: str) -> None:
        """Store the first number with a point of each kind."""
        if self.dotted is not None and not _POINT.search(joined):
            return
        for cell, line in zip(column, lines, strict=True):
            if "." not in cell:
                continue
            if not cells.is_grouped(cell.strip(), ","):
                self.point = line, cell[:MAX_CHARACTERS]
                return
            self.dotted = self.dotted or (line, cell[:MAX_CHARACTERS])

    def _count_steps(self, numbers: list[float], is_full: bool) -> None:
        start = self.counts[NUMBER] == len(numbers) and self.n == len(numbers) and numbers[0].is_integer()
        begin = numbers[0] if start else None if self.steps is None else self.steps + 1
        is_step = is_full and begin is not None and numbers[0] == begin and numbers[-1] == begin + len(numbers) - 1
        if is_step and all(value == begin + i for i, value in enumerate(numbers)):  # type: ignore[operator]
            self.steps = numbers[-1]
        else:
            self.steps = None

    def _add_cells(self, column: Sequence[str], lines: Sequence[int]) -> None:
        self.steps = None
        kinds = self._kinds
        first = dict(zip(reversed(column), reversed(lines), strict=True))
        for cell, count in Counter(column).items():
            if (known := kinds.get(cell)) is not None:
                self.counts[known] += count
                self.values[cell] += count  # type: ignore[index]  # it is stored with the kind
                continue
            kind, text = self._kind(cell)
            self.counts[kind] += count
            if kind == EMPTY:
                continue
            if kind == WORD:
                if self.words is None:
                    self.words = {}
                self.words[text] = self.words.get(text, 0) + count
            elif not self.first:
                self.first = cell[:MAX_CHARACTERS]
            if kind != NUMBER:
                self._store(cell, count, kind)
            elif self.point is None and "." in cell:
                self._note_points([cell], [first[cell]], cell)
            self._note(kind, cell, text, first[cell])

    def _kind(self, cell: str) -> tuple[int, str]:
        text = cell.strip()
        if not text or (self._missing and text in self._missing):
            return EMPTY, text
        if cells.NUMBER.fullmatch(text):
            return NUMBER, text
        if text in cells.FLAGS:
            return FLAG, text
        if self._missing is None and text in cells.MISSING_WORDS:
            return WORD, text
        if text[0] in "[{":
            found = cells.listed(text)
            if found is not None and (not found or all(isinstance(one, str) for one in found)):
                return STRINGS, text
            if found is not None and all(type(one) in (int, float) for one in found):
                return VECTOR, text
        if len(text) <= 64:
            if text.lower() in cells.INFINITE:
                return INFINITE, text
            if cells.styled(text) is not None:
                return STYLED, text
            if text[0] in _DIGITS and (orders := dates.orders_of(text)):
                self.orders &= orders
                self.offsets = {dates.has_offset(text), *(self.offsets or ())}
                return DATE, text
        return OTHER, text

    def _store(self, cell: str, count: int, kind: int) -> None:
        if self.values is None:
            self.values = Seen()
        values = self.values
        if len(values) < MAX_VALUES and self._budget.left > 0 and len(cell) <= MAX_CHARACTERS:
            values[cell] = count
            self._kinds[cell] = kind
            self._budget.left -= 1
        else:
            values.more = True

    def _note(self, kind: int, cell: str, text: str, line: int) -> None:
        """Store the first cells of each kind with their lines."""
        if kind == NUMBER:
            if self.padded is None and cells.ZERO_PADDED.fullmatch(text):
                self.padded = line, cell
            if self.too_large is None and not abs(float(text)) <= MAX_MAGNITUDE:
                self.too_large = line, cell[:MAX_CHARACTERS]
        if self.examples is None:
            self.examples = {}
        noted = self.examples.setdefault(kind, [])
        if len(noted) < EXAMPLES and all(seen != cell for _, seen in noted):
            noted.append((line, cell[:MAX_CHARACTERS]))

    def examples_of(self, *kinds: int) -> list[tuple[int, str]]:
        """Return the first cells of these kinds, with their lines."""
        found = [] if self.examples is None else [one for kind in kinds for one in self.examples.get(kind, ())]
        return sorted(found)[:EXAMPLES]

    @property
    def solid(self) -> int:
        """Number of cells that are neither empty nor a word for a missing value."""
        return self.n - self.counts[EMPTY] - self.counts[WORD]

    @property
    def n_numbers(self) -> int:
        """Number of cells that are numbers, plain or with marks and units."""
        return self.counts[NUMBER] + self.counts[STYLED]

    @property
    def is_numeric(self) -> bool:
        """Return whether there are values and all are numbers."""
        return 0 < self.n_numbers == self.solid


def _may_be_padded(joined: str) -> bool:
    return joined.startswith("0") or "\n0" in joined or "-0" in joined or "+0" in joined
