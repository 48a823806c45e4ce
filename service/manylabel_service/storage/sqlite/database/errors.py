"""Translation of errors of SQLite and of the file system to errors of the service."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manylabel_service.errors import DISK_FULL, StorageFull, StorageUnavailable, StoreDamaged, StoreUnusable

# Primary result code -> advice for the operator, and whether the same call succeeds afterwards.
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
    """Return whether a full disk may cause an error of `while_running`; SQLite reports a quota as an I/O error."""
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
