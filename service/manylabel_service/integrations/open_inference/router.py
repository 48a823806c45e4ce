"""/v2: the Open Inference Protocol, for clients of KServe, Triton and others."""

import time
from functools import partial
from importlib.metadata import version as release_of
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api.context import ContextOf, context_of
from manylabel_service.api.routers.versions import read_number
from manylabel_service.api.translation.from_json import to_features, to_inputs
from manylabel_service.api.translation.model_access import predict, signature_of
from manylabel_service.api.translation.to_json import check_numbers
from manylabel_service.api.web.access import access_of
from manylabel_service.api.web.bodies import read_body
from manylabel_service.api.web.problems import InferenceError
from manylabel_service.api.web.routes import DirectRoute, RawJSONResponse, Router, body, content
from manylabel_service.integrations.open_inference import schemas
from manylabel_service.integrations.open_inference.translation import (
    EXTENSION,
    HEADER_LENGTH,
    metadata,
    n_numbers,
    read_request,
    to_examples,
    to_response,
    wanted_outputs,
)
from manylabel_service.online.replica import Replica

router = Router("Open Inference Protocol", error=(InferenceError, "application/json"))

_LOOKING = ("model_not_found", "no_version_served", "version_damaged", "not_ready", "storage_unavailable")
_VERSION = (*_LOOKING, "version_not_found", "model_is_online")
_READING = (
    *("malformed_json", "body_too_large", "batch_too_large", "unsupported_media_type", "invalid_request"),
    "queue_full",
)
_BINARY = {
    "description": "Predictions; if binary data were requested, the JSON followed by these",
    **content(media_type="application/octet-stream"),
}
_EXAMPLE = {
    "id": "42",
    "inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ['{"word=cat": 1}']}],
    "outputs": [{"name": "labels"}, {"name": "scores"}],
}


_INFERRING: dict[str, Any] = {
    "scopes": "predict",
    "response": schemas.InferResponse,
    "responses": {200: _BINARY},
    "route_class_override": DirectRoute,
    "response_model_exclude_unset": True,
    "openapi_extra": body(schemas.InferRequest, example=_EXAMPLE),
}
_SUMMARY = "Predict by the Open Inference Protocol"


@router.endpoint("POST /v2/models/{name}/infer", _SUMMARY, errors=[*_LOOKING, *_READING], **_INFERRING)
async def infer(request: Request, name: str) -> Response:
    """Predicts a batch. The input `x` has, for each example, a row of numbers, a text or a JSON object."""
    return await _infer(request, name, None)


@router.endpoint(
    "POST /v2/models/{name}/versions/{version}/infer", _SUMMARY, errors=[*_VERSION, *_READING], **_INFERRING
)
async def infer_by_version(request: Request, name: str, version: str) -> Response:
    """Predicts a batch with a version of a trained model, served or not."""
    return await _infer(request, name, read_number(name, version))


@router.endpoint("GET /v2", "Describe the server", None, schemas.ServerMetadata, stored=False)
async def server_metadata() -> schemas.ServerMetadata:
    """Returns the name of the server, its release, and its extensions of the protocol."""
    return schemas.ServerMetadata(name="manylabel", version=release_of("manylabel"), extensions=[EXTENSION])


@router.endpoint("GET /v2/health/live", "Is the server alive?", None, schemas.ServerLive, stored=False)
async def server_live() -> schemas.ServerLive:
    """Responds with 200 as soon as the process serves requests."""
    return schemas.ServerLive(live=True)


@router.endpoint(
    "GET /v2/health/ready",
    "Is the server ready?",
    None,
    schemas.ServerReady,
    ["not_ready", "release_too_old", "replay_mismatch"],
    stored=False,
)
async def server_ready(context: ContextOf) -> schemas.ServerReady:
    """Responds with 200 when the server handles requests."""
    context.registry.check_ready()
    return schemas.ServerReady(ready=True)


