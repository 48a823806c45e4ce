"""Threads of a store. Errors of SQLite and of the file system are converted to errors of the service."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from manylabel_service.errors import DISK_FULL, StorageFull, StorageUnavailable, StoreDamaged, StoreUnusable
from manylabel_service.storage.sqlite.files import FileWatch, Reserve

R = TypeVar("R")


class Threads:
    """The two threads of a store: one for the database, one for long waits for the disk. Their failures are raised as
    `StorageUnavailable`."""

    def __init__(self, path: Path, reserve: Reserve) -> None:
        self._path = path
        self._reserve = reserve
        self.watch: FileWatch | None = None
        """Check that runs before each call in the writer, once the store is open."""
        self.writer = ThreadPoolExecutor(1, "manylabel-writer")
        self.filer = ThreadPoolExecutor(1, "manylabel-filer")

    async def write(self, function: Callable[..., R], *args: object) -> R:
        """Call a function in the writer thread, after all earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self.writer, self._run, function, args, self.watch)

    async def write_urgent(self, function: Callable[..., R], *args: object) -> R:
        """Call a function in the writer like `write`; if the disk is full, release the reserve for it.

        The writer runs calls in order, so no other write uses the reserve.
        """
        return await asyncio.get_running_loop().run_in_executor(self.writer, self._run_urgent, function, args)

    async def file(self, function: Callable[..., R], *args: object) -> R:
        """Call a function in the filer thread, after all earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self.filer, self._run, function, args)

    async def end(self, last: Callable[[], None]) -> None:
        """Complete all calls, including those of cancelled callers, then call `last` and stop."""
        self.watch = None
        await asyncio.to_thread(self.filer.shutdown)
        try:
            await self.write(last)
        finally:
            self.writer.shutdown()

    def _run_urgent(self, function: Callable[..., R], args: tuple[object, ...]) -> R:
        try:
            try:
                return self._run(function, args, self.watch)
            except StorageUnavailable as error:
                if not lacks_room(error) or not self._reserve.release():
                    raise
            return self._run(function, args, self.watch)
        finally:
            self._reserve.fill()

    def _run(self, function: Callable[..., R], args: tuple[object, ...], watch: FileWatch | None = None) -> R:
        with while_running(self._path):
            if watch is not None:
                watch.check()
            return function(*args)


# For each primary result code: advice for the operator, and whether the same call succeeds after following it.
_SQLITE = {
    sqlite3.SQLITE_FULL: ("free space on its disk", True),
    sqlite3.SQLITE_IOERR: ("check its disk, and the quota and file size limit of the server", True),
    sqlite3.SQLITE_BUSY: ("stop the program that locks the database", True),
    sqlite3.SQLITE_LOCKED: ("stop the program that locks the database", True),
    sqlite3.SQLITE_READONLY: ("make the file and its directory writable", False),
    sqlite3.SQLITE_CANTOPEN: ("check that the file and its directory are there and writable", False),
    sqlite3.SQLITE_CORRUPT: ("the database is damaged, restore it from a backup", False),
    sqlite3.SQLITE_NOTADB: ("the database is damaged, restore it from a backup", False),
}
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def while_running(path: Path) -> Iterator[None]:
    """Raise `StorageUnavailable` for failures in the context, and `StorageFull` if there is no space."""
    try:
        yield
    except sqlite3.Error as error:
        advice, heals = _SQLITE.get(_primary(error), ("see the cause", False))
        detail = f"{path}: {_text(error)}; {advice}"
        raise (StorageFull(detail) if _is_full(error) else StorageUnavailable(detail, heals)) from error
    except UnicodeDecodeError as error:  # SQLite's message about a damaged name
        raise StorageUnavailable(f"{path}: {error.object!r}; restore it from a backup", heals=False) from error
    except OSError as error:
        place = f"{error.filename or path}: {error.strerror}"
        if error.errno in DISK_FULL:
            raise StorageFull(f"{place}; free space on its disk") from error
        raise StorageUnavailable(f"{place}; check its disk and its permissions", heals=True) from error


@contextmanager
def while_opening(path: Path) -> Iterator[None]:
    """Raise `StoreUnusable`, or `StoreDamaged` for damage, for failures in the context."""
    try:
        yield
    except sqlite3.Error as error:
        if _primary(error) in _DAMAGE:
            raise StoreDamaged(path, _text(error)) from error
        advice, _ = _SQLITE.get(_primary(error), ("see the cause", False))
        raise StoreUnusable(f"{path} cannot be opened ({_text(error)}): {advice}") from error
    except UnicodeDecodeError as error:
        raise StoreDamaged(path, repr(error.object)) from error
    except OSError as error:
        raise StoreUnusable(
            f"{error.filename or path} cannot be opened ({error.strerror}): "
            "choose a data directory that this user can create and write"
        ) from error


def lacks_room(error: StorageUnavailable) -> bool:
    """Return whether a full disk may have caused this error; SQLite reports a quota as an I/O error."""
    cause = error.__cause__
    return isinstance(error, StorageFull) or (
        isinstance(cause, sqlite3.Error) and _primary(cause) == sqlite3.SQLITE_IOERR
    )


def _is_full(error: sqlite3.Error) -> bool:
    return _primary(error) == sqlite3.SQLITE_FULL


def _primary(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", -1)  # absent if Python itself raised the error
    return code & 0xFF if code >= 0 else code


def _text(error: sqlite3.Error) -> str:
    return f"{error} [{getattr(error, 'sqlite_errorname', type(error).__name__)}]"
