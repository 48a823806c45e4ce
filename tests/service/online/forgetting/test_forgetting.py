"""Forgetting: the state is that of a model which never saw the examples, and nothing of them is left."""

import asyncio
import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.fleet import Fleet, linear_and_kernel, on_both_stores
from tests.service.online.history import test_history as histories
from tests.service.online.history.test_history import SMALL, entries_of, lived, started
from tests.service.stores import tell_redis
from tests.support.crashes import hanging_after, killed_after
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service import ulid
from manylabel_service.clock import now_ms
from manylabel_service.errors import (
    ForgetRunning,
    ModelExists,
    ModelGone,
    NotReady,
    PredictionNotFound,
    StorageUnavailable,
)
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models import successions
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.models.garbage import collect_garbage
from manylabel_service.online.history import archiver as archivers
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.history.lineage import Receipt
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.history.segment import decode as decode_segment
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Relabel
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.online.successor.rewriter import Rewriter, Selection
from manylabel_service.storage import START, Address, Entry, SQLiteStore, blob_bytes, pieces_of
from manylabel_service.storage.redis import RedisStore
from manylabel_service.storage.snapshots import Snapshots
from manylabel_service.storage.sqlite import maintenance
from manylabel_service.storage.sqlite.maintenance import WalCheckpointer

REF = "customer-4711"
REFS = Selection(refs=frozenset([REF]))

small_segments = histories.small_segments


async def forgotten(registry: Any, selection: Selection = REFS, name: str = "m") -> Receipt:
    """Have examples forgotten; return the receipt once it is done."""
    begun = await Forgetter(registry.successions).begin(await registry.get(name), selection, "key-1")
    receipt = await ended(registry, begun.id, name)
    assert (receipt.status, receipt.error) == ("done", None)
    return receipt


async def ended(registry: Any, id: str, name: str = "m") -> Receipt:
    found: list[Receipt] = []

    async def is_over() -> bool:
        found[:] = [await Forgetter(registry.successions).receipt(name, id)]
        return found[0].status != "running"

    await eventually_async(is_over)
    return found[0]


def never_seen(spec: Any, entries: Sequence[Entry], selection: Selection = REFS) -> dict[str, OnlineModel]:
    """Apply a log without some examples and without refused entries; return the state at each position."""
    saw, never = OnlineModel(spec), OnlineModel(spec)
    seen, states = {START: saw.to_bytes()}, {START: never.to_bytes()}
    for entry in entries:
        change = decode(entry.payload)
        refused = isinstance(_fold(saw, LogEntry(entry.position, change), seen), Exception)
        if isinstance(change, Update):
            change = change.without(selection.of(entry, change))
        if refused or (isinstance(change, Update) and not change.examples):
            never.position = entry.position
        else:
            _fold(never, LogEntry(entry.position, change), states)
        seen[entry.position], states[entry.position] = saw.to_bytes(), never.to_bytes()
    return {position: OnlineModel.from_bytes(state) for position, state in states.items()}


def _fold(model: OnlineModel, entry: LogEntry, states: dict[str, bytes]) -> Any:
    batch = ApplyBatch(model, [entry])
    while batch.step(100):
        if batch.needed_snapshot is not None:
            batch.roll_back(OnlineModel.from_bytes(states[batch.needed_snapshot]))
    return batch.outcomes[0].answer


