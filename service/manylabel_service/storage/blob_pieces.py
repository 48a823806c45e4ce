"""Pieces of blobs: large bytes are never in memory as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

PIECE_BYTES = 4 << 20
"""Redis does nothing else while it takes in a piece, nor does the event loop while it copies one."""


class _Readable(Protocol):
    def read(self, key: str) -> AsyncGenerator[bytes, None]: ...


async def pieces_of(data: bytes) -> AsyncGenerator[bytes, None]:
    """Cut bytes in memory into pieces."""
    view = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])


async def pieces_of_file(path: Path) -> AsyncGenerator[bytes, None]:
    """Read a file in pieces, in a thread."""
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
    finally:
        await asyncio.to_thread(file.close)


async def blob_to_file(blobs: _Readable, key: str, path: Path) -> int:
    """Write a blob to a file, in a thread, and return its size in bytes. After an error the file is worthless.

    Raises
    ------
    BlobNotFound
        There is none, or (`BlobGone`) it is no longer there.
    OSError
        The file cannot be written.
    """
    size = 0
    file = await asyncio.to_thread(path.open, "wb")
    try:
        async with aclosing(blobs.read(key)) as pieces:
            async for piece in pieces:
                size += await asyncio.to_thread(file.write, piece)
    finally:
        await asyncio.to_thread(file.close)
    return size


async def blob_bytes(blobs: _Readable, key: str) -> bytes:
    """Return a whole blob, which is known to be small. Raises `BlobNotFound`, as `blob_to_file`."""
    async with aclosing(blobs.read(key)) as pieces:
        return b"".join([piece async for piece in pieces])


async def evenly(pieces: AsyncIterable[bytes], size_bytes: int) -> AsyncGenerator[bytes, None]:
    """Cut bytes anew into pieces of one size, the last one smaller; none of them is empty."""
    held = bytearray()
    async for piece in pieces:
        if len(piece) == size_bytes and not held:
            yield piece  # as most are: no copies
            continue
        view = memoryview(piece)
        while view:
            room = size_bytes - len(held)
            held += view[:room]
            view = view[room:]
            if len(held) == size_bytes:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)
