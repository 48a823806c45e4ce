"""Responses that are written in chunks while the client reads them."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import IO

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_service.api.web.routes import RawHeaders
from manylabel_service.errors import NotReady

PORTION_BYTES = 2**18
"""Bytes of a chunk of a download."""

MAX_DOWNLOADS = 8
"""Maximum number of concurrent downloads; each has a copy in the data directory."""

log = structlog.get_logger()


class Writer:
    """Writer of one response, chunk by chunk.

    Parameters
    ----------
    scope, send : of the request.
    seconds : a client that receives nothing for this time is disconnected.
    """

    def __init__(self, scope: Scope, send: Send, seconds: float) -> None:
        self._scope = scope
        self._send = send
        self._seconds = seconds

    async def start(self, media_type: bytes, headers: RawHeaders = ()) -> None:
        """Send status 200 and the headers."""
        # Asks proxies not to buffer the response.
        raw = [(b"content-type", media_type), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": [*raw, *headers]})

    async def write(self, portion: bytes) -> None:
        """Send the next chunk; wait until the client has received most of the earlier ones.

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


class DownloadSlots:
    """Registry of running downloads; a slow client keeps its file open.

    Attributes
    ----------
    taken : how many there are.
    """

    def __init__(self) -> None:
        self.taken = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Register a download; raise NotReady if `MAX_DOWNLOADS` are running."""
        if self.taken >= MAX_DOWNLOADS:
            raise NotReady(f"{MAX_DOWNLOADS} downloads are under way, as many as the server has at a time")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Download(Response):
    """Response that sends a file in chunks, so that only one is in memory, however slow the client is.

    Parameters
    ----------
    file : from its beginning.
    idle_seconds : a client that receives nothing for this time is disconnected.
    held : closed at the end, with the file.
    """

    background = None

    def __init__(self, file: IO[bytes], idle_seconds: float, held: ExitStack) -> None:
        self._file = file
        self._idle_seconds = idle_seconds
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            size_bytes = await asyncio.to_thread(self._file.seek, 0, os.SEEK_END)
            writer = Writer(scope, send, self._idle_seconds)
            await writer.start(b"application/octet-stream", [(b"content-length", b"%d" % size_bytes)])
            self._file.seek(0)
            try:
                while portion := await asyncio.to_thread(self._file.read, PORTION_BYTES):
                    await writer.write(portion)
            finally:
                await asyncio.to_thread(self._file.close)  # the file has no name, so closing it frees its disk space
            await writer.end()


@asynccontextmanager
async def beside(*jobs: Callable[[], Awaitable[object]]) -> AsyncIterator[list["asyncio.Task[object]"]]:
    """Run background tasks while the body of the context runs, and cancel them at its end."""
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