@pytest.fixture
def some_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the examples have the reference."""
    plain = histories.example

    def example(rng: random.Random) -> Example:
        made = plain(rng)
        return made._replace(ref=REF if rng.random() < 0.2 else "other" if rng.random() < 0.2 else None)

    monkeypatch.setattr(histories, "example", example)


@pytest.mark.usefixtures("some_named")
@linear_and_kernel
async def test_the_state_is_that_of_a_model_that_never_saw_the_examples(any_fleet: Any, algorithm: str) -> None:
    """With labels of predictions in parts, labels renamed, retired, paused, described and grouped, and rollbacks."""
    rng = random.Random(algorithm)
    n_registries = 1 if any_fleet.server is None else 2
    registry, *others = await any_fleet.start_several(n_registries, **SMALL)
    replica = await registry.create(any_fleet.spec(algorithm=algorithm, window=20))
    for other in others:
        await other.get("m")
    await lived(replica, rng, 80)
    entries = await entries_of(replica)
    expected = never_seen(replica.spec, entries)
    receipt = await forgotten(registry)
    assert receipt.examples > 10
    assert (receipt.since, receipt.position) == (START, entries[-1].position)
    state = await any_fleet.agreed()
    assert state == expected[entries[-1].position].to_bytes()
    assert receipt.checksum_after == expected[entries[-1].position].checksum()
    replica = await registry.get("m")
    assert isinstance(replica, Replica)
    amended = await entries_of(replica)
    assert [(each.position, each.time_ms) for each in amended] == [(each.position, each.time_ms) for each in entries]
    assert not [ref for ref in refs_of(amended) if ref == REF]
    assert refs_of(amended) == [ref for ref in refs_of(entries) if ref != REF] or receipt.examples
    catalogue = await HistoryReader(replica.record, any_fleet.store(registry)).catalogue()
    assert len(catalogue.segments) > 3
    for position in rng.sample(list(expected), 12):
        assert (await replica.state_at(position)).to_bytes() == expected[position].to_bytes()
    verified = await replica.verify()
    assert (verified.equal, verified.states > 3) == (True, True)
    # The model continues like one that never saw the examples, with rollbacks to before and after them.
    await lived(replica, rng, 20)
    entries = await entries_of(replica)
    state = await any_fleet.agreed()
    assert state == never_seen(replica.spec, entries, Selection())[entries[-1].position].to_bytes()
    await any_fleet.stop(registry)
    again = await (await any_fleet.start(**SMALL)).get("m")
    assert again.model.to_bytes() == state


def refs_of(entries: Sequence[Entry]) -> list[str | None]:
    updates = [change for change in map(decode, (entry.payload for entry in entries)) if isinstance(change, Update)]
    return [example.ref for update in updates for example in update.examples]


def features_of(replica: Replica) -> str:
    return "".join(name for name in "abc" if name in replica.model.features.names)


def named(ref: str | None = None, label: str = "x", **values: float) -> Example:
    x = Features(tuple(values), None, np.array(list(values.values()), dtype=np.float32))
    return Example(x, Labels.all_of([label]), ref=ref)


async def test_a_reference_selects_examples_and_a_position_selects_whole_updates(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    first = await replica.update([named(a=1), named(REF, "y", b=1), named(a=2)])
    second = await replica.update([named(REF, "z", c=1), named(a=2)])
    third = await replica.update([named(a=3)])
    expected = never_seen(replica.spec, await entries_of(replica))
    receipt = await forgotten(registry)
    assert (receipt.entries, receipt.examples, receipt.first, receipt.key_id) == (2, 2, first.position, "key-1")
    replica = await registry.get("m")
    assert replica.model.to_bytes() == expected[third.position].to_bytes()
    assert list(replica.model.labels.names) == ["x"]
    assert features_of(replica) == "a"
    selection = Selection(positions=frozenset([second.position]))
    expected = never_seen(replica.spec, await entries_of(replica), selection)
    assert (await forgotten(registry, selection)).examples == 1
    assert (await registry.get("m")).model.to_bytes() == expected[third.position].to_bytes()
    none = await forgotten(registry)
    assert (none.entries, none.examples, none.position) == (0, 0, None)


async def test_refused_entries_stay_unlearnt_after_forgetting(lone_fleet: Any) -> None:
    """The first example sets the length of vectors, so another was refused; a label had a name, so a renaming was."""
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    record = replica.record
    store = lone_fleet.store(registry)

    def dense(n: int, ref: str | None = None) -> Example:
        return Example(Features(None, None, np.ones(n, dtype=np.float32)), Labels.all_of(["p"]), ref=ref)

    await replica.update([dense(3, REF)])
    # Entries that other servers admitted before their models had applied the entries before.
    refused = Update((dense(5),)), Relabel("p", "p"), Update((dense(4),))
    await store.logs.append(record, [encode(each) for each in refused], replica.position)
    replica.poll()
    await replica.sync()
    assert replica.model.updates == 1
    assert (await forgotten(registry)).examples == 1
    replica = await registry.get("m")
    assert (replica.model.updates, len(replica.model.features), len(replica.model.labels)) == (0, 0, 0)
    await replica.update([dense(7)])
    assert replica.model.updates == 1


async def test_repetitions_in_the_log_stay_without_effect_after_forgetting(lone_fleet: Any) -> None:
    """Requests are in the log twice if their answers are lost, and other servers get the retries."""
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    store, key, other = lone_fleet.store(registry), IdempotencyKey("k", b"d" * 16), IdempotencyKey("k2", b"e" * 16)
    await replica.update([named(REF, a=1)])
    renamed, update = Relabel("x", "y", key), Update((named("twice", c=1),), other)
    changes = renamed, update, Update((named(b=1),)), renamed, update
    _, first, *_ = await store.logs.append(replica.record, [encode(each) for each in changes], replica.position)
    replica.poll()
    await replica.sync()
    assert (replica.model.updates, list(replica.model.labels.names)) == (3, ["y"])
    await forgotten(registry)
    replica = await registry.get("m")
    assert (replica.model.updates, list(replica.model.labels.names)) == (2, ["x"]), "there was no label to rename"
    assert (await forgotten(registry, Selection(positions=frozenset([first.position])))).examples == 1
    assert refs_of(await entries_of(await registry.get("m"))) == [None]
    replica = await registry.get("m")
    assert (await replica.update([named("twice", c=1)], key=other)).replayed


async def test_retries_of_forgotten_updates_learn_nothing(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    key, other = IdempotencyKey("k", b"d" * 16), IdempotencyKey("k2", b"e" * 16)
    await replica.update([named(REF, a=1)], key=key)
    await replica.update([named(REF, a=1), named(b=1)], key=other, want_predictions=True)
    part = StreamPart("s", (1, 2))
    await replica.update([named(a=2), named(REF, c=1)], stream=part)
    await forgotten(registry)
    replica = await registry.get("m")
    assert (replica.model.updates, features_of(replica)) == (2, "ab")
    learnt = {name: each.tobytes() for name, each in replica.model.learner.pipeline.arrays().items()}
    for each, examples in ((key, [named(REF, a=1)]), (other, [named(REF, a=1), named(b=1)])):
        assert (await replica.update(examples, key=each)).replayed
    again = await replica.update([named(a=2), named(REF, c=1)], stream=part)
    assert (again.replayed, again.skipped, replica.model.updates) == (True, 2, 2)
    assert features_of(replica) == "ab"
    assert {name: each.tobytes() for name, each in replica.model.learner.pipeline.arrays().items()} == learnt


@pytest.mark.parametrize(("entries", "by"), [([(1,)], "position"), ([(1, 2, 3)], "ref"), ([(1,), (2,), (3,)], "ref")])
async def test_all_lines_of_an_entry_of_a_stream_are_forgotten(
    any_fleet: Any, entries: list[tuple[int, ...]], by: str
) -> None:
    registry = await any_fleet.start()
    replica = await registry.create(any_fleet.spec())
    await replica.update([named(z=1)])
    parts = [StreamPart("s", lines) for lines in entries]
    positions = [(await replica.update([named(REF, a=n) for n in part.lines], stream=part)).position for part in parts]
    receipt = await forgotten(registry, REFS if by == "ref" else Selection(positions=frozenset(positions)))
    assert (receipt.entries, receipt.examples) == (len(parts), sum(map(len, entries)))
    replica = await registry.get("m")
    assert (replica.model.updates, features_of(replica)) == (1, "")
    assert (await forgotten(registry)).examples == 0
    replica = await registry.get("m")
    for part in parts:
        assert (await replica.update([named(a=n) for n in part.lines], stream=part)).replayed
    assert (replica.model.updates, features_of(replica)) == (1, "")
    await any_fleet.stop(registry)
    replica = await (await any_fleet.start()).get("m")
    assert (await replica.update([named(a=n) for n in parts[-1].lines], stream=parts[-1])).replayed
    await replica.update([named(a=4)], stream=StreamPart("s", (4,)))
    assert (replica.model.updates, features_of(replica)) == (2, "a")
    assert (await replica.verify()).equal


async def test_a_forgotten_stored_prediction_is_deleted_with_its_labels(any_fleet: Any) -> None:
    registry = await any_fleet.start()
    replica = await registry.create(any_fleet.spec())
    await replica.update([named(a=1)])
    ids = [ulid.make(now_ms(), bytes([n]) * ulid.N_RANDOM_BYTES) for n in range(3)]
    xs = [named(**{name: 1.0}).x for name in "abc"]
    predictions = (await replica.predict(xs)).predictions
    await replica.keep(ids, xs, predictions)
    kept = await replica.kept(ids[:1], [Labels.all_of(["x"])])
    partial = Labels(("x",), np.array([1], dtype=np.int8), complete=False)
    await replica.update(
        [Example(xs[0], partial, ref=REF)], prediction_ids=ids[:1], served=[one.scores for one in kept]
    )
    receipt = await forgotten(registry)
    assert receipt.predictions == 1
    replica = await registry.get("m")
    with pytest.raises(PredictionNotFound):
        await replica.kept(ids[:1], [Labels.all_of(["y"])])
    left = await replica.kept(ids[1:], [Labels.all_of(["y"])] * 2)
    assert [one.x.names for one in left] == [("b",), ("c",)]


async def test_an_example_after_the_only_state_is_forgotten(any_fleet: Any) -> None:
    """The log begins before that state, and has few entries."""
    registry = await any_fleet.start(history_bytes=0, snapshot_retention_count=1)
    replica = await registry.create(any_fleet.spec())
    for example in (named(a=1), named(b=1)):
        await replica.update([example])
        state = await replica.take_snapshot()
    await replica.update([named(REF, c=1)])
    assert refs_of(await entries_of(replica)) == [None, REF]
    receipt = await forgotten(registry)
    assert (receipt.examples, receipt.since) == (1, state.position)
    assert features_of(await registry.get("m")) == "ab"


async def test_an_example_from_before_the_only_state_leaves_the_log(any_fleet: Any) -> None:
    """The log still has it, but no state before it is stored."""
    registry = await any_fleet.start(history_bytes=0, snapshot_retention_count=1)
    replica = await registry.create(any_fleet.spec())
    for example in (named(a=1), named(REF, b=1)):
        await replica.update([example])
        state = await replica.take_snapshot()
    await replica.update([named(c=1)])
    assert refs_of(await entries_of(replica)) == [REF, None]
    receipt = await forgotten(registry)
    assert (receipt.examples, receipt.since) == (0, state.position)
    assert refs_of(await entries_of(replica)) == [None]
    await replica.update([named(REF, d=1)])
    assert (await forgotten(registry)).examples == 1
    assert features_of(await registry.get("m")) == "abc"


async def test_a_model_forgets_one_request_at_a_time(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    await replica.update([named(REF, a=1)])
    first = await Forgetter(registry.successions).begin(replica, REFS, None)
    with pytest.raises(ForgetRunning):
        await Forgetter(registry.successions).begin(replica, REFS, None)
    assert (await ended(registry, first.id)).status == "done"


@pytest.mark.usefixtures("some_named", "quick_expiry")
@on_both_stores
@pytest.mark.parametrize("step", ["replace", "erased"])
async def test_a_kill_after_a_step_that_stores_do_in_different_ways(any_fleet: Any, step: str) -> None:
    """The next process ends the request. Lifetimes of `tests/simulation` crash at the other steps."""
    rng = random.Random(step)
    registry, replica = await started(any_fleet, window=20)
    await lived(replica, rng, 60)
    entries = await entries_of(replica)
    expected = never_seen(replica.spec, entries)[entries[-1].position].to_bytes()
    store = any_fleet.store(registry)
    async with killed_after(any_fleet, registry, store.models if step == "replace" else store, step):
        receipt = await Forgetter(registry.successions).begin(replica, REFS, None)
    again = await any_fleet.start(**SMALL)
    receipt = await ended(again, receipt.id)
    assert receipt.status == "done"
    replica = await again.get("m")
    assert replica.model.to_bytes() == expected
    await replica.update([named(None, "fresh", a=1)])
    store = any_fleet.store(again)
    await store.erased()
    assert {key.split("/")[1] for key in await store.blobs.keys("history/")} <= {str(replica.record.incarnation)}


@pytest.mark.usefixtures("some_named", "quick_expiry")
async def test_an_undone_request_leaves_no_snapshots(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails to delete them at first."""
    registry, replica = await started(lone_fleet, window=20)
    await lived(replica, random.Random(1), 60)
    async with killed_after(lone_fleet, registry, Rewriter, "finish"):
        receipt = await Forgetter(registry.successions).begin(replica, REFS, None)
    forget, failures = Snapshots.forget, iter([StorageUnavailable("for the test", heals=True)])

    async def failing(snapshots: Snapshots, incarnation: int) -> None:
        for error in failures:
            raise error
        await forget(snapshots, incarnation)

    monkeypatch.setattr(Snapshots, "forget", failing)
    again = await lone_fleet.start(**SMALL)
    assert (await ended(again, receipt.id)).status == "failed"
    keys = await lone_fleet.store(again).blobs.keys("snapshots/")
    assert {key.split("/")[1] for key in keys} == {str(replica.record.incarnation)}


