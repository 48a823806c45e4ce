"""Lifecycle of an online or trained model in this process, and the time since the store last responded."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar

import structlog

from manylabel_core.records import RecordEncoder
from manylabel_service.environment import time
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
from manylabel_service.hosting.kernels import NotCompiled
from manylabel_service.hosting.predictions import Prediction, PredictResult
from manylabel_service.hosting.signature import Signature
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelMeta

SILENCE_SECONDS = 3.0
"""Seconds without a response after which the store counts as unavailable; it is polled every second. The reason may be
that the store, or this process, was frozen."""


class StoreHealth:
    """Clock at the last response of the store, and the models that need it again."""

    def __init__(self) -> None:
        self._heard_at = time.monotonic()
        self._lost = False
        self._failed = set["HostedModel"]()

    @property
    def stale_seconds(self) -> float | None:
        """Seconds since which changes by other processes may be missing; None while the store responds."""
        silence = time.monotonic() - self._heard_at
        return silence if self._lost or silence > SILENCE_SECONDS else None

    def responded(self) -> bool:
        """Note a response of the store; return whether it was unavailable, so that changes may be missing."""
        was_lost = self.stale_seconds is not None
        self._heard_at, self._lost = time.monotonic(), False
        return was_lost

    def lost(self, model: "HostedModel | None" = None) -> None:
        """Note that a store call failed, of a model that must be polled once the store responds."""
        self._lost = True
        if model is not None:
            self._failed.add(model)

    def take_failed(self) -> set["HostedModel"]:
        """Return the models whose calls have failed since the last time."""
        failed, self._failed = self._failed, set()
        return failed


ErrorFactory = Callable[[], ServiceError]
"""Factory that creates an error per request, because an error that is raised repeatedly accumulates tracebacks."""

log = structlog.get_logger()


class ModelLifecycle(Enum):
    """Lifecycle state of a hosted model, which responds to requests in SERVING and STOPPING."""

    RESTORING = "it loads its state from the store"
    SERVING = "it predicts and learns"
    STOPPING = "it predicts, but accepts no more changes"
    EVICTED = "evicted from memory; the store has its state"
    DELETED = "the model is deleted, here or elsewhere"
    FAILED = "its state cannot be restored, or is damaged"
    CRASHED = "an unexpected error ended it; the registry restores it from the store"


class HostedModel(ABC):
    """Model in this process, with its waiting requests.

    Parameters
    ----------
    store_health : clock of the last response of the store; notified of failures.
    on_deleted : callback when the model was deleted by another process.
    on_crashed : callback when an unexpected error has ended the model; returns the error for the waiting requests.
    on_changed : callback when the memory of the model may have changed, or the model has ended.

    Attributes
    ----------
    record : metadata of the model in the store.
    state : lifecycle state.
    used_at : time.monotonic() of the last request.
    users : number of requests that use the model.
    """

    _answered: ClassVar[tuple[type[ServiceError], ...]]
    """Errors of a request that leave the model unchanged."""

    def __init__(
        self,
        record: ModelMeta,
        settings: Settings,
        store_health: StoreHealth,
        on_deleted: Callable[["HostedModel"], None],
        on_crashed: Callable[["HostedModel"], NotReady],
        on_changed: Callable[["HostedModel"], None],
    ) -> None:
        self.record = record
        self.state = ModelLifecycle.RESTORING
        self._incompatible: str | None = None
        self.used_at = time.monotonic()
        self.users = 0
        self._settings = settings
        self._store_health = store_health
        self._on_deleted = on_deleted
        self._on_crashed = on_crashed
        self._on_changed = on_changed
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
        """Position of the last log entry known to this process."""

    @property
    def log_position(self) -> str:
        """Position up to which this process knows the log."""
        return self.position

    @property
    def log_record(self) -> ModelMeta:
        """Model whose log this model reads."""
        return self.record

    @property
    def leads(self) -> bool:
        """True if the model reads its own log; a follower reads the log of its leader."""
        return self.log_record == self.record

    @property
    def log_ended(self) -> bool:
        """True if the model has read its part of the log to the end."""
        return False

    @property
    def catching_up(self) -> bool:
        """True while the model reads the log in the background before it serves."""
        return False

    async def catch_up(self, seconds: float) -> None:  # noqa: B027
        """Wait at most `seconds` while the model is catching up."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of memory of the model."""

    @property
    @abstractmethod
    def records(self) -> RecordEncoder | None:
        """Encoder of records; None if the model accepts only numbers."""

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """Number of labels for which a prediction has scores."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True while the model is reading the log."""

    @property
    @abstractmethod
    def waited_for(self) -> bool:
        """True while a request waits for a result."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """Return the status that GET /v1/models lists; raise NotReady unless the model is serving."""

    def details(self) -> dict[str, Any]:
        """Return the response of GET /v1/models/{m}; raise the errors of `status`."""
        return self.status()

    @abstractmethod
    def signature(self) -> Signature:
        """Return the inputs and outputs of the model; raise the errors of `status`."""

    @abstractmethod
    def gauges(self) -> dict[str, float]:
        """Return the gauges of the model for GET /metrics; raise the errors of `status`."""

    @abstractmethod
    def measures(self) -> dict[str, Any] | None:
        """Return the prequential metrics; None if unavailable; raise the errors of `status`."""

    @abstractmethod
    async def predict(
        self,
        xs: Sequence[Any],
        at_least: str | None = None,
        *,
        probabilities: bool = False,
        explainer: Explainer | None = None,
    ) -> PredictResult:
        """Predict examples of the model's kind; raises NoProbabilities.

        An `explainer` explains the predicted labels, and may raise InvalidField.
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
        """Store served predictions by id for delayed labels; `version` as in `PredictResult`.

        `records`, for an online model, are the examples as posted, in JSON.
        """

    @abstractmethod
    async def sync(self) -> ServiceError | None:
        """Apply the changes of other processes; return the error that prevented this, if any."""

    @abstractmethod
    def poll(self) -> None:
        """Read new log entries of other processes in the background."""

    @abstractmethod
    async def reach(self, position: str, seconds: float) -> bool:
        """Wait at most `seconds` until the model is at or after a position; return whether it is."""

    @abstractmethod
    async def cover(self) -> bool:
        """Ensure that the store can restore the model; return whether it can."""

    # -- life -------------------------------------------------------------------------------------

    @abstractmethod
    async def restore(self, verify: bool = False) -> None:
        """Restore the current state, and serve from then on.

        With `verify`, raise ReplayMismatch if this process computes another state than the one in the newest snapshot.
        """

    def start(self) -> None:
        """Start to serve."""
        self.state, self._refusal = ModelLifecycle.SERVING, None

    @property
    def serving(self) -> bool:
        """True while the model serves predictions, and follows the changes of other processes."""
        return self._refusal is None

    @property
    def failed(self) -> bool:
        """True if the state is damaged or unavailable."""
        return self.state in (ModelLifecycle.FAILED, ModelLifecycle.CRASHED)

    @property
    def crashed(self) -> bool:
        """True if an unexpected error has ended the model."""
        return self.state is ModelLifecycle.CRASHED

    @property
    def incompatible(self) -> str | None:
        """Error code that says why only another release can serve the model; None if this release can."""
        return self._incompatible

    @property
    def impaired(self) -> bool:
        """True if the model cannot serve all requests."""
        return self.failed

    @property
    def evictable(self) -> bool:
        """True while no request in this process uses the model or waits for it, and no client watches its events."""
        return self.state is ModelLifecycle.SERVING and not (self.users or self.waited_for or self.events.subscribers)

    def evict(self) -> None:
        """Evict the model."""
        self.end(ModelLifecycle.EVICTED, lambda: NotReady(f"model {self.name!r} is being loaded"))

    def fail(self, refusal: ErrorFactory) -> None:
        """Reject all requests with an error from `refusal`, because the state is damaged."""
        self.end(ModelLifecycle.FAILED, refusal)

    def withhold(self, error: IncompatibleRelease) -> None:
        """Reject all requests with this error, because another release must serve the model."""
        log.error("model_withheld", model=self.name, position=self.position, code=error.code, error=str(error))
        self._incompatible = error.code
        self.fail(lambda: type(error)(error.detail))

    def crash(self, error: Exception) -> NotReady:
        """End after an unexpected error, which may have left an operation incomplete; return the error for requests.

        This state must neither serve nor be stored: the registry restores the model from the store.
        """
        ended = self.state in (ModelLifecycle.CRASHED, ModelLifecycle.EVICTED, ModelLifecycle.DELETED)
        log.error("model_failed", model=self.name, position=self.position, exc_info=error)
        if ended:
            return NotReady(f"model {self.name!r} has ended")
        self.state = ModelLifecycle.CRASHED
        answer = self._on_crashed(self)
        self.end(ModelLifecycle.CRASHED, lambda: NotReady(answer.detail, answer.retry_after))
        return answer

    def stop_changes(self) -> None:
        """Reject further changes."""
        if self.state is ModelLifecycle.SERVING:
            self.state = ModelLifecycle.STOPPING

    @abstractmethod
    async def stop(self) -> None:
        """Finish waiting requests, and stop."""

    async def drop(self) -> None:
        """End without a snapshot because the model was deleted, and wait for the end."""
        self.end(ModelLifecycle.DELETED, lambda: ModelNotFound(self.name))

    def end(self, state: ModelLifecycle, refusal: ErrorFactory) -> None:
        """Fail every pending and future request with this error."""
        self.state, self._refusal = state, refusal
        self._on_changed(self)

    # -- implemented by subclasses ------------------------------------------------------------------

    def check_serving(self) -> None:
        """Raise the current error unless the model is serving."""
        if self._refusal is not None:
            raise self._refusal()

    def check_changeable(self) -> None:
        """Raise the current error unless the model accepts changes."""
        if self.state is not ModelLifecycle.SERVING:
            self.check_serving()
            raise NotReady("the server is stopping")

    async def wait_until(self, position: str) -> None:
        """Wait until the model is at or after a position; raise NotReady on a timeout."""
        seconds = self._settings.limits.position_wait_seconds
        if not await self.reach(position, seconds):
            self.check_serving()
            raise NotReady(f"model {self.name!r} did not reach position {position} within {seconds:g} s")

    def handle_error(self, error: Exception) -> ServiceError:
        """Handle an error, and return the error for the waiting requests."""
        if isinstance(error, ModelGone):
            self._on_deleted(self)
            self.end(ModelLifecycle.DELETED, lambda: ModelGone(self.name, self.record.incarnation))
            return error
        if isinstance(error, StorageUnavailable):
            self._store_health.lost(self)
            return error
        if isinstance(error, NotCompiled) or isinstance(error, self._answered):  # noqa: SIM101
            return error
        if isinstance(error, ModelDamaged):
            log.error("model_damaged", model=self.name, position=self.position, error=str(error))
            self.fail(lambda: ModelDamaged(error.name, error.detail))
            return error
        if isinstance(error, IncompatibleRelease):
            self.withhold(error)
            return error
        if isinstance(error, ModelFailed):
            log.error("model_failed", model=self.name, position=self.position, error=str(error))
            self.fail(lambda: type(error)(error.detail))
            return error
        return self.crash(error)
