"""Events of a model for subscribers: a ring buffer and any number of cursors.

Every subscriber reads from the same ring of recent events. A slow subscriber whose cursor has left the ring gets the
number of missed events; it causes no backpressure. Positions are those of the log, so a subscriber can resume on
another replica.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, get_args

from manylabel_service.environment import time
from manylabel_service.errors import TooManyWatchers
from manylabel_service.storage import position_key

RECENT_EVENTS = 2_000
"""Number of events stored per model: it limits how far back a client can resume, and how slow it can be."""
MAX_SUBSCRIBERS = 100
"""Maximum number of subscribers of one model in one process."""
WOKEN_AT_ONCE = 5
"""Number of subscribers woken in one iteration of the event loop, so that a hundred of them do not delay other
requests.
"""
METRICS_SECONDS = 1.0
"""Minimum seconds between two events with metrics."""
RETRY_SECONDS = 5.0
UNREAD_SECONDS = 300.0
"""Seconds without a subscriber after which events are no longer recorded."""

Kind = Literal["update", "drift", "label", "parity", "rollback", "promoted", "not_promoted", "metrics", "dropped"]


@dataclass(frozen=True, slots=True)
class Event:
    """Event at a position; `resume` is the position to resume from if more events of the same position follow.

    update    {"position", "updates", "examples"}
    drift     {"position", "updates", "label"}: before the update that it is part of; null for all labels together
    label     {"position", "updates", "label", "change"}: new, before the update that it is part of, with a label that
              it is "alike"; or described; or renamed, merged, retired, paused, resumed or restored, with its name
              "before"
    parity    {"position", "updates", "state"}: the gate of a promise of parity is "open" or "closed" from here on
    rollback  {"position", "to", "updates"}
    promoted  {"position", "version", "previous"}: the version of a trained model that is served from here on
    not_promoted {"position", "version", "reason"}: a new version of a trained model that is not served
    metrics   {"position", "updates", "cumulative", "window", "drift"}: the latest ones only
    dropped   {"count"}: events missed; null if their number is unknown
    """

    kind: Kind
    position: str
    data: dict[str, Any]
    resume: str | None = None


class Watched(Protocol):
    """Part of the state of a model that events report."""

    @property
    def position(self) -> str:
        """Position of the last applied entry."""

    def measures(self) -> dict[str, Any] | None:
        """Return the fields of a `metrics` event besides the position; None without metrics."""


class Events:
    """Events of one model in this process, recorded from the first subscription until `UNREAD_SECONDS` after the last
    one.

    Attributes
    ----------
    tap : callback with each recorded event, for a reader that must not miss any; None without such a reader.
    """

    def __init__(self, name: str, model: Callable[[], Watched]) -> None:
        self._name = name
        self._model = model
        self._ring: deque[Event] = deque()
        self._first = 0
        self._complete_from: str | None = None
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._measured: Event | None = None
        self._unread_since: float | None = None
        self.tap: Callable[[Event], None] | None = None
        self.closed = False

    def __bool__(self) -> bool:
        """Return whether events are to be recorded."""
        return self._complete_from is not None or self.tap is not None

    @property
    def subscribers(self) -> int:
        return len(self._subscriptions)

    def subscribe(self, after: str | None = None, kinds: Collection[Kind] = ()) -> "Subscription":
        """Subscribe to events from now on, or after the last position that the subscriber has received.

        Raises TooManyWatchers or ValueError. `kinds` restricts the kinds of events; `dropped` is always sent.
        """
        seen = None if after is None else position_key(after)
        if self.subscribers >= MAX_SUBSCRIBERS:
            raise TooManyWatchers(self._name, MAX_SUBSCRIBERS, RETRY_SECONDS)
        self._unread_since = None
        if self._complete_from is None:
            self._complete_from = self.position
        if seen is None:
            subscription = Subscription(self, self._first + len(self._ring), kinds=kinds)
        elif seen < position_key(self._complete_from):
            subscription = Subscription(self, self._first, missed=True, kinds=kinds)
        else:
            subscription = Subscription(self, self._first, seen, kinds=kinds)
        self._subscriptions.add(subscription)
        return subscription

    def record(self, event: Event) -> None:
        """Add an event; `notify` wakes the subscribers."""
        if self.tap is not None:
            self.tap(event)
        if self._complete_from is None or self._is_unread():
            return
        self._ring.append(event)
        if len(self._ring) > RECENT_EVENTS:
            self._complete_from = self._ring.popleft().position
            self._first += 1

    def _is_unread(self) -> bool:
        """Return whether there was no subscriber for `UNREAD_SECONDS`, and if so end the recording."""
        if self._subscriptions:
            self._unread_since = None
            return False
        now = time.monotonic()
        self._unread_since = self._unread_since or now
        if now - self._unread_since < UNREAD_SECONDS:
            return False
        self._first += len(self._ring)
        self._ring.clear()
        self._complete_from = self._unread_since = None
        return True

    def notify(self) -> None:
        """Wake the subscribers in groups, between which other requests run."""
        _wake(list(self._subscriptions))

    def gap(self) -> None:
        """Record that the model continues from another state, and that the events in between are unknown."""
        if not self:
            return
        self.record(Event("dropped", self.position, {"count": None}))
        self.notify()

    def close(self) -> None:
        """End all subscriptions after they have read the stored events."""
        self.closed = True
        self.notify()

    # -- for subscriptions ------------------------------------------------------------------------

    def after(self, cursor: int) -> tuple[Event | None, int]:
        """Return the event at a cursor and the next cursor; no event at the end."""
        if cursor < self._first:
            assert self._complete_from is not None
            return Event("dropped", self._complete_from, {"count": self._first - cursor}), self._first
        if cursor - self._first < len(self._ring):
            return self._ring[cursor - self._first], cursor + 1
        return None, cursor

    def dropped(self) -> Event:
        """Return the event for a subscriber that has missed all events before the ring."""
        assert self._complete_from is not None
        return Event("dropped", self._complete_from, {"count": None})

    @property
    def position(self) -> str:
        """The current position of the model."""
        return self._model().position

    def measured(self) -> Event | None:
        """Return the latest metrics, computed once for all subscribers; None without metrics."""
        model = self._model()
        if self._measured is None or self._measured.position != model.position:
            measures = model.measures()
            if measures is None:
                return None
            self._measured = Event("metrics", model.position, {"position": model.position, **measures})
        return self._measured

    def leave(self, subscription: "Subscription") -> None:
        """Forget a subscriber."""
        self._subscriptions.discard(subscription)


class Subscription(AsyncIterator[Event]):
    """An iterator over events; a cancelled `__anext__` loses none. Close it with `aclose`."""

    def __init__(
        self,
        events: Events,
        cursor: int,
        seen: tuple[int, ...] | None = None,
        *,
        missed: bool = False,
        kinds: Collection[Kind] = (),
    ) -> None:
        self._events = events
        self._kinds = frozenset(kinds or get_args(Kind)) | {"dropped"}
        self._timed = False
        self._cursor = cursor
        self._seen = seen
        self._missed = missed
        self._measured: str | None = None
        self._measure_at = 0.0
        self._wake = asyncio.Event()
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._closed:
            self._wake.clear()
            if (event := self._next()) is not None:
                return event
            if self._events.closed:
                break
            await self._woken()
        self._events.leave(self)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop the iterator; a waiting `__anext__` ends."""
        self._closed = True
        self._events.leave(self)
        self._wake.set()

    def wake(self) -> None:
        """Wake a waiting `__anext__` if there is a new event to return or to wait for."""
        if self._events.closed or self._missed or not self._timed or self._look() is not None:
            self._wake.set()

    def _next(self) -> Event | None:
        if self._missed:
            self._missed = False
            return self._events.dropped()
        if (event := self._look()) is not None:
            self._seen = None
            _, self._cursor = self._events.after(self._cursor)
        return event or self._metrics()

    def _look(self) -> Event | None:
        """Return the next matching event in the ring without consuming it; skip the events before it."""
        event, behind = self._events.after(self._cursor)
        while event is not None and not self._wants(event):
            self._cursor = behind
            event, behind = self._events.after(behind)
        return event

    def _wants(self, event: Event) -> bool:
        return event.kind in self._kinds and (self._seen is None or position_key(event.position) > self._seen)

    def _metrics(self) -> Event | None:
        """Return the metrics as an event after all earlier events were read, because a client resumes from their
        position.
        """
        if "metrics" not in self._kinds or self._events.closed:
            return None
        if self._measured == self._events.position or time.monotonic() < self._measure_at:
            return None
        event = self._events.measured()
        self._measured = self._events.position
        if event is None:
            return None
        if self._seen is not None and position_key(event.position) < self._seen:
            return None  # this replica is behind the subscriber's previous replica
        self._measure_at = time.monotonic() + METRICS_SECONDS
        return event

    async def _woken(self) -> None:
        timer = None
        if "metrics" not in self._kinds:
            self._timed = True  # only events can end the wait
        elif self._measured != self._events.position:
            self._timed = True
            seconds = max(self._measure_at - time.monotonic(), 0.001)
            timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            self._timed = False
            if timer is not None:
                timer.cancel()


def _wake(subscriptions: list[Subscription]) -> None:
    for subscription in subscriptions[:WOKEN_AT_ONCE]:
        subscription.wake()
    if rest := subscriptions[WOKEN_AT_ONCE:]:
        asyncio.get_running_loop().call_soon(_wake, rest)