@pytest.mark.usefixtures("programs")
async def test_garbage_collection_spares_a_successor_that_takes_its_name_meanwhile(
    any_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, replica = await started(any_fleet, window=20)
    await lived(replica, random.Random(3), 40)
    await replica.update([named(REF, a=1)])
    store, finished, complete = any_fleet.store(registry), Rewriter.finish, asyncio.Event()

    async def finish(self: Rewriter, *args: Any) -> Any:
        reached.set()
        await complete.wait()
        return await finished(self, *args)

    reached = asyncio.Event()
    monkeypatch.setattr(Rewriter, "finish", finish)
    receipt = await Forgetter(registry.successions).begin(replica, REFS, None)
    await reached.wait()
    read = store.blobs.keys

    async def slow(*args: Any, **options: Any) -> Any:
        """A server that is suspended after it has listed the blobs."""
        monkeypatch.setattr(store.blobs, "keys", read)
        found = await read(*args, **options)
        complete.set()
        assert (await ended(registry, receipt.id)).status == "done"
        return found

    monkeypatch.setattr(store.blobs, "keys", slow)
    await collect_garbage(store)
    replica = await registry.get("m")
    assert await store.blobs.keys(f"history/{replica.record.incarnation}/")
    assert (await replica.verify()).states
    assert await Forgetter(registry.successions).receipts("m")


async def test_updates_during_forgetting_are_in_the_new_state(fleet: Any) -> None:
    registry, replica = await started(fleet)
    for n in range(50):
        await replica.update([named(REF if n % 5 == 0 else None, f"l{n % 3}", a=n % 4, b=1)])
    stop, sent = asyncio.Event(), 0

    async def load() -> None:
        nonlocal sent
        while not stop.is_set():
            example = named(None, f"l{sent % 3}", a=sent % 4, c=2)
            with suppress(NotReady):  # the model was replaced meanwhile
                async with registry.use("m") as model:
                    await model.update([example])
                sent += 1

    tasks = [asyncio.create_task(load()) for _ in range(4)]
    await eventually_async(lambda: sent > 20)
    receipt = await forgotten(registry)
    at_end = sent
    await eventually_async(lambda: sent > at_end + 20)
    stop.set()
    await asyncio.gather(*tasks)
    assert receipt.examples == 10
    replica = await registry.get("m")
    assert replica.model.updates == 40 + sent
    entries = await entries_of(replica)
    assert replica.model.to_bytes() == never_seen(replica.spec, entries, Selection())[entries[-1].position].to_bytes()


MARKER = random.Random(7).randbytes(32)


@pytest.fixture
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archivers, "SEGMENT_BYTES", 450)


