"""Responses that are written while the client reads them: downloads, and server-sent events."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import IO, Any, Generic, TypeVar

import structlog
from fastapi.sse import format_sse_event
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.routes import RawHeaders
from manylabel_service.errors import AccessError, NotReady

PORTION_BYTES = 2**18
"""Bytes of a chunk of a download."""

MAX_DOWNLOADS = 8
"""Maximum number of concurrent downloads; each has a copy in the data directory."""

log = structlog.get_logger()


class Writer:
    """Writer of one response in chunks. The response ends if the client has received nothing for `seconds`."""

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
        """Send the next chunk; wait until the client has received most of the earlier ones. Raises ClientDisconnect."""
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
                reason=f"the client received nothing for {self._seconds:g} s",
            )
            raise ClientDisconnect from None


class DownloadSlots:
    """Counter of running downloads; the file of a slow client stays open."""

    def __init__(self) -> None:
        self.taken = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Register a download; raise NotReady if `MAX_DOWNLOADS` are running."""
        if self.taken >= MAX_DOWNLOADS:
            raise NotReady(f"the limit of {MAX_DOWNLOADS} concurrent downloads of this server is reached")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Download(Response):
    """Response that sends a file in chunks, so that only one chunk is in memory, however slow the client is.

    `held` is closed together with the file.
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
async def in_background(*jobs: Callable[[], Awaitable[object]]) -> AsyncIterator[list["asyncio.Task[object]"]]:
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


LAST_EVENT_ID = "Last-Event-ID"
COMMENT_SECONDS = 15.0
"""Seconds between two comments, so that proxies do not close the connection as idle."""

E = TypeVar("E")


class EventStream(Response, Generic[E]):
    """Response that sends events as they occur, until they end, the client disconnects, or the server stops.

    The next event is requested when the client has received the previous one, so nothing accumulates for a slow client.
    sse-starlette needs twice the time per event (16 us). It also ends streams by a process-wide flag, which it sets by
    replacing a method of uvicorn.

    Parameters
    ----------
    events : iterator of events, closed at the end if possible.
    to_bytes : encodes an event like `format_sse_event`.
    greeting : comment sent immediately, so that the client knows that it is connected.
    draining : event that ends the response.
    idle_seconds : timeout in seconds for a client that receives nothing.
    """

    background = None

    def __init__(
        self,
        events: AsyncIterator[E],
        to_bytes: Callable[[E], bytes],
        greeting: str,
        draining: asyncio.Event,
        idle_seconds: float,
    ) -> None:
        self._events = events
        self._to_bytes = to_bytes
        self._greeting = greeting
        self._draining = draining
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = Writer(scope, send, self._idle_seconds)

        async def send_events() -> None:
            async for event in self._events:
                if not _is_key_valid(scope):
                    return
                await writer.write(self._to_bytes(event))

        async def send_comments() -> None:
            while _is_key_valid(scope):
                await asyncio.sleep(COMMENT_SECONDS)
                await writer.write(_COMMENT)

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        try:
            await writer.start(b"text/event-stream; charset=utf-8")
            await writer.write(format_sse_event(comment=self._greeting))
            async with in_background(send_events, send_comments, self._draining.wait, leave) as tasks:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
            await writer.end()
        finally:
            if hasattr(self._events, "aclose"):
                await self._events.aclose()


def _is_key_valid(scope: Scope) -> bool:
    """Return whether the key of the request is still valid."""
    try:
        scope["access"].check()
    except AccessError:
        return False
    return True


def resumable(pattern: str) -> dict[str, Any]:
    """Return the part of an operation's description that declares the header Last-Event-ID, whose ids have this
    pattern."""
    parameter = {
        "name": LAST_EVENT_ID,
        "in": "header",
        "required": False,
        "description": "Id of the last event received; the stream continues after it.",
        "schema": {"type": "string", "pattern": pattern},
    }
    return {"parameters": [parameter]}


def last_event_id(request: Request, read: Callable[[str], E], allowed: str) -> E | None:
    """Return the header Last-Event-ID as parsed by `read`; None without it. Raises a Problem invalid_request.

    `read` raises ValueError for an invalid id; `allowed` describes valid ids in the error.
    """
    values = [value for name, value in request.scope["headers"] if name == b"last-event-id"]
    if not values:
        return None
    try:
        if len(values) == 1:
            return read(values[0].decode("latin-1"))
    except ValueError:
        pass
    raise Problem("invalid_request", f"{LAST_EVENT_ID} {allowed}", [{"header": LAST_EVENT_ID, "detail": allowed}])


_COMMENT = format_sse_event(comment="still there")
