"""Background maintenance of a store: frees the space of deleted data, and runs checkpoints."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from manylabel_service.storage.background import BackgroundTasks, attempt
from manylabel_service.storage.sqlite.database.prediction_rows import PredictionRows
from manylabel_service.storage.sqlite.database.tables import LAST_NUMBER, Tables
from manylabel_service.storage.sqlite.database.threads import Threads
from manylabel_service.storage.sqlite.database.wal_checkpointer import WalCheckpointer

PIECE_SECONDS = 0.002
"""Approximate maximum seconds for which cleaning blocks appends; it then pauses as long."""

MAX_PIECE_ROWS = 1 << 14

EMPTY_WAL_SECONDS = 60.0
"""Timeout in seconds for readers that prevent truncation of the write-ahead log."""


class Maintenance:
    """Background tasks on the tables and files of one store.

    Unfinished work continues when the store is opened next.
    """

    def __init__(
        self,
        threads: Threads,
        tables: Tables,
        predictions: PredictionRows,
        checkpoints: WalCheckpointer,
    ) -> None:
        self._threads = threads
        self._tables = tables
        self._predictions = predictions
        self._checkpoints = checkpoints
        self._tasks = BackgroundTasks()
        self._stopping = False
        # One piece at a time waits in the writer's queue, however many logs are being cleaned.
        self._turn = asyncio.Lock()

    def begin(self, hidden: list[int], trimmed: list[tuple[int, int]]) -> None:
        """Start to purge models that a killed process left partly deleted.

        Parameters
        ----------
        hidden : partly deleted models; having no name does not identify them, as new models have none yet.
        trimmed : (incarnation, last number cut) of logs.
        """
        self._start(self._clean(set(hidden), trimmed))

    def stop(self) -> None:
        """Stop every task after its current step."""
        self._stopping = True

    async def done(self) -> None:
        """Wait until no task is left."""
        await self._tasks.done()

    def wrote(self, payload_bytes: int) -> None:
        """Count a transaction, and start a checkpoint when one is due."""
        self._checkpoints.count(payload_bytes)
        if self._checkpoints.begin_if_due():
            self._start(self._checkpoint())

    async def drop_entries(self, incarnation: int, through: int) -> bool:
        """Remove entries in batches; return False if `stop` was called first."""
        return await self._by_pieces(lambda rows: self._tables.drop_entries(incarnation, through, rows))

    async def _by_pieces(self, remove: Callable[[int], int | None]) -> bool:
        """Remove rows in batches between which appends run; return False if `stop` was called first.

        Parameters
        ----------
        remove : removes up to this number of rows, in the writer; returns their bytes, or None.
        """
        rows = 256
        while not self._stopping:
            async with self._turn:
                size_bytes, seconds = await self._threads.write_urgent(_timed, remove, rows)
            if size_bytes is None:
                return True
            self.wrote(size_bytes)
            await asyncio.sleep(seconds)
            rows = max(1, rows // 2) if seconds > PIECE_SECONDS else min(2 * rows, MAX_PIECE_ROWS)
        return False

    async def _clean(self, hidden: set[int], logs: list[tuple[int, int]]) -> None:
        for incarnation, trimmed in logs:
            if incarnation in hidden:
                await self.forget(incarnation)
            else:
                await self.drop_entries(incarnation, trimmed)

    async def forget(self, incarnation: int) -> None:
        """Purge a deleted model."""
        forgotten = await self._by_pieces(lambda rows: self._predictions.forget(incarnation, rows))
        if forgotten and await self.drop_entries(incarnation, LAST_NUMBER):
            await self._threads.write_urgent(self._tables.forget_model, incarnation)

    async def empty_wal(self) -> None:
        """Checkpoint and truncate the write-ahead log, which contains recently deleted data."""
        async with asyncio.timeout(EMPTY_WAL_SECONDS):
            is_empty = False
            while not is_empty:  # while a reader prevents it
                await asyncio.sleep(PIECE_SECONDS)
                is_empty = await self._threads.write(self._checkpoints.truncate)

    async def _checkpoint(self) -> None:
        try:
            await self._threads.file(self._checkpoints.copy)
            await self._threads.write(self._checkpoints.finish)
        finally:
            self._checkpoints.end()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.begin(attempt(work))


def _timed(remove: Callable[[int], int | None], rows: int) -> tuple[int | None, float]:
    started = time.perf_counter()
    return remove(rows), time.perf_counter() - started
