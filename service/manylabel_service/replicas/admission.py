"""What an update has to pass before it may wait: its examples fit the model, and the model its limits."""

import asyncio
import time

from manylabel_service.errors import LimitExceeded
from manylabel_service.replicas.entries import encode_parts
from manylabel_service.replicas.examples import Update
from manylabel_service.replicas.feature_space import Layout
from manylabel_service.replicas.projection import Projection
from manylabel_service.replicas.slices import SLICE_SECONDS
from manylabel_service.replicas.stream_model import StreamModel
from manylabel_service.settings import Settings

WEIGHED_UPDATES = 256
"""The bytes of a model that gains no columns are looked at once in so many updates."""


class Admission:
    """Checks and encodes updates of one model.

    Limits are the policy of this server, not part of the model: what another server has let into the log is learnt.
    """

    def __init__(self, model_name: str, settings: Settings) -> None:
        self._name = model_name
        self._settings = settings
        self._weigh_at = 0

    async def admit(self, update: Update, model: StreamModel) -> tuple[bytes, Layout]:
        """The log entry of an update, and the layout with which it was checked; in slices.

        Raises
        ------
        InvalidExample, LimitExceeded
        """
        projection, parts = Projection(model), encode_parts(update)
        payload = bytearray(next(parts))
        slice_ends = time.perf_counter() + SLICE_SECONDS
        for example, part in zip(update.examples, parts, strict=True):
            if time.perf_counter() > slice_ends:
                await asyncio.sleep(0)
                slice_ends = time.perf_counter() + SLICE_SECONDS
            projection.add(example)
            payload += part
        self._check_size(projection, model)
        return bytes(payload), projection.layout

    def _check_size(self, projection: Projection, model: StreamModel) -> None:
        for what, size, limit in (
            ("features", projection.n_features, self._settings.max_features),
            ("labels", projection.n_labels, self._settings.max_labels),
            ("bytes", self._weigh(projection, model), self._settings.max_model_bytes),
        ):
            if size > limit:
                raise LimitExceeded(f"{what} of model {self._name!r}", size, limit)
        if model.updates >= self._weigh_at:
            self._weigh_at = model.updates + WEIGHED_UPDATES

    def _weigh(self, projection: Projection, model: StreamModel) -> int:
        """Bytes of the model once the update is learnt; 0 if it gains no columns and was weighed not long ago."""
        if not projection.grows and model.updates < self._weigh_at:
            return 0
        p = projection
        return model.nbytes_after(p.n_features, p.n_labels, p.n_examples, p.n_values)
