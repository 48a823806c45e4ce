"""Cells that list labels: the notation of the lists in a column, and the labels of a cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.text import check_name
from manylabel_core.datasets.limits import BadDataset, shown

_TAGGED = re.compile(r"\s*+(?:<[^<>]++>[\s,;|]*+)++")
_TAG = re.compile(r"<([^<>]++)>")

CERTAIN = "|;"
"""Separators that are hardly ever part of a label, the likeliest first."""
DOUBTFUL = ", "
"""Separators that may be part of a label, such as `Hepatitis A`."""

_NAMES = {" ": "a space", "\t": "a tab", ",": "a comma"}


class LabelCells(NamedTuple):
    """Notation of the cells of a column that list labels, and their labels."""

    style: str
    split: Callable[[str], list[str]]

    def read(self, cell: str, line: int | None = None) -> list[str]:
        """Return the labels of a cell, each once."""
        labels = dict.fromkeys(filter(None, map(str.strip, self.split(cell))))
        for label in labels:
            check_name(label, "labels", line)
        return list(labels)


def separated(separator: str) -> LabelCells:
    """Return the notation with a separator between labels; if the separator is empty, a cell is one label."""
    if not separator:
        return LabelCells("one label a cell", lambda cell: [cell])
    return LabelCells(
        f"labels separated by {_NAMES.get(separator, repr(separator))}", lambda cell: cell.split(separator)
    )


def _listed(cell: str) -> list[str]:
    strings = cells.strings(cell)
    return [cell] if strings is None else strings


LISTS = LabelCells("lists in JSON or Python", _listed)
LISTS_OR_ONE = LabelCells("lists in JSON or Python, or one label", _listed)
TAGS = LabelCells("labels in <>", _TAG.findall)


def cells_of(counts: Mapping[str, int], separator: str | None, column: str) -> LabelCells:
    """Find how the cells of a column list labels, from its different cells and the separator of the options.

    A column may mix lists and single labels, as Label Studio exports them.

    Without a separator, a vertical bar and a semicolon separate labels. A comma or a space separates labels if the
    parts also occur elsewhere: alone in a cell, or in another place of a list. Raises BadDataset if the cells do not
    decide this.
    """
    found = [cell for cell in counts if cell]
    others = [cell for cell in found if cells.strings(cell) is None]
    if len(others) < len(found) and not any(cell.lstrip().startswith(("[", "{")) for cell in others):
        return LISTS_OR_ONE if others else LISTS
    if found and separator in (None, "", " ") and all(map(_TAGGED.fullmatch, found)):
        return TAGS
    if separator is not None:
        return separated(separator)
    for mark in CERTAIN:
        if any(mark in cell for cell in found):
            return separated(mark)
    for mark in DOUBTFUL:
        several = [cell for cell in found if mark in cell.strip()]
        if not several:
            continue
        if _are_lists(found, several, mark):
            return separated(mark)
        if _are_names(counts, found, mark):
            continue
        raise BadDataset(
            f"column {shown(column)} has cells with {_NAMES[mark]}, such as {shown(several[0])}: is that one label or "
            f"several? Set the separator to {mark!r} for several, or to '' for one"
        )
    return separated("")


def _parts(cell: str, mark: str) -> list[str]:
    return [part.strip() for part in cell.split(mark) if part.strip()]


def _are_lists(found: list[str], several: list[str], mark: str) -> bool:
    """Return whether most cells with a mark are lists of labels that other cells have alone or in another place.

    If the mark is a space, all parts of a cell must be such labels; if it is a comma, half of them.
    """
    alone = {cell.strip() for cell in found if mark not in cell.strip()}
    split = [_parts(cell, mark) for cell in several]
    first = {parts[0] for parts in split if parts}
    known = alone | (first & {part for parts in split for part in parts[1:]})
    n_known = [sum(part in known for part in parts) for parts in split]
    needed = [len(parts) if mark == " " else (len(parts) + 1) // 2 for parts in split]
    return 2 * sum(n >= most > 0 for n, most in zip(n_known, needed, strict=True)) > len(split)


def _are_names(counts: Mapping[str, int], found: list[str], mark: str) -> bool:
    """Return whether the cells are names, such as `Hepatitis A`: they recur, and different cells have no part in
    common."""
    parts = [part for cell in found for part in set(_parts(cell, mark))]
    n_rows = sum(counts[cell] for cell in found)
    return len(found) > 2 and n_rows >= 10 * len(found) and len(set(parts)) == len(parts)
