"""Behaviour of the embedded store alone: its files, its lock, and errors of the disk."""

# ruff: noqa: ASYNC220, ASYNC240 - the loops here serve one test each, which may look at its files
import asyncio
import contextlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.service.stores import read_all
from tests.support.snapshot_files import snapshot_files
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service import ulid
from manylabel_service.errors import (
    BlobGone,
    LogTrimmed,
    ModelGone,
    StorageFull,
    StorageUnavailable,
    StoreDamaged,
    StoreLocked,
    StoreTooNew,
    StoreUnusable,
)
from manylabel_service.storage import START, Document, Durability, Entry, ModelMeta, SQLiteStore, blob_bytes, pieces_of
from manylabel_service.storage.sqlite import files as data_files
from manylabel_service.storage.sqlite import logs as sqlite_logs
from manylabel_service.storage.sqlite import maintenance


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def database(directory: Path) -> Path:
    return directory / "manylabel.sqlite3"


@contextlib.asynccontextmanager
async def opened(directory: Path, busy_timeout_seconds: float = 5.0) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(directory, busy_timeout_seconds)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


@contextlib.contextmanager
def files_limited_to(size_bytes: int) -> Iterator[None]:
    """Let every write beyond this size fail, as on a full disk, for the whole process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


# -- opening --------------------------------------------------------------------------------------


HOLDER = """
import asyncio, sys
from pathlib import Path
from manylabel_service.storage import SQLiteStore

async def main():
    await SQLiteStore(Path(sys.argv[1])).open()
    print("open", flush=True)
    await asyncio.sleep(600)  # until it is killed

