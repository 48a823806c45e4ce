"""Webhooks of a server: events that it posts to other servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from manylabel_clients.http.resources.resource import AsyncResource, Resource, SyncResource, call, given, path_of
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode

EVENTS = ("label", "drift", "job", "promoted", "review")
"""Types of events that a webhook can select."""


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """Attempt to deliver an event."""

    event: str
    """Id of the event, as in the header ``webhook-id``."""
    type: str
    time: str
    """Time of the attempt (RFC 3339, UTC)."""
    attempt: int
    """Number of the attempt, from 1."""
    milliseconds: int
    status: int | None
    """Status of the response; None without a response."""
    error: str | None
    """Code of the error; None if the event was delivered."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook of a server, without its secret."""

    id: str
    url: str = field(repr=False)
    """Address of the receiver, which may contain a secret."""
    events: list[str]
    models: list[str]
    """Names of models, or prefixes of names followed by ``*``."""
    created_at: str
    state: str
    """``active`` or ``disabled``."""
    reason: str | None
    """Error code because of which the webhook was disabled."""
    waiting: int
    """Number of events that wait for delivery."""
    dropped: int
    """Number of events dropped because the queue was full, which the receiver has not been notified of yet."""
    delivered: int
    """Number of events delivered so far."""
    failures: int
    """Number of failed attempts to deliver the first queued event."""
    deliveries: list[WebhookDelivery] = field(default_factory=list)
    """Latest attempts, newest first; only in the response for a single webhook."""


@dataclass(frozen=True, slots=True)
class NewWebhook(Webhook):
    """A webhook that was just created, with its secret."""

    secret: str = field(default="", repr=False)
    """Secret that signs the events, ``whsec_...``. Store it: it is not shown again."""


class WebhookCalls(Resource):
    """Calls about the webhooks of a server. Each needs a key with the scope ``admin`` if the server has keys."""

    @call
    def create(
        self, url: str, *, events: Sequence[str], models: Sequence[str] = ("*",), secret: str | None = None
    ) -> Exchange[NewWebhook]:
        """Create a webhook: the server posts events to an address.

        The call is not retried. If it raises ConnectionFailed with `maybe_done`, a webhook may exist whose secret was
        lost: delete it.
        """
        if isinstance(events, str) or isinstance(models, str):
            raise TypeError("events and models must be lists of strings, not one string")
        wanted = given(url=url, events=tuple(events), models=tuple(models), secret=secret)
        # A second attempt could create a second webhook whose secret no client has.
        return read((yield from self._post("/v1/webhooks", encode(wanted), once=True)), NewWebhook)

    @call
    def list(self) -> Exchange[list[Webhook]]:
        """Return the webhooks for models that the caller's key allows, the oldest first."""
        return (yield from self._list("/v1/webhooks", "webhooks", Webhook))

    @call
    def get(self, id: str) -> Exchange[Webhook]:
        """Return a webhook with its latest deliveries."""
        return (yield from self._get(path_of("webhooks", id), Webhook))

    @call
    def delete(self, id: str) -> Exchange[None]:
        """Delete a webhook, with its undelivered events."""
        yield from self._delete(path_of("webhooks", id))

    @call
    def test(self, id: str) -> Exchange[WebhookDelivery]:
        """Send a test event, and return the delivery; a failed one has an `error`."""
        return read((yield from self._post(path_of("webhooks", id, "test"), None)), WebhookDelivery)

    @call
    def enable(self, id: str) -> Exchange[Webhook]:
        """Enable a disabled webhook: its events are sent again."""
        return read((yield from self._post(path_of("webhooks", id, "enable"), None)), Webhook)


class Webhooks(WebhookCalls, SyncResource):
    """Webhooks of a server, from `Client.webhooks`."""


class AsyncWebhooks(WebhookCalls, AsyncResource):
    """Webhooks of a server, from `AsyncClient.webhooks`: the calls of `Webhooks`, awaited."""
