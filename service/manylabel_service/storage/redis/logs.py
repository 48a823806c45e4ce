"""Logs of a Redis store: one stream per model."""

import asyncio
import secrets
from collections.abc import Collection, Mapping, Sequence
from struct import pack
from typing import Any
from zlib import crc32

from manylabel_service.errors import ModelGone, StorageUnavailable
from manylabel_service.storage.checksums import damaged_entry, next_link
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import Entry, LogChanges, ModelMeta, is_after, position_key
from manylabel_service.storage.redis.engine import Engine, Part
from manylabel_service.storage.redis.keys import CHANGES, Keys, entry_id
from manylabel_service.storage.redis.scripts import ADOPT, APPEND, COUNT, READ, SEAL, TRIM, check
from manylabel_service.storage.redis.watcher import ASKED_AT_ONCE, Watcher

PAGE_ENTRIES = 1_000
PAGE_BYTES = 8 << 20
"""Approximate maximum bytes of one response of Redis."""

ADOPTED_AT_ONCE = 100
"""Maximum number of entries added to the log of a successor in one step."""

LINK_BYTES = 4
"""Bytes of the link, which follows the payload of an entry."""

FIRST_NUMBERS = 10**9
"""Upper bound of the random first number of an append."""


class RedisLogs(Part):
    """Implements `Logs` on the engine of a store."""

    waits_for_disk = False
    """Whether an append must itself request the sync to disk."""
    unusable: StorageUnavailable | None = None
    """Error of every append while Redis cannot guarantee the durability of the store."""

    def __init__(self, engine: Engine, watcher: Watcher) -> None:
        self._engine = engine
        self._watcher = watcher
        self.gate = engine.gate
        # Appends whose callers were cancelled. Later calls wait for them, to keep the order.
        self._left_behind: dict[asyncio.Task[Any], int] = {}

    @gated
    async def check(self, record: ModelMeta) -> None:
        if not await self._engine.connection.command("EXISTS", Keys.of(record).head):
            raise ModelGone(record.name, record.incarnation)

    @gated
    async def append(self, record: ModelMeta, payloads: Sequence[bytes], after: str) -> list[Entry]:
        if not payloads:
            raise ValueError("an append needs at least one payload")
        if self.unusable is not None:
            raise StorageUnavailable(self.unusable.detail, self.unusable.heals)
        keys = Keys.of(record)
        entries: list[Entry] = []
        checksums = pack(f"<{len(payloads)}I", *map(crc32, payloads))
        known = entry_id(after)
        # On a cluster the stream of changes is in another slot.
        announced = () if self._engine.connection.is_cluster else (CHANGES,)
        await self._wait_for_left_behind(record)
        while True:  # usually one round trip, which also returns the entries before the new ones
            first = secrets.randbelow(FIRST_NUMBERS)
            answer = await self._engine.connection.run(
                APPEND,
                (keys.head, keys.log, *announced),
                known,
                PAGE_ENTRIES,
                PAGE_BYTES,
                first,
                checksums,
                record.incarnation,
                *payloads,
                sync=self.waits_for_disk,
                left_behind=lambda task: self._leave(task, record),
            )
            check(answer, record, after)
            between = _checked(record, answer[1], answer[2])
            entries += between
            if answer[0] == "ok":
                prefix = answer[3].decode()
                now_ms = int(prefix[:-1])
                entries += [Entry(f"{prefix}{n}", payload, now_ms) for n, payload in enumerate(payloads, first)]
                return entries
            # The entries are too large for one response, so nothing was added yet.
            after = between[-1].position
            known = entry_id(after)

    async def changed(self, after: str, seconds: float) -> LogChanges:
        return await self.gate.until_closed(self._watcher.wait(after, seconds))

    @gated
    async def ends(self, records: Collection[ModelMeta]) -> dict[int, str | None]:
        return await self._watcher.ends(records)

    @gated
    async def read(self, record: ModelMeta, after: str, limit: int) -> list[Entry]:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        keys = Keys.of(record)
        most = min(limit, PAGE_ENTRIES)
        await self._wait_for_left_behind(record)
        answer = await self._engine.connection.run(READ, (keys.head, keys.log), entry_id(after), most, PAGE_BYTES)
        check(answer, record, after)
        return _checked(record, answer[1], answer[2])

    @gated
    async def entries_after(self, positions: Mapping[ModelMeta, str], most: int) -> dict[ModelMeta, int]:
        ends = await self._watcher.ends(positions)
        there = [(record, after, end) for record, after in positions.items() if (end := ends[record.incarnation])]
        counted: dict[ModelMeta, int | None] = {record: 0 for record, _, _ in there}
        behind = [(record, after) for record, after, end in there if is_after(end, after)]
        for begin in range(0, len(behind), ASKED_AT_ONCE):
            some = behind[begin : begin + ASKED_AT_ONCE]
            counts = await asyncio.gather(*(self._count(record, after, most) for record, after in some))
            counted.update((record, count) for (record, _), count in zip(some, counts, strict=True))
        return {record: count for record, count in counted.items() if count is not None}

    async def _count(self, record: ModelMeta, after: str, most: int) -> int | None:
        """Return the number of entries after a position, counted page by page; None if the model is deleted."""
        keys, known, count, all_counted = Keys.of(record), entry_id(after), 0, 0
        while not all_counted and count < most:
            wanted = min(most - count, PAGE_ENTRIES)
            answer = await self._engine.connection.run(COUNT, (keys.head, keys.log), known, wanted, PAGE_BYTES)
            if answer[0] == "gone":
                return None
            count, known, all_counted = count + answer[1], answer[2].decode(), answer[3]
        return count

    @gated
    async def trim(self, record: ModelMeta, through: str) -> None:
        # Readers see the log trimmed in one step; its space is freed in pieces, so that appends run in between.
        keys = Keys.of(record)
        answer = await self._engine.connection.run(TRIM, (keys.head, keys.log), entry_id(through))
        check(answer, record, through)
        milliseconds, number = answer[1].decode().split("-")
        rest = f"{milliseconds}-{int(number) + 1}"
        while await self._engine.connection.command("XTRIM", keys.log, "MINID", "~", rest):
            pass  # whole nodes of the stream, at most the server's limit per call

    @gated
    async def adopt(self, successor: ModelMeta, entries: Sequence[Entry]) -> None:
        keys = Keys.of(successor)
        link = int(await self._engine.connection.command("HGET", keys.head, "last_link"))
        for begin in range(0, len(entries), ADOPTED_AT_ONCE):
            values: list[str | bytes] = []
            for position, payload, _ in entries[begin : begin + ADOPTED_AT_ONCE]:
                link = next_link(link, sum(position_key(position)), payload)
                values += entry_id(position), payload + link.to_bytes(LINK_BYTES, "little")
            answer = await self._engine.connection.run(ADOPT, (keys.head, keys.log), link, *values)
            check(answer, successor, entries[begin].position)

    @gated
    async def seal(self, record: ModelMeta, sealed: bool) -> None:
        answer = await self._engine.connection.run(SEAL, (Keys.of(record).head,), "1" if sealed else "0")
        check(answer, record, "")

    def _leave(self, task: asyncio.Task[Any], record: ModelMeta) -> None:
        self._left_behind[task] = record.incarnation
        task.add_done_callback(self._left_behind.pop)

    async def _wait_for_left_behind(self, record: ModelMeta) -> None:
        """Wait for appends whose callers were cancelled."""
        if tasks := [task for task, incarnation in self._left_behind.items() if incarnation == record.incarnation]:
            await asyncio.wait(tasks)


def _checked(record: ModelMeta, flat: Sequence[bytes], link: bytes) -> list[Entry]:
    """Return the entries after the entry with a link; raises `ModelDamaged` at a mismatch."""
    entries, expected = [], int(link)
    for id, value in zip(flat[::2], flat[1::2], strict=True):
        position, payload = id.decode(), value[:-LINK_BYTES]
        time_ms, number = position_key(position)
        expected = next_link(expected, time_ms + number, payload)
        if value[-LINK_BYTES:] != expected.to_bytes(LINK_BYTES, "little"):
            raise damaged_entry(record.name, position)
        entries.append(Entry(position, payload, time_ms))
    return entries
