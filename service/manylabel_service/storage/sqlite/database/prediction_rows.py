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

    def put(self, record: ModelRecord, predictions: Mapping[str, bytes], seconds: float, most: int) -> None:
        self._tables.check(record)
        now_ms = time.time_ns() // 1_000_000
        expires_ms = now_ms + round(seconds * 1000)
        with self._tables.transaction("log"):
            # Those of every model that are over go: a model that keeps none any more would never clean up itself.
            self._connection.execute("DELETE FROM predictions WHERE expires_unix_ms <= ?", (now_ms,))
            self._connection.executemany(
                "INSERT OR REPLACE INTO predictions VALUES (?, ?, ?, ?)",
                [
                    (record.incarnation, id, expires_ms, seal(payload, record.incarnation, id))
                    for id, payload in predictions.items()
                ],
            )
            if self._count(record.incarnation) > most:
                raise PredictionsFull(record.name, most)

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

    def forget(self, incarnation: int) -> None:
        """Remove all of a model that is gone."""
        with self._tables.transaction("log"):
            self._connection.execute("DELETE FROM predictions WHERE incarnation = ?", (incarnation,))

    def _count(self, incarnation: int) -> int:
        (count,) = self._connection.execute(
            "SELECT count(*) FROM predictions WHERE incarnation = ?", (incarnation,)
        ).fetchone()
        return int(count)
