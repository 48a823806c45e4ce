"""The history of a model: segments of its log, past states, and errors for positions that are gone."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.fleet import Fleet, each_learner
from tests.support.crashes import crash_at_every_step

from manylabel_core.label_structure import Group
from manylabel_service import ulid
from manylabel_service.datasets.from_stream import rows_of_stream
from manylabel_service.errors import (
    BeforeHistory,
    DocumentDamaged,
    DocumentNewer,
    HistoryDamaged,
    InvalidExample,
    InvalidField,
    LabelExists,
    LabelNotFound,
    LimitExceeded,
    LogTrimmed,
    ModelDamaged,
    PositionNotFound,
    PredictionLabelled,
)
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.models.garbage import collect_garbage
from manylabel_service.models.registry import Registry
from manylabel_service.online.history import archiver as archivers
from manylabel_service.online.history.archiver import Archiver, HistoryLimits
from manylabel_service.online.history.catalogue import BLOBS, KIND, CatalogueStore
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.controls import Describe, Regroup, Relabel
from manylabel_service.settings import Settings
from manylabel_service.storage import START, Entry, LogExtent, ModelMeta, Store, pieces_of, position_key
from manylabel_service.storage import snapshots as snapshots_of_stores

SMALL = {"snapshot_every_seconds": 1000.0, "snapshot_every_updates": 10_000, "snapshot_retention_count": 2}
"""Snapshots are taken when a test says so."""


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archivers, "SEGMENT_BYTES", 450)
    monkeypatch.setattr(archivers, "STATE_EXAMPLES", 25)
    monkeypatch.setattr(archivers, "STATE_SHARE", 0)
    monkeypatch.setattr(archivers, "READ_ENTRIES", 7)


def example(rng: random.Random) -> Example:
    names = tuple(rng.sample(["a", "b", "c", "d", "e"], rng.randint(1, 4)))
    labels = tuple(rng.sample(["x", "y", "z", "w"], rng.randint(0, 2)))
    values = np.array([rng.uniform(-2, 2) for _ in names], dtype=np.float32)
    if rng.random() < 0.2:
        signs = np.array([rng.choice((1, -1)) for _ in labels], dtype=np.int8)
        return Example(Features(names, None, values), Labels(labels, signs, complete=False))
    return Example(Features(names, None, values), Labels.all_of(labels), rng.choice((1.0, 1.0, 0.5)))


async def started(fleet: Fleet, **spec: Any) -> tuple[Registry, Replica]:
    """Start a registry that takes no snapshots by itself, and create a model."""
    registry = await fleet.start(**SMALL)
    replica = await registry.create(fleet.spec(**spec))
    assert isinstance(replica, Replica)
    return registry, replica


async def entries_of(replica: Replica) -> list[Entry]:
    found: list[Entry] = []
    after = None
    while page := await replica.read_log(after, None, 50, 1 << 20):
        found += page
        after = page[-1].position
    return found


async def change(replica: Replica, rng: random.Random, positions: list[str]) -> None:
    """One change of any kind."""
    draw, names = rng.random(), sorted(set(replica.model.labels.names) - replica.model.hidden)
    if draw < 0.70 or len(names) < 3:
        await replica.update([example(rng) for _ in range(rng.randint(1, 3))])
    elif draw < 0.76:  # labels of a stored prediction, in two parts
        id = ulid.make(1_700_000_000_000, rng.randbytes(10))
        for label in names[:2]:
            y = Labels((label,), np.array([rng.choice((1, -1))], dtype=np.int8), complete=False)
            served = [np.zeros(len(replica.model.labels))]
            await replica.update([example(rng)._replace(y=y)], prediction_ids=[id], served=served)
    elif draw < 0.80:
        await replica.change(Relabel(rng.choice(names), f"new{len(positions)}"))
    elif draw < 0.82:
        await replica.change(Relabel(rng.choice(names), None))
    elif draw < 0.86:
        await replica.change(Relabel(rng.choice(names), None, paused=True))
    elif draw < 0.90:
        await replica.change(Describe({rng.choice(names): {"title": f"title {len(positions)}"}}))
    elif draw < 0.94:
        await replica.change(Regroup((Group("g", tuple(names[:2]), "at_most_one"),), {names[2]: names[0]}))
    else:
        await replica.rollback(rng.choice(positions))


async def lived(replica: Replica, rng: random.Random, n_changes: int) -> dict[str, str]:
    """Changes of all kinds, and snapshots between them; the checksum of the state at each position."""
    states = {START: replica.model.checksum()}
    for n in range(n_changes):
        with suppress(LabelExists, LabelNotFound, InvalidField, InvalidExample, LimitExceeded, PredictionLabelled):
            await change(replica, rng, list(states))  # the model refuses some, as a label that has the name already
        states[replica.position] = replica.model.checksum()
        if n % 8 == 7:
            await replica.take_snapshot()
    return states


@each_learner
async def test_the_state_at_any_position_or_time_is_restored_exactly(any_fleet: Any, algorithm: str) -> None:
    rng = random.Random(algorithm)
    registry, replica = await started(any_fleet, algorithm=algorithm, window=20)
    states = await lived(replica, rng, 120)
    store = any_fleet.store(registry)
    with pytest.raises(LogTrimmed):
        await store.logs.read(replica.record, START, 1)
    catalogue = await HistoryReader(replica.record, store).catalogue()
    assert len(catalogue.segments) > 3
    assert len([each for each in await store.snapshots.all(replica.record) if "history" in each.reasons]) > 1
    entries = await entries_of(replica)
    positions = [entry.position for entry in entries]
    assert await replica.find_entries(positions[::-1]) == positions
    at = {entry.position: entry for entry in entries}
    # A change rejected when it was applied is also in the log, but no state was recorded after it.
    known = [START, *(position for position in at if position in states)]
    for position in rng.sample(known, 12):
        found = await replica.state_at(position)
        assert (found.position, found.checksum()) == (position, states[position])
    for position in rng.sample(known[1:], 5):
        last = [entry for entry in entries if entry.time_ms <= at[position].time_ms][-1].position
        assert (await replica.state_at(at[position].time_ms)).position == last
    # Another process has only the stored history.
    await any_fleet.stop(registry)
    again = await (await any_fleet.start(**SMALL)).get("m")
    assert again.model.checksum() == states[again.position]
    for position in rng.sample(known, 3):
        assert (await again.state_at(position)).checksum() == states[position]


async def test_rollbacks_to_any_position_agree_on_all_servers(fleet: Any) -> None:
    rng = random.Random(1)
    registries = await fleet.start_several(2, **SMALL)
    replica = await registries[0].create(fleet.spec())
    states = await lived(replica, rng, 80)
    for _ in range(6):
        position = rng.choice(list(states))
        before = await replica.state_at(position)
        updated = await replica.rollback(position)
        assert updated.rolled_back_to == position
        assert replica.model.updates == before.updates
        states |= await lived(replica, rng, 5)
    first = await entries_of(replica)
    moment = first[len(first) // 2].time_ms
    updated = await replica.rollback(moment)
    assert updated.rolled_back_to == [entry for entry in first if entry.time_ms <= moment][-1].position
    await fleet.agreed()
    for registry in registries:
        await fleet.kill(registry)
    again = await (await fleet.start(**SMALL)).get("m")
    assert again.model.checksum() == replica.model.checksum()


async def test_the_history_of_a_fork_begins_with_its_state(lone_fleet: Any) -> None:
    rng = random.Random(2)
    registry, origin = await started(lone_fleet)
    await lived(origin, rng, 30)
    state = await origin.state_at(origin.position)
    fork = await registry.create(state.online_spec.model_copy(update={"name": "fork"}), state)
    begin = fork.position
    states = {begin: fork.model.checksum()} | await lived(fork, rng, 60)
    states.pop(START)
    for position in (begin, *rng.sample(list(states), 10)):
        assert (await fork.state_at(position)).checksum() == states[position]
    await fork.rollback(begin)
    assert fork.model.updates == state.updates
    with pytest.raises(BeforeHistory):
        await fork.state_at(START)


async def test_unknown_positions_and_times_are_refused(any_fleet: Any) -> None:
    _, replica = await started(any_fleet)
    with pytest.raises(BeforeHistory, match="begins after position 0"):
        await replica.state_at(1_700_000_000_000)
    await lived(replica, random.Random(3), 60)
    first = (await entries_of(replica))[0]
    assert (await replica.state_at(first.position)).position == first.position
    end = position_key(replica.position)
    for unknown in (str(end[0] + 1), f"{end[0]}-{10**9 + 1}", "9" * 30):
        with pytest.raises((PositionNotFound, ValueError)):
            await replica.state_at(unknown)
    with pytest.raises(BeforeHistory, match=r"2023-11-14T22:13:20\.000Z"):
        await replica.rollback(1_700_000_000_000)
    assert await replica.read_log(replica.position, None, 10, 1_000) == []
    assert (await replica.read_log(1_700_000_000_000, None, 1, 1_000)) == [first]
    assert (await replica.read_log(None, first.position, 10, 1_000)) == [first]


# -- retention ------------------------------------------------------------------------------------


async def test_the_oldest_part_is_deleted_and_targets_of_rollbacks_stay(
    lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archivers, "YOUNG_SECONDS", 0.0)
    registry = await lone_fleet.start(**SMALL, history_bytes=300_000)
    replica = await registry.create(lone_fleet.spec())
    rng, states = random.Random(4), {}
    for _ in range(12):
        states |= await lived(replica, rng, 30)
    store = lone_fleet.store(registry)
    reader = HistoryReader(replica.record, store)
    catalogue = await reader.catalogue()
    assert catalogue.begin != START
    snapshots = await store.snapshots.all(replica.record)
    size_bytes = catalogue.size_bytes + sum(each.size_bytes for each in snapshots if "history" in each.reasons)
    assert size_bytes <= 300_000
    assert replica.gauges()["history_bytes"] == size_bytes
    assert len(await store.blobs.keys(BLOBS)) == len(catalogue.ids), "what is not needed is gone"
    assert len(await store.blobs.keys("snapshots/")) == len(snapshots)
    gone = [position for position in states if position_key(position) < position_key(catalogue.begin)]
    for position in (START, *rng.sample(gone, 3)):
        with pytest.raises(BeforeHistory, match=f"after position {catalogue.begin}"):
            await replica.state_at(position)
    there = {entry.position for entry in await entries_of(replica)} & set(states)
    assert there.isdisjoint(gone)
    for position in (catalogue.begin, *rng.sample(sorted(there), 15)):
        assert (await replica.state_at(position)).checksum() == states[position]


def test_the_age_of_a_history_is_limited_in_days() -> None:
    assert HistoryLimits.of(Settings(history_bytes=5, history_days=2)) == HistoryLimits(5, 172_800.0)


async def test_segments_older_than_the_limit_are_deleted(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await lone_fleet.start(**SMALL, history_days=7.0)
    replica = await registry.create(lone_fleet.spec())
    rng = random.Random(5)
    await lived(replica, rng, 60)
    begin = (await entries_of(replica))[0]
    now = archivers.time.time
    monkeypatch.setattr(archivers.time, "time", lambda: now() + 8 * 86_400)
    for _ in range(3):
        await lived(replica, rng, 8)
    catalogue = await HistoryReader(replica.record, lone_fleet.store(registry)).catalogue()
    assert not catalogue.segments
    assert (await entries_of(replica))[0].position != begin.position
    with pytest.raises(BeforeHistory):
        await replica.state_at(begin.position)


async def test_without_a_history_the_log_is_trimmed_to_the_snapshots(lone_fleet: Any) -> None:
    registry = await lone_fleet.start(**SMALL, history_bytes=0)
    replica = await registry.create(lone_fleet.spec())
    states = await lived(replica, random.Random(6), 50)
    store = lone_fleet.store(registry)
    oldest = [each.position for each in await store.snapshots.all(replica.record) if each.listed][-1]
    with pytest.raises(BeforeHistory):
        await replica.state_at(START)
    assert (await replica.state_at(oldest)).checksum() == states[oldest]
    assert not (await HistoryReader(replica.record, store).catalogue()).segments


async def test_states_begin_with_the_only_snapshot(lone_fleet: Any) -> None:
    """The log begins before it."""
    registry = await lone_fleet.start(**SMALL | {"snapshot_retention_count": 1}, history_bytes=0)
    replica = await registry.create(lone_fleet.spec())
    states = await lived(replica, random.Random(7), 50)
    (only,) = await lone_fleet.store(registry).snapshots.all(replica.record)
    first = (await entries_of(replica))[0].position
    assert position_key(first) < position_key(only.position)
    with pytest.raises(BeforeHistory, match=f"begins after position {only.position}"):
        await replica.state_at(first)
    assert (await replica.state_at(only.position)).checksum() == states[only.position]


async def test_deleting_a_model_deletes_its_history(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await lone_fleet.start(**SMALL)
    store = lone_fleet.store(registry)
    for name in ("m", "other"):
        await lived(await registry.create(lone_fleet.spec(name)), random.Random(7), 40)
    await registry.delete("m")
    other = (await registry.get("other")).record
    assert list(await store.documents.revisions(KIND)) == [str(other.incarnation)]
    catalogue = CatalogueStore(other, store)
    there = await store.blobs.keys(BLOBS)
    assert {key.split("/")[1] for key in there} == {str(other.incarnation)}
    await catalogue.put_blob(pieces_of(b"of a server that died"))
    await store.blobs.put(f"{BLOBS}1000/{ulid.make(1, bytes(10))}", pieces_of(b"of a model that was deleted"))
    await collect_garbage(store)
    assert len(await store.blobs.keys(BLOBS)) == len(there) + 1, "it may belong to a server that lives"
    monkeypatch.setattr("manylabel_service.storage.blob_collection.ORPHANED_SECONDS", -1.0)
    await collect_garbage(store)
    assert await store.blobs.keys(BLOBS) == there


async def test_the_blobs_of_all_models_are_listed_once(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await any_fleet.start(**SMALL)
    store = any_fleet.store(registry)
    for name in "abc":
        await lived(await registry.create(any_fleet.spec(name)), random.Random(7), 20)
    there = await store.blobs.keys(BLOBS)
    monkeypatch.setattr("manylabel_service.storage.blob_collection.ORPHANED_SECONDS", -1.0)
    listed, keys = 0, store.blobs.keys

    async def noted(*args: Any, **options: Any) -> list[str]:
        nonlocal listed
        listed += 1
        found: list[str] = await keys(*args, **options)
        return found

    monkeypatch.setattr(store.blobs, "keys", noted)
    await collect_garbage(store)
    assert listed == 1
    assert len({key.split("/")[1] for key in there}) == 3
    assert await keys(BLOBS) == there


# -- damage, kills and several archivers ----------------------------------------------------------


async def test_a_damaged_or_missing_segment_is_named_and_the_rest_is_readable(lone_fleet: Any) -> None:
    registry, replica = await started(lone_fleet)
    rng = random.Random(8)
    states = await lived(replica, rng, 200)
    store = lone_fleet.store(registry)
    entries = await entries_of(replica)
    catalogue = await HistoryReader(replica.record, store).catalogue()
    damaged = catalogue.segments[3]
    stored = await store.snapshots.all(replica.record)
    intact = [s for s in stored if position_key(s.position) >= position_key(damaged.through)]
    key = CatalogueStore(replica.record, store).key(damaged.id)
    for contents in (b"MLSEG1 but nothing in it", None):
        await store.blobs.delete(key)
        if contents is not None:
            await store.blobs.put(key, pieces_of(contents))
        for after in (START, damaged.after):
            with pytest.raises(HistoryDamaged, match=f"after position {damaged.after}, up to {damaged.through}"):
                await all_of(store, replica.record, after)
        rest = [e for e in entries if position_key(e.position) > position_key(damaged.through)]
        assert await replica.read_log(damaged.through, None, 10_000, 1 << 20) == rest
        for entry in rng.sample(entries, 40):
            if entry.position not in states:
                continue
            key_of = position_key(entry.position)
            reachable = key_of <= position_key(damaged.after) or any(position_key(s.position) <= key_of for s in intact)
            try:
                assert (await replica.state_at(entry.position)).checksum() == states[entry.position]
            except HistoryDamaged:
                assert not reachable


async def filled(store: Store, n_entries: int = 150) -> tuple[ModelMeta, list[Entry]]:
    record, entries = await store.models.create("m", b"{}"), list[Entry]()
    for number in range(n_entries):
        after = entries[-1].position if entries else START
        payload = b"%d " % number * random.Random(number).randint(1, 90)
        entries += await store.logs.append(record, [payload], after)
    return record, entries


async def all_of(store: Store, record: ModelMeta, after: str = START) -> list[Entry]:
    reader, found, position = HistoryReader(record, store), list[Entry](), after
    while page := await reader.read(position, 11):
        found += page
        position = page[-1].position
    return found


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
async def test_an_archiver_that_fails_at_any_step_loses_and_repeats_nothing(store: Store, done: bool) -> None:
    record, entries = await filled(store, 400)

    async def archive(failing: Any, step: int) -> None:
        trimmed = await Archiver(record, failing, HistoryLimits(1 << 20)).close(
            entries[min(20 * (step + 1), 390)].position
        )
        await failing.logs.trim(record, trimmed)

    async def check(step: int = 0) -> None:
        assert await all_of(store, record) == entries

    assert await crash_at_every_step(store, archive, check, done=done) >= 6
    archiver = Archiver(record, store, HistoryLimits(1 << 20))
    await store.logs.trim(record, await archiver.close(entries[390].position))
    await check()
    catalogue = await HistoryReader(record, store).catalogue()
    assert len(catalogue.segments) > 10
    for one, next in zip(catalogue.segments, catalogue.segments[1:], strict=False):
        assert one.through == next.after


async def test_archivers_with_different_limits_make_one_history(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    record, entries = await filled(store, 300)
    archivers_of = [Archiver(record, store, HistoryLimits(1 << 20)) for _ in range(3)]
    rng = random.Random(9)

    async def close(archiver: Archiver, through: str) -> None:
        monkeypatch.setattr(archivers, "SEGMENT_BYTES", rng.choice((300, 1_000, 2_500)))
        trimmed = await archiver.close(through)
        await asyncio.sleep(0)
        await store.logs.trim(record, trimmed)

    for n in range(0, 300, 20):
        await asyncio.gather(*(close(archiver, entries[n].position) for archiver in archivers_of))
        assert await all_of(store, record) == entries
    catalogue = await HistoryReader(record, store).catalogue()
    assert len(await store.blobs.keys(BLOBS)) == len(catalogue.segments), "the losers have removed theirs"


async def test_segments_beyond_the_end_of_a_lost_log_are_replaced(store: Store) -> None:
    record, entries = await filled(store)
    archiver = Archiver(record, store, HistoryLimits(1 << 20))
    await store.logs.trim(record, await archiver.close(entries[60].position))
    await archiver.close(entries[120].position)
    catalogue = CatalogueStore(record, store)

    def lose(found: Any) -> Any:  # as if the last segment had entries that the log has lost
        (*others, last) = found.segments
        through = "9" * 13 + "-1" * ("-" in last.after)
        return found.model_copy(update={"segments": (*others, last._replace(through=through))})

    await catalogue.change(lose)
    await archiver.close(entries[140].position)
    assert await all_of(store, record) == entries
    segments = (await catalogue.read()).segments
    assert position_key(segments[-1].through) <= position_key(entries[140].position)
    assert len(segments) > 10


# -- readers --------------------------------------------------------------------------------------


async def test_rows_of_a_stream_come_from_the_history(lone_fleet: Any, tmp_path: Path) -> None:
    registry = await lone_fleet.start(**SMALL, data_dir=tmp_path)
    replica = await registry.create(lone_fleet.spec())
    for i in range(120):
        await replica.update([lone_fleet.example(i), lone_fleet.example(i + 1)])
        if i % 8 == 7:
            await replica.take_snapshot()
    store, settings = lone_fleet.store(registry), Settings(**SMALL, data_dir=tmp_path)
    with pytest.raises(LogTrimmed):
        await store.logs.read(replica.record, START, 1)
    rows = {}
    for last in (10, 100, 1_000):
        counts = await rows_of_stream(store, settings, "m", last, tmp_path / "rows")
        assert (counts.rows, counts.learnt, counts.available) == (min(last, 240), 240, min(last, 240))
        rows[last] = (tmp_path / "rows").read_bytes()
    await replica.rollback(START)
    counts = await rows_of_stream(store, settings, "m", 1_000, tmp_path / "rows") if replica.model.updates else None
    assert counts is None


async def test_a_model_without_intact_snapshots_is_restored_from_its_history(lone_fleet: Any) -> None:
    registry, replica = await started(lone_fleet)
    states = await lived(replica, random.Random(10), 60)
    store = lone_fleet.store(registry)
    position = replica.position
    await lone_fleet.kill(registry)
    registry = await lone_fleet.start(**SMALL, preload=False)
    store = lone_fleet.store(registry)
    for snapshot in await store.snapshots.all(replica.record):
        if snapshot.listed:
            await store.snapshots.put(replica.record, snapshot.position, b"damaged")
    again = await registry.get("m")
    assert (again.position, again.model.checksum()) == (position, states[position])


async def test_the_states_of_rollback_targets_have_a_limit(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archivers, "TARGETS", 2)
    monkeypatch.setattr(Replica, "snapshot_soon", lambda self: None)
    registry = await lone_fleet.start(**SMALL, history_bytes=0)
    replica = await registry.create(lone_fleet.spec())
    positions = []
    for i in range(20):
        await replica.update([lone_fleet.example(i)])
        positions.append(replica.position)
    await replica.rollback(positions[3])
    await replica.rollback(positions[5])
    before = replica.position
    with pytest.raises(LimitExceeded, match="bytes of the history of model 'm'"):
        await replica.rollback(positions[7])
    assert replica.position == before
    await replica.rollback(positions[5])
    for i in range(3):  # the log is trimmed past the rollbacks
        await replica.update([lone_fleet.example(i)])
        await replica.take_snapshot()
    monkeypatch.setattr(archivers, "YOUNG_SECONDS", 0.0)
    await replica.update([lone_fleet.example(1)])
    await replica.take_snapshot()
    assert await lone_fleet.store(registry).blobs.keys(BLOBS) == []


@pytest.mark.parametrize("order", ["state first", "snapshot first"])
async def test_the_target_of_a_rollback_stays_until_the_rollback_is_in_the_log(
    lone_fleet: Any, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """Another server stores a snapshot of the same position, which it began long before or has stored long before."""
    registry = await lone_fleet.start(history_bytes=0)
    replica, snapshots = await registry.create(lone_fleet.spec()), lone_fleet.store(registry).snapshots
    await replica.update([lone_fleet.example(0)])
    target, data = replica.position, replica.model.to_bytes()
    await replica.update([lone_fleet.example(1)])
    archiver = replica.snapshotter.archiver

    async def by_another() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(snapshots_of_stores, "now_ms", lambda: 1)
            await snapshots.put(replica.record, target, data, LogExtent(1, 82), reasons=("history",))

    async def for_rollback() -> None:
        await archiver.put_state(target, 1, data)

    for store in [for_rollback, by_another] if order == "state first" else [by_another, for_rollback]:
        await store()
    await archiver.retain([], replica.position)
    assert [each.position for each in await snapshots.all(replica.record)] == [target]
    monkeypatch.setattr(archivers, "YOUNG_SECONDS", -1.0)
    await archiver.retain([], replica.position)
    assert await snapshots.all(replica.record) == []


@pytest.mark.parametrize("value", [b"???", b'{"format": 2, "release": "9.9"}'], ids=["damaged", "newer"])
async def test_an_unreadable_catalogue_stays_with_its_blobs_and_the_log_is_not_trimmed(
    any_fleet: Any, value: bytes
) -> None:
    registry, replica = await started(any_fleet)
    for i in range(30):
        await replica.update([any_fleet.example(i)])
    for _ in range(3):
        await replica.take_snapshot()
        await replica.update([any_fleet.example(1)])
    store, name = any_fleet.store(registry), str(replica.record.incarnation)
    before = await store.documents.get(KIND, name)
    assert before is not None
    unreadable = await store.documents.put(KIND, name, value, revision=before.revision)
    blobs, beginning = await store.blobs.keys(BLOBS), await _trimmed(store, replica.record)
    for i in range(30):
        await replica.update([any_fleet.example(i)])
    for _ in range(3):
        await replica.take_snapshot()
        await replica.update([any_fleet.example(1)])
    await collect_garbage(store)
    assert await _trimmed(store, replica.record) == beginning
    assert await store.blobs.keys(BLOBS) == blobs
    for read in (replica.read_log(START, None, 10, 1 << 20), replica.snapshotter.archiver.put_state("9", 9, b"x")):
        with pytest.raises((DocumentDamaged, DocumentNewer)):
            await read
    await store.documents.put(KIND, name, before.value, revision=unreadable)
    assert len(await replica.read_log(START, None, 10_000, 1 << 20)) == 66
    await registry.delete("m")


async def _trimmed(store: Store, record: ModelMeta) -> str:
    with pytest.raises(LogTrimmed) as found:
        await store.logs.read(record, START, 1)
    return found.value.trimmed


async def test_the_log_stays_from_a_damaged_entry_on(lone_fleet: Any) -> None:
    registry, replica = await started(lone_fleet)
    for i in range(30):
        await replica.update([lone_fleet.example(i)])
    store = lone_fleet.store(registry)
    connection = store.engine.tables.connection
    ((key, payload),) = connection.execute("SELECT key, payload FROM entries WHERE payload NOT NULL LIMIT 1")
    connection.execute("UPDATE entries SET payload = ? WHERE key = ?", (payload[:-1] + b"?", key))
    states = {}
    for _ in range(4):
        await replica.take_snapshot()
        await replica.update([lone_fleet.example(1)])
        states[replica.position] = replica.model.checksum()
    with pytest.raises(ModelDamaged, match="at position 1"):
        await store.logs.read(replica.record, START, 1)
    assert connection.execute("SELECT payload FROM entries WHERE key = ?", (key,)).fetchone() == (payload[:-1] + b"?",)
    assert connection.execute("SELECT count(*) FROM entries WHERE payload NOT NULL").fetchone() == (34,)
    for position, checksum in states.items():
        assert (await replica.state_at(position)).checksum() == checksum


async def test_a_segment_is_read_once_for_all_positions_in_it(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    registry, replica = await started(any_fleet)
    await lived(replica, rng, 120)
    positions = [entry.position for entry in await entries_of(replica)]
    reader = HistoryReader(replica.record, any_fleet.store(registry))
    segments = (await reader.catalogue()).segments
    read = list[str]()
    blob = CatalogueStore.blob

    async def counting(self: CatalogueStore, id: str) -> Any:
        read.append(id)
        return await blob(self, id)

    monkeypatch.setattr(CatalogueStore, "blob", counting)
    assert await reader.find_all(positions) == positions
    assert len(segments) > 3
    assert sorted(read) == sorted(segment.id for segment in segments if segment.entries > 1)
