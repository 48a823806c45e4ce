"""Documents of a SQLite store: a table keyed by revision."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from manylabel_service.errors import RevisionConflict
from manylabel_service.storage.checksums import seal
from manylabel_service.storage.document_pages import (
    PAGE_BYTES,
    PAGE_DOCUMENTS,
    Page,
    check_document,
    collect,
    intact,
    sealed_document,
)
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import Document
from manylabel_service.storage.sqlite.engine import Engine, Part, in_writer, urgent_in_writer


class SQLiteDocuments(Part):
    """Implements `Documents` on the engine of a store."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._changes = Counter[str]()

    def changes(self, kind: str) -> int:
        return self._changes[kind]

    @contextmanager
    def _change(self, kind: str) -> Iterator[None]:
        """Run a transaction that changes documents of a kind; it is counted as a change even if its outcome is
        unknown."""
        try:
            with self._tables.transaction("fsync"):
                yield
        finally:
            self._changes[kind] += 1

    @gated
    async def put(
        self, kind: str, name: str, value: bytes, *, revision: int | None, urgent: bool = False, least: int = 0
    ) -> int:
        check_document(kind, name, value)
        write = self._engine.threads.write_urgent if urgent else self._engine.threads.write
        return await write(self._put, kind, name, value, revision, least)

    def _put(self, kind: str, name: str, value: bytes, revision: int | None, least: int) -> int:
        with self._change(kind):
            self._take(kind, name, revision)
            row = self._connection.execute(
                "INSERT INTO documents (revision, kind, name, value) VALUES (?, ?, ?, ?)",
                (self._next(least) if least else None, kind, name, seal(value, kind, name)),
            )
        self._engine.maintenance.wrote(len(value))
        assert row.lastrowid is not None
        return row.lastrowid

    def _next(self, least: int) -> int:
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
        return max(least, (row[0] if row else 0) + 1)

    @in_writer
    def get(self, kind: str, name: str) -> Document | None:
        check_document(kind, name)
        row = self._connection.execute(
            "SELECT name, revision, value FROM documents WHERE kind = ? AND name = ?", (kind, name)
        ).fetchone()
        return row and intact(kind, sealed_document(kind, *row))

    @gated
    async def all(self, kind: str, after: int = 0) -> list[Document]:
        check_document(kind)
        return await collect(partial(self._engine.threads.write, self._page, kind), after)

    def _page(self, kind: str, after: int) -> Page:
        """Return the next page of documents that changed after a revision."""
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

    @in_writer
    def revisions(self, kind: str) -> dict[str, int]:
        check_document(kind)
        return dict(self._connection.execute("SELECT name, revision FROM documents WHERE kind = ?", (kind,)).fetchall())

    @in_writer
    def revision(self, kind: str, name: str) -> int | None:
        check_document(kind, name)
        return self._revision(kind, name)

    @urgent_in_writer
    def delete(self, kind: str, name: str, *, revision: int) -> None:
        check_document(kind, name)
        with self._change(kind):
            self._take(kind, name, revision)

    def _take(self, kind: str, name: str, revision: int | None) -> None:
        """Remove the row of a document, which must be at this revision; if `revision` is None, there must be no row."""
        found = self._revision(kind, name)
        if found != revision:
            raise RevisionConflict(kind, name, revision, found)
        if found is not None:
            self._connection.execute("DELETE FROM documents WHERE revision = ?", (found,))

    def _revision(self, kind: str, name: str) -> int | None:
        row = self._connection.execute(
            "SELECT revision FROM documents WHERE kind = ? AND name = ?", (kind, name)
        ).fetchone()
        return row and int(row[0])
