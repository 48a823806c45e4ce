"""Predictions that are kept until their labels are known."""

import os
import time
from collections.abc import Sequence

from manylabel_service import ulid as prediction_ids
from manylabel_service.api.context import Context
from manylabel_service.api.translation.model_access import asked
from manylabel_service.clock import rfc3339
from manylabel_service.hosting.examples import Features
from manylabel_service.online.replica import Replica


async def keep(context: Context, replica: Replica, xs: Sequence[Features]) -> tuple[list[str], str]:
    """Keep the examples that were predicted; answers an id for each, and until when.

    Raises
    ------
    PredictionsFull, StorageError
    """
    now_ms = time.time_ns() // 1_000_000
    ids = [prediction_ids.make(now_ms, os.urandom(prediction_ids.N_RANDOM_BYTES)) for _ in xs]
    await asked(context, replica, lambda replica: replica.keep(ids, xs))
    return ids, rfc3339(now_ms + int(context.settings.prediction_ttl_seconds * 1000))
