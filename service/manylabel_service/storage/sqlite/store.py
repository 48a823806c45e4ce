"""Embedded store: a data directory of one process."""

from pathlib import Path

from manylabel_service.storage.gate import gated
from manylabel_service.storage.sqlite.blobs import SQLiteBlobs
from manylabel_service.storage.sqlite.documents import SQLiteDocuments
from manylabel_service.storage.sqlite.engine import Engine
from manylabel_service.storage.sqlite.logs import SQLiteLogs
from manylabel_service.storage.sqlite.models import SQLiteModels
from manylabel_service.storage.sqlite.predictions import SQLitePredictions
from manylabel_service.storage.sqlite.snapshots import SQLiteSnapshots


class SQLiteStore:
    """Implements `manylabel_service.storage.Store`, whose comments are the contract.

    Parameters
    ----------
    directory : data directory, created if necessary. One store at a time can open it.
    busy_timeout_seconds : seconds to wait for a program that locks the database (a backup, a shell) before an operation
    fails with `StorageUnavailable`.
    """

    shared = False

    def __init__(self, directory: Path, busy_timeout_seconds: float = 5.0) -> None:
        self.engine = Engine(directory, busy_timeout_seconds)
        self.gate = self.engine.gate
        self.models = SQLiteModels(self.engine)
        self.logs = SQLiteLogs(self.engine)
        self.snapshots = SQLiteSnapshots(self.engine)
        self.predictions = SQLitePredictions(self.engine)
        self.documents = SQLiteDocuments(self.engine)
        self.blobs = SQLiteBlobs(self.engine)

    async def open(self) -> None:
        await self.engine.open()

    async def close(self) -> None:
        await self.engine.close()

    @gated
    async def cleaned(self) -> None:
        """Wait until data deleted so far is removed from the disk."""
        await self.engine.cleaned()

    @gated
    async def erased(self) -> None:
        await self.engine.cleaned()
        await self.engine.maintenance.empty_wal()
