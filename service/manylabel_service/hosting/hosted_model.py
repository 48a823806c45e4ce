"""The life of a model in this process, whatever kind it is: one that learns online, or a trained one."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar

import structlog

from manylabel_core.records import RecordEncoder
from manylabel_service.errors import (
    IncompatibleRelease,
    ModelDamaged,
    ModelFailed,
    ModelGone,
    ModelNotFound,
    NotReady,
    ServiceError,
    StorageUnavailable,
)
from manylabel_service.hosting.events import Events
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.hosting.predictions import Prediction, PredictResult
from manylabel_service.hosting.signature import Signature
from manylabel_service.hosting.store_health import StoreHealth
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelMeta

ErrorFactory = Callable[[], ServiceError]
"""Makes an error for each request: one that is raised again and again keeps every traceback."""

log = structlog.get_logger()


class ModelEvicted(NotReady):
    """The model has left the memory; `Registry.ask` asks the one that is loaded in its place."""


class ModelLifecycle(Enum):
    """The state of a hosted model: it answers requests while SERVING and STOPPING."""

    RESTORING = "it reads its state from the store"
    SERVING = "it answers and takes changes"
    STOPPING = "it answers, but takes no more changes"
    EVICTED = "it has left the memory; the store has all of it"
    DELETED = "the model is deleted, here or elsewhere"
    FAILED = "its state cannot be restored, or not be trusted"


class HostedModel(ABC):
    """A hosted model answers the requests to one model in this process.

    Parameters
    ----------
    store_health : how long ago the store was heard from; told when it is gone.
    on_deleted : called when it turns out that the model has been deleted elsewhere.

    Attributes
    ----------
    record : the model in the store.
    state : where in its life it is.
    used_at : time.monotonic() when it was last asked for.
    """

    _answered: ClassVar[tuple[type[ServiceError], ...]]
    """Errors that a request is answered with, and that leave the model as it was."""

    def __init__(
        self,
        record: ModelMeta,
        settings: Settings,
        store_health: StoreHealth | None,
        on_deleted: Callable[["HostedModel"], None],
    ) -> None:
        self.record = record
        self.state = ModelLifecycle.RESTORING
        self._incompatible: str | None = None
        self.used_at = time.monotonic()
        self._settings = settings
        self._store_health = store_health or StoreHealth()
        self._on_deleted = on_deleted
        self._refusal: ErrorFactory | None = lambda: NotReady(f"model {self.name!r} is being restored")

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.record.name

    @property
    @abstractmethod
    def events(self) -> Events:
        """The events of the model."""

    @property
    @abstractmethod
    def position(self) -> str:
        """The position of the last entry of its log that is known here."""

    @property
    def log_position(self) -> str:
        """The position up to which its log is known here, for those who follow it."""
        return self.position

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The bytes of memory that it takes."""

    @property
    @abstractmethod
    def weighed_at(self) -> str:
        """The position of what is weighed: `nbytes` is the same as long as this is."""

    @property
    @abstractmethod
    def records(self) -> RecordEncoder | None:
        """The encoder of records that it is asked about; None if it takes numbers only."""

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """The number of labels that a prediction has scores for."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True while it is reading the log anyway."""

    @property
    @abstractmethod
    def waited_for(self) -> bool:
        """True while a request waits for what it does."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """Return what GET /v1/models/{m} answers; raise NotReady if it is not serving."""

    @abstractmethod
    def signature(self) -> Signature:
        """Return what it takes and answers; raise as `status`."""

    @abstractmethod
    def gauges(self) -> dict[str, float]:
        """Return what GET /metrics shows of it; raise as `status`."""

    @abstractmethod
    def measures(self) -> dict[str, Any] | None:
        """Return the prequential measures; None if there are none at present; raise as `status`."""

    @abstractmethod
    async def predict(
        self,
        xs: Sequence[Any],
        at_least: str | None = None,
        *,
        probabilities: bool = False,
        explainer: Explainer | None = None,
    ) -> PredictResult:
        """Predict examples, in the form that its kind takes; raise NoProbabilities if it has none to answer.

        An `explainer` says why the labels were predicted, and may raise InvalidField.
        """

    @abstractmethod
    async def keep(
        self,
        ids: Sequence[str],
        xs: Sequence[Any],
        predictions: Sequence[Prediction],
        version: int | None = None,
        records: Sequence[bytes] | None = None,
    ) -> None:
        """Keep what was answered, each under its id, for labels that come later; `version` as of `PredictResult`.

        `records`, of a model that learns online, are the examples as they were posted, in JSON.
        """

    @abstractmethod
    async def sync(self) -> ServiceError | None:
        """Take in what others have done to the model by now; return what kept it from that, if anything."""

    @abstractmethod
    def poll(self) -> None:
        """Have what others have added to the log read, in the background."""

    @abstractmethod
    async def reach(self, position: str, seconds: float) -> bool:
        """Wait at most `seconds` until the model is at or after a position; return whether it is."""

    @abstractmethod
    async def cover(self) -> bool:
        """Have the store hold all that is needed to come back; return whether it does."""

    @abstractmethod
    def snapshot_soon(self) -> None:
        """Have a snapshot taken, in the background, if none covers what was learnt."""

    # -- life -------------------------------------------------------------------------------------

    @abstractmethod
    async def restore(self, ask: Callable[[], bool] | None = None) -> None:
        """Restore the present state, and answer from then on.

        With `ask`, which has others asked for a snapshot of the model, only if it learns the same bits as they: raises
        ReplayMismatch.
        """

    def start(self) -> None:
        """Begin to answer."""
        self.state, self._refusal = ModelLifecycle.SERVING, None

    @property
    def serving(self) -> bool:
        """True while it answers predictions, and wants to know what others do."""
        return self._refusal is None

    @property
    def failed(self) -> bool:
        """True if its state cannot be trusted, or had."""
        return self.state is ModelLifecycle.FAILED

    @property
    def incompatible(self) -> str | None:
        """The code of the error for which another release has to serve it; None if this one can."""
        return self._incompatible

    @property
    def impaired(self) -> bool:
        """True if it cannot serve what it should."""
        return self.failed

    @property
    def evictable(self) -> bool:
        """True while no request in this process waits for the model, and no client watches its events."""
        return self.state is ModelLifecycle.SERVING and not (self.waited_for or self.events.subscribers)

    def evict(self) -> None:
        """Leave the memory; requests that have it in hand get ModelEvicted from now on."""
        self.end(ModelLifecycle.EVICTED, lambda: ModelEvicted(f"model {self.name!r} is being loaded"))

    def fail(self, refusal: ErrorFactory) -> None:
        """Answer every request with such an error from now on, because the state cannot be trusted."""
        self.end(ModelLifecycle.FAILED, refusal)

    def withhold(self, error: IncompatibleRelease) -> None:
        """Answer every request with such an error from now on: another release has to serve the model."""
        log.error("model_withheld", model=self.name, position=self.position, code=error.code, error=str(error))
        self._incompatible = error.code
        self.fail(lambda: type(error)(error.detail))

    def stop_changes(self) -> None:
        """Take no more changes."""
        if self.state is ModelLifecycle.SERVING:
            self.state = ModelLifecycle.STOPPING

    @abstractmethod
    async def stop(self) -> None:
        """Finish what waits, and end."""

    async def drop(self) -> None:
        """End without a trace, and wait for the end: the model has been deleted."""
        self.end(ModelLifecycle.DELETED, lambda: ModelNotFound(self.name))

    def end(self, state: ModelLifecycle, refusal: ErrorFactory) -> None:
        """Answer every request, those that wait included, with such an error from now on."""
        self.state, self._refusal = state, refusal

    # -- for its kind -----------------------------------------------------------------------------

    def check_serving(self) -> None:
        """Raise what requests are refused with, unless it is serving."""
        if self._refusal is not None:
            raise self._refusal()

    def check_changeable(self) -> None:
        """Raise what changes are refused with, unless it takes them."""
        self.check_serving()
        if self.state is ModelLifecycle.STOPPING:
            raise NotReady("the server is stopping")

    async def wait_until(self, position: str) -> None:
        """Wait until the model is at or after a position; raise NotReady if that takes too long."""
        seconds = self._settings.position_wait_seconds
        if not await self.reach(position, seconds):
            self.check_serving()
            raise NotReady(f"position {position} of model {self.name!r} was not reached in {seconds:g} s")

    def handle_error(self, error: Exception) -> ServiceError:
        """Draw the consequence of an error, and return what to answer to those who waited."""
        if isinstance(error, ModelGone):
            self._on_deleted(self)
            self.end(ModelLifecycle.DELETED, lambda: ModelGone(self.name, self.record.incarnation))
            return error
        if isinstance(error, StorageUnavailable):
            self._store_health.lost()  # when the store is heard again, this model is polled
            return error
        if isinstance(error, self._answered):
            return error
        if isinstance(error, ModelDamaged):
            log.error("model_damaged", model=self.name, position=self.position, error=str(error))
            self.fail(lambda: ModelDamaged(error.name, error.detail))
            return error
        if isinstance(error, IncompatibleRelease):
            self.withhold(error)
            return error
        # What was being done may have stopped half-way: this state must neither answer nor be kept.
        log.error("model_failed", model=self.name, position=self.position, exc_info=error)
        self.fail(lambda: ModelFailed(f"model {self.name!r} failed; the server must be restarted"))
        return ModelFailed(f"model {self.name!r} failed; the server must be restarted")
