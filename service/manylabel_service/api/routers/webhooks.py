"""/v1/webhooks: events that the server posts to other servers."""

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.access.grant import ANY, Access
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.routers.keys import MAX_PATTERNS, Pattern
from manylabel_service.api.schemas.base import ResponseModel, omitted_if_empty
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router
from manylabel_service.clock import rfc3339
from manylabel_service.documented import Documented
from manylabel_service.errors import DocumentDamaged, DocumentNewer, WebhookNotFound
from manylabel_service.settings import origin_of
from manylabel_service.webhooks.webhook import (
    KINDS,
    SECRET_PREFIX,
    Delivery,
    DeliveryState,
    Kind,
    Webhook,
    new_secret,
)

router = Router("webhooks", errors=["webhook_not_found"])

MAX_URL_CHARACTERS = 2_000
SECRET_LENGTHS = (24, 64)
"""Minimum and maximum bytes of a secret, as in Standard Webhooks."""


def _check_secret(secret: str) -> str:
    least, most = SECRET_LENGTHS
    try:
        raw = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not secret.startswith(SECRET_PREFIX) or not least <= len(raw) <= most:
        raise ValueError(f"must be {SECRET_PREFIX} and the base64 of {least} to {most} bytes")
    return secret


def _check_once(events: list[Kind]) -> list[Kind]:
    if len(set(events)) != len(events):
        raise ValueError("must not repeat an event")
    return events


def _check_url(url: str) -> str:
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("must be printable ASCII without spaces; encode other characters with %")
    return url


class WebhookDefinition(Documented):
    """Webhook to create."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, Field(strict=True, min_length=1, max_length=MAX_URL_CHARACTERS), AfterValidator(_check_url)]
    """Address of the receiver; the setting `webhook_urls` must include its scheme, host and port."""
    events: Annotated[list[Kind], Field(min_length=1, max_length=len(KINDS)), AfterValidator(_check_once)]
    """Types of the events that are sent."""
    models: list[Pattern] = Field([ANY], min_length=1, max_length=MAX_PATTERNS)
    """Models whose events are sent: names, or prefixes of names that end in `*`."""
    secret: Annotated[str, Field(strict=True), AfterValidator(_check_secret)] | None = Field(None, repr=False)
    """Secret that signs each event (Standard Webhooks): `whsec_` and the base64 of 24 to 64 bytes. Default: random."""


class WebhookDelivery(ResponseModel):
    """Attempt to deliver an event."""

    event: str
    """Id of the event, as in the header `webhook-id`."""
    type: str
    """Type of the event."""
    time: str
    attempt: int
    """Number of the attempt, from 1."""
    milliseconds: int
    status: int | None
    """Status of the response; null without a response."""
    error: str | None
    """Code of the error; null if the event was delivered."""


class WebhookStatus(ResponseModel):
    """Webhook without its secret."""

    id: str
    url: str
    events: list[Kind]
    models: list[str]
    created_at: str
    """Creation time (RFC 3339, UTC, like all times)."""
    state: Literal["active", "disabled"]
    """State of the webhook; a disabled one gets no events until it is enabled."""
    reason: str | None
    """Error code because of which the webhook was disabled; null while it is active."""
    waiting: int
    """Number of queued events."""
    dropped: int
    """Number of events that were dropped because the queue was full, and that the receiver does not know of yet."""
    delivered: int
    """Number of delivered events."""
    failures: int
    """Number of failed attempts to deliver the first queued event."""


class WebhookDetail(WebhookStatus):
    """Webhook with its latest deliveries."""

    deliveries: list[WebhookDelivery]
    """Latest attempts, newest first."""


class NewWebhook(WebhookStatus):
    """New webhook with its secret."""

    secret: str
    """Secret that signs the events; it is not shown again."""


class WebhookList(ResponseModel):
    """Webhooks for models that the caller's key allows, oldest first."""

    webhooks: list[WebhookStatus]
    damaged: list[str] = omitted_if_empty()
    """Ids of webhooks that cannot be read; present only if there are any, for a caller whose key includes all models.
    """


_EXAMPLE = {"url": "https://hooks.example.org/manylabel", "events": ["drift", "label"], "models": ["tags-*"]}


