"""Blobs outside of their store: who may use a place, what a place that fails costs, and what a dead writer leaves."""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.stores import StoreUnderTest, pieces_in
from tests.support.s3_server import S3Server
from tests.support.server_process import free_port
from tests.support.waiting import eventually_async

from manylabel_service.errors import (
    BlobDamaged,
    BlobLost,
    BlobNotFound,
    StorageFull,
    StorageUnavailable,
    StoreUnusable,
)
from manylabel_service.storage import START, Store, blob_bytes, blob_places, pieces_of
from manylabel_service.storage.blob_places import agree_on_blobs
from manylabel_service.storage.places.files import FilePlace
from manylabel_service.storage.places.place import PlaceUnavailable
from manylabel_service.storage.redis import blobs as redis_blobs
from manylabel_service.storage.sqlite import blobs as sqlite_blobs

PIECE = 10_000

outside = pytest.mark.parametrize("stores_in", ["sqlite-outside", "redis-outside"], indirect=True)
in_store = pytest.mark.parametrize("stores_in", ["sqlite", "redis"], indirect=True)
on_redis = pytest.mark.parametrize("stores_in", ["redis-outside"], indirect=True)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (redis_blobs, sqlite_blobs):
        monkeypatch.setattr(module, "PIECE_BYTES", PIECE)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "outside"


# -- which place ----------------------------------------------------------------------------------


