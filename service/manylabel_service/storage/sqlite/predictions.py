"""Stored predictions of a SQLite store: a table; each method is one short transaction, because appends wait for it."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import NamedTuple

from manylabel_service.errors import PredictionsFull
from manylabel_service.storage.checksums import seal, unsealed_prediction
from manylabel_service.storage.protocol import UNBOUNDED_BYTES, ModelMeta
from manylabel_service.storage.sqlite.engine import Engine, Part, in_writer

IDS_PER_QUERY = 500
"""Maximum number of ids per statement: older builds of SQLite allow 999 variables."""
MIN_EXPIRED = 64
"""Number of expired predictions that a call of `put` removes, in addition to twice the number that it adds."""


class _Stored(NamedTuple):
    """Number and bytes of the rows of one model, including expired ones."""

    rows: int
    size_bytes: int

    def plus(self, rows: int, size_bytes: int) -> _Stored:
        return _Stored(self.rows + rows, self.size_bytes + size_bytes)


_Counts = MutableMapping[int, _Stored]
"""Counts by incarnation."""


class SQLitePredictions(Part):
    """Implements `Predictions` on the engine of a store."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._stored: dict[int, _Stored] = {}

    @in_writer
    def put(
        self,
        record: ModelMeta,
        predictions: Mapping[str, bytes],
        seconds: float,
        most: int,
        most_bytes: int = UNBOUNDED_BYTES,
    ) -> int:
        self._tables.check(record)
        self._tables.check_open(record)
        incarnation, now_ms = record.incarnation, time.time_ns() // 1_000_000
        expires_ms = now_ms + round(seconds * 1000)
        rows = [(incarnation, id, expires_ms, seal(payload, incarnation, id)) for id, payload in predictions.items()]
        stored = ChainMap({}, self._stored)
        if incarnation not in stored:
            self._stored[incarnation] = self._counted(incarnation)
        with self._tables.transaction("log"):
            # Remove expired predictions of all models, more than are added, so that those of unused models are
            # removed too.
            oldest = "expires_unix_ms <= ? ORDER BY expires_unix_ms"
            self._remove(stored, oldest, (now_ms,), 2 * len(rows) + MIN_EXPIRED)
            self._remove_ids(stored, incarnation, list(predictions))
            self._connection.executemany("INSERT INTO predictions VALUES (?, ?, ?, ?)", rows)
            stored[incarnation] = stored[incarnation].plus(len(rows), sum(len(row[-1]) for row in rows))
            self._make_room(stored, record, now_ms, most, most_bytes)
        self._stored.update(stored.maps[0])
        self._engine.maintenance.wrote(sum(map(len, predictions.values())))
        return stored[incarnation].size_bytes

    @in_writer
    def get(self, record: ModelMeta, ids: Sequence[str]) -> list[bytes | None]:
        self._tables.check(record)
        now_ms = time.time_ns() // 1_000_000
        found: dict[str, bytes] = {}
        for start in range(0, len(ids), IDS_PER_QUERY):
            part = ids[start : start + IDS_PER_QUERY]
            found.update(
                self._connection.execute(
                    "SELECT id, payload FROM predictions WHERE incarnation = ? AND expires_unix_ms > ? "
                    f"AND id IN ({', '.join('?' * len(part))})",
                    (record.incarnation, now_ms, *part),
                )
            )
        return [unsealed_prediction(record, id, found.get(id)) for id in ids]

    @in_writer
    def ids(self, record: ModelMeta, most: int, before: str | None = None) -> list[str]:
        self._tables.check(record)
        older, bound = ("", ()) if before is None else ("AND id < ? ", (before,))
        rows = self._connection.execute(
            f"SELECT id FROM predictions WHERE incarnation = ? AND expires_unix_ms > ? {older}ORDER BY id DESC LIMIT ?",
            (record.incarnation, time.time_ns() // 1_000_000, *bound, most),
        )
        return [id for (id,) in rows]

    def forget(self, incarnation: int, rows: int) -> int | None:
        """Remove up to `rows` predictions of a deleted model, in the writer; return their bytes, or None."""
        self._stored.pop(incarnation, None)
        with self._tables.transaction("log"):
            removed = self._remove({}, "incarnation = ?", (incarnation,), rows)
        return removed.size_bytes if removed.rows else None

    def _counted(self, incarnation: int) -> _Stored:
        """Count the predictions of a model, only once, because counting reads each of them."""
        row = self._connection.execute(
            "SELECT count(*), coalesce(sum(length(payload)), 0) FROM predictions WHERE incarnation = ?", (incarnation,)
        ).fetchone()
        return _Stored(*row)

    def _make_room(self, stored: _Counts, record: ModelMeta, now_ms: int, most: int, most_bytes: int) -> None:
        """Remove expired predictions of a model that has too many; raise PredictionsFull if that is not enough."""
        # The plus sign makes SQLite scan the expired predictions, not all predictions of the model.
        expired = "+incarnation = ? AND expires_unix_ms <= ?", (record.incarnation, now_ms)
        while True:
            rows, size_bytes = stored[record.incarnation]
            if rows <= most and size_bytes <= most_bytes:
                return
            if not self._remove(stored, *expired, max(MIN_EXPIRED, rows - most)).rows:
                limit = f"{most:,} predictions" if rows > most else f"{most_bytes:,} bytes of predictions"
                raise PredictionsFull(record.name, limit)

    def _remove_ids(self, stored: _Counts, incarnation: int, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), IDS_PER_QUERY):
            part = ids[start : start + IDS_PER_QUERY]
            marks = ", ".join("?" * len(part))
            self._remove(stored, f"incarnation = ? AND id IN ({marks})", (incarnation, *part), len(part))

    def _remove(self, stored: _Counts, condition: str, values: Sequence[object], most: int) -> _Stored:
        """Remove up to `most` rows that meet a condition; return their number and their bytes."""
        found = self._connection.execute(
            f"SELECT incarnation, id, length(payload) FROM predictions WHERE {condition} LIMIT ?", (*values, most)
        ).fetchall()
        self._connection.executemany("DELETE FROM predictions WHERE incarnation = ? AND id = ?", [f[:2] for f in found])
        for incarnation, _, size_bytes in found:
            if incarnation in stored:
                stored[incarnation] = stored[incarnation].plus(-1, -size_bytes)
        return _Stored(len(found), sum(size_bytes for *_, size_bytes in found))
