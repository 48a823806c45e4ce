"""The answer to a request, packed on its way."""

import asyncio
import time
from collections.abc import Awaitable, Iterable

from starlette.types import Message, Send

from manylabel_service.api.web.compression.codings import PORTION_BYTES, Coding, Compressor, accepted

MIN_BYTES = 2**12
"""An answer of fewer is not packed: sending it takes less time than packing it."""

PACKED_TYPES = frozenset(
    {
        *(b"application/json", b"application/problem+json", b"application/x-ndjson"),
        *(b"text/plain", b"text/html", b"text/css", b"text/javascript"),
    }
)
"""Media types that are worth it. Events are not among them: each is short, and has to be read when it happens."""

SLICE_SECONDS = 0.001
"""Seconds of compression after which other requests get their turn."""


class CompressedResponse:
    """One answer is packed if it is large enough, and of a type that is worth it.

    An answer that comes bit by bit is packed so that each bit can be read when it has come.

    Parameters
    ----------
    wanted : the header Accept-Encoding of the request.
    send : takes its messages.
    """

    __slots__ = ("_coding", "_packer", "_send", "_start", "_wanted")

    def __init__(self, wanted: bytes, send: Send) -> None:
        self._wanted = wanted
        self._send = send
        self._coding: Coding | None = None
        self._packer: Compressor | None = None
        self._start: Message | None = None
        """The beginning of an answer whose length was known before it was packed."""

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
        packed = [packer.pack(body[:PORTION_BYTES])]
        slice_ends = time.perf_counter() + SLICE_SECONDS
        for begin in range(PORTION_BYTES, len(body), PORTION_BYTES):
            if time.perf_counter() > slice_ends:
                await asyncio.sleep(0)
                slice_ends = time.perf_counter() + SLICE_SECONDS
            packed.append(packer.pack(body[begin : begin + PORTION_BYTES]))
        packed.append(packer.flush() if more else packer.end())
        content = b"".join(packed)
        if (start := self._start) is not None:
            self._start = None
            if not more:
                start["headers"].append((b"content-length", b"%d" % len(content)))
            await self._send(start)
        await self._send({**message, "body": content})


def _worthwhile(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the length of an answer that is worth packing, None if that is not known yet; 0 if it is not worth it."""
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
