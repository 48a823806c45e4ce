"""Background maintenance of a store: space of deleted data is freed, and checkpoints do not block appends."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from manylabel_service.backoff import pauses
from manylabel_service.errors import StorageUnavailable
from manylabel_service.storage.background import BackgroundTasks, attempt
from manylabel_service.storage.sqlite.threads import Threads

PAGE_BYTES = 4096

THRESHOLD_BYTES = 16 << 20
"""Bytes of write-ahead log after which a checkpoint is due. In a measurement with 250 appends of 15 kB per second on an
ordinary disk, an append during a checkpoint waits about 3 ms, and 12 to 60 ms if SQLite runs the checkpoint in the
commit."""


class WalCheckpointer:
    """Scheduler of WAL checkpoints, which run in two steps.

    SQLite would run a checkpoint in the commit that crosses the threshold, and this commit would wait for the disk.
    Here another connection copies most pages while appends continue. The log restarts only after all of it is copied,
    so the writer copies the few remaining pages.

    Parameters
    ----------
    writer : writing connection; call `finish` in its thread.
    other : second connection to the same file; call `copy` in another thread.
    descriptor : descriptor of the same file, for syncs.
    """

    def __init__(self, writer: sqlite3.Connection, other: sqlite3.Connection, descriptor: int) -> None:
        self._writer = writer
        self._other = other
        self._descriptor = descriptor
        self._log_bytes = 0
        self._under_way = False

    def count(self, payload_bytes: int) -> None:
        """Count a transaction that wrote this payload."""
        # At least the current leaf page and an inner page of the tree; the exact size is unknown.
        self._log_bytes += payload_bytes + 2 * PAGE_BYTES

    def begin_if_due(self) -> bool:
        """Return True if the two steps are due now; then return False until `end`."""
        if self._under_way or self._log_bytes < THRESHOLD_BYTES:
            return False
        self._under_way = True
        self._log_bytes = 0
        return True

    def copy(self) -> None:
        """Copy most pages, concurrently with the writer."""
        self._other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        # SQLite syncs in the connection that copies the last page: the writer.
        os.fsync(self._descriptor)

    def finish(self) -> None:
        """Copy the remaining pages, in the writer's thread, after `copy`."""
        self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def truncate(self) -> bool:
        """Copy all pages and truncate the file, in the writer's thread; return False if a reader prevents it.

        It does not wait for readers, because appends would also wait.
        """
        ((timeout_ms,),) = self._writer.execute("PRAGMA busy_timeout").fetchall()
        self._writer.execute("PRAGMA busy_timeout = 0").fetchall()
        try:
            ((is_busy, *_),) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._writer.execute(f"PRAGMA busy_timeout = {timeout_ms}").fetchall()
        return not is_busy

    def end(self) -> None:
        """Record that both steps are done or failed, so that the next checkpoint can begin."""
        self._under_way = False


PIECE_SECONDS = 0.002
"""Approximate maximum seconds for which cleaning blocks appends; it then pauses for the same time."""

MAX_PIECE_ROWS = 1 << 14

EMPTY_WAL_SECONDS = 60.0
"""Timeout in seconds for readers that prevent truncation of the write-ahead log."""
EMPTY_WAL_PAUSES_SECONDS = (PIECE_SECONDS, 2.0)
"""Minimum and maximum seconds between two attempts to truncate the write-ahead log."""


class Maintenance:
    """Background tasks on the tables and files of one store.

    Unfinished work continues at the next opening of the store.
    """

    def __init__(self, threads: Threads, checkpoints: WalCheckpointer) -> None:
        self._threads = threads
        self._checkpoints = checkpoints
        self._loop = asyncio.get_running_loop()
        self._tasks = BackgroundTasks()
        self._stopping = False
        # Only one piece at a time waits in the writer's queue, however many logs are being cleaned.
        self._turn = asyncio.Lock()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work in the background."""
        self._tasks.begin(attempt(work))

    def stop(self) -> None:
        """Stop every task after its current step."""
        self._stopping = True

    async def done(self) -> None:
        """Wait until no task is left."""
        await self._tasks.done()

    def wrote(self, payload_bytes: int) -> None:
        """Count a transaction, in the writer, and start a checkpoint when one is due."""
        self._checkpoints.count(payload_bytes)
        if self._checkpoints.begin_if_due():
            self._loop.call_soon_threadsafe(lambda: self.begin(self._checkpoint()))

    async def by_pieces(self, remove: Callable[..., int | None], *args: object) -> bool:
        """Remove rows in batches between which appends run; return False if `stop` was called first.

        Parameters
        ----------
        remove : function of `args` and a number of rows; it removes up to this number of rows, in the writer, and
            returns their bytes, or None if there are no rows.
        """
        rows = 256
        while not self._stopping:
            async with self._turn:
                all_gone, seconds = await self._threads.write_urgent(self._remove, partial(remove, *args, rows))
            if all_gone:
                return True
            await asyncio.sleep(seconds)
            rows = max(1, rows // 2) if seconds > PIECE_SECONDS else min(2 * rows, MAX_PIECE_ROWS)
        return False

    def _remove(self, remove: Callable[[], int | None]) -> tuple[bool, float]:
        started = time.perf_counter()
        size_bytes = remove()
        if size_bytes is not None:
            self.wrote(size_bytes)
        return size_bytes is None, time.perf_counter() - started

    async def empty_wal(self) -> None:
        """Checkpoint and truncate the write-ahead log, which contains recently deleted data.

        Raises
        ------
        StorageUnavailable
            A program reads the database, and prevents it.
        """
        try:
            async with asyncio.timeout(EMPTY_WAL_SECONDS):
                for pause in pauses(*EMPTY_WAL_PAUSES_SECONDS):
                    await asyncio.sleep(pause)
                    if await self._threads.write(self._checkpoints.truncate):
                        return
        except TimeoutError as error:
            detail = "a program reads the database, so its write-ahead log keeps deleted data; end the program"
            raise StorageUnavailable(detail, heals=True) from error

    async def _checkpoint(self) -> None:
        try:
            await self._threads.file(self._checkpoints.copy)
            await self._threads.write(self._checkpoints.finish)
        finally:
            self._checkpoints.end()
