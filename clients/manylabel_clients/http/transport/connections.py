"""Connections to a server, synchronous and asynchronous, which execute exchanges."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from importlib.metadata import version
from typing import Any, ClassVar, Generic, TypeVar

import httpx2

from manylabel_clients.http.transport.credentials import Secret, authorization
from manylabel_clients.http.transport.exchange import Batched, Draw, Exchange, Pause, Reply, Request
from manylabel_clients.http.transport.retry import Retry
from manylabel_clients.http.transport.sse import EventStream

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "MANYLABEL_URL"
"""Environment variable with the default address of the server, for the clients and the command."""
DEFAULT_TIMEOUT_SECONDS = 30.0

# Idle connections are closed before the server closes them (after 5 s by default): a request on a connection
# that is being closed would have to be retried.
_LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=3.0)


HTTP = TypeVar("HTTP", httpx2.Client, httpx2.AsyncClient)
Sleep = TypeVar("Sleep", bound=Callable[[float], object])


class _Connections(Generic[HTTP, Sleep]):
    """Base of both kinds of connections; `Client` describes the parameters."""

    _client: ClassVar[Any]

    def __init__(
        self,
        base_url: str | None,
        timeout: float | httpx2.Timeout,
        retry: Retry,
        headers: Mapping[str, str] | None,
        api_key: str | Secret | None,
        clock: Callable[[], float],
        sleep: Sleep,
        transport: Any,
    ) -> None:
        self.base_url = _checked_url(base_url)
        self.retry = replace(retry, clock=clock)
        self.clock = clock
        self._sleep = sleep
        self._http: HTTP = self._client(
            base_url=self.base_url,
            timeout=timeout,
            limits=_LIMITS,
            headers=_headers(headers, api_key),
            transport=transport,
        )

    def _timeout(self, request: Request) -> httpx2.Timeout:
        """Return the timeouts of a request: its own or the client's, at most the remaining time."""
        timeout = self._http.timeout if request.timeout_seconds is None else httpx2.Timeout(request.timeout_seconds)
        if request.left_seconds is None:
            return timeout
        most = request.left_seconds
        return httpx2.Timeout(
            **{name: most if seconds is None else min(seconds, most) for name, seconds in timeout.as_dict().items()}
        )

    @property
    def shown_url(self) -> str:
        """Address of the server with a masked password."""
        url = httpx2.URL(self.base_url)
        return str(url.copy_with(username=url.username, password="***")) if url.password else self.base_url


class SyncConnections(_Connections[httpx2.Client, Callable[[float], object]]):
    """Synchronous connections, which execute exchanges."""

    _client = httpx2.Client

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def run(self, exchange: Exchange[T]) -> T:
        """Return the result of an exchange."""
        reply: Reply = None
        while True:
            try:
                step = exchange.send(reply)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            reply = None
            if isinstance(step, Request):
                reply = self._send(step)
            elif isinstance(step, Pause):
                self._sleep(step.seconds)
            else:
                _draw(step)

    def _send(self, request: Request) -> Reply:
        try:
            if not callable(request.body):
                return self._request(request, request.body)
            pieces = request.body()
            try:
                return self._request(request, pieces)
            finally:
                _close(pieces)
        except httpx2.RequestError as error:
            return error

    def _request(self, request: Request, content: bytes | Iterator[bytes] | None) -> httpx2.Response:
        return self._http.request(
            request.method, request.path, content=content, headers=request.headers, timeout=self._timeout(request)
        )

    def each(self, stream: EventStream[T] | Batched[T]) -> Iterator[T]:
        """Yield the events of a stream, or the results of its batches."""
        if isinstance(stream, EventStream):
            yield from self.watch(stream)
        else:
            while (results := self.run(stream.next())) is not None:
                yield from results

    def watch(self, stream: EventStream[T]) -> Iterator[T]:
        """Yield events, reconnecting as necessary, until the stream has ended."""
        while True:
            reply: Reply = None
            request = stream.request
            try:
                with self._http.stream(
                    request.method, request.path, headers=request.headers, timeout=self._timeout(request)
                ) as response:
                    if response.is_success:
                        for line in response.iter_lines():
                            if event := stream.feed(line):
                                yield event
                                if stream.has_ended:
                                    return
                    else:
                        response.read()
                        reply = response
            except httpx2.RequestError as error:
                reply = error
            self._sleep(stream.pause_seconds(reply))


