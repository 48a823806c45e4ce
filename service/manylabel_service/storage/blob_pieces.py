"""Chunks of large values, which are never written, read or compared in one step."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from manylabel_service.environment import secrets
from manylabel_service.errors import BlobDamaged
from manylabel_service.storage.background import open_in_thread
from manylabel_service.storage.protocol import Bytes

PIECE_BYTES = 4 << 20
"""Bytes of a piece; receiving a piece blocks Redis, and copying it blocks the event loop."""


HASHED_AT_ONCE = 1 << 16
"""Maximum bytes of a piece that is hashed on the event loop."""


@dataclass(slots=True)
class BlobManifest:
    """Manifest of a blob: location of its pieces, progress of the write, and checksum of the bytes so far."""

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    pieces: int = 0
    size_bytes: int = 0
    _hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=8))

    @property
    def checksum(self) -> str:
        """Checksum in hexadecimal digits."""
        return str(self._hash.hexdigest())

    @property
    def stored(self) -> "StoredManifest":
        """This manifest as the manifest of a complete blob."""
        return StoredManifest(self.token, self.pieces, self.size_bytes, self.checksum)

    async def count(self, piece: bytes) -> None:
        """Count a chunk that was written or read."""
        if len(piece) <= HASHED_AT_ONCE:
            self._hash.update(piece)
        else:
            await asyncio.to_thread(self._hash.update, piece)
        self.pieces += 1
        self.size_bytes += len(piece)


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """Manifest of a complete blob."""

    token: str
    pieces: int
    size_bytes: int
    checksum: str

    @classmethod
    def parse(cls, key: str, text: str) -> Self:
        """Return the manifest of a key; raise `BlobDamaged` for other text."""
        try:
            token, pieces, size, checksum = text.split(" ")
            return cls(token, int(pieces), int(size), checksum)
        except ValueError:
            raise BlobDamaged(key) from None

    def text(self) -> str:
        """Return the stored form of the manifest."""
        return f"{self.token} {self.pieces} {self.size_bytes} {self.checksum}"

    async def checked(
        self, key: str, pieces: AsyncGenerator[bytes, None], place: Callable[[], str] = str
    ) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of the blob. If the checksum differs, raise `BlobDamaged`, with the place, before the last
        chunk."""
        found = BlobManifest()
        async with aclosing(pieces):
            async for piece in pieces:
                await found.count(piece)
                if found.size_bytes >= self.size_bytes and not self._is_of(found):
                    raise BlobDamaged(key, place())
                yield piece
        if not self._is_of(found):
            raise BlobDamaged(key, place())

    def _is_of(self, found: BlobManifest) -> bool:
        return (found.size_bytes, found.checksum) == (self.size_bytes, self.checksum)


class _Readable(Protocol):
    def read(self, key: str) -> AsyncGenerator[bytes, None]: ...


class _Writable(Protocol):
    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int: ...


async def pieces_of(data: Bytes) -> AsyncGenerator[bytes, None]:
    """Cut bytes in memory into pieces."""
    view = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])


async def pieces_of_file(path: Path) -> AsyncGenerator[bytes, None]:
    """Read a file in pieces, in a thread."""
    file = await open_in_thread(lambda: path.open("rb"))
    try:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
    finally:
        await asyncio.to_thread(file.close)


async def file_to_blob(blobs: _Writable, path: Path, key: str) -> int:
    """Store a file as a blob, always close the file, and return its size in bytes. Raises the errors of `put`."""
    async with aclosing(pieces_of_file(path)) as pieces:
        return await blobs.put(key, pieces)


async def blob_to_file(blobs: _Readable, key: str, path: Path) -> int:
    """Write a blob to a file, in a thread, and return its size in bytes. After an error the file is incomplete.

    Raises
    ------
    BlobNotFound
        The blob is missing, or (`BlobGone`) was removed.
    OSError
        The file cannot be written.
    """
    size = 0
    file = await open_in_thread(lambda: path.open("wb"))
    try:
        async with aclosing(blobs.read(key)) as pieces:
            async for piece in pieces:
                size += await asyncio.to_thread(file.write, piece)
    finally:
        await asyncio.to_thread(file.close)
    return size


async def blob_bytes(blobs: _Readable, key: str) -> bytes:
    """Return a whole blob, which must be small. Raises `BlobNotFound`."""
    async with aclosing(blobs.read(key)) as pieces:
        return b"".join([piece async for piece in pieces])


async def evenly(pieces: AsyncIterable[bytes], size_bytes: int) -> AsyncGenerator[bytes, None]:
    """Split bytes into nonempty pieces of equal size; the last piece may be smaller."""
    held = bytearray()
    async for piece in pieces:
        if len(piece) == size_bytes and not held:
            yield piece  # the common case needs no copies
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
