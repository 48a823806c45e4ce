"""Roles of the columns of a table: features, labels, weights and references."""

from __future__ import annotations

from collections.abc import Sequence

from manylabel_core.datasets.formats.example_rows import RowParts
from manylabel_core.datasets.formats.tables.lines import Shape
from manylabel_core.datasets.formats.text import check_names
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, shown

LISTED = 10
"""Maximum number of columns listed in an error."""


class Roles:
    """Roles of the columns of a table, by index. Raises BadDataset if the options contradict the names."""

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
        for kind, given in (("text", text_fields(parts)), ("number", parts.number), ("category", parts.category)):
            for name in given:
                what = f"{kind} column" if kind == "text" else f"column of {kind.replace('y', 'ie')}s"
                if _place(names, name, what) not in self.features:
                    raise BadDataset(f"a {what} cannot have labels or be ignored", line=1)
                if self.kinds.setdefault(name, kind) != kind:
                    raise BadDataset(f"column {shown(name)} has more than one kind", line=1)
        limits.check("features", len(self.features), line=1)
        limits.check("labels", len(self.labels), line=1)

    def role_of(self, place: int) -> str | None:
        """Return the role of a column that is not a feature."""
        roles: dict[str, set[int | None]] = {"labels": {self.listed}, "label": {*self.labels}}
        roles |= {"weight": {self.weight}, "ref": {self.ref}}
        return next((role for role, places in roles.items() if place in places), None)


def text_fields(parts: RowParts) -> Sequence[str]:
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
