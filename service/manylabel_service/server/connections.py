"""Connections of a process: their maximum number, and their timeouts."""

import asyncio
import resource
from collections.abc import Callable, Set
from typing import Any, Protocol

import structlog

from manylabel_service.settings import Settings
from manylabel_service.telemetry.metrics import Telemetry

log = structlog.get_logger()

POLL_SECONDS = 0.5
"""Seconds between two checks of every connection."""
RESERVED_DESCRIPTORS = 256
"""Number of descriptors reserved for the store, uploads and other processes."""
MAX_LINGERING = 64
"""Maximum number of connections above the limit that get a response; others are closed without a response."""


class Connection(Protocol):
    """State of a connection on which its limits depend."""

    def poll(self, now: float) -> int:
        """End connections that exceed a timeout; return the unsent response bytes."""

    def yield_slot(self) -> bool:
        """Close the connection if it is idle; return whether it did."""

    def cut_off(self) -> None:
        """Close a connection whose client does not read its responses."""


class ConnectionLimits:
    """Limits over all connections of one process; each connection enforces its own limits.

    Attributes
    ----------
    now : clock in seconds that stops while the process does not read from its connections.
    max_connections, header_timeout_seconds, body_timeout_seconds, unread_seconds : values of the settings.
    """

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        self.max_connections = min(settings.max_connections, _descriptors(settings.max_connections))
        self.header_timeout_seconds = settings.limits.header_timeout_seconds
        self.body_timeout_seconds = settings.limits.body_timeout_seconds
        self.unread_seconds = settings.limits.idle_timeout_seconds
        self.now = 0.0
        self.refused: Callable[[str], None] = telemetry.refused
        self._max_unsent_bytes = settings.limits.max_buffered_bytes
        self._connections: Set[Connection] = frozenset()
        self._unsent_bytes = 0
        self._is_crowded = False
        self._interval = min(
            POLL_SECONDS, self.header_timeout_seconds / 5, self.body_timeout_seconds / 5, self.unread_seconds / 5
        )
        self._timer: asyncio.TimerHandle | None = None
        telemetry.watch_connections(lambda: len(self._connections), lambda: self._unsent_bytes)

    def start(self, connections: Set[Any]) -> None:
        """Start monitoring the connections in uvicorn's set, on the running event loop."""
        self._connections = connections
        self._schedule()

    def stop(self) -> None:
        """Stop monitoring the connections."""
        if self._timer is not None:
            self._timer.cancel()

    def admits(self, n_connections: int) -> bool:
        """Return whether n_connections are allowed; if there are too many, close an idle connection."""
        if n_connections <= self.max_connections:
            return True
        if not self._is_crowded:
            for connection in self._connections:
                if connection.yield_slot():
                    self.refused("idle")
                    return True
            self._is_crowded = True  # retry after the connections have been checked
        return False

    def may_linger(self, n_connections: int) -> bool:
        """Return whether a connection above the limit may get a response."""
        return n_connections <= self.max_connections + MAX_LINGERING

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval, self._poll)

    def _poll(self) -> None:
        self.now += self._interval
        self._is_crowded = False
        unsent = {connection: connection.poll(self.now) for connection in tuple(self._connections)}
        self._unsent_bytes = sum(unsent.values())
        while self._unsent_bytes > self._max_unsent_bytes:
            largest = max(unsent, key=lambda connection: unsent[connection])
            largest.cut_off()
            self._unsent_bytes -= unsent.pop(largest)
        self._schedule()


def _descriptors(wanted: int) -> int:
    """Return how many connections this process can open, after raising its limit as far as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + RESERVED_DESCRIPTORS
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = soft - min(RESERVED_DESCRIPTORS, soft // 2)
    if possible < wanted:
        error = f"the process may open {soft:,} files and sockets, too few for {wanted:,} connections"
        log.warning("few_descriptors", error=error, action=f"the server accepts at most {possible:,} connections")
    return possible
