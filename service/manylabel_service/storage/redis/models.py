"""Models of a Redis store, created and removed in steps between which a process may die.

The list of models and the keys of a model are in different places of a Redis Cluster, where no script reaches both.
Creation: reserve an incarnation, fill its keys, claim the name. Deletion: give up the name, remove the keys. Models
in between are listed (`NEW`, `GONE`), and any process may finish the operation.
"""

from collections.abc import Sequence

from manylabel_service.errors import ModelExists, ModelGone, StorageUnavailable
from manylabel_service.storage.checksums import first_link, seal, unseal
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import SEED, START, Bytes, ModelMeta, position_key
from manylabel_service.storage.redis.engine import Engine, Part
from manylabel_service.storage.redis.keys import DELETIONS, GONE, LAST_INCARNATION, MODELS, NEW, STAGED, Keys, entry_id
from manylabel_service.storage.redis.scripts import (
    ABANDONED,
    DISCARD,
    MARK,
    MISSING,
    PUBLISH,
    PURGE,
    PURGE_PREDICTIONS,
    REPLACE,
    RESERVE,
    STAGE,
    UNPUBLISH,
    Script,
)
from manylabel_service.storage.redis.snapshots import FIELD, RedisSnapshots

ABANDONED_SECONDS = 600
"""Age in seconds from which an incomplete creation is abandoned."""

STAGED_SECONDS = 7 * 86_400
"""Age in seconds from which a staged successor is abandoned."""

PURGED_AT_ONCE = 1_000
"""Number of predictions of a deleted model removed in one step."""

INIT = Script(
    """
redis.call('HSET', KEYS[1], 'trimmed', ARGV[1], 'last', ARGV[1], 'trimmed_link', ARGV[2], 'last_link', ARGV[2])
if ARGV[3] then
  for i = 2, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 0 then return {'missing'} end
    redis.call('PERSIST', KEYS[i])
  end
  redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
end
return {'ok'}
"""
)
"""KEYS head, chunks... ARGV id and link of the beginning, field and value of the first snapshot."""


