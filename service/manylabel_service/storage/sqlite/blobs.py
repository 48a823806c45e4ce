"""Blobs of a SQLite store: files with random tokens as names, published by the row of the key."""

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, suppress

import structlog

from manylabel_service.errors import BlobDamaged, BlobGone, BlobNotFound, StorageUnavailable
from manylabel_service.storage.blob_pieces import PIECE_BYTES, BlobManifest, StoredManifest, evenly
from manylabel_service.storage.checksums import seal, unseal
from manylabel_service.storage.document_pages import check_key
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import ALL
from manylabel_service.storage.sqlite.engine import Part, in_writer
from manylabel_service.storage.sqlite.tables import bounds

PIECES_PER_SYNC = 8
"""Number of pieces between two syncs to disk, because a single sync at the end would delay snapshots."""

log = structlog.get_logger()


class SQLiteBlobs(Part):
    """Implements `Blobs` on the engine of a store.

    Each step passes the gate separately: a slow source or a slow reader must not block other calls.
    """

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        check_key(key)
        head = BlobManifest()
        try:
            await self._write(head, pieces)
            with self.gate:
                old = await self._engine.threads.write(self._publish, key, head.text())
        except BaseException:
            await self._engine.background.finish(self._discard(key, head.token))
            raise
        if old is not None:
            await self._engine.background.finish(self._remove(old))
        return head.size_bytes

    async def _write(self, head: BlobManifest, pieces: AsyncIterable[bytes]) -> None:
        async for piece in evenly(pieces, PIECE_BYTES):
            await head.count(piece)
            with self.gate:
                add = self._engine.blob_files.add
                await self._engine.threads.file(add, head.token, piece, head.pieces % PIECES_PER_SYNC == 0)
        with self.gate:
            await self._engine.threads.file(self._engine.blob_files.complete, head.token)

    def _publish(self, key: str, head: str) -> str | None:
        """Map a key to a file; return the token of the previous file, which can be deleted."""
        with self._tables.transaction("fsync"):
            old = self._token(key)
            self._connection.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (key, seal(head.encode(), key)))
        return old

    def read(self, key: str) -> AsyncGenerator[bytes, None]:
        check_key(key)
        return self._read(key)

    async def _read(self, key: str) -> AsyncGenerator[bytes, None]:
        with self.gate:
            found = await self._engine.threads.write(self._find, key)
        if found is None:
            raise BlobNotFound(key)
        async with aclosing(found.checked(key, self._pieces(key, found))) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(self, key: str, head: StoredManifest) -> AsyncGenerator[bytes, None]:
        for start in range(0, head.size_bytes, PIECE_BYTES):
            with self.gate:
                read, wanted = self._engine.blob_files.read, min(PIECE_BYTES, head.size_bytes - start)
                piece = await self._engine.threads.file(read, head.token, start, wanted)
            if piece is None:
                raise BlobGone(key)
            yield piece

    @gated
    async def delete(self, key: str) -> None:
        check_key(key)
        old = await self._engine.threads.write_urgent(self._delete, key)
        if old is not None:
            await self._engine.background.finish(self._remove(old))

    def _delete(self, key: str) -> str | None:
        """Remove the row of a key; return the token of its file, which can be deleted."""
        with self._tables.transaction("fsync"):
            old = self._token(key)
            self._connection.execute("DELETE FROM blobs WHERE key = ?", (key,))
        return old

    @in_writer
    def keys(self, prefix: str = "", after: str = "", limit: int = ALL) -> list[str]:
        return self._keys(prefix, after, limit)

    async def _discard(self, key: str, token: str) -> None:
        """Remove a file, unless its row was written after all. If the file remains, the next opening removes it."""
        with suppress(StorageUnavailable), self.gate:
            found = await self._engine.threads.write(self._find, key)
            if found is None or found.token != token:
                await self._engine.threads.file(self._engine.blob_files.remove, token)

    async def _remove(self, token: str) -> None:
        with suppress(StorageUnavailable):
            await self._engine.threads.file(self._engine.blob_files.remove, token)

    def sweep(self) -> None:
        """Remove, in the writer, the files that no row names, unless a row is damaged."""
        try:
            tokens = {head.token for key in self._keys() if (head := self._find(key)) is not None}
        except BlobDamaged as error:
            log.error("blob_damaged", error=str(error))
            self._engine.blob_files.sweep((), keep_others=True)
        else:
            self._engine.blob_files.sweep(tokens)

    def _find(self, key: str) -> StoredManifest | None:
        """Return the manifest of the file of a key; raise `BlobDamaged`."""
        row = self._connection.execute("SELECT head FROM blobs WHERE key = ?", (key,)).fetchone()
        return row and StoredManifest.parse(key, (unseal(row[0], key) or b"").decode())

    def _token(self, key: str) -> str | None:
        """Return the token of the file of a key; None if there is no file or the row is damaged."""
        try:
            found = self._find(key)
        except BlobDamaged:
            return None
        return None if found is None else found.token

    def _keys(self, prefix: str = "", after: str = "", limit: int = ALL) -> list[str]:
        rows = self._connection.execute(
            "SELECT key FROM blobs WHERE key BETWEEN ? AND ? AND key > ? ORDER BY key LIMIT ?",
            (*bounds(prefix), after, limit),
        )
        return [str(key) for (key,) in rows]
