"""The table of blobs: from keys to the tokens that their files are named by."""

from __future__ import annotations

import sqlite3

from manylabel_service.storage.sqlite.database.tables import Tables


class BlobRows:
    """The rows of blobs on one connection. Blocking; for the thread of its tables.

    Parameters
    ----------
    connection : of the tables.
    tables : make the transactions.
    """

    def __init__(self, connection: sqlite3.Connection, tables: Tables) -> None:
        self._connection = connection
        self._tables = tables

    def put(self, key: str, token: str, size_bytes: int) -> str | None:
        """Let a key lead to a file; return the token of the one before, which can go."""
        with self._tables.transaction("fsync"):
            old = self.find(key)
            self._connection.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?, ?)", (key, token, size_bytes))
        return old and old[0]

    def find(self, key: str) -> tuple[str, int] | None:
        """Return token and size of the file that a key leads to."""
        row = self._connection.execute("SELECT token, size_bytes FROM blobs WHERE key = ?", (key,)).fetchone()
        return row and (str(row[0]), int(row[1]))

    def delete(self, key: str) -> str | None:
        """Remove the row of a key; return the token of its file, which can go."""
        with self._tables.transaction("fsync"):
            old = self.find(key)
            self._connection.execute("DELETE FROM blobs WHERE key = ?", (key,))
        return old and old[0]

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with a prefix, sorted."""
        keys = [str(key) for (key,) in self._connection.execute("SELECT key FROM blobs")]
        return sorted(key for key in keys if key.startswith(prefix))

    def tokens(self) -> set[str]:
        """Return the tokens of all files that a key leads to."""
        return {str(token) for (token,) in self._connection.execute("SELECT token FROM blobs")}
