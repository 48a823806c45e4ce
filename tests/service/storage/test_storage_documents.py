"""Documents and blobs: the contract of storage/protocol.py, checked for every store."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.service.stores import StoreUnderTest
from tests.simulation import store as simulated_store
from tests.support.cases import for_each

from manylabel_service.errors import BlobGone, BlobNotFound, RevisionConflict, StorageUnavailable
from manylabel_service.storage import (
    MAX_DOCUMENT_BYTES,
    Document,
    Store,
    blob_bytes,
    blob_to_file,
    file_to_blob,
    pieces_of,
)
from manylabel_service.storage import document_pages as paging
from manylabel_service.storage.redis import blobs as redis_blobs
from manylabel_service.storage.redis import documents as redis_documents
from manylabel_service.storage.sqlite import blobs as sqlite_blobs
from manylabel_service.storage.sqlite import documents as sqlite_documents

NewStore = Callable[[], Store]

# -- documents ------------------------------------------------------------------------------------


async def test_a_conflict_names_the_expected_and_the_found_revision(store: Store) -> None:
    first = await store.documents.put("jobs", "a", b"one", revision=None)
    second = await store.documents.put("jobs", "a", b"", revision=first)
    for known, value in ((first, b"late"), (None, b"again"), (0, b"x"), (second + 1, b"x")):
        with pytest.raises(RevisionConflict, match="'a'") as caught:
            await store.documents.put("jobs", "a", value, revision=known)
        assert (caught.value.kind, caught.value.expected, caught.value.found) == ("jobs", known, second)
    with pytest.raises(RevisionConflict) as caught:
        await store.documents.put("jobs", "b", b"", revision=second)
    assert caught.value.found is None


async def test_only_one_of_concurrent_changes_succeeds(store: Store) -> None:
    revision = None
    for turn in range(5):
        calls = (store.documents.put("jobs", "a", b"%d" % i, revision=revision) for i in range(20))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        won = [(i, outcome) for i, outcome in enumerate(outcomes) if isinstance(outcome, int)]
        assert len(won) == 1, turn
        assert sum(isinstance(outcome, RevisionConflict) for outcome in outcomes) == 19
        ((winner, revision),) = won
        assert await store.documents.get("jobs", "a") == Document("a", revision, b"%d" % winner)


@pytest.mark.parametrize("limits", [{"PAGE_DOCUMENTS": 3}, {"PAGE_BYTES": 500}])
async def test_a_list_of_several_pages_is_whole_while_documents_change(
    store: Store, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        for module in (redis_documents, sqlite_documents):
            monkeypatch.setattr(module, name, value)
    names = [f"n{i:02d}" for i in range(30)]
    revisions = {name: await store.documents.put("jobs", name, bytes(100), revision=None) for name in names}
    stop = False

    async def change() -> int:
        turns = 0
        while not stop:
            name = names[turns % 7]
            revisions[name] = await store.documents.put("jobs", name, b"%d" % turns, revision=revisions[name])
            turns += 1
        return turns

    changing = asyncio.create_task(change())
    for _ in range(10):
        listed = await store.documents.all("jobs")
        assert sorted(document.name for document in listed) == names
        assert [document.revision for document in listed] == sorted(document.revision for document in listed)
    stop = True
    assert await changing > 0
    assert {document.name: document.revision for document in await store.documents.all("jobs")} == revisions


async def test_a_document_on_two_pages_has_its_last_state() -> None:
    pages = [([Document("a", 1, b""), Document("b", 2, b"")], False), ([Document("a", 5, b"new")], True)]
    asked = []

    async def page(after: int) -> paging.Page:
        asked.append(after)
        return pages.pop(0)

    assert await paging.collect(page, 0) == [Document("b", 2, b""), Document("a", 5, b"new")]
    assert asked == [0, 2]


@for_each("name", ["", "x" * 257, "é" * 129, "\ud800"])
async def test_invalid_names_are_refused(store: Store, name: str) -> None:
    for call in (
        store.documents.put("jobs", name, b"", revision=None),
        store.documents.get("jobs", name),
        store.documents.delete("jobs", name, revision=1),
        store.blobs.put(name, pieces_of(b"")),
        store.blobs.delete(name),
    ):
        with pytest.raises(ValueError, match=r"256 bytes|surrogates"):
            await call
    with pytest.raises(ValueError, match=r"256 bytes|surrogates"):
        store.blobs.read(name)


@for_each("kind", ["", "Jobs", "jobs/", "a b", "x" * 65, "{jobs}", "-jobs", "jobs\n"])
async def test_invalid_kinds_are_refused(store: Store, kind: str) -> None:
    for call in (store.documents.put(kind, "a", b"", revision=None), store.documents.all(kind)):
        with pytest.raises(ValueError, match="kind"):
            await call


async def test_names_and_values_are_any_bytes(store: Store) -> None:
    names = ["{jobs}.1", "a b\n", "\0", "é" * 128, "x" * 256, "a:b", "1"]
    for name in names:
        await store.documents.put("jobs", name, name.encode() + b" \0\xff", revision=None)
    for name in names:
        document = await store.documents.get("jobs", name)
        assert document is not None
        assert document.value == name.encode() + b" \0\xff"
    assert [document.name for document in await store.documents.all("jobs")] == names


async def test_the_size_of_a_document_is_limited(store: Store) -> None:
    revision = await store.documents.put("jobs", "a", os.urandom(MAX_DOCUMENT_BYTES), revision=None)
    with pytest.raises(ValueError, match="1,048,576"):
        await store.documents.put("jobs", "a", bytes(MAX_DOCUMENT_BYTES + 1), revision=revision)
    (document,) = await store.documents.all("jobs")
    assert (document.revision, len(document.value)) == (revision, MAX_DOCUMENT_BYTES)


# -- blobs ----------------------------------------------------------------------------------------


PIECE = 10_000


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (redis_blobs, sqlite_blobs, simulated_store):
        monkeypatch.setattr(module, "PIECE_BYTES", PIECE)


async def cut(data: bytes, size: int) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(data), size):
        yield b""
        yield data[start : start + size]


async def test_a_blob_of_any_size_is_stored_whole(new_store: NewStore) -> None:
    sizes = [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE, 19 * PIECE + 7]
    blobs = {f"{size:06d}": os.urandom(size) for size in sizes}
    store = new_store()
    await store.open()
    for key, data in blobs.items():
        for step in (max(1, len(data)), 1_701, PIECE):
            assert await store.blobs.put(key, cut(data, step)) == len(data)
            assert await blob_bytes(store.blobs, key) == data, (key, step)
    await store.close()
    store = new_store()
    await store.open()
    assert await store.blobs.keys() == list(blobs)
    for key, data in blobs.items():
        assert await blob_bytes(store.blobs, key) == data
        for _ in range(2):
            await store.blobs.delete(key)
        with pytest.raises(BlobNotFound, match=f"'{key}'"):
            await blob_bytes(store.blobs, key)
    assert await store.blobs.keys() == []
    await store.close()


async def test_a_large_blob_does_not_block_the_event_loop(store: Store, tmp_path: Path) -> None:
    turns = 0
    done = False

    async def turn() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    data = os.urandom((8 << 20) + 1)
    assert await store.blobs.put("b", pieces_of(data)) == len(data)
    assert turns > 20
    turns = 0
    assert await blob_to_file(store.blobs, "b", tmp_path / "copy") == len(data)
    assert turns > 20
    done = True
    await turning
    assert (tmp_path / "copy").read_bytes() == data
    async with aclosing(store.blobs.read("b")) as pieces:
        assert [len(piece) async for piece in pieces] == [4 << 20] * 2 + [1]
    assert await file_to_blob(store.blobs, tmp_path / "copy", "c") == len(data)
    assert await blob_bytes(store.blobs, "c") == data


async def test_keys_of_blobs_are_listed_by_any_prefix(store: Store) -> None:
    high = "\U0010ffff"
    keys = ["a", "a/1", "a/2", f"a/{high}", f"a/{high * 60}", f"a{high}", "a0", "b/1", "é/1", "\ud7ff/1", high]
    keys += [high * 64, "d/%", "d_", "{x}"]
    for key in keys:
        await store.blobs.put(key, pieces_of(key.encode()))
    assert [await blob_bytes(store.blobs, key) for key in keys] == [key.encode() for key in keys]
    for prefix in ("", "a", "a/", "a/1", f"a/{high}", "b", "c", "d_", "é", "\ud7ff", high, high * 2, high * 64):
        assert await store.blobs.keys(prefix) == sorted(key for key in keys if key.startswith(prefix)), prefix


@pytest.mark.usefixtures("small_pieces")
async def test_a_blob_is_replaced_only_when_it_is_complete(store: Store) -> None:
    await store.blobs.put("b", pieces_of(b"old"))
    seen = []

    async def slowly() -> AsyncGenerator[bytes, None]:
        for part in range(3):
            seen.append((await blob_bytes(store.blobs, "b"), await store.blobs.keys()))
            yield bytes([part]) * (2 * PIECE + 1)
        seen.append((await blob_bytes(store.blobs, "b"), await store.blobs.keys()))

    assert await store.blobs.put("b", slowly()) == 6 * PIECE + 3
    assert seen == [(b"old", ["b"])] * 4
    assert await blob_bytes(store.blobs, "b") == b"".join(bytes([part]) * (2 * PIECE + 1) for part in range(3))


@pytest.mark.usefixtures("small_pieces")
async def test_a_reader_of_a_replaced_blob_gets_the_old_one_or_an_error(store: Store) -> None:
    for end in (lambda store: store.blobs.put("b", pieces_of(b"2" * 5 * PIECE)), lambda store: store.blobs.delete("b")):
        await store.blobs.put("b", pieces_of(b"1" * 5 * PIECE))
        read, told = b"", ""
        async with aclosing(store.blobs.read("b")) as pieces:
            try:
                async for piece in pieces:
                    read += piece
                    await end(store)
            except BlobGone as error:
                told = str(error)
        assert (read, "'b'" in told) in ((b"1" * PIECE, True), (b"1" * 5 * PIECE, False))


@pytest.mark.usefixtures("small_pieces")
async def test_one_of_concurrent_blobs_is_stored_whole(store: Store) -> None:
    sizes = await asyncio.gather(*(store.blobs.put("b", cut(bytes([i]) * 3 * PIECE, 1_000)) for i in range(5)))
    assert sizes == [(3 * PIECE)] * 5
    data = await blob_bytes(store.blobs, "b")
    assert data == data[:1] * (3 * PIECE)


class Interrupted(Exception):
    pass


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("end", ["raises", "cancelled"])
async def test_a_source_that_fails_leaves_the_old_blob(store: Store, under_test: StoreUnderTest, end: str) -> None:
    await store.blobs.put("b", pieces_of(b"old"))
    before = under_test.n_blobs()
    blocked = asyncio.Event()

    async def source() -> AsyncGenerator[bytes, None]:
        yield bytes(3 * PIECE)
        if end == "raises":
            raise Interrupted
        blocked.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(store.blobs.put("b", source()))
    if end == "raises":
        with pytest.raises(Interrupted):
            await putting
    else:
        await blocked.wait()
        assert under_test.n_blobs() > before
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
    assert await blob_bytes(store.blobs, "b") == b"old"
    assert under_test.n_blobs() == before


@pytest.mark.usefixtures("small_pieces")
async def test_a_replaced_or_deleted_blob_is_removed(store: Store, under_test: StoreUnderTest) -> None:
    before = under_test.n_blobs()
    for size in (3 * PIECE, 1, (2 * PIECE + 1)):
        await store.blobs.put("b", pieces_of(bytes(size)))
    once = under_test.n_blobs()
    assert once > before
    await store.blobs.put("b", pieces_of(bytes(2 * PIECE + 1)))
    assert under_test.n_blobs() == once
    await store.blobs.delete("b")
    await store.erased()
    assert under_test.n_blobs() == before


@pytest.mark.usefixtures("small_pieces")
async def test_closing_ends_slow_writers_and_readers(new_store: NewStore) -> None:
    store = new_store()
    await store.open()
    await store.blobs.put("b", pieces_of(bytes(3 * PIECE)))
    reading = store.blobs.read("b")
    await anext(reading)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def source() -> AsyncGenerator[bytes, None]:
        yield bytes(2 * PIECE + 1)
        begun.set()
        await go_on.wait()

    putting = asyncio.create_task(store.blobs.put("b", source()))
    await begun.wait()
    async with asyncio.timeout(120):
        await store.close()
    go_on.set()
    for call in (putting, anext(reading), store.blobs.put("c", pieces_of(b"x")), anext(store.blobs.read("b"))):
        with pytest.raises(StorageUnavailable, match="not open"):
            await call
    store = new_store()
    await store.open()
    assert await blob_bytes(store.blobs, "b") == bytes(3 * PIECE)
    assert await store.blobs.keys() == ["b"]
    await store.close()
