"""Blobs of a Redis store: pieces under a random token, which the head of a key names.

The pieces of one blob share a hash tag; the heads of all blobs share another. So no script reaches both on a Redis
Cluster. Pieces are written with a time to live, so the pieces of a dead process expire. A live writer renews it. At the
end the blob is listed as loose, and its pieces lose their time to live. Then one step changes the head of the key,
removes the blob from the list, and adds the previous blob to it. Any process may remove loose blobs after some time.

Pieces outside of the store (`blob_places`) have no time to live. The blob is listed as loose before its first piece is
written, and a live writer renews the time in the list. So a blob that is being written is never removed.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

from manylabel_service.errors import BlobDamaged, BlobGone, BlobNotFound, StorageUnavailable
from manylabel_service.storage.blob_move import MovableBlobs
from manylabel_service.storage.blob_pieces import PIECE_BYTES, BlobManifest, StoredManifest, evenly
from manylabel_service.storage.blob_places import OutsidePieces, is_outside
from manylabel_service.storage.document_pages import check_key
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import ALL, Documents
from manylabel_service.storage.redis.engine import Engine, Part
from manylabel_service.storage.redis.keys import BLOB_NAMES, BLOBS, LOOSE, lexical_range, piece_keys
from manylabel_service.storage.redis.scripts import NOW, Script

ORPHAN_SECONDS = 3600
"""Seconds after which the pieces of a writer that died are removed."""

DELETED_SECONDS = 60
"""Seconds for which the pieces outside of a deleted blob stay: a failover may bring back what names the blob."""

PROLONG_SECONDS = 300.0
"""Interval in seconds at which a writer renews its claim on unfinished blobs."""

# KEYS loose. ARGV token and number of pieces.
_LOOSEN = Script(
    NOW,
    """
redis.call('ZADD', KEYS[1], now_ms(), ARGV[1])
return {'ok'}
""",
)

# KEYS loose. ARGV token and number of pieces. Renews the time of a loose blob that no process may remove yet.
_RENEW = Script(
    NOW,
    """
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '0') == 0 then return {'missing'} end
redis.call('ZADD', KEYS[1], now_ms(), ARGV[1])
return {'ok'}
""",
)

# KEYS pieces. The pieces of a blob stay.
_PERSIST = Script(
    """
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then return {'missing'} end
end
for i = 1, #KEYS do redis.call('PERSIST', KEYS[i]) end
return {'ok'}
"""
)

# KEYS heads, loose, names. ARGV key, token and number of pieces, head, head to replace ("" for any or none). The
# command that changes the head comes first: if Redis is full, it refuses that command, and nothing has changed.
_CLAIM = Script(
    """
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or '0') == 0 then return {'missing'} end
local old = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[4] ~= '' and old ~= ARGV[4] then return {'changed'} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[3], 0, ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[2])
if old then redis.call('ZADD', KEYS[2], 0, string.match(old, '^(%S+ %d+) ')) end
return {'ok', old or ''}
""",
)

# KEYS heads, loose. ARGV key, token and number of pieces, head. Ensures that no claim succeeds from now on. The first
# write deletes, because a full Redis refuses the first write of a script if it needs memory.
_DISCARD = Script(
    """
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[3] then return {'claimed'} end
if redis.call('ZREM', KEYS[2], ARGV[2]) == 1 then redis.call('ZADD', KEYS[2], 0, ARGV[2]) end
return {'ok'}
""",
)

# KEYS heads, loose, names. ARGV key, milliseconds after which loose pieces are removed, and those for which pieces
# outside stay.
_DELETE = Script(
    NOW,
    """
local old = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if old then
  local blob, at = string.match(old, '^(%S+ %d+) '), 0
  if string.find(blob, '.', 1, true) then at = now_ms() - ARGV[2] + ARGV[3] end
  redis.call('ZADD', KEYS[2], at, blob)
