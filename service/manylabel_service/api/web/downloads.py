"""Bytes for a client that takes them at its own pace."""

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_service.api.web.streaming import Writer

PORTION_BYTES = 2**18


class Download(Response):
    """Bytes in portions, so that no more than one waits for a slow client."""

    def __init__(self, data: bytes, idle_seconds: float) -> None:
        self._data = memoryview(data)
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = Writer(scope, send, self._idle_seconds)
        await writer.start(b"application/octet-stream", [(b"content-length", b"%d" % len(self._data))])
        for begin in range(0, len(self._data), PORTION_BYTES):
            await writer.write(bytes(self._data[begin : begin + PORTION_BYTES]))
        await writer.end()
