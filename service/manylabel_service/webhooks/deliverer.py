"""Queueing and delivery of events for webhooks, by one of the servers that share a store.

The leading server (`Membership.leads`) has the states of all webhooks in memory, and writes them by compare-and-set. If
a write fails, another server is the leader, and this server drops its states. If a server dies before it has stored a
delivery, the event is sent again (at-least-once delivery).
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

import httpx2
import structlog

from manylabel_service import ulid
from manylabel_service.clock import now_ms
from manylabel_service.errors import (
    DocumentDamaged,
    DocumentNewer,
    RevisionConflict,
    StorageError,
    WebhookNotFound,
    WebhooksFull,
)
from manylabel_service.models.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.storage import UNREADABLE, Collection, Store, intact
from manylabel_service.webhooks.sender import FINAL, Sender, Sent, failed_delivery
from manylabel_service.webhooks.sources import Sources
from manylabel_service.webhooks.webhook import (
    DEFINITIONS,
    STATES,
    Delivery,
    DeliveryState,
    Disabled,
    Kind,
    Webhook,
    message_of,
)

POLL_SECONDS = 0.5
"""Interval in seconds between two polls for new events, and between two writes of delivery results."""
LOOK_SECONDS = 5.0
"""Interval in seconds between two polls of models that are not in memory, and of stored predictions. While there are no
webhooks, it is also the interval between two polls of definitions that another server has stored."""
CURSOR_SECONDS = 30.0
"""Interval in seconds between two writes of a state in which only cursors have changed."""
BACKOFF_SECONDS = (1.0, 3_600.0)
"""Minimum and maximum seconds before another attempt; the wait doubles each time, with random jitter of up to a
half."""
GIVE_UP_SECONDS = 86_400.0
"""Seconds of failed attempts to deliver one event after which the webhook is disabled."""

log = structlog.get_logger()


class Deliverer:
    """Manager of webhooks, which delivers their events while this server is the leader.

    `count` is called with the outcome of each attempt: ``delivered`` or ``failed``.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        registry: Registry,
        sources: Sources,
        count: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        self._webhooks = Collection(store.documents, DEFINITIONS, Webhook)
        self._states = Collection(store.documents, STATES, DeliveryState)
        self._max_webhooks = settings.limits.max_webhooks
        self._registry, self._sources, self._count = registry, sources, count
        self.sender = Sender(settings.webhook_urls, settings.webhook_networks)
        self._running: dict[str, _Running] = {}
        self._wake = asyncio.Event()
        self._adding = asyncio.Lock()
        self._looked_at, self._swept = -LOOK_SECONDS, False
        self._task: asyncio.Task[None] | None = None

    # -- webhooks ---------------------------------------------------------------------------------

    async def add(self, url: str, secret: str, events: list[Kind], models: list[str]) -> Webhook:
        """Create a webhook; events from now on are sent. Raises WebhooksFull or StorageError."""
        id = ulid.new().lower()
        webhook = Webhook(id=id, url=url, secret=secret, events=events, models=models, created_unix_ms=now_ms())
        async with self._adding:
            if len(await self._webhooks.names()) >= self._max_webhooks:
                raise WebhooksFull(self._max_webhooks)
            webhook.positions, webhook.since_unix_ms = await self._sources.positions(webhook)
            await self._webhooks.put(id, webhook)
        self._wake.set()
        return webhook

    async def all(self) -> tuple[list[Webhook], list[str]]:
        """Return the webhooks, oldest first, and the ids of damaged ones; raises StorageError."""
        found = await self._webhooks.all()
        damaged = [id for id, each in found.items() if isinstance(each, DocumentDamaged)]
        return sorted(intact(found).values(), key=lambda each: each.id), sorted(damaged)

    async def get(self, id: str) -> Webhook:
        """Return a webhook; raises WebhookNotFound, DocumentNewer, StorageError."""
        webhook = None
        if ulid.valid(id.upper()):
            with suppress(DocumentDamaged):
                webhook = await self._webhooks.get(id)
        return _known(webhook, id)

    async def state(self, webhook: Webhook) -> DeliveryState:
        """Return the last stored state of a webhook; raises DocumentNewer, StorageError."""
        running = self._running.get(webhook.id)
        if running is not None:
            return running.state
        return await self._states.get(webhook.id) or DeliveryState.new(webhook, 0)

    async def enable(self, id: str) -> Webhook:
        """Enable a disabled webhook; raises WebhookNotFound, StorageError."""

        def enabled(webhook: Webhook | None) -> Webhook:
            webhook = _known(webhook, id)
            webhook.generation += 1
            return webhook

        await self.get(id)
        webhook = await self._webhooks.change(id, enabled)
        self._wake.set()
        return _known(webhook, id)

    async def delete(self, id: str) -> None:
        """Delete a webhook, and the events that wait; raises WebhookNotFound, StorageError."""
        await self.get(id)
        await self._webhooks.delete(id)
        self._wake.set()

    async def delete_damaged(self, id: str) -> bool:
        """Delete a webhook that cannot be read; return whether it existed."""
        return await self._webhooks.delete_damaged(id)

    async def test(self, webhook: Webhook) -> Delivery:
        """Send a test event at once, and return the result."""
        message = message_of("test", {"webhook": webhook.id}, secrets.token_hex(16))
        return (await self.sender.send(webhook, message, 1)).delivery

    @property
    def waiting(self) -> int:
        """Number of queued events of all webhooks; 0 on a server that does not deliver."""
        return sum(len(running.state.queue) for running in self._running.values())

    @property
    def disabled(self) -> int:
        """Number of disabled webhooks; 0 on a server that does not deliver."""
        return sum(running.state.reason(running.webhook) is not None for running in self._running.values())

    # -- delivery ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start delivery, which is active while this server leads and `webhook_urls` is set; the registry must be
        started.
        """
        if not self.sender.urls:
            return
        self._task = asyncio.create_task(self._run(), name="webhooks")

    async def stop(self) -> None:
        """Stop deliveries, and store their results."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for running in list(self._running.values()):
            await running.stop()
            try:
                await self._save(running)
            except StorageError as error:
                log.warning("webhook_state_not_stored", webhook=running.webhook.id, error=str(error))
            except Exception:  # the states of other webhooks must still be stored
                log.exception("webhook_state_not_stored", webhook=running.webhook.id)
        self._forget()

    async def _run(self) -> None:
        while True:
            try:
                await self._poll()
            except StorageError as error:
                log.warning("webhooks_waiting", error=str(error))
            except Exception:  # otherwise this process would stop delivering
                log.exception("webhooks_failed")
                self._forget()
            none = self._registry.membership.leads and not self._running
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS if none else POLL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def _poll(self) -> None:
        if not self._registry.membership.leads:
            self._forget()
            return
        await self._follow_definitions()
        if not self._running:
            self._sources.close()
            return
        subscribers = [(running.webhook, running.state) for running in self._running.values()]
        await self._sources.poll(subscribers)
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            await self._sources.look(subscribers)
            self._looked_at = time.monotonic()
        for running in list(self._running.values()):
            if running.due:
                await self._save(running)
            if running.state.queue and running.state.reason(running.webhook) is None and running.is_idle:
                running.task = asyncio.create_task(self._deliver(running), name=f"webhook {running.webhook.id}")

    async def _follow_definitions(self) -> None:
        async with self._webhooks.changes(whole=True) as (found, ids):
            assert ids is not None, "a whole poll has all names"
            for id, webhook in found.items():
                if isinstance(webhook, UNREADABLE):
                    action = "upgrade this server" if isinstance(webhook, DocumentNewer) else "create it again"
                    log.error("webhook_unreadable", webhook=id, error=str(webhook), action=action)
                    if (stopped := self._running.pop(id, None)) is not None:
                        await stopped.stop()
                elif id in self._running:
                    self._running[id].webhook = webhook
                elif (resumed := await self._resumed(webhook)) is not None:
                    self._running[id] = resumed
            if (deleted := self._running.keys() - ids) or not self._swept:
                for id in deleted:
                    await self._running.pop(id).stop()
                await self._sweep(ids)
                self._swept = True

    async def _resumed(self, webhook: Webhook) -> _Running | None:
        """Return a webhook to deliver; None if its state cannot be read."""
        try:
            state = await self._states.get(webhook.id)
        except UNREADABLE as error:
            action = "its events are not delivered; upgrade this server, or delete the webhook and create it again"
            log.error("webhook_state_unreadable", webhook=webhook.id, error=str(error), action=action)
            return None
        running = _Running(webhook, state or DeliveryState.new(webhook, webhook.revision))
        if state is None:
            await self._save(running)
        return running

    async def _sweep(self, ids: set[str]) -> None:
        """Delete the states of webhooks that have been deleted."""
        for id, state in (await self._states.all()).items():
            if id not in ids and not isinstance(state, DocumentNewer):
                await self._states.delete(id)

    async def _save(self, running: _Running) -> None:
        changes = running.state.changes
        try:
            await self._states.put(running.webhook.id, running.state)
        except RevisionConflict:  # another server leads, or the webhook has been deleted
            await running.stop()
            self._running.pop(running.webhook.id, None)
            self._webhooks.restart()
            return
        running.saved_changes, running.saved_at = changes, time.monotonic()

    def _forget(self) -> None:
        for running in self._running.values():
            if running.task is not None:
                running.task.cancel()
        self._running.clear()
        self._sources.close()
        self._webhooks.restart()
        self._looked_at, self._swept = -LOOK_SECONDS, False

    async def _deliver(self, running: _Running) -> None:
        """Send the queued events in order until the queue is empty or the webhook is disabled."""
        async with AsyncExitStack() as stack:
            client: httpx2.AsyncClient | None = None
            while (state := running.state).queue and state.reason(running.webhook) is None:
                message, attempt = state.queue[0], state.failures + 1
                try:
                    client = client or await stack.enter_async_context(self.sender.connected())
                    sent = await self.sender.send(running.webhook, message, attempt, client)
                except Exception:
                    log.exception("webhook_delivery_failed", webhook=running.webhook.id, event_id=message.id)
                    sent = Sent(failed_delivery(message, attempt), 0.0)
                error = sent.delivery.error
                state.note(sent.delivery)
                self._count("delivered" if error is None else "failed")
                if error is None:
                    continue
                failing_seconds = (now_ms() - (state.failing_since_unix_ms or 0)) / 1000
                if error in FINAL or failing_seconds >= GIVE_UP_SECONDS:
                    state.disable(Disabled(generation=running.webhook.generation, reason=error, unix_ms=now_ms()))
                    action = "fix the receiver, then enable the webhook"
                    log.error("webhook_disabled", webhook=running.webhook.id, reason=error, action=action)
                    return
                await asyncio.sleep(max(sent.retry_after, backoff(state.failures)))


def backoff(failures: int) -> float:
    """Return the seconds before the next attempt, after a number of failed attempts: exponential backoff with
    jitter."""
    least, most = BACKOFF_SECONDS
    return min(most, least * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1.0)


class _Running:
    """Webhook whose events this server delivers."""

    def __init__(self, webhook: Webhook, state: DeliveryState) -> None:
        self.webhook, self.state = webhook, state
        self.saved_changes, self.saved_at = state.changes, time.monotonic()
        self.task: asyncio.Task[None] | None = None

    @property
    def due(self) -> bool:
        """True if the state must be written."""
        return self.state.changes != self.saved_changes or time.monotonic() - self.saved_at >= CURSOR_SECONDS

    @property
    def is_idle(self) -> bool:
        """True if nothing is being sent."""
        return self.task is None or self.task.done()

    async def stop(self) -> None:
        """Stop sending."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


def _known(webhook: Webhook | None, id: str) -> Webhook:
    if webhook is None:
        raise WebhookNotFound(id)
    return webhook
