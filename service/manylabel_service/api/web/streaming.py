"""Answers that are written bit by bit, for as long as their client reads them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_service.api.web.routes import RawHeaders

PORTION_BYTES = 2**18
"""Written at a time of a download."""

log = structlog.get_logger()


class Writer:
    """A writer sends one answer, portion by portion.

    Parameters
    ----------
    scope, send : of the request.
    seconds : a client that takes nothing for so long is cut off.
    """

    def __init__(self, scope: Scope, send: Send, seconds: float) -> None:
        self._scope = scope
        self._send = send
        self._seconds = seconds

    async def start(self, media_type: bytes, headers: RawHeaders = ()) -> None:
        """Send status 200 and the headers."""
        # Proxies that gather answers before they pass them on are asked not to.
        raw = [(b"content-type", media_type), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": [*raw, *headers]})

    async def write(self, portion: bytes) -> None:
        """Send the next portion; wait until the client has taken most of those before.

        Raises
        ------
        ClientDisconnect
            It takes nothing.
        """
        await self._put({"type": "http.response.body", "body": portion, "more_body": True})

    async def end(self) -> None:
        """End the body."""
        await self._put({"type": "http.response.body", "body": b"", "more_body": False})

    async def _put(self, message: dict[str, object]) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            request_id, path = self._scope.get("request_id"), self._scope["path"]
            log.warning(
                "slow_client_disconnected",
                request_id=request_id,
                path=path,
                reason=f"it read nothing for {self._seconds:g} s",
            )
            raise ClientDisconnect from None


class Download(Response):
    """A download sends bytes in portions, so that no more than one waits for a slow client."""

    background = None

    def __init__(self, data: bytes, idle_seconds: float) -> None:
        self._data = memoryview(data)
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = Writer(scope, send, self._idle_seconds)
        await writer.start(b"application/octet-stream", [(b"content-length", b"%d" % len(self._data))])
        for begin in range(0, len(self._data), PORTION_BYTES):
            await writer.write(bytes(self._data[begin : begin + PORTION_BYTES]))
        await writer.end()


@asynccontextmanager
async def beside(*jobs: Callable[[], Awaitable[object]]) -> AsyncIterator[list["asyncio.Task[object]"]]:
    """Run jobs beside what is inside, and cancel them at its end."""
    tasks = [asyncio.create_task(_run(job)) for job in jobs]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _run(job: Callable[[], Awaitable[object]]) -> object:
    return await job()
