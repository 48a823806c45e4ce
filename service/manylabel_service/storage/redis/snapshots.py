"""Snapshots in Redis: chunks of bytes, and a field of the model's head that lists them."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import structlog

from manylabel_service.errors import ModelGone, SnapshotExists, SnapshotsFull, StorageUnavailable
from manylabel_service.storage.blob_pieces import same_bytes
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import (
    NO_EXTENT,
    Bytes,
    LogExtent,
    ManualSnapshot,
    ModelMeta,
    SnapshotMeta,
    position_key,
)
from manylabel_service.storage.redis.engine import Part
from manylabel_service.storage.redis.keys import MODELS, STAGED, Keys, entry_id, position_of
from manylabel_service.storage.redis.scripts import (
    DELETE_SNAPSHOT,
    KEEP_SNAPSHOT,
    LET_SNAPSHOT_GO,
    PIN_SNAPSHOT,
    PUT_SNAPSHOT,
    check,
)

log = structlog.get_logger()

CHUNK_BYTES = 4 << 20
"""Bytes of a chunk; receiving a chunk blocks Redis, and copying it blocks the event loop: 80 MB blocked Redis for 0.3
s.
"""

ORPHAN_SECONDS = 3600
"""Seconds after which chunks are removed that no snapshot has claimed."""

HEADS_AT_ONCE = 100
"""Number of models whose lists of snapshots are read in one round trip, so that other clients are not delayed."""

FIELD = b"snap:"
KEPT = b"kept:"


@dataclass(frozen=True, slots=True)
class Stored:
    """Location of the chunks of a snapshot. The token distinguishes it from a replacement at the same position."""

    token: str
    chunks: int
    size_bytes: int
    created_unix_ms: int
    extent: LogExtent = NO_EXTENT
    pinned: bool = False

    @classmethod
    def parse(cls, value: bytes) -> Stored:
        token, chunks, size, created, examples, log_bytes, pinned = value.decode().split(" ")
        extent = LogExtent(int(examples), int(log_bytes))
        return cls(token, int(chunks), int(size), int(created), extent, pinned == "1")

    def text(self) -> str:
        """Return the value of the field without the pin, which belongs to the position."""
        facts = (self.token, self.chunks, self.size_bytes, self.created_unix_ms, *self.extent)
        return " ".join(map(str, facts))

    def keys(self, keys: Keys, id: str) -> list[str]:
        return [keys.chunk(id, self.token, number) for number in range(self.chunks)]


class RedisSnapshots(Part):
    """Implements `Snapshots` on the engine of a store."""

    @gated
    async def put(
        self, record: ModelMeta, position: str, data: Bytes, extent: LogExtent = NO_EXTENT, foreign: bool = False
    ) -> None:
        id, keys = entry_id(position), Keys.of(record)
        stored = await self.upload(keys, id, data, extent)
        answer = await self._engine.connection.run(
            PUT_SNAPSHOT, (keys.head, keys.log, *stored.keys(keys, id)), id, stored.text(), int(foreign)
        )
        if answer[0] != "ok":
            await self.discard(keys, id, stored)
        if answer[0] == "missing":
            raise StorageUnavailable("a part of a snapshot was evicted, or took too long to be written", heals=True)
        check(answer, record, position)

    async def upload(self, keys: Keys, id: str, data: Bytes, extent: LogExtent = NO_EXTENT) -> Stored:
        """Write the chunks, to be claimed within `ORPHAN_SECONDS`, and verify them."""
        size, view = len(data), memoryview(data)
        now_ms = time.time_ns() // 1_000_000
        stored = Stored(secrets.token_hex(8), -(-size // CHUNK_BYTES), size, now_ms, extent)
        for number, key in enumerate(stored.keys(keys, id)):
            chunk = bytes(view[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES])
            await self._engine.connection.command("SET", key, chunk, "EX", ORPHAN_SECONDS)
            written = await self._engine.connection.command("GET", key)
            if written is None or not await asyncio.to_thread(same_bytes, chunk, written):
                await self.discard(keys, id, stored)
                raise StorageUnavailable("a part of a snapshot is not what was written", heals=True)
        return stored

    async def discard(self, keys: Keys, id: str, stored: Stored) -> None:
        """Remove orphaned chunks."""
        if stored.chunks:
            await self._engine.connection.command("UNLINK", *stored.keys(keys, id))

    @gated
    async def all(self, record: ModelMeta) -> list[SnapshotMeta]:
        fields = await self._engine.connection.command("HGETALL", Keys.of(record).head)
        if not fields:
            raise ModelGone(record.name, record.incarnation)
        found = []
        for name, value in fields.items():
            if name.startswith(FIELD):
                try:
                    found.append(_listed(name, value, fields.get(KEPT + name.removeprefix(FIELD))))
                except (
                    ValueError,
                    TypeError,
                ) as error:  # a damaged snapshot cannot be restored, and must not hide others
                    log.error("snapshot_damaged", model=record.name, snapshot=repr(name), error=str(error))
        return sorted(found, key=lambda snapshot: position_key(snapshot.position), reverse=True)

    @gated
    async def get(self, record: ModelMeta, position: str) -> memoryview | None:
        id, keys = entry_id(position), Keys.of(record)
        stored = await self._find(record, keys, id)
        while stored is not None:
            if (data := await self._download(stored.keys(keys, id))) is not None:
                return data
            # The snapshot was deleted or replaced in the meantime, or lost.
            before, stored = stored, await self._find(record, keys, id)
            if stored is not None and stored.token == before.token:
                return None
        return None

    async def read(self, record: ModelMeta, position: str) -> AsyncGenerator[bytes, None]:
        id, keys = entry_id(position), Keys.of(record)
        with self.gate:
            stored = await self._find(record, keys, id)
        number = 0
        while stored is not None and number < stored.chunks:
            # Each piece passes the gate separately: a slow reader must not block other calls.
            with self.gate:
                piece = await self._engine.connection.command("GET", keys.chunk(id, stored.token, number))
                if piece is None:
                    # Another process has stored equal bytes at this position, or the snapshot was deleted or lost.
                    before, stored = stored, await self._find(record, keys, id)
                    if stored is not None and (stored.token == before.token or stored.size_bytes != before.size_bytes):
                        return
                    continue
            number += 1
            yield piece

    @gated
    async def total_bytes(self) -> int:
        connection, total = self._engine.connection, 0
        models, staged = [await connection.command("HGETALL", key) for key in (MODELS, STAGED)]
        numbers = [(name, value.partition(b" ")[0]) for name, value in models.items()]
        numbers += [(name, incarnation) for incarnation, name in staged.items()]
        heads = [Keys.named(name.decode(), int(incarnation)).head for name, incarnation in numbers]
        for start in range(0, len(heads), HEADS_AT_ONCE):
            for fields in await connection.pipeline(
                [("HGETALL", head) for head in heads[start : start + HEADS_AT_ONCE]]
            ):
                total += sum(_listed(field, fields[field]).size_bytes for field in fields if field.startswith(FIELD))
        return total

    async def _download(self, chunks: Sequence[str]) -> memoryview | None:
        # The parts are not joined at the end: that would copy all of them at once, while this last step copies
        # nothing.
        data = bytearray()
        for key in chunks:
            part = await self._engine.connection.command("GET", key)
            if part is None:
                return None
            data += part
        return memoryview(data)

    @gated
    async def delete(self, record: ModelMeta, position: str) -> None:
        check(
            await self._engine.connection.run(DELETE_SNAPSHOT, (Keys.of(record).head,), entry_id(position)),
            record,
            position,
        )

    @gated
    async def pin(self, record: ModelMeta, position: str, pinned: bool) -> bool:
        answer = await self._engine.connection.run(
            PIN_SNAPSHOT, (Keys.of(record).head,), entry_id(position), "1" if pinned else "0"
        )
        check(answer, record, position)
        return bool(answer[0] == "ok")

    @gated
    async def keep(self, record: ModelMeta, position: str, kept: ManualSnapshot, most: int) -> bool:
        given = (json.dumps(kept.name), json.dumps(kept.note))
        answer = await self._engine.connection.run(
            KEEP_SNAPSHOT, (Keys.of(record).head,), entry_id(position), most, *given
        )
        if answer[0] == "taken":
            name, id = (text.decode() if isinstance(text, bytes) else text for text in answer[1:])
            raise SnapshotExists(record.name, name, position_of(id))
        if answer[0] == "full":
            raise SnapshotsFull(record.name, most)
        check(answer, record, position)
        return bool(answer[0] == "ok")

    @gated
    async def let_go(self, record: ModelMeta, position: str) -> bool:
        answer = await self._engine.connection.run(LET_SNAPSHOT_GO, (Keys.of(record).head,), entry_id(position))
        check(answer, record, position)
        return bool(answer[0] == "ok")

    async def _find(self, record: ModelMeta, keys: Keys, id: str) -> Stored | None:
        trimmed, value = await self._engine.connection.command("HMGET", keys.head, "trimmed", FIELD + id.encode())
        if trimmed is None:
            raise ModelGone(record.name, record.incarnation)
        return None if value is None else Stored.parse(value)


def _listed(name: bytes, value: bytes, kept: bytes | None = None) -> SnapshotMeta:
    stored = Stored.parse(value)
    position = position_of(name.removeprefix(FIELD).decode())
    return SnapshotMeta(position, stored.size_bytes, stored.created_unix_ms, stored.pinned, stored.extent, _kept(kept))


def _kept(value: bytes | None) -> ManualSnapshot | None:
    return None if value is None else ManualSnapshot(**json.loads(value))
