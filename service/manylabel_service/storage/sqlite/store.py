"""Embedded store: a data directory of one process."""

from pathlib import Path

from manylabel_service.clock import now_ms
from manylabel_service.storage.background import attempt
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import Durability
from manylabel_service.storage.snapshots import Snapshots
from manylabel_service.storage.sqlite.blobs import SQLiteBlobs
from manylabel_service.storage.sqlite.documents import SQLiteDocuments
from manylabel_service.storage.sqlite.engine import Engine
from manylabel_service.storage.sqlite.logs import SQLiteLogs
from manylabel_service.storage.sqlite.models import SQLiteModels
from manylabel_service.storage.sqlite.predictions import SQLitePredictions
from manylabel_service.storage.sqlite.schema import format_number


class SQLiteStore:
    """Implements `manylabel_service.storage.Store`, whose docstrings are the contract.

    Parameters
    ----------
    directory : data directory, created if necessary. One store at a time can open it.
    busy_timeout_seconds : seconds to wait for a program that locks the database (a backup, a shell) before an operation
        fails with `StorageUnavailable`.
    durability : durability of appends.
    """

    shared = False

    def __init__(self, directory: Path, busy_timeout_seconds: float = 5.0, durability: Durability = "log") -> None:
        self.engine = Engine(directory, busy_timeout_seconds, durability)
        self.gate = self.engine.gate
        self.logs = SQLiteLogs(self.engine)
        self.predictions = SQLitePredictions(self.engine)
        self.documents = SQLiteDocuments(self.engine)
        self.blobs = SQLiteBlobs(self.engine, self.documents)
        self.snapshots = Snapshots(self.gate, self.logs, self.documents, self.blobs)
        self.models = SQLiteModels(self.engine, self.logs, self.predictions, self.snapshots)

    async def open(self) -> None:
        opened_ms = now_ms()
        await self.engine.open(self._load)
        self.engine.maintenance.begin(self.models.clean())
        await self._begin_collecting(opened_ms)

    def _load(self) -> None:
        self.models.load()
        self.blobs.sweep()

    @gated
    async def _begin_collecting(self, before_ms: int) -> None:
        self.engine.background.begin(attempt(self._collect_garbage(before_ms)))

    async def _collect_garbage(self, before_ms: int) -> None:
        await self.snapshots.collect_garbage(await self.models.all(), before_ms)
        await self.blobs.drop_loose()

    async def close(self) -> None:
        await self.engine.close()

    @gated
    async def format(self) -> int:
        return self.gate.supported(self.engine.path, await self.engine.threads.write(self._format))

    def _format(self) -> int:
        return format_number(self.engine.tables.connection)

    @gated
    async def raise_format(self, number: int) -> None:
        await self.engine.threads.write(self._raise_format, number)

    def _raise_format(self, number: int) -> None:
        with self.engine.tables.transaction("fsync"):
            self.engine.tables.connection.execute(f"PRAGMA user_version = {number}")

    @gated
    async def cleaned(self) -> None:
        """Wait until data deleted so far is removed from the disk."""
        await self.engine.cleaned()

    @gated
    async def erased(self) -> None:
        await self.engine.cleaned()
        await self.blobs.drop_loose()
        await self.engine.maintenance.empty_wal()
