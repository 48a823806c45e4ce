"""Examples as the replicas know them: checked values, no JSON, no columns yet."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Features:
    """One example's features in one of three forms.

    named    `names` given: a value per name
    sparse   `indices` given: a value per column, ascending and unique
    dense    neither: a value per column, all of them

    `values` is float32, shape (n_values,).
    """

    names: tuple[str, ...] | None
    indices: NDArray[np.int32] | None
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Labels:
    """The truth of one example.

    `signs` (int8, one per name) holds +1 for relevant and -1 for irrelevant. Labels without a
    name here are irrelevant when `complete`, and unknown otherwise.
    """

    names: tuple[str, ...]
    signs: NDArray[np.int8]
    complete: bool

    @classmethod
    def all_of(cls, names: Iterable[str]) -> "Labels":
        """The complete set of relevant labels; every other label is irrelevant."""
        names = tuple(names)
        return cls(names, np.ones(len(names), dtype=np.int8), complete=True)


class Example(NamedTuple):
    x: Features
    y: Labels


@dataclass(frozen=True, slots=True)
class Prediction:
    """Labels and scores of one example.

    `scores` holds, for every label the model knew, its score minus the threshold; a label is in
    `labels` when that is above 0. `probabilities`, of the same labels, only if they were asked for.
    """

    labels: list[str]
    scores: dict[str, float]
    threshold: float
    probabilities: dict[str, float] | None = None


class IdempotencyKey(NamedTuple):
    """A client's key, and a digest of the request it came with (16 bytes)."""

    key: str
    digest: bytes


class StreamPart(NamedTuple):
    """Where the examples of an update stand in a stream: its key, and the number of each example's line.

    Numbers are ascending, from 1. What comes again is known by them.
    """

    key: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """What one log entry says: examples to learn, in order, and how to answer.

    `want_probabilities` only with `want_predictions`. `prediction_ids`, where the truth of kept predictions is
    told, has one id for each example; none of them is labelled twice.
    """

    examples: tuple[Example, ...]
    durability: str
    key: IdempotencyKey | None = None
    want_predictions: bool = False
    prediction_ids: tuple[str, ...] | None = None
    stream: StreamPart | None = None
    want_probabilities: bool = False


@dataclass(frozen=True, slots=True)
class Rollback:
    """Another kind of log entry: what was learnt after the snapshot at `to` is forgotten."""

    to: str
    durability: str
    key: IdempotencyKey | None = None


Change = Update | Rollback
"""What a log entry says."""
