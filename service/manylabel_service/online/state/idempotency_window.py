"""Window of idempotency keys, with the responses to their requests.

It is part of a model's state, so that every replica answers a retry with the response to the first request.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.outcome import UpdateOutcome

MAX_KEYS = 10_000
"""Maximum number of keys per model; a retry with a forgotten key counts as a new update."""
MAX_ANSWER_BYTES = 32 * 2**20
"""Maximum bytes of stored predictions; above it, the oldest keys are forgotten early, but never the newest key."""

_KEY_BYTES = 400
"""Estimated bytes of a key without its text and its scores; a constant, so that the result does not depend on the
machine."""


class IdempotencyWindow:
    """Latest idempotency keys with the digests of their requests and the responses."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[bytes, UpdateOutcome]] = OrderedDict()
        self._answer_bytes = self._text_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def find(self, key: str) -> tuple[bytes, UpdateOutcome] | None:
        """Return the digest and the response of the request with the key, or None."""
        return self._answers.get(key)

    def add(self, key: IdempotencyKey, answer: UpdateOutcome) -> None:
        """Store the response to a request, and forget the oldest ones above the limits."""
        self._answer_bytes += answer.nbytes
        self._text_bytes += len(key.key.encode())
        self._answers[key.key] = (key.digest, answer)
        while len(self._answers) > MAX_KEYS or (self._answer_bytes > MAX_ANSWER_BYTES and len(self._answers) > 1):
            text, (_, oldest) = self._answers.popitem(last=False)
            self._answer_bytes -= oldest.nbytes
            self._text_bytes -= len(text.encode())

    @property
    def nbytes(self) -> int:
        """Bytes of memory, estimated as 400 bytes per key plus its text and its predictions."""
        return _KEY_BYTES * len(self._answers) + self._text_bytes + self._answer_bytes

    def to_array(self) -> NDArray[np.uint8]:
        """Return the window as bytes: a row for each response."""
        rows = [[key, digest, *_pack(answer)] for key, (digest, answer) in self._answers.items()]
        return np.frombuffer(msgpack.packb(rows), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8]) -> "IdempotencyWindow":
        """Return the window from the output of `to_array`. Raises ValueError."""
        rows, window = _unpacked(packed), cls()
        if not isinstance(rows, list):
            raise ValueError("keys: the state must be a list")
        for row in rows:
            if not isinstance(row, list) or len(row) != 9:
                raise ValueError("keys: a response must have 9 parts")
            key, digest, *answer = row
            if not (isinstance(key, str) and isinstance(digest, bytes) and len(digest) in (0, 16)) or key in window:
                raise ValueError("keys: each key must be a different string, with a digest of 0 or 16 bytes")
            window.add(IdempotencyKey(key, digest), _unpack(*answer))
        return window


def _pack(a: UpdateOutcome) -> list[Any]:
    scores, probabilities = _packed_rows(a.scores), _packed_rows(a.probabilities)
    decisions = None if a.decisions is None else [row.astype("<i4", copy=False).tobytes() for row in a.decisions]
    return [a.position, a.updates, scores, a.skipped, a.rolled_back_to, probabilities, decisions]


def _packed_rows(rows: Sequence[NDArray[np.float64]] | None) -> list[bytes] | None:
    return None if rows is None else [row.astype("<f8", copy=False).tobytes() for row in rows]


def _unpack(
    position: Any,
    updates: Any,
    scores: Any,
    skipped: Any,
    rolled_back_to: Any,
    probabilities: Any,
    decisions: Any,
) -> UpdateOutcome:
    words = (position, "" if rolled_back_to is None else rolled_back_to)
    if not all(isinstance(word, str) for word in words):
        raise ValueError("keys: position and target of a response must be strings")
    if not all(type(count) is int and count >= 0 for count in (updates, skipped)):
        raise ValueError("keys: the numbers of a response must be integers of at least 0")
    rows, likely = _unpacked_rows(scores), _unpacked_rows(probabilities)
    if not all(len(row) and np.isfinite(row).all() for row in rows or ()):
        raise ValueError("keys: scores of a response must be finite, and begin with a threshold")
    if likely is not None and [1 + len(row) for row in likely] != [len(row) for row in rows or ()]:
        raise ValueError("keys: each score of a label must have one probability")
    if not all(((row >= 0) & (row <= 1)).all() for row in likely or ()):
        raise ValueError("keys: probabilities must be from 0 to 1")
    decided = None if decisions is None else tuple(np.frombuffer(row, dtype="<i4") for row in decisions)
    if decided is not None and len(decided) != len(rows or ()):
        raise ValueError("keys: each prediction must have one decision")
    for row, own in zip(rows or (), decided or (), strict=False):
        if not len(own) or own[0] not in (0, 1) or ((own[1:] < 0) | (own[1:] >= len(row) - 1)).any():
            raise ValueError("keys: a decision must be a review flag and columns of labels")
    return UpdateOutcome(position, updates, rows, skipped, rolled_back_to, likely, decided)


def _unpacked_rows(rows: Any) -> tuple[NDArray[np.float64], ...] | None:
    return None if rows is None else tuple(np.frombuffer(row, dtype="<f8") for row in rows)


def _unpacked(packed: NDArray[np.uint8]) -> Any:
    try:
        return msgpack.unpackb(packed.tobytes())
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ValueError(f"keys: {error}") from error
