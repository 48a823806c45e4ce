"""Snapshots of a SQLite store: a file each, valid if a row names it."""

import asyncio
from collections.abc import AsyncGenerator

from manylabel_service.errors import StorageError
from manylabel_service.storage.blob_pieces import PIECE_BYTES
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import NO_EXTENT, Bytes, LogExtent, ManualSnapshot, ModelMeta, SnapshotMeta
from manylabel_service.storage.sqlite.database.tables import number_of
from manylabel_service.storage.sqlite.engine import Engine, Part


class SQLiteSnapshots(Part):
    """Implements `Snapshots` on the engine of a store."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        # A file and its row change together, so one snapshot at a time; the filer writes one anyway.
        self._turn = asyncio.Lock()

    @gated
    async def put(
        self, record: ModelMeta, position: str, data: Bytes, extent: LogExtent = NO_EXTENT, foreign: bool = False
    ) -> None:
        position, tables = str(number_of(position)), self._engine.tables
        threads, files = self._engine.threads, self._engine.snapshot_files
        async with self._turn:
            replaces = await threads.write(tables.has_snapshot, record, position)
            if not foreign:
                await threads.write(tables.check_position, record, position)
            await threads.file(files.write, record.incarnation, position, data)
            try:
                await threads.write(tables.put_snapshot, record, position, len(data), extent, foreign)
            except StorageError:
                if not replaces:
                    await threads.file(files.remove, record.incarnation, position)
                raise

    @gated
    async def all(self, record: ModelMeta) -> list[SnapshotMeta]:
        return await self._engine.threads.write(self._engine.tables.snapshots, record)

    @gated
    async def get(self, record: ModelMeta, position: str) -> memoryview | None:
        position, threads = str(number_of(position)), self._engine.threads
        if not await threads.write(self._engine.tables.has_snapshot, record, position):
            return None
        return await threads.file(self._engine.snapshot_files.read, record.incarnation, position)

    async def read(self, record: ModelMeta, position: str) -> AsyncGenerator[bytes, None]:
        position, threads = str(number_of(position)), self._engine.threads
        with self.gate:
            size = await threads.write(self._engine.tables.snapshot_bytes, record, position)
        # Each piece passes the gate separately: a slow reader must not block other calls.
        for start in range(0, size, PIECE_BYTES):
            wanted = min(PIECE_BYTES, size - start)
            with self.gate:
                read = self._engine.snapshot_files.read_piece
                piece = await threads.file(read, record.incarnation, position, start, wanted)
            if piece is None:
                return
            yield piece

    @gated
    async def total_bytes(self) -> int:
        return await self._engine.threads.write(self._engine.tables.total_snapshot_bytes)

    @gated
    async def delete(self, record: ModelMeta, position: str) -> None:
        position, threads = str(number_of(position)), self._engine.threads
        async with self._turn:
            if await threads.write_urgent(self._engine.tables.delete_snapshot, record, position):
                await threads.file(self._engine.snapshot_files.remove, record.incarnation, position)

    @gated
    async def pin(self, record: ModelMeta, position: str, pinned: bool) -> bool:
        position = str(number_of(position))
        return await self._engine.threads.write(self._engine.tables.pin_snapshot, record, position, pinned)

    @gated
    async def keep(self, record: ModelMeta, position: str, kept: ManualSnapshot, most: int) -> bool:
        position = str(number_of(position))
        return await self._engine.threads.write(self._engine.tables.keep_snapshot, record, position, kept, most)

    @gated
    async def let_go(self, record: ModelMeta, position: str) -> bool:
        position = str(number_of(position))
        return await self._engine.threads.write_urgent(self._engine.tables.let_snapshot_go, record, position)