@router.endpoint(
    "POST /v1/webhooks",
    "Create a webhook",
    "admin",
    NewWebhook,
    ["limit_exceeded", "storage_full"],
    takes=WebhookDefinition,
    example=_EXAMPLE,
    status=201,
)
async def create_webhook(request: Request, response: Response, context: ContextOf, access: AccessOf) -> dict[str, Any]:
    """Creates a webhook: from now on, the server posts events to the address, signed with the secret. Only this
    response contains the secret. The caller's key must include all the models. The webhook stays active if the key is
    revoked.
    """
    wanted, _ = await read_model(request, WebhookDefinition)
    access.require_cover(["admin"], wanted.models)
    _check_allowed(context, wanted.url)
    context.registry.require_ready()
    secret = wanted.secret or new_secret()
    webhook = await context.webhooks.add(wanted.url, secret, wanted.events, wanted.models)
    response.headers["Location"] = f"/v1/webhooks/{webhook.id}"
    return {**_status(webhook, DeliveryState.new(webhook, 0)), "secret": secret}


@router.endpoint("GET /v1/webhooks", "List webhooks", "admin", WebhookList)
async def list_webhooks(context: ContextOf, access: AccessOf) -> dict[str, Any]:
    """Lists the webhooks for models that the caller's key allows, the oldest first, without their secrets."""
    context.registry.require_ready()
    found, damaged = await context.webhooks.all()
    covered = [each for each in found if access.covers(["admin"], each.models)]
    shown = []
    for webhook in covered:
        try:
            shown.append(_status(webhook, await context.webhooks.state(webhook)))
        except DocumentNewer:
            pass  # the newer release shows it
        except DocumentDamaged:
            damaged.append(webhook.id)
    return {"webhooks": shown, "damaged": sorted(damaged) if access.sees_all else []}


@router.endpoint("GET /v1/webhooks/{id}", "Show a webhook", "admin", WebhookDetail)
async def show_webhook(context: ContextOf, access: AccessOf, id: str) -> dict[str, Any]:
    """Shows the webhook with its latest 50 delivery attempts, without the secret and the bodies sent."""
    webhook = await _found(context, access, id)
    state = await context.webhooks.state(webhook)
    deliveries = [_delivery(each) for each in reversed(state.deliveries)]
    return {**_status(webhook, state), "deliveries": deliveries}


@router.endpoint("DELETE /v1/webhooks/{id}", "Delete a webhook", "admin", status=204)
async def delete_webhook(context: ContextOf, access: AccessOf, id: str) -> None:
    """Deletes a webhook with its queued events; an event that is being sent may still arrive.

    A damaged webhook can be deleted with a key for all models.
    """
    context.registry.require_ready()
    if not (access.sees_all and await context.webhooks.delete_damaged(id)):
        await _found(context, access, id)
        await context.webhooks.delete(id)


@router.endpoint("POST /v1/webhooks/{id}/test", "Send a test event", "admin", WebhookDelivery)
async def test_webhook(context: ContextOf, access: AccessOf, id: str) -> dict[str, Any]:
    """Sends an event of type `test` once, immediately, and returns the result; the status is 200 even if the delivery
    failed: see `error`. The event bypasses the queue and the delivery log."""
    webhook = await _found(context, access, id)
    return _delivery(await context.webhooks.test(webhook))


@router.endpoint("POST /v1/webhooks/{id}/enable", "Enable a disabled webhook", "admin", WebhookStatus)
async def enable_webhook(context: ContextOf, access: AccessOf, id: str) -> dict[str, Any]:
    """Enables a disabled webhook and sends its queued events, oldest first. An active webhook does not change."""
    await _found(context, access, id)
    webhook = await context.webhooks.enable(id)
    return _status(webhook, await context.webhooks.state(webhook))


async def _found(context: Context, access: Access, id: str) -> Webhook:
    context.registry.require_ready()
    webhook = await context.webhooks.get(id)
    if not access.covers(["admin"], webhook.models):
        raise WebhookNotFound(id)  # it must look like a missing one, as the caller may lack access to it
    return webhook


def _check_allowed(context: Context, url: str) -> None:
    """Raise invalid_request for an address that the setting does not include."""
    if not context.settings.webhook_urls:
        raise invalid(("url",), "is not allowed: webhooks are disabled because the setting webhook_urls is empty")
    origin = origin_of(url)
    if origin is None:
        raise invalid(("url",), "must be http:// or https://, a host, and no user name or password")
    if not context.webhooks.sender.allows(url):
        raise invalid(("url",), f"is not allowed: the setting webhook_urls does not include {origin}")


def _status(webhook: Webhook, state: DeliveryState) -> dict[str, Any]:
    reason = state.reason(webhook)
    return {
        **webhook.model_dump(include={"id", "url", "events", "models"}),
        **state.model_dump(include={"dropped", "delivered", "failures"}),
        "created_at": rfc3339(webhook.created_unix_ms),
        "state": "active" if reason is None else "disabled",
        "reason": reason,
        "waiting": len(state.queue),
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    shown = set(Delivery.model_fields) - {"unix_ms"}
    return {**delivery.model_dump(include=shown), "time": rfc3339(delivery.unix_ms)}