end
return {'ok', old or ''}
""",
)

# KEYS loose. ARGV milliseconds. Returns the blobs whose pieces can be removed, because no claim to them can succeed.
_ABANDON = Script(
    NOW,
    """
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms() - tonumber(ARGV[1]))
for _, blob in ipairs(found) do
  redis.call('ZREM', KEYS[1], blob)
  redis.call('ZADD', KEYS[1], 0, blob)
end
return {'ok', found}
""",
)


class RedisBlobs(MovableBlobs, Part):
    """Implements `Blobs` on the engine of a store.

    Each step passes the gate separately: a slow source or a slow reader must not block other calls.
    """

    def __init__(self, engine: Engine, documents: Documents) -> None:
        super().__init__(engine)
        self.outside = OutsidePieces(self.gate, documents)

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        check_key(key)
        return await self._put(key, pieces)

    async def _put(self, key: str, pieces: AsyncIterable[bytes], replaced: StoredManifest | None = None) -> int:
        head = await self._begin()
        try:
            async with self._kept_alive(head):
                async for piece in evenly(pieces, PIECE_BYTES):
                    await self._write(head, piece)
                if replaced is not None:
                    await self._verify(key, head.stored)
            await self._claim(key, head, replaced)
        except BaseException:
            if (head.pieces or is_outside(head.token)) and self.gate.is_open:
                await self._engine.background.finish(self._discard(key, head))
            raise
        return head.size_bytes

    async def _begin(self) -> BlobManifest:
        """Return the manifest of a new blob; one outside is listed as loose."""
        while True:
            token = await self.outside.new_token()
            if token is None:
                return BlobManifest()
            with self.gate:
                await self._engine.connection.run(_LOOSEN, (LOOSE,), _loose(head := BlobManifest(token)))
                if self.outside.is_at((await self.outside.read()).current, token):
                    return head
                # A process is moving the blobs, and read their list before this one was added.
                await self._engine.connection.command("ZREM", LOOSE, _loose(head))

    @gated
    async def _claim(self, key: str, head: BlobManifest, replaced: StoredManifest | None) -> None:
        run, blob = self._engine.connection.run, _loose(head)
        old = "" if replaced is None else replaced.text()
        answer: Any = [b"ok"]
        if not is_outside(head.token):
            await run(_LOOSEN, (LOOSE,), blob)
            pieces = piece_keys(head.token, head.pieces)
            answer = await run(_PERSIST, pieces) if pieces else answer
        if answer[0] != "missing":
            answer = await run(_CLAIM, (BLOBS, LOOSE, BLOB_NAMES), key, blob, head.stored.text(), old)
        if answer[0] == "missing":
            raise StorageUnavailable("a part of a blob was evicted, or took too long to be written", heals=True)
        if answer[0] == "changed":
            raise BlobGone(key)
        await self._drop_old(key, answer[1])

    @gated
    async def unfinished(self, current: int | None) -> int:
        """Return the number of blobs that are being written at other places than that of new blobs."""
        found = await self._engine.connection.command("ZRANGEBYSCORE", LOOSE, "(0", "+inf")
        return sum(_is_outside_blob(blob := each.decode()) and not self.outside.is_at(current, blob) for each in found)

    async def _discard(self, key: str, head: BlobManifest) -> None:
        with suppress(StorageUnavailable):  # the rest is removed when it is old enough
            answer = await self._engine.connection.run(_DISCARD, (BLOBS, LOOSE), key, _loose(head), head.stored.text())
            if answer[0] == "ok":
                await self._drop(_loose(head))

    async def _drop_old(self, key: str, head: bytes) -> None:
        """Remove the pieces of a key's previous blob."""
        if head:
            with suppress(StorageUnavailable, BlobDamaged):
                await self._engine.background.finish(self._drop(_loose(StoredManifest.parse(key, head.decode()))))

    async def _drop(self, blob: str) -> None:
        """Remove pieces that no key refers to."""
        token, n_pieces = blob.split(" ")
        if is_outside(token):
            await self.outside.drop(token, int(n_pieces) or None)
        elif pieces := piece_keys(token, int(n_pieces)):
            await self._engine.connection.command("UNLINK", *pieces)
        await self._engine.connection.command("ZREM", LOOSE, blob)

    @gated
    async def drop_loose(self, deleted: bool = False) -> None:
        answer = await self._engine.connection.run(_ABANDON, (LOOSE,), ORPHAN_SECONDS * 1000)
        blobs = [blob.decode() for blob in answer[1]]
        if deleted:
            found = [blob.decode() for blob in await self._engine.connection.command("ZRANGE", LOOSE, 0, -1)]
            blobs += [blob for blob in found if _is_outside_blob(blob) and not blob.endswith(" 0")]
            blobs = list(dict.fromkeys(blobs))
        for blob in sorted(blobs, key=_is_outside_blob):  # a place that is unavailable does not stop the others
            await self._drop(blob)

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
                if is_outside(head.token):
                    await self._engine.connection.run(_RENEW, (LOOSE,), _loose(head))
                    continue
                keys = piece_keys(head.token, head.pieces)  # the last piece may not have been written yet
                await self._engine.connection.pipeline([("EXPIRE", key, ORPHAN_SECONDS) for key in keys])

    async def _write(self, head: BlobManifest, piece: bytes) -> None:
        await head.count(piece)
        if is_outside(head.token):
            await self.outside.put(head.token, head.pieces - 1, piece)
            return
        with self.gate:
            key = piece_keys(head.token, head.pieces)[-1]
            await self._engine.connection.command("SET", key, piece, "EX", ORPHAN_SECONDS)

    def read(self, key: str) -> AsyncGenerator[bytes, None]:
        check_key(key)
        return self._read(key)

    async def _read(self, key: str) -> AsyncGenerator[bytes, None]:
        head = await self._manifest(key)
        if head is None:
            raise BlobNotFound(key)
        async with aclosing(self._checked(key, head)) as pieces:
            async for piece in pieces:
                yield piece

    async def _manifest(self, key: str) -> StoredManifest | None:
        with self.gate:
            value = await self._engine.connection.command("HGET", BLOBS, key)
        return None if value is None else StoredManifest.parse(key, value.decode(errors="replace"))

    async def _pieces(self, key: str, head: StoredManifest) -> AsyncGenerator[bytes, None]:
        async def is_current() -> bool:
            return await self._manifest(key) == head

        if is_outside(head.token):
            async with aclosing(self.outside.pieces(key, head, is_current)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        for name in piece_keys(head.token, head.pieces):
            with self.gate:
                piece = await self._engine.connection.command("GET", name)
            if piece is None:
                raise BlobGone(key)
            yield piece

    @gated
    async def delete(self, key: str) -> None:
        check_key(key)
        times = ORPHAN_SECONDS * 1000, DELETED_SECONDS * 1000
        answer = await self._engine.connection.run(_DELETE, (BLOBS, LOOSE, BLOB_NAMES), key, *times)
        if not _is_outside_blob(answer[1].decode(errors="replace")):
            await self._drop_old(key, answer[1])

    @gated
    async def keys(self, prefix: str = "", after: str = "", limit: int = ALL) -> list[str]:
        command = self._engine.connection.command
        keys = await command("ZRANGEBYLEX", BLOB_NAMES, *lexical_range(prefix, after), "LIMIT", 0, limit)
        return [key.decode(errors="replace") for key in keys]


def _loose(head: BlobManifest | StoredManifest) -> str:
    """Return the token and the number of pieces of a blob; one that is written outside does not have its number yet."""
    outside = is_outside(head.token) and isinstance(head, BlobManifest)
    return f"{head.token} {0 if outside else head.pieces}"


def _is_outside_blob(blob: str) -> bool:
    return is_outside(blob.partition(" ")[0])
