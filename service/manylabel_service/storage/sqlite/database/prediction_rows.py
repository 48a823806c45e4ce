"""The table of kept predictions; each method is one transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence

from manylabel_service.errors import PredictionsFull
from manylabel_service.storage.checksums import seal, unsealed_prediction
from manylabel_service.storage.protocol import ModelRecord
from manylabel_service.storage.sqlite.database.tables import Tables

IDS_PER_QUERY = 500
"""SQLite allows 999 variables in a statement in its older builds."""


class PredictionRows:
    """The predictions of all models on one connection. Blocking; for the thread of its tables.

    Parameters
    ----------
    connection : of the tables.
    tables : know which models are there.
    """

    def __init__(self, connection: sqlite3.Connection, tables: Tables) -> None:
        self._connection = connection
        self._tables = tables
        self._bytes: dict[int, int] = {}  # at least as many as there are, by incarnation

    def put(
        self, record: ModelRecord, predictions: Mapping[str, bytes], seconds: float, most: int, most_bytes: int
    ) -> int:
        self._tables.check(record)
        now_ms = time.time_ns() // 1_000_000
        expires_ms = now_ms + round(seconds * 1000)
        with self._tables.transaction("log"):
            # Those of every model that are over go: a model that keeps none any more would never clean up itself.
            self._connection.execute("DELETE FROM predictions WHERE expires_unix_ms <= ?", (now_ms,))
            rows = [
                (record.incarnation, id, expires_ms, seal(payload, record.incarnation, id))
                for id, payload in predictions.items()
            ]
            self._connection.executemany("INSERT OR REPLACE INTO predictions VALUES (?, ?, ?, ?)", rows)
            if self._count(record.incarnation) > most:
                raise PredictionsFull(record.name, f"{most:,} predictions")
            n_bytes = self._bytes_with(record.incarnation, sum(len(row[-1]) for row in rows), most_bytes)
            if n_bytes > most_bytes:
                raise PredictionsFull(record.name, f"{most_bytes:,} bytes of predictions")
        self._bytes[record.incarnation] = n_bytes
        return n_bytes

    def get(self, record: ModelRecord, ids: Sequence[str]) -> list[bytes | None]:
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

    def ids(self, record: ModelRecord, most: int, before: str | None) -> list[str]:
        self._tables.check(record)
        older, bound = ("", ()) if before is None else ("AND id < ? ", (before,))
        rows = self._connection.execute(
            f"SELECT id FROM predictions WHERE incarnation = ? AND expires_unix_ms > ? {older}ORDER BY id DESC LIMIT ?",
            (record.incarnation, time.time_ns() // 1_000_000, *bound, most),
        )
        return [id for (id,) in rows]

    def forget(self, incarnation: int) -> None:
        """Remove all of a model that is gone."""
        self._bytes.pop(incarnation, None)
        with self._tables.transaction("log"):
            self._connection.execute("DELETE FROM predictions WHERE incarnation = ?", (incarnation,))

    def _bytes_with(self, incarnation: int, new_bytes: int, most_bytes: int) -> int:
        """Return at least how many bytes there are, with those just written; they are summed only where it matters."""
        known = self._bytes.get(incarnation)
        if known is not None and known + new_bytes <= most_bytes:
            return known + new_bytes
        (total,) = self._connection.execute(
            "SELECT coalesce(sum(length(payload)), 0) FROM predictions WHERE incarnation = ?", (incarnation,)
        ).fetchone()
        return int(total)

    def _count(self, incarnation: int) -> int:
        (count,) = self._connection.execute(
            "SELECT count(*) FROM predictions WHERE incarnation = ?", (incarnation,)
        ).fetchone()
        return int(count)
