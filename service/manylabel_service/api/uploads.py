"""PUT /v1/models/{name}: a model made of a snapshot of another."""

import asyncio

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.state import DamagedState
from manylabel_service.api import schemas
from manylabel_service.api.bodies import BYTES, read_body
from manylabel_service.api.context import context_of
from manylabel_service.api.models import created
from manylabel_service.api.problems import invalid
from manylabel_service.api.query import wrong
from manylabel_service.api.routes import DirectRoute, body, problems
from manylabel_service.errors import NotReady
from manylabel_service.replicas.spec import ModelSpec
from manylabel_service.replicas.stream_model import StreamModel

router = APIRouter(route_class=DirectRoute, tags=["models"])


@router.put(
    "/v1/models/{name}",
    summary="Create a model from a snapshot",
    status_code=201,
    response_model=schemas.ModelStatus,
    responses=problems(
        "stream_idle",
        "model_exists",
        "body_too_large",
        "unsupported_media_type",
        "invalid_request",
        "not_ready",
        "storage_unavailable",
        "limit_exceeded",
    ),
    openapi_extra=body(media_type="application/octet-stream"),
)
async def upload(request: Request, name: str) -> Response:
    """The body is a snapshot as it was downloaded, from this server or another. The new model predicts as the old one
    did then, and goes on from there; it knows none of the old one's idempotency keys and kept predictions."""
    context = context_of(request)
    _check_name(name)
    context.registry.require_ready()
    if context.uploading.locked():
        raise NotReady("another snapshot is being uploaded, and the server takes one at a time")
    async with context.uploading:
        settings = context.settings
        data = await read_body(request, BYTES, settings.max_model_bytes, settings.stream_idle_seconds)
        state = await asyncio.to_thread(_model, data)
        del data
        replica = await context.registry.create(state.spec.model_copy(update={"name": name}), state)
    return created(replica)


def _check_name(name: str) -> None:
    try:
        ModelSpec.model_validate({"name": name, "algorithm": "falt"})
    except ValidationError as error:
        detail = "must have 1 to 64 lower-case letters, digits, and dots, dashes or underscores between them"
        raise wrong("name", detail) from error


def _model(data: bytes) -> StreamModel:
    try:
        return StreamModel.from_bytes(data)
    except DamagedState as error:
        raise invalid((), f"must be a snapshot as it was downloaded: {error}") from error
