"""Move of the blobs of a store to a place and back: exact, continued after every crash, while servers write."""

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from tests.service.stores import StoreUnderTest, pieces_in

from manylabel_service.errors import BlobGone, StorageUnavailable
from manylabel_service.settings import Settings
from manylabel_service.storage import SQLiteStore, Store, blob_bytes, open_store, pieces_of
from manylabel_service.storage.blob_move import MovableStore, Moved, move_blobs
from manylabel_service.storage.places.files import FilePlace
from manylabel_service.storage.redis import blobs as redis_blobs
from manylabel_service.storage.redis.client.connection import Connection
from manylabel_service.storage.sqlite import blobs as sqlite_blobs
from manylabel_service.storage.sqlite.threads import Threads

PIECE = 1_000

in_store = pytest.mark.parametrize("stores_in", ["sqlite", "redis"], indirect=True)
on_redis = pytest.mark.parametrize("stores_in", ["redis"], indirect=True)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (redis_blobs, sqlite_blobs):
        monkeypatch.setattr(module, "PIECE_BYTES", PIECE)


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"file://{tmp_path}/outside"


def blobs_of(number: int) -> dict[str, bytes]:
    """Blobs of several sizes, among them none, one piece and several."""
    chooser = random.Random(number)
    sizes = [0, 1, PIECE, PIECE + 1, 3 * PIECE]
    return {f"data/{n:03d}": chooser.randbytes(sizes[n % len(sizes)]) for n in range(number)}


async def fill(store: Store, blobs: dict[str, bytes]) -> None:
    for key, data in blobs.items():
        await store.blobs.put(key, pieces_of(data))


async def read_all(store: Store) -> dict[str, bytes]:
    return {key: await blob_bytes(store.blobs, key) for key in await store.blobs.keys()}


