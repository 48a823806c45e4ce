"""Trained model: versions in the store, one of which is in memory and predicts.

While another version is loaded in a thread, the previous one predicts; then it is replaced in one step. Each response
is from one version, and its position is the position of the catalogue.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from manylabel_core.datasets.label_details import LabelDetails
from manylabel_core.records import RecordEncoder
from manylabel_service.errors import (
    IncompatibleRelease,
    ModelDamaged,
    ModelGone,
    NotReady,
    NoVersionServed,
    ServiceError,
    StorageUnavailable,
    VersionDiffers,
    VersionNotFound,
    VersionServed,
)
from manylabel_service.hosting.events import Events
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.hosting.hosted_model import ErrorFactory, HostedModel, ModelLifecycle
from manylabel_service.hosting.kernels import NotCompiled
from manylabel_service.hosting.predictions import Prediction, PredictResult
from manylabel_service.hosting.signature import Signature
from manylabel_service.online.host import Host
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.trained import TRAINED
from manylabel_service.online.state.served_metrics import VersionMeasures
from manylabel_service.online.updates.replay import HOPELESS
from manylabel_service.storage import ModelMeta, position_key
from manylabel_service.trained.active_version import ActiveVersion, OtherVersions
from manylabel_service.trained.inputs import Inputs
from manylabel_service.trained.predictor import Predictor
from manylabel_service.trained.version import Version
from manylabel_service.trained.version_store import Promoted, VersionCatalogue, VersionStore

INLINE_EXAMPLES = 100
INLINE_WORK = 1_000_000
"""Maximum number of examples, and of multiplications, for a prediction on the event loop, which takes about a
millisecond; larger predictions run in a thread."""

EXPLAINING = 20
"""Cost of explaining an example, as a multiple of predicting one."""

END = str(2**63 - 1)
"""Position after the end of any log, used to wait for deletion only."""

_GAUGES = ("queue_depth", "snapshot_age_seconds", "snapshot_bytes", "kept_prediction_bytes")
"""Gauges of the log of the model's delayed labels."""

LONG_AT_A_TIME = 2
"""Maximum number of threads that predict for one model."""

T = TypeVar("T")

log = structlog.get_logger()


