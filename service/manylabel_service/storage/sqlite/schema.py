"""Schema of the database file, and setup of connections."""

import sqlite3
from pathlib import Path

import structlog

from manylabel_service.errors import StoreDamaged, StoreTooNew, StoreUnusable
from manylabel_service.release import FORMAT

APPLICATION_ID = 0x4D4C4142
"""Application id of the file ("MLAB"), by which databases of other programs are rejected."""

log = structlog.get_logger()

_SCHEMA = (
    # AUTOINCREMENT: a number is never reused, even if the newest model was deleted. A model whose name
    # is NULL is deleted; its row remains until everything else of the model is gone. The checksum of
    # the row covers the spec.
    """CREATE TABLE models (
        incarnation INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT UNIQUE,
        spec BLOB NOT NULL,
        trimmed INTEGER NOT NULL DEFAULT 0,
        leader INTEGER
    )""",
    "CREATE INDEX models_by_leader ON models (leader) WHERE leader IS NOT NULL",
    # Times of last use, in a separate table, because specs may be large. They have no checksum, because only an order
    # depends on them.
    "CREATE TABLE uses (name TEXT PRIMARY KEY, unix_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX uses_by_time ON uses (unix_ms, name)",
    # One integer (tables.py: incarnation and number in the log) as the key, so that an append writes
    # only the last page of its model's range: half the bytes of a two-column key in a measurement. A
    # row has the link before its entry (checksums.py). The last row of each log has no payload, and
    # the next entry replaces it, so a lost end of a log is detected.
    "CREATE TABLE entries (key INTEGER PRIMARY KEY, payload BLOB, link INTEGER NOT NULL, time_ms INTEGER NOT NULL)",
    """CREATE TABLE predictions (
        incarnation INTEGER NOT NULL,
        id TEXT NOT NULL,
        expires_unix_ms INTEGER NOT NULL,
        payload BLOB NOT NULL,
        PRIMARY KEY (incarnation, id)
    ) WITHOUT ROWID""",
    "CREATE INDEX predictions_by_end ON predictions (expires_unix_ms)",
    # AUTOINCREMENT: a revision is never reused, even if the last document is deleted.
    """CREATE TABLE documents (
        revision INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        value BLOB NOT NULL,
        UNIQUE (kind, name)
    )""",
    "CREATE INDEX documents_by_revision ON documents (kind, revision)",
    "CREATE TABLE blobs (key TEXT PRIMARY KEY, head BLOB NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)


def connect(path: Path, busy_timeout_seconds: float) -> sqlite3.Connection:
    """Connect in write-ahead-log mode; the connection commits only explicitly, and never runs checkpoints.

    Any thread may use it, one at a time.

    Raises
    ------
    StoreTooNew, StoreDamaged
        If the file has a later format number, or is not a database of this program; it is not changed.
    """
    connection = sqlite3.connect(
        path,
        timeout=busy_timeout_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    # A checksum detects a damaged name; it must not prevent other names from being read.
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    try:
        _check(connection, path)
        _set_up(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def mend_indexes(connection: sqlite3.Connection, path: Path) -> None:
    """Check the small tables, and rebuild their indexes if they do not match the rows.

    Entries and predictions are numerous, and are checked when they are read.

    Raises
    ------
    StoreDamaged
        If a table is damaged.
    """
    for table in ("models", "uses", "documents", "blobs"):
        if _problem(connection, "integrity_check", table) is None:
            continue
        if (problem := _problem(connection, "quick_check", table)) is not None:
            raise StoreDamaged(path, f"table {table}: {problem}")
        log.error("index_damaged", database=str(path), table=table, action="it is rebuilt from the table")
        connection.execute(f"REINDEX {table}")


def _problem(connection: sqlite3.Connection, check: str, table: str) -> str | None:
    text: str = connection.execute(f"PRAGMA {check}({table})").fetchone()[0]
    return None if text == "ok" else text


def is_new(connection: sqlite3.Connection) -> bool:
    """Return whether nothing was ever stored in the file."""
    return _pragma(connection, "schema_version") == 0


def format_number(connection: sqlite3.Connection) -> int:
    """Return the format number of the store."""
    return _pragma(connection, "user_version")


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables in a new file, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if is_new(connection):
        return
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise StoreDamaged(path, "it is a database of another program")
    if (found := format_number(connection)) > FORMAT:
        raise StoreTooNew(str(path), found=found, known=FORMAT)
    if found < 1:
        raise StoreDamaged(path, f"its format number is {found}")
    found_tables = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if not {statement for statement in _SCHEMA if statement.startswith("CREATE")} <= found_tables:
        raise StoreDamaged(path, "its tables differ from those of this release")


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreUnusable(f"{path}: no write-ahead log on this file system; use a data directory on a local disk")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: plain fsync does not reach the disk there
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    # Deleted data is overwritten, so that free pages contain no forgotten examples.
    connection.execute("PRAGMA secure_delete = ON")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
