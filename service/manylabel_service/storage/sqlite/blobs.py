"""The blobs of a SQLite store: files under tokens that nobody knows, until the row of the key names them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import suppress

from manylabel_service.errors import BlobGone, BlobNotFound, StorageGone
from manylabel_service.storage.blob_pieces import PIECE_BYTES, evenly
from manylabel_service.storage.document_pages import check_key
from manylabel_service.storage.gate import gated
from manylabel_service.storage.sqlite.engine import Part

PIECES_PER_SYNC = 8
"""After so many the disk is waited for: at the end it would hold up snapshots for long."""


class SQLiteBlobs(Part):
    """Implements `Blobs` on the engine of a store.

    The gate is passed for each step, since nobody shall be held up by who waits for a slow source or a slow reader.
    """

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        check_key(key)
        token = secrets.token_hex(8)
        try:
            size = await self._write(token, pieces)
            with self.gate:
                old = await self._engine.threads.write(self._engine.blob_rows.put, key, token, size)
        except BaseException:
            await self._engine.background.finish(self._discard(key, token))
            raise
        if old is not None:
            await self._engine.background.finish(self._remove(old))
        return size

    async def _write(self, token: str, pieces: AsyncIterable[bytes]) -> int:
        size, number = 0, 0
        async for piece in evenly(pieces, PIECE_BYTES):
            number += 1
            with self.gate:
                add = self._engine.blob_files.add
                await self._engine.threads.file(add, token, piece, number % PIECES_PER_SYNC == 0)
            size += len(piece)
        with self.gate:
            await self._engine.threads.file(self._engine.blob_files.complete, token)
        return size

    def read(self, key: str) -> AsyncGenerator[bytes, None]:
        check_key(key)
        return self._read(key)

    async def _read(self, key: str) -> AsyncGenerator[bytes, None]:
        with self.gate:
            found = await self._engine.threads.write(self._engine.blob_rows.find, key)
        if found is None:
            raise BlobNotFound(key)
        token, size = found
        for start in range(0, size, PIECE_BYTES):
            with self.gate:
                read, wanted = self._engine.blob_files.read, min(PIECE_BYTES, size - start)
                piece = await self._engine.threads.file(read, token, start, wanted)
            if piece is None:
                raise BlobGone(key)
            yield piece

    @gated
    async def delete(self, key: str) -> None:
        check_key(key)
        old = await self._engine.threads.write(self._engine.blob_rows.delete, key)
        if old is not None:
            await self._engine.background.finish(self._remove(old))

    @gated
    async def keys(self, prefix: str = "") -> list[str]:
        return await self._engine.threads.write(self._engine.blob_rows.keys, prefix)

    async def _discard(self, key: str, token: str) -> None:
        """Remove a file, unless its row was written after all. What stays here, the next opening sweeps away."""
        with suppress(StorageGone), self.gate:
            found = await self._engine.threads.write(self._engine.blob_rows.find, key)
            if found is None or found[0] != token:
                await self._engine.threads.file(self._engine.blob_files.remove, token)

    async def _remove(self, token: str) -> None:
        with suppress(StorageGone):
            await self._engine.threads.file(self._engine.blob_files.remove, token)
