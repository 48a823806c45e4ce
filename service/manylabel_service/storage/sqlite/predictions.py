"""Stored predictions of a SQLite store: a table."""

from collections.abc import Mapping, Sequence

from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import UNBOUNDED_BYTES, ModelMeta
from manylabel_service.storage.sqlite.engine import Part


class SQLitePredictions(Part):
    """Implements `Predictions` on the engine of a store."""

    @gated
    async def put(
        self,
        record: ModelMeta,
        predictions: Mapping[str, bytes],
        seconds: float,
        most: int,
        most_bytes: int = UNBOUNDED_BYTES,
    ) -> int:
        put = self._engine.prediction_rows.put
        kept_bytes = await self._engine.threads.write(put, record, predictions, seconds, most, most_bytes)
        self._engine.maintenance.wrote(sum(map(len, predictions.values())))
        return kept_bytes

    @gated
    async def get(self, record: ModelMeta, ids: Sequence[str]) -> list[bytes | None]:
        return await self._engine.threads.write(self._engine.prediction_rows.get, record, ids)

    @gated
    async def ids(self, record: ModelMeta, most: int, before: str | None = None) -> list[str]:
        return await self._engine.threads.write(self._engine.prediction_rows.ids, record, most, before)