async def marked(registry: Any, fleet: Any) -> None:
    """A model in whose log, snapshots, states, segments and predictions the marker is."""
    replica = await registry.create(fleet.spec())
    values = np.frombuffer(MARKER, dtype="<f4")
    values = np.where(np.isfinite(values), values, 1).astype("<f4")
    assert values.tobytes() == MARKER
    x = Features((MARKER.hex(), *"bcdefgh"), None, values)
    for n in range(60):
        await replica.update([named(a=n % 5, b=1)])
        if n % 20 == 3:
            await replica.update([Example(x, Labels.all_of([MARKER.hex()[:40]]), ref=REF)])
        if n % 10 == 5:
            await replica.take_snapshot()
    id = ulid.make(now_ms(), bytes(ulid.N_RANDOM_BYTES))
    await replica.keep([id], [x], (await replica.predict([x])).predictions)
    kept = await replica.kept([id], [Labels.all_of(["x"])])
    await replica.update([Example(x, Labels.all_of(["x"]), ref=REF)], prediction_ids=[id], served=[kept[0].scores])
    await replica.take_snapshot()


def traces(data: bytes) -> bool:
    return MARKER in data or MARKER.hex().encode() in data or MARKER.hex()[:40].encode() in data or REF.encode() in data


def files_with_traces(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and traces(path.read_bytes())]