@in_store
async def test_all_processes_of_a_store_use_one_place(store: Store, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/one"
    await agree_on_blobs(store, address)
    for same in (address, f"{address}/", f"file://localhost{tmp_path}/one"):
        await agree_on_blobs(store, same)
    for other in (f"file://{tmp_path}/other", None):
        told = (
            f"blobs of this store are {address}: set blobs to {address}, or move them with `manylabel move-blobs --to"
        )
        with pytest.raises(StoreUnusable, match=told):
            await agree_on_blobs(store, other)
    assert not (tmp_path / "other").exists()


@in_store
async def test_servers_that_start_together_use_one_place(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one records the place and stores a blob while this one looks for blobs."""
    address, keys = f"file://{tmp_path}/one", store.blobs.keys

    async def slow(*args: Any, **options: Any) -> list[str]:
        monkeypatch.undo()
        await agree_on_blobs(store, address)
        await store.blobs.put("b", pieces_of(b"outside"))
        return await keys(*args, **options)

    monkeypatch.setattr(store.blobs, "keys", slow)
    await agree_on_blobs(store, address)


@in_store
async def test_a_store_with_blobs_keeps_them_until_they_are_moved(store: Store, tmp_path: Path) -> None:
    await agree_on_blobs(store, None)
    await store.blobs.put("b", pieces_of(b"in the store"))
    with pytest.raises(
        StoreUnusable, match=f"do not set blobs, or move them with `manylabel move-blobs --to file://{tmp_path}"
    ):
        await agree_on_blobs(store, f"file://{tmp_path}/one")
    await agree_on_blobs(store, None)


@outside
async def test_stores_with_the_same_place_do_not_meet(
    stores_in: Callable[[Path], StoreUnderTest], tmp_path: Path
) -> None:
    stores = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "outside").symlink_to(tmp_path, target_is_directory=True)
        stores.append(stores_in(tmp_path / name).new())
    for store in stores:
        await store.open()
        await store.blobs.put("b", pieces_of(repr(store).encode()))
    await stores[0].blobs.delete("b")
    assert await blob_bytes(stores[1].blobs, "b") == repr(stores[1]).encode()
    for store in stores:
        await store.close()


@outside
async def test_files_outside_are_private(store: Store, place: Path) -> None:
    await store.blobs.put("b", pieces_of(bytes(2 * PIECE)))
    assert modes(place) == {(True, 0o700), (False, 0o600)}


def modes(place: Path) -> set[tuple[bool, int]]:
    """Whether each path of a place is a directory, and its mode."""
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in (place, *place.rglob("*"))}


# -- a place that fails ---------------------------------------------------------------------------


@contextlib.contextmanager
def unmounted(place: Path) -> Iterator[None]:
    """An empty directory that has the name of another one, and stays empty."""
    place.rename(place.with_name("elsewhere"))
    place.mkdir()
    yield
    place.rmdir()
    place.with_name("elsewhere").rename(place)


@outside
async def test_a_volume_that_is_not_mounted_is_not_an_empty_place(store: Store, place: Path) -> None:
    """Else a server would store its snapshots on its own disk, and take those of others for lost."""
    await store.blobs.put("b", pieces_of(b"there"))
    with unmounted(place):
        for call in (
            store.blobs.put("c", pieces_of(b"x")),
            blob_bytes(store.blobs, "b"),
            agree_on_blobs(store, f"file://{place}"),
        ):
            with pytest.raises(StorageUnavailable, match=f"{place} does not have .*/place: mount the volume") as caught:
                await call
            assert caught.value.heals
        await store.blobs.delete("b")
    await store.blobs.put("c", pieces_of(b"x"))
    assert await store.blobs.keys() == ["c"]


@outside
async def test_pieces_that_could_not_be_removed_are_removed_later(
    store: Any, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.blobs.put("b", pieces_of(bytes(2 * PIECE)))

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "for the test")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        await store.blobs.delete("b")
        with pytest.raises(StorageUnavailable, match=f"the place of blobs {place}"):
            await store.erased()
    assert len(pieces_in(tmp_path)) == 2
    assert await store.blobs.keys() == []
    await store.erased()
    assert pieces_in(tmp_path) == []


@outside
async def test_a_full_place_is_reported_and_leaves_the_old_blob(
    store: Store, under_test: StoreUnderTest, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.blobs.put("b", pieces_of(b"old"))
    before, synced = under_test.n_blobs(), os.fsync

    def full(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if str(place) in path and os.fstat(descriptor).st_size == PIECE // 2:  # the last piece
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageFull, match=f"the place of blobs {place}: .*No space left"):
            await store.blobs.put("b", pieces_of(bytes(2 * PIECE + PIECE // 2)))
    assert await blob_bytes(store.blobs, "b") == b"old"
    assert under_test.n_blobs() == before
    await store.blobs.put("b", pieces_of(bytes(2 * PIECE + PIECE // 2)))


@outside
@pytest.mark.parametrize("size", [1, PIECE, 3 * PIECE])
async def test_a_missing_or_damaged_object_is_found_and_named(store: Store, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    await store.blobs.put("other", pieces_of(b"x"))
    known = set(pieces_in(tmp_path))
    await store.blobs.put("b", pieces_of(data))
    last = max(set(pieces_in(tmp_path)) - known)
    whole = last.read_bytes()
    for edited in (bytes([whole[0] ^ 1]) + whole[1:], whole[:-1], whole + b"x", b""):
        last.write_bytes(edited)
        with pytest.raises(BlobDamaged, match=f"'b' at file://{tmp_path}/outside does not match"):
            await blob_bytes(store.blobs, "b")
    last.unlink()
    with pytest.raises(BlobLost, match=f"'b' is missing at file://{tmp_path}/outside"):
        await blob_bytes(store.blobs, "b")
    assert await blob_bytes(store.blobs, "other") == b"x"
    last.write_bytes(whole)
    assert await blob_bytes(store.blobs, "b") == data
    last.unlink()
    await store.blobs.delete("b")
    with pytest.raises(BlobNotFound, match="there is no blob"):
        await blob_bytes(store.blobs, "b")


@outside
async def test_a_snapshot_with_a_missing_object_is_like_one_that_does_not_exist(store: Store, tmp_path: Path) -> None:
    record = await store.models.create("m", b"")
    (entry,) = await store.logs.append(record, [b"1"], START)
    await store.snapshots.put(record, START, b"older")
    known = set(pieces_in(tmp_path))
    await store.snapshots.put(record, entry.position, b"newer")
    (piece,) = set(pieces_in(tmp_path)) - known
    piece.unlink()
    assert await store.snapshots.get(record, entry.position) is None
    assert await store.snapshots.get(record, START) == b"older"


@pytest.mark.archive
@pytest.mark.parametrize("stores_in", ["s3"], indirect=True)
async def test_a_bucket_that_is_unreachable_is_named(
    under_test: StoreUnderTest, store: Store, bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from manylabel_service.storage.places import objects

    await store.blobs.put("b", pieces_of(b"old"))
    with monkeypatch.context() as patch:
        patch.setattr(objects, "RETRIES", 0)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
        away: Any = under_test.new()
        opening = pytest.raises(StorageUnavailable, match=f"the place of blobs {bucket.address}/")
        with opening as caught:
            await away.open()
        assert caught.value.heals
        away = type(away)(away.address)
        await away.open()
        for call in (away.blobs.put("b", pieces_of(b"new")), blob_bytes(away.blobs, "b")):
            with pytest.raises(StorageUnavailable, match=f"the place of blobs {bucket.address}/"):
                await call
        await away.close()
    assert await blob_bytes(store.blobs, "b") == b"old"


# -- dead and slow writers ------------------------------------------------------------------------


@on_redis
async def test_a_blob_that_another_server_is_writing_is_never_removed(
    stores: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = stores
    monkeypatch.setattr(redis_blobs, "PROLONG_SECONDS", 0.01)

    async def source() -> AsyncGenerator[bytes, None]:
        yield bytes(2 * PIECE)
        assert len(pieces_in(tmp_path)) == 2
        (blob,) = await times()
        await store.engine.connection.command("ZADD", redis_blobs.LOOSE, 1, blob)  # as if it had begun long ago

        async def renewed() -> bool:
            return min((await times()).values()) > 1

        await eventually_async(renewed)
        await other.blobs.drop_loose()
        assert len(pieces_in(tmp_path)) == 2
        yield b"rest"

    async def times() -> dict[str, float]:
        found = await store.engine.connection.command("ZRANGE", redis_blobs.LOOSE, 0, -1, "WITHSCORES")
        pairs = found if found and isinstance(found[0], list | tuple) else zip(found[::2], found[1::2], strict=True)
        return {blob.decode(): float(score) for blob, score in pairs}

    assert await store.blobs.put("b", source()) == 2 * PIECE + 4
    assert await times() == {}
    assert len(await blob_bytes(other.blobs, "b")) == 2 * PIECE + 4


@on_redis
async def test_pieces_of_a_dead_writer_are_removed_and_a_late_one_fails(
    stores: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = stores
    await store.blobs.put("b", pieces_of(b"old"))
    known = pieces_in(tmp_path)

    async def source() -> AsyncGenerator[bytes, None]:
        yield bytes(2 * PIECE)
        await other.blobs.drop_loose()
        assert len(pieces_in(tmp_path)) == 3, "it may still be under way"
        with monkeypatch.context() as patch:
            patch.setattr(redis_blobs, "ORPHAN_SECONDS", -1)
            await other.blobs.drop_loose()
        assert pieces_in(tmp_path) == known
        yield b"rest"

    with pytest.raises(StorageUnavailable, match="took too long to be written"):
        await store.blobs.put("b", source())
    assert await blob_bytes(other.blobs, "b") == b"old"
    assert pieces_in(tmp_path) == known


@on_redis
async def test_pieces_of_a_deleted_blob_stay_for_a_failover(stores: list[Any], tmp_path: Path) -> None:
    """A replica of Redis that takes over may still have the key."""
    store, other = stores
    await store.blobs.put("b", pieces_of(b"data"))
    await store.blobs.delete("b")
    await other.blobs.drop_loose()
    assert len(pieces_in(tmp_path)) == 1
    await other.erased()
    assert pieces_in(tmp_path) == []


@outside
async def test_a_piece_that_arrives_after_an_error_is_removed(
    store: Any, under_test: StoreUnderTest, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket executes a request that its client has given up."""
    before, put, late = under_test.n_blobs(), FilePlace.put, list[Any]()

    async def given_up(self: FilePlace, *args: Any) -> bool:
        late.append(put(self, *args))
        raise PlaceUnavailable("for the test")

    with monkeypatch.context() as patch:
        patch.setattr(FilePlace, "put", given_up)
        with pytest.raises(StorageUnavailable, match="for the test"):
            await store.blobs.put("b", pieces_of(b"data"))
    with pytest.raises(StorageUnavailable, match="failed, but may still take effect"):
        await store.erased()
    for each in late:
        await each
    assert under_test.n_blobs() > before
    monkeypatch.setattr(blob_places, "LATE_SECONDS", 0.0)
    await store.erased()
    assert under_test.n_blobs() == before


@outside
async def test_a_piece_that_is_still_being_written_is_removed_after_a_cancellation(
    store: Store, under_test: StoreUnderTest, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes a piece cannot be cancelled."""
    before, linked = under_test.n_blobs(), os.link
    loop, waiting, go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def slow(draft: Path, path: Path) -> None:
        loop.call_soon_threadsafe(waiting.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        linked(draft, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", slow)
        putting = asyncio.create_task(store.blobs.put("b", pieces_of(b"data")))
        await waiting.wait()
        putting.cancel()
        done, _ = await asyncio.wait([putting], timeout=0.2)
        assert not done, "it waits for the thread"
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await putting
    assert under_test.n_blobs() == before
