"""Blobs of a Redis store: pieces under a random token, published by the head of the key.

Pieces are written with a time to live, so that those of a dead process expire. A living writer extends it; the last
step makes the pieces permanent.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

from manylabel_service.errors import BlobGone, BlobNotFound, StorageUnavailable
from manylabel_service.storage.blob_pieces import PIECE_BYTES, BlobManifest, StoredManifest, evenly
from manylabel_service.storage.document_pages import check_key
from manylabel_service.storage.gate import gated
from manylabel_service.storage.redis.engine import Part
from manylabel_service.storage.redis.keys import BLOBS, piece_key
from manylabel_service.storage.redis.scripts import Script

ORPHAN_SECONDS = 3600
"""Seconds after which the pieces of a writer that died are removed."""

PROLONG_SECONDS = 300.0
"""Interval in seconds at which a writer renews its claim on unfinished blobs."""

_DROP = """
local base = string.sub(KEYS[1], 1, -6)
local function drop(head)
  local token, pieces = string.match(head, '^(%S+) (%d+) ')
  for number = 0, tonumber(pieces) - 1 do redis.call('UNLINK', base .. token .. '.' .. number) end
end
"""

# KEYS heads. ARGV key, token, pieces, head. The command that changes the head comes first: if Redis is full, it refuses
# that command, and nothing has changed.
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

# KEYS heads. ARGV token, pieces, seconds. A piece that is still being written does not exist yet, so its time to live
# is not extended.
_PROLONG = Script(
    """
local base = string.sub(KEYS[1], 1, -6)
for number = 0, tonumber(ARGV[2]) - 1 do redis.call('EXPIRE', base .. ARGV[1] .. '.' .. number, ARGV[3]) end
return {'ok'}
"""
)

# KEYS heads. ARGV key, head. The pieces are deleted only if the key does not refer to this head.
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


class RedisBlobs(Part):
    """Implements `Blobs` on the engine of a store.

    Each step passes the gate separately: a slow source or a slow reader must not block other calls.
    """

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        check_key(key)
        head = BlobManifest()
        try:
            async with self._kept_alive(head):
                async for piece in evenly(pieces, PIECE_BYTES):
                    await self._write(head, piece)
            await self._claim(key, head)
        except BaseException:
            if head.pieces and self.gate.is_open:
                await self._engine.background.finish(self._discard(key, head))
            raise
        return head.size_bytes

    async def _claim(self, key: str, head: BlobManifest) -> None:
        with self.gate:
            answer = await self._engine.connection.run(_CLAIM, (BLOBS,), key, head.token, head.pieces, head.text())
        if answer[0] == "missing":
            raise StorageUnavailable("a part of a blob was evicted, or took too long to be written", heals=True)

    async def _discard(self, key: str, head: BlobManifest) -> None:
        with suppress(StorageUnavailable):  # they expire
            await self._engine.connection.run(_DISCARD, (BLOBS,), key, head.text())

    @asynccontextmanager
    async def _kept_alive(self, head: BlobManifest) -> AsyncIterator[None]:
        task = asyncio.create_task(self._prolong(head))
        try:
            yield
        finally:
            task.cancel()

    async def _prolong(self, head: BlobManifest) -> None:
        while True:
            await asyncio.sleep(PROLONG_SECONDS)
            with suppress(StorageUnavailable), self.gate:  # the claim detects missing pieces
                await self._engine.connection.run(_PROLONG, (BLOBS,), head.token, head.pieces, ORPHAN_SECONDS)

    async def _write(self, head: BlobManifest, piece: bytes) -> None:
        await head.count(piece)
        with self.gate:
            key = piece_key(head.token, head.pieces - 1)
            await self._engine.connection.command("SET", key, piece, "EX", ORPHAN_SECONDS)

    def read(self, key: str) -> AsyncGenerator[bytes, None]:
        check_key(key)
        return self._read(key)

    async def _read(self, key: str) -> AsyncGenerator[bytes, None]:
        with self.gate:
            value = await self._engine.connection.command("HGET", BLOBS, key)
        if value is None:
            raise BlobNotFound(key)
        head = StoredManifest.parse(key, value.decode(errors="replace"))
        async with aclosing(head.checked(key, self._pieces(key, head))) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(self, key: str, head: StoredManifest) -> AsyncGenerator[bytes, None]:
        for number in range(head.pieces):
            with self.gate:
                piece = await self._engine.connection.command("GET", piece_key(head.token, number))
            if piece is None:
                raise BlobGone(key)
            yield piece

    @gated
    async def delete(self, key: str) -> None:
        check_key(key)
        await self._engine.connection.run(_DELETE, (BLOBS,), key)

    @gated
    async def keys(self, prefix: str = "") -> list[str]:
        keys = await self._engine.connection.command("HKEYS", BLOBS)
        return sorted(text for key in keys if (text := key.decode(errors="replace")).startswith(prefix))
