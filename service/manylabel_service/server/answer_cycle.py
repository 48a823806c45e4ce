"""Response cycle that writes headers and body in one call if the application sends them together.

uvicorn's cycle checks every header for invalid characters, and writes headers and body separately. Most headers are
identical in every response and are checked only once here.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

from manylabel_service.api.web.middleware import HEADERS
from manylabel_service.server.tls import HSTS

_ALIKE = (*HEADERS, (b"content-type", b"application/json"), tuple(part.encode() for part in HSTS))
_CONSTANT = {header: b"%b: %b\r\n" % header for header in _ALIKE}
"""Constant header lines, which need no check."""
_SANE = frozenset({b"date", b"x-request-id"})
"""Names of headers whose values were created or checked here."""
_FOR_UVICORN = frozenset({b"connection", b"transfer-encoding"})
"""Headers about the length of the response and the connection."""


LARGE_BYTES = 2**18
"""Bytes above which a body is written separately from the headers."""


class ResponseCycle(RequestResponseCycle):
    """Request cycle that writes headers and body together if the length of the body is known.

    uvicorn's cycle handles streamed responses, and those to HEAD.
    """

    _head = b""
    """Headers to write before the body."""

    async def send(self, message: Any) -> None:
        """Process the next message of the application."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.response_started:
            head, self._head = self._head, b""
            if head and not self.disconnected:
                body = message.get("body", b"")
                if not message.get("more_body") and len(body) == self.expected_content_length:
                    if len(body) > LARGE_BYTES:  # a copy would double the memory
                        self.transport.write(head)
                        head = b""
                    self._end(head + body if head else body)
                    return
                self.transport.write(head)
        elif not self.disconnected and self.scope["method"] != "HEAD" and (head := self._rendered(message)):
            self.response_started, self._head = True, head
            self.waiting_for_100_continue = self.chunked_encoding = False
            return
        await super().send(message)

    def _rendered(self, message: Any) -> bytes:
        """Return the headers of a response; empty if uvicorn must write them."""
        length, lines = b"", [STATUS_LINE[message["status"]]]
        for header in (*self.default_headers, *message["headers"]):
            line = _CONSTANT.get(header)
            if line is None:
                name, value = header
                if name == b"content-length":
                    length = value
                elif name not in _SANE and (
                    name in _FOR_UVICORN or HEADER_RE.search(name) or HEADER_VALUE_RE.search(value)
                ):
                    return b""
                line = b"%b: %b\r\n" % header
            lines.append(line)
        if not length:
            return b""
        self.expected_content_length = int(length)
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(lines)

    def _end(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
