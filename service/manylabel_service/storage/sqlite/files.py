"""Files of an open data directory: its lock, blobs, reserved space, and the watch over the database file. Blocking."""

import fcntl
import os
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from manylabel_service.errors import StorageUnavailable, StoreLocked
from manylabel_service.storage.blob_places import is_outside
from manylabel_service.storage.private import private_directory


class DirectoryLock:
    """Exclusive lock on ``<directory>/lock``, held within the context.

    The kernel releases it when the process ends, so no stale lock is left. The process id in the file is only for the
    error message of another process.

    Raises
    ------
    StoreLocked
        On entry, if another process, or another object in this process, holds the lock.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor = -1

    def __enter__(self) -> None:
        descriptor = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).strip()
            os.close(descriptor)
            raise StoreLocked(self._directory, int(holder) if holder.isdigit() else None) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._descriptor = descriptor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The file stays: removing it would let two openers lock two different files of the same name.
        os.close(self._descriptor)


EVERY_SECONDS = 1.0
"""Interval in seconds between two checks that the database file still has its name; for at most this time, writes to a
deleted file are acknowledged."""


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
                raise StorageUnavailable(f"{path} was {what} while the server had it open; restore it", heals=False)
        self._looked_at = now


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


RESERVE_BYTES = 4 << 20
"""Size of the reserve in bytes: enough for some hundred deletions and revocations."""

LEAST_BYTES = 64 << 10
"""Minimum size in bytes of a reserve on a nearly full disk."""


class Reserve:
    """File that reserves disk space until an urgent write needs it. Blocking."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def release(self) -> bool:
        """Release the reserved space; return whether any was reserved."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def fill(self) -> None:
        """Reserve the space again, as far as the disk allows."""
        size_bytes = RESERVE_BYTES
        while size_bytes >= LEAST_BYTES and not self._allocate(size_bytes):
            size_bytes //= 2

    def _allocate(self, size_bytes: int) -> bool:
        """Grow the file to a size; if this fails, remove the file and return False."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, size_bytes)
                else:  # macOS
                    os.pwrite(descriptor, bytes(size_bytes), 0)
            finally:
                os.close(descriptor)
        except OSError:
            with suppress(OSError):
                self._path.unlink()
            return False
        return True


class BlobFiles:
    """Files of blobs, ``<root>/<token>``. Blocking, for one thread at a time; no file stays open.

    A file is never renamed, and never changes after a row names it. A file without a row is still being written, or was
    left by a dead process. A blob with pieces outside of the store has an empty file, which is created before its first
    piece is written and removed after its last piece.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, token: str, piece: bytes, sync: bool) -> None:
        """Append to a file, created with its folder if necessary; sync on request."""
        if not self._root.is_dir():
            self._create()
        with self._file(token).open("ab", buffering=0) as file:
            write_all(file.fileno(), piece)
            if sync:
                os.fsync(file.fileno())

    def complete(self, token: str) -> None:
        """Sync a file to the disk."""
        self.add(token, b"", sync=True)
        _sync_folder(self._root)

    def read(self, token: str, start: int, size_bytes: int) -> bytes | None:
        """Read a part of a file; None if the file lacks any of it."""
        try:
            with self._file(token).open("rb", buffering=0) as file:
                data = os.pread(file.fileno(), size_bytes, start)
        except FileNotFoundError:
            return None
        return data if len(data) == size_bytes else None

    def remove(self, token: str) -> None:
        """Remove a file, if it exists."""
        self._file(token).unlink(missing_ok=True)

    def any(self) -> bool:
        """Return whether there is any file."""
        return self._root.is_dir() and next(self._root.iterdir(), None) is not None

    def sweep(self, tokens: Collection[str], keep_others: bool = False) -> list[str]:
        """Create the folder if necessary, and remove all other files unless others are kept; return the other files
        that stand for pieces outside, which stay."""
        self._create()
        others = [] if keep_others else [file for file in self._root.iterdir() if file.name not in tokens]
        for file in others:
            if not is_outside(file.name):
                file.unlink()
        return [file.name for file in others if is_outside(file.name)]

    def _create(self) -> None:
        private_directory(self._root)
        _sync_folder(self._root.parent)

    def _file(self, token: str) -> Path:
        return self._root / token


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    """Wait until created, renamed and removed names of a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
