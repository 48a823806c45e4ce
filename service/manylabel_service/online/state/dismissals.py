"""Suggestions for labels that a person has dismissed."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_core.label_health import KINDS

MAX_DISMISSED = 10_000
"""Maximum number of dismissed suggestions of a model that are remembered; the oldest are dropped."""
GROWTH = 2
"""Factor by which the number of examples of a dismissed suggestion must grow until it is listed again."""

PAIRS = ("name", "merge", "parent")
"""Kinds of suggestions about two labels."""

_BYTES = 250
"""Estimated bytes of a dismissed suggestion; a constant, so the result does not depend on the machine."""

_Key = tuple[str, int, int]


class Dismissals:
    """Dismissed suggestions, the latest last, with the weighted number of examples at that time.

    If the merge of two labels was dismissed, it is not suggested for another reason, or in the other direction. A
    rollback retains dismissals, because it retains labels.
    """

    def __init__(self) -> None:
        self._examples: dict[_Key, float] = {}

    def __len__(self) -> int:
        return len(self._examples)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return _BYTES * len(self._examples)

    def add(self, kind: str, column: int, other: int | None, examples: float) -> None:
        """Remember a suggestion, with the weighted number of examples of its rarer label; drop the oldest above the
        limit."""
        key = _key(kind, column, other)
        self._examples.pop(key, None)
        self._examples[key] = examples
        while len(self._examples) > MAX_DISMISSED:
            del self._examples[next(iter(self._examples))]

    def hides(self, kind: str, column: int, other: int | None, examples: float) -> bool:
        """Return whether a suggestion was dismissed, and the number of examples of its rarer label has not doubled."""
        before = self._examples.get(_key(kind, column, other))
        return before is not None and examples < GROWTH * max(before, 1.0)

    def find(self, kind: str, column: int, other: int | None) -> tuple[int, float] | None:
        """Return the place of a dismissed suggestion, and its number of examples; None if it was not dismissed."""
        key = _key(kind, column, other)
        return (list(self._examples).index(key), self._examples[key]) if key in self._examples else None

    def restore(self, kind: str, column: int, other: int | None, before: tuple[int, float] | None) -> None:
        """Undo the dismissal of a suggestion: return to what `find` had returned before it."""
        key = _key(kind, column, other)
        left = [item for item in self._examples.items() if item[0] != key]
        if before is not None:
            left.insert(before[0], (key, before[1]))
        self._examples = dict(left)

    def copy(self) -> Dismissals:
        """Return a copy."""
        copied = Dismissals()
        copied._examples = dict(self._examples)
        return copied

    def to_array(self) -> NDArray[np.uint8]:
        """Return the dismissals as bytes."""
        rows = [[*key, examples] for key, examples in self._examples.items()]
        return np.frombuffer(msgpack.packb(rows), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8], n_labels: int) -> Dismissals:
        """Restore from the output of `to_array`. Raises ValueError."""
        found = cls()
        try:
            for kind, column, other, examples in msgpack.unpackb(packed.tobytes()):
                columns = (column, other) if kind in PAIRS else (column,)
                known = all(type(each) is int and 0 <= each < n_labels for each in columns)
                key = _key(kind, column, other if kind in PAIRS else None)
                if kind not in KINDS or not known or key != (kind, column, other) or key in found._examples:
                    raise ValueError(
                        "a dismissal must have a known kind and columns of existing labels, and be listed once"
                    )
                if type(examples) is not float or not 0.0 <= examples < float("inf"):
                    raise ValueError("the number of examples of a dismissal must be finite and at least 0")
                found._examples[key] = examples
        except (TypeError, msgpack.UnpackException) as error:
            raise ValueError(f"dismissals: {error}") from error
        if len(found) > MAX_DISMISSED:
            raise ValueError(f"dismissals: at most {MAX_DISMISSED:,} are allowed")
        return found


def _key(kind: str, column: int, other: int | None) -> _Key:
    if other is None:
        return kind, column, -1
    if kind == "parent":
        return kind, column, other
    return "merge", min(column, other), max(column, other)


def check_suggestion(kind: Any, label: Any, other: Any) -> None:
    """Raise ValueError unless a suggestion of a kind has these labels."""
    if kind not in KINDS or not isinstance(label, str):
        raise ValueError("a suggestion must have a known kind and a label")
    if (kind in PAIRS) != isinstance(other, str) or (kind not in PAIRS and other is not None):
        raise ValueError(
            "a suggestion must have `other` if its kind concerns two labels, and otherwise must not have it"
        )
