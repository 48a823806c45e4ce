"""The asynchronous client: the same calls as `Client`, awaited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manylabel_clients.http.async_model import AsyncModel
from manylabel_clients.http.async_training import AsyncTrainingClient
from manylabel_clients.http.types import AnySummary


class AsyncClient(AsyncTrainingClient):
    """A ManyLabel server, over pooled connections. Tasks of one event loop may share it.

    Parameters and errors are those of `Client`; `transport` is an httpx2.AsyncBaseTransport, and `sleep` is
    awaited.
    """

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
        limits: Mapping[str, Any] | None = None,
        init_from: str | Mapping[str, Any] | None = None,
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
            "limits": limits,
            "init_from": {"model": init_from} if isinstance(init_from, str) else init_from,
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

    async def models(self) -> list[AnySummary]:
        """What every model is; of those in the server's memory its status."""
        return await self._run(self._calls.models())

    async def wait_ready(self, timeout: float = 60.0) -> None:  # noqa: ASYNC109 - how long the server may take
        """Wait, for at most `timeout` seconds, until the server is ready; see `Client.wait_ready`."""
        await self._run(self._calls.wait_ready(timeout))
