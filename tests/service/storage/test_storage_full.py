"""A full store accepts revocations and deletions, which make room."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.errors import StorageFull
from manylabel_service.storage import START, Address, ModelMeta, SQLiteStore, Store, pieces_of
from manylabel_service.storage.redis import RedisStore
from manylabel_service.storage.sqlite import files

PAYLOAD = bytes(20_000)


@pytest.fixture(params=["sqlite", "redis"])
async def small_store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A store with little room."""
    store: Store
    if request.param == "sqlite":
        store = SQLiteStore(request.getfixturevalue("small_disk") / "data")
    else:
        server = request.getfixturevalue("redis_server")
        request.getfixturevalue("ask_redis")(server.port, "CONFIG", "SET", "maxmemory", "24mb")
        store = RedisStore(Address.parse(server.url), timeout_seconds=DEADLINE_SECONDS)
    await store.open()
    yield store
    await store.close()


async def fill(store: Store, record: ModelMeta) -> None:
    """Append to a log until there is no room for the smallest entry."""
    end = START
    for size_bytes in (20_000, 100):
        with suppress(StorageFull):
            while True:
                end = (await store.logs.append(record, [bytes(size_bytes)], end))[-1].position


async def test_a_full_store_accepts_urgent_changes_and_deletions(small_store: Store) -> None:
    store = small_store
    record = await store.models.create("m", b"spec")
    other = await store.models.create("other", b"spec")
    revisions = {f"{n}": await store.documents.put("key", f"{n}", b"active ", revision=None) for n in range(50)}
    await store.blobs.put("b", pieces_of(b"x"))
    await fill(store, record)
    with pytest.raises(StorageFull):
        await store.documents.put("key", "new", PAYLOAD, revision=None)
    for name, revision in revisions.items():
        await store.documents.put("key", name, b"revoked", revision=revision, urgent=True)
    assert {document.value for document in await store.documents.all("key")} == {b"revoked"}
    for document in await store.documents.all("key"):
        await store.documents.delete("key", document.name, revision=document.revision)
    await store.blobs.delete("b")
    await store.models.delete(record)
    assert [model.name for model in await store.models.all()] == ["other"]
    await store.cleaned()
    end = START

    async def append() -> str:
        return (await store.logs.append(other, [PAYLOAD], end))[-1].position

    for _ in range(20):
        end = await eventually_async(append, ignore=StorageFull)  # Redis frees a deleted log in a background thread


async def test_a_reserve_is_as_large_as_the_disk_allows(small_disk: Path) -> None:
    file = small_disk / "reserve"
    room = files.Reserve(file)
    room.fill()
    assert file.stat().st_blocks * 512 == files.RESERVE_BYTES
    assert room.release()
    assert not room.release()
    with (small_disk / "other").open("wb") as other, suppress(OSError):
        other.write(bytes((24 << 20) - files.RESERVE_BYTES // 2))
    room.fill()
    assert files.LEAST_BYTES <= file.stat().st_blocks * 512 <= files.RESERVE_BYTES // 2
    with (small_disk / "other").open("ab", buffering=0) as other, suppress(OSError):
        while other.write(bytes(4096)):
            pass
    assert room.release()
    with (small_disk / "other").open("ab", buffering=0) as other:
        assert other.write(bytes(4096)) == 4096
