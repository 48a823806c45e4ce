"""Blobs of a SQLite store: files with random tokens as names, published by the row of the key."""

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, suppress

import structlog

from manylabel_service.errors import BlobDamaged, BlobGone, BlobNotFound, StorageUnavailable
from manylabel_service.storage.blob_move import MovableBlobs
from manylabel_service.storage.blob_pieces import PIECE_BYTES, BlobManifest, StoredManifest, evenly
from manylabel_service.storage.blob_places import OutsidePieces, is_outside
from manylabel_service.storage.checksums import seal, unseal
from manylabel_service.storage.document_pages import check_key
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import ALL, Documents
from manylabel_service.storage.sqlite.engine import Engine, Part, in_writer
from manylabel_service.storage.sqlite.tables import bounds

PIECES_PER_SYNC = 8
"""Number of pieces between two syncs to disk, because a single sync at the end would delay snapshots."""

log = structlog.get_logger()


class SQLiteBlobs(MovableBlobs, Part):
    """Implements `Blobs` on the engine of a store.

    Each step passes the gate separately: a slow source or a slow reader must not block other calls.
    """

    def __init__(self, engine: Engine, documents: Documents) -> None:
        super().__init__(engine)
        self.outside = OutsidePieces(self.gate, documents)
        self._loose: set[str] = set()
        """Tokens outside whose pieces could not be removed yet."""

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        check_key(key)
        return await self._put(key, pieces)

    async def _put(self, key: str, pieces: AsyncIterable[bytes], replaced: StoredManifest | None = None) -> int:
        token = await self.outside.new_token()
        head = BlobManifest() if token is None else BlobManifest(token)
        try:
            await self._write(head, pieces)
            if replaced is not None:
                await self._verify(key, head.stored)
            with self.gate:
                old = await self._engine.threads.write(self._publish, key, head.stored.text(), replaced)
        except BaseException:
            await self._engine.background.finish(self._discard(key, head.token))
            raise
        if old is not None:
            await self._engine.background.finish(self._remove(old))
        return head.size_bytes

    async def _write(self, head: BlobManifest, pieces: AsyncIterable[bytes]) -> None:
        outside = is_outside(head.token)
        if outside:
            with self.gate:
                await self._engine.threads.file(self._engine.blob_files.complete, head.token)
        async for piece in evenly(pieces, PIECE_BYTES):
            await head.count(piece)
            if outside:
                await self.outside.put(head.token, head.pieces - 1, piece)
                continue
            with self.gate:
                add = self._engine.blob_files.add
                await self._engine.threads.file(add, head.token, piece, head.pieces % PIECES_PER_SYNC == 0)
        if not outside:
            with self.gate:
                await self._engine.threads.file(self._engine.blob_files.complete, head.token)

    def _publish(self, key: str, head: str, replaced: StoredManifest | None) -> str | None:
        """Map a key to a file; return the token of the previous file, which can be deleted."""
        with self._tables.transaction("fsync"):
            old = self._token(key)
            if replaced is not None and old != replaced.token:
                raise BlobGone(key)
            self._connection.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (key, seal(head.encode(), key)))
        return old

    def read(self, key: str) -> AsyncGenerator[bytes, None]:
        check_key(key)
        return self._read(key)

    async def _read(self, key: str) -> AsyncGenerator[bytes, None]:
        found = await self._manifest(key)
        if found is None:
            raise BlobNotFound(key)
        async with aclosing(self._checked(key, found)) as pieces:
            async for piece in pieces:
                yield piece

    async def _manifest(self, key: str) -> StoredManifest | None:
        with self.gate:
            return await self._engine.threads.write(self._find, key)

    async def _pieces(self, key: str, head: StoredManifest) -> AsyncGenerator[bytes, None]:
        async def is_current() -> bool:
            return await self._engine.threads.write(self._token, key) == head.token

        if is_outside(head.token):
            async with aclosing(self.outside.pieces(key, head, is_current)) as outside:
                async for piece in outside:
                    yield piece
            return
        for start in range(0, head.size_bytes, PIECE_BYTES):
            with self.gate:
                read, wanted = self._engine.blob_files.read, min(PIECE_BYTES, head.size_bytes - start)
                found = await self._engine.threads.file(read, head.token, start, wanted)
            if found is None:
                raise BlobGone(key)
            yield found

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
                await self._remove(token)

    async def _remove(self, token: str) -> None:
        """Remove a file, and pieces outside; pieces that could not be removed are tried again with the next call."""
        if is_outside(token):
            self._loose.add(token)
            with suppress(StorageUnavailable):
                await self.drop_loose()
            return
        with suppress(StorageUnavailable):
            await self._engine.threads.file(self._engine.blob_files.remove, token)

    async def unfinished(self, current: int | None) -> int:
        """Return 0: only this process writes blobs."""
        return 0

    async def drop_loose(self, deleted: bool = False) -> None:
        """Remove all pieces outside that no row names."""
        for token in list(self._loose):
            await self.outside.drop(token)
            await self._engine.threads.file(self._engine.blob_files.remove, token)
            self._loose.discard(token)

    def sweep(self) -> None:
        """Remove, in the writer, the files that no row names, unless a row is damaged."""
        try:
            tokens = {head.token for key in self._keys() if (head := self._find(key)) is not None}
        except BlobDamaged as error:
            log.error("blob_damaged", error=str(error))
            self._engine.blob_files.sweep((), keep_others=True)
        else:
            self._loose = set(self._engine.blob_files.sweep(tokens))

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
