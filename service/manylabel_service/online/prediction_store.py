"""Stored predictions for delayed labels: features and returned scores.

They are encoded like log entries: msgpack, with little-endian float32 and int32, and float64 for scores. So learning
and metrics compute identical bits on any machine.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import NamedTuple

import msgpack
import numpy as np
import structlog
from numpy.typing import NDArray

from manylabel_core.parity import Deferral
from manylabel_core.promise import Decision
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.environment import time
from manylabel_service.errors import LogSealed, PredictionExpired, PredictionNotFound, ReleaseTooOld
from manylabel_service.hosting.examples import Features
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.online.state.log_entries import pack_decisions, pack_vectors, read_decisions, unpack_vectors
from manylabel_service.online.state.served_metrics import ServedBy
from manylabel_service.settings import Settings
from manylabel_service.slices import in_slices
from manylabel_service.storage import ModelMeta, Store
from manylabel_service.ulid import MAX_MS, timestamp_of

log = structlog.get_logger()


class StoredPrediction(NamedTuple):
    """Features of a prediction, and the scores that were returned.

    `scores` (float64) has the score minus threshold of each known label, in column order. A trained model stores no
    features, and `answered` is the version that predicted. `record` is the example as posted, as JSON, if requested.
    `decision` is the served decision on labels, if precision was promised. `deferral` is the served decision on the
    teacher, if parity was promised.
    """

    x: Features
    scores: NDArray[np.float64]
    answered: ServedBy | None = None
    record: bytes | None = None
    decision: Decision | None = None
    deferral: Deferral | None = None


N_FIELDS = 8
"""Number of fields of a stored prediction."""

SEALED_SECONDS = 30.0
SEALED_POLL_SECONDS = 0.05
"""Seconds to wait for a log that is being replaced, and poll interval in seconds."""

PAGE = 500
"""Number of stored predictions read at a time."""

NO_FEATURES = Features(None, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))


class PredictionStore:
    """Stored predictions of one model that wait for their labels.

    Attributes
    ----------
    max_ranked : maximum number of predictions that are compared to find those to label next.
    kept_bytes : bytes of all predictions in the store at the latest `put` by this process.
    """

    def __init__(self, record: ModelMeta, store: Store, settings: Settings) -> None:
        self._record = record
        self._store = store
        self._ttl_seconds = settings.prediction_ttl_seconds
        self._most = settings.max_stored_predictions
        self.max_ranked = settings.limits.max_ranked_predictions
        self._most_bytes = settings.limits.max_stored_prediction_bytes
        self.kept_bytes = 0

    async def put(
        self,
        ids: Sequence[str],
        xs: Sequence[Features],
        predictions: Sequence[Prediction],
        columns_of: Callable[[Iterable[str]], Sequence[int]] | None = None,
        records: Sequence[bytes] | None = None,
    ) -> None:
        """Store features and returned scores under their ids until they expire; predictions with `stored` false are
        omitted.

        The scores of a prediction belong to the first labels, in order, unless `columns_of` returns the columns of its
        labels (-1: no column). `records` are the examples as posted, in JSON, if they must be stored too.
        """
        parts = zip(ids, xs, predictions, repeat(None) if records is None else records, strict=False)
        await self._put(
            (id, StoredPrediction(x, _in_columns(one, columns_of), None, record, one.decision, one.deferral))
            for id, x, one, record in parts
            if one.stored
        )

    async def put_answers(self, ids: Sequence[str], predictions: Sequence[Prediction], version: int) -> None:
        """Store predictions of a version of a trained model, without features. Raises the errors of `put`."""
        answers = (
            StoredPrediction(NO_FEATURES, prediction.margins, ServedBy(version, tuple(prediction.scores)))
            for prediction in predictions
        )
        await self._put(zip(ids, answers, strict=True))

    async def _put(self, predictions: Iterable[tuple[str, StoredPrediction]]) -> None:
        kept: dict[str, bytes] = {}
        async for id, prediction in in_slices(predictions):
            kept[id] = encode_kept(prediction)
        if not kept:
            return
        put, give_up = self._store.predictions.put, time.monotonic() + SEALED_SECONDS
        while True:
            try:
                self.kept_bytes = await put(self._record, kept, self._ttl_seconds, self._most, self._most_bytes)
                return
            except LogSealed:  # the model is about to be replaced by its successor
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(SEALED_POLL_SECONDS)

    async def get(self, ids: Sequence[str]) -> list[StoredPrediction]:
        """Return the stored prediction for each id; the ids are known to be valid. Raises PredictionNotFound,
        PredictionExpired, StorageUnavailable or ModelGone."""
        kept = await self._store.predictions.get(self._record, ids)
        return [self._found(id, one) for id, one in zip(ids, kept, strict=True)]

    async def newest(
        self, wanted: Callable[[str], bool], most: int, since_ms: int = -1, until_ms: int = MAX_MS
    ) -> AsyncIterator[list[tuple[str, StoredPrediction]]]:
        """Yield at most `most` stored predictions, newest first, in batches.

        Raises StorageUnavailable or ModelGone. The predictions are from after `since_ms` and up to `until_ms`, in
        milliseconds of Unix time.
        """
        before: str | None = None
        while most > 0 and (ids := await self._store.predictions.ids(self._record, PAGE, before)):
            before = ids[-1]
            found = await self.find([id for id in ids if since_ms < timestamp_of(id) <= until_ms and wanted(id)][:most])
            most -= len(found)
            if found:
                yield found
            if timestamp_of(before) <= since_ms:
                return

    async def find(self, ids: Sequence[str]) -> list[tuple[str, StoredPrediction]]:
        """Return the predictions that are still stored and intact, with their ids. Raises the errors of `newest`."""
        kept = await self._store.predictions.get(self._record, ids)
        found = []
        async for id, packed in in_slices(zip(ids, kept, strict=True)):
            with suppress(ReleaseTooOld):  # only the newer release can read it
                if packed is not None and (one := self._intact(id, packed)) is not None:
                    found.append((id, one))
        return found

    def _found(self, id: str, kept: bytes | None) -> StoredPrediction:
        if kept is not None:
            if (intact := self._intact(id, kept)) is not None:
                return intact
            raise PredictionNotFound(id)
        expired_at_ms = timestamp_of(id) + 1000 * self._ttl_seconds
        if expired_at_ms > now_ms():
            raise PredictionNotFound(id)
        raise PredictionExpired(id, f"it was stored until {rfc3339(expired_at_ms)} (ttl {self._ttl_seconds:g} s)")

    def _intact(self, id: str, kept: bytes) -> StoredPrediction | None:
        try:
            return decode_kept(kept)
        except ValueError as error:
            log.warning("kept_prediction_damaged", model=self._record.name, id=id, error=str(error))
            return None


def _in_columns(
    prediction: Prediction, columns_of: Callable[[Iterable[str]], Sequence[int]] | None
) -> NDArray[np.float64]:
    margins = prediction.margins
    if columns_of is None:
        return margins
    columns = np.array(columns_of(prediction.scores), dtype=np.int64)
    placed = np.full(1 + columns.max(initial=-1), np.nan)
    placed[columns[columns >= 0]] = margins[columns >= 0]
    return placed


def encode_kept(kept: StoredPrediction) -> bytes:
    """Return a stored prediction as bytes."""
    x, scores, answered, record, decision, deferral = kept
    indices = None if x.indices is None else x.indices.astype("<i4", copy=False).tobytes()
    values = x.values.astype("<f4", copy=False).tobytes()
    fields: list[object] = [x.names, indices, values, scores.astype("<f8", copy=False).tobytes(), answered, record]
    fields += [pack_decisions(decision, deferral), pack_vectors(x)]
    packed: bytes = msgpack.packb(fields)
    return packed


def decode_kept(packed: bytes) -> StoredPrediction:
    """Return the prediction that was passed to `encode_kept`. Raises ValueError or ReleaseTooOld."""
    try:
        fields = msgpack.unpackb(packed)
        if isinstance(fields, list) and len(fields) > N_FIELDS:
            raise ReleaseTooOld("the stored prediction has fields of a later release")
        names, indices, values, scores, answered, record, decision, vectors = fields
        x = Features(
            names=None if names is None else tuple(names),
            indices=None if indices is None else np.frombuffer(indices, dtype="<i4"),
            values=np.frombuffer(values, dtype="<f4"),
            vectors=unpack_vectors(vectors),
        )
        by = None if answered is None else ServedBy(int(answered[0]), tuple(answered[1]))
        return StoredPrediction(x, np.frombuffer(scores, dtype="<f8"), by, record, *read_decisions(decision))
    except (TypeError, msgpack.UnpackException) as error:
        raise ValueError(f"the stored prediction is damaged: {error}") from error
