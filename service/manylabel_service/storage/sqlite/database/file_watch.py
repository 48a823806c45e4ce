"""Detection of removed or replaced files of an open database."""

import os
import time
from pathlib import Path

from manylabel_service.errors import StorageUnavailable

EVERY_SECONDS = 1.0
"""Interval in seconds of checks that the database file still has its name; it bounds how long writes to a deleted file
are acknowledged."""


class FileWatch:
    """Periodic check that the names of a database still refer to the open files."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._files = {path: _identity(os.fstat(descriptor))}
        log = path.with_name(f"{path.name}-wal")
        if log.exists():
            self._files[log] = _identity(log.stat())
        self._looked_at = time.monotonic()

    def check(self) -> None:
        """Raise `StorageUnavailable` while a file is missing or replaced."""
        now = time.monotonic()
        if now - self._looked_at < EVERY_SECONDS:
            return
        for path, identity in self._files.items():
            try:
                found = _identity(path.stat())
            except FileNotFoundError:
                found = None
            if found != identity:
                what = "removed" if found is None else "replaced by another file"
                raise StorageUnavailable(f"{path} was {what} while the server has it open; restore it", heals=False)
        self._looked_at = now


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