class TrainedModel(HostedModel):
    """Trained model in this process, which serves one of its versions.

    Attributes
    ----------
    answers : metrics of served predictions, by delayed labels: a replica of the model's log, whose positions are
        unrelated to those of versions. If it fails, versions continue to predict.
    """

    _answered = (ServiceError,)

    def __init__(self, record: ModelMeta, host: Host) -> None:
        settings = host.settings
        super().__init__(record, settings, host.store_health, host.on_deleted, host.on_crashed, host.on_changed)
        own = replace(host, on_deleted=self._gone, on_crashed=self._crashed, on_changed=self._noted)
        self.answers = Replica(record, own)
        self._events = Events(record.name, lambda: self._active)
        self._versions = VersionStore(record, host.store, self._heard)
        self._active = ActiveVersion(record.name, self._versions, self._events, settings.record_limits, self._noted)
        self._others = OtherVersions(self._active.read)
        self._default_records = RecordEncoder(None, settings.record_limits)
        self._behind = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._long = asyncio.Semaphore(LONG_AT_A_TIME)
        self._waiting = 0  # requests that wait for a read or a change
        self._busy = False

    @property
    def events(self) -> Events:
        return self._events

    @property
    def position(self) -> str:
        """Position of the known catalogue; the served version may lag behind."""
        return self._versions.catalogue.position

    @property
    def nbytes(self) -> int:
        serving = 0 if self._active.serving is None else self._active.serving.nbytes
        return serving + self._others.nbytes + (0 if self.answers.failed else self.answers.nbytes)

    @property
    def log_position(self) -> str:
        return END if self.answers.failed else self.answers.position

    @property
    def n_labels(self) -> int:
        return 0 if self._active.serving is None else len(self._active.serving.labels)

    @property
    def records(self) -> RecordEncoder | None:
        """Encoder of records of the served version; None if it was trained on numbers."""
        serving = self._active.serving
        if serving is None:
            return self._default_records
        return None if serving.text is None else serving.records

    def status(self) -> dict[str, Any]:
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
            "text": None if serving is None or serving.text is None else serving.text.to_json(),
            "bytes": self.nbytes,
            "metrics": self.measures(),
        }

    def details(self) -> dict[str, Any]:
        """Return the status with the fields that the served version knows. Raises the errors of `status`."""
        status, serving = self.status(), self._active.serving
        return {**status, "fields": [] if serving is None else list(serving.fields)}

    def signature(self) -> Signature:
        """Return the inputs and outputs of the served version; raises the errors of `status`, NoVersionServed or
        VersionDamaged."""
        self.check_serving()
        return self._active.on()[0].signature(list(self._versions.catalogue.versions))

    async def signature_of(self, number: int) -> Signature:
        """Return the inputs and outputs of a version. Raises NotReady, VersionNotFound, VersionDamaged,
        StorageUnavailable or ModelGone."""
        self.check_serving()
        return (await self._loaded(number)).signature(list(self._versions.catalogue.versions))

    def measures(self) -> dict[str, Any] | None:
        self.check_serving()
        if self._active.serving is None or not self.answers.serving:
            return None
        return self.answers.measured(self._active.serving.version.number).measures()

    async def measured(self, number: int | None) -> tuple[int, VersionMeasures, str]:
        """Return the number of a version (default: the served one), its metrics, and the position of the log.

        Raises NotReady, NoVersionServed, VersionNotFound, VersionDamaged, StorageUnavailable or ModelGone.

        Metrics of a deleted version remain.
        """
        self.check_serving()
        if number is None:
            number = self._active.on()[0].version.number
        measured, serving = self.answers.measured(number), self._active.serving
        if not measured.updates and serving is not None and serving.version.number == number:
            measured = VersionMeasures(serving.labels)
        elif not measured.updates:
            await self._stored(self._versions.find(number))
        return number, measured, self.answers.position

    def label_details(self, number: int) -> LabelDetails:
        """Return the titles, descriptions and URIs of labels if this version is served; otherwise an empty result."""
        serving = self._active.serving
        return serving.label_details if serving is not None and serving.version.number == number else {}

    def gauges(self) -> dict[str, float]:
        status = self.status()
        watched = {} if not self.answers.serving else self.answers.gauges()
        return {
            **{name: watched[name] for name in _GAUGES if name in watched},
            "model_labels": status["labels"],
            "model_features": status["features"],
            "model_bytes": status["bytes"],
            "model_version": status["version"] or 0,
        }

    # -- lifecycle --------------------------------------------------------------------------------

    async def restore(self, verify: bool = False) -> None:
        """Read the catalogue and load the served version; the model predicts from then on. Raises UnreadableEntry,
        StorageUnavailable or ModelGone."""
        await self._versions.read()
        await self._active.catch_up()
        await self._restore_answers(verify)
        self.start()
        self._active.start()
        self._task = asyncio.create_task(self._follow(), name=f"trained {self.record.name}")

    async def _restore_answers(self, verify: bool) -> None:
        """Restore the metrics; if that fails, versions are served without them."""
        try:
            await self.answers.restore(verify)
        except (StorageUnavailable, ModelGone, MemoryError, NotCompiled):
            raise
        except IncompatibleRelease as error:
            self.answers.withhold(error)
        except HOPELESS as error:
            detail, action = (
                f"the labels of its predictions: {error}",
                "repair the store, or delete it; it still predicts",
            )
            log.error("model_damaged", model=self.name, error=detail, action=action)
            self.answers.fail(lambda: ModelDamaged(self.name, detail))
        except Exception as error:
            self.answers.crash(error)

    def _crashed(self, answers: HostedModel) -> NotReady:
        """Schedule a restore of the model, because its metrics have failed; meanwhile, its versions predict."""
        return self._on_crashed(self)

    def _noted(self, *_: HostedModel) -> None:
        """Note that the memory may have changed."""
        self._on_changed(self)

    def _gone(self, answers: HostedModel) -> None:
        """Handle the deletion of the model by another server."""
        self.handle_error(ModelGone(self.name, self.record.incarnation))

    @property
    def incompatible(self) -> str | None:
        return super().incompatible or self.answers.incompatible

    @property
    def crashed(self) -> bool:
        """True if an unexpected error has ended the model or its metrics."""
        return super().crashed or self.answers.crashed

    @property
    def impaired(self) -> bool:
        """True if the model, its served version or its metrics are damaged."""
        return self.failed or self.answers.failed or self._active.load_error is not None

    @property
    def busy(self) -> bool:
        return self._busy or self.answers.busy

    @property
    def waited_for(self) -> bool:
        return bool(self._waiting or self._busy or self._active.busy or self._others.busy or self.answers.waited_for)

    def poll(self) -> None:
        self._behind.set()
        self.answers.poll()

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
        """Ensure a snapshot of the delayed labels; all other data is already in the store."""
        return self.answers.failed or await self.answers.cover()

    def end(self, state: ModelLifecycle, refusal: ErrorFactory) -> None:
        super().end(state, refusal)
        if self._task is not None:
            self._task.cancel()
        self._active.stop()
        self.answers.end(state, refusal)

    def stop_changes(self) -> None:
        super().stop_changes()
        self.answers.stop_changes()

    async def stop(self) -> None:
        """Stop the model, with a last snapshot of the metrics."""
        self.stop_changes()
        await self._ended()
        await self.answers.stop()

    async def drop(self) -> None:
        await super().drop()
        await self._ended()
        await self.answers.drop()

    async def _ended(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._active.stop()
        await self._active.ended()

    async def _follow(self) -> None:
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
        self._others.keep(catalogue)
        self._noted()
        changes = catalogue.changes_after(before.position)
        if changes is None or position_key(catalogue.position) < position_key(before.position):
            self._active.lost()
        else:
            self._active.observe(changes)

    # -- predictions ------------------------------------------------------------------------------

    async def predict(
        self,
        xs: Sequence[Inputs],
        at_least: str | None = None,
        *,
        probabilities: bool = False,
        explainer: Explainer | None = None,
        version: int | None = None,
    ) -> PredictResult:
        """Predict by the version that is served when the prediction begins; long work is done in a thread. Raises
        NotReady, InvalidExample, NoProbabilities, InvalidField, NoVersionServed, VersionDamaged, VersionNotFound,
        StorageUnavailable or ModelGone.

        Parameters
        ----------
        xs : examples.
        at_least : position up to which the response must include all changes; the call waits for it up to a timeout.
        probabilities : whether the predictions have probabilities.
        explainer : explains the predicted labels.
        version : number of another version to predict with.
        """
        self.check_serving()
        if at_least is not None:
            await self.wait_until(at_least)
        if version is None:
            serving, position = self._active.on()
        else:
            serving, position = await self._loaded(version), self._active.position
        cost = 1 if explainer is None else EXPLAINING
        if cost * len(xs) <= INLINE_EXAMPLES and cost * serving.work(xs) <= INLINE_WORK:
            predictions = serving.predict(xs, probabilities=probabilities, explainer=explainer)
        else:
            async with self._long:
                predictions = await asyncio.to_thread(
                    serving.predict, xs, probabilities=probabilities, explainer=explainer
                )
        return PredictResult(predictions, position, self._store_health.stale_seconds, serving.version.number)

    async def keep(
        self,
        ids: Sequence[str],
        xs: Sequence[Inputs],
        predictions: Sequence[Prediction],
        version: int | None = None,
        records: Sequence[bytes] | None = None,
    ) -> None:
        """Store only the prediction of a version, for delayed labels; raises the errors of `Replica.keep`."""
        await self.answers.keep(ids, (), predictions, version)

    async def _loaded(self, number: int) -> Predictor:
        """Return the served version, or another one, which is loaded if it is not in memory."""
        serving, listed = self._active.serving, self._versions.catalogue.versions.get(number)
        if serving is not None and serving.version.listed == listed:
            return serving
        found = None if listed is None else self._others.find(listed.id)
        if found is not None:
            return found
        return await self._stored(self._find_and_load(number))

    async def _find_and_load(self, number: int) -> Predictor:
        try:
            return await self._others.load(await self._versions.find(number))
        finally:
            self._noted()

    # -- versions ---------------------------------------------------------------------------------

    async def versions(self) -> tuple[list[Version], int | None, list[int]]:
        """Return the versions, newest first, the number of the served version, and the numbers of damaged versions.

        Raises NotReady, StorageUnavailable or ModelGone.
        """
        self.check_serving()
        versions, served, damaged = await self._stored(self._versions.all())
        return sorted(versions, key=lambda version: -version.number), served, damaged

    async def version(self, number: int | None) -> tuple[Version, bytes]:
        """Return a version (default: the served one) with its stored artifact.

        Raises NotReady, NoVersionServed, VersionNotFound, VersionDamaged, StorageUnavailable or ModelGone.
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
        """Serve a version, here and on every other server, from one position on.

        Raises NotReady, VersionNotFound, VersionDiffers, VersionDamaged, StorageUnavailable or ModelGone.

        The version is loaded here first, and not promoted if this fails. A version with other features or scaling than
        the served one needs `force`.
        """
        with self._changing():
            loaded = await self._active.load(await self._stored(self._versions.find(number)))
            promoted = await self._stored(self._versions.promote(number, force=force))
            self._active.is_current(loaded)
            return promoted

    async def retire(self, number: int) -> None:
        """Delete a version. Raises NotReady, VersionNotFound, VersionServed, StorageUnavailable or ModelGone."""
        with self._changing():
            await self._stored(self._versions.delete(number))
            try:
                await self._versions.collect_garbage()
            except StorageUnavailable as error:  # the version no longer exists; its bytes are deleted with the next one
                log.warning("version_delete_failed", model=self.name, version=number, error=str(error))

    async def _stored(self, call: Awaitable[T]) -> T:
        """Return the result of a store call; handle errors that do not concern the version."""
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
