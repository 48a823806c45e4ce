"""Predictions kept for labels that come later: the features, as they were predicted from.

As in the log: msgpack, little-endian float32 and int32, so they are learnt to the same bits on any
machine.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgpack
import numpy as np
import structlog

from manylabel_service.errors import PredictionExpired, PredictionNotFound
from manylabel_service.hosting.examples import Features
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelRecord, Store
from manylabel_service.ulid import timestamp_of

log = structlog.get_logger()


class PredictionStore:
    """The predictions of one model that wait for their labels."""

    def __init__(self, record: ModelRecord, store: Store, settings: Settings) -> None:
        self._record = record
        self._store = store
        self._ttl_seconds = settings.prediction_ttl_seconds
        self._most = settings.max_kept_predictions
        self._most_bytes = settings.max_kept_prediction_bytes

    async def put(self, ids: Sequence[str], xs: Sequence[Features]) -> None:
        """Keep what was predicted from, each under its id, until its time is over.

        Raises
        ------
        PredictionsFull, StorageGone, ModelGone
        """
        kept = {id: encode_features(x) for id, x in zip(ids, xs, strict=True)}
        await self._store.predictions.put(self._record, kept, self._ttl_seconds, self._most, self._most_bytes)

    async def get(self, ids: Sequence[str]) -> list[Features]:
        """Return the features that were predicted from, for each id; the ids have been checked to be some.

        Raises
        ------
        PredictionNotFound, PredictionExpired, StorageGone, ModelGone
        """
        kept = await self._store.predictions.get(self._record, ids)
        return [self._found(id, features) for id, features in zip(ids, kept, strict=True)]

    def _found(self, id: str, kept: bytes | None) -> Features:
        if kept is not None:
            try:
                return decode_features(kept)
            except ValueError as error:
                log.warning("kept_prediction_damaged", model=self._record.name, id=id, error=str(error))
                raise PredictionNotFound(id) from error
        expired_at = timestamp_of(id) / 1000 + self._ttl_seconds
        if expired_at > time.time():
            raise PredictionNotFound(id)
        when = datetime.fromtimestamp(expired_at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        raise PredictionExpired(id, f"{when} (ttl {self._ttl_seconds:g} s)")


def encode_features(x: Features) -> bytes:
    """Return an example's features as bytes."""
    indices = None if x.indices is None else x.indices.astype("<i4", copy=False).tobytes()
    packed: bytes = msgpack.packb([x.names, indices, x.values.astype("<f4", copy=False).tobytes()])
    return packed


def decode_features(kept: bytes) -> Features:
    """Return the features that `encode_features` saw.

    Raises
    ------
    ValueError
        The bytes are not what it wrote.
    """
    try:
        names, indices, values = msgpack.unpackb(kept)
        return Features(
            names=None if names is None else tuple(names),
            indices=None if indices is None else np.frombuffer(indices, dtype="<i4"),
            values=np.frombuffer(values, dtype="<f4"),
        )
    except (TypeError, msgpack.UnpackException) as error:
        raise ValueError(f"kept features are damaged: {error}") from error
