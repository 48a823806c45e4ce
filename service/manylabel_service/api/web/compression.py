"""Compressed bodies: requests are decompressed as they arrive, within bounds, and responses compressed on request.

Starlette's GZipMiddleware takes 9 us for each response that stays uncompressed, instead of 0.7 us, and has neither zstd
nor decompression of requests.
"""

from collections.abc import Awaitable, Iterable, Iterator

from starlette.types import Message, Receive, Scope, Send

from manylabel_service.api.web.bodies import BodyBuffer
from manylabel_service.api.web.codings import CODINGS, PORTION_BYTES, Coding, Compressor, Unpacker, accepted
from manylabel_service.api.web.problems import Problem
from manylabel_service.slices import Pace, in_slices

MIN_BYTES = 2**12
"""Minimum bytes of a compressed response; smaller ones are sent faster uncompressed."""

PACKED_TYPES = frozenset(
    {
        *(b"application/json", b"application/problem+json", b"application/x-ndjson"),
        *(b"text/plain", b"text/html", b"text/css", b"text/javascript"),
    }
)
"""Compressed media types. Events are not among them, because each is short and must arrive immediately."""


class CompressedResponse:
    """Response that is compressed if it is large enough and of a compressible type.

    A streamed response is flushed after each chunk.
    """

    __slots__ = ("_coding", "_packer", "_send", "_start", "_wanted")

    def __init__(self, wanted: bytes, send: Send) -> None:
        self._wanted = wanted
        self._send = send
        self._coding: Coding | None = None
        self._packer: Compressor | None = None
        self._start: Message | None = None
        """The beginning of a response whose length was known before compression."""

    def send(self, message: Message) -> Awaitable[None]:
        """Send the next message."""
        # No separate coroutine: most responses are sent uncompressed and must not take longer.
        if message["type"] == "http.response.start" and (length := _worthwhile(message["headers"])) != 0:
            self._coding = accepted(self._wanted)
            if self._coding is not None:
                return self._begin(message, self._coding, length)
        elif self._coding is not None:
            return self._send_packed(message, self._coding)
        return self._send(message)

    async def _begin(self, message: Message, coding: Coding, length: int | None) -> None:
        kept = [each for each in message["headers"] if each[0] != b"content-length"]
        message["headers"] = [*kept, (b"content-encoding", coding.name), (b"vary", b"accept-encoding")]
        if length is None:
            await self._send(message)
        else:
            self._start = message

    async def _send_packed(self, message: Message, coding: Coding) -> None:
        body, more = message.get("body", b""), message.get("more_body", False)
        packer = self._packer = self._packer or coding.packer()
        begins = in_slices(range(0, max(len(body), 1), PORTION_BYTES))
        packed = [packer.pack(body[begin : begin + PORTION_BYTES]) async for begin in begins]
        packed.append(packer.flush() if more else packer.end())
        content = b"".join(packed)
        if (start := self._start) is not None:
            self._start = None
            if not more:
                start["headers"].append((b"content-length", b"%d" % len(content)))
            await self._send(start)
        await self._send({**message, "body": content})


def _worthwhile(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the length of a response to compress; None if unknown, 0 if it is not compressed."""
    length, kind = None, b""
    for name, value in headers:
        if name == b"content-length":
            length = int(value)
            if length < MIN_BYTES:
                return 0
        elif name == b"content-type":
            kind = value
        elif name == b"content-encoding":
            return 0
    return length if kind.partition(b";")[0] in PACKED_TYPES else 0


MAX_RATIO = 250
"""Maximum ratio of a body to its compressed bytes above `FREE_BYTES`; examples as JSON reach 50."""
FREE_BYTES = 2**22


class DecompressedBody:
    """Decompressed body of a request, read on demand; `held` counts the memory of its decoder."""

    def __init__(self, coding: Coding, receive: Receive, held: BodyBuffer) -> None:
        self._receive = receive
        self._held = held
        self._window_bytes = coding.window_bytes
        self._unpacker = Unpacker(coding)
        self._portions: Iterator[bytes] = iter(())
        self._n_packed = self._n_bytes = self._n_counted = 0
        self._is_last = False
        self._pace = Pace()

    async def receive(self) -> Message:
        """Return the next chunk, or the disconnect of the client; raise a Problem for an exceeded limit."""
        while True:
            await self._pace.rest()
            portion = next(self._portions, None)
            if portion:
                self._count(len(portion))
                return {"type": "http.request", "body": portion, "more_body": True}
            if portion is None and self._is_last:
                if not self._unpacker.complete:
                    raise self._unpacker.damaged("it ends too early")
                return {"type": "http.request", "body": b"", "more_body": False}
            if portion is None:
                message = await self._receive()
                if message["type"] != "http.request":
                    return message
                packed = message.get("body", b"")
                self._n_packed += len(packed)
                self._is_last = not message.get("more_body", False)
                self._portions = self._unpacker.unpack(packed)

    def _count(self, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        if self._n_bytes > FREE_BYTES + MAX_RATIO * self._n_packed:
            detail = f"the body is more than {MAX_RATIO} times as long as its compressed bytes, the limit"
            raise Problem("body_too_large", detail)
        window = min(self._n_bytes, self._window_bytes) - self._n_counted
        if window:
            self._held.add(window, self._n_bytes)
            self._n_counted += window

    def release(self) -> None:
        """Stop counting the memory of the decoder."""
        self._held.n_bytes -= self._n_counted


def decompressed_body(scope: Scope, receive: Receive, held: BodyBuffer) -> DecompressedBody | None:
    """Return the decompressed body of a request with a Content-Encoding, and remove the coding from its headers.

    None for an unknown coding, or for several, which the endpoint rejects.
    """
    names = [value for name, value in scope["headers"] if name == b"content-encoding"]
    coding = CODINGS.get(names[0].strip().lower())
    if coding is None or len(names) > 1:
        return None
    scope["headers"] = _without_coding(scope["headers"])
    return DecompressedBody(coding, receive, held)


def _without_coding(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request whose body is decompressed, without its length."""
    known = dict(headers)
    has_body = known.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in known
    kept = [each for each in headers if each[0] not in _OF_PACKED]
    return [*kept, (b"transfer-encoding", b"chunked")] if has_body else kept


_OF_PACKED = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
"""Names of headers about the compressed body."""
