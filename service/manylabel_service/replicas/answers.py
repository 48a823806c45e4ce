"""Answers to updates, and the window of those that came with an idempotency key.

Both are part of a model's state: every replica gives the same answer to the same entry, and to a
retry of it.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_service.replicas.examples import IdempotencyKey, Prediction

MAX_KEYS = 10_000
"""Keys remembered per model; a retry that comes later counts as a new update."""
MAX_ANSWER_BYTES = 32 * 2**20
"""Predictions remembered with them; beyond it the oldest keys are forgotten early, never the newest."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an update was answered.

    `scores` holds the raw scores of each example before it was learnt, the threshold first and
    then one for each label known then (float64); None when no predictions were asked for.
    """

    position: str
    updates: int
    durability: str
    scores: tuple[NDArray[np.float64], ...] | None

    def predictions(self, label_names: Sequence[str]) -> "Predictions | None":
        """The predictions, given the labels' names in column order."""
        return None if self.scores is None else Predictions(self.scores, label_names)

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for row in self.scores or ())


class Predictions(Sequence[Prediction]):
    """Predictions made from raw scores when they are asked for: a long batch need not be made at once."""

    def __init__(self, rows: Sequence[NDArray[np.float64]], label_names: Sequence[str]) -> None:
        self._rows = rows
        self._label_names = label_names

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> "Predictions": ...
    def __getitem__(self, index: int | slice) -> "Prediction | Predictions":
        if isinstance(index, slice):
            return Predictions(self._rows[index], self._label_names)
        return prediction(self._rows[index], self._label_names)


def prediction(row: NDArray[np.float64], label_names: Sequence[str]) -> Prediction:
    """The prediction from raw scores: the threshold, then one for each of the first labels."""
    decisions = (row[1:] - row[0]).tolist()
    scores = dict(zip(label_names, decisions, strict=False))
    return Prediction([name for name, score in scores.items() if score > 0], scores, float(row[0]))


@dataclass(frozen=True, slots=True)
class Updated:
    """What a request to update is told; `replayed` when an earlier one with its key was learnt."""

    position: str
    updates: int
    durability: str
    predictions: Sequence[Prediction] | None
    replayed: bool


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a request to predict is told; `position` is that of the state which saw the last example."""

    predictions: list[Prediction]
    position: str


class KeyWindow:
    """The latest idempotency keys with the digests of their requests and the answers given."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[bytes, Answer]] = OrderedDict()
        self._answer_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def find(self, key: str) -> tuple[bytes, Answer] | None:
        """The digest and the answer of the request that came with the key, or None."""
        return self._answers.get(key)

    def add(self, key: IdempotencyKey, answer: Answer) -> None:
        self._answers[key.key] = (key.digest, answer)
        self._answer_bytes += answer.nbytes
        while len(self._answers) > MAX_KEYS or (self._answer_bytes > MAX_ANSWER_BYTES and len(self._answers) > 1):
            _, (_, oldest) = self._answers.popitem(last=False)
            self._answer_bytes -= oldest.nbytes

    @property
    def nbytes(self) -> int:
        """Memory held, estimated at 400 bytes a key beside its predictions."""
        return 400 * len(self._answers) + self._answer_bytes

    def to_array(self) -> NDArray[np.uint8]:
        """All of it as bytes."""
        rows = [
            [key, digest, a.position, a.updates, a.durability, _pack_scores(a.scores)]
            for key, (digest, a) in self._answers.items()
        ]
        return np.frombuffer(msgpack.packb(rows), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8]) -> "KeyWindow":
        window = cls()
        for key, digest, position, updates, durability, scores in msgpack.unpackb(packed.tobytes()):
            answer = Answer(position, updates, durability, _unpack_scores(scores))
            window.add(IdempotencyKey(key, digest), answer)
        return window


def _pack_scores(scores: tuple[NDArray[np.float64], ...] | None) -> Any:
    return None if scores is None else [row.astype("<f8", copy=False).tobytes() for row in scores]


def _unpack_scores(packed: list[bytes] | None) -> tuple[NDArray[np.float64], ...] | None:
    return None if packed is None else tuple(np.frombuffer(row, dtype="<f8") for row in packed)
