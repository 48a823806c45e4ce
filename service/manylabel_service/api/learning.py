"""POST /v1/models/{name}/predict, /update, /predict-update."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import pydantic_core
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import idempotency, schemas
from manylabel_service.api.bodies import read_json
from manylabel_service.api.context import Context, context_of
from manylabel_service.api.convert import to_example, to_features
from manylabel_service.api.items import SLICE_SECONDS, Items, to_items
from manylabel_service.api.problems import Problem, problem_of
from manylabel_service.api.routes import DirectRoute, JSONAnswer, body, problems
from manylabel_service.errors import InvalidExample, ServiceError
from manylabel_service.replicas.answers import Updated
from manylabel_service.replicas.examples import Example, IdempotencyKey, Prediction
from manylabel_service.replicas.replica import Replica

router = APIRouter(route_class=DirectRoute, tags=["learning"])

_READING = (
    "malformed_json",
    "model_not_found",
    "body_too_large",
    "batch_too_large",
    "unsupported_media_type",
    "invalid_request",
    "not_ready",
)
_LEARNING = (
    *_READING,
    "idempotency_in_flight",
    "idempotency_key_reused",
    "queue_full",
    "storage_unavailable",
    "limit_exceeded",
)
_EXAMPLE = {"x": {"word=cat": 1}, "y": ["pets"]}
_UPDATE = {
    **body(schemas.UpdateItem, schemas.UpdateBatch, example=_EXAMPLE),
    **idempotency.PARAMETER,
}


@router.post(
    "/v1/models/{name}/predict",
    summary="Predict one example or a batch",
    response_model=schemas.Predicted | schemas.PredictedBatch,
    responses=problems(*_READING),
    openapi_extra=body(schemas.PredictItem, schemas.PredictBatch, example={"x": {"word=cat": 1}}),
)
async def predict(request: Request, name: str) -> Response:
    """Labels and scores by what the model has learnt so far. A batch is answered as a batch, in its order."""
    context = context_of(request)
    replica = context.registry.get(name)
    document, _ = await read_json(request, context.settings.max_body_bytes)
    started = time.perf_counter()
    convert = partial(to_features, max_features=context.settings.max_features)
    items = await to_items(document, convert, context.settings.max_batch_examples)
    _check_answer(items, len(items.values) * len(replica.model.labels), context)
    try:
        predicted = await replica.predict(items.values)
    except InvalidExample as error:
        raise items.problem(error) from error
    content = await _answer(predicted.predictions, items.batch, {"position": predicted.position})
    context.telemetry.predicted(name, len(items.values), time.perf_counter() - started)
    return JSONAnswer(content)


@router.post(
    "/v1/models/{name}/update",
    summary="Learn one example or a batch",
    response_model=schemas.Updated,
    responses=problems(*_LEARNING),
    openapi_extra=_UPDATE,
)
async def update(request: Request, name: str) -> Response:
    """Answered when the examples are logged and learnt. A batch is learnt in its order, all or none."""
    return await _learn(request, name, "update")


@router.post(
    "/v1/models/{name}/predict-update",
    summary="Predict, then learn, one example or a batch",
    response_model=schemas.PredictedUpdated | schemas.PredictedUpdatedBatch,
    responses=problems(*_LEARNING),
    openapi_extra=_UPDATE,
)
async def predict_update(request: Request, name: str) -> Response:
    """As update; answers what was predicted for each example just before it was learnt."""
    return await _learn(request, name, "predict-update")


async def _learn(request: Request, name: str, operation: str) -> Response:
    context = context_of(request)
    replica = context.registry.get(name)
    try:
        return await _learn_with(replica, request, operation, context)
    except ServiceError as error:
        problem = problem_of(error)
        context.telemetry.rejected(name, problem.code)
        raise problem from error
    except Problem as problem:
        context.telemetry.rejected(name, problem.code)
        raise


async def _learn_with(replica: Replica, request: Request, operation: str, context: Context) -> Response:
    settings = context.settings
    document, raw = await read_json(request, settings.max_body_bytes)
    started = time.perf_counter()
    key = idempotency.idempotency_key(request, operation, raw)
    convert = partial(to_example, max_features=settings.max_features)
    items = await to_items(document, convert, settings.max_batch_examples)
    want_predictions = operation == "predict-update"
    if want_predictions and (key is None or not replica.has_seen(key)):  # a retry gets what it got
        _check_answer(items, _scores_before_learning(items.values, replica), context)
    updated = await _update(replica, items, key, want_predictions)
    seconds = time.perf_counter() - started
    facts = {"position": updated.position, "updates": updated.updates, "durability": updated.durability}
    content = await _answer(updated.predictions, items.batch, facts)
    context.telemetry.updated(replica.spec.name, 0 if updated.replayed else len(items.values), seconds)
    return JSONAnswer(content, headers=[idempotency.REPLAYED] if updated.replayed else [])


async def _update(
    replica: Replica, items: Items[Example], key: IdempotencyKey | None, want_predictions: bool
) -> Updated:
    try:
        return await replica.update(items.values, key=key, want_predictions=want_predictions)
    except InvalidExample as error:
        raise items.problem(error) from error


def _scores_before_learning(examples: Sequence[Example], replica: Replica) -> int:
    """How many scores the predictions have: each example knows the labels that came before it."""
    known, new = len(replica.model.labels), set[str]()
    scores = 0
    for _, y in examples:
        scores += known + len(new)
        new.update(name for name in y.names if name not in replica.model.labels)
    return scores


def _check_answer(items: Items[Any], scores: int, context: Context) -> None:
    most = context.settings.max_answer_scores
    if items.batch and scores > most:
        fitting = max(1, len(items.values) * most // scores)
        raise Problem("batch_too_large", f"with so many labels a batch has at most about {fitting:,} examples")


async def _answer(predictions: Sequence[Prediction] | None, batch: bool, facts: dict[str, Any]) -> bytes:
    if predictions is None:
        return pydantic_core.to_json(facts)
    if not batch:
        return pydantic_core.to_json({**_shown(predictions[0]), **facts}, inf_nan_mode="null")
    parts = []
    slice_ends = time.perf_counter() + SLICE_SECONDS
    for prediction in predictions:
        if time.perf_counter() > slice_ends:
            await asyncio.sleep(0)
            slice_ends = time.perf_counter() + SLICE_SECONDS
        parts.append(pydantic_core.to_json(_shown(prediction), inf_nan_mode="null"))
    return b'{"predictions":[' + b",".join(parts) + b"]," + pydantic_core.to_json(facts)[1:]


def _shown(prediction: Prediction) -> dict[str, Any]:
    return {"labels": prediction.labels, "scores": prediction.scores, "threshold": prediction.threshold}
