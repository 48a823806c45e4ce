"""Checkpoints keep the write-ahead log short without making appends wait for the disk."""

import os
import sqlite3

PAGE_BYTES = 4096

THRESHOLD_BYTES = 16 << 20
"""Bytes of write-ahead log after which a checkpoint is due. Measured at 250 appends of 15 kB a second on
an ordinary disk: the append that meets one waits about 3 ms, and 12 to 60 ms when SQLite does it in
the commit."""


class WalCheckpointer:
    """Scheduler of WAL checkpoints, which run in two steps.

    SQLite's own way is to do it all in the commit that crosses the threshold, which then waits for
    the disk. Here the bulk is copied over another connection while appends continue. They make the log
    longer meanwhile, and it restarts only when all of it is copied: so the writer copies the
    short rest.

    Parameters
    ----------
    writer : the connection that writes; `finish` is for its thread.
    other : a second one to the same file; `copy` is for any other thread.
    descriptor : the same file once more, to wait for the disk with.
    """

    def __init__(self, writer: sqlite3.Connection, other: sqlite3.Connection, descriptor: int) -> None:
        self._writer = writer
        self._other = other
        self._descriptor = descriptor
        self._log_bytes = 0
        self._under_way = False

    def count(self, payload_bytes: int) -> None:
        """Count a transaction that wrote this payload."""
        # At least the page begun before and an inner page of the tree; the exact size is unknown.
        self._log_bytes += payload_bytes + 2 * PAGE_BYTES

    def begin_if_due(self) -> bool:
        """Return True when the two steps are to be done now; not again before `end`."""
        if self._under_way or self._log_bytes < THRESHOLD_BYTES:
            return False
        self._under_way = True
        self._log_bytes = 0
        return True

    def copy(self) -> None:
        """Copy the bulk, beside the writer."""
        self._other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        # SQLite leaves this to the connection that copies the last page: the writer.
        os.fsync(self._descriptor)

    def finish(self) -> None:
        """Copy the rest, in the writer's thread, after `copy`."""
        self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def truncate(self) -> bool:
        """Copy all of it, and cut the file to nothing, in the writer's thread; return whether no reader was there."""
        (is_busy, *_) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy

    def end(self) -> None:
        """Note that both steps are done, or failed: the next checkpoint may begin."""
        self._under_way = False
