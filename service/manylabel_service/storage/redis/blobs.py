"""Blobs: pieces under a token that nobody knows, until the head of the key names it.

Pieces are written with a time to live, so that those of a process that died go by themselves. A writer that lives,
however slow, prolongs it; the last step ends it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from manylabel_service.errors import BlobGone, BlobNotFound, StorageGone
from manylabel_service.storage.blob_pieces import PIECE_BYTES, evenly
from manylabel_service.storage.gate import Gate
from manylabel_service.storage.redis.client.connection import Connection
from manylabel_service.storage.redis.keys import BLOBS, piece_key
from manylabel_service.storage.redis.scripts import Script

ORPHAN_SECONDS = 3600
"""Pieces whose writer died are gone after so long."""

PROLONG_SECONDS = 300.0
"""This often a writer says that it lives."""

_DROP = """
local base = string.sub(KEYS[1], 1, -6)
local function drop(head)
  local token, pieces = string.match(head, '^(%S+) (%d+) ')
  for number = 0, tonumber(pieces) - 1 do redis.call('UNLINK', base .. token .. '.' .. number) end
end
"""

# KEYS heads. ARGV key, token, pieces, head. What changes the head stands first: it is what Redis refuses when it is
# full, and nothing has been changed then.
_CLAIM = Script(
    _DROP,
    """
for number = 0, tonumber(ARGV[3]) - 1 do
  if redis.call('EXISTS', base .. ARGV[2] .. '.' .. number) == 0 then return {'missing'} end
end
local old = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
for number = 0, tonumber(ARGV[3]) - 1 do redis.call('PERSIST', base .. ARGV[2] .. '.' .. number) end
if old then drop(old) end
return {'ok'}
""",
)

# KEYS heads. ARGV token, pieces, seconds. One that is on its way still is not there to be prolonged.
_PROLONG = Script(
    """
local base = string.sub(KEYS[1], 1, -6)
for number = 0, tonumber(ARGV[2]) - 1 do redis.call('EXPIRE', base .. ARGV[1] .. '.' .. number, ARGV[3]) end
return {'ok'}
"""
)

# KEYS heads. ARGV key, head. Only where it is not, after all, what the key leads to.
_DISCARD = Script(
    _DROP,
    """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then drop(ARGV[2]) end
return {'ok'}
""",
)

# KEYS heads. ARGV key.
_DELETE = Script(
    _DROP,
    """
local old = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
if old then drop(old) end
return {'ok'}
""",
)


Finish = Callable[[Coroutine[Any, Any, None]], Awaitable[None]]
"""Does work to its end, also where the caller gives up, and before the store closes."""


@dataclass(slots=True)
class _Head:
    """Where the pieces of a blob are, and how far they are written."""

    token: str
    pieces: int = 0
    size_bytes: int = 0

    @classmethod
    def parse(cls, value: bytes) -> _Head:
        token, pieces, size = value.decode().split(" ")
        return cls(token, int(pieces), int(size))

    def text(self) -> str:
        return f"{self.token} {self.pieces} {self.size_bytes}"


class Blobs:
    """Of one store.

    Parameters
    ----------
    connection : to Redis.
    gate : passed for each step, since nobody shall be held up by who waits for a slow source or a slow reader.
    finish : for what has to come to its end.
    """

    def __init__(self, connection: Connection, gate: Gate, finish: Finish) -> None:
        self._connection = connection
        self._gate = gate
        self._finish = finish

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        head = _Head(secrets.token_hex(8))
        try:
            async with self._kept_alive(head):
                async for piece in evenly(pieces, PIECE_BYTES):
                    await self._write(head, piece)
            await self._claim(key, head)
        except BaseException:
            if head.pieces and self._gate.is_open:
                await self._finish(self._discard(key, head))
            raise
        return head.size_bytes

    async def _claim(self, key: str, head: _Head) -> None:
        with self._gate:
            answer = await self._connection.run(_CLAIM, (BLOBS,), key, head.token, head.pieces, head.text())
        if answer[0] == "missing":
            raise StorageGone("a part of a blob was evicted, or took too long to be written", heals=True)

    async def _discard(self, key: str, head: _Head) -> None:
        with suppress(StorageGone):  # they go by themselves
            await self._connection.run(_DISCARD, (BLOBS,), key, head.text())

    @asynccontextmanager
    async def _kept_alive(self, head: _Head) -> AsyncIterator[None]:
        task = asyncio.create_task(self._prolong(head))
        try:
            yield
        finally:
            task.cancel()

    async def _prolong(self, head: _Head) -> None:
        while True:
            await asyncio.sleep(PROLONG_SECONDS)
            with suppress(StorageGone), self._gate:  # the claim finds out what is missing
                await self._connection.run(_PROLONG, (BLOBS,), head.token, head.pieces, ORPHAN_SECONDS)

    async def _write(self, head: _Head, piece: bytes) -> None:
        number, head.pieces = head.pieces, head.pieces + 1
        with self._gate:
            await self._connection.command("SET", piece_key(head.token, number), piece, "EX", ORPHAN_SECONDS)
        head.size_bytes += len(piece)

    async def read(self, key: str) -> AsyncGenerator[bytes, None]:
        with self._gate:
            value = await self._connection.command("HGET", BLOBS, key)
        if value is None:
            raise BlobNotFound(key)
        head = _Head.parse(value)
        for number in range(head.pieces):
            with self._gate:
                piece = await self._connection.command("GET", piece_key(head.token, number))
            if piece is None:
                raise BlobGone(key)
            yield piece

    async def delete(self, key: str) -> None:
        await self._connection.run(_DELETE, (BLOBS,), key)

    async def keys(self, prefix: str) -> list[str]:
        keys = await self._connection.command("HKEYS", BLOBS)
        return sorted(text for key in keys if (text := key.decode()).startswith(prefix))
