"""Oracle of a log, which is read as it grows, before any entry is trimmed, and replayed by this process."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from manylabel_service.errors import StorageUnavailable
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.log_entries import Update, decode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.storage import START, Entry, ModelMeta, Store, position_key

READ_SECONDS = 0.05
"""Between two looks at the log, much less than the time until it is trimmed."""


class LogReader:
    """Keeps every entry of a model's log, in the order read."""

    def __init__(self, store: Store, record: ModelMeta) -> None:
        self.record = record
        self.entries: list[Entry] = []
        self._store = store

    @property
    def position(self) -> str:
        return self.entries[-1].position if self.entries else START

    def feature_names(self) -> list[str]:
        """Names of the features of all examples in the log, in the order of their appearance."""
        updates = (decode(entry.payload) for entry in self.entries)
        examples = (x for update in updates if isinstance(update, Update) for x, *_ in update.examples)
        return list(dict.fromkeys(name for x in examples for name in x.names or ()))

    async def follow(self) -> None:
        """Read on and on, also over the store's absences; ends when cancelled."""
        while True:
            with contextlib.suppress(StorageUnavailable):
                await self.read_to_end()
            await asyncio.sleep(READ_SECONDS)  # interval between two reads of the log

    async def read_to_end(self) -> None:
        while entries := await self._store.logs.read(self.record, self.position, 1_000):
            self.entries += entries


@dataclass
class ReplayedLog:
    """The fold of a whole log.

    Attributes
    ----------
    model : the state at its end.
    states : the bytes of the states asked for, by position.
    learnt : how often each example was learnt, by the name of its first feature.
    positions : the position that the update of each example was answered with.
    rollbacks : the position of each rollback by its key, and how many entries have that key.
    """

    model: OnlineModel
    states: dict[str, bytes] = field(default_factory=dict)
    learnt: Counter[str] = field(default_factory=Counter)
    positions: dict[str, str] = field(default_factory=dict)
    rollbacks: dict[str, str] = field(default_factory=dict)
    rolled_back: Counter[str] = field(default_factory=Counter)
    repeated: int = 0


def replay(record: ModelMeta, entries: Collection[Entry], wanted: Collection[str]) -> ReplayedLog:
    """Fold a log from its beginning, and keep the states at the positions wanted."""
    spec = ModelSpec.model_validate_json(record.spec)
    logged = [LogEntry(entry.position, decode(entry.payload)) for entry in entries]
    assert all(position_key(a.position) < position_key(b.position) for a, b in pairwise(logged))
    keep = {entry.change.to for entry in logged if isinstance(entry.change, Rollback)} | set(wanted)
    replayed = ReplayedLog(OnlineModel(spec))
    replayed.states[START] = replayed.model.to_bytes()
    for run in _runs(logged, keep):
        folding = ApplyBatch(replayed.model, run)
        while folding.step(1_000):
            if folding.needed_snapshot is not None:
                folding.roll_back(OnlineModel.from_bytes(replayed.states[folding.needed_snapshot]))
        _count(replayed, run, folding)
        if replayed.model.position in keep:
            replayed.states[replayed.model.position] = replayed.model.to_bytes()
    return replayed


def _runs(logged: list[LogEntry], ends: Collection[str]) -> Iterator[list[LogEntry]]:
    """The log in runs, each ending at a position of which the state is wanted."""
    run: list[LogEntry] = []
    for entry in logged:
        run.append(entry)
        if entry.position in ends:
            yield run
            run = []
    if run:
        yield run


def _count(replayed: ReplayedLog, run: list[LogEntry], folding: ApplyBatch) -> None:
    for entry, outcome in zip(run, folding.outcomes, strict=True):
        replayed.repeated += outcome.replayed or not isinstance(outcome.answer, UpdateOutcome)
        if not isinstance(outcome.answer, UpdateOutcome):
            continue
        if isinstance(entry.change, Rollback):
            assert entry.change.key is not None
            replayed.rollbacks.setdefault(entry.change.key.key, outcome.answer.position)
            replayed.rolled_back[entry.change.key.key] += not outcome.replayed
            continue
        for index, example in enumerate(entry.change.examples):
            x = example.x
            assert x.names is not None
            learnt = not outcome.replayed and index >= outcome.answer.skipped
            replayed.learnt[x.names[0]] += learnt
            if learnt:
                replayed.positions[x.names[0]] = outcome.answer.position
