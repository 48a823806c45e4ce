"""PUT /v1/models/{name}/promise: promise a precision."""

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.translation.model_access import online
from manylabel_service.api.translation.to_json import receipt
from manylabel_service.api.web import idempotency
from manylabel_service.api.web.access import needs
from manylabel_service.api.web.large_json import read_json
from manylabel_service.api.web.routes import GuardedRoute, json_answer, problems, reference
from manylabel_service.api.web.validation import invalid_body

router = APIRouter(route_class=GuardedRoute, tags=["models"])

_SCHEMA = {"anyOf": [reference(schemas.PromiseRequest), {"type": "null"}]}
_EXAMPLE = {"precision": 0.95, "settled": 0.9, "missed": 0.02, "audit_rate": 0.05}


@router.put(
    "/v1/models/{name}/promise",
    summary="Promise a precision",
    response_model=schemas.UpdateResponse,
    responses=problems(
        *("malformed_json", "model_not_found", "model_is_trained", "model_follows", "body_too_large"),
        "idempotency_in_flight",
        *("unsupported_media_type", "invalid_request", "idempotency_key_reused", "queue_full", "not_ready"),
        "storage_unavailable",
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _SCHEMA, "example": _EXAMPLE}},
        },
        **idempotency.PARAMETER,
    },
)
@needs("admin")
async def set_promise(request: Request, context: ContextOf, name: str) -> Response:
    """From this point of the log on, on every server, predictions say which labels may be applied unseen (`auto`), and
    whether the example needs review. Another promise than before begins a new account of errors; `null` ends the
    promise. The model keeps what it has learnt."""
    replica = online(await context.registry.get(name))
    document, raw = await read_json(request, context.settings.max_body_bytes)
    key = idempotency.idempotency_key(request, "promise", raw)
    try:
        wanted = None if document is None else schemas.PromiseRequest.model_validate(document)
    except ValidationError as error:
        raise invalid_body(error, (), tuple, {(): schemas.PromiseRequest}) from error
    target = None if wanted is None else wanted.target
    updated = await context.registry.ask(replica, lambda replica: replica.set_promise(target, key))
    return json_answer(receipt(updated, request.scope), headers=[idempotency.REPLAYED] if updated.replayed else [])
