"""Models of a Redis store, created and removed in steps between which a process may die.

The list of models and the keys of a model are in different slots of a Redis Cluster, so no script reaches both.
Creation: reserve an incarnation, fill its keys, claim the name. Deletion: give up the name, remove the keys. Models
in between are listed (`STAGED`, `GONE`), and any process may remove them.
"""

from collections.abc import Mapping, Sequence, Set

from manylabel_service.errors import ModelExists, ModelGone
from manylabel_service.storage.checksums import first_link, seal, unseal
from manylabel_service.storage.gate import gated
from manylabel_service.storage.models import Models, Succession, Use, leader_of
from manylabel_service.storage.protocol import ALL, Logs, ModelMeta, position_key
from manylabel_service.storage.redis.engine import Engine
from manylabel_service.storage.redis.keys import (
    CHANGES,
    FOLLOWERS,
    GONE,
    INCARNATIONS,
    LAST_INCARNATION,
    MODELS,
    NAMES,
    STAGED,
    USED,
    Keys,
    entry_id,
    lexical_range,
)
from manylabel_service.storage.redis.scripts import (
    ABANDONED,
    DISCARD,
    EXISTING,
    LIST_MODELS,
    NAME,
    PREPARE,
    PURGE_PREDICTIONS,
    RECENT_MODELS,
    UNNAME,
    USE,
)
from manylabel_service.storage.snapshots import Snapshots

STAGED_SECONDS = 7 * 86_400
"""Seconds after which a model without a name never gets one."""

PURGED_AT_ONCE = 1_000
"""Number of predictions of a deleted model removed in one step."""