class RedisModels(Part):
    """Implements `Models` on the engine of a store."""

    def __init__(self, engine: Engine, snapshots: RedisSnapshots) -> None:
        super().__init__(engine)
        self._snapshots = snapshots

    @gated
    async def create(self, name: str, spec: bytes, state: Bytes | None = None, at: str = SEED) -> ModelMeta:
        return await self._engine.background.finish(self._create(name, spec, state, at))

    async def _create(self, name: str, spec: bytes, state: Bytes | None, at: str) -> ModelMeta:
        answer = await self._engine.connection.run(RESERVE, (MODELS, LAST_INCARNATION, NEW), name)
        if answer[0] == "exists":
            raise ModelExists(name)
        record = ModelMeta(name, int(answer[1]), spec)
        await self._init(record, state, at)
        sealed = seal(spec, name, record.incarnation)
        answer = await self._engine.connection.run(PUBLISH, (MODELS, NEW, GONE), name, record.incarnation, sealed)
        if answer[0] == "ok":
            return record
        await self.purge(name, record.incarnation)
        if answer[0] == "exists":
            raise ModelExists(name)
        raise StorageUnavailable(f"creating model {name!r} took too long", heals=True)

    async def _init(self, record: ModelMeta, state: Bytes | None, at: str) -> None:
        keys, id = Keys.of(record), entry_id(START if state is None else at)
        link = first_link(record.incarnation)
        if state is None:
            await self._engine.connection.run(INIT, (keys.head,), id, link)
            return
        stored = await self._snapshots.upload(keys, id, state)
        chunks = stored.keys(keys, id)
        answer = await self._engine.connection.run(
            INIT, (keys.head, *chunks), id, link, FIELD + id.encode(), f"{stored.text()} 0"
        )
        if answer[0] == "missing":
            raise StorageUnavailable("a part of a snapshot was evicted, or took too long to be written", heals=True)

    def position_at(self, position: str) -> str:
        position_key(position)
        return position

    @gated
    async def stage(self, record: ModelMeta, at: str) -> ModelMeta:
        if await self.missing([record]):
            raise ModelGone(record.name, record.incarnation)
        answer = await self._engine.connection.run(STAGE, (LAST_INCARNATION, STAGED), record.name)
        successor = ModelMeta(record.name, int(answer[1]), record.spec)
        keys, link = Keys.of(successor), first_link(successor.incarnation)
        await self._engine.connection.run(INIT, (keys.head,), entry_id(at), link)
        await self._engine.connection.run(MARK, (keys.head,), "staged", "1")
        return successor

    @gated
    async def replace(self, successions: Sequence[tuple[ModelMeta, ModelMeta]]) -> None:
        replaced = [pair for pair in successions if pair[0].incarnation != pair[1].incarnation]
        await self._engine.background.finish(self._replace(successions, replaced))
        for record, _ in replaced:
            self._engine.background.begin(self._engine.attempt(self.purge(record.name, record.incarnation)))

    async def _replace(
        self, successions: Sequence[tuple[ModelMeta, ModelMeta]], replaced: Sequence[tuple[ModelMeta, ModelMeta]]
    ) -> None:
        words: list[str | int | bytes] = []
        for record, successor in successions:
            sealed = seal(successor.spec, record.name, successor.incarnation)
            words += [record.name, record.incarnation, successor.incarnation, sealed]
        for _, successor in replaced:
            await self._engine.connection.run(MARK, (Keys.of(successor).head,), "staged", "0")
        answer = await self._engine.connection.run(REPLACE, (MODELS, STAGED, GONE, DELETIONS), *words)
        if answer[0] != "ok":
            gone = successions[int(answer[1])][answer[0] == "late"]
            raise ModelGone(gone.name, gone.incarnation)
        for record, _ in replaced:
            await self._purge_head(Keys.of(record))

    @gated
    async def discard(self, successor: ModelMeta) -> None:
        numbers = successor.name, successor.incarnation
        answer = await self._engine.connection.run(DISCARD, (STAGED, GONE), *numbers)
        if answer[0] == "ok":
            await self.purge(*numbers)

    @gated
    async def find(self, name: str) -> ModelMeta | None:
        value = await self._engine.connection.command("HGET", MODELS, name)
        return None if value is None else _record(name.encode(), value)

    @gated
    async def all(self) -> list[ModelMeta]:
        values = await self._engine.connection.command("HGETALL", MODELS)
        records = [_record(name, value) for name, value in values.items()]
        return sorted(records, key=lambda record: record.incarnation)

    async def missing(self, records: list[ModelMeta]) -> set[int]:
        """Return the incarnations that no longer exist."""
        pairs = [word for record in records for word in (record.name, record.incarnation)]
        answer = await self._engine.connection.run(MISSING, (MODELS,), *pairs)
        return set(map(int, answer[1]))

    @gated
    async def delete(self, record: ModelMeta) -> None:
        await self._engine.background.finish(self._unpublish(record))
        self._engine.background.begin(self._engine.attempt(self.purge(record.name, record.incarnation)))

    async def _unpublish(self, record: ModelMeta) -> None:
        """Release the name, and delete the key that every call with the record reads first."""
        answer = await self._engine.connection.run(
            UNPUBLISH, (MODELS, GONE, DELETIONS), record.name, record.incarnation
        )
        if answer[0] == "gone" and record.damaged:  # even its incarnation is unreadable
            await self._engine.connection.command("HDEL", MODELS, record.name)
            return
        await self._purge_head(Keys.of(record))
        if answer[0] == "gone":
            raise ModelGone(record.name, record.incarnation)

    async def purge(self, name: str, incarnation: int) -> None:
        """Purge the remains of a model without a name."""
        keys = Keys.named(name, incarnation)
        await self._purge_head(keys)
        while (await self._engine.connection.run(PURGE_PREDICTIONS, (keys.head, keys.due), PURGED_AT_ONCE))[1]:
            pass
        await self._engine.connection.command("HDEL", GONE, incarnation)

    async def purge_all(self) -> None:
        """Purge models that a dead process left partly created or partly deleted."""
        answer = await self._engine.connection.run(
            ABANDONED, (GONE, NEW, STAGED), ABANDONED_SECONDS * 1000, STAGED_SECONDS * 1000
        )
        for incarnation, name in zip(answer[1][::2], answer[1][1::2], strict=True):
            await self.purge(name.decode(), int(incarnation))

    async def _purge_head(self, keys: Keys) -> None:
        await self._engine.connection.run(PURGE, (keys.head, keys.log))


def _record(raw: bytes, value: bytes) -> ModelMeta:
    number, _, sealed = value.partition(b" ")
    name, incarnation = raw.decode(errors="replace"), int(number) if number.isdigit() and len(number) < 20 else 0
    spec = unseal(sealed, name, incarnation)
    return ModelMeta(name, incarnation, spec or b"", damaged=spec is None)
