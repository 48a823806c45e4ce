"""Stored predictions of a Redis store: expiring strings, and their number and sizes."""

import math
import time
from collections.abc import Mapping, Sequence

from manylabel_service.errors import PredictionsFull
from manylabel_service.storage.checksums import seal, unsealed_prediction
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import UNBOUNDED_BYTES, ModelMeta
from manylabel_service.storage.redis.engine import Engine, Part
from manylabel_service.storage.redis.keys import Keys
from manylabel_service.storage.redis.scripts import DROP_PREDICTIONS, GET_PREDICTIONS, KEPT_IDS, PUT_PREDICTIONS, check

AT_ONCE = 1_000
"""Maximum number of predictions that one script reads."""

SWEPT_AT_ONCE = 500
"""Maximum number of expired predictions that one script removes, in about two milliseconds."""


class RedisPredictions(Part):
    """Implements `Predictions` on the engine of a store."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._due: dict[ModelMeta, float] = {}
        """Times at which predictions of the models for which this process has stored some expire."""

    @gated
    async def put(
        self,
        record: ModelMeta,
        predictions: Mapping[str, bytes],
        seconds: float,
        most: int,
        most_bytes: int = UNBOUNDED_BYTES,
    ) -> int:
        keys = Keys.of(record)
        answer = await self._engine.connection.run(
            PUT_PREDICTIONS,
            (keys.head, keys.due, keys.sizes, *map(keys.prediction, predictions)),
            max(1, round(seconds * 1000)),
            most,
            most_bytes,
            *predictions,
            *(seal(payload, record.incarnation, id) for id, payload in predictions.items()),
        )
        check(answer, record, "")
        if answer[0] == "full":
            limit = f"{most:,} predictions" if answer[1] == b"number" else f"{most_bytes:,} bytes of predictions"
            raise PredictionsFull(record.name, limit)
        if predictions:
            self._due[record] = min(self._due.get(record, math.inf), time.monotonic() + seconds)
        return int(answer[1])

    @gated
    async def get(self, record: ModelMeta, ids: Sequence[str]) -> list[bytes | None]:
        keys = Keys.of(record)
        found: list[bytes | None] = []
        for start in range(0, max(len(ids), 1), AT_ONCE):
            part = ids[start : start + AT_ONCE]
            answer = await self._engine.connection.run(GET_PREDICTIONS, (keys.head, *map(keys.prediction, part)))
            check(answer, record, "")
            found += [unsealed_prediction(record, *pair) for pair in zip(part, answer[1], strict=True)]
        return found

    @gated
    async def ids(self, record: ModelMeta, most: int, before: str | None = None) -> list[str]:
        keys = Keys.of(record)
        answer = await self._engine.connection.run(KEPT_IDS, (keys.head, keys.due), most, before or "")
        check(answer, record, "")
        return [id.decode() for id in answer[1]]

    async def drop_expired(self) -> None:
        """Remove expired predictions of the models for which this process has stored some, in batches; raises
        StorageUnavailable."""
        now = time.monotonic()
        for record in [record for record, due in self._due.items() if due <= now]:
            keys = Keys.of(record)
            n_dropped = SWEPT_AT_ONCE
            while n_dropped == SWEPT_AT_ONCE:
                answer = await self._engine.connection.run(
                    DROP_PREDICTIONS, (keys.head, keys.due, keys.sizes), SWEPT_AT_ONCE
                )
                n_dropped, milliseconds = answer[1:]
            del self._due[record]
            if milliseconds >= 0:
                self._due[record] = now + milliseconds / 1_000
