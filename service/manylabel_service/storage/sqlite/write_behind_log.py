"""Appends of durability ``memory``: entries get their positions at once and are written soon after."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from manylabel_service.errors import ModelGone, StorageError, StorageGone
from manylabel_service.storage.protocol import Entry, ModelRecord
from manylabel_service.storage.sqlite.tables import Tables, number_of
from manylabel_service.storage.sqlite.threads import Threads

MAX_WAITING_BYTES = 64 << 20
"""Payloads of one log that may wait to be written; beyond it appends wait for the disk too."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Tail:
    """The end of a log that is ahead of its table: the number of the last entry written, and what waits."""

    record: ModelRecord
    written: int
    waiting: list[bytes] = field(default_factory=list)
    waiting_bytes: int = 0
    writer: asyncio.Task[None] | None = None
    failed: str = ""


class WriteBehindLog:
    """Logs that are written behind their callers' backs. Whatever else concerns a log has to `settle` it first."""

    def __init__(self, threads: Threads, tables: Tables) -> None:
        self._threads = threads
        self._tables = tables
        self._tails: dict[int, _Tail] = {}
        self._catching_up = asyncio.Lock()

    async def append(self, record: ModelRecord, payloads: Sequence[bytes], after: str) -> list[Entry]:
        """As `Store.append`; only the first append to a log, and one that finds too much waiting, waits itself."""
        tail = self._tails.get(record.incarnation)
        if tail is not None and tail.waiting_bytes > MAX_WAITING_BYTES:
            await self._written(tail)
            tail = self._tails.get(record.incarnation)
        if tail is None or not payloads or number_of(after) != tail.written + len(tail.waiting):
            return await self._append_now(record, payloads, after)
        first = tail.written + len(tail.waiting) + 1
        tail.waiting.extend(payloads)
        tail.waiting_bytes += sum(map(len, payloads))
        self._begin(tail)
        return [Entry(str(number), payload) for number, payload in enumerate(payloads, first)]

    async def _append_now(self, record: ModelRecord, payloads: Sequence[bytes], after: str) -> list[Entry]:
        """Append and wait; from then on it is known where the log ends."""
        async with self._catching_up:  # one at a time, or an older end could replace a newer one
            await self.settle(record)
            entries = await self._threads.write(self._tables.append, record, payloads, after, "log")
            self._tails[record.incarnation] = _Tail(record, number_of(entries[-1].position))
            return entries

    async def settle(self, record: ModelRecord) -> None:
        """Wait until the table has the whole log.

        Raises
        ------
        StorageGone
            It could not be written. It goes on waiting, and is tried again with the next call.
        """
        tail = self._tails.get(record.incarnation)
        if tail is not None:
            await self._written(tail)
            self._tails.pop(record.incarnation, None)

    def forget(self, record: ModelRecord) -> None:
        """Drop what waits: the model has been deleted."""
        tail = self._tails.pop(record.incarnation, None)
        if tail is not None:
            tail.waiting.clear()

    async def close(self) -> None:
        """Write what waits; what cannot be written is lost."""
        for tail in list(self._tails.values()):
            try:
                await self._written(tail)
            except StorageGone as error:
                log.error("updates_lost", model=tail.record.name, entries=len(tail.waiting), error=str(error))

    def _begin(self, tail: _Tail) -> asyncio.Task[None]:
        if tail.writer is None:
            tail.writer = asyncio.create_task(self._write(tail))
        return tail.writer

    async def _written(self, tail: _Tail) -> None:
        while tail.waiting:
            await asyncio.shield(self._begin(tail))
            if tail.failed:
                raise StorageGone(tail.failed, heals=True)

    async def _write(self, tail: _Tail) -> None:
        """Write what waits, and what comes meanwhile."""
        tail.failed = ""
        try:
            while tail.waiting:
                payloads = list(tail.waiting)
                await self._threads.write(self._tables.append, tail.record, payloads, str(tail.written), "log")
                tail.written += len(payloads)
                tail.waiting_bytes -= sum(map(len, payloads))
                del tail.waiting[: len(payloads)]
        except ModelGone:
            self.forget(tail.record)
        except StorageError as error:
            tail.failed = str(error)
            log.warning("updates_not_written", model=tail.record.name, entries=len(tail.waiting), error=str(error))
        finally:
            tail.writer = None
