"""Bodies of requests and responses about webhooks."""

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
    """Number of events dropped because the queue was full, which the receiver has not been notified of yet."""
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
    damaged: list[str] = Field(default_factory=list)
    """Ids of webhooks that cannot be read; present only if there are any, for a caller whose key includes all models.
    """
