"""Server-sent events: a response that continues while events occur and the client reads."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from fastapi.sse import format_sse_event
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.streaming import Writer, beside
from manylabel_service.errors import AccessError

HEADER = "Last-Event-ID"
COMMENT_SECONDS = 15.0
"""Seconds without an event after which a comment is sent, so that proxies do not close the connection as idle."""

E = TypeVar("E")


class EventStream(Response, Generic[E]):
    """Response that sends events as they occur, until they end, the client disconnects, or the server stops.

    The next event is asked for when the client has taken the one before: a slow one makes nothing pile up here.

    Parameters
    ----------
    events : closed at the end, if they can be.
    to_bytes : writes an event as `format_sse_event` does.
    greeting : a comment that is sent at once, so that the client knows that it is connected.
    draining : ends the answer when it is set.
    idle_seconds : a client that receives nothing for this time is disconnected.
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
        over = asyncio.Event()

        async def drain() -> None:
            await self._draining.wait()
            over.set()

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            over.set()

        try:
            async with beside(drain, leave):
                await writer.start(b"text/event-stream; charset=utf-8")
                await writer.write(format_sse_event(comment=self._greeting))
                async with aclosing(self._until(over)) as events:
                    async for event in events:
                        if not _may_go_on(scope):
                            break
                        await writer.write(_COMMENT if event is None else self._to_bytes(event))
                await writer.end()
        finally:
            if hasattr(self._events, "aclose"):
                await self._events.aclose()

    async def _until(self, over: asyncio.Event) -> AsyncGenerator[E | None]:
        """Yield the events, and None after a while without one; the pending read of the next event continues."""
        asked: asyncio.Task[E] | None = None
        async with beside(over.wait) as (ending,):
            try:
                while True:
                    asked = asked or asyncio.create_task(_next(self._events))
                    both = (asked, ending)
                    await asyncio.wait(both, timeout=COMMENT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    if ending.done():
                        return
                    if asked.done():
                        event, asked = asked.result(), None
                        yield event
                    else:
                        yield None
            except _Over:
                asked = None
            finally:
                if asked is not None:
                    asked.cancel()
                    await asyncio.gather(asked, return_exceptions=True)


def _may_go_on(scope: Scope) -> bool:
    """Return whether the key of the request is still valid."""
    try:
        scope["access"].check()
    except AccessError:
        return False
    return True


class _Over(Exception):
    """Raised at the end of the events; a task cannot raise StopAsyncIteration through a generator."""


async def _next(events: AsyncIterator[E]) -> E:
    try:
        return await anext(events)
    except StopAsyncIteration:
        raise _Over from None


def described(pattern: str) -> dict[str, Any]:
    """Return the part of an operation's description that declares the header, with an id of this pattern."""
    parameter = {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "The id of the last event seen; the events after it follow.",
        "schema": {"type": "string", "pattern": pattern},
    }
    return {"parameters": [parameter]}


def last_event_id(request: Request, read: Callable[[str], E], allowed: str) -> E | None:
    """Return the value of the header Last-Event-ID; None without it.

    Parameters
    ----------
    request : that may have it.
    read : raises ValueError for what is no id.
    allowed : what an id is, for the answer to one that is none.

    Raises
    ------
    Problem
        invalid_request.
    """
    values = [value for name, value in request.scope["headers"] if name == b"last-event-id"]
    if not values:
        return None
    try:
        if len(values) == 1:
            return read(values[0].decode("latin-1"))
    except ValueError:
        pass
    raise Problem("invalid_request", f"{HEADER} {allowed}", [{"header": HEADER, "detail": allowed}])


_COMMENT = format_sse_event(comment="still there")
