"""Blobs: files under tokens that nobody knows, until the row of the key names them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine
from contextlib import suppress
from typing import Any

from manylabel_service.errors import BlobGone, BlobNotFound, StorageGone
from manylabel_service.storage.blob_pieces import PIECE_BYTES, evenly
from manylabel_service.storage.gate import Gate
from manylabel_service.storage.sqlite.blob_files import BlobFiles
from manylabel_service.storage.sqlite.blob_rows import BlobRows
from manylabel_service.storage.sqlite.threads import Threads

PIECES_PER_SYNC = 8
"""After so many the disk is waited for: at the end it would hold up snapshots for long."""


class Blobs:
    """Of one store.

    Parameters
    ----------
    threads : of the store.
    rows, files : what is done in them.
    gate : passed for each step, since nobody shall be held up by who waits for a slow source or a slow reader.
    """

    def __init__(self, threads: Threads, rows: BlobRows, files: BlobFiles, gate: Gate) -> None:
        self._threads = threads
        self._rows = rows
        self._files = files
        self._gate = gate
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        token = secrets.token_hex(8)
        try:
            size = await self._write(token, pieces)
            with self._gate:
                old = await self._threads.write(self._rows.put, key, token, size)
        except BaseException:
            await self._finish(self._discard(key, token))
            raise
        if old is not None:
            await self._finish(self._remove(old))
        return size

    async def _write(self, token: str, pieces: AsyncIterable[bytes]) -> int:
        size, number = 0, 0
        async for piece in evenly(pieces, PIECE_BYTES):
            number += 1
            with self._gate:
                await self._threads.file(self._files.add, token, piece, number % PIECES_PER_SYNC == 0)
            size += len(piece)
        with self._gate:
            await self._threads.file(self._files.complete, token)
        return size

    async def read(self, key: str) -> AsyncGenerator[bytes, None]:
        with self._gate:
            found = await self._threads.write(self._rows.find, key)
        if found is None:
            raise BlobNotFound(key)
        token, size = found
        for start in range(0, size, PIECE_BYTES):
            with self._gate:
                piece = await self._threads.file(self._files.read, token, start, min(PIECE_BYTES, size - start))
            if piece is None:
                raise BlobGone(key)
            yield piece

    async def delete(self, key: str) -> None:
        old = await self._threads.write(self._rows.delete, key)
        if old is not None:
            await self._finish(self._remove(old))

    async def keys(self, prefix: str) -> list[str]:
        return await self._threads.write(self._rows.keys, prefix)

    async def done(self) -> None:
        """Wait until all that has to go is gone."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _discard(self, key: str, token: str) -> None:
        """Remove a file, unless its row was written after all. What stays here, the next opening sweeps away."""
        with suppress(StorageGone), self._gate:
            found = await self._threads.write(self._rows.find, key)
            if found is None or found[0] != token:
                await self._threads.file(self._files.remove, token)

    async def _remove(self, token: str) -> None:
        with suppress(StorageGone):
            await self._threads.file(self._files.remove, token)

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it to its end, also where the caller gives up."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)
