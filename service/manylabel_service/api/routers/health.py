"""/livez and /readyz."""

from typing import Any

import pydantic_core
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import context_of
from manylabel_service.api.web.routes import DirectRoute, JSONAnswer, problems

router = APIRouter(route_class=DirectRoute, tags=["server"])


@router.get("/livez", summary="Does the process serve?", response_model=schemas.Alive, responses=problems())
async def live(request: Request) -> Response:
    """200 as soon as the process answers at all."""
    return JSONAnswer(b'{"live":true}')


@router.get(
    "/readyz",
    summary="Is every model restored and caught up?",
    response_model=schemas.Ready,
    responses=problems("not_ready"),
)
async def ready(request: Request) -> Response:
    """503 while the server starts or stops. A model that cannot be restored does not hold up the others; without
    the store, predictions go on, and updates are answered 503."""
    registry = context_of(request).registry
    registry.require_ready()
    document: dict[str, Any] = {"ready": True, "failed": registry.failed}
    if registry.storage_gone_seconds is not None:
        document["storage_gone_seconds"] = round(registry.storage_gone_seconds, 3)
    return JSONAnswer(pydantic_core.to_json(document))
