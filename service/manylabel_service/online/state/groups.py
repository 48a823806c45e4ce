"""Groups and parents of a model's labels: serialisation, validation and state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_core import Vocabulary
from manylabel_core.label_structure import Group, InvalidStructure, LabelStructure
from manylabel_service.errors import InvalidField

MAX_GROUPS = 1_000
"""Maximum number of groups of a model."""
MAX_GROUPED = 10_000
"""Maximum number of labels in groups, and of labels with a parent."""
MAX_GROUP_NAME = 256
"""Maximum length of the name of a group in characters."""
_LABEL_BYTES = 500
"""Estimated bytes of memory of a label in a group or with a parent."""

NO_PARENTS = np.zeros(0, dtype=np.int32)

Path = tuple[str | int, ...]


class _Columns(NamedTuple):
    """Groups (name, choose, labels) and parents, by column."""

    groups: list[tuple[str, str, list[int]]]
    parents: dict[int, int]

    def named(self, names: Sequence[str]) -> tuple[list[Group], dict[str, str]]:
        groups = [Group(name, [names[column] for column in columns], choose) for name, choose, columns in self.groups]  # type: ignore[arg-type]
        return groups, {names[child]: names[parent] for child, parent in self.parents.items()}


class Groups:
    """Groups and parents of labels, by column, so that they stay valid when labels are renamed.

    Attributes
    ----------
    all, shown : structure of all labels, and of the labels that are not paused; None without groups and parents.
    parent_columns : int32, column of the parent of each shown label, -1 for none.
    """

    def __init__(self) -> None:
        self._columns = _Columns([], {})  # replaced as a whole, because other threads read it
        self.all: LabelStructure | None = None
        self.shown: LabelStructure | None = None
        self.parent_columns = NO_PARENTS

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        groups, parents = self._columns
        return nbytes_of(sum(len(columns) for _, _, columns in groups) + len(parents))

    @property
    def columns(self) -> set[int]:
        """Columns of the labels that are in groups or have parents."""
        groups, parents = self._columns
        grouped = (column for _, _, columns in groups for column in columns)
        return {*parents, *parents.values(), *grouped}

    def set(self, groups: Sequence[Group], parents: Mapping[str, str], labels: Vocabulary) -> None:
        """Replace all groups and parents, whose labels must be known."""
        self._columns = _Columns(
            [(name, choose, labels.lookup(names)) for name, names, choose in groups],
            dict(zip(labels.lookup(parents), labels.lookup(parents.values()), strict=True)),
        )

    def build(self, names: Sequence[str], paused: Collection[str]) -> None:
        """Update the names of labels and the paused ones; raises InvalidStructure, but not after `set`.

        Other threads may read the old structure meanwhile.
        """
        if not any(self._columns):
            self.all, self.shown, self.parent_columns = None, None, NO_PARENTS
            return
        groups, parents = self._columns.named(names)
        column_of = {names[column]: column for column in self.columns}
        shown = all_labels = LabelStructure(groups, parents, column_of)
        if not column_of.keys().isdisjoint(paused):
            shown = LabelStructure(groups, parents, column_of, paused)
        self.all, self.shown, self.parent_columns = all_labels, shown, shown.parent_columns()

    def to_json(self, labels: Vocabulary) -> dict[str, Any]:
        """Return groups and parents by label name."""
        columns = self._columns  # read before the names: a thread adds labels first
        groups, parents = columns.named(labels.names)
        return {"groups": [{**group._asdict(), "labels": list(group.labels)} for group in groups], "parents": parents}

    def to_array(self) -> NDArray[np.uint8]:
        """Return all groups and parents as bytes."""
        return np.frombuffer(msgpack.packb([self._columns.groups, list(self._columns.parents.items())]), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8], names: Sequence[str], hidden: Sequence[Collection[str]]) -> Groups:
        """Parse the output of `to_array`, for a model with these label names; `hidden` are paused and retired labels.

        Raises
        ------
        ValueError
            The bytes are not a result of `to_array`, or name unknown labels.
        """
        found = cls()
        paused, retired = hidden
        try:
            groups, parents = msgpack.unpackb(packed.tobytes())
            found._columns = _Columns([(name, choose, columns) for name, choose, columns in groups], dict(parents))
            if len(found._columns.parents) != len(parents):
                raise ValueError("a label must have at most one parent")
            for column in found.columns:
                if type(column) is not int or not 0 <= column < len(names) or names[column] in retired:
                    raise ValueError("groups and parents must contain columns of labels that are not retired")
            check_written(*found._columns.named(names))
            found.build(names, paused)
        except (ValueError, TypeError, msgpack.UnpackException, InvalidField) as error:
            raise ValueError(f"groups: {error}") from error
        return found


def nbytes_of(n_named: int) -> int:
    """Return the bytes of memory of groups and parents that contain a number of labels."""
    return _LABEL_BYTES * n_named


def places(groups: Sequence[Group], parents: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield each named label with its path in a request."""
    for at, group in enumerate(groups):
        for place, label in enumerate(group.labels):
            yield label, ("groups", at, "labels", place)
    for child, parent in parents.items():
        yield child, ("parents", child)
        yield parent, ("parents", child)


def check_written(groups: Sequence[Group], parents: Mapping[str, str]) -> None:
    """Raise InvalidField unless groups and parents are valid, independent of the existing labels."""
    if len(groups) > MAX_GROUPS:
        raise InvalidField(("groups",), f"must have at most {MAX_GROUPS:,} groups, has {len(groups):,}")
    if (count := sum(len(group.labels) for group in groups)) > MAX_GROUPED:
        raise InvalidField(("groups",), f"must have at most {MAX_GROUPED:,} labels together, has {count:,}")
    if len(parents) > MAX_GROUPED:
        raise InvalidField(("parents",), f"must have at most {MAX_GROUPED:,} labels, has {len(parents):,}")
    for at, group in enumerate(groups):
        if not isinstance(group.name, str) or not 1 <= len(group.name) <= MAX_GROUP_NAME:
            raise InvalidField(("groups", at, "name"), f"must have 1 to {MAX_GROUP_NAME} characters")
    try:
        LabelStructure(groups, parents, {label: place for place, (label, _) in enumerate(places(groups, parents))})
    except InvalidStructure as error:
        raise InvalidField(error.path, error.detail) from error
