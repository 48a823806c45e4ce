"""GET /v1/models/{name}/predictions (stored predictions without labels) and POST /v1/models/{name}/labels."""

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import Context, context_of
from manylabel_service.api.translation.batches import Items, to_items
from manylabel_service.api.translation.from_json import check_fields, path_in_item, to_labels
from manylabel_service.api.translation.model_access import counting_refusals, labelled, online
from manylabel_service.api.translation.to_json import check_numbers, numbers, receipt, response_json, unlabelled
from manylabel_service.api.web.access import access_of
from manylabel_service.api.web.bodies import JSON, REPLAYED, idempotency_key, read_body
from manylabel_service.api.web.large_json import read_value
from manylabel_service.api.web.parameters import Parameters, one_of, read_parameters, up_to
from manylabel_service.api.web.problems import Problem, invalid, problem_of
from manylabel_service.api.web.routes import DirectRoute, RawJSONResponse, Router
from manylabel_service.api.web.validation import Path, validated
from manylabel_service.errors import InvalidExample, PredictionError
from manylabel_service.hosting.examples import Example, Labels, Source
from manylabel_service.hosting.selection import Selection
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.label_next import label_next
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.slices import in_slices
from manylabel_service.ulid import timestamp_of

_LABELLING = ("model_follows", "batch_too_large", "queue_full", "limit_exceeded")

router = Router("learning", DirectRoute, errors=["model_not_found"])


MAX_LISTED = 100


class Waiting(Parameters):
    """Parameters of the list of stored predictions."""

    order: one_of(("newest", "uncertainty", "review")) = "newest"  # type: ignore[valid-type]
    """Order: newest first, or most uncertain first; `review` lists only predictions that need review, most uncertain
    first."""
    limit: up_to(MAX_LISTED) = 20  # type: ignore[valid-type]
    """Maximum number of rows listed."""


@router.endpoint(
    "GET /v1/models/{name}/predictions",
    "List stored predictions without labels",
    "learn",
    schemas.UnlabelledList,
    ["model_is_trained", "batch_too_large"],
    query=Waiting,
)
async def list_predictions(request: Request, name: str) -> Response:
    """Lists stored predictions that have no labels yet, with the current predictions of the model. With `uncertainty`,
    predictions with a label near its decision threshold come first, and near-duplicates of others come last."""
    context = context_of(request)
    wanted = read_parameters(request, Waiting)
    async with context.registry.use(name) as model:
        replica = online(model)
        check_numbers(wanted.limit, numbers(wanted.limit * replica.n_labels, replica.has_probabilities), context)
        ranked = await label_next(replica, wanted.limit, wanted.order)
        return RawJSONResponse(await unlabelled(ranked, context.settings.limits.max_response_bytes))


class _Truth(NamedTuple):
    """True labels, weight, source of the labels and reference of a stored prediction."""

    id: str
    y: Labels
    weight: float
    source: Source
    ref: str | None


