"""Middleware that decompresses request bodies and compresses response bodies."""

from starlette.types import ASGIApp, Receive, Scope, Send

from manylabel_service.api.web.compression.codings import CODINGS
from manylabel_service.api.web.compression.compressed_response import CompressedResponse
from manylabel_service.api.web.compression.unpacked_body import DecompressedBody
from manylabel_service.api.web.held_bodies import BodyBuffer


class CompressionMiddleware:
    """Middleware that hides compression from endpoints and from the middleware inside it.

    A request whose coding is not known is left to the endpoint, which refuses it.

    Parameters
    ----------
    app : what is surrounded.
    held : where the memory of decoders is counted.
    """

    def __init__(self, app: ASGIApp, held: BodyBuffer) -> None:
        self._app = app
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        if b"accept-encoding" in headers:
            send = CompressedResponse(headers[b"accept-encoding"], send).send
        if b"content-encoding" not in headers:
            await self._app(scope, receive, send)
        else:
            await self._unpacked(scope, receive, send, headers[b"content-encoding"])

    async def _unpacked(self, scope: Scope, receive: Receive, send: Send, name: bytes) -> None:
        coding = CODINGS.get(name.strip().lower())
        if coding is None or sum(each == b"content-encoding" for each, _ in scope["headers"]) > 1:
            await self._app(scope, receive, send)
            return
        scope["headers"] = _without_coding(scope["headers"])
        body = DecompressedBody(coding, receive, self._held)
        try:
            await self._app(scope, body.receive, send)
        finally:
            body.release()


def _without_coding(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request whose body is unpacked: how long it is will be known at its end."""
    known = dict(headers)
    has_body = known.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in known
    kept = [each for each in headers if each[0] not in _OF_PACKED]
    return [*kept, (b"transfer-encoding", b"chunked")] if has_body else kept


_OF_PACKED = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
"""Names of headers about the packed body."""
