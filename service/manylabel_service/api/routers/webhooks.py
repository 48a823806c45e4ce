"""/v1/webhooks: events that the server posts to other servers."""

from typing import Any

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.access.grant import Access
from manylabel_service.api import schemas
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.web.access import AccessOf, needs
from manylabel_service.api.web.large_json import read_json
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import GuardedRoute, body, json_answer, listed, problems
from manylabel_service.api.web.validation import invalid_body
from manylabel_service.clock import rfc3339
from manylabel_service.settings import origin_of
from manylabel_service.webhooks.webhook import Delivery, DeliveryState, Webhook, new_secret

router = APIRouter(route_class=GuardedRoute, tags=["webhooks"])

_STORED = ("not_ready", "storage_unavailable")
_SENT = ("malformed_json", "body_too_large", "unsupported_media_type", "invalid_request")
_EXAMPLE = {"url": "https://hooks.example.org/manylabel", "events": ["drift", "label"], "models": ["tags-*"]}


@router.post(
    "/v1/webhooks",
    summary="Create a webhook",
    status_code=201,
    response_model=schemas.NewWebhook,
    responses=problems(*_SENT, "limit_exceeded", *_STORED),
    openapi_extra=body(schemas.WebhookDefinition, example=_EXAMPLE),
)
@needs("admin")
async def create_webhook(request: Request, context: ContextOf, access: AccessOf) -> Response:
    """The server posts the events from now on to the address, signed with the secret, which only this response shows.
    The caller's key must be for all the models. The webhook continues to work when that key is revoked."""
    document, _ = await read_json(request, context.settings.max_body_bytes)
    try:
        wanted = schemas.WebhookDefinition.model_validate(document)
    except ValidationError as error:
        raise invalid_body(error, (), tuple, {(): schemas.WebhookDefinition}) from error
    access.require_cover(["admin"], wanted.models)
    _check_allowed(context, wanted.url)
    context.registry.require_ready()
    secret = wanted.secret or new_secret()
    webhook = await context.webhooks.add(wanted.url, secret, wanted.events, wanted.models)
    headers = [(b"location", f"/v1/webhooks/{webhook.id}".encode())]
    return json_answer({**_to_dict(webhook, DeliveryState.new(webhook, 0)), "secret": secret}, 201, headers)


@router.get("/v1/webhooks", summary="List webhooks", response_model=schemas.WebhookList, responses=problems(*_STORED))
@needs("admin")
async def list_webhooks(context: ContextOf, access: AccessOf) -> Response:
    """Lists the webhooks for models that the caller's key allows, the oldest first, without their secrets."""
    context.registry.require_ready()
    found, damaged = await context.webhooks.all()
    covered = [each for each in found if access.covers(["admin"], each.models)]
    shown = [_to_dict(each, await context.webhooks.state(each)) for each in covered]
    return json_answer(listed("webhooks", shown, damaged if access.sees_all else ()))


@router.get(
    "/v1/webhooks/{id}",
    summary="Show a webhook",
    response_model=schemas.WebhookDetail,
    responses=problems("webhook_not_found", *_STORED),
)
@needs("admin")
async def show_webhook(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Shows the webhook with its latest 50 delivery attempts; never the secret, and not what was sent."""
    webhook = await _found(context, access, id)
    state = await context.webhooks.state(webhook)
    deliveries = [_delivery(each) for each in reversed(state.deliveries)]
    return json_answer({**_to_dict(webhook, state), "deliveries": deliveries})


@router.delete(
    "/v1/webhooks/{id}",
    summary="Delete a webhook",
    status_code=204,
    responses=problems("webhook_not_found", *_STORED),
)
@needs("admin")
async def delete_webhook(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Events that wait are not sent any more; one that is being sent may still arrive. A damaged webhook can be deleted
    with a key for all models."""
    context.registry.require_ready()
    if not (access.sees_all and await context.webhooks.delete_damaged(id)):
        await _found(context, access, id)
        await context.webhooks.delete(id)
    return Response(status_code=204)


@router.post(
    "/v1/webhooks/{id}/test",
    summary="Send a test event",
    response_model=schemas.WebhookDelivery,
    responses=problems("webhook_not_found", *_STORED),
)
@needs("admin")
async def test_webhook(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Sends an event of type `test` once, at once, and responds with the result, which is 200 even if the delivery
    failed: see `error`. It waits for no other event, and the delivery log does not have it."""
    webhook = await _found(context, access, id)
    return json_answer(_delivery(await context.webhooks.test(webhook)))


@router.post(
    "/v1/webhooks/{id}/enable",
    summary="Enable a disabled webhook",
    response_model=schemas.WebhookStatus,
    responses=problems("webhook_not_found", *_STORED),
)
@needs("admin")
async def enable_webhook(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Events that were queued meanwhile are sent, the oldest first. An active webhook stays as it is."""
    await _found(context, access, id)
    webhook = await context.webhooks.enable(id)
    return json_answer(_to_dict(webhook, await context.webhooks.state(webhook)))


async def _found(context: Context, access: Access, id: str) -> Webhook:
    context.registry.require_ready()
    webhook = await context.webhooks.get(id)
    access.require_cover(["admin"], webhook.models)
    return webhook


def _check_allowed(context: Context, url: str) -> None:
    """Raise invalid_request for an address that the setting does not have."""
    if not context.settings.webhook_urls:
        raise invalid(("url",), "is not allowed: webhooks are off while the setting webhook_urls is empty")
    origin = origin_of(url)
    if origin is None:
        raise invalid(("url",), "must be http:// or https://, a host, and no user name or password")
    if not context.webhooks.sender.allows(url):
        raise invalid(("url",), f"is not allowed: the setting webhook_urls does not have {origin}")


def _to_dict(webhook: Webhook, state: DeliveryState) -> dict[str, Any]:
    reason = state.reason(webhook)
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": webhook.events,
        "models": webhook.models,
        "created_at": rfc3339(webhook.created_unix_ms),
        "state": "active" if reason is None else "disabled",
        "reason": reason,
        "waiting": len(state.queue),
        "dropped": state.dropped,
        "delivered": state.delivered,
        "failures": state.failures,
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    facts = delivery.model_dump(exclude={"unix_ms"})
    return {**facts, "time": rfc3339(delivery.unix_ms)}
