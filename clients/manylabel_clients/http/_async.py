"""How the asynchronous client carries conversations: the only place of it that sends anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import Self, TypeVar

import httpx2

from manylabel_clients.http._base import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, BaseClient
from manylabel_clients.http._exchange import Pause, Reply, Steps
from manylabel_clients.http._watching import E, Watching
from manylabel_clients.http.retry import Retry

T = TypeVar("T")


class AsyncCarrier(BaseClient):
    """Connections, and conversations over them; its parameters are described at `Client`."""

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        timeout: float | httpx2.Timeout = DEFAULT_TIMEOUT_SECONDS,
        retry: Retry = Retry(),  # noqa: B008 - a frozen value
        headers: Mapping[str, str] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(base_url, timeout, retry, headers, clock)
        self._http = httpx2.AsyncClient(transport=transport, **self._options)
        self._sleep = sleep

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self, steps: Steps[T]) -> T:
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                await self._sleep(step.seconds)
                reply = None
                continue
            try:
                timeout = httpx2.USE_CLIENT_DEFAULT if step.timeout_seconds is None else step.timeout_seconds
                content = _drawn(step.body()) if callable(step.body) else step.body
                reply = await self._http.request(
                    step.method, step.path, content=content, headers=step.headers, timeout=timeout
                )
            except httpx2.RequestError as error:
                reply = error

    async def _watch(self, watching: Watching[E]) -> AsyncGenerator[E]:
        """Events, over as many connections as it takes."""
        while True:
            reply: Reply = None
            request = watching.request
            try:
                async with self._http.stream(
                    request.method, request.path, headers=request.headers, timeout=request.timeout_seconds
                ) as response:
                    if response.is_success:
                        async for line in response.aiter_lines():
                            if event := watching.feed(line):
                                yield event
                    else:
                        await response.aread()
                        reply = response
            except httpx2.RequestError as error:
                reply = error
            await self._sleep(watching.pause_seconds(reply))


async def _drawn(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces of a body that come from a file: read in a thread, so that the event loop goes on."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
