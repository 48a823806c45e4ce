"""Logs of a SQLite store: a table of entries."""

import asyncio
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from functools import lru_cache

from manylabel_service.errors import LogLost, LogTrimmed, ModelDamaged, ModelGone
from manylabel_service.storage.checksums import damaged_entry, next_link
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import Entry, LogChanges, ModelMeta, position_key
from manylabel_service.storage.sqlite.engine import Part, in_writer
from manylabel_service.storage.sqlite.tables import LAST_NUMBER, NUMBER_BITS, Log

ROWS_PER_INSERT = 64
"""Maximum rows of one insert statement. Statements insert several rows because each execution hands the interpreter
lock to the event loop and must wait for it again."""

READ_BYTES = 8 << 20
"""Payload bytes after which `SQLiteLogs.read` stops, even below its limit of entries."""


class SQLiteLogs(Part):
    """Implements `Logs` on the engine of a store."""

    @in_writer
    def check(self, record: ModelMeta) -> None:
        self._tables.check(record)

    @in_writer
    def append(self, record: ModelMeta, payloads: Sequence[bytes], after: str) -> list[Entry]:
        if not payloads:
            raise ValueError("an append needs at least one payload")
        log = self._tables.log(record)
        known = _known(record, log, after)
        self._tables.check_open(record)
        one_statement = known >= log.last and len(payloads) < ROWS_PER_INSERT
        now_ms = max(time.time_ns() // 1_000_000, log.time_ms)
        self._tables.synchronize(self._tables.durability)
        try:
            with nullcontext() if one_statement else self._tables.transaction(self._tables.durability):
                entries = self._select(record, log.last, known, -1) if known < log.last else []
                link = self.insert(record.incarnation, log.last + 1, payloads, log.link, now_ms)
        except sqlite3.Error:
            self._tables.logs.pop(record.incarnation, None)  # the file shows whether the write succeeded
            raise
        first, log.last, log.link, log.time_ms = log.last + 1, log.last + len(payloads), link, now_ms
        entries += [Entry(str(number), payload, now_ms) for number, payload in enumerate(payloads, first)]
        self._engine.maintenance.wrote(sum(map(len, payloads)))
        return entries

    @in_writer
    def read(self, record: ModelMeta, after: str, limit: int) -> list[Entry]:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        log = self._tables.log(record)
        return self._select(record, log.last, _known(record, log, after), limit, READ_BYTES)

    @in_writer
    def entries_after(self, positions: Mapping[ModelMeta, str], most: int) -> dict[ModelMeta, int]:
        counts = {}
        for record, position in positions.items():
            with suppress(ModelGone, ModelDamaged):
                counts[record] = max(0, self._tables.log(record).last - number_of(position))
        return counts

    @in_writer
    def ends(self, records: Collection[ModelMeta]) -> dict[int, str | None]:
        ends: dict[int, str | None] = {}
        for record in records:
            with suppress(ModelDamaged):
                try:
                    ends[record.incarnation] = str(self._tables.log(record).last)
                except ModelGone:
                    ends[record.incarnation] = None
        return ends

    async def changed(self, after: str, seconds: float) -> LogChanges:
        await self.gate.until_closed(asyncio.sleep(seconds))  # no other process can open the directory
        await self._look()
        return LogChanges(after, {}, complete=True)

    @in_writer
    def _look(self) -> None:
        """Raise `StorageUnavailable` if the database file has been moved or deleted, also on an idle server."""

    @gated
    async def trim(self, record: ModelMeta, through: str) -> None:
        trimmed = await self._engine.threads.write(self._mark_trimmed, record, through)
        await self.drop_entries(record.incarnation, trimmed)

    def _mark_trimmed(self, record: ModelMeta, through: str) -> int:
        """Trim the log in one step; return the last trimmed number. `drop_entries` frees the space."""
        number = number_of(through)
        log = self._tables.log(record)
        trimmed = max(log.trimmed, min(number, log.last))
        with self._tables.transaction("log"):
            spec = self._tables.intact(record).record.spec
            self._tables.write_model(record.incarnation, record.name, spec, trimmed)
        log.trimmed = trimmed
        return trimmed

    async def drop_entries(self, incarnation: int, through: int = LAST_NUMBER) -> bool:
        """Remove the entries up to a number in batches; return False if the store is closed first."""
        return await self._engine.maintenance.by_pieces(self._drop_entries, incarnation, through)

    def _drop_entries(self, incarnation: int, through: int, rows: int) -> int | None:
        """Remove up to `rows` of the entries, oldest first; return the bytes of their payloads, or None if there are
        no entries.
        """
        base = incarnation << NUMBER_BITS
        (first,) = self._connection.execute(
            "SELECT min(key) FROM entries WHERE key > ? AND key <= ?", (base, base + through)
        ).fetchone()
        if first is None:
            return None
        piece = first, min(first + rows - 1, base + through)
        with self._tables.transaction("log"):
            (size_bytes,) = self._connection.execute(
                "SELECT sum(length(payload)) FROM entries WHERE key BETWEEN ? AND ?", piece
            ).fetchone()
            self._connection.execute("DELETE FROM entries WHERE key BETWEEN ? AND ?", piece)
        return int(size_bytes or 0)

    @in_writer
    def adopt(self, successor: ModelMeta, entries: Sequence[Entry]) -> None:
        log = self._tables.log(successor)
        try:
            with self._tables.transaction("log"):
                for entry in entries:
                    if number_of(entry.position) != log.last + 1:
                        raise ValueError(f"the entry after {log.last} is not {entry.position}")
                    payloads = (entry.payload,)
                    link = self.insert(successor.incarnation, log.last + 1, payloads, log.link, entry.time_ms)
                    log.last, log.link, log.time_ms = log.last + 1, link, entry.time_ms
        except BaseException:
            self._tables.logs.pop(successor.incarnation, None)
            raise
        self._engine.maintenance.wrote(sum(len(entry.payload) for entry in entries))

    @in_writer
    def seal(self, record: ModelMeta, sealed: bool) -> None:
        self._tables.check(record)
        (self._tables.sealed.add if sealed else self._tables.sealed.discard)(record.incarnation)

    def _select(self, record: ModelMeta, last: int, after: int, limit: int, limit_bytes: int = -1) -> list[Entry]:
        """Return entries after a number, at most `limit` of them and `limit_bytes` bytes; a negative limit means no
        limit.

        Raises `ModelDamaged` unless their links match, up to the last entry.
        """
        base = record.incarnation << NUMBER_BITS
        entries: list[Entry] = []
        size_bytes = 0
        link: int | None = None
        cursor = self._connection.execute(
            "SELECT key, payload, link, time_ms FROM entries WHERE key > ? AND key <= ? ORDER BY key LIMIT ?",
            (base + after, base + LAST_NUMBER, limit + 1 if limit >= 0 else -1),
        )
        with closing(cursor):  # an open read transaction would block checkpoints
            # A row has the link before its entry, so each row authenticates the one before it.
            for number, (key, payload, before, time_ms) in enumerate(cursor, after + 1):
                if key != base + number or link not in (None, before):
                    break
                if number > last or len(entries) == limit or 0 <= limit_bytes <= size_bytes:
                    return entries
                if not isinstance(payload, bytes) or not isinstance(before, int) or not isinstance(time_ms, int):
                    break
                entries.append(Entry(str(number), payload, time_ms))
                size_bytes += len(payload)
                link = next_link(before, number + _checked_part(time_ms), payload)
        raise damaged_entry(record.name, entries[-1].position if entries else str(after + 1))

    def insert(self, incarnation: int, first: int, payloads: Sequence[bytes], link: int, now_ms: int) -> int:
        """Replace the end row of a log with entries and a new end row; return the link of the new end row."""
        key = incarnation << NUMBER_BITS
        values: list[int | bytes | None] = []
        for number, payload in enumerate(payloads, first):
            values += key + number, payload, link, now_ms
            link = next_link(link, number + _checked_part(now_ms), payload)
        values += key + first + len(payloads), None, link, 0
        if len(payloads) < ROWS_PER_INSERT:
            self._connection.execute(_insert_statement(len(payloads) + 1), values)
            return link
        for start in range(0, len(values), 4 * ROWS_PER_INSERT):
            block = values[start : start + 4 * ROWS_PER_INSERT]
            self._connection.execute(_insert_statement(len(block) // 4), block)
        return link


@lru_cache(maxsize=ROWS_PER_INSERT)
def _insert_statement(rows: int) -> str:
    return "INSERT OR REPLACE INTO entries (key, payload, link, time_ms) VALUES " + ", ".join(["(?, ?, ?, ?)"] * rows)


def _checked_part(time_ms: int) -> int:
    """Return 32 bits of a time for its link; a change of any byte of the time changes them."""
    return time_ms % 0xFFFFFFFF


def _known(record: ModelMeta, log: Log, position: str) -> int:
    """Return the number of a position that is in the log or is the end of its trimmed part."""
    number = number_of(position)
    if number < log.trimmed:
        raise LogTrimmed(record.name, position, str(log.trimmed))
    if number > log.last or "-" in position:
        raise LogLost(record.name, position)
    return number


def number_of(position: str) -> int:
    """Return the number in the log of a position; raise ValueError if it is invalid.

    A position of Redis has a second number; it lies before the log of a model that was moved here, or in no log.
    """
    key = position_key(position)
    if len(key) > 2:
        raise ValueError(f"a position of a store is one or two numbers, not {position!r}")
    return min(key[0], LAST_NUMBER)
