"""Table of documents, keyed by revision."""

import sqlite3
from contextlib import closing

from manylabel_service.errors import RevisionConflict
from manylabel_service.storage.checksums import seal
from manylabel_service.storage.document_pages import PAGE_BYTES, PAGE_DOCUMENTS, Page, sealed_document
from manylabel_service.storage.protocol import Document
from manylabel_service.storage.sqlite.database.tables import Tables


class DocumentRows:
    """Documents of all kinds on one connection. Blocking; for the thread of its tables."""

    def __init__(self, connection: sqlite3.Connection, tables: Tables) -> None:
        self._connection = connection
        self._tables = tables

    def put(self, kind: str, name: str, value: bytes, revision: int | None, least: int = 0) -> int:
        with self._tables.transaction("fsync"):
            self._take(kind, name, revision)
            row = self._connection.execute(
                "INSERT INTO documents (revision, kind, name, value) VALUES (?, ?, ?, ?)",
                (self._next(least) if least else None, kind, name, seal(value, kind, name)),
            )
        assert row.lastrowid is not None
        return row.lastrowid

    def get(self, kind: str, name: str) -> Document | None:
        row = self._connection.execute(
            "SELECT name, revision, value FROM documents WHERE kind = ? AND name = ?", (kind, name)
        ).fetchone()
        return row and sealed_document(kind, *row)

    def page(self, kind: str, after: int) -> Page:
        """Return the next of those that changed after a revision."""
        documents: list[Document] = []
        size_bytes = 0
        cursor = self._connection.execute(
            "SELECT name, revision, value FROM documents WHERE kind = ? AND revision > ? ORDER BY revision LIMIT ?",
            (kind, after, PAGE_DOCUMENTS),
        )
        with closing(cursor):  # an open read transaction would block checkpoints
            for row in cursor:
                documents.append(sealed_document(kind, *row))
                size_bytes += len(documents[-1].value)
                if size_bytes >= PAGE_BYTES:
                    return documents, False
        return documents, len(documents) < PAGE_DOCUMENTS

    def revisions(self, kind: str) -> dict[str, int]:
        return dict(self._connection.execute("SELECT name, revision FROM documents WHERE kind = ?", (kind,)).fetchall())

    def delete(self, kind: str, name: str, revision: int) -> None:
        with self._tables.transaction("fsync"):
            self._take(kind, name, revision)

    def _next(self, least: int) -> int:
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
        return max(least, (row[0] if row else 0) + 1)

    def _take(self, kind: str, name: str, revision: int | None) -> None:
        """Remove the row of a document, which must be at this revision; if `revision` is None, there must be no row."""
        row = self._connection.execute(
            "SELECT revision FROM documents WHERE kind = ? AND name = ?", (kind, name)
        ).fetchone()
        found = row and row[0]
        if found != revision:
            raise RevisionConflict(kind, name, revision, found)
        if found is not None:
            self._connection.execute("DELETE FROM documents WHERE revision = ?", (found,))
