"""The asynchronous client: the same calls as `Client`, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from manylabel_clients.http._base import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, BaseClient
from manylabel_clients.http._exchange import Pause, Reply, Steps
from manylabel_clients.http._model_calls import BATCH_SIZE, ModelCalls
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.types import Example, Features, Labels, Metrics, ModelStatus, Prediction, Updated

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

    async def models(self) -> list[ModelStatus]:
        """The status of every model."""
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


class AsyncModel:
    """One model of a server, with the calls of `Model`, awaited."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self._name = name
        self._calls = ModelCalls(name, client._retry)

    @property
    def name(self) -> str:
        """Its name on the server."""
        return self._name

    async def predict(self, x: Features) -> Prediction:
        """Labels and scores of one example."""
        return await self._client._run(self._calls.predict(x))

    async def predict_many(self, xs: Iterable[Features], *, batch_size: int = BATCH_SIZE) -> list[Prediction]:
        """Labels and scores of many examples, in their order."""
        return await self._client._run(self._calls.predict_many(xs, batch_size))

    async def update(self, x: Features, y: Labels, *, key: str | None = None) -> Updated:
        """Learn one example."""
        return await self._client._run(self._calls.update(x, y, key))

    async def update_many(
        self, examples: Iterable[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Updated:
        """Learn many examples, pairs of x and y, in their order; see `Model`."""
        return await self._client._run(self._calls.update_many(examples, batch_size, key))

    async def predict_update(self, x: Features, y: Labels, *, key: str | None = None) -> tuple[Prediction, Updated]:
        """Learn one example; answers what was predicted before."""
        return await self._client._run(self._calls.predict_update(x, y, key))

    async def predict_update_many(
        self, examples: Iterable[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> tuple[list[Prediction], Updated]:
        """Learn many examples, in their order; answers what was predicted just before each was learnt."""
        return await self._client._run(self._calls.predict_update_many(examples, batch_size, key))

    async def metrics(self) -> Metrics:
        """How well the model predicted what it then learnt."""
        return await self._client._run(self._calls.metrics())

    async def status(self) -> ModelStatus:
        """What the server says about the model."""
        return await self._client._run(self._calls.status())

    async def delete(self) -> None:
        """Delete the model and all it has learnt."""
        await self._client._run(self._calls.delete())

    def __repr__(self) -> str:
        return f"AsyncModel({self._client.base_url!r}, {self._name!r})"
