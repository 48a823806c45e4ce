"""POST /v1/models/{name}/predict, /update, /predict-update."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service import ulid as prediction_ids
from manylabel_service.api import schemas
from manylabel_service.api.context import Context, context_of
from manylabel_service.api.translation import model_access
from manylabel_service.api.translation.batches import Items, take_count, take_flag, take_selection, to_items
from manylabel_service.api.translation.from_json import max_fields_of, read_position, to_example, to_features, to_inputs
from manylabel_service.api.translation.model_access import counting_refusals, online, signature_of
from manylabel_service.api.translation.to_json import check_predictions, check_size, posted, receipt, response_json
from manylabel_service.api.web.access import access_of
from manylabel_service.api.web.bodies import JSON, REPLAYED, idempotency_key, read_body
from manylabel_service.api.web.large_json import read_value
from manylabel_service.api.web.parameters import (
    Number,
    Parameters,
    one_of,
    read_parameters,
    refuse_parameters,
    wrong,
)
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.routes import DirectRoute, RawJSONResponse, Router
from manylabel_service.clock import rfc3339
from manylabel_service.errors import InvalidExample
from manylabel_service.hosting.explanations import MAX_EXPLAIN, Explainer
from manylabel_service.hosting.predictions import DrawnPredictions
from manylabel_service.hosting.selection import Selection
from manylabel_service.online.replica import Replica
from manylabel_service.storage import POSITION

router = Router("learning", DirectRoute, errors=["model_not_found"])

LEARNING = ("model_is_trained", "model_follows", "batch_too_large", "queue_full", "limit_exceeded")

_EXAMPLE = {"x": {"word=cat": 1}, "y": ["pets"]}

_WRITTEN = Field(json_schema_extra={"pattern": POSITION})


class Predicting(Parameters):
    """Parameters of a prediction."""

    keep: one_of(("false", "true", "record", "asked")) = "false"  # type: ignore[valid-type]
    """Whether to store the predictions, so that labels can be submitted later. With `record`, the server also stores
    the examples as posted. With `asked`, the server stores only predictions with `ask` or `check`, for a model that
    promises parity."""
    at_least: Annotated[str, AfterValidator(read_position), _WRITTEN] | None = None
    """Position in the model's log up to which the response must include all updates."""
    version: Number | None = None
    """Version of a trained model; default: the served one."""


@router.endpoint(
    "POST /v1/models/{name}/predict",
    "Predict one example or a batch",
    "predict",
    schemas.PredictResponse | schemas.PredictBatchResponse,
    [
        "version_not_found",
        "model_follows",
        "no_version_served",
        "model_is_online",
        "batch_too_large",
        "queue_full",
        "predictions_full",
        "storage_full",
        "version_damaged",
    ],
    takes=(schemas.PredictRequest, schemas.PredictBatch, schemas.TrainedRequest, schemas.TrainedBatch),
    example={"x": {"word=cat": 1}, "probabilities": True, "top": 10},
    query=Predicting,
)
async def predict(request: Request, name: str) -> Response:
    """Predicts labels, scores and, if requested, probabilities. A batch is predicted in order."""
    context = context_of(request)
    settings = context.settings
    wanted = read_parameters(request, Predicting)
    async with context.registry.use(name) as hosted:
        if wanted.keep in ("record", "asked") and not isinstance(hosted, Replica):
            raise wrong(
                "keep", "must be true or false for a trained model, which stores no records and asks no teacher"
            )
        if wanted.keep != "false" and isinstance(hosted, Replica):
            hosted.check_leads()  # predictions of a follower cannot be labelled
        records_of = hosted.records
        if (number := wanted.version) is not None:
            records_of = (await signature_of(hosted, number)).records
        raw = await read_body(request, JSON, settings.max_body_bytes)
        started = time.perf_counter()
        learns = isinstance(hosted, Replica)
        convert: Callable[..., Any] = to_features if learns else to_inputs
        max_fields = max_fields_of(raw, settings.limits.max_record_fields)
        convert = partial(convert, max_features=settings.max_features, max_fields=max_fields, records=records_of)
        async with context.turns.turn(raw):
            document = await read_value(raw)
            probabilities, k = take_flag(document, "probabilities"), take_count(document, "explain", MAX_EXPLAIN)
            selection = take_selection(document, settings.max_scores)
            try:
                batch = schemas.PredictBatch if learns else schemas.TrainedBatch
                items: Items[Any] = await to_items(document, convert, batch, settings.limits.max_batch_examples)
            except Problem:
                refuse_parameters(document, Predicting)
                raise
            records = await posted(document) if wanted.keep == "record" else None
            del document
        check_size(items, len(items.values) * hosted.n_labels, probabilities, context)
        explainer = Explainer(k, settings.limits.max_contributions) if k else None
        access_of(request).charge(len(items.values))
        predicted = await model_access.predict(
            hosted,
            items.values,
            items.at,
            wanted.version,
            at_least=wanted.at_least,
            probabilities=probabilities,
            explainer=explainer,
        )
        facts: dict[str, Any] = {"position": predicted.position}
        if predicted.stale_seconds is not None:
            facts["stale_seconds"] = round(predicted.stale_seconds, 3)
        ids = None
        if wanted.keep != "false":
            ids, facts["expires"] = _new_ids(context, len(items.values))
            predicted = predicted._replace(
                predictions=DrawnPredictions(predicted.predictions, ids, wanted.keep == "asked")
            )
        if selection.always_ranked and isinstance(hosted, Replica):
            selection = replace(selection, learning=hosted.model.learning())
        max_bytes = settings.limits.max_response_bytes
        content = await response_json(predicted.predictions, items.batch, facts, selection, ids, max_bytes)
        if ids is not None:
            await hosted.keep(ids, items.values, predicted.predictions, predicted.version, records)
        context.telemetry.predicted(name, len(items.values), time.perf_counter() - started)
        return RawJSONResponse(content)


