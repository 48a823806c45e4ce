"""A trained model as requests see it: versions in the log, of which one is in memory and predicts.

While another version is loaded, in a thread, the one before answers on; then one step puts it in its place. Each
answer is made by one version alone, and its position says up to where the log has been heeded.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import structlog

from manylabel_service.errors import (
    ModelGone,
    ModelNotFound,
    NoProbabilities,
    NotReady,
    ServiceError,
    StorageGone,
)
from manylabel_service.hosting.events import Events
from manylabel_service.hosting.hosted_model import ErrorFactory
from manylabel_service.hosting.predictions import Predicted
from manylabel_service.hosting.store_health import StoreHealth
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelRecord, Store
from manylabel_service.trained.active_version import ActiveVersion
from manylabel_service.trained.inputs import Inputs
from manylabel_service.trained.ledger import VersionLog
from manylabel_service.trained.spec import TRAINED
from manylabel_service.trained.version import Version
from manylabel_service.trained.version_service import VersionService
from manylabel_service.trained.version_store import Outcome, Promoted

INLINE_EXAMPLES = 100
INLINE_WORK = 1_000_000
"""So many examples, and multiplications, others can wait for, about a millisecond; more are predicted in a thread."""

LONG_AT_A_TIME = 2
"""Threads that predict for one model."""

log = structlog.get_logger()


class TrainedModel:
    """One trained model in this process.

    Parameters
    ----------
    record : the model in the store.
    store : where its log and its versions are.
    settings : limits.
    contact : how long ago the store was heard from; told when it is gone.
    on_gone : called when it turns out that the model has been deleted elsewhere.
    """

    def __init__(
        self,
        record: ModelRecord,
        store: Store,
        settings: Settings,
        contact: StoreHealth | None = None,
        on_gone: "Callable[[TrainedModel], None]" = lambda model: None,
    ) -> None:
        self.record = record
        self.used_at = time.monotonic()
        self.failed = False
        self.events = Events(record.name, lambda: self._stage)
        self._store = store
        self._settings = settings
        self._contact = contact or StoreHealth()
        self._on_gone = on_gone
        self._ledger = VersionLog(record, store, settings, self._heard)
        self._stage = ActiveVersion(record, store, lambda: self._ledger.catalogue, self.events)
        self._desk = VersionService(record, store, self._ledger, self._stage, self._consequence)
        self._behind = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._long = asyncio.Semaphore(LONG_AT_A_TIME)
        self._waiting = 0  # requests that wait for something to be read or changed
        self._busy = self._stopping = False
        self._closed: ErrorFactory | None = lambda: NotReady(f"model {record.name!r} is being restored")
        self._successor: Callable[[], Awaitable[TrainedModel]] | None = None

    @property
    def position(self) -> str:
        """Of the last entry of the log that is known here; what is served may be behind."""
        return self._ledger.catalogue.position

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the version served takes."""
        return 0 if self._stage.serving is None else self._stage.serving.nbytes

    @property
    def weighed_at(self) -> str:
        """Up to where the log is heeded by what is served."""
        return self._stage.position

    @property
    def n_labels(self) -> int:
        """Labels of the version served."""
        return 0 if self._stage.serving is None else len(self._stage.serving.labels)

    def status(self) -> dict[str, Any]:
        """What GET /v1/models/{m} answers; raises NotReady if it is being restored, or could not be."""
        self._check_open()
        serving = self._stage.serving
        meta = None if serving is None else serving.version.meta
        return {
            "name": self.record.name,
            "algorithm": TRAINED,
            "trainer": None if meta is None else meta.trainer,
            "params": None if meta is None else dict(meta.params),
            "measures": None if meta is None or meta.measures is None else dict(meta.measures),
            "version": None if serving is None else serving.version.number,
            "versions": len(self._ledger.catalogue.versions),
            "position": self._stage.position,
            "labels": self.n_labels,
            "features": 0 if serving is None else serving.n_features,
            "bytes": self.nbytes,
        }

    def gauges(self) -> dict[str, float]:
        """What GET /metrics shows; raises as `status`."""
        status = self.status()
        return {
            "model_labels": status["labels"],
            "model_features": status["features"],
            "model_bytes": status["bytes"],
            "model_version": status["version"] or 0,
        }

    # -- life -------------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Read the log and load the version that is served; answers from then on.

        Raises
        ------
        UnreadableEntry, StorageGone, ModelGone
        """
        await self._ledger.read()
        await self._stage.settle()
        self._closed = None
        self._stage.start()
        self._task = asyncio.create_task(self._hear(), name=f"trained {self.record.name}")

    @property
    def following(self) -> bool:
        """Whether it wants to know what others do."""
        return self._closed is None

    @property
    def busy(self) -> bool:
        """Whether it is reading the log anyway."""
        return self._busy

    @property
    def evictable(self) -> bool:
        """Whether nobody here waits for it or watches it."""
        waited_for = self._waiting or self._busy or self.events.subscribers or self._stage.busy
        return self._closed is None and not self._stopping and not waited_for

    def look(self) -> None:
        """Read what others have added to the log."""
        self._behind.set()

    async def confirm(self) -> ServiceError | None:
        """Hear what others have done to the model by now; what kept it from that, if anything."""
        try:
            await self._ledger.read()
        except Exception as error:
            return self._consequence(error)
        return None

    async def cover(self) -> bool:
        """All that there is is in the store."""
        return True

    def evict(self, successor: "Callable[[], Awaitable[TrainedModel]]") -> None:
        """Leave the memory; requests that have it in hand are passed on to its successor."""
        self._successor = successor
        self._end(lambda: NotReady(f"model {self.record.name!r} is being loaded"))

    def fail(self, reason: ErrorFactory) -> None:
        """Answer every request with such an error from now on, because the state cannot be trusted."""
        self.failed = True
        self._end(reason)

    def stop_learning(self) -> None:
        """Change no more what is served."""
        self._stopping = True

    async def stop(self) -> None:
        """End; there is nothing to finish."""
        self.stop_learning()
        await self._ended()

    async def drop(self) -> None:
        """End without a trace: the model has been deleted."""
        self._end(lambda: ModelNotFound(self.record.name))
        await self._ended()

    def _end(self, reason: ErrorFactory) -> None:
        self._closed = reason
        if self._task is not None:
            self._task.cancel()
        self._stage.stop()

    async def _ended(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._stage.stop()
        await self._stage.ended()

    async def _hear(self) -> None:
        while True:
            await self._behind.wait()
            self._behind.clear()
            self._busy = True
            try:
                await self.confirm()
            finally:
                self._busy = False

    def _heard(self, outcome: Outcome | None) -> None:
        if outcome is None:
            self._stage.lost()
        else:
            self._stage.heard(outcome.promoted)

    def _consequence(self, error: Exception) -> ServiceError:
        """What to do about an error, and what to answer to those who waited."""
        name = self.record.name
        if isinstance(error, ModelGone):
            self._on_gone(self)
            self._end(lambda: ModelGone(name, self.record.incarnation))
            return error
        if isinstance(error, StorageGone):
            self._contact.lost()  # whoever hears that it is back has this model look again
            return error
        if isinstance(error, ServiceError):
            return error
        log.error("model_failed", model=name, position=self.position, exc_info=error)
        self.fail(lambda: NotReady(f"model {name!r} failed; the server must be restarted"))
        return NotReady(f"model {name!r} failed")

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed()

    async def _next(self) -> "TrainedModel":
        """The one that took this one's place; where there is none, what is answered in its stead is raised."""
        if self._successor is None:
            self._check_open()
            raise NotReady(f"model {self.record.name!r} is being restored")
        return await self._successor()

    # -- predictions ------------------------------------------------------------------------------

    async def predict(
        self, xs: Sequence[Inputs], at_least: str | None = None, *, probabilities: bool = False
    ) -> Predicted:
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
        if self._closed is not None:
            return await (await self._next()).predict(xs, at_least, probabilities=probabilities)
        if probabilities:
            raise NoProbabilities()
        if at_least is not None:
            await self._reach(at_least)
        serving, position = self._stage.on()
        if len(xs) <= INLINE_EXAMPLES and serving.work(xs) <= INLINE_WORK:
            predictions = serving.predict(xs)
        else:
            async with self._long:
                predictions = await asyncio.to_thread(serving.predict, xs)
        return Predicted(predictions, position, self._contact.stale_seconds)

    async def _reach(self, position: str) -> None:
        seconds = self._settings.position_wait_seconds
        if self._stage.reached(position):
            return
        self.look()
        await self._stage.arrival(position, seconds)
        self._check_open()
        if not self._stage.reached(position):
            raise NotReady(f"position {position} of model {self.record.name!r} was not reached in {seconds:g} s")

    # -- versions ---------------------------------------------------------------------------------

    async def versions(self) -> tuple[list[Version], int | None]:
        """As `VersionService.versions`; raises NotReady too."""
        return await (await self._here())._desk.versions()

    async def version(self, number: int | None) -> tuple[Version, bytes]:
        """As `VersionService.version`; raises NotReady too."""
        return await (await self._here())._desk.version(number)

    async def promote(self, number: int) -> Promoted:
        """As `VersionService.promote`; raises NotReady too."""
        model = await self._here()
        with model._changing():
            return await model._desk.promote(number)

    async def retire(self, number: int) -> None:
        """As `VersionService.retire`; raises NotReady too."""
        model = await self._here()
        with model._changing():
            await model._desk.retire(number)

    async def _here(self) -> "TrainedModel":
        return self if self._closed is None else await self._next()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A request that must not be left behind by an eviction."""
        self._check_open()
        if self._stopping:
            raise NotReady("the server is stopping")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
