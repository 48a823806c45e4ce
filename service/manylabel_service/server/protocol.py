"""HTTP on one connection, and limits on resources before the application sees a request.

uvicorn's protocol parses requests and sends responses. It accepts headers, trailers and pipelined requests of any size,
and waits for headers or a body without a timeout. This protocol limits the bytes and the time of headers, the time of a
body, the number of pipelined requests, and the time for which a response may stay unread. A client that exceeds a limit
gets a problem document, and the connection is closed.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from manylabel_service.api.web.middleware import HEADERS
from manylabel_service.api.web.problems import Problem, problem_response
from manylabel_service.server.answer_cycle import ResponseCycle
from manylabel_service.server.connections import ConnectionLimits

MAX_HEAD_BYTES = 2**16
"""Maximum bytes of a request line with headers, and between two chunks of a body."""
MAX_PIPELINED = 16
"""Maximum number of pipelined requests; a connection with more is closed after these."""
LINGER_SECONDS = 2.0
LINGER_BYTES = 2**20
"""Maximum seconds, and maximum bytes, for which a rejected client may still send; if the connection were closed at
once, the response would be lost."""
BODY_BYTES_PER_SECOND = 2**15
"""Bytes of a body that extend its timeout by a second."""

_BETWEEN, _HEAD, _BODY, _REFUSED = range(4)
"""States of a connection: before the first byte of a request, in its headers, in its body, or rejected."""


def protocol_for(limits: ConnectionLimits) -> Callable[..., "BoundedProtocol"]:
    """Return the protocol factory of a server for uvicorn's configuration."""

    def make(**parameters: Any) -> BoundedProtocol:
        return BoundedProtocol(limits, **parameters)

    return make


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 protocol of one connection, with limits.

    Parameters
    ----------
    limits : limits shared by all connections of the process.
    **parameters : parameters of uvicorn's protocol.
    """

    def __init__(self, limits: ConnectionLimits, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._limits = limits
        self._phase = _BETWEEN
        self._room = MAX_HEAD_BYTES
        """Bytes that may arrive before the headers end or a body continues; 0 for a rejected connection."""
        self._received = 0
        """Bytes received since the headers."""
        self._went_on = False
        """Whether the bytes being parsed contain part of the body."""
        self._refusal: Problem | None = None
        """Reason why parsing was aborted."""
        self._number = 0
        """Number of requests begun."""
        self._answering: RequestResponseCycle | None = None
        """Request that the application is handling; if requests are pipelined, `cycle` is the latest."""
        self._seen: tuple[int, int, bool] | None = None
        self._seen_at = self._unsent_since = limits.now
        self._unsent = 0

    # -- connections ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless the limit is reached."""
        super().connection_made(transport)
        if not self._limits.admits(len(self.connections)):
            if self._limits.may_linger(len(self.connections)):
                detail = f"the server has {self._limits.max_connections:,} connections, the limit; retry soon"
                self._refuse("connections", Problem("server_busy", detail, headers={"Retry-After": "1"}))
            else:
                transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the application of a disconnect, including for an earlier pipelined request."""
        super().connection_lost(exc)
        self.pipeline.clear()
        if (cycle := self._answering) is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def yield_slot(self) -> bool:
        """Close an idle connection to free capacity; return whether it did."""
        waits = self._phase in (_BETWEEN, _HEAD) and self._answered
        if not waits or self.transport.is_closing() or self._seen != self._situation():
            return False
        self.transport.close()
        return True

    # -- received data ----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Receive bytes in chunks within the free capacity."""
        self._unset_keepalive_if_required()
        if len(data) < self._room:
            self._feed(data)
            return
        begin = 0
        while begin < len(data) and not self.transport.is_closing():
            if self._phase == _REFUSED:
                self._discard(len(data) - begin)
                return
            if not self._room:
                detail = f"the request line and headers may have at most {MAX_HEAD_BYTES:,} bytes"
                self._refuse("headers", Problem("headers_too_large", detail))
                continue
            portion = data[begin : begin + self._room]
            begin += len(portion)
            self._feed(portion)

    def _feed(self, data: bytes) -> None:
        earlier, cycle = self._phase, self.cycle
        self._received += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # an upgrade to an unsupported protocol: handle the request like any other
        except httptools.HttpParserError:
            self._refuse("malformed", self._refusal or Problem("malformed_request", "this is not HTTP/1.1"))
        else:
            if self._phase != _BETWEEN:
                self._count(len(data), earlier, cycle)

    def _count(self, n_bytes: int, earlier: int, cycle: object) -> None:
        """Count bytes, unless they belong to an earlier request or contained part of the body."""
        if self._phase == _HEAD:
            if earlier != _BODY and self.cycle is cycle:
                self._room = max(0, self._room - n_bytes)
        elif self._went_on:
            self._went_on, self._room = False, MAX_HEAD_BYTES
        elif earlier == _BODY:
            self._room = max(0, self._room - n_bytes)

    def _discard(self, n_bytes: int) -> None:
        self._received += n_bytes
        if self._received > LINGER_BYTES:
            self.transport.abort()

    # -- callbacks of the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._phase, self._room = _HEAD, MAX_HEAD_BYTES
        self._number += 1
        HttpToolsProtocol.on_message_begin(self)

    def on_headers_complete(self) -> None:
        """Start the response, unless the headers exceed a limit."""
        if len(self.pipeline) >= MAX_PIPELINED:
            detail = f"at most {MAX_PIPELINED} requests may wait for an earlier response"
            self._refusal = Problem("malformed_request", detail)
            raise self._refusal
        self._phase, self._room, self._received = _BODY, MAX_HEAD_BYTES, 0
        self._set_address()
        before, self.cycle = self.cycle, self._new_cycle()
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _set_address(self) -> None:
        """Fill the scope from the request."""
        url, scope = httptools.parse_url(self.url), self.scope
        path = url.path.decode("ascii")
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"], scope["query_string"] = url.path, url.query or b""

    def _new_cycle(self) -> ResponseCycle:
        version = self.parser.get_http_version()
        if version != "1.1":
            self.scope["http_version"] = version
        return ResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        """Pass on a chunk of the body."""
        self._went_on = True
        HttpToolsProtocol.on_body(self, body)

    def on_message_complete(self) -> None:
        """End the request."""
        self._phase, self._went_on = _BETWEEN, False
        HttpToolsProtocol.on_message_complete(self)

    # -- time ---------------------------------------------------------------------------------------

    def poll(self, now: float) -> int:
        """Enforce the timeouts; return the bytes of responses that the client has not read.

        Parameters
        ----------
        now : time by the clock of `ConnectionLimits`; the time of a state counts from the first call that finds it.
        """
        situation = self._situation()
        if situation != self._seen:
            self._seen, self._seen_at = situation, now
        else:
            self._end_overdue(now - self._seen_at)
        return self._unsent_bytes(now)

    def _situation(self) -> tuple[int, int, bool]:
        return self._number, self._phase, self._answered

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _end_overdue(self, seconds: float) -> None:
        limits, cycle = self._limits, self.cycle
        if self._phase == _BODY and not self._answered:
            allowed = limits.body_timeout_seconds + self._received / BODY_BYTES_PER_SECOND
            if seconds > allowed and not cycle.response_started and not self.flow.read_paused:
                self._refuse("body", Problem("request_timeout", f"the body was not complete after {allowed:.0f} s"))
        elif not self._answered:
            pass  # the application has the whole request, and limits its own time
        elif self._phase == _REFUSED:
            if seconds > LINGER_SECONDS:
                self.transport.abort()
        elif self._phase == _HEAD and seconds > limits.header_timeout_seconds:
            detail = f"the headers were not complete after {limits.header_timeout_seconds:g} s"
            self._refuse("headers", Problem("request_timeout", detail))
        elif seconds > limits.header_timeout_seconds and (self._phase == _BODY or cycle is None):
            # Either no endpoint reads the body any more, or no byte has arrived since the connection was made. uvicorn
            # itself closes connections that wait for their next request.
            limits.refused("body" if self._phase == _BODY else "idle")
            self.transport.abort()

    def _unsent_bytes(self, now: float) -> int:
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent or not self._unsent:
            self._unsent_since = now
        elif now - self._unsent_since > self._limits.unread_seconds:
            self.cut_off()
        self._unsent = unsent
        return unsent

    def cut_off(self) -> None:
        """End a connection whose client does not read its responses."""
        self._limits.refused("unread")
        self.transport.abort()

    # -- refusals -----------------------------------------------------------------------------------

    def _refuse(self, reason: str, problem: Problem) -> None:
        """Stop reading requests, send the problem unless a response is running, and end the connection."""
        if self.transport.is_closing():
            return
        self._limits.refused(reason)
        waits_for_body = self._phase == _BODY
        self._phase, self._room, self._received = _REFUSED, 0, 0
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not waits_for_body or cycle.response_started or self.pipeline:
                cycle.keep_alive = False  # the pending response is sent first, and is the last one
                if waits_for_body:
                    self.transport.abort()  # the request itself cannot be parsed
                return
            cycle.disconnected, cycle.response_complete = True, True
            cycle.message_event.set()
        self.transport.write(self._rendered(problem))
        if self.transport.can_write_eof():  # TLS does not allow this; there, the response states its length
            self.transport.write_eof()

    def _rendered(self, problem: Problem) -> bytes:
        path = "/" if self.scope is None else self.scope.get("path", "/")
        request_id = os.urandom(8).hex()
        answer = problem_response(problem, {"path": path, "request_id": request_id})
        headers = [
            *self.server_state.default_headers,
            *answer.raw_headers,
            *HEADERS,
            (b"x-request-id", request_id.encode()),
            (b"connection", b"close"),
        ]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        return STATUS_LINE[problem.status] + lines + b"\r\n" + bytes(answer.body)
