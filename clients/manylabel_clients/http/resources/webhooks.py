"""The webhooks of a server: events that it posts to other servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from manylabel_clients.http.resources.records import from_json, list_reader
from manylabel_clients.http.resources.requests import Requests
from manylabel_clients.http.resources.resource import AsyncResource, SyncResource, awaited, sync
from manylabel_clients.http.transport.connections import AsyncConnections, SyncConnections
from manylabel_clients.http.transport.exchange import Exchange, Request, read, send
from manylabel_clients.http.transport.json_body import JSON, encode

EVENTS = ("label", "drift", "job", "promoted", "review")
"""Types of events that a webhook can ask for."""


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """An attempt to deliver an event."""

    event: str
    """Id of the event, as in the header ``webhook-id``."""
    type: str
    time: str
    """RFC 3339, UTC, as the other times."""
    attempt: int
    """1 for the first attempt."""
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
    """Names of models, or how they begin, with ``*`` at the end."""
    created_at: str
    state: str
    """``active`` or ``disabled``."""
    reason: str | None
    """Code of the error for which it was disabled."""
    waiting: int
    """Number of events that wait for delivery."""
    dropped: int
    """Number of events that found no room in the queue, and of which the receiver has not been told yet."""
    delivered: int
    """Number of events delivered so far."""
    failures: int
    """Number of failed attempts to deliver the first of the events that wait."""
    deliveries: list[WebhookDelivery] = field(default_factory=list)
    """The latest attempts, the newest first; only of a webhook that was requested alone."""


@dataclass(frozen=True, slots=True)
class NewWebhook(Webhook):
    """A webhook that was just created, with its secret."""

    secret: str = field(default="", repr=False)
    """Secret that signs the events, ``whsec_...``: keep it, it is never shown again."""


class WebhookRequests(Requests):
    """Requests about the webhooks of a server. Each needs a key with the scope ``admin`` if the server has keys."""

    def create(
        self, url: str, *, events: Sequence[str], models: Sequence[str] = ("*",), secret: str | None = None
    ) -> Exchange[NewWebhook]:
        """Create a webhook: the server posts events to an address.

        Parameters
        ----------
        url : str
            Address of the receiver; its scheme, host and port must be one of the server's setting ``webhook_urls``.
        events : sequence of str
            Of ``label``, ``drift``, ``job``, ``promoted`` and ``review``.
        models : sequence of str
            Names of models, or how they begin, with ``*`` at the end.
        secret : str, optional
            Secret that signs the events (Standard Webhooks): ``whsec_`` and the base64 of 24 to 64 bytes. Default: the
            server makes one.

        Raises
        ------
        Denied
            The key is not for all of these models.
        Invalid
            A field is not allowed, or the address.
        TooLarge
            The server has as many webhooks as it may have.
        ConnectionFailed
            No response came; if `maybe_done`, a webhook may exist whose secret was lost: delete it.
        """
        if isinstance(events, str) or isinstance(models, str):
            raise TypeError("events and models must be lists of strings, not one string")
        wanted: dict[str, Any] = {"url": url, "events": tuple(events), "models": tuple(models)}
        if secret is not None:
            wanted["secret"] = secret
        # A second attempt could create a second webhook whose secret no client has.
        response = yield from send(Request("POST", "/v1/webhooks", encode(wanted), JSON), self._retry, once=True)
        return read(response, partial(from_json, NewWebhook))

    def list(self) -> Exchange[list[Webhook]]:
        """Return the webhooks for models that the caller's key allows, the oldest first."""
        return (yield from self._get("/v1/webhooks", list_reader("webhooks", partial(from_json, Webhook))))

    def get(self, id: str) -> Exchange[Webhook]:
        """Return a webhook with its latest deliveries.

        Raises
        ------
        NotFound
            The id belongs to no webhook.
        """
        return (yield from self._get(_path(id), partial(from_json, Webhook)))

    def delete(self, id: str) -> Exchange[None]:
        """Delete a webhook with its queued events.

        Raises
        ------
        NotFound
            The id belongs to no webhook.
        """
        yield from self._delete(_path(id))

    def test(self, id: str) -> Exchange[WebhookDelivery]:
        """Send a test event, and return the delivery; a failed one has an `error`.

        Raises
        ------
        NotFound
            The id belongs to no webhook.
        """
        return read((yield from self._post(f"{_path(id)}/test", None)), partial(from_json, WebhookDelivery))

    def enable(self, id: str) -> Exchange[Webhook]:
        """Enable a disabled webhook.

        Raises
        ------
        NotFound
            The id belongs to no webhook.
        """
        return read((yield from self._post(f"{_path(id)}/enable", None)), partial(from_json, Webhook))


class Webhooks(SyncResource[WebhookRequests]):
    """The webhooks of a server, as `Client.webhooks` has them."""

    def __init__(self, connections: SyncConnections) -> None:
        super().__init__(connections, WebhookRequests(connections.retry))

    create = sync(WebhookRequests.create)
    get = sync(WebhookRequests.get)
    delete = sync(WebhookRequests.delete)
    test = sync(WebhookRequests.test)
    enable = sync(WebhookRequests.enable)
    list = sync(WebhookRequests.list)


class AsyncWebhooks(AsyncResource[WebhookRequests]):
    """The webhooks of a server, as `AsyncClient.webhooks` has them: the calls of `Webhooks`, awaited."""

    def __init__(self, connections: AsyncConnections) -> None:
        super().__init__(connections, WebhookRequests(connections.retry))

    create = awaited(WebhookRequests.create)
    get = awaited(WebhookRequests.get)
    delete = awaited(WebhookRequests.delete)
    test = awaited(WebhookRequests.test)
    enable = awaited(WebhookRequests.enable)
    list = awaited(WebhookRequests.list)


def _path(id: str) -> str:
    return f"/v1/webhooks/{quote(id, safe='')}"
