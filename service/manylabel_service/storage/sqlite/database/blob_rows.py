"""Table of blobs: maps keys to the tokens of their files."""

import sqlite3

import structlog

from manylabel_service.errors import BlobDamaged
from manylabel_service.storage.blob_pieces import StoredManifest
from manylabel_service.storage.checksums import seal, unseal
from manylabel_service.storage.sqlite.database.tables import Tables

log = structlog.get_logger()


class BlobRows:
    """Rows of blobs on one connection. Blocking; for the thread of its tables."""

    def __init__(self, connection: sqlite3.Connection, tables: Tables) -> None:
        self._connection = connection
        self._tables = tables

    def put(self, key: str, head: str) -> str | None:
        """Map a key to a file; return the token of the previous file, which can be deleted."""
        with self._tables.transaction("fsync"):
            old = self._token(key)
            self._connection.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (key, seal(head.encode(), key)))
        return old

    def find(self, key: str) -> StoredManifest | None:
        """Return the head of the file that a key leads to; raise `BlobDamaged`."""
        row = self._connection.execute("SELECT head FROM blobs WHERE key = ?", (key,)).fetchone()
        return row and StoredManifest.parse(key, (unseal(row[0], key) or b"").decode())

    def delete(self, key: str) -> str | None:
        """Remove the row of a key; return the token of its file, which can be deleted."""
        with self._tables.transaction("fsync"):
            old = self._token(key)
            self._connection.execute("DELETE FROM blobs WHERE key = ?", (key,))
        return old

    def _token(self, key: str) -> str | None:
        """Remove a key; return the token of its file, which can be deleted, or None for a damaged row."""
        try:
            found = self.find(key)
        except BlobDamaged:
            return None
        return None if found is None else found.token

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with a prefix, sorted."""
        keys = [str(key) for (key,) in self._connection.execute("SELECT key FROM blobs")]
        return sorted(key for key in keys if key.startswith(prefix))

    def tokens(self) -> set[str] | None:
        """Return the tokens of all files with a key; None if a row is damaged."""
        try:
            keys = [str(key) for (key,) in self._connection.execute("SELECT key FROM blobs")]
            return {head.token for key in keys if (head := self.find(key)) is not None}
        except BlobDamaged as error:
            log.error("blob_damaged", error=str(error))
            return None