async def in_segments(registry: Any, fleet: Any) -> list[str]:
    """Blobs of the history that have the marker, uncompressed."""
    store, found = fleet.store(registry), []
    for key in await store.blobs.keys("history/"):
        data = await blob_bytes(store.blobs, key)
        if data.startswith(b"MLSEG1"):
            data = b"".join(entry.payload for entry in decode_segment(data)[1])
        if traces(data):
            found.append(key)
    return found


@pytest.mark.usefixtures("short_segments")
async def test_redis_keeps_no_trace_of_forgotten_examples(new_redis: Any, quick: None) -> None:
    """The append-only file has all keys, uncompressed, once it was rewritten; before that, all that ever was."""
    server = new_redis(options={"aof-use-rdb-preamble": "no", "appendfsync": "always"}).start()
    fleet = Fleet(lambda: RedisStore(Address.parse(server.url), timeout_seconds=DEADLINE_SECONDS), server)
    registry = await fleet.start(**SMALL)
    await marked(registry, fleet)

    def in_files() -> list[Path]:
        return [path for path in server.directory.rglob("*aof*") if path.is_file() and traces(path.read_bytes())]

    assert in_files()
    assert await in_segments(registry, fleet)
    receipt = await forgotten(registry)
    assert (receipt.examples, "BGREWRITEAOF" in str(receipt.beyond_reach)) == (4, True)
    assert "within an hour" in str(receipt.beyond_reach)
    assert await in_segments(registry, fleet) == []
    assert in_files()
    tell_redis(server.port, "BGREWRITEAOF")
    await eventually_async(lambda: not in_files())
    await fleet.end()


