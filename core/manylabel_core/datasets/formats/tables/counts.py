"""First reading of the labels of a table: their counts, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from manylabel_core.datasets.formats import cells

MAX_LISTS = 100_000
MAX_LIST_CHARACTERS = 2**25
"""Maximum number of different cells with labels that are stored, and of their characters."""


class LabelLists:
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


class LabelMarks:
    """Number of rows of each label that is a column."""

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
