"""Tables of models and entries: the functions that several parts of a store share.

The methods block, and are for one thread at a time. This is the only writer of the file, so the end of each log is
cached in memory, and an append is usually a single statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from manylabel_service.errors import LogSealed, ModelGone
from manylabel_service.storage.checksums import damaged_entry, seal, unseal
from manylabel_service.storage.document_pages import MAX_NAME_BYTES
from manylabel_service.storage.models import leader_of
from manylabel_service.storage.protocol import Durability, ModelMeta

NUMBER_BITS = 42
"""Number of low bits of an entry's 63-bit key that hold its number in the log; the higher bits are the incarnation.
This allows 4 * 10^12 entries in each of two million incarnations. A log that was moved from Redis continues at the
milliseconds of Unix time."""

LAST_NUMBER = (1 << NUMBER_BITS) - 1

COLUMNS = "incarnation, models.name, spec, trimmed, leader"
"""Columns of the table of models, in the order that `Model.of` expects."""


_HIGHEST = "\U0010ffff"


def bounds(prefix: str) -> tuple[str, str]:
    """Return the first and the last text with a prefix, up to the maximum length of a name or key."""
    return prefix, prefix + _HIGHEST * (MAX_NAME_BYTES // len(_HIGHEST.encode()))


@dataclass(slots=True)
class Log:
    """Bounds of a log: the number of the last trimmed entry; number, link and time of the last entry."""

    trimmed: int
    last: int
    link: int
    time_ms: int


class Model(NamedTuple):
    """Row of the table of models."""

    record: ModelMeta
    trimmed: int

    @classmethod
    def of(cls, incarnation: int, name: str | None, sealed: object, trimmed: int, leader: int | None) -> Model:
        spec = unseal(sealed, incarnation, name, trimmed, leader)
        return cls(ModelMeta(str(name), incarnation, spec or b"", damaged=spec is None), trimmed)


class Tables:
    """Models and ends of logs on one connection.

    Attributes
    ----------
    durability : durability of appends.
    logs : cached ends of logs, by incarnation.
    staged : incarnations of models that have no name yet; they are lost when this process ends.
    sealed : incarnations whose logs accept no entries until this process ends.
    """

    def __init__(self, connection: sqlite3.Connection, durability: Durability) -> None:
        self.connection = connection
        self.durability = durability
        self.logs: dict[int, Log] = {}
        self.staged: set[int] = set()
        self.sealed: set[int] = set()
        self._synchronous = ""

    def check(self, record: ModelMeta) -> None:
        """Raise `ModelGone` unless the model exists."""
        self.log(record)

    def check_open(self, record: ModelMeta) -> None:
        """Raise `LogSealed` if the log of a model is sealed."""
        if record.incarnation in self.sealed:
            raise LogSealed(name=record.name)

    def log(self, record: ModelMeta) -> Log:
        """Return the bounds of a log."""
        log = self.logs.get(record.incarnation)
        if log is None:
            log = self.logs[record.incarnation] = self._read_log(record)
        return log

    def _read_log(self, record: ModelMeta) -> Log:
        trimmed = self.intact(record).trimmed
        base = record.incarnation << NUMBER_BITS
        rows = self.connection.execute(
            "SELECT key, payload, link, time_ms FROM entries WHERE key > ? AND key <= ? ORDER BY key DESC LIMIT 2",
            (base, base + LAST_NUMBER),
        ).fetchall()
        row = rows[0] if rows else None
        if row is None or row[1] is not None or not isinstance(row[2], int) or row[0] - base - 1 < trimmed:
            raise damaged_entry(record.name, str(trimmed if row is None else row[0] - base))
        # If a log is trimmed through its end, its last time is unknown; the next entry gets the time of the clock.
        time_ms = rows[1][3] if len(rows) > 1 and isinstance(rows[1][3], int) else 0
        return Log(trimmed, row[0] - base - 1, row[2], time_ms)

    def models(self, condition: str, *values: object) -> list[Model]:
        """Return the models whose rows meet a condition."""
        rows = self.connection.execute(f"SELECT {COLUMNS} FROM models WHERE {condition}", values)
        return [Model.of(*row) for row in rows]

    def find(self, record: ModelMeta) -> Model:
        """Return the row of a model, which may be damaged; raise `ModelGone`."""
        condition = "1" if record.incarnation in self.staged else "name IS NOT NULL"
        for model in self.models(f"incarnation = ? AND {condition}", record.incarnation):
            return model
        raise ModelGone(record.name, record.incarnation)

    def intact(self, record: ModelMeta) -> Model:
        """Return the row of a model; raise `ModelGone` or `ModelDamaged`."""
        model = self.find(record)
        model.record.check()
        return model

    def write_model(self, incarnation: int, name: str | None, spec: bytes, trimmed: int) -> None:
        """Update the row of a model."""
        leader = leader_of(spec)
        self.connection.execute(
            "UPDATE models SET name = ?, spec = ?, trimmed = ?, leader = ? WHERE incarnation = ?",
            (name, seal(spec, incarnation, name, trimmed, leader), trimmed, leader, incarnation),
        )

    def synchronize(self, durability: Durability) -> None:
        """Set the durability of the following commits."""
        if durability == self._synchronous:
            return
        level = "FULL" if durability == "fsync" else "NORMAL"
        self.connection.execute(f"PRAGMA synchronous = {level}")
        self._synchronous = durability

    @contextmanager
    def transaction(self, durability: Durability) -> Iterator[None]:
        self.synchronize(durability)
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
            raise
