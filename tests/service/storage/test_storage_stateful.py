"""Random sequences of calls, compared with a model of the store in memory."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from tests.service.stores import StoreUnderTest
from tests.support.stores import wait_until_available

from manylabel_service.errors import (
    BlobNotFound,
    LogTrimmed,
    ModelExists,
    ModelGone,
    PredictionsFull,
    RevisionConflict,
)
from manylabel_service.storage import (
    SEED,
    START,
    Address,
    Document,
    Entry,
    ModelMeta,
    Store,
    blob_bytes,
    pieces_of,
    position_key,
)
from manylabel_service.storage.redis import RedisStore

NAMES = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["jobs", "data"])
PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=5) | st.just([b"x" * 9000, b"", b"y"] * 25)
FRACTIONS = st.floats(0, 1)


@dataclass
class Model:
    """Expected contents of the store for one model: the whole log, with its trimmed part."""

    record: ModelMeta
    log: list[Entry] = field(default_factory=list)
    trimmed: int = 0
    start: str = START
    snapshots: dict[str, bytes] = field(default_factory=dict)
    pinned: set[str] = field(default_factory=set)
    recent: set[str] = field(default_factory=set)
    predictions: dict[str, bytes] = field(default_factory=dict)

    def position(self, index: int) -> str:
        """The position after that number of entries."""
        return self.log[index - 1].position if index else self.start

    def index(self, fraction: float) -> int:
        return round(fraction * len(self.log))


class StoreMachine(RuleBasedStateMachine):
    def __init__(self, new_store: Callable[[], Store], crash: Callable[[Store], bool]) -> None:
        super().__init__()
        self.end_badly = crash
        self.abandoned: list[Store] = []
        self.runner = asyncio.Runner()
        self.run = self.runner.run
        self.new_store = new_store
        self.models: dict[str, Model] = {}
        self.dead: list[ModelMeta] = []
        self.incarnations: set[int] = set()
        self.documents: dict[tuple[str, str], Document] = {}
        self.last_revision = 0
        self.blobs: dict[str, bytes] = {}

    @initialize()
    def open(self) -> None:
        self.store = self.new_store()
        self.run(self.store.open())

    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.open()

    @rule()
    def crash(self) -> None:
        """The process or the server is killed; acknowledged changes stay."""
        if self.end_badly(self.store):
            self.abandoned.append(self.store)
            self.open()
        self.run(wait_until_available(self.store))

    @rule(name=NAMES, spec=st.binary(max_size=20), state=st.none() | st.binary(max_size=50))
    def create(self, name: str, spec: bytes, state: bytes | None) -> None:
        if name in self.models:
            with pytest.raises(ModelExists):
                self.run(self.store.models.create(name, spec, state))
            return
        record = self.run(self.store.models.create(name, spec, state))
        assert (record.name, record.spec) == (name, spec)
        assert record.incarnation not in self.incarnations
        self.incarnations.add(record.incarnation)
        model = self.models[name] = Model(record)
        if state is not None:
            model.start, model.snapshots, model.recent = SEED, {SEED: state}, {SEED}

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.models:
            record = self.models.pop(name).record
            self.run(self.store.models.delete(record))
            self.dead.append(record)

    @rule(
        name=NAMES,
        payloads=PAYLOADS,
        known=FRACTIONS | st.just(1.0),
    )
    def append(self, name: str, payloads: list[bytes], known: float) -> None:
        if (model := self.models.get(name)) is None:
            return
        index = model.index(known)
        call = self.store.logs.append(model.record, payloads, model.position(index))
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
        call = self.store.logs.read(model.record, model.position(index), limit)
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
            self.run(self.store.logs.trim(model.record, model.position(index)))
            model.trimmed = max(model.trimmed, index)

    @rule(name=NAMES, at=FRACTIONS, data=st.binary(max_size=100))
    def put_snapshot(self, name: str, at: float, data: bytes) -> None:
        if (model := self.models.get(name)) is not None:
            position = model.position(index := model.index(at))
            if index < model.trimmed:
                with pytest.raises(LogTrimmed):
                    self.run(self.store.snapshots.put(model.record, position, data))
                return
            self.run(self.store.snapshots.put(model.record, position, data))
            model.snapshots[position] = data
            model.recent.add(position)

    @rule(name=NAMES, at=FRACTIONS)
    def delete_snapshot(self, name: str, at: float) -> None:
        if (model := self.models.get(name)) is not None:
            position = model.position(model.index(at))
            self.run(self.store.snapshots.retain(model.record, position, drop="recent"))
            model.recent.discard(position)
            if position not in model.pinned:
                model.snapshots.pop(position, None)

    @rule(name=NAMES, at=FRACTIONS, pinned=st.booleans())
    def pin_snapshot(self, name: str, at: float, pinned: bool) -> None:
        """Pin as a rollback does, whose entry needs the snapshot until it is trimmed away."""
        if (model := self.models.get(name)) is not None:
            position = model.position(model.index(at))
            change: Any = {"add": "pin"} if pinned else {"drop": "pin"}
            found = self.run(self.store.snapshots.retain(model.record, position, **change))
            assert bool(found) == (position in model.snapshots)
            if found:
                (model.pinned.add if pinned else model.pinned.discard)(position)
                if not pinned and position not in model.recent:
                    model.snapshots.pop(position)

    @rule(name=NAMES, ids=st.sets(st.sampled_from("pqrstu"), max_size=4), data=st.binary(max_size=20))
    def put_predictions(self, name: str, ids: set[str], data: bytes) -> None:
        if (model := self.models.get(name)) is None:
            return
        new = {id: data + id.encode() for id in ids}
        call = self.store.predictions.put(model.record, new, 3600.0, 4)
        if len(model.predictions.keys() | ids) > 4:
            with pytest.raises(PredictionsFull):
                self.run(call)
            return
        self.run(call)
        model.predictions |= new

    @rule(name=NAMES)
    def get_predictions(self, name: str) -> None:
        if (model := self.models.get(name)) is not None:
            found = self.run(self.store.predictions.get(model.record, list("pqrstu")))
            assert found == [model.predictions.get(id) for id in "pqrstu"]

    @rule(name=NAMES)
    def get_snapshots(self, name: str) -> None:
        if (model := self.models.get(name)) is None:
            return
        listed = self.run(self.store.snapshots.all(model.record))
        newest_first = sorted(model.snapshots, key=position_key, reverse=True)
        assert [snapshot.position for snapshot in listed] == newest_first
        assert {snapshot.position for snapshot in listed if snapshot.pinned} == model.pinned & set(newest_first)
        for index in range(len(model.log) + 1):
            position = model.position(index)
            assert self.run(self.store.snapshots.get(model.record, position)) == model.snapshots.get(position)

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def use_the_dead(self, data: st.DataObject) -> None:
        record = data.draw(st.sampled_from(self.dead))
        for call in (
            self.store.logs.append(record, [b"x"], START),
            self.store.snapshots.put(record, START, b"x"),
            self.store.snapshots.get(record, START),
            self.store.logs.trim(record, START),
            self.store.models.delete(record),
            self.store.snapshots.retain(record, START, add="pin"),
            self.store.predictions.get(record, ["p"]),
        ):
            with pytest.raises(ModelGone):
                self.run(call)

    @rule(kind=KINDS, name=NAMES, value=st.binary(max_size=50), stale=st.booleans())
    def put_document(self, kind: str, name: str, value: bytes, stale: bool) -> None:
        old = self.documents.get((kind, name))
        known = old and old.revision
        if stale:
            with pytest.raises(RevisionConflict):
                self.run(self.store.documents.put(kind, name, value, revision=None if old else self.last_revision))
            return
        revision = self.run(self.store.documents.put(kind, name, value, revision=known))
        assert revision > self.last_revision
        self.last_revision = revision
        self.documents[kind, name] = Document(name, revision, value)

    @rule(kind=KINDS, name=NAMES, off=st.sampled_from([0, 0, 1, -1]))
    def delete_document(self, kind: str, name: str, off: int) -> None:
        old = self.documents.get((kind, name))
        if old is None or off:
            with pytest.raises(RevisionConflict):
                self.run(self.store.documents.delete(kind, name, revision=(old.revision if old else 0) + off))
            return
        self.run(self.store.documents.delete(kind, name, revision=old.revision))
        del self.documents[kind, name]

    @rule(key=NAMES, data=st.binary(max_size=50), pieces=st.integers(1, 5))
    def put_blob(self, key: str, data: bytes, pieces: int) -> None:
        assert self.run(self.store.blobs.put(key, pieces_of(data * pieces))) == len(data) * pieces
        self.blobs[key] = data * pieces

    @rule(key=NAMES)
    def delete_blob(self, key: str) -> None:
        self.run(self.store.blobs.delete(key))
        self.blobs.pop(key, None)

    @rule(kind=KINDS, back=st.sampled_from([1, 2, 5_000]))
    def list_what_changed(self, kind: str, back: int) -> None:
        after = self.last_revision - back
        known = [d for d in self.documents_of(kind) if d.revision > after]
        assert self.run(self.store.documents.all(kind, after)) == known
        for name in "abc":
            assert self.run(self.store.documents.get(kind, name)) == self.documents.get((kind, name))

    def documents_of(self, kind: str) -> list[Document]:
        return sorted((d for (k, _), d in self.documents.items() if k == kind), key=lambda d: d.revision)

    @rule()
    def get_blobs(self) -> None:
        keys = self.run(self.store.blobs.keys())
        assert [key for key in keys if not key.startswith("snapshots/")] == sorted(self.blobs)
        named = sum(len(model.snapshots) for model in self.models.values())
        assert sum(key.startswith("snapshots/") for key in keys) >= named
        for key in "abc":
            if key in self.blobs:
                assert self.run(blob_bytes(self.store.blobs, key)) == self.blobs[key]
            else:
                with pytest.raises(BlobNotFound):
                    self.run(blob_bytes(self.store.blobs, key))

    @invariant()
    def has_the_documents(self) -> None:
        for kind in ("jobs", "data"):
            assert self.run(self.store.documents.all(kind)) == (known := self.documents_of(kind))
            assert self.run(self.store.documents.revisions(kind)) == {d.name: d.revision for d in known}

    @invariant()
    def lists_what_is_there(self) -> None:
        records = sorted((m.record for m in self.models.values()), key=lambda record: record.incarnation)
        assert self.run(self.store.models.all()) == records
        assert [self.run(self.store.models.find(record.name)) for record in records] == records

    @invariant()
    def has_the_logs(self) -> None:
        for model in self.models.values():
            after, read = model.position(model.trimmed), []
            while page := self.run(self.store.logs.read(model.record, after, 50)):
                read += page
                after = page[-1].position
            assert read == model.log[model.trimmed :]

    def teardown(self) -> None:
        for store in (*self.abandoned, self.store):
            self.run(store.close())
        self.runner.close()


def run_machine(make: Callable[[], StoreMachine], examples: int) -> None:
    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=True,  # the same calls each time
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


def test_any_order_of_calls(stores_in: Callable[[Path], StoreUnderTest], tmp_path: Path, n_examples: int) -> None:
    numbers = itertools.count()

    def machine() -> StoreMachine:
        place = tmp_path / str(next(numbers))
        place.mkdir()
        under_test = stores_in(place)
        # A store on Redis is abandoned: its connections stay open, and its calls hang. A directory belongs to one
        # process, and other tests end processes.
        return StoreMachine(under_test.new, lambda _: under_test.is_shared)

    run_machine(machine, n_examples)


def test_any_order_of_calls_while_redis_is_killed(new_redis: Callable[..., Any], n_examples: int) -> None:
    """The store stays, and finds its way back by itself; with every append synced, nothing is missing."""
    server = new_redis(options={"appendfsync": "always", "databases": "1000"}).start()
    numbers = itertools.count()

    def crash(store: Store) -> bool:
        server.kill()
        server.start()
        return False

    def machine() -> StoreMachine:
        address = Address.parse(f"redis://127.0.0.1:{server.port}/{next(numbers)}")
        return StoreMachine(lambda: RedisStore(address), crash)

    run_machine(machine, n_examples // 5)