class AsyncConnections(_Connections[httpx2.AsyncClient, Callable[[float], Awaitable[object]]]):
    """Asynchronous connections, which execute exchanges in an event loop."""

    _client = httpx2.AsyncClient

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def run(self, exchange: Exchange[T]) -> T:
        """Return the result of an exchange."""
        reply: Reply = None
        while True:
            try:
                step = exchange.send(reply)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            reply = None
            if isinstance(step, Request):
                reply = await self._send(step)
            elif isinstance(step, Pause):
                await self._sleep(step.seconds)
            else:
                await _draw_async(step)

    async def _send(self, request: Request) -> Reply:
        try:
            if not callable(request.body):
                return await self._request(request, request.body)
            async with aclosing(_read_in_thread(request.body())) as content:
                return await self._request(request, content)
        except httpx2.RequestError as error:
            return error

    async def _request(self, request: Request, content: bytes | AsyncIterator[bytes] | None) -> httpx2.Response:
        return await self._http.request(
            request.method, request.path, content=content, headers=request.headers, timeout=self._timeout(request)
        )

    async def each(self, stream: EventStream[T] | Batched[T]) -> AsyncGenerator[T]:
        """Yield the events of a stream, or the results of its batches."""
        if isinstance(stream, EventStream):
            async with aclosing(self.watch(stream)) as events:
                async for event in events:
                    yield event
        else:
            while (results := await self.run(stream.next())) is not None:
                for result in results:
                    yield result

    async def watch(self, stream: EventStream[T]) -> AsyncGenerator[T]:
        """Yield events, reconnecting as necessary, until the stream has ended."""
        while True:
            reply: Reply = None
            request = stream.request
            try:
                async with self._http.stream(
                    request.method, request.path, headers=request.headers, timeout=self._timeout(request)
                ) as response:
                    if response.is_success:
                        async for line in response.aiter_lines():
                            if event := stream.feed(line):
                                yield event
                                if stream.has_ended:
                                    return
                    else:
                        await response.aread()
                        reply = response
            except httpx2.RequestError as error:
                reply = error
            await self._sleep(stream.pause_seconds(reply))


def _checked_url(given: str | None) -> str:
    name, url = "base_url", given
    if url is None:
        name, url = URL_VARIABLE, os.environ.get(URL_VARIABLE) or DEFAULT_URL
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{name} must start with http:// or https://, not {url!r}")
    return url


def _headers(given: Mapping[str, str] | None, api_key: str | Secret | None) -> httpx2.Headers:
    """Return the headers of every request; headers of the caller take precedence."""
    own = {
        "User-Agent": f"manylabel/{version('manylabel')}",
        "Accept-Encoding": "identity",  # on a fast network, compressing a response takes longer than sending it
    }
    headers = httpx2.Headers({**own, **authorization(api_key)})
    if api_key is not None and "authorization" in httpx2.Headers(given):
        raise ValueError("api_key and the header Authorization cannot both be given")
    headers.update(given)
    return headers


def _draw(draw: Draw) -> None:
    for item in draw.items:  # type: ignore[union-attr]  # a synchronous client has taken no other
        if draw.add(item):
            return


async def _draw_async(draw: Draw) -> None:
    if not isinstance(draw.items, AsyncIterator):
        return _draw(draw)
    async for item in draw.items:
        if draw.add(item):
            return None
    return None


# Imported here, because synchronous clients and the command start 20 % faster without asyncio.


async def _read_in_thread(pieces: Iterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the chunks of a body from a file, read in a thread, so that the event loop keeps running."""
    import asyncio
    import threading

    turn = threading.Lock()  # the thread continues after the caller was cancelled

    def read() -> bytes | None:
        with turn:
            return next(pieces, None)

    def close() -> None:
        with turn:
            _close(pieces)

    try:
        while (piece := await asyncio.to_thread(read)) is not None:
            yield piece
    finally:
        await asyncio.to_thread(close)


def _close(pieces: Iterator[bytes]) -> None:
    """Close the file of a body, which a stored exception would keep open."""
    if isinstance(pieces, Generator):
        pieces.close()


async def sleep_in_loop(seconds: float) -> None:
    """Wait while the event loop keeps running."""
    import asyncio

    await asyncio.sleep(seconds)