class RedisModels(Models):
    """Implements `Models` on the engine of a store."""

    def __init__(self, engine: Engine, logs: Logs, snapshots: Snapshots) -> None:
        super().__init__(engine.gate, engine.background, logs, snapshots)
        self._engine = engine

    def position_at(self, position: str) -> str:
        position_key(position)
        return position

    @gated
    async def find(self, name: str) -> ModelMeta | None:
        value = await self._engine.connection.command("HGET", MODELS, name)
        return None if value is None else _record(name.encode(), value)

    @gated
    async def all(self) -> list[ModelMeta]:
        values = await self._engine.connection.command("HGETALL", MODELS)
        records = [_record(name, value) for name, value in values.items()]
        return sorted(records, key=lambda record: record.incarnation)

    @gated
    async def count(self) -> int:
        return int(await self._engine.connection.command("HLEN", MODELS))

    @gated
    async def existing(self, incarnations: Set[int]) -> dict[int, str]:
        answer = await self._engine.connection.run(EXISTING, (MODELS, STAGED, INCARNATIONS), *incarnations)
        pairs = zip(answer[1][::2], answer[1][1::2], strict=True)
        return {int(incarnation): name.decode(errors="replace") for incarnation, name in pairs}

    @gated
    async def page(self, prefix: str, after: str, limit: int) -> list[ModelMeta]:
        answer = await self._engine.connection.run(
            LIST_MODELS, (MODELS, NAMES), *lexical_range(prefix, after), limit, 0
        )
        return [_record(name, value) for name, value in zip(answer[1], answer[2], strict=True)]

    @gated
    async def recent(self, before: tuple[int, str] | None, limit: int) -> list[Use]:
        answer = await self._engine.connection.run(RECENT_MODELS, (MODELS, USED), *(before or (ALL, "")), limit)
        uses = [(_record(name, value), int(float(ms))) for name, value, ms in zip(*answer[1:4], strict=True)]
        return [Use(record, unix_ms, max(0, answer[4] - unix_ms)) for record, unix_ms in uses]

    @gated
    async def use(self, ages_ms: Mapping[str, int]) -> None:
        await self._engine.connection.run(USE, (USED,), *(word for use in ages_ms.items() for word in use))

    @gated
    async def followers(self, leader: ModelMeta) -> list[ModelMeta]:
        prefix = f"{leader.incarnation}:"
        answer = await self._engine.connection.run(
            LIST_MODELS, (MODELS, FOLLOWERS), *lexical_range(prefix), ALL, len(prefix)
        )
        found = [_record(name, value) for name, value in zip(answer[1], answer[2], strict=True) if value is not None]
        followers = [record for record in found if leader_of(record.spec) == leader.incarnation]
        return sorted(followers, key=lambda record: record.incarnation)

    async def _prepare(self, name: str, spec: bytes, at: str) -> ModelMeta:
        answer = await self._engine.connection.run(PREPARE, (LAST_INCARNATION, STAGED), name)
        record = ModelMeta(name, int(answer[1]), spec)
        id, link = entry_id(at), first_link(record.incarnation)
        bounds = ("trimmed", id, "last", id, "trimmed_link", link, "last_link", link)
        await self._engine.connection.command("HSET", Keys.of(record).head, *bounds)
        return record

    async def _name(self, successions: Sequence[Succession]) -> None:
        words: list[str | int | bytes] = []
        for record, successor in successions:
            sealed = seal(successor.spec, successor.name, successor.incarnation)
            words += [successor.name, "" if record is None else record.incarnation, successor.incarnation, sealed]
            words += ["" if record is None else _follower(record), _follower(successor)]
        keys = (MODELS, STAGED, GONE, CHANGES, NAMES, USED, FOLLOWERS, INCARNATIONS)
        answer = await self._engine.connection.run(NAME, keys, *words)
        if answer[0] != "ok":
            record, successor = successions[int(answer[1])]
            if answer[0] == "exists":
                raise ModelExists(successor.name)
            gone = record if answer[0] == "gone" and record is not None else successor
            raise ModelGone(gone.name, gone.incarnation)
        for record, successor in successions:
            if record is not None and record.incarnation != successor.incarnation:
                await self._unlink(record)

    async def _discard(self, successor: ModelMeta) -> bool:
        numbers = successor.name, successor.incarnation
        answer = await self._engine.connection.run(DISCARD, (STAGED, GONE), *numbers)
        if answer[0] == "ok":
            await self._unlink(successor)
        return bool(answer[0] == "ok")

    async def _unname(self, record: ModelMeta) -> None:
        keys = (MODELS, GONE, CHANGES, NAMES, USED, FOLLOWERS, INCARNATIONS)
        words = record.name, record.incarnation, _follower(record), "1" if record.damaged else "0"
        answer = await self._engine.connection.run(UNNAME, keys, *words)
        await self._unlink(record)
        if answer[0] == "gone":
            raise ModelGone(record.name, record.incarnation)

    async def _purge(self, record: ModelMeta) -> None:
        keys = Keys.of(record)
        await self._unlink(record)
        while (await self._engine.connection.run(PURGE_PREDICTIONS, (keys.head, keys.due), PURGED_AT_ONCE))[1]:
            pass
        await self._engine.connection.command("HDEL", GONE, record.incarnation)

    async def purge_all(self) -> None:
        """Remove models that a dead process left partly created or partly deleted."""
        answer = await self._engine.connection.run(ABANDONED, (GONE, STAGED), STAGED_SECONDS * 1000)
        for incarnation, name in zip(answer[1][::2], answer[1][1::2], strict=True):
            record = ModelMeta(name.decode(), int(incarnation), b"")
            await self._snapshots.forget(record.incarnation)
            await self._purge(record)

    async def _unlink(self, record: ModelMeta) -> None:
        """Remove the log, with the key that every call with the record reads first."""
        keys = Keys.of(record)
        await self._engine.connection.command("UNLINK", keys.head, keys.log)


def _follower(record: ModelMeta) -> str:
    """Return the member of `FOLLOWERS` for a model; "" if it follows no other."""
    leader = leader_of(record.spec)
    return "" if leader is None else f"{leader}:{record.name}"


def _record(raw: bytes, value: bytes) -> ModelMeta:
    number, _, sealed = value.partition(b" ")
    name, incarnation = raw.decode(errors="replace"), int(number) if number.isdigit() and len(number) < 20 else 0
    spec = unseal(sealed, name, incarnation)
    return ModelMeta(name, incarnation, spec or b"", damaged=spec is None)
