"""The tables of models and logs: each method is one transaction, or nothing.

Blocking, for one thread at a time, as the only writer of the file: the end of each log is cached in memory, so that an
append is usually a single statement.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, get_args

from manylabel_service.errors import (
    LogLost,
    LogSealed,
    LogTrimmed,
    ModelDamaged,
    ModelExists,
    ModelGone,
)
from manylabel_service.storage.checksums import (
    damaged_entry,
    first_link,
    next_link,
    seal,
    unseal,
)
from manylabel_service.storage.protocol import (
    Durability,
    Entry,
    ModelMeta,
    position_key,
)

NUMBER_BITS = 42
"""Bits of an entry's 63-bit key for its number in the log; those above are the incarnation. Room for 4 * 10^12
entries each in two million incarnations. A log that comes from Redis continues at the milliseconds of Unix time."""

LAST_NUMBER = (1 << NUMBER_BITS) - 1

ROWS_PER_INSERT = 64
"""Rows of the largest insert statement. Several rows in one statement, because each execution hands
the interpreter lock to the event loop and must wait for it again."""

READ_BYTES = 8 << 20
"""Payload bytes after which `Tables.read` stops, even below its limit of entries."""


@dataclass(slots=True)
class _Log:
    """Bounds of a log: the number of the last trimmed entry; number, link and time of the last entry."""

    trimmed: int
    last: int
    link: int
    time_ms: int


class _Model(NamedTuple):
    """Row of the table of models."""

    record: ModelMeta
    trimmed: int

    @classmethod
    def of(cls, incarnation: int, name: str | None, sealed: object, trimmed: int) -> _Model:
        spec = unseal(sealed, incarnation, name, trimmed)
        return cls(ModelMeta(str(name), incarnation, spec or b"", damaged=spec is None), trimmed)


class Tables:
    """Models and logs on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._logs: dict[int, _Log] = {}
        # Models that have no name yet, and logs that take no entries: both end with this process.
        self._staged: set[int] = set()
        self._sealed: set[int] = set()
        self._synchronous = ""

    # -- models ---------------------------------------------------------------------------------------

    def prepare_model(self, name: str, spec: bytes, at: str) -> ModelMeta:
        """Add a model without a name, whose log is trimmed through a position, until this process ends."""
        with self.transaction("log"):
            incarnation = self._insert_model(spec, number_of(at))
        self._staged.add(incarnation)
        return ModelMeta(name, incarnation, spec)

    def _insert_model(self, spec: bytes, trimmed: int) -> int:
        """Add a model without a name, and the row that ends its log; return the incarnation."""
        incarnation = self._connection.execute("INSERT INTO models (spec) VALUES (?)", (b"",)).lastrowid
        assert incarnation is not None
        self._write_model(incarnation, None, spec, trimmed)
        self._insert(incarnation, trimmed + 1, (), first_link(incarnation), now_ms=0)
        return incarnation

    def _write_model(self, incarnation: int, name: str | None, spec: bytes, trimmed: int) -> None:
        self._connection.execute(
            "UPDATE models SET name = ?, spec = ?, trimmed = ? WHERE incarnation = ?",
            (name, seal(spec, incarnation, name, trimmed), trimmed, incarnation),
        )

    def name_models(self, successions: Sequence[tuple[ModelMeta | None, ModelMeta]]) -> None:
        with self.transaction("fsync"):
            trimmed = []
            for record, successor in successions:
                trimmed.append(self._intact(successor).trimmed)
                if record is None:
                    if self.find_model(successor.name) is not None:
                        raise ModelExists(successor.name)
                else:
                    self._find(record)
                    self._write_model(record.incarnation, None, b"", LAST_NUMBER)
            for (_, successor), through in zip(successions, trimmed, strict=True):
                self._write_model(successor.incarnation, successor.name, successor.spec, through)
        for record, successor in successions:
            self._staged.discard(successor.incarnation)
            if record is not None and successor.incarnation != record.incarnation:
                self._logs.pop(record.incarnation, None)
                self._sealed.discard(record.incarnation)

    def discard_model(self, successor: ModelMeta) -> bool:
        """Hide a successor; return whether the model was one."""
        if successor.incarnation not in self._staged:
            return False
        self.hide_model(successor)
        self._staged.discard(successor.incarnation)
        return True

    def find_model(self, name: str) -> ModelMeta | None:
        found = self._models("name = ?", name)
        return found[0].record if found else None

    def models(self) -> list[ModelMeta]:
        return [model.record for model in self._models("name IS NOT NULL ORDER BY incarnation")]

    def hide_model(self, record: ModelMeta) -> None:
        """Release the name and make every later call with the record fail (a tombstone); `forget_model` completes the
        deletion.
        """
        with self.transaction("fsync"):
            self._find(record)
            self._write_model(record.incarnation, None, b"", LAST_NUMBER)
        self._logs.pop(record.incarnation, None)

    def hidden_models(self) -> list[int]:
        """Return the incarnations that are deleted but not yet purged."""
        hidden = self._models("name IS NULL")
        return [model.record.incarnation for model in hidden if not model.record.damaged]

    def intact(self) -> bool:
        """Return whether all rows of models are intact, so that entries without a model are certainly orphans."""
        return not any(model.record.damaged for model in self._models("1"))

    def forget_model(self, incarnation: int) -> None:
        """Purge the last rows of a deleted model, after its entries and files."""
        with self.transaction("log"):
            self._connection.execute("DELETE FROM models WHERE incarnation = ?", (incarnation,))

    # -- logs -----------------------------------------------------------------------------------------

    def append(self, record: ModelMeta, payloads: Sequence[bytes], after: str, durability: Durability) -> list[Entry]:
        if not payloads:
            raise ValueError("an append needs at least one payload")
        log = self._log(record)
        known = self._known(record, log, after)
        self.check_open(record)
        one_statement = known >= log.last and len(payloads) < ROWS_PER_INSERT
        now_ms = max(time.time_ns() // 1_000_000, log.time_ms)
        self._synchronize(durability)
        try:
            with nullcontext() if one_statement else self.transaction(durability):
                entries = self._select(record, log.last, known, -1) if known < log.last else []
                link = self._insert(record.incarnation, log.last + 1, payloads, log.link, now_ms)
        except sqlite3.Error:
            self._logs.pop(record.incarnation, None)  # the file shows whether the write succeeded
            raise
        first, log.last, log.link, log.time_ms = log.last + 1, log.last + len(payloads), link, now_ms
        entries += [Entry(str(number), payload, now_ms) for number, payload in enumerate(payloads, first)]
        return entries

    def adopt(self, successor: ModelMeta, entries: Sequence[Entry]) -> None:
        """Add entries at their positions, with their times, to a log whose last is the one before them."""
        log = self._log(successor)
        try:
            with self.transaction("log"):
                for entry in entries:
                    if number_of(entry.position) != log.last + 1:
                        raise ValueError(f"the entry after {log.last} is not {entry.position}")
                    payloads = (entry.payload,)
                    link = self._insert(successor.incarnation, log.last + 1, payloads, log.link, entry.time_ms)
                    log.last, log.link, log.time_ms = log.last + 1, link, entry.time_ms
        except BaseException:
            self._logs.pop(successor.incarnation, None)
            raise

    def seal(self, record: ModelMeta, sealed: bool) -> None:
        self._log(record)
        if sealed:
            self._sealed.add(record.incarnation)
        else:
            self._sealed.discard(record.incarnation)

    def check_open(self, record: ModelMeta) -> None:
        """Raise `LogSealed` if the log of a model takes no entries."""
        if record.incarnation in self._sealed:
            raise LogSealed(name=record.name)

    def read(self, record: ModelMeta, after: str, limit: int) -> list[Entry]:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        log = self._log(record)
        known = self._known(record, log, after)
        return self._select(record, log.last, known, limit, READ_BYTES)

    def entries_after(self, positions: Mapping[ModelMeta, str]) -> dict[ModelMeta, int]:
        """Return how many entries each log has after a position; models that are gone or damaged are omitted."""
        counts = {}
        for record, position in positions.items():
            with suppress(ModelGone, ModelDamaged):
                counts[record] = max(0, self._log(record).last - number_of(position))
        return counts

    def mark_trimmed(self, record: ModelMeta, through: str) -> int:
        """Trim the log in one step; return the last trimmed number. `drop_entries` frees the space."""
        number = number_of(through)
        log = self._log(record)
        trimmed = max(log.trimmed, min(number, log.last))
        with self.transaction("log"):
            self._write_model(record.incarnation, record.name, self._intact(record).record.spec, trimmed)
        log.trimmed = trimmed
        return trimmed

    def trimmed_logs(self) -> list[tuple[int, int]]:
        """Return (incarnation, last trimmed number) of every trimmed log, including hidden models."""
        trimmed = self._models("trimmed > 0")
        return [(model.record.incarnation, model.trimmed) for model in trimmed if not model.record.damaged]

    def drop_entries(self, incarnation: int, through: int, rows: int) -> int | None:
        """Remove up to `rows` of the entries up to a number, oldest first; return their payload bytes, about the bytes
        written by the transaction, or None without entries.
        """
        base = incarnation << NUMBER_BITS
        (first,) = self._connection.execute(
            "SELECT min(key) FROM entries WHERE key > ? AND key <= ?", (base, base + through)
        ).fetchone()
        if first is None:
            return None
        piece = first, min(first + rows - 1, base + through)
        with self.transaction("log"):
            (size_bytes,) = self._connection.execute(
                "SELECT sum(length(payload)) FROM entries WHERE key BETWEEN ? AND ?", piece
            ).fetchone()
            self._connection.execute("DELETE FROM entries WHERE key BETWEEN ? AND ?", piece)
        return int(size_bytes or 0)

    # -- shared ---------------------------------------------------------------------------------------

    def check(self, record: ModelMeta) -> None:
        """Raise `ModelGone` unless the model is there."""
        self._log(record)

    def _log(self, record: ModelMeta) -> _Log:
        log = self._logs.get(record.incarnation)
        if log is None:
            log = self._logs[record.incarnation] = self._read_log(record)
        return log

    def _read_log(self, record: ModelMeta) -> _Log:
        trimmed = self._intact(record).trimmed
        base = record.incarnation << NUMBER_BITS
        rows = self._connection.execute(
            "SELECT key, payload, link, time_ms FROM entries WHERE key > ? AND key <= ? ORDER BY key DESC LIMIT 2",
            (base, base + LAST_NUMBER),
        ).fetchall()
        row = rows[0] if rows else None
        if row is None or row[1] is not None or not isinstance(row[2], int) or row[0] - base - 1 < trimmed:
            raise damaged_entry(record.name, str(trimmed if row is None else row[0] - base))
        # If a log is trimmed through its end, its last time is unknown; the next entry gets the time of the clock.
        time_ms = rows[1][3] if len(rows) > 1 and isinstance(rows[1][3], int) else 0
        return _Log(trimmed, row[0] - base - 1, row[2], time_ms)

    def _models(self, condition: str, *values: object) -> list[_Model]:
        rows = self._connection.execute(
            f"SELECT incarnation, name, spec, trimmed FROM models WHERE {condition}", values
        )
        return [_Model.of(*row) for row in rows]

    def _find(self, record: ModelMeta) -> _Model:
        condition = "1" if record.incarnation in self._staged else "name IS NOT NULL"
        for model in self._models(f"incarnation = ? AND {condition}", record.incarnation):
            return model
        raise ModelGone(record.name, record.incarnation)

    def _intact(self, record: ModelMeta) -> _Model:
        model = self._find(record)
        model.record.check()
        return model

    @staticmethod
    def _known(record: ModelMeta, log: _Log, position: str) -> int:
        """Return the number of a position that the log has, or ends its trimmed part with."""
        number = number_of(position)
        if number < log.trimmed:
            raise LogTrimmed(record.name, position, str(log.trimmed))
        if number > log.last or "-" in position:
            raise LogLost(record.name, position)
        return number

    def _select(self, record: ModelMeta, last: int, after: int, limit: int, limit_bytes: int = -1) -> list[Entry]:
        """Return entries after a number, at most `limit` of them and `limit_bytes` bytes; a negative limit is none.

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

    def _insert(self, incarnation: int, first: int, payloads: Sequence[bytes], link: int, now_ms: int) -> int:
        """Replace the end row of the log by entries and a new end row; return its link."""
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

    def _synchronize(self, durability: Durability) -> None:
        if durability == self._synchronous:
            return
        if durability not in get_args(Durability):
            raise ValueError(f"durability must be one of {', '.join(get_args(Durability))}, not {durability!r}")
        level = "FULL" if durability == "fsync" else "NORMAL"
        self._connection.execute(f"PRAGMA synchronous = {level}")
        self._synchronous = durability

    @contextmanager
    def transaction(self, durability: Durability) -> Iterator[None]:
        self._synchronize(durability)
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            raise


@lru_cache(maxsize=ROWS_PER_INSERT)
def _insert_statement(rows: int) -> str:
    return "INSERT OR REPLACE INTO entries (key, payload, link, time_ms) VALUES " + ", ".join(["(?, ?, ?, ?)"] * rows)


def _checked_part(time_ms: int) -> int:
    """Return 32 bits of a time for its link, which change with each of its bytes."""
    return time_ms % 0xFFFFFFFF


def number_of(position: str) -> int:
    """Return the number in the log of a position; raise ValueError if it is invalid.

    A position of Redis has a second number; it is before the log of a model that was moved here, or in no log.
    """
    key = position_key(position)
    if len(key) > 2:
        raise ValueError(f"a position of a store is one or two numbers, not {position!r}")
    return min(key[0], LAST_NUMBER)
