"""The asynchronous client: the same calls as `Client`, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from manylabel_clients.http._base import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, BaseClient
from manylabel_clients.http._exchange import Pause, Reply, Steps
from manylabel_clients.http.async_model import AsyncModel
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.types import ModelSummary

T = TypeVar("T")


class AsyncClient(BaseClient):
    """A ManyLabel server, over pooled connections. Tasks of one event loop may share it.

    Parameters and errors are those of `Client`; `transport` is an httpx2.AsyncBaseTransport, and `sleep` is
    awaited.
    """

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

    async def create_model(
        self,
        name: str,
        *,
        algorithm: str = "falt",
        params: Mapping[str, Any] | None = None,
        features: Sequence[str] | int | None = None,
        labels: Sequence[str] | None = None,
        scaling: str | None = None,
        durability: str | None = None,
        window: int | None = None,
        exist_ok: bool = False,
    ) -> AsyncModel:
        """Create a model; see `Client.create_model`."""
        spec = {
            "name": name,
            "algorithm": algorithm,
            "params": params,
            "features": features,
            "labels": labels,
            "scaling": scaling,
            "durability": durability,
            "window": window,
        }
        await self._run(self._calls.create_model(spec, exist_ok))
        return self.model(name)

    def model(self, name: str) -> AsyncModel:
        """The model of this name. Asks nothing of the server, not even whether it exists."""
        return AsyncModel(self, name)

    async def upload_model(self, name: str, snapshot: bytes) -> AsyncModel:
        """Create a model from a snapshot that was downloaded, from this server or another.

        It goes on from there, and knows nothing of the requests to the old one. Of two attempts of which the first got
        no answer, the second may find the name taken, by the model itself: then the Conflict says `maybe_done`.
        """
        await self._run(self._calls.upload_model(name, snapshot))
        return self.model(name)

    async def models(self) -> list[ModelSummary]:
        """What every model is; of those in the server's memory a `ModelStatus`."""
        return await self._run(self._calls.models())

    async def wait_ready(self, timeout: float = 60.0) -> None:  # noqa: ASYNC109 - how long the server may take
        """Wait, for at most `timeout` seconds, until the server is ready; see `Client.wait_ready`."""
        await self._run(self._calls.wait_ready(timeout))

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
                reply = await self._http.request(
                    step.method, step.path, content=step.body, headers=step.headers, timeout=timeout
                )
            except httpx2.RequestError as error:
                reply = error
