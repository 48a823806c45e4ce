"""Webhooks of a server: events that it posts to other servers."""

from __future__ import annotations

from collections.abc import Sequence

from manylabel_clients.http.resources.resource import AsyncResource, Resource, SyncResource, call, given, path_of
from manylabel_clients.http.responses import NewWebhook, Webhook, WebhookDelivery
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode


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
        """Return the webhooks for models that the caller's key allows, oldest first."""
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
