"""Logs of a SQLite store: a table of entries."""

import asyncio
from collections.abc import Mapping, Sequence

from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import Durability, Entry, ModelMeta
from manylabel_service.storage.sqlite.engine import Part


class SQLiteLogs(Part):
    """Implements `Logs` on the engine of a store."""

    durabilities: frozenset[Durability] = frozenset(("log", "fsync"))

    @gated
    async def check(self, record: ModelMeta) -> None:
        await self._engine.threads.write(self._engine.tables.check, record)

    @gated
    async def append(
        self, record: ModelMeta, payloads: Sequence[bytes], after: str, durability: Durability
    ) -> list[Entry]:
        append = self._engine.tables.append
        entries = await self._engine.threads.write(append, record, payloads, after, durability)
        self._engine.maintenance.wrote(sum(map(len, payloads)))
        return entries

    @gated
    async def read(self, record: ModelMeta, after: str, limit: int) -> list[Entry]:
        return await self._engine.threads.write(self._engine.tables.read, record, after, limit)

    @gated
    async def entries_after(self, positions: Mapping[ModelMeta, str], most: int) -> dict[ModelMeta, int]:
        return await self._engine.threads.write(self._engine.tables.entries_after, dict(positions))

    async def changed(self, positions: Mapping[ModelMeta, str], seconds: float) -> list[ModelMeta]:
        await self.gate.until_closed(asyncio.sleep(seconds))  # no other process can open the directory
        await self._look()
        return []

    @gated
    async def _look(self) -> None:
        """Raise `StorageUnavailable` if the database file has been moved or deleted, also on an idle server."""
        await self._engine.threads.write(lambda: None)

    @gated
    async def trim(self, record: ModelMeta, through: str) -> None:
        trimmed = await self._engine.threads.write(self._engine.tables.mark_trimmed, record, through)
        await self._engine.maintenance.drop_entries(record.incarnation, trimmed)

    @gated
    async def adopt(self, successor: ModelMeta, entries: Sequence[Entry]) -> None:
        await self._engine.threads.write(self._engine.tables.adopt, successor, entries)
        self._engine.maintenance.wrote(sum(len(entry.payload) for entry in entries))

    @gated
    async def seal(self, record: ModelMeta, sealed: bool) -> None:
        await self._engine.threads.write(self._engine.tables.seal, record, sealed)