asyncio.run(main())
"""


@pytest.mark.usefixtures("programs")
async def test_a_directory_is_locked_while_the_process_that_opened_it_lives(directory: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(directory)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StoreLocked, match="stop that process") as caught:
            await SQLiteStore(directory).open()
        assert (caught.value.directory, caught.value.pid) == (directory, holder.pid)
        assert str(directory) in str(caught.value)
        holder.kill()
    async with opened(directory):
        pass


async def test_a_file_that_is_no_database_is_left_alone(directory: Path, database: Path) -> None:
    directory.mkdir()
    content = b"Not a database, but the only copy of something.\n" * 1000
    database.write_bytes(content)
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="backup") as caught:
            await SQLiteStore(directory).open()
        assert caught.value.path == database
    assert database.read_bytes() == content


async def test_a_database_of_another_program_is_left_alone(directory: Path, database: Path) -> None:
    directory.mkdir()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE models (anything)")
    content = database.read_bytes()
    with pytest.raises(StoreDamaged, match="another program"):
        await SQLiteStore(directory).open()
    assert database.read_bytes() == content


async def test_a_database_cut_short_is_refused_or_reports_damage(directory: Path, database: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await store.logs.append(record, [bytes(1000)] * 500, START)
    os.truncate(database, database.stat().st_size // 2)
    with pytest.raises((StoreDamaged, StorageUnavailable)) as caught:
        async with opened(directory) as store:
            await read_all(store, record)
    assert "backup" in str(caught.value)


async def test_a_newer_schema_is_refused(directory: Path, database: Path) -> None:
    async with opened(directory):
        pass
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(StoreTooNew, match="newer release") as caught:
        await SQLiteStore(directory).open()
    assert (caught.value.detail, caught.value.found, caught.value.known) == (str(database), 7, 1)


@pytest.mark.parametrize("number", [-1, 0])
async def test_a_damaged_format_number_is_refused_and_stays(directory: Path, database: Path, number: int) -> None:
    async with opened(directory):
        pass
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
        with pytest.raises(StoreDamaged, match=f"format number is {number}"):
            await SQLiteStore(directory).open()
        assert connection.execute("PRAGMA user_version").fetchone() == (number,)


async def test_blobs_without_their_database_are_not_swept_away(directory: Path, database: Path) -> None:
    async with opened(directory) as store:
        await store.blobs.put("b", pieces_of(b"precious"))
    database.unlink()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="blobs"):
            await SQLiteStore(directory).open()
    assert [file.read_bytes() for file in directory.glob("blobs/*")] == [b"precious"]


async def test_an_impossible_data_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreUnusable, match=r"file.*data directory"):
            await SQLiteStore(directory).open()


async def test_a_cancelled_opening_releases_the_directory(directory: Path) -> None:
    began, may_go_on = threading.Event(), threading.Event()
    store = SQLiteStore(directory)
    open_files = store.engine._open

    def slow(load: Callable[[], None]) -> None:
        began.set()
        assert may_go_on.wait(DEADLINE_SECONDS)
        open_files(load)

    store.engine._open = slow  # type: ignore[method-assign]
    opening = asyncio.create_task(store.open())
    await asyncio.to_thread(began.wait, 60)
    opening.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with opened(directory) as other:  # the directory is not locked
        assert await other.models.all() == []
    with pytest.raises(StorageUnavailable):
        await store.models.all()


# -- disk full, input and output errors, locks ----------------------------------------------------


async def append_until_it_fails(store: SQLiteStore, record: ModelMeta, written: list[Entry], size: int) -> None:
    for _ in range(1000):
        written += await store.logs.append(record, [bytes(2000)] * size, written[-1].position)


async def test_a_full_disk_adds_nothing_and_heals(directory: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        written = await store.logs.append(record, [b"%d" % i for i in range(100)], START)
        for size in (1, 200):
            with files_limited_to(200_000), pytest.raises(StorageUnavailable) as caught:
                await append_until_it_fails(store, record, written, size)
            assert caught.value.heals
            assert str(directory) in caught.value.detail
            assert await read_all(store, record) == written
            answer = await store.logs.append(record, [b"healed"], written[-1].position)
            assert [entry.payload for entry in answer] == [b"healed"]
            written += answer
        assert [entry.position for entry in written] == [str(i + 1) for i in range(len(written))]
    async with opened(directory) as store:
        assert await read_all(store, record) == written


async def test_a_full_database_adds_nothing_and_heals(directory: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        written = await store.logs.append(record, [b"first"], START)
        revision = await store.documents.put("jobs", "a", b"older", revision=None)
        connection = store.engine.tables.connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        large = bytes(500_000)
        for call in (
            lambda: store.logs.append(record, [large], written[-1].position),
            lambda: store.logs.append(record, [large] * 300, written[-1].position),
            lambda: store.documents.put("jobs", "a", large, revision=revision),
            lambda: store.documents.put("jobs", "b", large, revision=None),
        ):
            with pytest.raises(StorageFull, match="space") as caught:
                await call()
            assert caught.value.heals
        assert await read_all(store, record) == written
        assert await store.documents.all("jobs") == [Document("a", revision, b"older")]
        connection.execute("PRAGMA max_page_count = 1000000")
        answer = await store.logs.append(record, [large] * 7, written[-1].position)
        assert [entry.position for entry in answer] == [str(i) for i in range(2, 9)]
        assert await read_all(store, record) == written + answer
        assert await store.documents.put("jobs", "a", large, revision=revision) > revision


async def test_data_that_do_not_fit_leave_the_older_data_and_no_file(directory: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await store.logs.append(record, [b"x"], START)
        await store.snapshots.put(record, START, b"older")
        await store.blobs.put("b", pieces_of(b"older"))
        large = bytes(9_000_000)
        with files_limited_to(5_000_000):
            for call in (
                lambda: store.snapshots.put(record, START, large),
                lambda: store.snapshots.put(record, "1", large),
                lambda: store.blobs.put("b", pieces_of(large)),
                lambda: store.blobs.put("c", pieces_of(large)),
            ):
                with pytest.raises(StorageFull, match="space") as caught:
                    await call()
                assert caught.value.heals
        assert [snapshot.position for snapshot in await store.snapshots.all(record)] == [START]
        assert await store.snapshots.get(record, START) == b"older"
        assert await blob_bytes(store.blobs, "b") == b"older"
        assert [file.read_bytes() for file in directory.glob("blobs/*")] == [b"older"] * 2
        await store.snapshots.put(record, "1", large)
        assert await store.blobs.put("b", pieces_of(large)) == len(large)


async def test_a_blob_that_is_cancelled_after_its_publication_stays(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(directory) as store:
        write, put = store.engine.threads.write, store.blobs._publish

        async def write_and_cancel(function: Callable[..., Any], *words: Any) -> Any:
            answer = await write(function, *words)
            if function == put:
                raise asyncio.CancelledError
            return answer

        monkeypatch.setattr(store.engine.threads, "write", write_and_cancel)
        with pytest.raises(asyncio.CancelledError):
            await store.blobs.put("b", pieces_of(b"new"))
        assert await blob_bytes(store.blobs, "b") == b"new"


async def test_a_locked_database_changes_nothing_and_heals(directory: Path, database: Path) -> None:
    async with opened(directory, busy_timeout_seconds=0.01) as store:
        record = await store.models.create("m", b"")
        await store.snapshots.put(record, START, b"older")
        await store.blobs.put("b", pieces_of(b"older"))
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for call in (
                lambda: store.logs.append(record, [b"no"], START),
                lambda: store.models.create("n", b""),
                lambda: store.models.delete(record),
                lambda: store.snapshots.put(record, START, b"newer"),
                lambda: store.blobs.put("b", pieces_of(b"newer")),
                lambda: store.blobs.put("c", pieces_of(b"newer")),
                lambda: store.blobs.delete("b"),
            ):
                with pytest.raises(StorageUnavailable, match="stop the program") as caught:
                    await call()
                assert caught.value.heals
        assert [file.read_bytes() for file in directory.glob("blobs/*")] == [b"older"] * 2
        assert await store.snapshots.get(record, START) == b"older"
        assert await blob_bytes(store.blobs, "b") == b"older"
        assert await store.blobs.keys("c") == []
        answer = await store.logs.append(record, [b"yes"], START)
        assert [entry[:2] for entry in answer] == [("1", b"yes")]
        assert await store.models.all() == [record]


async def test_a_database_that_may_not_be_written_does_not_heal(directory: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        written = await store.logs.append(record, [b"1"], START)
        store.engine.tables.connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StorageUnavailable, match="restart") as caught:
            await store.logs.append(record, [b"2"], "1")
        assert not caught.value.heals
        assert await read_all(store, record) == written


# -- durability, checkpoints ----------------------------------------------------------------------


@pytest.mark.parametrize(("durability", "level"), [("log", 1), ("fsync", 2)])
async def test_appends_have_the_durability_of_the_store(directory: Path, durability: Durability, level: int) -> None:
    store = SQLiteStore(directory, durability=durability)
    await store.open()
    record = await store.models.create("m", b"")
    synchronous = "PRAGMA synchronous"
    await store.logs.append(record, [b"x"], START)
    assert store.engine.tables.connection.execute(synchronous).fetchone() == (level,)
    await store.documents.put("kind", "name", b"", revision=None)
    assert store.engine.tables.connection.execute(synchronous).fetchone() == (2,)
    await store.close()


@pytest.mark.parametrize("step", ["copy", "finish"])
async def test_either_step_of_a_checkpoint_keeps_the_write_ahead_log_short(
    directory: Path, database: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """How much is left to the second step depends on how fast appends come; so each has to do alone."""
    monkeypatch.setattr(maintenance, "THRESHOLD_BYTES", 500_000)
    monkeypatch.setattr(maintenance.WalCheckpointer, {"copy": "finish", "finish": "copy"}[step], lambda self: None)
    log = database.with_name(database.name + "-wal")
    longest = 0
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        after = START
        for _ in range(400):
            after = (await store.logs.append(record, [bytes(1000)] * 50, after))[-1].position
            await store.cleaned()
            longest = max(longest, log.stat().st_size)
        assert longest < 2_000_000
        assert database.stat().st_size > 19_000_000
        assert len(await read_all(store, record)) == 20_000
    assert not log.exists()


async def test_a_checkpoint_waits_for_the_disk(
    directory: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "THRESHOLD_BYTES", 1)
    synced, fsync = set[str](), os.fsync

    def noting(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await store.logs.append(record, [b"x"], START)
        await store.cleaned()
        assert str(database) in synced


async def test_an_append_after_the_last_entry_is_one_statement(directory: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        (entry,) = await store.logs.append(record, [b"w"], START)
        await store.cleaned()  # the opening looks for remains in the background
        statements: list[str] = []
        store.engine.tables.connection.set_trace_callback(statements.append)
        await store.logs.append(record, [b"x", b"y"], entry.position)
        assert [statement.split()[0] for statement in statements if "synchronous" not in statement] == ["INSERT"]


async def test_read_stops_at_many_bytes(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_logs, "READ_BYTES", 5000)
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        written = await store.logs.append(record, [bytes(1000)] * 12 + [bytes(9000)] * 2, START)
        assert await store.logs.read(record, START, 100) == written[:5]
        assert await store.logs.read(record, "12", 100) == written[12:13]
        assert await read_all(store, record) == written


# -- remains of killed processes, deletions and trims -----------------------------------------------


async def test_snapshots_that_no_document_names_are_swept_at_opening(directory: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await store.snapshots.put(record, START, b"kept")
        for incarnation in (record.incarnation, 99):
            await store.blobs.put(f"snapshots/{incarnation}/7/{ulid.new()}", pieces_of(b"left by a kill"))
        await store.cleaned()
        assert len(await store.blobs.keys()) == 3, "they may be under way"
    async with opened(directory) as store:
        await store.cleaned()
        assert [snapshot.position for snapshot in await store.snapshots.all(record)] == [START]
        assert await store.snapshots.get(record, START) == b"kept"
    assert [file.read_bytes() for file in directory.glob("blobs/*")] == [b"kept"]


async def test_blobs_that_no_row_points_to_are_swept_at_opening(directory: Path) -> None:
    async with opened(directory) as store:
        await store.blobs.put("b", pieces_of(b"kept"))
    (kept,) = directory.glob("blobs/*")
    kept.with_name("half").write_bytes(b"of a writer that was killed")
    async with opened(directory) as store:
        assert await blob_bytes(store.blobs, "b") == b"kept"
        assert list(directory.glob("blobs/*")) == [kept]


@pytest.mark.parametrize("damage", ["missing", "short"])
async def test_a_missing_or_short_file_of_a_blob_is_an_error(directory: Path, damage: str) -> None:
    async with opened(directory) as store:
        await store.blobs.put("b", pieces_of(bytes(5_000_000)))
        (file,) = directory.glob("blobs/*")
        file.unlink() if damage == "missing" else os.truncate(file, 4_500_000)
        with pytest.raises(BlobGone):
            await blob_bytes(store.blobs, "b")
        assert await store.blobs.put("b", pieces_of(b"whole again")) == 11
        assert await blob_bytes(store.blobs, "b") == b"whole again"


@pytest.mark.parametrize("flaw", [b"bad!", b"new"])
async def test_a_snapshot_that_is_written_incorrectly_leaves_the_previous_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch, flaw: bytes
) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await store.snapshots.put(record, START, b"good")
        monkeypatch.setattr(data_files, "write_all", lambda descriptor, _: os.write(descriptor, flaw))
        with pytest.raises(StorageUnavailable, match="differs from what was written"):
            await store.snapshots.put(record, START, b"news")
        assert await store.snapshots.get(record, START) == b"good"
        assert [file.read_bytes() for file in directory.glob("blobs/*")] == [b"good"]


async def test_a_snapshot_whose_file_is_lost_or_damaged_is_none(directory: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await store.logs.append(record, [b"x"], START)
        for position in ("0", "1"):
            await store.snapshots.put(record, position, b"data of " + position.encode())
        lost, damaged = snapshot_files(directory)
        lost.unlink()
        damaged.write_bytes(b"data of 2")
        assert [snapshot.position for snapshot in await store.snapshots.all(record)] == ["1", "0"]
        assert await store.snapshots.get(record, "0") is None
        with structlog.testing.capture_logs() as lines:
            assert await store.snapshots.get(record, "1") is None
        assert [line["event"] for line in lines] == ["snapshot_damaged"]
        await store.snapshots.retain(record, "0", drop="recent")
        assert [snapshot.position for snapshot in await store.snapshots.all(record)] == ["1"]


async def fill(store: SQLiteStore, record: ModelMeta, entries: int) -> str:
    after = START
    for start in range(0, entries, 2000):
        after = (await store.logs.append(record, [b"%0400d" % start] * 2000, after))[-1].position
    return after


async def test_a_deleted_model_is_removed_from_the_disk_while_others_append(directory: Path, database: Path) -> None:
    async with opened(directory) as store:
        record, other = await store.models.create("m", b""), await store.models.create("other", b"")
        await store.snapshots.put(record, await fill(store, record, 40_000), bytes(10_000))
        await store.models.delete(record)
        successor = await store.models.create("m", b"")
        written = await store.logs.append(successor, [b"new"], START)
        cleaned, appended = asyncio.create_task(store.cleaned()), 0
        while not cleaned.done():
            await store.logs.append(other, [b"x"], str(appended))
            appended += 1
        assert appended > 5
        assert await read_all(store, successor) == written
        assert rows(database, "SELECT count(payload) FROM entries") == [(appended + 1,)]
        assert rows(database, "SELECT count(*) FROM models") == [(2,)]
        assert rows(database, "SELECT count(*) FROM documents") == [(0,)]
        assert list((directory / "blobs").iterdir()) == []


async def test_a_deletion_that_was_interrupted_is_finished_at_the_next_opening(directory: Path, database: Path) -> None:
    async with opened(directory) as store:
        old = await store.models.create("m", b"")
        last = await fill(store, old, 20_000)
        await store.snapshots.put(old, last, b"old")
        await store.models.delete(old)
    ((left,),) = rows(database, "SELECT count(payload) FROM entries")
    assert isinstance(left, int)
    assert left > 10_000, "closing was to interrupt the cleaning"
    async with opened(directory) as store:
        new = await store.models.create("m", b"")
        assert await read_all(store, new) == []
        assert await store.snapshots.all(new) == []
        with pytest.raises(ModelGone):
            await store.logs.read(old, last, 1)
        await store.cleaned()
        assert rows(database, "SELECT count(payload) FROM entries") == [(0,)]
        assert rows(database, "SELECT incarnation, name FROM models") == [(new.incarnation, "m")]


async def test_a_trim_that_was_interrupted_is_finished_at_the_next_opening(directory: Path, database: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await fill(store, record, 20_000)
        task = asyncio.create_task(store.logs.trim(record, "19000"))
        await asyncio.sleep(0)
    await task
    ((left,),) = rows(database, "SELECT count(payload) FROM entries")
    assert isinstance(left, int)
    assert left > 10_000, "closing was to interrupt the trim"
    async with opened(directory) as store:
        await store.cleaned()
        assert rows(database, "SELECT count(payload) FROM entries") == [(1000,)]
        assert [entry.position for entry in await read_all(store, record, "19000")] == [
            str(i) for i in range(19_001, 20_001)
        ]


async def test_a_step_of_a_trim_removes_a_limited_number_of_entries(directory: Path, database: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await store.logs.append(record, [b"x"] * 10, START)
        for through, left in ((9, 7), (9, 4), (7, 3)):
            await store.engine.threads.write(store.logs._drop_entries, record.incarnation, through, 3)
            assert rows(database, "SELECT count(*) FROM entries WHERE payload NOT NULL") == [(left,)]


@pytest.mark.parametrize("change", ["deleted", "trimmed"])
async def test_a_deletion_or_trim_during_the_storing_of_a_snapshot_leaves_nothing(directory: Path, change: str) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        await store.logs.append(record, [b"x"], START)
        begun, go_on = threading.Event(), threading.Event()
        add = store.engine.blob_files.add

        def held_add(token: str, piece: bytes, sync: bool) -> None:
            begun.set()
            assert go_on.wait(DEADLINE_SECONDS)
            add(token, piece, sync)

        store.engine.blob_files.add = held_add  # type: ignore[method-assign]
        putting = asyncio.create_task(store.snapshots.put(record, START, b"late"))
        assert await asyncio.to_thread(begun.wait, 30)
        if change == "deleted":
            await store.models.delete(record)
            record = await store.models.create("m", b"")
        else:
            await store.logs.trim(record, "1")
        go_on.set()
        with pytest.raises(ModelGone if change == "deleted" else LogTrimmed):
            await putting
        await store.cleaned()
        assert await store.snapshots.all(record) == []
        assert list((directory / "blobs").iterdir()) == []


async def test_the_incarnation_of_a_removed_model_is_not_used_again(directory: Path) -> None:
    incarnations = []
    for _ in range(3):
        async with opened(directory) as store:
            record = await store.models.create("m", b"")
            incarnations.append(record.incarnation)
            await store.models.delete(record)
            await store.cleaned()
    assert incarnations == [1, 2, 3]


async def test_a_creation_with_a_state_that_was_interrupted_is_undone(directory: Path, database: Path) -> None:
    async with opened(directory) as store:
        record = await store.models._prepare("m", b"spec", "1")
        await store.snapshots.put(record, "1", b"state")
        assert await store.models.all() == []
        assert await store.models.find("m") is None
    assert rows(database, "SELECT count(*) FROM models") == [(1,)]
    async with opened(directory) as store:
        created = await store.models.create("m", b"spec", b"other")
        await store.cleaned()
        assert await store.models.all() == [created]
        assert await store.snapshots.get(created, "1") == b"other"
        assert [path.read_bytes() for path in (directory / "blobs").iterdir()] == [b"other"]
    assert rows(database, "SELECT incarnation FROM models") == [(created.incarnation,)]


async def test_a_cancelled_creation_is_whole_or_absent(directory: Path) -> None:
    async with opened(directory) as store:
        for turn in range(12):
            task = asyncio.create_task(store.models.create(f"m{turn}", b"", bytes([turn])))
            await asyncio.sleep(turn * 0.0005)  # callers give up at any moment
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    async with opened(directory) as store:  # the closing waited for what was under way
        created = await store.models.all()
        assert created
        for record in created:
            assert await store.snapshots.get(record, "1") == bytes([int(record.name[1:])])


@pytest.mark.parametrize("name", ["manylabel.sqlite3", "manylabel.sqlite3-wal"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_nothing_is_acknowledged_once_a_file_is_gone(
    directory: Path, name: str, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "EVERY_SECONDS", 0.0)
    async with opened(directory) as store:
        record = await store.models.create("m", b"")
        (entry,) = await store.logs.append(record, [b"kept"], START)
        file, aside = directory / name, directory / "aside"
        file.rename(aside)
        if replaced:
            file.write_bytes(aside.read_bytes())
        with pytest.raises(StorageUnavailable, match=f"{name} was re.*restore it"):
            await store.logs.append(record, [b"lost"], entry.position)
        with pytest.raises(StorageUnavailable):
            await store.logs.changed("", 0.01)
        with pytest.raises(StorageUnavailable):
            await store.documents.put("jobs", "a", b"x", revision=None)
        aside.rename(file)  # nothing was written in between, so nothing is lost
        assert len(await store.logs.append(record, [b"again"], entry.position)) == 1


async def test_a_removed_folder_of_blobs_is_created_again(directory: Path) -> None:
    async with opened(directory) as store:
        record = await store.models.create("m", b"spec")
        first, second = await store.logs.append(record, [b"a", b"b"], START)
        await store.snapshots.put(record, first.position, b"first")
        shutil.rmtree(directory / "blobs")
        assert await store.snapshots.get(record, first.position) is None
        await store.snapshots.put(record, second.position, b"second")
        assert bytes(await store.snapshots.get(record, second.position) or b"") == b"second"
    async with opened(directory) as store:
        assert bytes(await store.snapshots.get(record, second.position) or b"") == b"second"
