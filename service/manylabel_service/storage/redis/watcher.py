"""Watcher of changes to the logs of a store, by a stream that has an entry for each append and each deletion."""

import asyncio
import time
from collections.abc import Collection

from manylabel_service.storage.protocol import LogChanges, ModelMeta
from manylabel_service.storage.redis.client.connection import BLOCK_SECONDS
from manylabel_service.storage.redis.engine import Engine
from manylabel_service.storage.redis.keys import CHANGES, INCARNATIONS, Keys, position_of
from manylabel_service.storage.redis.scripts import CHANGED, ENDS

POLL_SECONDS = 0.1
"""Wait in seconds on a Redis Cluster, where the stream has deletions only: the caller then asks for all ends."""

ASKED_AT_ONCE = 100
"""Number of logs queried at a time, so that other calls are not delayed."""

READ_AT_ONCE = 1_000
"""Maximum number of entries of the stream that are read at a time."""


class Watcher:
    """Watcher of changed logs, over the connection of one store.

    A cursor has the number of times that contact was lost, and the id and text of an entry of the stream.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def wait(self, after: str, seconds: float) -> LogChanges:
        """Wait for changes, as `Logs.changed` does."""
        connection = self._engine.connection
        if connection.is_cluster:
            await asyncio.sleep(min(seconds, POLL_SECONDS))
            return (await self._read(after))._replace(complete=False)
        deadline = time.monotonic() + seconds
        while True:
            changes = await self._read(after)
            left = deadline - time.monotonic()
            if changes.ends or not changes.complete or left <= 0:
                return changes
            after = changes.cursor
            milliseconds = max(1, round(1000 * min(left, BLOCK_SECONDS)))
            id = after.split(" ")[1]
            await connection.wait("XREAD", "COUNT", 1, "BLOCK", milliseconds, "STREAMS", CHANGES, id)

    async def _read(self, after: str) -> LogChanges:
        connection = self._engine.connection
        lost = str(connection.breaker.lost)
        known, _, entry = after.partition(" ")
        # After a loss of contact, Redis may lack entries of logs whose changes were not read.
        id, _, text = entry.partition(" ") if known == lost else ("", "", "")
        _, complete, id, text, flat = await connection.run(CHANGED, (CHANGES,), id, text, READ_AT_ONCE)
        ends = {int(number): _position(end) for number, end in zip(flat[::2], flat[1::2], strict=True)}
        return LogChanges(f"{lost} {id.decode()} {text.decode()}", ends, bool(complete))

    async def ends(self, records: Collection[ModelMeta]) -> dict[int, str | None]:
        """Return the position of the last entry of each log, as `Logs.ends` does."""
        connection, asked = self._engine.connection, list(records)
        ends: dict[int, str | None] = {}
        for begin in range(0, len(asked), ASKED_AT_ONCE):
            some = asked[begin : begin + ASKED_AT_ONCE]
            numbers, heads = [record.incarnation for record in some], [Keys.of(record).head for record in some]
            if connection.is_cluster:
                names, *lasts = await asyncio.gather(
                    connection.command("HMGET", INCARNATIONS, *numbers),
                    *(connection.command("HGET", head, "last") for head in heads),
                )
                found = [last if name else None for name, last in zip(names, lasts, strict=True)]
            else:
                found = (await connection.run(ENDS, (INCARNATIONS, *heads), *numbers))[1]
            ends.update((number, _position(end)) for number, end in zip(numbers, found, strict=True))
        return ends


def _position(id: bytes | None) -> str | None:
    """Return the position of a stream id; None without one."""
    return position_of(id.decode()) if id else None
