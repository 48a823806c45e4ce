"""The models there are: made in two steps, removed in two steps, so that a process may die between any of them.

The list of models and the keys of a model are in different places of a Redis Cluster, where no script reaches both.
Creation: reserve an incarnation, fill its keys, claim the name. Deletion: give up the name, remove the keys. What is
between is written down (`NEW`, `GONE`), and anybody may finish it.
"""

from __future__ import annotations

from manylabel_service.errors import ModelExists, ModelGone, StorageGone
from manylabel_service.storage.protocol import SEED, START, ModelRecord
from manylabel_service.storage.redis.client.connection import Connection
from manylabel_service.storage.redis.keys import BELL, GONE, LAST_INCARNATION, MODELS, NEW, Keys, entry_id
from manylabel_service.storage.redis.scripts import (
    ABANDONED,
    BURY,
    BURY_PREDICTIONS,
    CLAIM,
    MISSING,
    RELEASE,
    RESERVE,
    Script,
)
from manylabel_service.storage.redis.snapshots import FIELD, Snapshots

ABANDONED_SECONDS = 600
"""A creation that has not come to its end by then never will."""

BURIED_AT_ONCE = 1_000
"""Predictions of a deleted model that are removed in one step."""

FOUND = Script(
    """
redis.call('HSET', KEYS[1], 'trimmed', ARGV[1], 'last', ARGV[1])
if ARGV[2] then
  for i = 2, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 0 then return {'missing'} end
    redis.call('PERSIST', KEYS[i])
  end
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
return {'ok'}
"""
)
"""KEYS head, chunks... ARGV id of the beginning, field and value of the first snapshot."""


class Models:
    """The list of models, over one connection."""

    def __init__(self, connection: Connection, snapshots: Snapshots) -> None:
        self._connection = connection
        self._snapshots = snapshots

    async def create(self, name: str, spec: bytes, state: bytes | None) -> ModelRecord:
        answer = await self._connection.run(RESERVE, (MODELS, LAST_INCARNATION, NEW), name)
        if answer[0] == "exists":
            raise ModelExists(name)
        record = ModelRecord(name, int(answer[1]), spec)
        await self._found(record, state)
        answer = await self._connection.run(CLAIM, (MODELS, NEW, GONE), name, record.incarnation, spec)
        if answer[0] == "ok":
            return record
        await self.bury(name, record.incarnation)
        if answer[0] == "exists":
            raise ModelExists(name)
        raise StorageGone(f"creating model {name!r} took too long", heals=True)

    async def _found(self, record: ModelRecord, state: bytes | None) -> None:
        keys, id = Keys.of(record), entry_id(START if state is None else SEED)
        if state is None:
            await self._connection.run(FOUND, (keys.head,), id)
            return
        stored = await self._snapshots.upload(keys, id, state)
        chunks = stored.keys(keys, id)
        answer = await self._connection.run(FOUND, (keys.head, *chunks), id, FIELD + id.encode(), f"{stored.text()} 0")
        if answer[0] == "missing":
            raise StorageGone("a part of a snapshot was evicted, or took too long to be written", heals=True)

    async def find(self, name: str) -> ModelRecord | None:
        value = await self._connection.command("HGET", MODELS, name)
        return None if value is None else _record(name, value)

    async def all(self) -> list[ModelRecord]:
        values = await self._connection.command("HGETALL", MODELS)
        records = [_record(name.decode(), value) for name, value in values.items()]
        return sorted(records, key=lambda record: record.incarnation)

    async def missing(self, records: list[ModelRecord]) -> set[int]:
        """The incarnations among these that are there no more."""
        pairs = [word for record in records for word in (record.name, record.incarnation)]
        answer = await self._connection.run(MISSING, (MODELS,), *pairs)
        return set(map(int, answer[1]))

    async def delete(self, record: ModelRecord) -> None:
        """Free the name, and remove what every call with the record looks for first."""
        answer = await self._connection.run(RELEASE, (MODELS, GONE, BELL), record.name, record.incarnation)
        await self._bury_head(Keys.of(record))
        if answer[0] == "gone":
            raise ModelGone(record.name, record.incarnation)

    async def bury(self, name: str, incarnation: int) -> None:
        """Remove all that is left of a model that has lost its name."""
        keys = Keys.named(name, incarnation)
        await self._bury_head(keys)
        while (await self._connection.run(BURY_PREDICTIONS, (keys.head, keys.due), BURIED_AT_ONCE))[1]:
            pass
        await self._connection.command("HDEL", GONE, incarnation)

    async def bury_all(self) -> None:
        """The same for all that a process that died has left."""
        answer = await self._connection.run(ABANDONED, (NEW, GONE), ABANDONED_SECONDS * 1000)
        for incarnation, name in zip(answer[1][::2], answer[1][1::2], strict=True):
            await self.bury(name.decode(), int(incarnation))

    async def _bury_head(self, keys: Keys) -> None:
        await self._connection.run(BURY, (keys.head, keys.log))


def _record(name: str, value: bytes) -> ModelRecord:
    incarnation, _, spec = value.partition(b" ")
    return ModelRecord(name, int(incarnation), spec)
