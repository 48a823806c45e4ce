"""Any order of calls against a perfect store in memory."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from manylabel_service.errors import LogTrimmed, ModelExists, ModelGone
from manylabel_service.storage import START, Entry, ModelRecord, Store, position_key

NAMES = st.sampled_from(["a", "b", "c"])
LEVELS = st.sampled_from(["memory", "log", "fsync"])
PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=5) | st.just([b"x" * 9000, b"", b"y"] * 25)
FRACTIONS = st.floats(0, 1)


@dataclass
class Model:
    """What the store should know of one model: the whole log, also what is trimmed."""

    record: ModelRecord
    log: list[Entry] = field(default_factory=list)
    trimmed: int = 0
    snapshots: dict[str, bytes] = field(default_factory=dict)

    def position(self, index: int) -> str:
        """The position after so many entries."""
        return self.log[index - 1].position if index else START

    def index(self, fraction: float) -> int:
        return round(fraction * len(self.log))


class StoreMachine(RuleBasedStateMachine):
    def __init__(self, new_store: Callable[[], Store]) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.run = self.runner.run
        self.new_store = new_store
        self.models: dict[str, Model] = {}
        self.dead: list[ModelRecord] = []
        self.incarnations: set[int] = set()

    @initialize()
    def open(self) -> None:
        self.store = self.new_store()
        self.run(self.store.open())

    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.open()

    @rule(name=NAMES, spec=st.binary(max_size=20))
    def create(self, name: str, spec: bytes) -> None:
        if name in self.models:
            with pytest.raises(ModelExists):
                self.run(self.store.create_model(name, spec))
            return
        record = self.run(self.store.create_model(name, spec))
        assert (record.name, record.spec) == (name, spec)
        assert record.incarnation not in self.incarnations
        self.incarnations.add(record.incarnation)
        self.models[name] = Model(record)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.models:
            record = self.models.pop(name).record
            self.run(self.store.delete_model(record))
            self.dead.append(record)

    @rule(
        name=NAMES,
        payloads=PAYLOADS,
        known=FRACTIONS | st.just(1.0),
        durability=st.sampled_from(["memory", "log", "fsync"]),
    )
    def append(self, name: str, payloads: list[bytes], known: float, durability: str) -> None:
        if (model := self.models.get(name)) is None:
            return
        index = model.index(known)
        call = self.store.append(model.record, payloads, model.position(index), durability)  # type: ignore[arg-type]
        if index < model.trimmed:
            with pytest.raises(LogTrimmed):
                self.run(call)
            return
        answer = self.run(call)
        own = answer[len(answer) - len(payloads) :]
        assert answer == model.log[index:] + own
        assert [entry.payload for entry in own] == payloads
        model.log += own
        keys = [position_key(model.position(i)) for i in range(len(model.log) + 1)]
        assert keys == sorted(set(keys))

    @rule(name=NAMES, known=FRACTIONS, limit=st.integers(1, 100))
    def read(self, name: str, known: float, limit: int) -> None:
        if (model := self.models.get(name)) is None:
            return
        index = model.index(known)
        call = self.store.read(model.record, model.position(index), limit)
        if index < model.trimmed:
            with pytest.raises(LogTrimmed):
                self.run(call)
            return
        answer = self.run(call)
        assert answer == model.log[index : index + len(answer)]
        assert len(answer) <= limit
        assert answer or index == len(model.log)

    @rule(name=NAMES, through=FRACTIONS)
    def trim(self, name: str, through: float) -> None:
        if (model := self.models.get(name)) is not None:
            index = model.index(through)
            self.run(self.store.trim(model.record, model.position(index)))
            model.trimmed = max(model.trimmed, index)

    @rule(name=NAMES, at=FRACTIONS, data=st.binary(max_size=100))
    def put_snapshot(self, name: str, at: float, data: bytes) -> None:
        if (model := self.models.get(name)) is not None:
            position = model.position(model.index(at))
            self.run(self.store.put_snapshot(model.record, position, data))
            model.snapshots[position] = data

    @rule(name=NAMES, at=FRACTIONS)
    def delete_snapshot(self, name: str, at: float) -> None:
        if (model := self.models.get(name)) is not None:
            position = model.position(model.index(at))
            self.run(self.store.delete_snapshot(model.record, position))
            model.snapshots.pop(position, None)

    @rule(name=NAMES)
    def get_snapshots(self, name: str) -> None:
        if (model := self.models.get(name)) is None:
            return
        listed = self.run(self.store.snapshots(model.record))
        newest_first = sorted(model.snapshots, key=position_key, reverse=True)
        assert [snapshot.position for snapshot in listed] == newest_first
        for index in range(len(model.log) + 1):
            position = model.position(index)
            assert self.run(self.store.get_snapshot(model.record, position)) == model.snapshots.get(position)

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def use_the_dead(self, data: st.DataObject) -> None:
        record = data.draw(st.sampled_from(self.dead))
        for call in (
            self.store.append(record, [b"x"], START, "log"),
            self.store.put_snapshot(record, START, b"x"),
            self.store.get_snapshot(record, START),
            self.store.trim(record, START),
            self.store.delete_model(record),
        ):
            with pytest.raises(ModelGone):
                self.run(call)

    @invariant()
    def lists_what_is_there(self) -> None:
        records = sorted((m.record for m in self.models.values()), key=lambda record: record.incarnation)
        assert self.run(self.store.models()) == records

    @invariant()
    def has_the_logs(self) -> None:
        for model in self.models.values():
            after, read = model.position(model.trimmed), []
            while page := self.run(self.store.read(model.record, after, 50)):
                read += page
                after = page[-1].position
            assert read == model.log[model.trimmed :]

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()


def test_any_order_of_calls(stores_in: Callable[[Path], Callable[[], Store]], tmp_path: Path) -> None:
    numbers = itertools.count()

    def machine() -> StoreMachine:
        place = tmp_path / str(next(numbers))
        place.mkdir()
        return StoreMachine(stores_in(place))

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
