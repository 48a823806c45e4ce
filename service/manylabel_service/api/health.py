"""/livez and /readyz."""

import pydantic_core
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import context_of
from manylabel_service.api.routes import DirectRoute, JSONAnswer, problems

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
    """503 while the server starts or stops. A model that cannot be restored does not hold up the others."""
    context = context_of(request)
    context.registry.require_ready()
    document = {"ready": True, "failed": context.registry.failed}
    return JSONAnswer(pydantic_core.to_json(document))
