"""The clients of a server: synchronous and asynchronous."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

import httpx2

from manylabel_clients.http.resources.datasets import DatasetCalls
from manylabel_clients.http.resources.jobs import AsyncJob, Job, TrainingCalls
from manylabel_clients.http.resources.keys import AsyncKeys, Keys
from manylabel_clients.http.resources.models import AsyncModel, Model
from manylabel_clients.http.resources.resource import AsyncResource, SyncResource
from manylabel_clients.http.resources.server import ServerCalls
from manylabel_clients.http.resources.webhooks import AsyncWebhooks, Webhooks
from manylabel_clients.http.transport.connections import (
    DEFAULT_TIMEOUT_SECONDS,
    AsyncConnections,
    SyncConnections,
    sleep_in_loop,
)
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.http.transport.retry import Retry


class ClientCalls(ServerCalls, DatasetCalls, TrainingCalls):
    """Calls of `Client` and `AsyncClient`."""

    @property
    def base_url(self) -> str:
        """Address of the server."""
        return self._connections.base_url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connections.shown_url!r})"


class Client(ClientCalls, SyncResource):
    """Client of a ManyLabel server, over pooled connections. Threads may share it.

    Each method makes one call of the HTTP API. Arguments without a description are the fields and parameters of that
    call: see docs/http.md, or ``/docs`` of a server. All errors are subclasses of `ManyLabelError`: see
    `manylabel_clients.http.errors`.

    Parameters
    ----------
    base_url : str, optional
        Address of the server. Default: the environment variable ``MANYLABEL_URL``, else ``http://127.0.0.1:8000``.
    timeout : float or httpx2.Timeout
        Seconds an attempt may take to connect, and between bytes.
    retry : Retry
        Retry rule of calls.
    headers : mapping, optional
        Sent with each request.
    api_key : str or Secret, optional
        Key. Default: the environment variable ``MANYLABEL_API_KEY``.
    transport : httpx2.BaseTransport, optional
        Carries the requests instead of real connections.
    sleep, clock : callable
        How to wait, and the time, in seconds.

    Raises
    ------
    ValueError
        If `base_url` is not an HTTP address, `api_key` cannot be sent, or `headers` also has an Authorization.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000")                       # doctest: +SKIP
    >>> tags = client.create_model("tags", algorithm="falt", scaling="unit")  # doctest: +SKIP
    >>> tags.update({"word=cat": 1}, ["pets"])                         # doctest: +SKIP
    >>> tags.predict({"word=cat": 1}).labels                           # doctest: +SKIP
    ['pets']
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        timeout: float | httpx2.Timeout = DEFAULT_TIMEOUT_SECONDS,
        retry: Retry = Retry(),  # noqa: B008 - a frozen value
        headers: Mapping[str, str] | None = None,
        api_key: str | Secret | None = None,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(SyncConnections(base_url, timeout, retry, headers, api_key, clock, sleep, transport))

    _connections: SyncConnections

    def model(self, name: str) -> Model:
        """Return a handle of the model of this name, without a request to the server."""
        return Model(self._connections, name)

    def job(self, id: str) -> Job:
        """Return an object for the job with this id, without a request to the server."""
        return Job(self._connections, id)

    @property
    def keys(self) -> Keys:
        """API keys of the server."""
        return Keys(self._connections)

    @property
    def webhooks(self) -> Webhooks:
        """Webhooks of the server: events that it posts to other servers."""
        return Webhooks(self._connections)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(ClientCalls, AsyncResource):
    """Asynchronous client with the calls of `Client`, awaited. Tasks of one event loop may share it.

    Parameters and errors are those of `Client`; `transport` is an httpx2.AsyncBaseTransport, and `sleep` is awaited.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        timeout: float | httpx2.Timeout = DEFAULT_TIMEOUT_SECONDS,
        retry: Retry = Retry(),  # noqa: B008 - a frozen value
        headers: Mapping[str, str] | None = None,
        api_key: str | Secret | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = sleep_in_loop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(AsyncConnections(base_url, timeout, retry, headers, api_key, clock, sleep, transport))

    _connections: AsyncConnections

    def model(self, name: str) -> AsyncModel:
        """Return a handle of the model of this name, without a request to the server."""
        return AsyncModel(self._connections, name)

    def job(self, id: str) -> AsyncJob:
        """Return an object for the job with this id, without a request to the server."""
        return AsyncJob(self._connections, id)

    @property
    def keys(self) -> AsyncKeys:
        """API keys of the server."""
        return AsyncKeys(self._connections)

    @property
    def webhooks(self) -> AsyncWebhooks:
        """Webhooks of the server: events that it posts to other servers."""
        return AsyncWebhooks(self._connections)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
