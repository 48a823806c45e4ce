"""Durability `memory` of the embedded store: answered before it is written, and written after all."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from manylabel_service.errors import ModelGone, StorageGone
from manylabel_service.storage import START, Entry, SQLiteStore
from manylabel_service.storage.sqlite import write_behind_log as deferred
from manylabel_service.storage.sqlite.tables import Tables


@contextmanager
def disk_held_up(store: SQLiteStore) -> Iterator[None]:
    """Nothing is written inside."""
    go_on = threading.Event()
    store._threads.writer.submit(go_on.wait)
    try:
        yield
    finally:
        go_on.set()


async def append(store: SQLiteStore, record: Any, *payloads: bytes, after: str) -> list[Entry]:
    return await store.append(record, payloads, after, "memory")


async def ahead(store: SQLiteStore, name: str = "m") -> Any:
    """A model whose next appends are not waited for."""
    record = await store.create_model(name, b"")
    assert (await append(store, record, b"0", after=START))[-1].position == "1"
    return record


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = SQLiteStore(tmp_path)
    await store.open()
    yield store
    await store.close()


async def test_answers_while_the_disk_is_held_up(store: SQLiteStore) -> None:
    record = await ahead(store)
    with disk_held_up(store):
        assert await append(store, record, b"1", b"2", after="1") == [Entry("2", b"1"), Entry("3", b"2")]
        assert await append(store, record, b"3", after="3") == [Entry("4", b"3")]
        reading = asyncio.create_task(store.read(record, "1", 10))
        snapshot = asyncio.create_task(store.put_snapshot(record, "4", b"state"))
        await asyncio.sleep(0)
        assert not reading.done()
    assert [entry.payload for entry in await reading] == [b"1", b"2", b"3"]
    await snapshot


async def test_what_waits_is_written_before_the_store_closes(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path)
    await store.open()
    record = await ahead(store)
    for number in range(1, 200):
        await append(store, record, b"%d" % number, after=str(number))
    await store.close()
    store = SQLiteStore(tmp_path)
    await store.open()
    entries = await store.read(record, START, 1000)
    await store.close()
    assert [(entry.position, entry.payload) for entry in entries] == [(str(i + 1), b"%d" % i) for i in range(200)]


async def test_a_failed_write_is_tried_again_in_order(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = await ahead(store)
    written: Callable[..., Any] = Tables.append
    failing = True

    def sometimes(*args: Any) -> Any:
        if failing:
            raise StorageGone("the disk is full", heals=True)
        return written(*args)

    monkeypatch.setattr(Tables, "append", sometimes)
    await append(store, record, b"1", after="1")
    with pytest.raises(StorageGone):
        await store.read(record, START, 10)
    assert await append(store, record, b"2", after="2") == [Entry("3", b"2")]
    failing = False
    assert [entry.payload for entry in await store.read(record, START, 10)] == [b"0", b"1", b"2"]
    assert "updates_not_written" in capsys.readouterr().out


async def test_too_much_waiting_makes_appends_wait(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "MAX_WAITING_BYTES", 10)
    record = await ahead(store)
    with disk_held_up(store):
        await append(store, record, b"x" * 20, after="1")
        waiting = asyncio.create_task(append(store, record, b"y", after="2"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == [Entry("3", b"y")]


async def test_deleted_with_entries_waiting(store: SQLiteStore) -> None:
    record = await ahead(store)
    with disk_held_up(store):
        deletion = asyncio.create_task(store.delete_model(record))
        await asyncio.sleep(0)
        await append(store, record, b"1", after="1")
    await deletion
    with pytest.raises(ModelGone):
        await store.read(record, START, 10)
    again = await ahead(store)
    assert [entry.payload for entry in await store.read(again, START, 10)] == [b"0"]


async def test_an_append_that_knows_too_little_gets_all_it_missed(store: SQLiteStore) -> None:
    record = await ahead(store)
    await append(store, record, b"1", after="1")
    assert await append(store, record, b"2", after=START) == [Entry("1", b"0"), Entry("2", b"1"), Entry("3", b"2")]
    assert await append(store, record, b"3", after="3") == [Entry("4", b"3")]
