"""The embedded store: a data directory of one process.

    <data_dir>/lock                                           held while the store is open
    <data_dir>/manylabel.sqlite3 (-wal, -shm)                 models, logs, the list of snapshots
    <data_dir>/snapshots/<incarnation>/<position>.safetensors
    <data_dir>/blobs/<token>

Two threads serve it. The writer has the database to itself, and its work comes in small pieces, so
an append waits for one piece at most. The filer does what waits for the disk: snapshot files,
pieces of blobs, and the bulk of checkpoints. Each does its work in the order it was asked for: a file that is written
while its model is deleted is there before the folder is removed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from manylabel_service.errors import StorageError, StoreDamaged
from manylabel_service.storage.document_pages import check_document, check_key, collect
from manylabel_service.storage.gate import Gate
from manylabel_service.storage.protocol import SEED, Document, Durability, Entry, ModelRecord, SnapshotRecord
from manylabel_service.storage.sqlite.blob_files import BlobFiles
from manylabel_service.storage.sqlite.blob_rows import BlobRows
from manylabel_service.storage.sqlite.blobs import Blobs
from manylabel_service.storage.sqlite.database import connect, create_tables, is_new
from manylabel_service.storage.sqlite.directory_lock import DirectoryLock
from manylabel_service.storage.sqlite.documents import Documents
from manylabel_service.storage.sqlite.errors import while_opening
from manylabel_service.storage.sqlite.maintenance import Maintenance
from manylabel_service.storage.sqlite.predictions import Predictions
from manylabel_service.storage.sqlite.snapshot_files import SnapshotFiles
from manylabel_service.storage.sqlite.tables import Tables, number_of
from manylabel_service.storage.sqlite.threads import Threads
from manylabel_service.storage.sqlite.wal_checkpointer import WalCheckpointer

DATABASE = "manylabel.sqlite3"


class SQLiteStore:
    """Implements `manylabel_service.storage.Store`, whose comments are the contract.

    Parameters
    ----------
    directory : the data directory, made if it is missing. One store at a time can have it open.
    busy_timeout_seconds : how long to wait for a program that holds the database locked (a backup, somebody's
        shell) before an operation fails with `StorageGone`.
    """

    durabilities: frozenset[Durability] = frozenset(("log", "fsync"))

    def __init__(self, directory: Path, busy_timeout_seconds: float = 5.0) -> None:
        self._directory = directory
        self._path = directory / DATABASE
        self._busy_timeout_seconds = busy_timeout_seconds
        self._gate = Gate()
        self._held = ExitStack()
        # A file and its row change together, so one snapshot at a time; the filer writes one anyway.
        self._snapshot_turn = asyncio.Lock()

    # -- life -------------------------------------------------------------------------------------

    async def open(self) -> None:
        self._threads = Threads(self._path)
        try:
            await self._threads.write(self._open)
        except BaseException:
            # Also reached by a cancelled await, whose thread goes on: `_held` is set once it has ended.
            await self._threads.end(lambda: self._held.close())
            raise
        self._upkeep = Maintenance(self._threads, self._tables, self._predictions, self._files, self._checkpoints)
        self._upkeep.begin(*self._leftovers)
        self._gate.open()

    def _open(self) -> None:
        with while_opening(self._path), ExitStack() as held:
            self._directory.mkdir(parents=True, exist_ok=True)
            held.enter_context(DirectoryLock(self._directory))
            # Closed after the connections: closing any descriptor of a file gives up all POSIX locks on it.
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            held.callback(os.close, descriptor)
            writer = held.enter_context(closing(connect(self._path, self._busy_timeout_seconds)))
            self._files = SnapshotFiles(self._directory / "snapshots")
            blob_files = BlobFiles(self._directory / "blobs")
            if is_new(writer):
                # Sweeping them away would end the last hope of the operator.
                for files, what in ((self._files, "snapshots"), (blob_files, "blobs")):
                    if files.any():
                        raise StoreDamaged(self._path, f"it is empty or was missing, but there are {what}")
                create_tables(writer)
            other = held.enter_context(closing(connect(self._path, self._busy_timeout_seconds)))
            self._tables = Tables(writer)
            self._predictions = Predictions(writer, self._tables)
            self._documents = Documents(writer, self._tables)
            blob_rows = BlobRows(writer, self._tables)
            self._blobs = Blobs(self._threads, blob_rows, blob_files, self._gate)
            self._checkpoints = WalCheckpointer(writer, other, descriptor)
            self._leftovers = self._tables.hidden_models(), self._tables.trimmed_logs()
            alive = [record.incarnation for record in self._tables.models()]
            self._files.sweep(alive, self._tables.all_snapshots())
            blob_files.sweep(blob_rows.tokens())
            self._held = held.pop_all()

    async def close(self) -> None:
        if not self._gate.is_open:
            return
        self._upkeep.stop()
        await self._gate.close()
        await self._upkeep.done()
        await self._blobs.done()
        await self._threads.end(self._held.close)

    async def cleaned(self) -> None:
        """Wait until what has been deleted so far has left the disk as well."""
        with self._gate:
            await self._upkeep.done()

    # -- models -----------------------------------------------------------------------------------

    async def create_model(self, name: str, spec: bytes, state: bytes | None = None) -> ModelRecord:
        with self._gate:
            if state is None:
                return await self._threads.write(self._tables.create_model, name, spec)
            # Shielded, so that a cancelled caller leaves nothing half done.
            return await asyncio.shield(asyncio.create_task(self._create_seeded(name, spec, state)))

    async def _create_seeded(self, name: str, spec: bytes, state: bytes) -> ModelRecord:
        with self._gate:
            record = await self._threads.write(self._tables.prepare_model, name, spec)
            try:
                await self._threads.file(self._files.write, record.incarnation, SEED, state)
                await self._threads.write(self._tables.reveal_model, record, len(state))
            except BaseException:
                self._upkeep.forget(record.incarnation)
                raise
            return record

    async def find_model(self, name: str) -> ModelRecord | None:
        with self._gate:
            return await self._threads.write(self._tables.find_model, name)

    async def models(self) -> list[ModelRecord]:
        with self._gate:
            return await self._threads.write(self._tables.models)

    async def delete_model(self, record: ModelRecord) -> None:
        with self._gate:
            await self._threads.write(self._tables.hide_model, record)
            self._upkeep.forget(record.incarnation)

    # -- logs -------------------------------------------------------------------------------------

    async def append(
        self, record: ModelRecord, payloads: Sequence[bytes], after: str, durability: Durability
    ) -> list[Entry]:
        with self._gate:
            entries = await self._threads.write(self._tables.append, record, payloads, after, durability)
            self._upkeep.wrote(sum(map(len, payloads)))
            return entries

    async def read(self, record: ModelRecord, after: str, limit: int) -> list[Entry]:
        with self._gate:
            return await self._threads.write(self._tables.read, record, after, limit)

    async def changed(self, positions: Mapping[ModelRecord, str], seconds: float) -> list[ModelRecord]:
        await self._gate.until_closed(asyncio.sleep(seconds))  # nobody else can have the directory open
        return []

    async def trim(self, record: ModelRecord, through: str) -> None:
        with self._gate:
            trimmed = await self._threads.write(self._tables.mark_trimmed, record, through)
            await self._upkeep.drop_entries(record.incarnation, trimmed)

    # -- snapshots --------------------------------------------------------------------------------

    async def put_snapshot(self, record: ModelRecord, position: str, data: bytes) -> None:
        position = str(number_of(position))
        with self._gate:
            async with self._snapshot_turn:
                replaces = await self._threads.write(self._tables.has_snapshot, record, position)
                await self._threads.write(self._tables.check_position, record, position)
                await self._threads.file(self._files.write, record.incarnation, position, data)
                try:
                    await self._threads.write(self._tables.put_snapshot, record, position, len(data))
                except StorageError:
                    if not replaces:
                        await self._threads.file(self._files.remove, record.incarnation, position)
                    raise

    async def snapshots(self, record: ModelRecord) -> list[SnapshotRecord]:
        with self._gate:
            return await self._threads.write(self._tables.snapshots, record)

    async def get_snapshot(self, record: ModelRecord, position: str) -> bytes | None:
        position = str(number_of(position))
        with self._gate:
            if not await self._threads.write(self._tables.has_snapshot, record, position):
                return None
            return await self._threads.file(self._files.read, record.incarnation, position)

    async def delete_snapshot(self, record: ModelRecord, position: str) -> None:
        position = str(number_of(position))
        with self._gate:
            async with self._snapshot_turn:
                if await self._threads.write(self._tables.delete_snapshot, record, position):
                    await self._threads.file(self._files.remove, record.incarnation, position)

    async def pin_snapshot(self, record: ModelRecord, position: str, pinned: bool) -> bool:
        position = str(number_of(position))
        with self._gate:
            return await self._threads.write(self._tables.pin_snapshot, record, position, pinned)

    # -- predictions ------------------------------------------------------------------------------

    async def put_predictions(
        self, record: ModelRecord, predictions: Mapping[str, bytes], seconds: float, most: int
    ) -> None:
        with self._gate:
            await self._threads.write(self._predictions.put, record, predictions, seconds, most)
            self._upkeep.wrote(sum(map(len, predictions.values())))

    async def get_predictions(self, record: ModelRecord, ids: Sequence[str]) -> list[bytes | None]:
        with self._gate:
            return await self._threads.write(self._predictions.get, record, ids)

    # -- documents --------------------------------------------------------------------------------

    async def put_document(self, kind: str, name: str, value: bytes, *, revision: int | None) -> int:
        check_document(kind, name, value)
        with self._gate:
            new = await self._threads.write(self._documents.put, kind, name, value, revision)
            self._upkeep.wrote(len(value))
            return new

    async def get_document(self, kind: str, name: str) -> Document | None:
        check_document(kind, name)
        with self._gate:
            return await self._threads.write(self._documents.get, kind, name)

    async def list_documents(self, kind: str, after: int = 0) -> list[Document]:
        check_document(kind)
        with self._gate:
            return await collect(lambda after: self._threads.write(self._documents.page, kind, after), after)

    async def delete_document(self, kind: str, name: str, *, revision: int) -> None:
        check_document(kind, name)
        with self._gate:
            await self._threads.write(self._documents.delete, kind, name, revision)

    # -- blobs ------------------------------------------------------------------------------------

    async def put_blob(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        check_key(key)
        return await self._blobs.put(key, pieces)

    def read_blob(self, key: str) -> AsyncGenerator[bytes, None]:
        check_key(key)
        return self._blobs.read(key)

    async def delete_blob(self, key: str) -> None:
        check_key(key)
        with self._gate:
            await self._blobs.delete(key)

    async def list_blobs(self, prefix: str = "") -> list[str]:
        with self._gate:
            return await self._blobs.keys(prefix)