@in_store
async def test_blobs_are_moved_to_a_place_to_another_and_back(
    store: Any, under_test: StoreUnderTest, tmp_path: Path, address: str
) -> None:
    blobs, empty = blobs_of(12), under_test.n_blobs()
    await fill(store, blobs)
    in_store, size = under_test.n_blobs(), sum(map(len, blobs.values()))
    n_pieces = sum(-(-len(data) // PIECE) for data in blobs.values())
    for _ in range(2):
        assert await move_blobs(store, address) == Moved(12, size, {}, 0)
        assert await move_blobs(store, address) == Moved(0, 0, {}, 0)
        assert await read_all(store) == blobs
        assert len(pieces_in(tmp_path)) == n_pieces
        other = f"file://{tmp_path}/other"
        assert await move_blobs(store, other) == Moved(12, size, {}, 0)
        assert [path for path in (tmp_path / "outside").rglob("*") if path.is_file()] == [], "nothing is left there"
        await store.blobs.put("data/000", pieces_of(blobs["data/000"]))
        assert await move_blobs(store, None) == Moved(12, size, {}, 0)
        assert [path for path in (tmp_path / "other").rglob("*") if path.is_file()] == []
        assert await read_all(store) == blobs
        assert under_test.n_blobs() == in_store
    for key in blobs:
        await store.blobs.delete(key)
    assert under_test.n_blobs() == empty


@in_store
async def test_a_blob_that_is_damaged_is_named_and_stays(store: Any, tmp_path: Path, address: str) -> None:
    await fill(store, blobs := blobs_of(5))
    await move_blobs(store, address)
    known = set(pieces_in(tmp_path))
    await fill(store, {"bad": b"damaged later", "lost": b"lost later"})
    for piece in set(pieces_in(tmp_path)) - known:
        if piece.read_bytes() == b"lost later":
            piece.unlink()
        else:
            piece.write_bytes(b"DAMAGED LATER")
    moved = await move_blobs(store, None)
    assert (moved.blobs, moved.unfinished) == (5, 0)
    assert {key: text.partition(" at file")[0] for key, text in moved.damaged.items()} == {
        "bad": "the blob under the key 'bad'",
        "lost": "the blob under the key 'lost' is missing",
    }
    assert len(pieces_in(tmp_path)) == 1, "the damaged one, which may be looked at"
    for key in moved.damaged:
        await store.blobs.delete(key)
    assert await move_blobs(store, None) == Moved(0, 0, {}, 0)
    assert await read_all(store) == blobs


@in_store
async def test_what_differs_from_what_was_written_is_not_moved(
    store: Any, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store, blobs := blobs_of(5))
    written = FilePlace.put

    async def torn(self: FilePlace, key: str, data: bytes | Path) -> bool:
        assert isinstance(data, bytes)
        return await written(self, key, data if key.endswith("/place") else bytes(len(data)))

    with monkeypatch.context() as patch:
        patch.setattr(FilePlace, "put", torn)
        with pytest.raises(StorageUnavailable, match=r"copied blob differs from the original: .* at file:///"):
            await move_blobs(store, address)
    assert await read_all(store) == blobs
    assert pieces_in(tmp_path) == []
    assert (await move_blobs(store, address)).blobs == 4, "the first is empty, and was moved"
    assert await read_all(store) == blobs


@on_redis
async def test_servers_write_read_and_delete_during_a_move(stores: list[Any], tmp_path: Path, address: str) -> None:
    """All of them use the new place from its beginning on, and no change of theirs is undone."""
    mover, server = stores
    await fill(mover, expected := blobs_of(60))
    chooser, done = random.Random(1), False

    async def serve() -> int:
        changes = 0
        while not done:
            key = chooser.choice(sorted(expected))
            if key in expected and chooser.random() < 0.2:
                del expected[key]
                await server.blobs.delete(key)
            else:
                expected[key] = chooser.randbytes(chooser.randrange(3 * PIECE))
                await server.blobs.put(key, pieces_of(expected[key]))
            key = chooser.choice(sorted(expected))
            while True:
                with suppress(BlobGone):  # it was moved meanwhile
                    assert await blob_bytes(server.blobs, key) == expected[key]
                    break
            changes += 1
        return changes

    serving = asyncio.create_task(serve())
    await move_blobs(mover, address)
    await move_blobs(mover, None)
    await move_blobs(mover, address)
    done = True
    assert await serving > 5
    await move_blobs(mover, address)
    assert await read_all(mover) == expected
    assert len(pieces_in(tmp_path)) == sum(-(-len(data) // PIECE) for data in expected.values())
    assert await server.engine.connection.command("KEYS", "ml:{blob.*") == []


@on_redis
async def test_a_blob_that_is_being_written_elsewhere_is_reported(
    stores: list[Any], tmp_path: Path, address: str
) -> None:
    mover, server = stores
    await move_blobs(mover, address)

    async def source() -> AsyncGenerator[bytes, None]:
        yield bytes(PIECE)
        assert await move_blobs(mover, None) == Moved(0, 0, {}, 1)
        yield b"rest"

    await server.blobs.put("b", source())
    assert await move_blobs(mover, None) == Moved(1, PIECE + 4, {}, 0)
    assert len(await blob_bytes(server.blobs, "b")) == PIECE + 4


@on_redis
async def test_a_writer_that_begins_while_the_place_changes_uses_the_new_one(
    stores: list[Any], tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the move could end before the writer is listed."""
    mover, server = stores
    await move_blobs(mover, address)
    chosen = server.blobs.outside.new_token

    async def late() -> str | None:
        token = await chosen()
        monkeypatch.undo()
        assert await move_blobs(mover, None) == Moved(0, 0, {}, 0)
        return token

    monkeypatch.setattr(server.blobs.outside, "new_token", late)
    await server.blobs.put("b", pieces_of(b"data"))
    assert pieces_in(tmp_path) == []
    assert await blob_bytes(mover.blobs, "b") == b"data"


# -- the command ----------------------------------------------------------------------------------


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "manylabel_service.move_blobs", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("programs")
async def test_the_command_moves_blobs_and_says_what_it_did(tmp_path: Path, address: str) -> None:
    data = tmp_path / "data"
    done = await asyncio.to_thread(run, "--to", address, "--data-dir", str(data))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"there is no store in {data}" in done.stderr
    assert not data.exists()
    done = await asyncio.to_thread(run, "--to", "shared", "--data-dir", str(data))
    assert done.returncode == 2
    assert "the address of the place of blobs must have the form file:///DIRECTORY or s3://BUCKET/PREFIX" in done.stderr
    store = SQLiteStore(data)
    await store.open()
    await fill(store, blobs := blobs_of(5))
    await store.close()
    for to, told in ((f"{address}/", address), ("store", "the store")):
        done = await asyncio.to_thread(run, "--to", to, "--data-dir", str(data))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"moved 5 blobs, 5,002 bytes, to {told}\n"
    await store.open()
    assert await read_all(store) == blobs
    await store.close()


# -- kills ----------------------------------------------------------------------------------------


def die_after(steps: int) -> None:
    """Kill this process before one of the steps of a move: calls of a place, of Redis, and of the threads of SQLite."""
    left = itertools.count(-steps)

    def dying(owner: Any, name: str) -> None:
        method = getattr(owner, name)

        def call(*words: Any, **options: Any) -> Any:
            if next(left) >= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*words, **options)

        setattr(owner, name, call)

    for name in ("put", "get", "delete"):
        dying(FilePlace, name)
    for name in ("command", "run"):
        dying(Connection, name)
    for name in ("write", "file"):
        dying(Threads, name)


async def expire_pieces(store: Any) -> None:
    """Remove the pieces in Redis that have a time to live."""
    command = store.engine.connection.command
    for key in await command("KEYS", "ml:{blob.*"):
        if await command("TTL", key) >= 0:
            await command("DEL", key)


async def move_in_this_process(url: str, data: str, to: str) -> None:
    store = open_store(Settings(store=url, data_dir=Path(data)))
    await store.open()
    await move_blobs(cast(MovableStore, store), None if to == "store" else to)
    await store.close()


@pytest.mark.usefixtures("programs")
@in_store
async def test_a_move_that_is_killed_is_continued(
    under_test: StoreUnderTest, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, chooser, kills = blobs_of(7), random.Random(5), 0
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    store: Any = under_test.new()
    await store.open()
    await fill(store, blobs)
    url = str(store.address) if under_test.is_shared else "sqlite"
    await store.close()
    in_store, most = under_test.n_blobs(), 80 if under_test.is_shared else 40
    n_pieces = sum(-(-len(data) // PIECE) for data in blobs.values())
    for to, counts in ((address, (2 if under_test.is_shared else 7, n_pieces)), ("store", (in_store, 0))):
        status = -signal.SIGKILL
        while status:
            command = [sys.executable, __file__, url, str(tmp_path / "data"), to, str(chooser.randrange(10, most))]
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False, env=environment)
            status = done.returncode
            assert status in (0, -signal.SIGKILL), done.stderr
            kills += status != 0
            store = under_test.new()
            await store.open()
            assert await read_all(store) == blobs, "whole at one of the places, after every kill"
            await store.close()
        with monkeypatch.context() as patch:
            patch.setattr(redis_blobs, "ORPHAN_SECONDS", -1)  # as if an hour had passed
            store = under_test.new()
            await store.open()
            await store.erased()
            if under_test.is_shared:
                await expire_pieces(store)
            await store.close()
        assert (under_test.n_blobs(), len(pieces_in(tmp_path))) == counts, "nothing is left of the killed processes"
    assert kills > 3


if __name__ == "__main__":
    redis_blobs.PIECE_BYTES = sqlite_blobs.PIECE_BYTES = PIECE
    die_after(int(sys.argv[4]))
    asyncio.run(move_in_this_process(*sys.argv[1:4]))