@router.endpoint(
    "GET /v2/models/{name}",
    "Describe a model",
    "read",
    schemas.ModelMetadata,
    ["model_not_found", "no_version_served", "version_damaged"],
)
async def model_metadata(context: ContextOf, name: str) -> dict[str, Any]:
    """Describes the tensors that the model accepts and returns. A model that is not in memory is loaded."""
    async with context.registry.use(name) as model:
        return metadata(name, await signature_of(model))


@router.endpoint(
    "GET /v2/models/{name}/versions/{version}",
    "Describe a version of a model",
    "read",
    schemas.ModelMetadata,
    ["model_not_found", "version_not_found", "no_version_served", "model_is_online", "version_damaged"],
)
async def version_metadata(context: ContextOf, name: str, version: str) -> dict[str, Any]:
    """Describes the tensors that a version of a trained model accepts and returns; the version is loaded."""
    async with context.registry.use(name) as model:
        return metadata(name, await signature_of(model, read_number(name, version)))


@router.endpoint(
    "GET /v2/models/{name}/ready",
    "Is a model ready?",
    "predict",
    schemas.ModelReady,
    ["model_not_found", "no_version_served", "version_damaged"],
)
async def model_ready(context: ContextOf, name: str) -> schemas.ModelReady:
    """Responds with 200 when the model can predict. A model that is not in memory is loaded."""
    async with context.registry.use(name) as model:
        await signature_of(model)
    return schemas.ModelReady(name=name, ready=True)


@router.endpoint(
    "GET /v2/models/{name}/versions/{version}/ready",
    "Is a version of a model ready?",
    "predict",
    schemas.ModelReady,
    ["model_not_found", "version_not_found", "no_version_served", "model_is_online", "version_damaged"],
)
async def version_ready(context: ContextOf, name: str, version: str) -> schemas.ModelReady:
    """Responds with 200 when the version of a trained model can predict; the version is loaded."""
    async with context.registry.use(name) as model:
        await signature_of(model, read_number(name, version))
    return schemas.ModelReady(name=name, ready=True)


async def _infer(request: Request, name: str, version: int | None) -> Response:
    context = context_of(request)
    settings = context.settings
    async with context.registry.use(name) as hosted:
        raw = await read_body(request, None, settings.max_body_bytes)  # clients send no media type
        started = time.perf_counter()
        signature = await signature_of(hosted, version)
        convert: Any = to_features if isinstance(hosted, Replica) else to_inputs
        convert = partial(convert, max_features=settings.max_features, max_fields=settings.limits.max_record_fields)
        convert = partial(convert, records=signature.records)
        async with context.turns.turn(raw):
            asked, tensors = await read_request(request, raw)
            outputs = wanted_outputs(asked, signature)
            examples = await to_examples(
                tensors, signature, convert, settings.limits.max_batch_examples, settings.max_features
            )
            del tensors, asked.inputs
        n_examples = len(examples.values)
        if n_examples > 1:
            check_numbers(n_examples, n_numbers(outputs, n_examples, len(signature.labels)), context)
        access_of(request).charge(n_examples)
        likely = any(output.name == "probabilities" for output in outputs)
        predicted = await predict(hosted, examples.values, examples.at, version, probabilities=likely)
        facts: dict[str, Any] = {"model_name": name}
        if predicted.version is not None:
            facts["model_version"] = str(predicted.version)
        if asked.id is not None:
            facts["id"] = asked.id
        facts["parameters"] = {"position": predicted.position}
        if predicted.stale_seconds is not None:
            facts["parameters"]["stale_seconds"] = round(predicted.stale_seconds, 3)
        max_bytes = settings.limits.max_response_bytes
        document, binary = await to_response(predicted.predictions, outputs, facts, max_bytes)
        context.telemetry.predicted(name, n_examples, time.perf_counter() - started)
        if not any(output.binary for output in outputs):
            return RawJSONResponse(document)
        headers = {HEADER_LENGTH: str(len(document)), "content-type": "application/octet-stream"}
        return Response(bytes(document + binary), headers=headers)
