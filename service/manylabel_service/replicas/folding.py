"""Log entries on their way into a model, in slices that a caller can pause between.

Consecutive entries share one pass of the learner's kernel. How they are grouped and sliced changes
nothing: columns are given, examples learnt and answers made strictly in log order.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import Targets
from manylabel_service.errors import InvalidExample, KeyReused, ServiceError
from manylabel_service.replicas.answers import Answer
from manylabel_service.replicas.examples import Example, Update
from manylabel_service.replicas.feature_space import Columns, Layout
from manylabel_service.replicas.projection import Projection
from manylabel_service.replicas.stream_model import StreamModel, as_rows


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an entry: an answer, or the error it was refused with.

    `replayed` says that the answer is the one given to an earlier entry with the same key.
    """

    answer: Answer | ServiceError
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An update at its place in the log.

    `fits` is the layout of features with which its examples have been checked; None: they have not been.
    """

    position: str
    update: Update
    fits: Layout | None = None


@dataclass(slots=True)
class _Entry:
    """An entry under way. `refusal` is set when none of its examples will be learnt."""

    logged: LogEntry
    update: Update
    taken: int = 0
    refusal: Outcome | None = None
    scores: list[NDArray[np.float64]] = field(default_factory=list)


class _Block:
    """Examples with their columns, to be learnt in one pass, and the entry that each is from."""

    def __init__(self) -> None:
        self.columns: list[Columns] = []
        self.examples: list[Example] = []
        self.entries: list[_Entry] = []
        self.n_known: list[int] = []
        self._labels: list[int] = []
        self._label_ends: list[int] = [0]
        self._n_labels: list[int] = []

    def __len__(self) -> int:
        return len(self.examples)

    def add(self, model: StreamModel, entry: _Entry) -> None:
        """Take the entry's next example; its new features and labels get their columns."""
        example = entry.update.examples[entry.taken]
        entry.taken += 1
        self.examples.append(example)
        self.entries.append(entry)
        self.n_known.append(len(model.labels))
        self.columns.append(model.features.add(example.x))
        self._labels.extend(model.labels.add(example.y.names))
        self._label_ends.append(len(self._labels))
        self._n_labels.append(len(model.labels))

    def targets(self) -> Targets:
        return Targets(
            indptr=np.array(self._label_ends, dtype=np.int64),
            indices=np.array(self._labels, dtype=np.int32),
            signs=np.concatenate([y.signs for _, y in self.examples]),
            complete=np.array([y.complete for _, y in self.examples], dtype=np.bool_),
            n_labels=np.array(self._n_labels, dtype=np.int64),
        )


class Folding:
    """A run of log entries being folded into a model by repeated `step`s.

    Attributes
    ----------
    outcomes : one Outcome per finished entry, in log order.
    learnt : examples learnt so far.
    """

    def __init__(self, model: StreamModel, entries: Iterable[LogEntry]) -> None:
        self._model = model
        self._waiting = deque(_Entry(entry, entry.update) for entry in entries)
        self.outcomes: list[Outcome] = []
        self.learnt = 0

    def step(self, max_examples: int) -> bool:
        """Fold in at most that many examples; True while some are left."""
        block = _Block()
        done: list[_Entry] = []
        while self._waiting and len(block) < max_examples:
            entry = self._waiting[0]
            if entry.taken == 0:
                if _repeats_key(entry, done):
                    break  # the answer to the earlier one is due first
                entry.refusal = self._refusal(entry)
            if entry.refusal is None:
                while entry.taken < len(entry.update.examples) and len(block) < max_examples:
                    block.add(self._model, entry)
                if entry.taken < len(entry.update.examples):
                    break
            done.append(self._waiting.popleft())
        if len(block):
            self._learn(block)
        self.outcomes.extend(self._finish(entry) for entry in done)
        return bool(self._waiting)

    def _refusal(self, entry: _Entry) -> Outcome | None:
        key = entry.update.key
        seen = None if key is None else self._model.keys.find(key.key)
        if key is not None and seen is not None:
            digest, answer = seen
            return Outcome(answer, replayed=True) if digest == key.digest else Outcome(KeyReused(key.key))
        if entry.logged.fits == self._model.features.layout:
            return None
        projection = Projection(self._model)
        try:
            for example in entry.update.examples:
                projection.check(example)
        except InvalidExample as error:
            return Outcome(error)
        return None

    def _learn(self, block: _Block) -> None:
        model, targets = self._model, block.targets()
        model.learner.grow(len(model.features), len(model.labels))
        scores = model.learner.learn(as_rows(block.columns), targets)
        self.learnt += len(block)
        model.prequential.update(scores, targets, np.array(block.n_known, dtype=np.int64))
        for row, n_known, entry in zip(scores, block.n_known, block.entries, strict=True):
            if entry.update.want_predictions:
                entry.scores.append(row[: 1 + n_known].copy())

    def _finish(self, entry: _Entry) -> Outcome:
        model, update = self._model, entry.update
        model.position = entry.logged.position
        if entry.refusal is not None:
            return entry.refusal
        model.updates += len(update.examples)
        scores = tuple(entry.scores) if update.want_predictions else None
        answer = Answer(model.position, model.updates, update.durability, scores)
        if update.key is not None:
            model.keys.add(update.key, answer)
        return Outcome(answer)


def _repeats_key(entry: _Entry, others: Iterable[_Entry]) -> bool:
    key = entry.update.key
    return key is not None and any(other.update.key is not None and other.update.key.key == key.key for other in others)
