"""/v1/webhooks: events that the server posts to other servers."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.access.grant import Access
from manylabel_service.api import schemas
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router, json_answer, listed
from manylabel_service.clock import rfc3339
from manylabel_service.settings import origin_of
from manylabel_service.webhooks.webhook import Delivery, DeliveryState, Webhook, new_secret

router = Router("webhooks", errors=["webhook_not_found"])

_EXAMPLE = {"url": "https://hooks.example.org/manylabel", "events": ["drift", "label"], "models": ["tags-*"]}


@router.endpoint(
    "POST /v1/webhooks",
    "Create a webhook",
    "admin",
    schemas.NewWebhook,
    ["limit_exceeded"],
    takes=schemas.WebhookDefinition,
    example=_EXAMPLE,
    status=201,
)
async def create_webhook(request: Request, context: ContextOf, access: AccessOf) -> Response:
    """Creates a webhook: the server posts events from now on to the address, signed with the secret, which only this
    response contains. The caller's key must include all the models. The webhook stays active when that key is revoked.
    """
    wanted, _ = await read_model(request, context.settings.max_body_bytes, schemas.WebhookDefinition)
    access.require_cover(["admin"], wanted.models)
    _check_allowed(context, wanted.url)
    context.registry.require_ready()
    secret = wanted.secret or new_secret()
    webhook = await context.webhooks.add(wanted.url, secret, wanted.events, wanted.models)
    headers = [(b"location", f"/v1/webhooks/{webhook.id}".encode())]
    return json_answer({**_to_dict(webhook, DeliveryState.new(webhook, 0)), "secret": secret}, 201, headers)


@router.endpoint("GET /v1/webhooks", "List webhooks", "admin", schemas.WebhookList)
async def list_webhooks(context: ContextOf, access: AccessOf) -> Response:
    """Lists the webhooks for models that the caller's key allows, the oldest first, without their secrets."""
    context.registry.require_ready()
    found, damaged = await context.webhooks.all()
    covered = [each for each in found if access.covers(["admin"], each.models)]
    shown = [_to_dict(each, await context.webhooks.state(each)) for each in covered]
    return json_answer(listed("webhooks", shown, damaged if access.sees_all else ()))


@router.endpoint("GET /v1/webhooks/{id}", "Show a webhook", "admin", schemas.WebhookDetail)
async def show_webhook(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Shows the webhook with its latest 50 delivery attempts, without the secret and the bodies sent."""
    webhook = await _found(context, access, id)
    state = await context.webhooks.state(webhook)
    deliveries = [_delivery(each) for each in reversed(state.deliveries)]
    return json_answer({**_to_dict(webhook, state), "deliveries": deliveries})


@router.endpoint("DELETE /v1/webhooks/{id}", "Delete a webhook", "admin", status=204)
async def delete_webhook(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Deletes a webhook with its queued events; an event that is being sent may still arrive.

    A damaged webhook can be deleted with a key for all models.
    """
    context.registry.require_ready()
    if not (access.sees_all and await context.webhooks.delete_damaged(id)):
        await _found(context, access, id)
        await context.webhooks.delete(id)
    return Response(status_code=204)


@router.endpoint("POST /v1/webhooks/{id}/test", "Send a test event", "admin", schemas.WebhookDelivery)
async def test_webhook(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Sends an event of type `test` once, immediately, and returns the result; the status is 200 even if the delivery
    failed: see `error`. The event bypasses the queue and the delivery log."""
    webhook = await _found(context, access, id)
    return json_answer(_delivery(await context.webhooks.test(webhook)))


@router.endpoint("POST /v1/webhooks/{id}/enable", "Enable a disabled webhook", "admin", schemas.WebhookStatus)
async def enable_webhook(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Enables a disabled webhook and sends its queued events, oldest first. An active webhook does not change."""
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