@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize(("any_fleet", "folder"), [("sqlite", "data"), ("outside", "outside")], indirect=["any_fleet"])
async def test_no_file_keeps_a_trace_of_forgotten_examples(any_fleet: Any, tmp_path: Path, folder: str) -> None:
    registry = await any_fleet.start(**SMALL)
    await marked(registry, any_fleet)
    assert len(files_with_traces(tmp_path / folder)) >= 2
    assert await in_segments(registry, any_fleet)
    assert (await forgotten(registry)).examples == 4
    assert files_with_traces(tmp_path / folder) == []
    assert await in_segments(registry, any_fleet) == []


async def test_what_a_dead_server_left_of_an_earlier_incarnation_is_deleted(any_fleet: Any) -> None:
    """A snapshot that was stored after the deletion of its model, by a server that died before it noticed this; the
    model may have been a follower."""
    registry = await any_fleet.start()
    replica, store = await registry.create(any_fleet.spec()), any_fleet.store(registry)
    await replica.update([any_fleet.example(i)._replace(ref=ref) for i, ref in enumerate(["first", REF, "other"])])
    first = replica.record.incarnation
    await forgotten(registry, Selection(refs=frozenset(["first"])))
    left = [f"snapshots/{first}/{replica.position}/{ulid.new()}", f"history/{first}/{ulid.new()}"]
    left += [f"snapshots/9999/{replica.position}/{ulid.new()}"]
    for key in left:
        await store.blobs.put(key, pieces_of(REF.encode()))
    begun = await Forgetter(registry.successions).begin(await registry.get("m"), REFS, "key-2")
    assert (await ended(registry, begun.id)).status == "done"
    assert not set(left) & set(await store.blobs.keys())


