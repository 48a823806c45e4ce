"""Old names of labels: names that a label had before it was renamed, or before it was merged into another."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core import Vocabulary
from manylabel_service.errors import LabelExists, check_limit
from manylabel_service.hosting.examples import Labels

MAX_OLD_NAMES = 10_000
"""Maximum number of old names of one model."""


class OldNames:
    """Old names of labels, each with the column of its current label."""

    def __init__(self, columns: Mapping[str, int] | None = None) -> None:
        self._columns = dict(columns or {})

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the table and the names."""
        return sys.getsizeof(self._columns) + sum(map(sys.getsizeof, self._columns))

    def check(self, name: str, column: int) -> None:
        """Check that the label in this column may get a new name. Raises LabelExists or LimitExceeded."""
        if self._columns.get(name, column) != column:
            raise LabelExists(name)
        check_limit("the number of old names of labels", len(self) + 1, MAX_OLD_NAMES)

    def rename(self, old: str, new: str, column: int) -> None:
        """Record the renaming of the label in this column."""
        self._columns.pop(new, None)
        self._columns[old] = column

    def merge(self, old: str, column: int, into: int) -> None:
        """Record that the label with this name and column was merged into the label in another column."""
        self._columns = {name: into if one == column else one for name, one in self._columns.items()}
        self._columns[old] = into

    def find(self, name: str) -> int | None:
        """Return the column of the label with this old name; None if it is not an old name."""
        return self._columns.get(name)

    def place(self, name: str) -> int | None:
        """Return the place of a name among the old names; None if it is not an old name."""
        return list(self._columns).index(name) if name in self._columns else None

    def unmerge(self, old: str, names: Collection[str], column: int) -> None:
        """Undo the merge of the label with this name and column, which had these old names."""
        self._columns = {name: column if name in names else one for name, one in self._columns.items() if name != old}

    def unrename(self, old: str, new: str, place: int | None, column: int) -> None:
        """Undo the renaming of the label in this column; `place` is the place of the new name among the old names, if
        it was one."""
        left = [(name, one) for name, one in self._columns.items() if name != old]
        if place is not None:
            left.insert(place, (new, column))
        self._columns = dict(left)

    def resolve(self, y: Labels, names: tuple[str, ...]) -> Labels:
        """Return true labels with current names (`names` by column). If an example has two names of a label with
        different signs, the label is true."""
        columns = self._columns
        if columns.keys().isdisjoint(y.names):
            return y
        signs: dict[str, int] = {}
        for given, sign in zip(y.names, y.signs.tolist(), strict=True):
            name = names[columns[given]] if given in columns else given
            signs[name] = max(sign, signs.get(name, sign))
        return Labels(tuple(signs), np.array(list(signs.values()), dtype=np.int8), y.complete)

    def current(self, name: str, names: tuple[str, ...]) -> str:
        """Return the current name of a label, given any of its names; `names` are the current names by column."""
        return names[self._columns[name]] if name in self._columns else name

    def by_column(self) -> dict[int, list[str]]:
        """Return, by column, the sorted old names of each label that has old names."""
        found: dict[int, list[str]] = {}
        for name in sorted(self._columns):
            found.setdefault(self._columns[name], []).append(name)
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the names, like `Vocabulary.state`, and "columns", int32 (n_names,)."""
        return {**Vocabulary(self._columns).state(), "columns": np.array(list(self._columns.values()), dtype=np.int32)}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> OldNames:
        """Return the old names from a `state`; raises ValueError."""
        names, columns = Vocabulary.from_state(arrays).names, arrays["columns"]
        if columns.shape != (len(names),) or columns.dtype != np.int32 or len(names) > MAX_OLD_NAMES:
            raise ValueError(f"old_names: at most {MAX_OLD_NAMES} names are allowed, each with an int32 column")
        if len(columns) and not 0 <= columns.min() <= columns.max() < n_labels:
            raise ValueError("old_names: columns must belong to existing labels")
        return cls(dict(zip(names, columns.tolist(), strict=True)))
