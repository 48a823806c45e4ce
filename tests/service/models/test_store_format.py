"""A store with a newer format number is refused and not touched; a program raises the number."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import eventually_async

from manylabel_service.errors import ReleaseTooOld, StoreTooNew, StoreUnusable
from manylabel_service.models import __main__ as upgrading
from manylabel_service.models import membership
from manylabel_service.models.membership import Membership
from manylabel_service.release import FORMAT
from manylabel_service.storage import SQLiteStore, Store, gate, pieces_of
from manylabel_service.storage.redis import RedisStore
from manylabel_service.storage.redis import store as redis_store

NEWER = FORMAT + 1


async def contents(store: Any) -> Any:
    """Return everything in a store, which may be closed."""
    if isinstance(store, SQLiteStore):
        directory: Path = store.engine.directory
        with sqlite3.connect(directory / "manylabel.sqlite3") as connection:
            tables = list(connection.iterdump())
        return tables, {path.name: path.read_bytes() for path in (directory / "blobs").iterdir()}
    connection = type(store.engine.connection)(store.address, 5.0)
    keys = sorted(await connection.command("KEYS", "*"))
    found = {key: await connection.command("DUMP", key) for key in keys}
    await connection.close()
    return found


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(redis_store, "UPKEEP_SECONDS", 0.05)


@pytest.mark.usefixtures("_quick")
async def test_a_live_process_touches_nothing_once_the_number_is_raised(any_fleet: Any) -> None:
    registry = await any_fleet.start(snapshot_every_updates=1)
    replica = await registry.create(any_fleet.spec())
    await replica.update([any_fleet.example(0)])
    store = any_fleet.store(registry)
    await store.raise_format(NEWER)
    await eventually_async(lambda: registry.membership.refusal is not None)
    await replica.snapshotter.drop()  # ends what has begun
    before = await contents(store)
    with pytest.raises(ReleaseTooOld, match=f"format {NEWER}.*run the newer release"):
        registry.check_compatible()
    snapshots, documents = store.snapshots, store.documents
    for call in (
        store.logs.append(replica.record, [b"x"], replica.position),
        store.logs.trim(replica.record, replica.position),
        store.models.delete(replica.record),
        store.models.create("other", b""),
        store.predictions.put(replica.record, {"p": b"x"}, 1.0, 1),
        store.blobs.put("b", pieces_of(b"x")),
        store.blobs.delete("b"),
        documents.put("kind", "name", b"x", revision=None),
        snapshots.put(replica.record, replica.position, b"x"),
        snapshots.collect_garbage([], 2**53),
    ):
        with pytest.raises(StoreTooNew):
            await call
    assert isinstance(await replica.sync(), StoreTooNew)
    assert (await replica.predict([any_fleet.example(1).x])).position == replica.position
    await any_fleet.stop(registry)
    assert await contents(store) == before


async def test_a_process_does_not_start_on_a_newer_store(any_fleet: Any) -> None:
    registry = await any_fleet.start()
    replica = await registry.create(any_fleet.spec())
    await replica.update([any_fleet.example(0)])
    store = any_fleet.store(registry)
    await store.raise_format(NEWER)
    await any_fleet.stop(registry)
    before = await contents(store)
    for _ in range(2):
        with pytest.raises(StoreTooNew, match=f"format {NEWER}, and this release supports formats up to {FORMAT}"):
            await any_fleet.start()
    assert await contents(store) == before


async def test_an_upgrade_raises_the_number_once_every_process_supports_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await upgrading.upgrade(store) == FORMAT
    old = Membership(store, "server")
    await old.join()
    heartbeats = asyncio.create_task(old.run())
    monkeypatch.setattr(membership, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(upgrading, "EXPIRY_SECONDS", 1.0)
    for module in (upgrading, gate):
        monkeypatch.setattr(module, "FORMAT", NEWER)
    old.announce()
    if isinstance(store, RedisStore):
        with pytest.raises(StoreUnusable, match=old.id):
            await upgrading.upgrade(store)
        assert await store.format() == FORMAT
    heartbeats.cancel()
    await asyncio.gather(heartbeats, return_exceptions=True)
    assert await upgrading.upgrade(store) == FORMAT
    assert await store.format() == NEWER
    assert await upgrading.upgrade(store) == NEWER