async def test_the_receipt_waits_for_a_snapshot_that_is_being_stored(
    any_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await any_fleet.start()
    replica, store = await registry.create(any_fleet.spec()), any_fleet.store(registry)
    await replica.update([any_fleet.example(i)._replace(ref=ref) for i, ref in enumerate([REF, "other"])])
    room, prefix = registry.successions.room, f"snapshots/{replica.record.incarnation}/"
    put, settled, erased = store.blobs.put, room.settled, store.erased
    begun, goes_on, stored = asyncio.Event(), asyncio.Event(), asyncio.Event()
    found = []

    async def slow(key: str, pieces: Any) -> int:
        if not key.startswith(prefix):
            return await put(key, pieces)
        begun.set()
        await goes_on.wait()
        size_bytes = await put(key, pieces)
        stored.set()
        return size_bytes

    async def noted_settled(incarnation: int) -> None:
        waiting = asyncio.ensure_future(settled(incarnation))
        await asyncio.sleep(0)
        if not waiting.done():
            goes_on.set()
        await waiting

    async def noted_erased() -> None:
        found.append(stored.is_set())
        goes_on.set()
        await erased()

    monkeypatch.setattr(store.blobs, "put", slow)
    monkeypatch.setattr(room, "settled", noted_settled)
    monkeypatch.setattr(store, "erased", noted_erased)
    taking = asyncio.ensure_future(replica.take_snapshot())
    await begun.wait()
    assert (await forgotten(registry)).examples == 1
    assert found == [True]
    assert not await store.blobs.keys(prefix)
    await asyncio.gather(taking, return_exceptions=True)


async def test_no_snapshot_of_a_replaced_model_is_stored(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await any_fleet.start()
    replica, store = await registry.create(any_fleet.spec()), any_fleet.store(registry)
    await replica.update([any_fleet.example(0)._replace(ref=REF)])
    position, data = replica.position, replica.model.to_bytes()
    await forgotten(registry)
    keys = []
    monkeypatch.setattr(store.blobs, "put", lambda key, pieces: keys.append(key))
    with pytest.raises(ModelGone):
        await store.snapshots.put(replica.record, position, data)
    assert keys == []


async def test_a_creation_leaves_the_lineage_of_a_model_that_was_just_created(
    lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await lone_fleet.start()
    lineages, forgetter = registry.successions.lineages, Forgetter(registry.successions)
    get, begun = lineages.get, []

    async def created_meanwhile(name: str) -> Any:
        monkeypatch.setattr(lineages, "get", get)
        replica = await registry.create(lone_fleet.spec())
        await replica.update([lone_fleet.example(0)._replace(ref=REF)])
        begun.append(await forgetter.begin(replica, REFS, None))
        return await get(name)

    monkeypatch.setattr(lineages, "get", created_meanwhile)
    with pytest.raises(ModelExists):
        await registry.create(lone_fleet.spec())
    assert (await ended(registry, begun[0].id)).status == "done"


@pytest.mark.usefixtures("short_segments")
async def test_the_receipt_waits_for_the_deletion_of_the_old_snapshots(
    lone_fleet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await lone_fleet.start(**SMALL)
    await marked(registry, lone_fleet)
    snapshots = lone_fleet.store(registry).snapshots
    forget, failures = snapshots.forget, iter([StorageUnavailable("for the test", heals=True)])

    async def failing(incarnation: int) -> None:
        for error in failures:
            raise error
        await forget(incarnation)

    monkeypatch.setattr(snapshots, "forget", failing)
    assert (await forgotten(registry)).examples == 4
    assert next(failures, None) is None
    assert files_with_traces(tmp_path) == []


@pytest.mark.usefixtures("short_segments")
async def test_entries_before_the_history_are_erased_from_its_first_segment(lone_fleet: Any) -> None:
    registry, replica = await started(lone_fleet)
    for n in range(40):
        await replica.update([named(REF if n < 2 else None, a=n % 5, b=1)])
        if n % 10 == 5:
            await replica.take_snapshot()
    catalogue = CatalogueStore(replica.record, lone_fleet.store(registry))

    async def is_closed() -> bool:
        return len((await catalogue.read()).segments) > 1

    await eventually_async(is_closed)
    first = (await catalogue.read()).segments[0]
    entries = decode_segment(await catalogue.blob(first.id))[1]
    begin = entries[1].position
    await catalogue.change(lambda found: found.beginning_at(begin))
    assert await in_segments(registry, lone_fleet)
    receipt = await forgotten(registry)
    assert (receipt.examples, receipt.since) == (0, begin)
    assert await in_segments(registry, lone_fleet) == []
    left = await HistoryReader(replica.record, lone_fleet.store(registry)).read(begin, len(entries) - 2)
    assert left == entries[2:]


async def test_stored_predictions_keep_the_scores_of_the_remaining_labels(lone_fleet: Any) -> None:
    registry, replica = await started(lone_fleet)
    await replica.update([named(REF, "only-theirs", a=1)])
    await replica.update([named(None, "common", a=1, b=2)])
    id, x = ulid.make(now_ms(), bytes(ulid.N_RANDOM_BYTES)), named(a=1, b=1).x
    await replica.keep([id], [x], (await replica.predict([x])).predictions)
    (before,) = await replica.kept([id], [Labels.all_of(["common"])])
    await forgotten(registry)
    replica = await registry.get("m")
    assert replica.model.labels.names == ("common",)
    (after,) = await replica.kept([id], [Labels.all_of(["common"])])
    assert after.scores.tolist() == before.scores[1:].tolist()


READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM documents").fetchall()
print("reading", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def reader_of(database: Path) -> Iterator[None]:
    """Another process that reads the database in one transaction, like a shell or a backup."""
    command = [sys.executable, "-c", READER, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        yield
        process.communicate()


@pytest.mark.usefixtures("programs")
async def test_appends_go_on_while_a_reader_keeps_deleted_data_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "EMPTY_WAL_SECONDS", 0.2)
    # An append that waits for the reader would wait for all of this time.
    fleet = Fleet(lambda: SQLiteStore(tmp_path / "data", busy_timeout_seconds=DEADLINE_SECONDS))
    registry = await fleet.start()
    replica, other = [await registry.create(fleet.spec(name)) for name in ("m", "other")]
    await replica.update([named(REF, a=1), named(b=1)])
    attempts, truncate = 0, WalCheckpointer.truncate

    def counted(self: WalCheckpointer) -> bool:
        nonlocal attempts
        attempts += 1
        return truncate(self)

    monkeypatch.setattr(WalCheckpointer, "truncate", counted)
    with reader_of(tmp_path / "data" / "manylabel.sqlite3"):
        receipt = await Forgetter(registry.successions).begin(replica, REFS, None)
        for _ in range(50):
            await other.update([named(a=1)])
        before = await eventually_async(lambda: attempts)
        await eventually_async(lambda: attempts > before + 10)  # also after the timeout
        for _ in range(50):
            await other.update([named(a=1)])
        assert (await Forgetter(registry.successions).receipt("m", receipt.id)).status == "running"
        replica = await registry.get("m")
        await replica.update([named(c=1)])
    receipt = await ended(registry, receipt.id)
    assert (receipt.status, receipt.error) == ("done", None)
    assert other.model.updates == 100
    assert (replica.model.updates, features_of(replica)) == (2, "bc")
    assert files_with_traces(tmp_path) == []
    await fleet.end()


@pytest.mark.usefixtures("programs")
async def test_a_server_stops_while_a_reader_keeps_deleted_data_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "EMPTY_WAL_SECONDS", 0.5)
    fleet = Fleet(lambda: SQLiteStore(tmp_path / "data"))
    registry = await fleet.start()
    replica = await registry.create(fleet.spec())
    await replica.update([named(REF, a=1), named(b=1)])
    attempts, truncate = [], WalCheckpointer.truncate

    def noted(self: WalCheckpointer) -> bool:
        attempts.append(1)
        return truncate(self)

    monkeypatch.setattr(WalCheckpointer, "truncate", noted)
    with reader_of(tmp_path / "data" / "manylabel.sqlite3"):
        receipt = await Forgetter(registry.successions).begin(replica, REFS, None)
        await eventually_async(lambda: attempts)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await fleet.stop(registry)
    again = await fleet.start()
    assert (await ended(again, receipt.id)).status == "done"
    await fleet.end()


async def test_the_recovery_of_a_change_leaves_a_later_one_alone(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    await replica.update([named(REF, a=1), named(b=1)])
    former = await forgotten(registry)
    await (await registry.get("m")).update([named(REF, c=1)])
    with hanging_after(Rewriter, "build") as reached:
        receipt = await Forgetter(registry.successions).begin(await registry.get("m"), REFS, None)
        await reached.wait()
        await registry.successions.recover("m", former.id)  # recovered by a process that knew the former process
        assert (await Forgetter(registry.successions).receipt("m", receipt.id)).status == "running"


async def test_a_change_whose_recovery_failed_is_completed_without_a_restart(
    any_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(successions, "POLL_SECONDS", 0.05)
    registry = await any_fleet.start()
    replica = await registry.create(any_fleet.spec())
    await replica.update([named(REF, a=1), named(b=1)])
    store, failures = any_fleet.store(registry), iter([RuntimeError("for the test")] * 3)
    erased = store.erased

    async def failing() -> None:
        for error in failures:
            raise error
        await erased()

    monkeypatch.setattr(store, "erased", failing)
    receipt = await forgotten(registry)
    assert receipt.examples == 1
    assert (await registry.get("m")).model.updates == 1
    assert (await forgotten(registry)).examples == 0
