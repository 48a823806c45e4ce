"""Servers on one Redis with their blobs in a directory: what goes on while it fails, and what comes back."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.fleet import Fleet
from tests.service.stores import pieces_in

from manylabel_service import ulid
from manylabel_service.errors import StorageUnavailable
from manylabel_service.models.garbage import collect_garbage
from manylabel_service.online.history import archiver as archivers
from manylabel_service.online.replica import Replica
from manylabel_service.storage import blob_collection, pieces_of


@contextlib.contextmanager
def unmounted(tmp_path: Path) -> Iterator[None]:
    """The directory of the blobs is empty, as before its volume is mounted."""
    place, there = tmp_path / "outside", tmp_path / "elsewhere"
    place.rename(there)
    place.mkdir()
    yield
    place.rmdir()
    there.rename(place)


@pytest.mark.parametrize("history_bytes", [0, 2**28])
async def test_updates_and_predictions_go_on_without_the_place(
    outside_fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history_bytes: int
) -> None:
    monkeypatch.setattr(archivers, "SEGMENT_BYTES", 20)
    settings = {"history_bytes": history_bytes, "snapshot_retention_count": 1}
    _, replicas = await outside_fleet.hosted(2, **settings)
    learnt = 0

    async def learn(replica: Replica) -> None:
        nonlocal learnt
        await replica.update([Fleet.example(learnt)])
        learnt += 1

    for _ in range(3):
        await learn(replicas[0])
        await replicas[0].take_snapshot()
    await outside_fleet.agreed()  # one that is behind a trimmed log needs a snapshot
    idle = await outside_fleet.begin(preload=False, **settings)
    with unmounted(tmp_path):
        with pytest.raises(StorageUnavailable, match=f"{tmp_path}/outside does not have"):
            await idle.get("m")
        for replica in replicas:
            await learn(replica)
            with pytest.raises(StorageUnavailable, match=f"{tmp_path}/outside does not have"):
                await replica.take_snapshot()
            await learn(replica)
            assert (await replica.predict([Fleet.example(1).x]))[0]
        with pytest.raises(StorageUnavailable, match="mount the volume that the other servers use"):
            await outside_fleet.begin(**settings)
    state = await outside_fleet.agreed()
    assert (await idle.get("m")).model.updates == learnt
    await replicas[1].take_snapshot()
    third = await outside_fleet.start(**settings)
    assert await outside_fleet.agreed() == state
    assert (await third.get("m")).model.updates == learnt == 7


async def test_a_server_that_died_before_the_document_leaves_an_orphan(
    outside_fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule for blobs that no document names is that of every store: two days."""
    (one,), (replica,) = await outside_fleet.hosted(1)
    store = outside_fleet.store(one)
    known = set(pieces_in(tmp_path))
    await store.blobs.put(f"snapshots/{replica.record.incarnation}/7/{ulid.new()}", pieces_of(b"orphan"))
    (orphan,) = set(pieces_in(tmp_path)) - known
    await collect_garbage(store)
    assert orphan.exists(), "another server may be about to name it"
    monkeypatch.setattr(blob_collection, "ORPHANED_SECONDS", -1.0)
    await collect_garbage(store)
    await store.blobs.drop_loose(deleted=True)  # with Redis they stay for a minute
    assert set(pieces_in(tmp_path)) == known


async def test_nothing_is_left_of_a_deleted_model(outside_fleet: Fleet, tmp_path: Path) -> None:
    (_, other), (replica, _) = await outside_fleet.hosted(2)
    for number in range(3):
        await replica.update([Fleet.example(number)])
        await replica.take_snapshot()
    assert pieces_in(tmp_path)
    await other.delete("m")
    await outside_fleet.store(other).erased()
    assert pieces_in(tmp_path) == []
