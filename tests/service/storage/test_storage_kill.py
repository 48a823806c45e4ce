"""A process that uses the embedded store is killed repeatedly: all acknowledged changes exist, in order.

Run as a script, this file is that process.
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from manylabel_service.storage import START, Entry, ModelMeta, SQLiteStore, blob_bytes, pieces_of
from manylabel_service.storage.blob_places import agree_on_blobs
from manylabel_service.storage.checksums import SEAL_BYTES
from manylabel_service.storage.sqlite import blobs
from manylabel_service.storage.sqlite.tables import NUMBER_BITS

pytestmark = pytest.mark.usefixtures("programs")

KILLS = 10
STEADY = ("a", "b")


# -- the process that is killed -------------------------------------------------------------------


def report(*words: object) -> None:
    """In one write, so that a kill never leaves half a line that looks like a whole one."""
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


def batch(identity: str, size: int) -> list[bytes]:
    chooser = random.Random(identity)
    return [f"{identity} {i} {size} ".encode() + chooser.randbytes(chooser.randrange(500)) for i in range(size)]


async def append_for_ever(store: SQLiteStore, record: ModelMeta, identity: str) -> None:
    after, chooser = START, random.Random(identity)
    for turn in itertools.count():
        payloads = batch(f"{identity}/{turn}", chooser.choice([1, 1, 2, 5, 20]))
        answer = await store.logs.append(record, payloads, after)
        after = answer[-1].position
        report("appended", record.incarnation, answer[-len(payloads)].position, len(payloads), f"{identity}/{turn}")


async def come_and_go_for_ever(store: SQLiteStore, identity: str) -> None:
    """One model after the other under the same name, each with a log, snapshots, a trim."""
    for old in await store.models.all():
        if old.name == "churn":
            await store.models.delete(old)
            report("deleted", old.incarnation)
    for turn in itertools.count():
        record = await store.models.create("churn", b"")
        report("created", record.incarnation)
        after = START
        for i in range(4):
            answer = await store.logs.append(record, batch(f"{identity}/{turn}/{i}", 200), after)
            after = answer[-1].position
            data = f"{record.incarnation} {after} ".encode() * 5000
            await store.snapshots.put(record, after, data)
            report("snapshot", record.incarnation, after, zlib.crc32(data))
        await store.logs.trim(record, "600")
        report("trimmed", record.incarnation)
        await store.models.delete(record)
        report("deleted", record.incarnation)


async def change_for_ever(store: SQLiteStore) -> None:
    """One document, and a blob that says the same at some length."""
    known = await store.documents.get("kind", "counter")
    assert known is not None
    revision = known.revision
    for number in itertools.count(int(known.value) + 1):
        revision = await store.documents.put("kind", "counter", b"%d" % number, revision=revision)
        report("document", revision, number)
        await store.blobs.put("blob", pieces_of(b"%09d" % number * 2_000))
        report("blob", number)


async def live(directory: Path, identity: str, outside: str | None) -> None:
    blobs.PIECE_BYTES = 1_000
    store = SQLiteStore(directory, durability=random.Random(identity).choice(["log", "fsync"]))
    await store.open()
    await agree_on_blobs(store, outside)
    records = {record.name: record for record in await store.models.all()}
    for name in STEADY:
        if name not in records:
            records[name] = await store.models.create(name, b"")
    known = await store.documents.get("kind", "counter")
    if known is None:
        await store.documents.put("kind", "counter", b"0", revision=None)
    else:
        report("document", known.revision, int(known.value))
    report("open")
    await asyncio.gather(
        come_and_go_for_ever(store, f"{identity}/churn"),
        change_for_ever(store),
        *(append_for_ever(store, records[name], f"{identity}/{name}/{i}") for name in STEADY for i in range(3)),
    )


# -- the test -------------------------------------------------------------------------------------


@dataclass
class Told:
    """Acknowledgements that processes received before they were killed."""

    appended: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    created: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    trimmed: set[int] = field(default_factory=set)
    snapshots: dict[tuple[int, str], int] = field(default_factory=dict)
    document: tuple[int, int] = 0, 0
    blob: int = 0

    def take(self, line: bytes) -> None:
        match line.decode().split():
            case ["appended", incarnation, first, size, identity]:
                self.appended.setdefault(int(incarnation), []).append((int(first), int(size), identity))
            case ["created", incarnation]:
                self.created.add(int(incarnation))
            case ["deleted", incarnation]:
                self.deleted.add(int(incarnation))
            case ["trimmed", incarnation]:
                self.trimmed.add(int(incarnation))
            case ["snapshot", incarnation, position, checksum]:
                self.snapshots[int(incarnation), position] = int(checksum)
            case ["document", revision, number]:
                told, self.document = self.document, (int(revision), int(number))
                assert self.document == told or (self.document[0] > told[0] and int(number) - told[1] in (0, 1))
            case ["blob", number]:
                self.blob = int(number)
            case _:
                assert line == b"open\n", line


def run_and_kill(directory: Path, identity: str, chooser: random.Random, told: Told, *outside: str) -> None:
    """Let a process live until it has reported some events of the churn, and a moment longer."""
    command = [sys.executable, __file__, str(directory), identity, *outside]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        events, lines = chooser.randrange(2, 16), []
        while events and (line := process.stdout.readline()):
            lines.append(line)
            events -= not line.startswith((b"appended", b"open", b"document", b"blob"))
        time.sleep(chooser.uniform(0, 0.02))  # until a random moment
        process.kill()
        lines += process.stdout.readlines()
        assert process.stderr.read() == b""
    for line in lines:
        if line.endswith(b"\n"):
            told.take(line)


async def read_all(store: SQLiteStore, record: ModelMeta, after: str) -> list[Entry]:
    entries: list[Entry] = []
    while page := await store.logs.read(record, after, 1000):
        entries += page
        after = page[-1].position
    return entries


def check_log(entries: list[Entry], told: list[tuple[int, int, str]]) -> None:
    """Dense, all that was acknowledged in its place, every append whole, none twice."""
    assert [entry.position for entry in entries] == [str(i + 1) for i in range(len(entries))]
    for first, size, identity in told:
        assert [entry.payload for entry in entries[first - 1 : first - 1 + size]] == batch(identity, size)
    seen, index = set(), 0
    while index < len(entries):
        identity, number, size = entries[index].payload.split(b" ", 3)[:3]
        assert number == b"0"
        assert identity not in seen
        seen.add(identity)
        expected = batch(identity.decode(), int(size))
        assert [entry.payload for entry in entries[index : index + int(size)]] == expected
        index += int(size)


async def check_churn(store: SQLiteStore, record: ModelMeta, told: Told) -> None:
    assert record.incarnation not in told.deleted
    assert record.incarnation >= max(told.created, default=0)
    listed = {snapshot.position for snapshot in await store.snapshots.all(record)}
    for (incarnation, position), checksum in told.snapshots.items():
        if incarnation == record.incarnation:
            assert position in listed
            assert zlib.crc32(await store.snapshots.get(record, position) or b"") == checksum
    for position in listed:
        data = await store.snapshots.get(record, position)
        assert data == f"{record.incarnation} {position} ".encode() * 5000
    if record.incarnation in told.trimmed:
        assert [entry.position for entry in await read_all(store, record, "600")] == [str(i) for i in range(601, 801)]


async def check_document_and_blob(store: SQLiteStore, told: Told) -> None:
    """The document is as it was acknowledged last, or as it would have been next; the blob is whole."""
    (document,) = await store.documents.all("kind")
    told.take(f"document {document.revision} {document.value.decode()}".encode())
    if told.blob:
        data = await blob_bytes(store.blobs, "blob")
        assert data == data[:9] * 2_000
        assert told.blob <= int(data[:9]) <= int(document.value)


async def check(directory: Path, told: Told) -> int:
    store = SQLiteStore(directory)
    await store.open()
    records = await store.models.all()
    assert {record.name for record in records} - {"churn"} == set(STEADY)
    entries = 0
    for record in records:
        if record.name == "churn":
            await check_churn(store, record, told)
        else:
            log = await read_all(store, record, START)
            check_log(log, told.appended.get(record.incarnation, []))
            entries += len(log)
    await check_document_and_blob(store, told)
    await store.cleaned()
    await store.close()
    check_files(directory, {record.incarnation for record in records})
    return entries


def check_files(directory: Path, alive: set[int]) -> None:
    with contextlib.closing(sqlite3.connect(directory / "manylabel.sqlite3")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert {row[0] for row in connection.execute(f"SELECT DISTINCT key >> {NUMBER_BITS} FROM entries")} <= alive
        tables = connection.execute("SELECT name, value FROM documents WHERE kind = 'snapshots'").fetchall()
        blobs = dict(connection.execute("SELECT key, head FROM blobs"))
        tokens = {head[SEAL_BYTES:].split(b" ")[0].decode() for head in blobs.values()}
    assert {int(name) for name, _ in tables} <= alive
    named = {id for _, value in tables for id in json.loads(value[SEAL_BYTES:])["snapshots"]}
    assert {key.split("/")[-1] for key in blobs} - {"blob"} == named
    assert {file.name for file in directory.glob("blobs/*")} == tokens
    outside = {token.partition(".")[2] for token in tokens if "." in token}
    assert {file.name.partition(".")[0] for file in directory.parent.glob("outside/*/*/*") if file.is_file()} == outside


@pytest.mark.parametrize("is_outside", [False, True], ids=["inside", "outside"])
def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path, is_outside: bool) -> None:
    directory, told, chooser = tmp_path / "data", Told(), random.Random(8)
    outside = [f"file://{tmp_path}/outside"] if is_outside else []
    for kill in range(KILLS):
        run_and_kill(directory, str(kill), chooser, told, *outside)
        if kill % 2:  # else the next process meets what the killed one left
            asyncio.run(check(directory, told))
    entries = asyncio.run(check(directory, told))
    assert entries > 500
    assert len(told.deleted) > 3


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2], next(iter(sys.argv[3:]), None)))
