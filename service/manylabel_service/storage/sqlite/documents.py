"""Documents of a SQLite store: a table keyed by revision."""

from manylabel_service.storage.document_pages import check_document, collect, intact
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import Document
from manylabel_service.storage.sqlite.engine import Part


class SQLiteDocuments(Part):
    """Implements `Documents` on the engine of a store."""

    @gated
    async def put(
        self, kind: str, name: str, value: bytes, *, revision: int | None, urgent: bool = False, least: int = 0
    ) -> int:
        check_document(kind, name, value)
        write = self._engine.threads.write_urgent if urgent else self._engine.threads.write
        new = await write(self._engine.document_rows.put, kind, name, value, revision, least)
        self._engine.maintenance.wrote(len(value))
        return new

    @gated
    async def get(self, kind: str, name: str) -> Document | None:
        check_document(kind, name)
        return intact(kind, await self._engine.threads.write(self._engine.document_rows.get, kind, name))

    @gated
    async def all(self, kind: str, after: int = 0) -> list[Document]:
        check_document(kind)
        threads, page = self._engine.threads, self._engine.document_rows.page
        return await collect(lambda after: threads.write(page, kind, after), after)

    @gated
    async def revisions(self, kind: str) -> dict[str, int]:
        check_document(kind)
        return await self._engine.threads.write(self._engine.document_rows.revisions, kind)

    @gated
    async def delete(self, kind: str, name: str, *, revision: int) -> None:
        check_document(kind, name)
        await self._engine.threads.write_urgent(self._engine.document_rows.delete, kind, name, revision)
