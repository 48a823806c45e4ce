"""/annif/v1: Annif's REST interface, for annif-client, Annif's backend `http`, and programs made for Annif."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from importlib.metadata import version as release_of
from typing import Any

import pydantic_core
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api.context import Context, ContextOf, context_of
from manylabel_service.api.translation.model_access import counting_refusals, online, signature_of
from manylabel_service.api.translation.to_json import ResponseItems, check_numbers, receipt
from manylabel_service.api.web.access import AccessOf, access_of
from manylabel_service.api.web.bodies import idempotency_key, note_replayed, read_body
from manylabel_service.api.web.large_json import LARGE_BYTES, read_large_json
from manylabel_service.api.web.parameters import described, read_parameters
from manylabel_service.api.web.problems import Problem, batch_too_large, invalid, problem_of
from manylabel_service.api.web.routes import RawJSONResponse, Router, body
from manylabel_service.api.web.validation import Path, validated
from manylabel_service.errors import InvalidExample, ServiceError
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.integrations.annif import schemas
from manylabel_service.integrations.annif.translation import (
    DocumentReader,
    project,
    read_form,
    suggestions,
    vocabulary,
)
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.slices import Pace

router = Router("Annif", errors=["model_not_found"])

_FORM = "application/x-www-form-urlencoded"
_LISTING = ("not_ready", "storage_unavailable")
_SENDING = (
    *(*_LISTING, "model_not_found", "bad_request", "body_too_large", "batch_too_large", "unsupported_media_type"),
    "queue_full",
)
_STATUS_OF_ANNIF = {"invalid_request": "bad_request", "model_is_trained": "learning_not_allowed"}

LONG_TEXT = 10_000
"""Characters of a text above which a thread reads it."""

Endpoint = Callable[..., Awaitable[Response]]


def _as_annif(endpoint: Endpoint) -> Endpoint:
    """Convert the problems of an endpoint to Annif's status codes."""

    @wraps(endpoint)
    async def call(*args: Any, **kwargs: Any) -> Response:
        try:
            return await endpoint(*args, **kwargs)
        except (Problem, ServiceError) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
            code = _STATUS_OF_ANNIF.get(problem.code, problem.code)
            raise Problem(code, problem.detail, problem.errors, problem.headers) from error

    return call


@router.endpoint("GET /annif/v1/", "Describe the interface", None, schemas.AnnifInfo, stored=False)
async def annif_info() -> schemas.AnnifInfo:
    """Returns the name of the interface and the release."""
    return schemas.AnnifInfo(title="Annif REST API of ManyLabel", version=release_of("manylabel"))


@router.endpoint("GET /annif/v1/projects", "List models as projects", "read", schemas.AnnifProjects)
async def annif_projects(context: ContextOf, access: AccessOf) -> schemas.AnnifProjects:
    """Lists the models that the caller may see, by name; damaged models are omitted."""
    return schemas.AnnifProjects(projects=list(map(project, (await context.registry.list(access.seen()))[0])))


@router.endpoint("GET /annif/v1/projects/{name}", "Show a model as a project", "read", schemas.AnnifProject)
async def annif_project(context: ContextOf, name: str) -> schemas.AnnifProject:
    """Shows a model; a model that is not in memory is loaded."""
    return project((await context.registry.get(name)).status())


@router.endpoint("GET /annif/v1/vocabs", "List labels of models as vocabularies", "read", schemas.AnnifVocabularies)
async def annif_vocabularies(context: ContextOf, access: AccessOf) -> schemas.AnnifVocabularies:
    """Lists the vocabularies: the labels of each model that the caller may see."""
    return schemas.AnnifVocabularies(vocabs=list(map(vocabulary, (await context.registry.list(access.seen()))[0])))


@router.endpoint(
    "POST /annif/v1/projects/{name}/suggest",
    "Suggest subjects for a text",
    "predict",
    schemas.AnnifSuggestions,
    ["no_version_served", "version_damaged", *_SENDING],
    openapi_extra={
        **body(schemas.AnnifText, media_type=_FORM, example={"text": "a fox"}),
        "parameters": described(schemas.AnnifLimits),
    },
)
@_as_annif
async def annif_suggest(request: Request, context: ContextOf, name: str) -> Response:
    """Predicts one document. `limit` and `threshold` can also be query parameters, for programs that send only a text,
    such as Annif's backend `http`."""
    limits = read_parameters(request, schemas.AnnifLimits)
    async with context.registry.use(name) as hosted:
        raw = await read_body(request, None, context.settings.max_body_bytes)
        async with context.turns.turn(raw):
            small = len(raw) < LARGE_BYTES
            sent, metadata = read_form(raw, limits) if small else await asyncio.to_thread(read_form, raw, limits)
        document = schemas.AnnifDocument.model_construct(text=sent.text, metadata=metadata)
        return RawJSONResponse(await _suggest(request, hosted, [document], sent, ()))