@router.endpoint(
    "POST /v1/models/{name}/update",
    "Learn one example or a batch",
    "learn",
    schemas.UpdateResponse,
    LEARNING,
    takes=(schemas.UpdateItem, schemas.UpdateBatch),
    example=_EXAMPLE,
    keyed=True,
)
async def update(request: Request, name: str) -> Response:
    """Learns examples; the response arrives when they are logged and learnt. A batch is learnt in order, completely or
    not at all."""
    return await _learn(request, name, "update")


@router.endpoint(
    "POST /v1/models/{name}/predict-update",
    "Predict, then learn, one example or a batch",
    ("predict", "learn"),
    schemas.PredictUpdateResponse | schemas.PredictUpdateBatchResponse,
    LEARNING,
    takes=(schemas.PredictUpdateRequest, schemas.PredictUpdateBatch),
    example={**_EXAMPLE, "probabilities": True},
    keyed=True,
)
async def predict_update(request: Request, name: str) -> Response:
    """Learns examples like `update`, and returns the prediction made just before each was learnt."""
    return await _learn(request, name, "predict-update")


def _new_ids(context: Context, n: int) -> tuple[list[str], str]:
    """Return ids of predictions to store, and their expiry."""
    now_ms = time.time_ns() // 1_000_000
    ids = [prediction_ids.make(now_ms, os.urandom(prediction_ids.N_RANDOM_BYTES)) for _ in range(n)]
    return ids, rfc3339(now_ms + int(context.settings.prediction_ttl_seconds * 1000))


async def _learn(request: Request, name: str, operation: str) -> Response:
    context = context_of(request)
    settings = context.settings
    async with context.registry.use(name) as model:
        replica = online(model)
        with counting_refusals(context, name):
            deadline = time.monotonic() + settings.max_queue_wait_seconds
            replica.queue.check_wait()  # before the body is read, when rejecting is cheap
            raw = await read_body(request, JSON, settings.max_body_bytes)
            started = time.perf_counter()
            want_predictions = operation == "predict-update"
            alone = schemas.PredictUpdateRequest if want_predictions else schemas.UpdateItem
            batch = schemas.PredictUpdateBatch if want_predictions else schemas.UpdateBatch
            convert = partial(
                to_example,
                max_features=settings.max_features,
                records=replica.records,
                alone=alone,
                max_fields=max_fields_of(raw, settings.limits.max_record_fields),
            )
            async with context.turns.turn(raw, deadline):
                document = await read_value(raw)
                key = idempotency_key(request, operation, raw)
                probabilities = want_predictions and take_flag(document, "probabilities")
                items = await to_items(document, convert, batch, settings.limits.max_batch_examples)
                del document
            access_of(request).charge(len(items.values))
            checks = want_predictions and items.batch
            try:
                updated = await replica.update(
                    items.values,
                    key=key,
                    want_predictions=want_predictions,
                    want_probabilities=probabilities,
                    check=partial(check_predictions, context, probabilities) if checks else None,
                    deadline=deadline,
                )
            except InvalidExample as error:
                raise items.problem(error) from error
            seconds = time.perf_counter() - started
            shown = Selection(settings.max_scores)
            content = await response_json(updated.predictions, items.batch, receipt(updated, request.scope), shown)
            learnt = 0 if updated.replayed else len(items.values)
            context.telemetry.updated(name, learnt, seconds, updated.alarms)
            return RawJSONResponse(content, headers=[REPLAYED] if updated.replayed else [])
