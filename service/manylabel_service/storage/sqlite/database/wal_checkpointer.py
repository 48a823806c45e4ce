"""Checkpoints of the write-ahead log that do not block appends."""

import os
import sqlite3

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
        """Return True if the two steps are due now; not again before `end`."""
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
        """Copy all pages and truncate the file, in the writer's thread; return whether no reader prevented it.

        It does not wait for readers: appends would wait too.
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
