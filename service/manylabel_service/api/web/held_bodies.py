"""Counts the memory that the request bodies of an application take, all together."""

from collections.abc import Callable

from manylabel_service.api.web.problems import Problem

SMALL_BYTES = 2**16
"""A body of fewer is never refused for the room that others take: the limit of connections bounds those."""


class BodyBuffer:
    """The bodies that have come in part, of all requests of an application.

    Parameters
    ----------
    max_bytes : of all together.
    on_refused : called when one needs more than there is room for.

    Attributes
    ----------
    n_bytes : of all together, now.
    """

    def __init__(self, max_bytes: int, on_refused: Callable[[], None]) -> None:
        self._max_bytes = max_bytes
        self._on_refused = on_refused
        self.n_bytes = 0

    def add(self, n_bytes: int, body_bytes: int) -> None:
        """Count n_bytes received of a body of body_bytes; raises a Problem server_busy if the buffer is full."""
        if self.n_bytes + n_bytes > self._max_bytes and body_bytes >= SMALL_BYTES:
            self._on_refused()
            detail = f"incomplete request bodies fill the buffer of this server ({self._max_bytes:,} bytes); retry soon"
            raise Problem("server_busy", detail, headers={"Retry-After": "1"})
        self.n_bytes += n_bytes
