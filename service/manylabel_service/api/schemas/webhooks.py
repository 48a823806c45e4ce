"""Bodies of requests and answers about webhooks."""

import base64
import binascii
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from manylabel_service.access import patterns
from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.api.schemas.keys import MAX_PATTERNS, Pattern
from manylabel_service.documented import Documented
from manylabel_service.webhooks.webhook import KINDS, SECRET_PREFIX, Kind

MAX_URL_CHARACTERS = 2_000
SECRET_LENGTHS = (24, 64)
"""Minimum and maximum bytes of a secret, as Standard Webhooks has them."""


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
        raise ValueError("must have each event once")
    return events


def _check_url(url: str) -> str:
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("must be printable ASCII without spaces; encode other characters with %")
    return url


class WebhookDefinition(Documented):
    """Webhook to create."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, Field(strict=True, min_length=1, max_length=MAX_URL_CHARACTERS), AfterValidator(_check_url)]
    """Address of the receiver; its scheme, host and port must be one of the setting `webhook_urls`."""
    events: Annotated[list[Kind], Field(min_length=1, max_length=len(KINDS)), AfterValidator(_check_once)]
    """Types of the events that are sent."""
    models: list[Pattern] = Field([patterns.ANY], min_length=1, max_length=MAX_PATTERNS)
    """Events of these models are sent: names, or how names begin and `*` at the end."""
    secret: Annotated[str, Field(strict=True), AfterValidator(_check_secret)] | None = Field(None, repr=False)
    """Secret that signs each event (Standard Webhooks): `whsec_` and the base64 of 24 to 64 bytes. Default: random."""


class WebhookDelivery(ResponseModel):
    """An attempt to deliver an event."""

    event: str
    """Id of the event, as in the header `webhook-id`."""
    type: str
    """Type of the event."""
    time: str
    attempt: int
    """1 for the first attempt."""
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
    """RFC 3339, UTC, as the other times."""
    state: Literal["active", "disabled"]
    """Nothing is sent to a disabled webhook, until it is enabled."""
    reason: str | None
    """Code of the error for which it was disabled; null while it is active."""
    waiting: int
    """Events that wait for delivery."""
    dropped: int
    """Events that found no room in the queue, and of which the receiver has not been told yet."""
    delivered: int
    """Events delivered so far."""
    failures: int
    """Failed attempts to deliver the first of the events that wait."""


class WebhookDetail(WebhookStatus):
    """Webhook with its latest deliveries."""

    deliveries: list[WebhookDelivery]
    """The latest attempts, the newest first."""


class NewWebhook(WebhookStatus):
    """New webhook with its secret."""

    secret: str
    """Secret that signs the events; it is shown this once."""


class WebhookList(ResponseModel):
    """The webhooks for models that the caller's key allows, the oldest first."""

    webhooks: list[WebhookStatus]
    damaged: list[str] = Field(default_factory=list)
    """Ids of webhooks that cannot be read; only there if there are any, for a caller whose key is for all models."""