@router.endpoint(
    "POST /annif/v1/projects/{name}/suggest-batch",
    "Suggest subjects for documents",
    "predict",
    list[schemas.AnnifDocumentSuggestions],
    ["malformed_json", "no_version_served", "version_damaged", *_SENDING],
    openapi_extra={
        **body(schemas.AnnifDocuments, example={"documents": [{"text": "a fox", "document_id": "1"}]}),
        "parameters": described(schemas.AnnifLimits),
    },
)
@_as_annif
async def annif_suggest_batch(request: Request, context: ContextOf, name: str) -> Response:
    """Returns suggestions for up to 32 documents, in the order of the documents."""
    limits = read_parameters(request, schemas.AnnifLimits)
    async with context.registry.use(name) as hosted:
        document, _ = await read_large_json(request)
        documents = validated(schemas.AnnifDocuments, document).documents
        return RawJSONResponse(await _suggest(request, hosted, documents, limits, ("documents",)))


@router.endpoint(
    "POST /annif/v1/projects/{name}/learn",
    "Learn documents with their subjects",
    "learn",
    None,
    ["malformed_json", "learning_not_allowed", "limit_exceeded", *_SENDING],
    keyed=True,
    status=204,
    openapi_extra=body(schemas.AnnifIndexedDocuments, example=[{"text": "a fox", "subjects": [{"uri": "animals"}]}]),
)
@_as_annif
async def annif_learn(request: Request, context: ContextOf, name: str) -> Response:
    """Learns either all documents, in order, or none, like `update`. The header `Position` has the log position."""
    async with context.registry.use(name) as model:
        replica = online(model)
        with counting_refusals(context, name):
            updated = await _learn(request, context, replica)
    response = Response(status_code=204, headers={"Position": receipt(updated, request.scope)["position"]})
    note_replayed(response, updated.replayed)
    return response


async def _suggest(
    request: Request,
    hosted: HostedModel,
    documents: list[schemas.AnnifDocument],
    wanted: schemas.AnnifLimits,
    at: Path,
) -> bytes | bytearray:
    """Return the JSON of the suggestions: a list for documents at a path, or an object for a single one."""
    context, started, pace = context_of(request), time.perf_counter(), Pace()
    signature = await signature_of(hosted)
    if signature.records is None or not signature.has_probabilities:
        raise invalid((), "is not supported by this model: it has no text field, or no probabilities")
    check_numbers(len(documents), 2 * len(documents) * len(signature.labels), context)
    access_of(request).charge(len(documents))
    reader, xs = DocumentReader(signature.records, context.settings.max_features), []
    for index, each in enumerate(documents):
        place = (*at, index) if at else ()
        if len(each.text) > LONG_TEXT:
            xs.append(await asyncio.to_thread(reader.features, each.text, each.metadata, place))
        else:
            xs.append(reader.features(each.text, each.metadata, place))
        await pace.rest()

    try:
        predicted = await hosted.predict(xs, probabilities=True)
    except InvalidExample as error:
        raise invalid((*at, error.index) if at else (), error.detail) from error
    most = context.settings.limits.max_response_bytes
    found = ResponseItems(b"", most, "send fewer documents, or a smaller limit")
    for document, prediction in zip(documents, predicted.predictions, strict=True):
        is_empty = not (document.text.strip() or document.metadata)
        results = [] if is_empty else suggestions(hosted, prediction, predicted.version, wanted)
        about = {"document_id": document.document_id} if at else {}
        found.add(pydantic_core.to_json({**about, "results": results}, inf_nan_mode="null"))
        await pace.rest()
    context.telemetry.predicted(hosted.name, len(documents), time.perf_counter() - started)
    return found.end(b"") if at else found.content[1:]


async def _learn(request: Request, context: Context, replica: Replica) -> UpdateResult:
    settings = context.settings
    deadline = time.monotonic() + settings.max_queue_wait_seconds
    replica.queue.check_wait()
    items, raw = await read_large_json(request)
    key = idempotency_key(request, "annif-learn", raw)
    if not isinstance(items, list) or not items:
        raise invalid((), "must be a list of documents, at least one")
    if len(items) > (most := settings.limits.max_batch_examples):
        raise batch_too_large(f"the list has {len(items):,} documents; at most {most:,} are allowed")
    started, pace = time.perf_counter(), Pace()
    reader = DocumentReader(replica.records, settings.max_features)
    columns = replica.model.details.columns_by_uri()
    names = replica.model.labels.names  # read after the columns: a thread may add labels
    labels = {uri: names[column] for uri, column in columns.items()}
    examples = []
    for index, item in enumerate(items):
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str) and len(text) > LONG_TEXT:
            examples.append(await asyncio.to_thread(reader.example, item, labels, (index,)))
        else:
            examples.append(reader.example(item, labels, (index,)))
        await pace.rest()
    access_of(request).charge(len(examples))
    try:
        updated = await replica.update(examples, key=key, deadline=deadline)
    except InvalidExample as error:
        raise invalid((error.index,), error.detail) from error
    learnt = 0 if updated.replayed else len(examples)
    context.telemetry.updated(replica.name, learnt, time.perf_counter() - started, updated.alarms)
    return updated
