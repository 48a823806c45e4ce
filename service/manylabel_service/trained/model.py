"""A trained model has versions in the store, of which one is in memory and predicts.

While another version is loaded, in a thread, the one before answers on; then one step puts it in its place. Each
answer is made by one version alone, and its position says up to which change of the catalogue it goes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog

from manylabel_service.errors import (
    NoProbabilities,
    NoVersionServed,
    ServiceError,
    StorageGone,
    VersionDiffers,
    VersionNotFound,
    VersionServed,
)
from manylabel_service.hosting.events import Events
from manylabel_service.hosting.hosted_model import ErrorFactory, HostedModel, State
from manylabel_service.hosting.predictions import PredictResult
from manylabel_service.hosting.store_health import StoreHealth
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelRecord, Store, position_key
from manylabel_service.trained.active_version import ActiveVersion
from manylabel_service.trained.inputs import Inputs
from manylabel_service.trained.spec import TRAINED
from manylabel_service.trained.version import Version
from manylabel_service.trained.version_store import Promoted, VersionCatalogue, VersionStore

INLINE_EXAMPLES = 100
INLINE_WORK = 1_000_000
"""So many examples, and multiplications, others can wait for, about a millisecond; more are predicted in a thread."""

LONG_AT_A_TIME = 2
"""Threads that predict for one model."""

T = TypeVar("T")

log = structlog.get_logger()


class TrainedModel(HostedModel):
    """A trained model in this process serves one of its versions."""

    _answered = (ServiceError,)

    def __init__(
        self,
        record: ModelRecord,
        store: Store,
        settings: Settings,
        store_health: StoreHealth | None = None,
        on_deleted: Callable[[HostedModel], None] = lambda model: None,
    ) -> None:
        super().__init__(record, settings, store_health, on_deleted)
        self._events = Events(record.name, lambda: self._active)
        self._versions = VersionStore(record, store, self._heard)
        self._active = ActiveVersion(record.name, self._versions, self._events)
        self._behind = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._long = asyncio.Semaphore(LONG_AT_A_TIME)
        self._waiting = 0  # requests that wait for something to be read or changed
        self._busy = False

    @property
    def events(self) -> Events:
        return self._events

    @property
    def position(self) -> str:
        """The position of the catalogue as it is known here; what is served may be behind."""
        return self._versions.catalogue.position

    @property
    def nbytes(self) -> int:
        return 0 if self._active.serving is None else self._active.serving.nbytes

    @property
    def weighed_at(self) -> str:
        """The position of what is served."""
        return self._active.position

    @property
    def n_labels(self) -> int:
        return 0 if self._active.serving is None else len(self._active.serving.labels)

    def status(self) -> dict[str, Any]:
        """Return what GET /v1/models/{m} answers; raises NotReady if it is being restored, or could not be."""
        self.check_serving()
        serving = self._active.serving
        meta = None if serving is None else serving.version.meta
        return {
            "name": self.record.name,
            "algorithm": TRAINED,
            "trainer": None if meta is None else meta.trainer,
            "params": None if meta is None else dict(meta.params),
            "measures": None if meta is None or meta.measures is None else dict(meta.measures),
            "converged": None if meta is None else meta.converged,
            "baseline": None if meta is None or meta.baseline is None else dict(meta.baseline),
            "version": None if serving is None else serving.version.number,
            "versions": len(self._versions.catalogue.versions),
            "position": self._active.position,
            "labels": self.n_labels,
            "features": 0 if serving is None else serving.n_features,
            "bytes": self.nbytes,
        }

    def gauges(self) -> dict[str, float]:
        status = self.status()
        return {
            "model_labels": status["labels"],
            "model_features": status["features"],
            "model_bytes": status["bytes"],
            "model_version": status["version"] or 0,
        }

    # -- life -------------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Read the catalogue and load the version that is served; answers from then on.

        Raises
        ------
        UnreadableEntry, StorageGone, ModelGone
        """
        await self._versions.read()
        await self._active.catch_up()
        self.start()
        self._active.start()
        self._task = asyncio.create_task(self._hear(), name=f"trained {self.record.name}")

    @property
    def impaired(self) -> bool:
        """True if it, or the version that it should serve, cannot be had."""
        return self.failed or self._active.load_error is not None

    @property
    def busy(self) -> bool:
        return self._busy

    @property
    def waited_for(self) -> bool:
        return bool(self._waiting or self._busy or self._active.busy)

    def poll(self) -> None:
        self._behind.set()

    async def sync(self) -> ServiceError | None:
        try:
            await self._versions.read()
        except Exception as error:
            return self.handle_error(error)
        return None

    async def reach(self, position: str, seconds: float) -> bool:
        if not self._active.reached(position):
            self.poll()
            await self._active.arrival(position, seconds)
            self.check_serving()
        return self._active.reached(position)

    async def cover(self) -> bool:
        """Return True: all that there is is in the store."""
        return True

    def end(self, state: State, refusal: ErrorFactory) -> None:
        super().end(state, refusal)
        if self._task is not None:
            self._task.cancel()
        self._active.stop()

    async def stop(self) -> None:
        """End it; there is nothing to finish."""
        self.stop_changes()
        await self._ended()

    async def drop(self) -> None:
        await super().drop()
        await self._ended()

    async def _ended(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._active.stop()
        await self._active.ended()

    async def _hear(self) -> None:
        while True:
            await self._behind.wait()
            self._behind.clear()
            self._busy = True
            try:
                await self.sync()
            finally:
                self._busy = False

    def _heard(self, before: VersionCatalogue) -> None:
        catalogue = self._versions.catalogue
        promotions = catalogue.promotions_after(before.position)
        if promotions is None or position_key(catalogue.position) < position_key(before.position):
            self._active.lost()
        else:
            self._active.heard(promotions)

    # -- predictions ------------------------------------------------------------------------------

    async def predict(
        self, xs: Sequence[Inputs], at_least: str | None = None, *, probabilities: bool = False
    ) -> PredictResult:
        """Predict by the version that is served when the prediction begins; long work is done in a thread.

        Parameters
        ----------
        xs : examples.
        at_least : a position that the answer must not be older than; waited for, within limits.
        probabilities : there are none.

        Raises
        ------
        NotReady, InvalidExample, NoProbabilities, NoVersionServed, VersionDamaged
        """
        self.check_serving()
        if probabilities:
            raise NoProbabilities()
        if at_least is not None:
            await self.wait_until(at_least)
        serving, position = self._active.on()
        if len(xs) <= INLINE_EXAMPLES and serving.work(xs) <= INLINE_WORK:
            predictions = serving.predict(xs)
        else:
            async with self._long:
                predictions = await asyncio.to_thread(serving.predict, xs)
        return PredictResult(predictions, position, self._store_health.stale_seconds)

    # -- versions ---------------------------------------------------------------------------------

    async def versions(self) -> tuple[list[Version], int | None]:
        """Return the versions, the newest first, and the number of the one served.

        Raises
        ------
        NotReady, VersionDamaged, StorageGone, ModelGone
        """
        self.check_serving()
        versions, served = await self._stored(self._versions.all())
        return sorted(versions, key=lambda version: -version.number), served

    async def version(self, number: int | None) -> tuple[Version, bytes]:
        """Return a version, or the one served, with its artifact as it is stored.

        Raises
        ------
        NotReady, NoVersionServed, VersionNotFound, VersionDamaged, StorageGone, ModelGone
        """
        self.check_serving()
        catalogue = await self._stored(self._versions.read())
        if number is None:
            number = catalogue.served
        if number is None:
            raise NoVersionServed(self.name)
        listed = catalogue.versions.get(number)
        if listed is None:
            raise VersionNotFound(self.name, number)
        version = await self._stored(self._versions.version(listed))
        return version, await self._versions.artifact(version)

    async def promote(self, number: int, *, force: bool = False) -> Promoted:
        """Have a version served, here and on every other server, from one position on.

        It is loaded here first: one that cannot be is never promoted. One that differs from the one served, in its
        features or their scaling, is promoted by `force` only.

        Raises
        ------
        NotReady, VersionNotFound, VersionDiffers, VersionDamaged, StorageGone, ModelGone
        """
        with self._changing():
            loaded = await self._active.load(await self._stored(self._versions.find(number)))
            promoted = await self._stored(self._versions.promote(number, force=force))
            self._active.is_current(loaded)
            return promoted

    async def retire(self, number: int) -> None:
        """Delete a version.

        Raises
        ------
        NotReady, VersionNotFound, VersionServed, StorageGone, ModelGone
        """
        with self._changing():
            await self._stored(self._versions.delete(number))
            try:
                await self._versions.collect_garbage()
            except StorageGone as error:  # there is no such version any more; its bytes go with the next one
                log.warning("version_delete_failed", model=self.name, version=number, error=str(error))

    async def _stored(self, call: Awaitable[T]) -> T:
        """Return what the store answers; draw the consequence of an error that is not about the version."""
        try:
            return await call
        except (VersionNotFound, VersionDiffers, VersionServed):
            raise
        except Exception as error:
            raise self.handle_error(error) from error

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the model in memory while a request changes it."""
        self.check_changeable()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
