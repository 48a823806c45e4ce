"""Corrections of learnt examples, and true labels that a person has confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_service.hosting.examples import Source
from manylabel_service.storage import position_key

MAX_CHECKED = 100_000
"""Maximum number of examples of a model whose corrections and confirmed labels are remembered; the oldest are dropped.
Corrections that were dropped are still in the history."""

MAX_UNLEARNT = 10_000
"""Maximum number of updates of a model that are remembered as not learnt, or as partly learnt; the oldest are
dropped."""

_EXAMPLE_BYTES, _LABEL_BYTES = 300, 40
"""Estimated bytes of an example or of an update that was not learnt, and of each label of an example. They are
constants, so that the result does not depend on the machine."""

Place = tuple[str, int]
"""Position of the entry of an example, and the index of the example in the entry."""


class Corrects(NamedTuple):
    """Learnt example whose true labels an update replaces or confirms.

    `number` is the index of the example in its entry. `labels` are the names of the labels that a person has checked;
    None: all. If none of them was wrong, the update has no example; otherwise it has the corrected example. `source` is
    the source of the earlier labels.
    """

    position: str
    number: int
    labels: tuple[str, ...] | None
    source: Source = "human"

    @property
    def place(self) -> Place:
        """Place of the learnt example."""
        return self.position, self.number


class Checked(NamedTuple):
    """Facts about a checked example: the position of its last correction, or None, and the columns of checked labels,
    or None for all."""

    corrected_at: str | None
    columns: frozenset[int] | None


class Corrections:
    """Checked examples by place, in the order of the last check. A rollback restores the earlier checks.

    Attributes
    ----------
    count : number of corrections learnt; the metrics do not count these examples.
    """

    def __init__(self) -> None:
        self.count = 0
        self._checked: dict[Place, Checked] = {}
        self._unlearnt: dict[str, int] = {}
        """Number of leading examples that were not learnt, by position of the update."""

    def __bool__(self) -> bool:
        return bool(self.count or self._checked or self._unlearnt)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        n_columns = sum(len(each.columns or ()) for each in self._checked.values())
        return _EXAMPLE_BYTES * (len(self._checked) + len(self._unlearnt)) + _LABEL_BYTES * n_columns

    def note_unlearnt(self, position: str, n_examples: int) -> None:
        """Record that the first examples of an update were not learnt; drop the oldest above the limit."""
        self._unlearnt[position] = n_examples
        while len(self._unlearnt) > MAX_UNLEARNT:
            del self._unlearnt[next(iter(self._unlearnt))]

    def is_unlearnt(self, place: Place) -> bool:
        """Return whether an example is remembered as not learnt."""
        position, index = place
        return index < self._unlearnt.get(position, 0)

    def find(self, place: Place) -> Checked:
        """Return what is known about an example."""
        return self._checked.get(place, Checked(None, frozenset()))

    def add(self, place: Place, position: str | None, columns: Iterable[int] | None) -> None:
        """Record a check of labels, at the position of the correction if there is one; drop the oldest above the
        limit."""
        before = self._checked.pop(place, Checked(None, frozenset()))
        all_checked = columns is None or before.columns is None
        checked = None if all_checked else before.columns | frozenset(columns)  # type: ignore[operator, arg-type]
        self._checked[place] = Checked(position or before.corrected_at, checked)
        self.count += position is not None
        while len(self._checked) > MAX_CHECKED:
            del self._checked[next(iter(self._checked))]

    def to_array(self) -> NDArray[np.uint8]:
        """Return the corrections as bytes."""
        rows = [
            [*place, each.corrected_at, None if each.columns is None else sorted(each.columns)]
            for place, each in self._checked.items()
        ]
        unlearnt = [list(self._unlearnt.items())] if self._unlearnt else []
        return np.frombuffer(msgpack.packb([self.count, rows, *unlearnt]), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8], n_labels: int) -> Corrections:
        """Restore from the output of `to_array`. Raises ValueError."""
        corrections = cls()
        try:
            corrections.count, rows, unlearnt = (*msgpack.unpackb(packed.tobytes()), [])[:3]
            for position, index, at, columns in rows:
                for each in (position, *(() if at is None else (at,))):
                    position_key(each)
                checked = None if columns is None else frozenset(columns)
                if type(index) is not int or index < 0 or not _are_columns(checked or (), n_labels):
                    raise ValueError("a corrected example must have an index and columns of labels")
                corrections._checked[position, index] = Checked(at, checked)
            for position, n_examples in unlearnt:
                position_key(position)
                if type(n_examples) is not int or n_examples < 1:
                    raise ValueError("the number of examples of an update must be at least 1")
                corrections._unlearnt[position] = n_examples
        except (TypeError, AttributeError, msgpack.UnpackException) as error:
            raise ValueError(f"corrections: {error}") from error
        count = corrections.count
        if type(count) is not int or not 0 <= count < 2**53 or len(corrections._checked) > MAX_CHECKED:
            raise ValueError(
                f"corrections: the count must be at least 0, and at most {MAX_CHECKED:,} examples are allowed"
            )
        if len(corrections._unlearnt) > MAX_UNLEARNT:
            raise ValueError(f"corrections: at most {MAX_UNLEARNT:,} updates that were not learnt are allowed")
        return corrections


def _are_columns(columns: Iterable[Any], n_labels: int) -> bool:
    return all(type(column) is int and 0 <= column < n_labels for column in columns)


def undone(position: str, rollbacks: Sequence[tuple[str, str]]) -> bool:
    """Return whether a rollback has undone the entry at a position; the rollbacks are (position, target)."""
    key = position_key(position)
    return any(position_key(to) < key < position_key(at) for at, to in rollbacks)
