"""One model of a server, with the asynchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from manylabel_clients.http._model_calls import BATCH_SIZE, ModelCalls
from manylabel_clients.http._version_calls import VersionCalls
from manylabel_clients.http.types import (
    AnyStatus,
    Event,
    Example,
    Features,
    Labels,
    LineAnswer,
    Metrics,
    Prediction,
    RolledBack,
    Snapshot,
    Truth,
    Updated,
)
from manylabel_clients.http.version_types import ModelDetail, Promoted, Version

if TYPE_CHECKING:
    from manylabel_clients.http.async_client import AsyncClient


class AsyncModel:
    """One model of a server, with the calls of `Model`, awaited."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self._name = name
        self._calls = ModelCalls(name, client._retry)
        self._versions = VersionCalls(name, client._retry)

    @property
    def name(self) -> str:
        """Its name on the server."""
        return self._name

    async def predict(
        self, x: Features, *, keep: bool = False, at_least: str | None = None, probabilities: bool = False
    ) -> Prediction:
        """Labels and scores of one example; see `Model`."""
        return await self._client._run(self._calls.predict(x, keep, at_least, probabilities))

    async def predict_many(
        self,
        xs: Iterable[Features],
        *,
        batch_size: int = BATCH_SIZE,
        keep: bool = False,
        at_least: str | None = None,
        probabilities: bool = False,
    ) -> list[Prediction]:
        """Labels and scores of many examples, in their order."""
        return await self._client._run(self._calls.predict_many(xs, batch_size, keep, at_least, probabilities))

    async def update(self, x: Features, y: Labels, *, key: str | None = None) -> Updated:
        """Learn one example."""
        return await self._client._run(self._calls.update(x, y, key))

    async def update_many(
        self, examples: Iterable[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Updated:
        """Learn many examples, pairs of x and y, in their order; see `Model`."""
        return await self._client._run(self._calls.update_many(examples, batch_size, key))

    async def predict_update(
        self, x: Features, y: Labels, *, key: str | None = None, probabilities: bool = False
    ) -> tuple[Prediction, Updated]:
        """Learn one example; answers what was predicted before."""
        return await self._client._run(self._calls.predict_update(x, y, key, probabilities))

    async def predict_update_many(
        self,
        examples: Iterable[Example],
        *,
        batch_size: int = BATCH_SIZE,
        key: str | None = None,
        probabilities: bool = False,
    ) -> tuple[list[Prediction], Updated]:
        """Learn many examples, in their order; answers what was predicted just before each was learnt."""
        return await self._client._run(self._calls.predict_update_many(examples, batch_size, key, probabilities))

    async def label(self, id: str, y: Labels, *, key: str | None = None) -> Updated:
        """Learn an example that was predicted with `keep`, now that its truth is known.

        Raises
        ------
        NotFound
            If there is no such prediction.
        Conflict
            If it has been labelled before.
        Expired
            If it was kept no longer.
        """
        return await self._client._run(self._calls.label(id, y, key))

    async def label_many(
        self, truths: Iterable[Truth], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Updated:
        """Learn many such examples, pairs of id and y, in their order. The receipt is that of the last request."""
        return await self._client._run(self._calls.label_many(truths, batch_size, key))

    async def stream(
        self,
        examples: Iterable[Example],
        *,
        key: str | None = None,
        first: int = 1,
        batch_size: int = BATCH_SIZE,
        probabilities: bool = False,
    ) -> AsyncIterator[LineAnswer]:
        """Learn any number of examples, and say for each what was predicted before; lazily, piece by piece.

        A piece that breaks off, whatever the reason, is gone on with where it did: each example is learnt once. One
        that the server refuses is answered with its `error`, and the others are still learnt.

        Parameters
        ----------
        examples : iterable of pairs of x and y
            Drawn as the answers are.
        key : str, optional
            Names the stream. The same key makes it possible to go on with it from a new process: examples with numbers
            that were learnt under it are not learnt again.
        first : int
            Number of the first example.
        batch_size : int
            Examples sent in one request, at most.
        probabilities : bool
            Whether to say how likely each label was, too.

        Raises
        ------
        ManyLabelError
            If it cannot go on; `done` is the number of the last example answered.
        """
        for piece in self._calls.stream_pieces(examples, key, first, batch_size, probabilities):
            for answer in await self._client._run(piece):
                yield answer

    def events(self, *, after: str | None = None) -> AsyncIterator[Event]:
        """What happens to the model from now on, or after the position of an event seen earlier; does not end.

        A connection that is lost is made again, and the events go on after the last one seen.

        Raises
        ------
        NotFound
            If the model is deleted.
        ManyLabelError
            If the server cannot be reached, after all retries.
        """
        return self._client._watch(self._calls.watching(after))

    async def snapshots(self) -> list[Snapshot]:
        """The states of the model that are kept, the newest first."""
        return await self._client._run(self._calls.snapshots())

    async def take_snapshot(self) -> Snapshot:
        """Keep the present state."""
        return await self._client._run(self._calls.take_snapshot())

    async def download_snapshot(self, position: str) -> bytes:
        """A state that is kept, as a safetensors file; `upload_model` makes a model of it."""
        return await self._client._run(self._calls.download_snapshot(position))

    async def rollback(self, position: str, *, key: str | None = None) -> RolledBack:
        """Forget what was learnt after a snapshot, on every server that has the model."""
        return await self._client._run(self._calls.rollback(position, key))

    async def versions(self) -> list[Version]:
        """The versions of a model that jobs have trained, the newest first."""
        return await self._client._run(self._versions.versions())

    async def promote(self, version: int) -> Promoted:
        """Serve this version from now on; in one step, and as well an earlier one than the one served now."""
        return await self._client._run(self._versions.promote(version))

    async def download_version(self, version: int) -> bytes:
        """A version as its estimator's `to_bytes`: `manylabel_core.batch` reads it."""
        return await self._client._run(self._versions.download(version))

    async def delete_version(self, version: int) -> None:
        """Delete a version that is not served."""
        await self._client._run(self._versions.delete(version))

    async def detail(self, version: int | None = None) -> ModelDetail:
        """What there is to see of the version served, or of another; see `Model.detail`."""
        return await self._client._run(self._versions.detail(version))

    async def plot(self, what: str, *, format: str = "png", version: int | None = None) -> bytes:
        """The same as a picture; see `Model.plot`."""
        return await self._client._run(self._versions.plot(what, format, version))

    async def metrics(self) -> Metrics:
        """How well the model predicted what it then learnt."""
        return await self._client._run(self._calls.metrics())

    async def status(self) -> AnyStatus:
        """What the server says about the model."""
        return await self._client._run(self._calls.status())

    async def delete(self) -> None:
        """Delete the model and all it has learnt."""
        await self._client._run(self._calls.delete())

    def __repr__(self) -> str:
        return f"AsyncModel({self._client.base_url!r}, {self._name!r})"
