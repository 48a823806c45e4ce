"""The tables of models, logs and snapshots: each method is one transaction, or nothing.

Blocking, for one thread at a time, and relying on being the only writer of the file: where each log
ends is kept in memory, so that the usual append is a single statement.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from manylabel_service.errors import LogLost, LogTrimmed, ModelExists, ModelGone
from manylabel_service.storage.protocol import SEED, Durability, Entry, ModelRecord, SnapshotRecord, position_key

NUMBER_BITS = 40
"""Of an entry's 63-bit key: its number in the log; those above are the incarnation. Room for 10^12
entries each in eight million incarnations."""

LAST_NUMBER = (1 << NUMBER_BITS) - 1

ROWS_PER_INSERT = 64
"""Rows of the largest insert statement. Several rows in one statement, because each execution hands
the interpreter lock to the event loop and has to wait for it again."""

READ_BYTES = 8 << 20
"""Payload bytes after which `Tables.read` stops, however many entries it may return."""


@dataclass(slots=True)
class _Log:
    """A log begins after the number of the last entry trimmed, and ends with that of the last entry."""

    trimmed: int
    last: int


class Tables:
    """Models, logs and rows of snapshots on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._logs: dict[int, _Log] = {}
        self._synchronous = ""

    # -- models ---------------------------------------------------------------------------------------

    def create_model(self, name: str, spec: bytes) -> ModelRecord:
        try:
            with self.transaction("fsync"):
                row = self._connection.execute("INSERT INTO models (name, spec) VALUES (?, ?)", (name, spec))
        except sqlite3.IntegrityError:
            raise ModelExists(name) from None
        assert row.lastrowid is not None
        return ModelRecord(name, row.lastrowid, spec)

    def prepare_model(self, name: str, spec: bytes) -> ModelRecord:
        """Add a hidden model whose log is trimmed through `SEED`; `reveal_model` ends what this begins."""
        if self.find_model(name) is not None:
            raise ModelExists(name)
        with self.transaction("log"):
            row = self._connection.execute(
                "INSERT INTO models (name, spec, trimmed) VALUES (NULL, ?, ?)", (spec, int(SEED))
            )
        assert row.lastrowid is not None
        return ModelRecord(name, row.lastrowid, spec)

    def reveal_model(self, record: ModelRecord, size_bytes: int) -> None:
        """Store the name of a prepared model and its snapshot at `SEED`."""
        try:
            with self.transaction("fsync"):
                self._connection.execute(
                    "UPDATE models SET name = ? WHERE incarnation = ?", (record.name, record.incarnation)
                )
                self.put_snapshot_row(record, SEED, size_bytes)
        except sqlite3.IntegrityError:
            raise ModelExists(record.name) from None

    def find_model(self, name: str) -> ModelRecord | None:
        row = self._connection.execute("SELECT name, incarnation, spec FROM models WHERE name = ?", (name,)).fetchone()
        return row and ModelRecord(*row)

    def models(self) -> list[ModelRecord]:
        rows = self._connection.execute(
            "SELECT name, incarnation, spec FROM models WHERE name IS NOT NULL ORDER BY incarnation"
        )
        return [ModelRecord(*row) for row in rows]

    def hide_model(self, record: ModelRecord) -> None:
        """Free the name and let every later call with the record fail; `forget_model` ends what
        this begins."""
        with self.transaction("fsync"):
            self._log(record)
            self._connection.execute(
                "UPDATE models SET name = NULL, trimmed = ? WHERE incarnation = ?",
                (LAST_NUMBER, record.incarnation),
            )
        del self._logs[record.incarnation]

    def hidden_models(self) -> list[int]:
        """Return the incarnations that are deleted, but not yet gone."""
        rows = self._connection.execute("SELECT incarnation FROM models WHERE name IS NULL")
        return [incarnation for (incarnation,) in rows]

    def forget_model(self, incarnation: int) -> None:
        """Remove the last traces of a hidden model, once its entries and files are gone."""
        with self.transaction("log"):
            self._connection.execute("DELETE FROM snapshots WHERE incarnation = ?", (incarnation,))
            self._connection.execute("DELETE FROM models WHERE incarnation = ?", (incarnation,))

    # -- logs -----------------------------------------------------------------------------------------

    def append(self, record: ModelRecord, payloads: Sequence[bytes], after: str, durability: Durability) -> list[Entry]:
        if not payloads:
            raise ValueError("an append needs at least one payload")
        known = number_of(after)
        log = self._log(record)
        self._refuse_unknown(record, log, known)
        one_statement = known >= log.last and len(payloads) <= ROWS_PER_INSERT
        self._synchronize(durability)
        try:
            with nullcontext() if one_statement else self.transaction(durability):
                entries = self._select(record.incarnation, known, -1) if known < log.last else []
                self._insert(record.incarnation, log.last + 1, payloads)
        except sqlite3.Error:
            self._logs.pop(record.incarnation, None)  # whatever became of it, the file knows
            raise
        first, log.last = log.last + 1, log.last + len(payloads)
        entries += [Entry(str(number), payload) for number, payload in enumerate(payloads, first)]
        return entries

    def read(self, record: ModelRecord, after: str, limit: int) -> list[Entry]:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        known = number_of(after)
        self._refuse_unknown(record, self._log(record), known)
        return self._select(record.incarnation, known, limit, READ_BYTES)

    def mark_trimmed(self, record: ModelRecord, through: str) -> int:
        """Cut the log in one step; return the last number cut. `drop_entries` gives the space back."""
        number = number_of(through)
        log = self._log(record)
        trimmed = max(log.trimmed, min(number, log.last))
        with self.transaction("log"):
            self._connection.execute(
                "UPDATE models SET trimmed = ? WHERE incarnation = ?", (trimmed, record.incarnation)
            )
        log.trimmed = trimmed
        return trimmed

    def trimmed_logs(self) -> list[tuple[int, int]]:
        """Return (incarnation, last number cut) of every log that was ever cut, those of hidden models included."""
        rows = self._connection.execute("SELECT incarnation, trimmed FROM models WHERE trimmed > 0")
        return list(rows)

    def drop_entries(self, incarnation: int, through: int, rows: int) -> int | None:
        """Remove up to so many of the entries through a number, the oldest first.

        Their payload bytes, about what the transaction wrote; None if there were no entries.
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
        return int(size_bytes)

    # -- snapshots ------------------------------------------------------------------------------------

    def check_position(self, record: ModelRecord, position: str) -> None:
        """Raise `LogTrimmed` or `LogLost` unless the log has, or ends its trimmed part with, the position."""
        self._refuse_unknown(record, self._log(record), number_of(position))

    def has_snapshot(self, record: ModelRecord, position: str) -> bool:
        self._log(record)
        return (
            self._connection.execute(
                "SELECT 1 FROM snapshots WHERE incarnation = ? AND position = ?",
                (record.incarnation, number_of(position)),
            ).fetchone()
            is not None
        )

    def put_snapshot(self, record: ModelRecord, position: str, size_bytes: int) -> None:
        with self.transaction("fsync"):
            self.check_position(record, position)
            self.put_snapshot_row(record, position, size_bytes)

    def put_snapshot_row(self, record: ModelRecord, position: str, size_bytes: int) -> None:
        """Write the row as a part of a transaction; a snapshot that is replaced stays pinned."""
        self._connection.execute(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?, 0) ON CONFLICT DO UPDATE SET "
            "size_bytes = excluded.size_bytes, created_unix_ms = excluded.created_unix_ms",
            (record.incarnation, number_of(position), size_bytes, time.time_ns() // 1_000_000),
        )

    def snapshots(self, record: ModelRecord) -> list[SnapshotRecord]:
        self._log(record)
        rows = self._connection.execute(
            "SELECT position, size_bytes, created_unix_ms, pinned FROM snapshots "
            "WHERE incarnation = ? ORDER BY position DESC",
            (record.incarnation,),
        )
        return [SnapshotRecord(str(position), size, created, bool(pin)) for position, size, created, pin in rows]

    def all_snapshots(self) -> list[tuple[int, str]]:
        """Return (incarnation, position) of every snapshot."""
        rows = self._connection.execute("SELECT incarnation, position FROM snapshots")
        return [(incarnation, str(position)) for incarnation, position in rows]

    def delete_snapshot(self, record: ModelRecord, position: str) -> bool:
        """Remove the row unless it is pinned; return whether its file can go."""
        with self.transaction("log"):
            self._log(record)
            self._connection.execute(
                "DELETE FROM snapshots WHERE incarnation = ? AND position = ? AND NOT pinned",
                (record.incarnation, number_of(position)),
            )
        return not self.has_snapshot(record, position)

    def pin_snapshot(self, record: ModelRecord, position: str, pinned: bool) -> bool:
        with self.transaction("fsync"):
            self._log(record)
            row = self._connection.execute(
                "UPDATE snapshots SET pinned = ? WHERE incarnation = ? AND position = ?",
                (int(pinned), record.incarnation, number_of(position)),
            )
        return row.rowcount > 0

    # -- shared ---------------------------------------------------------------------------------------

    def check(self, record: ModelRecord) -> None:
        """Raise `ModelGone` unless the model is there."""
        self._log(record)

    def _log(self, record: ModelRecord) -> _Log:
        log = self._logs.get(record.incarnation)
        if log is None:
            log = self._logs[record.incarnation] = self._read_log(record)
        return log

    def _read_log(self, record: ModelRecord) -> _Log:
        row = self._connection.execute(
            "SELECT trimmed FROM models WHERE incarnation = ? AND name IS NOT NULL", (record.incarnation,)
        ).fetchone()
        if row is None:
            raise ModelGone(record.name, record.incarnation)
        base = record.incarnation << NUMBER_BITS
        (last,) = self._connection.execute(
            "SELECT max(key) FROM entries WHERE key > ? AND key <= ?", (base, base + LAST_NUMBER)
        ).fetchone()
        return _Log(row[0], max(row[0], 0 if last is None else last - base))

    @staticmethod
    def _refuse_unknown(record: ModelRecord, log: _Log, known: int) -> None:
        if known < log.trimmed:
            raise LogTrimmed(record.name, str(known), str(log.trimmed))
        if known > log.last:
            raise LogLost(record.name, str(known))

    def _select(self, incarnation: int, after: int, limit: int, limit_bytes: int = -1) -> list[Entry]:
        base = incarnation << NUMBER_BITS
        entries: list[Entry] = []
        size_bytes = 0
        cursor = self._connection.execute(
            "SELECT key, payload FROM entries WHERE key > ? AND key <= ? ORDER BY key LIMIT ?",
            (base + after, base + LAST_NUMBER, limit),
        )
        with closing(cursor):  # one left half-way would hold up checkpoints
            for key, payload in cursor:
                entries.append(Entry(str(key - base), payload))
                size_bytes += len(payload)
                if 0 <= limit_bytes <= size_bytes:
                    break
        return entries

    def _insert(self, incarnation: int, first: int, payloads: Sequence[bytes]) -> None:
        key = (incarnation << NUMBER_BITS) + first
        for start in range(0, len(payloads), ROWS_PER_INSERT):
            block = payloads[start : start + ROWS_PER_INSERT]
            values = [value for row in enumerate(block, key + start) for value in row]
            self._connection.execute(_insert_statement(len(block)), values)

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
    return "INSERT INTO entries (key, payload) VALUES " + ", ".join(["(?, ?)"] * rows)


def number_of(position: str) -> int:
    """Return the number in the log that a position stands for; ValueError if it is none of this store's."""
    key = position_key(position)
    if len(key) != 1:
        raise ValueError(f"a position of this store is one number, not {position!r}")
    return min(key[0], LAST_NUMBER)
