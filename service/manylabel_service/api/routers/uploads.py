"""PUT /v1/models/{name}: a model made of a snapshot of another."""

import asyncio

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.state import DamagedState
from manylabel_service.api import schemas
from manylabel_service.api.context import context_of
from manylabel_service.api.routers.models import CREATING, created
from manylabel_service.api.web.bodies import BYTES, read_body
from manylabel_service.api.web.problems import Problem, invalid
from manylabel_service.api.web.query import wrong
from manylabel_service.api.web.routes import DirectRoute, body, problems
from manylabel_service.errors import NotReady
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings

UPLOAD_SECONDS = 600.0
"""Longest upload: one that trickles in would keep all others from theirs."""

router = APIRouter(route_class=DirectRoute, tags=["models"])


@router.put(
    "/v1/models/{name}",
    summary="Create a model from a snapshot",
    status_code=201,
    response_model=schemas.ModelStatus,
    responses=problems("stream_idle", *CREATING),
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
        data = await _read(request, context.settings)
        state = await asyncio.to_thread(_model, data)
        del data
        replica = await context.registry.create(state.spec.model_copy(update={"name": name}), state)
    return created(replica)


async def _read(request: Request, settings: Settings) -> bytes:
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            return await read_body(request, BYTES, settings.max_model_bytes, settings.stream_idle_seconds)
    except TimeoutError:
        raise Problem("stream_idle", f"an upload may take {UPLOAD_SECONDS:g} s, and this one was not done") from None


def _check_name(name: str) -> None:
    try:
        ModelSpec.model_validate({"name": name, "algorithm": "falt"})
    except ValidationError as error:
        detail = "must have 1 to 64 lower-case letters, digits, and dots, dashes or underscores between them"
        raise wrong("name", detail) from error


def _model(data: bytes) -> OnlineModel:
    try:
        return OnlineModel.from_bytes(data)
    except DamagedState as error:
        raise invalid((), f"must be a snapshot as it was downloaded: {error}") from error
