"""Watcher of changes by other processes to the models of this process."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

from manylabel_service.storage.protocol import ModelMeta, position_key
from manylabel_service.storage.redis.client.connection import BLOCK_SECONDS
from manylabel_service.storage.redis.engine import Engine
from manylabel_service.storage.redis.keys import DELETIONS, MODELS, Keys, entry_id, log_key, position_of
from manylabel_service.storage.redis.scripts import ENDS, MISSING

CHECK_SECONDS = 5.0
"""Interval in seconds of polls for deletions, besides notifications by a stream."""

POLL_SECONDS = 0.1
"""Interval in seconds of polls on a Redis Cluster, where no command waits for keys of several nodes."""

ASKED_AT_ONCE = 100
"""Number of logs queried at a time, so that other calls are not delayed."""

RESTING = 5
"""Minimum pause between two checks of all models, as a multiple of the time that a check, or its command, takes."""

REMEMBERED = 10_000
"""Number of remembered deletions; older ones are found by polls."""


class Watcher:
    """Watcher of changed models, over the connection of one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen = "0-0"
        self._lost = -1
        self._checked = self._free_at = 0.0
        # Incarnations in order of their age.
        self._gone: set[int] = set()

    async def begin(self) -> None:
        """Subscribe to deletions."""
        last = await self._engine.connection.command("XREVRANGE", DELETIONS, "+", "-", "COUNT", 1)
        self._seen = last[0][0].decode() if last else "0-0"

    async def wait(self, positions: Mapping[ModelMeta, str], seconds: float) -> list[ModelMeta]:
        """Wait for changes, as `Logs.changed` does."""
        deadline = time.monotonic() + seconds
        wait = self._poll if self._engine.connection.is_cluster else self._block
        while True:
            changed = await self._check(positions)
            changed |= self._deleted(positions)
            left = max(0.0, deadline - time.monotonic())
            # If something has already changed, such as a deletion, report it at once, with any other changes.
            changed |= await wait(positions, 0.0 if changed else left)
            changed |= self._deleted(positions)
            if changed or time.monotonic() >= deadline:
                return [record for record in positions if record in changed]

    def _deleted(self, positions: Mapping[ModelMeta, str]) -> set[ModelMeta]:
        return {record for record in positions if record.incarnation in self._gone} if self._gone else set()

    async def _check(self, positions: Mapping[ModelMeta, str]) -> set[ModelMeta]:
        """Check periodically, and after an outage, for deleted models and logs that lost entries.

        Nothing else shows that Redis was restarted without its latest entries while no process was connected to it.
        """
        now, lost = time.monotonic(), self._engine.connection.breaker.lost
        if not positions or not (lost != self._lost or now - self._checked > CHECK_SECONDS):
            return set()
        names = [word for record in positions for word in (record.name, record.incarnation)]
        answer = await self._engine.connection.run(MISSING, (MODELS,), *names)
        self._remember(set(map(int, answer[1])))
        ends = await self.ends(positions)
        self._checked, self._lost = now, lost
        return {record for record, end in zip(positions, ends, strict=True) if _short_of(end, positions[record])}

    def _remember(self, gone: set[int]) -> None:
        self._gone |= gone
        while len(self._gone) > REMEMBERED:
            self._gone.remove(min(self._gone))

    async def _block(self, positions: Mapping[ModelMeta, str], seconds: float) -> set[ModelMeta]:
        await asyncio.sleep(min(seconds, self._free_at - time.monotonic()))
        began = time.monotonic()
        records = {log_key(record): record for record in positions}
        ids = [entry_id(position) for position in positions.values()]
        self._free_at = time.monotonic() + RESTING * (time.monotonic() - began)  # they are sent in as much time
        block = ("BLOCK", max(1, round(1000 * min(seconds, BLOCK_SECONDS)))) if seconds else ()
        found = await self._engine.connection.wait(
            "XREAD", "COUNT", 1, *block, "STREAMS", DELETIONS, *records, self._seen, *ids
        )
        streams: dict[bytes, Any] = dict(found or ())
        for id, fields in streams.pop(DELETIONS.encode(), ()):
            self._seen = id.decode()
            self._remember({int(fields[b"i"])})
        return {records[key] for key in streams}

    async def _poll(self, positions: Mapping[ModelMeta, str], seconds: float) -> set[ModelMeta]:
        until = time.monotonic() + min(seconds, CHECK_SECONDS)
        while True:
            started = time.monotonic()
            ends = await self.ends(positions)
            changed = {record for record, end in zip(positions, ends, strict=True) if is_beyond(end, positions[record])}
            left = until - time.monotonic()
            if changed or left <= 0:
                return changed
            rest = max(POLL_SECONDS, RESTING * (time.monotonic() - started))
            await asyncio.sleep(min(rest, left))

    async def ends(self, records: Iterable[ModelMeta]) -> list[bytes | None]:
        """Return the id of the last entry of each log; None for a deleted model."""
        connection, heads = self._engine.connection, [Keys.of(record).head for record in records]
        found: list[bytes | None] = []
        for begin in range(0, len(heads), ASKED_AT_ONCE):
            some = heads[begin : begin + ASKED_AT_ONCE]
            if connection.is_cluster:
                found += await asyncio.gather(*(connection.command("HGET", head, "last") for head in some))
            else:
                found += (await connection.run(ENDS, some))[1]
        return found


def is_beyond(end: bytes | None, position: str) -> bool:
    """Return whether a log ends after a position, or no longer exists."""
    return end is None or position_key(position_of(end.decode())) > position_key(position)


def _short_of(end: bytes | None, position: str) -> bool:
    """Return whether a log ends before a position that this process has read."""
    return end is not None and position_key(position_of(end.decode())) < position_key(position)