@router.endpoint(
    "POST /v1/models/{name}/labels",
    "Submit the labels of stored predictions",
    "learn",
    schemas.UpdateResponse,
    ["prediction_not_found", "prediction_labelled", "prediction_expired", "prediction_not_deferred", *_LABELLING],
    takes=(schemas.LabelItem, schemas.LabelBatch),
    example={"id": "01KAHZY4T00000000000000000", "y": ["pets"]},
    keyed=True,
)
async def label_predictions(request: Request, name: str) -> Response:
    """Learns the stored features with the submitted labels; metrics count the prediction that was served. The labels of
    one prediction can be sent in parts: `y` is an object with some labels, and later requests send others, each once. A
    batch is learnt in order, completely or not at all. A trained model learns nothing; only its metrics change."""
    context = context_of(request)
    limits = context.settings.limits
    async with context.registry.use(name) as hosted:
        replica = labelled(hosted)
        with counting_refusals(context, name):
            deadline = time.monotonic() + context.settings.max_queue_wait_seconds
            replica.queue.check_wait()
            raw = await read_body(request, JSON, context.settings.max_body_bytes)
            started = time.perf_counter()
            async with context.turns.turn(raw, deadline):
                document = await read_value(raw)
                convert = partial(_to_truth, max_fields=limits.max_record_fields)
                key = idempotency_key(request, "labels", raw)
                items = await to_items(document, convert, schemas.LabelBatch, limits.max_batch_examples)
            _check_repeats(items)
            access_of(request).charge(len(items.values))
            updated = await _learn(replica, items, key, deadline)
            content = await response_json(
                None, items.batch, receipt(updated, request.scope), Selection(context.settings.max_scores)
            )
            seconds = time.perf_counter() - started
        context.telemetry.updated(name, 0 if updated.replayed else len(items.values), seconds, updated.alarms)
        if not updated.replayed:
            await _count_delays(items.values, context)
        return RawJSONResponse(content, headers=[REPLAYED] if updated.replayed else [])


def _to_truth(item: object, at: Path, max_fields: int) -> _Truth:
    check_fields(item, at, max_fields)
    valid = validated(schemas.LabelItem, item, at, path_in_item)
    return _Truth(valid.id, to_labels(valid.y, (*at, "y")), valid.weight, valid.source, valid.ref)


def _check_repeats(items: Items[_Truth]) -> None:
    seen = set[str]()
    for index, truth in enumerate(items.values):
        if truth.id in seen:
            raise invalid((*items.at(index), "id"), "repeats the id of an earlier item")
        seen.add(truth.id)


async def _learn(replica: Replica, items: Items[_Truth], key: IdempotencyKey | None, deadline: float) -> UpdateResult:
    try:
        return await _learn_kept(replica, items.values, key, deadline)
    except PredictionError as error:
        raise _problem(error, items) from error
    except InvalidExample as error:
        raise items.problem(_in_the_body(error)) from error


def _in_the_body(error: InvalidExample) -> InvalidExample:
    """Return the error with the field path of the prediction's id instead of the features, which are not in the
    body."""
    if error.path[0] != "x":
        return error
    place = "".join(f"/{part}" for part in error.path)
    return InvalidExample(error.index, ("id",), f"has features that cannot be learnt: {place} {error.detail}")


async def _count_delays(truths: Sequence[_Truth], context: Context) -> None:
    now = time.time()
    async for truth in in_slices(truths):
        context.telemetry.labelled(max(0.0, now - timestamp_of(truth.id) / 1000))


async def _learn_kept(
    replica: Replica, truths: Sequence[_Truth], key: IdempotencyKey | None, deadline: float
) -> UpdateResult:
    ids = [truth.id for truth in truths]
    try:
        kept = await replica.kept(ids, [truth.y for truth in truths])
    except PredictionError:
        # Labelled by an earlier attempt with this key, or by another request.
        if (earlier := await replica.replayed(key)) is None:
            raise
        return earlier
    pairs = zip(kept, truths, strict=True)
    examples = [Example(one.x, truth.y, truth.weight, truth.source, truth.ref) for one, truth in pairs]
    answered = [one.answered for one in kept if one.answered is not None]
    return await replica.update(
        examples,
        key=key,
        prediction_ids=ids,
        served=[one.scores for one in kept],
        answered=answered or None,
        decisions=[one.decision for one in kept] if any(one.decision is not None for one in kept) else None,
        deferrals=[one.deferral for one in kept] if any(one.deferral is not None for one in kept) else None,
        deadline=deadline,
    )


def _problem(error: PredictionError, items: Items[_Truth]) -> Problem:
    problem = problem_of(error)
    places = [index for index, truth in enumerate(items.values) if truth.id == error.id]
    errors = [invalid((*items.at(index), "id"), problem.detail).errors[0] for index in places]
    return Problem(problem.code, problem.detail, errors)
