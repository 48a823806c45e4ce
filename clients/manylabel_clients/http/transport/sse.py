"""Server-sent events without I/O: parsing, and when to reconnect."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import httpx2

from manylabel_clients.http.transport.exchange import Reply, Request, failure, is_transient
from manylabel_clients.http.transport.retry import Retry

E = TypeVar("E")

SILENCE_SECONDS = 45.0
"""Timeout in seconds after which a silent connection counts as lost; the server sends something every 15 s."""


class EventStream(Generic[E]):
    """Events of a model or a job after the event `after`, over any number of connections.

    `make` builds an event from its kind, id and data; `is_last` returns whether an event is the last one.
    """

    def __init__(
        self,
        path: str,
        after: str | None,
        retry: Retry,
        make: Callable[[str, str, dict[str, Any]], E],
        is_last: Callable[[E], bool] | None = None,
    ) -> None:
        self._path = path
        self._make = make
        self._is_last = is_last
        self._after = after
        self._retry = retry
        self._failures = 0
        self._failing_since = 0.0
        self._fields: dict[str, str] = {}
        self.has_ended = False

    @property
    def request(self) -> Request:
        """Request that opens the next connection."""
        headers = {"Accept": "text/event-stream"}
        if self._after is not None:
            headers["Last-Event-ID"] = self._after
        return Request("GET", self._path, None, headers, SILENCE_SECONDS)

    def feed(self, line: str) -> E | None:
        """Feed a line; return the event that it completes, if any."""
        if line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data" and field in self._fields:
                value = f"{self._fields[field]}\n{value}"
            self._fields[field] = value
            return None
        fields, self._fields = self._fields, {}
        return self._event(fields)

    def _event(self, fields: Mapping[str, str]) -> E | None:
        self._after = fields.get("id", self._after)
        if "data" not in fields:
            return None
        self._failures = 0
        event = self._make(fields.get("event", "message"), self._after or "", json.loads(fields["data"]))
        self.has_ended = self._is_last is not None and self._is_last(event)
        return event

    def pause_seconds(self, reply: Reply) -> float:
        """Return the seconds to wait before reconnecting after an error, a rejection, or None (the response ended).

        Raises ManyLabelError if reconnecting is useless, or if all retries passed without an event.
        """
        self._fields = {}
        now = self._retry.clock()
        if self._failures == 0:
            self._failing_since = now
        self._failures += 1
        if reply is None:
            return self._retry.wait_seconds(1) or self._retry.base_seconds
        error = failure(reply, self.request)
        asked = getattr(error, "retry_after_seconds", None)
        spent_seconds = now - self._failing_since
        wait_seconds = self._retry.wait_seconds(self._failures, asked, spent_seconds) if is_transient(error) else None
        if wait_seconds is None:
            raise error from (reply if isinstance(reply, httpx2.RequestError) else None)
        self._retry.report(error, wait_seconds)
        return wait_seconds
