"""PUT /v1/models/{name}/promise: promise a precision."""

from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.translation.model_access import changed, online
from manylabel_service.api.web.bodies import idempotency_key
from manylabel_service.api.web.large_json import read_json
from manylabel_service.api.web.routes import Router
from manylabel_service.api.web.validation import validated
from manylabel_service.online.state.controls import SetPromise

router = Router("models")

_EXAMPLE = {"precision": 0.95, "settled": 0.9, "missed": 0.02, "audit_rate": 0.05}


@router.endpoint(
    "PUT /v1/models/{name}/promise",
    "Promise a precision",
    "admin",
    schemas.UpdateResponse,
    ["model_not_found", "model_is_trained", "model_follows", "queue_full"],
    takes=(schemas.PromiseRequest, None),
    example=_EXAMPLE,
    keyed=True,
)
async def set_promise(request: Request, context: ContextOf, name: str) -> Response:
    """From this point of the log on, on every server, predictions say which labels may be applied unseen (`auto`), and
    whether the example needs review. A different promise begins a new account of errors; `null` ends the promise. The
    model retains what it has learnt."""
    replica = online(await context.registry.get(name))
    document, raw = await read_json(request, context.settings.max_body_bytes)
    key = idempotency_key(request, "promise", raw)
    target = None if document is None else validated(schemas.PromiseRequest, document).target
    return await changed(request, context, replica, lambda durability: SetPromise(target, durability, key))
