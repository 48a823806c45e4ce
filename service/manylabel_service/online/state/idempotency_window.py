"""The window of idempotency keys, with the answers that their requests were given.

Part of a model's state: every replica gives a retry the answer that the first request got.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.answer import Answer

MAX_KEYS = 10_000
"""Keys remembered per model; a retry that comes later counts as a new update."""
MAX_ANSWER_BYTES = 32 * 2**20
"""Predictions remembered with them; beyond it the oldest keys are forgotten early, never the newest."""

_KEY_BYTES = 400
_NAME_BYTES = 64
"""Memory of a name beside its characters. A round figure: what is forgotten must not depend on the machine."""


@dataclass(slots=True)
class _Names:
    """Names of labels that the model no longer has in these columns, and how many answers need them."""

    nbytes: int
    answers: int = 0


class IdempotencyWindow:
    """The latest idempotency keys with the digests of their requests and the answers given."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[bytes, Answer]] = OrderedDict()
        self._names: dict[tuple[str, ...], _Names] = {}  # which many answers share
        self._answer_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def find(self, key: str) -> tuple[bytes, Answer] | None:
        """The digest and the answer of the request that came with the key, or None."""
        return self._answers.get(key)

    def add(self, key: IdempotencyKey, answer: Answer) -> None:
        """Remember the answer to a request, and forget the oldest where they become too many."""
        self._count(answer)
        self._answers[key.key] = (key.digest, answer)
        self._forget()

    def keep_names(self, label_names: tuple[str, ...], n_lasting: int) -> None:
        """Let the answers keep the names of labels: only the first `n_lasting` will have the same columns."""
        for key, (digest, answer) in self._answers.items():
            kept = answer.keeping(label_names, n_lasting)
            if kept is not answer:
                self._answers[key] = (digest, kept)
                self._count_names(label_names)
        self._forget()

    def _count(self, answer: Answer) -> None:
        self._answer_bytes += answer.nbytes
        if answer.label_names is not None:
            self._count_names(answer.label_names)

    def _count_names(self, label_names: tuple[str, ...]) -> None:
        names = self._names.get(label_names)
        if names is None:
            nbytes = sum(_NAME_BYTES + len(name.encode()) for name in label_names)
            names = self._names[label_names] = _Names(nbytes)
            self._answer_bytes += nbytes
        names.answers += 1

    def _forget(self) -> None:
        while len(self._answers) > MAX_KEYS or (self._answer_bytes > MAX_ANSWER_BYTES and len(self._answers) > 1):
            _, (_, oldest) = self._answers.popitem(last=False)
            self._answer_bytes -= oldest.nbytes
            if oldest.label_names is not None:
                names = self._names[oldest.label_names]
                names.answers -= 1
                if not names.answers:
                    self._answer_bytes -= names.nbytes
                    del self._names[oldest.label_names]

    @property
    def nbytes(self) -> int:
        """Memory held, estimated at 400 bytes a key beside its predictions."""
        return _KEY_BYTES * len(self._answers) + self._answer_bytes

    @staticmethod
    def nbytes_at_most(answer_bytes: int) -> int:
        """The largest `nbytes` that there is, where no answer has more than so many bytes."""
        return _KEY_BYTES * MAX_KEYS + max(MAX_ANSWER_BYTES, answer_bytes)

    @staticmethod
    def names_at_most(n_names: int, name_bytes: int) -> int:
        """What an answer takes more once it has to keep so many names, of at most so many bytes in UTF-8."""
        return n_names * (_NAME_BYTES + name_bytes)

    def to_array(self) -> NDArray[np.uint8]:
        """All of it as bytes: lists of names, and a row for each answer, which has the place of its list."""
        lists: dict[tuple[str, ...], int] = {}
        rows = []
        for key, (digest, answer) in self._answers.items():
            names = answer.label_names
            place = None if names is None else lists.setdefault(names, len(lists))
            rows.append([key, digest, *_pack(answer), place, _packed_rows(answer.probabilities)])
        return np.frombuffer(msgpack.packb([list(lists), rows]), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8]) -> "IdempotencyWindow":
        """The window that `to_array` saw.

        Raises
        ------
        ValueError
            The bytes are not what it wrote.
        """
        document = _unpacked(packed)
        if not (isinstance(document, list) and len(document) == 2 and isinstance(document[1], list)):
            raise ValueError("keys: two lists are due")
        lists = [_checked_names(names) for names in document[0]]
        window = cls()
        for row in document[1]:
            if not isinstance(row, list) or len(row) not in (9, 10):
                raise ValueError("keys: an answer has 10 parts, or 9 from the time before probabilities")
            *answered, place = row[:9]
            names = None if place is None else lists[_index(place, len(lists))]
            window._add_row(*answered, *row[9:], names=names)
        return window

    def _add_row(self, key: Any, digest: Any, *answered: Any, names: tuple[str, ...] | None) -> None:
        if not (isinstance(key, str) and isinstance(digest, bytes) and len(digest) == 16) or key in self:
            raise ValueError("keys: distinct strings with 16 bytes each are due")
        answer = _unpack(*answered)
        self.add(IdempotencyKey(key, digest), answer if names is None else answer._replace(label_names=names))


def _pack(a: Answer) -> list[Any]:
    return [a.position, a.updates, a.durability, _packed_rows(a.scores), a.skipped, a.rolled_back_to]


def _packed_rows(rows: Sequence[NDArray[np.float64]] | None) -> list[bytes] | None:
    return None if rows is None else [row.astype("<f8", copy=False).tobytes() for row in rows]


def _unpack(
    position: Any,
    updates: Any,
    durability: Any,
    scores: Any,
    skipped: Any,
    rolled_back_to: Any,
    probabilities: Any = None,
) -> Answer:
    words = (position, durability, "" if rolled_back_to is None else rolled_back_to)
    if not all(isinstance(word, str) for word in words):
        raise ValueError("keys: an answer's position, durability and target are strings")
    if not all(type(count) is int and count >= 0 for count in (updates, skipped)):
        raise ValueError("keys: an answer's numbers are counts")
    rows, likely = _unpacked_rows(scores), _unpacked_rows(probabilities)
    if not all(len(row) and np.isfinite(row).all() for row in rows or ()):
        raise ValueError("keys: an answer's scores are a threshold and finite numbers")
    if likely is not None and [1 + len(row) for row in likely] != [len(row) for row in rows or ()]:
        raise ValueError("keys: an answer has as many probabilities as scores of labels")
    if not all(((row >= 0) & (row <= 1)).all() for row in likely or ()):
        raise ValueError("keys: an answer's probabilities are from 0 to 1")
    return Answer(position, updates, durability, rows, skipped, rolled_back_to, probabilities=likely)


def _unpacked_rows(rows: Any) -> tuple[NDArray[np.float64], ...] | None:
    return None if rows is None else tuple(np.frombuffer(row, dtype="<f8") for row in rows)


def _unpacked(packed: NDArray[np.uint8]) -> Any:
    try:
        return msgpack.unpackb(packed.tobytes())
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ValueError(f"keys: {error}") from error


def _checked_names(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("keys: names of labels are lists of strings")
    return tuple(names)


def _index(place: Any, size: int) -> int:
    if type(place) is not int or not 0 <= place < size:
        raise ValueError("keys: an answer's names are not there")
    return place
