"""Documents of a Redis store: for each kind, a hash of values and a sorted set of names by revision."""

from typing import Any

from manylabel_service.errors import RevisionConflict
from manylabel_service.storage.checksums import seal
from manylabel_service.storage.document_pages import (
    PAGE_BYTES,
    PAGE_DOCUMENTS,
    Page,
    check_document,
    collect,
    intact,
    sealed_document,
)
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import Document
from manylabel_service.storage.redis.engine import Part
from manylabel_service.storage.redis.keys import LAST_REVISION, document_keys
from manylabel_service.storage.redis.scripts import Script

_FOUND = """
local found = redis.call('ZSCORE', KEYS[2], ARGV[1])
if tonumber(found or '') ~= tonumber(ARGV[2]) then return {'changed', found or ''} end
"""

# KEYS values, order, last. ARGV name, expected revision or nothing, value, '1' if urgent, least revision. A revision is
# the time in microseconds, or one more than the last, so no revision is used twice even if Redis lost data. Redis at
# its maxmemory refuses the first write of a script if it needs memory, but no later write, so an urgent put deletes
# first.
_PUT = Script(
    _FOUND,
    """
if ARGV[4] == '1' then redis.call('HDEL', KEYS[1], ARGV[1]) end
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[3]) or '0')
local revision = string.format('%.0f', math.max(time[1] * 1000000 + time[2], last + 1, tonumber(ARGV[5])))
redis.call('SET', KEYS[3], revision)
redis.call('HSET', KEYS[1], ARGV[1], revision .. ' ' .. ARGV[3])
redis.call('ZADD', KEYS[2], revision, ARGV[1])
return {'ok', revision}
""",
)

# KEYS values, order. ARGV name, revision.
_DELETE = Script(
    _FOUND,
    """
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return {'ok'}
""",
)

# KEYS values, order. ARGV after, maximum documents, maximum bytes. Returns names and values in turn, and '1' if they
# are the last.
_LIST = Script(
    """
local names = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf', 'LIMIT', 0, ARGV[2])
local found, bytes = {}, 0
for i, name in ipairs(names) do
  local value = redis.call('HGET', KEYS[1], name)
  found[2 * i - 1], found[2 * i] = name, value
  bytes = bytes + #value
  if bytes >= tonumber(ARGV[3]) then return {'ok', found, '0'} end
end
return {'ok', found, #names < tonumber(ARGV[2]) and '1' or '0'}
""",
)


class RedisDocuments(Part):
    """Implements `Documents` on the engine of a store."""

    @gated
    async def put(
        self, kind: str, name: str, value: bytes, *, revision: int | None, urgent: bool = False, least: int = 0
    ) -> int:
        check_document(kind, name, value)
        known = "" if revision is None else revision
        keys = (*document_keys(kind), LAST_REVISION)
        sealed = seal(value, kind, name)
        answer = await self._engine.connection.run(_PUT, keys, name, known, sealed, "1" if urgent else "0", least)
        _check(answer, kind, name, revision)
        return int(answer[1])

    @gated
    async def get(self, kind: str, name: str) -> Document | None:
        check_document(kind, name)
        value = await self._engine.connection.command("HGET", document_keys(kind)[0], name)
        return None if value is None else intact(kind, _document(kind, name, value))

    @gated
    async def all(self, kind: str, after: int = 0) -> list[Document]:
        check_document(kind)

        async def page(after: int) -> Page:
            answer = await self._engine.connection.run(_LIST, document_keys(kind), after, PAGE_DOCUMENTS, PAGE_BYTES)
            pairs = zip(answer[1][::2], answer[1][1::2], strict=True)
            return [_document(kind, name.decode(errors="replace"), value) for name, value in pairs], answer[2] == b"1"

        return await collect(page, after)

    def changes(self, kind: str) -> None:
        return

    @gated
    async def revisions(self, kind: str) -> dict[str, int]:
        check_document(kind)
        found = await self._engine.connection.command("ZRANGE", document_keys(kind)[1], 0, -1, "WITHSCORES")
        pairs = zip(found[::2], found[1::2], strict=True)
        return {name.decode(errors="replace"): int(float(revision)) for name, revision in pairs}

    @gated
    async def revision(self, kind: str, name: str) -> int | None:
        check_document(kind, name)
        found = await self._engine.connection.command("ZSCORE", document_keys(kind)[1], name)
        return None if found is None else int(float(found))

    @gated
    async def delete(self, kind: str, name: str, *, revision: int) -> None:
        check_document(kind, name)
        answer = await self._engine.connection.run(_DELETE, document_keys(kind), name, revision)
        _check(answer, kind, name, revision)


def _document(kind: str, name: str, value: bytes) -> Document:
    revision, _, sealed = value.partition(b" ")
    return sealed_document(kind, name, int(revision) if revision.isdigit() and len(revision) < 20 else 0, sealed)


def _check(answer: list[Any], kind: str, name: str, revision: int | None) -> None:
    if answer[0] == "changed":
        raise RevisionConflict(kind, name, revision, int(float(answer[1])) if answer[1] else None)
