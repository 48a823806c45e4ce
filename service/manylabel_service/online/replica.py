"""Hosted online model: the requests to it, and the application of its log.

All access to the model is on the event loop, in time slices, except for the thread that serialises a snapshot while the
applier pauses. Updates go through the log; a prediction waits only if it requests a position that is not reached yet.
"""

import asyncio
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from manylabel_core.promise import Decision
from manylabel_core.records import RecordEncoder
from manylabel_service.errors import (
    BeforeHistory,
    DurabilityUnavailable,
    InvalidExample,
    InvalidField,
    KeyReused,
    LimitExceeded,
    LogLost,
    LogTrimmed,
    ModelFollows,
    NoProbabilities,
    NotReady,
    ServiceError,
    SnapshotNotFound,
)
from manylabel_service.hosting.events import Events
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.hosting.hosted_model import ErrorFactory, HostedModel, ModelLifecycle
from manylabel_service.hosting.predictions import Prediction, PredictResult
from manylabel_service.hosting.signature import EXAMPLE, Signature
from manylabel_service.hosting.store_health import StoreHealth
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.label_next import RankedPredictions, UnitRow, Unlabelled, spread, unit_row
from manylabel_service.online.prediction_store import PredictionStore, StoredPrediction
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.snapshots.snapshotter import Snapshotter
from manylabel_service.online.spec.follow import Follow, follow_of
from manylabel_service.online.spec.release import ClusterVersion
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.beginning import beginning, spec_of_follower
from manylabel_service.online.state.controls import Control, Rollback
from manylabel_service.online.state.label_table import measured
from manylabel_service.online.state.log_entries import Update, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome, UpdateResult
from manylabel_service.online.state.served_metrics import ServedBy, VersionMeasures
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.online.updates.admission import Admission, Admitted
from manylabel_service.online.updates.applier import Applier
from manylabel_service.online.updates.in_flight_keys import InFlightKeys
from manylabel_service.online.updates.past_states import PastStates, Verified
from manylabel_service.online.updates.update_queue import UpdateQueue
from manylabel_service.settings import Settings
from manylabel_service.slices import HalfPace, SliceSize, in_slices
from manylabel_service.storage import (
    POSITION,
    SEED,
    START,
    Entry,
    ManualSnapshot,
    ModelMeta,
    SnapshotMeta,
    Store,
    position_key,
)

T = TypeVar("T")

ALIKE_AMONG = 20
"""Number of candidates checked for near-duplicates, as a multiple of the limit."""


class Replica(HostedModel):
    """Online model in this process, which applies the log of the model and serves its requests.

    Parameters
    ----------
    store : where its log and its snapshots are.
    record, settings, store_health, on_deleted : as in every hosted model.
    snapshot_room : quota shared with other models; None: a separate quota.
    in_use : versions in which this process writes.
    pace : pace shared with the other followers of this process; None: a separate pace.

    Attributes
    ----------
    follow : followed log of another model; None: it has a separate log.
    """

    _answered = (DurabilityUnavailable, LogTrimmed, LogLost)

    def __init__(
        self,
        record: ModelMeta,
        store: Store,
        settings: Settings,
        store_health: StoreHealth | None = None,
        on_deleted: Callable[[HostedModel], None] = lambda model: None,
        snapshot_room: SnapshotQuota | None = None,
        in_use: ClusterVersion | None = None,
        pace: HalfPace | None = None,
    ) -> None:
        super().__init__(record, settings, store_health, on_deleted)
        self.spec = read_spec(record.spec)
        self.follow = follow_of(record.spec)
        self._caught_up = asyncio.Event()
        self.durability = self.spec.durability or settings.durability
        text = None if self.spec.text is None else self.spec.text.settings()
        self._records = RecordEncoder(text, settings.record_limits)
        self.queue = UpdateQueue(record.name, settings)
        self._in_use = in_use or ClusterVersion()
        self._store = store
        self.snapshotter = Snapshotter(record, store, settings, snapshot_room, self.queue.wake, self._in_use)
        self._snapshot_reader = SnapshotReader(record, store)
        self._applier = Applier(
            record,
            OnlineModel(self.spec),
            self.durability,
            store,
            self.queue,
            self._snapshot_reader,
            self.snapshotter,
            self.handle_error,
            self._on_caught_up,
            pace,
            settings.max_model_bytes,
        )
        self._admission = Admission(record.name, settings, self._in_use)
        self._keys = InFlightKeys()
        self._prediction_store = PredictionStore(record, store, settings)
        self._predict_slice, self._explain_slice = SliceSize(), SliceSize()

    @property
    def model(self) -> OnlineModel:
        """Current state; another object after a restore."""
        return self._applier.model

    @property
    def position(self) -> str:
        return self._applier.model.position

    @property
    def nbytes(self) -> int:
        return self._applier.model.nbytes

    @property
    def weighed_at(self) -> str:
        """Current position, at which `nbytes` was computed."""
        return self._applier.model.position

    @property
    def records(self) -> RecordEncoder:
        """Encoder of records, with the text settings of the spec."""
        return self._records

    @property
    def n_labels(self) -> int:
        return len(self._applier.model.labels)

    @property
    def events(self) -> Events:
        return self._applier.events

    def status(self) -> dict[str, Any]:
        """Return the response to GET /v1/models/{m}.

        Raises
        ------
        NotReady
            The model is being restored, or could not be restored.
        """
        self.check_serving()
        model = self.model
        spec = model.online_spec
        return {
            **spec.described(),
            **({} if self.follow is None else {"follow": self.follow.to_json()}),
            "durability": self.durability,
            "position": model.position,
            "updates": model.updates,
            "labels": len(model.labels),
            **model.groups.to_json(model.labels.names),
            **model.promises.to_json(),
            "features": len(model.features),
            "bytes": model.nbytes,
            "ignored": model.ignored,
            "unseen_words": model.words.share,
            "metrics": self.measures(),
        }

    def signature(self) -> Signature:
        """Return the names of inputs and labels; raises like `status`."""
        self.check_serving()
        model = self.model
        vectors = dict(model.features.layout.vectors)
        inputs = {EXAMPLE: model.features.layout.n_dense, **vectors}
        hidden = model.hidden
        labels = [name for name in model.labels.names if name not in hidden]
        return Signature(
            model.online_spec.algorithm, inputs, labels, self.has_probabilities, self._records, vectors=tuple(vectors)
        )

    def measures(self) -> dict[str, Any]:
        """Return the metrics, cumulative and of the window, and drift if it is detected; raise like `status`."""
        self.check_serving()
        return {**measured(self.model.prequential), **self.model.drift()}

    def gauges(self) -> dict[str, float]:
        """Return the gauges for GET /metrics; raises like `status`."""
        self.check_serving()
        model = self.model
        ignored = {f"model_ignored_{kind}": count for kind, count in model.ignored.items()}
        return {
            **(ignored if model.limits.ignores else {}),
            "model_labels": len(model.labels),
            "model_features": len(model.features),
            "model_bytes": model.nbytes,
            "queue_depth": self.queue.examples,
            "snapshot_age_seconds": time.monotonic() - self.snapshotter.taken_at,
            "snapshot_bytes": self.snapshotter.size_bytes,
            "history_bytes": self.snapshotter.archiver.size_bytes,
            "kept_prediction_bytes": self._prediction_store.kept_bytes,
        }

    # -- lifecycle --------------------------------------------------------------------------------

    async def restore(self, ask: Callable[[], bool] | None = None) -> None:
        """Load the newest intact snapshot and replay the log after it; then start to serve.

        With `ask`, which requests a snapshot from other processes, it first verifies that it computes the same state.

        Raises
        ------
        ReplayMismatch
            It computes another state.
        LogTrimmed, LogLost, TargetLost, UnreadableEntry
            The current state cannot be computed.
        StorageUnavailable, ModelGone
        """
        await self._applier.restore(ask)
        self.start()

    def start(self) -> None:
        """Start to serve; a follower, once it has caught up. A new model needs no `restore`."""
        if self.follow is None:
            super().start()
        else:
            self._refusal = lambda: NotReady(f"model {self.name!r} has only reached position {self.position}")
        self._applier.start()

    @property
    def catching_up(self) -> bool:
        """True while a follower has not yet reached the end of the log for the first time."""
        return self.follow is not None and self.state is ModelLifecycle.RESTORING

    async def catch_up(self, seconds: float) -> None:
        """Wait at most `seconds` until a follower has caught up, or has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._caught_up.wait()

    @property
    def log_ended(self) -> bool:
        return self._applier.log_ended

    def _on_caught_up(self) -> None:
        if self.catching_up:
            super().start()
        self._caught_up.set()

    @property
    def log_record(self) -> ModelMeta:
        return self.record if self.follow is None else self.follow.record

    @property
    def busy(self) -> bool:
        return self._applier.busy

    @property
    def waited_for(self) -> bool:
        """True while a request waits for this replica's work, or a snapshot is being stored."""
        return bool(self._applier.waited_for or self._keys or self.snapshotter.busy)

    def poll(self) -> None:
        self._applier.poll()

    async def sync(self) -> ServiceError | None:
        return await self._applier.sync()

    async def reach(self, position: str, seconds: float) -> bool:
        return await self._applier.reach(position, seconds)

    async def cover(self) -> bool:
        """Ensure that a snapshot is up to date; return whether one is. Raises NotReady, StorageError or ModelGone."""
        if not await self.snapshotter.covers(self.model.position):
            await self.take_snapshot()
        return self.model.position == self.snapshotter.covered

    def snapshot_soon(self) -> None:
        self.snapshotter.soon()
        self.queue.wake()

    def end(self, state: ModelLifecycle, refusal: ErrorFactory) -> None:
        super().end(state, refusal)
        self._caught_up.set()
        self.queue.refuse(refusal)
        self._applier.end(refusal())

    async def stop(self) -> None:
        """Reject new updates, finish the queued ones, and take a last snapshot."""
        self.stop_changes()
        await self._applier.stop()
        if self.serving and self._store_health.stale_seconds is None:
            await self.snapshotter.take_last(self.model)

    async def drop(self) -> None:
        await super().drop()
        await self._applier.cancel()
        await self.snapshotter.drop()

    # -- predictions ------------------------------------------------------------------------------

    @property
    def has_probabilities(self) -> bool:
        """True if its predictions may have probabilities."""
        return self.model.learner.calibrate

    async def predict(
        self,
        xs: Sequence[Features],
        at_least: str | None = None,
        *,
        probabilities: bool = False,
        explainer: Explainer | None = None,
    ) -> PredictResult:
        """Predict without learning; a long batch yields to other requests between slices. Raises NotReady,
        InvalidExample, NoProbabilities or InvalidField.

        Parameters
        ----------
        xs : examples.
        at_least : position that the response must include; waits for it up to a timeout.
        probabilities : whether to return probabilities.
        explainer : explains the predicted labels.
        """
        self.check_serving()
        if probabilities:
            self._check_probabilities()
        if at_least is not None:
            await self.wait_until(at_least)
        slices = self._predict_slice if explainer is None else self._explain_slice

        def predict_part(begin: int, part: Sequence[Features]) -> Sequence[Prediction]:
            model = self._applier.model
            for index, x in enumerate(part, begin):
                model.features.check(index, x)
            predictions = model.predict(part, probabilities)
            if explainer is None:
                return predictions
            pairs = zip(part, predictions, strict=True)
            return [one._replace(explanations=model.explain(x, one.labels, explainer)) for x, one in pairs]

        predictions = await self._in_slices(xs, predict_part, slices)
        return PredictResult(predictions, self._applier.model.position, self._store_health.stale_seconds)

    async def _in_slices(
        self,
        xs: Sequence[Features],
        work: Callable[[int, Sequence[Features]], Sequence[T]],
        slices: SliceSize | None = None,
    ) -> list[T]:
        """Return the results of `work` for slices of examples, each called with the index of its first example.

        `slices` adapts the size of slices; None: that of predictions.
        """
        slices = slices or self._predict_slice
        made: list[T] = []
        while (begin := len(made)) < len(xs):
            if begin:
                await asyncio.sleep(0)
            part = xs[begin : begin + slices.examples]
            if (learning := self._applier.learning).locked():
                async with learning:
                    made += _timed(work, begin, part, slices)
            else:
                made += _timed(work, begin, part, slices)
        return made

    def _check_probabilities(self) -> None:
        if not self.has_probabilities:
            raise NoProbabilities()

    async def keep(
        self,
        ids: Sequence[str],
        xs: Sequence[Features],
        predictions: Sequence[Prediction],
        version: int | None = None,
        records: Sequence[bytes] | None = None,
    ) -> None:
        """Store the features and predictions; raises like `PredictionStore.put`.

        For a version of a trained model, only its predictions are stored.
        """
        self.check_serving()
        self.check_leads()
        if version is not None:
            await self._prediction_store.put_answers(ids, predictions, version)
            return
        # Predictions without hidden labels are stored with the columns of the other labels.
        columns_of = self.model.labels.lookup if self.model.hidden else None
        await self._prediction_store.put(ids, xs, predictions, columns_of, records)

    async def kept(self, ids: Sequence[str], truths: Sequence[Labels]) -> list[StoredPrediction]:
        """Return the stored predictions of these ids, whose true labels, or some of them, are now known.

        Raises PredictionLabelled if one has these labels already, and the errors of `PredictionStore.get`.
        """
        self.check_serving()
        self.check_leads()
        current = [self.model.resolve(y) for y in truths]
        self.model.labelled.check(ids, current, self.model.labels.lookup)
        return await self._prediction_store.get(ids)

    async def label_next(self, limit: int, order: str) -> RankedPredictions:
        """Return stored predictions without labels. Raises NotReady, StorageUnavailable or ModelGone.

        Parameters
        ----------
        limit : maximum number returned.
        order : "newest" first; "uncertainty": most uncertain first, near-duplicates last; "review": those that need
        review by the served decision, most uncertain first. At most the newest `max_ranked_predictions` are compared.
        """
        self.check_serving()
        by_uncertainty = order != "newest"
        most = self._settings.limits.max_ranked_predictions if by_uncertainty else limit
        ranked: list[tuple[float, str]] = []
        async for page in self._prediction_store.newest(self._waits_for_labels, most):
            if order == "review":
                page = [(id, one) for id, one in page if _needs_review(one)]
            uncertain = await self._in_slices([kept.x for _, kept in page], self._uncertainties)
            ranked += [(-one, id) for one, (id, _) in zip(uncertain, page, strict=True) if not math.isnan(one)]
        if by_uncertainty:
            ranked.sort()
        chosen = await self._prediction_store.find([id for _, id in ranked[: ALIKE_AMONG * limit]])
        if order == "uncertainty":
            chosen = await _without_repeats(chosen, limit)
        return await self._described(chosen[:limit], {id: -one for one, id in ranked})

    async def needing_review(self, since_ms: int, until_ms: int, least: float) -> list[tuple[float, str]]:
        """Return unlabelled stored predictions that need review, most uncertain first, with ids.

        If the model promises a precision, the served decision counts, as in the order "review" of `label_next`. At most
        the newest `max_ranked_predictions` of a time are compared. Raises NotReady, StorageUnavailable or ModelGone.

        Parameters
        ----------
        since_ms, until_ms : bounds of their time in milliseconds of Unix time; the first is excluded.
        least : uncertainty, 0 to 1, from which a prediction needs review if the model promises no precision.
        """
        self.check_serving()
        found: list[tuple[float, str]] = []
        most, promised = self._settings.limits.max_ranked_predictions, self.model.promises.promise is not None
        async for page in self._prediction_store.newest(self._waits_for_labels, most, since_ms, until_ms):
            if promised:
                page = [(id, one) for id, one in page if _needs_review(one)]
            ranked = await self._in_slices([kept.x for _, kept in page], self._uncertainties)
            found += [(one, id) for one, (id, _) in zip(ranked, page, strict=True) if one >= (0 if promised else least)]
        return sorted(found, reverse=True)

    def _waits_for_labels(self, id: str) -> bool:
        labelled = self.model.labelled
        return id > labelled.floor and id not in labelled

    def _uncertainties(self, begin: int, part: Sequence[Features]) -> Sequence[float]:
        """Return the uncertainty of each example; NaN for examples that no longer fit the model."""
        return self._applier.model.uncertainties(part)

    async def _described(
        self, chosen: Sequence[tuple[str, StoredPrediction]], uncertain: Mapping[str, float]
    ) -> RankedPredictions:
        predicted = await self.predict([kept.x for _, kept in chosen], probabilities=self.has_probabilities)
        names, hidden = self.model.labels.names, self.model.hidden
        described = [
            Unlabelled(id, uncertain[id], one, kept.record, *_served(kept.decision, names, hidden))
            for (id, kept), one in zip(chosen, predicted.predictions, strict=True)
        ]
        return RankedPredictions(described, len(uncertain), predicted.position, self.model.updates)

    # -- updates ----------------------------------------------------------------------------------

    def check_changeable(self) -> None:
        """Raise the current error unless the model accepts changes, which a follower never does."""
        self.check_leads()
        super().check_changeable()

    def check_leads(self) -> None:
        """Raise ModelFollows if the model follows another."""
        if self.follow is not None:
            raise ModelFollows(self.name, self.follow.model)

    async def update(
        self,
        examples: Sequence[Example],
        *,
        key: IdempotencyKey | None = None,
        want_predictions: bool = False,
        want_probabilities: bool = False,
        prediction_ids: Sequence[str] | None = None,
        served: Sequence[NDArray[np.float64]] | None = None,
        answered: Sequence[ServedBy] | None = None,
        decisions: Sequence[Decision | None] | None = None,
        stream: StreamPart | None = None,
        refuse_each: bool = False,
        deadline: float = math.inf,
    ) -> UpdateResult:
        """Learn the examples in order, all or none; return when they are in the log and learnt.

        Parameters
        ----------
        examples : at least one.
        key : idempotency key of the request; a retry gets the first response.
        want_predictions : whether to return the prediction of each example just before it was learnt.
        want_probabilities : whether to return their probabilities too.
        prediction_ids : ids of the stored predictions whose labels the examples have; each label once.
        served : served scores of each, as in `StoredPrediction`.
        answered : version of a trained model that served each.
        decisions : that were served then, of each, where precision was promised.
        stream : where the examples stand in a stream; lines learnt before are skipped.
        refuse_each : whether examples are refused one by one, and the others learnt; the response has the errors then.
        deadline : time.monotonic() at which the update is refused if those before it are not done; without one it
            waits for as long as it takes.

        Raises
        ------
        NotReady, InvalidExample, KeyInFlight, KeyReused, QueueFull, LimitExceeded, PredictionError, StorageUnavailable
        NoProbabilities
        ModelGone
            The model was deleted elsewhere; nothing was learnt. There may be a new one under its name.
        """
        self.check_changeable()
        if want_probabilities:
            self._check_probabilities()
        if (earlier := await self.replayed(key)) is not None:
            return earlier
        ids = None if prediction_ids is None else tuple(prediction_ids)
        update = Update(
            tuple(examples),
            self.durability,
            key,
            want_predictions,
            ids,
            stream,
            want_probabilities,
            None if served is None else tuple(served),
            None if answered is None else tuple(answered),
            None if decisions is None else tuple(decisions),
        )
        with self._keys.hold(key):
            result, refused = await self._learn(update, refuse_each, deadline)
        if result is None:
            return UpdateResult(self.position, self.model.updates, self.durability, (), replayed=False, refused=refused)
        answer = self._answer(result)
        return answer._replace(refused=refused) if refused else answer

    async def rollback(self, to: str | int, key: IdempotencyKey | None = None) -> UpdateResult:
        """Return to an earlier state, here and on every other replica at the same entry.

        Parameters
        ----------
        to : position in the history, position or name of a snapshot, or time (milliseconds of Unix time).
        key : idempotency key of the request.

        Raises
        ------
        SnapshotNotFound
            No intact snapshot has the name.
        PositionNotFound, BeforeHistory, HistoryDamaged
        NotReady, KeyInFlight, KeyReused, QueueFull, LimitExceeded, StorageUnavailable, ModelGone
        """
        self.check_changeable()
        if (earlier := await self.replayed(key)) is not None:
            return earlier
        with self._keys.hold(key):
            rollback = Rollback(await self._kept_state(to), self.durability, key)
            self.check_changeable()
            outcome = await self._appended(rollback)
        self.snapshot_soon()
        return self._answer(outcome)

    async def _kept_state(self, at: str | int) -> str:
        """Protect a state for as long as the log needs it; return its position. Raises like `rollback`."""
        if isinstance(at, str):
            try:
                return await self._snapshot_reader.pin(at)
            except SnapshotNotFound:
                if not re.fullmatch(POSITION, at):
                    raise
        model = await self.state_at(at)
        data = await asyncio.to_thread(model.to_buffer, self._in_use.versions.format)
        await self.snapshotter.archiver.put_state(model.position, model.updates, data)
        return model.position

    async def change(self, entry: Control) -> UpdateResult:
        """Change the model by a control entry other than a rollback, here and on every other replica.

        Raises
        ------
        LabelNotFound, LabelExists, LabelsDeclared, InvalidField
            The entry does not fit the model, which has not changed.
        NotReady, KeyInFlight, KeyReused, QueueFull, LimitExceeded, StorageUnavailable, ModelGone
        """
        self.check_changeable()
        if (earlier := await self.replayed(entry.key)) is not None:
            return earlier
        with self._keys.hold(entry.key):
            self._admission.check_control(self.model, entry)
            return self._answer(await self._appended(entry))

    async def _appended(self, change: Control) -> ApplyResult:
        return await self.queue.put(change, encode(change, self._in_use.versions.format), None)

    def measured(self, version: int) -> VersionMeasures:
        """Return the metrics of a version of the trained model; raise like `status`."""
        self.check_serving()
        assert self.model.answers is not None
        return self.model.answers[version]

    def check_wait(self) -> None:
        """Raise QueueFull if a new update would exceed the maximum wait."""
        self.queue.check_wait()

    def answer_sizes(self, examples: Iterable[Example]) -> list[int]:
        """Return the number of scores, one per known label, of the prediction just before each example is learnt."""
        labels, new = self.model.labels, set[str]()
        sizes = []
        for _, y, *_ in examples:
            sizes.append(len(labels) + len(new))
            new.update(labels.unknown(y.names))
        return sizes

    def has_seen(self, key: IdempotencyKey) -> bool:
        """Return whether an update with this key is in progress or remembered."""
        return key.key in self._keys or key.key in self.model.keys

    async def replayed(self, key: IdempotencyKey | None) -> UpdateResult | None:
        """Return the result of an earlier request with this key; None if this is the first. Raises NotReady,
        KeyInFlight, KeyReused, StorageUnavailable or ModelGone."""
        earlier = await self._stored_answer(key)
        return None if earlier is None else self._updated(earlier, replayed=True)

    async def _stored_answer(self, key: IdempotencyKey | None) -> UpdateOutcome | None:
        """Return the response stored for the key; None for the first request with it.

        Only after checking that the model still exists, because the name may belong to another model now.
        """
        try:
            if self._keys.stored_answer(key, self.model.keys) is None:
                return None
        except KeyReused:
            pass
        error = await self.sync()
        self.check_changeable()
        if error is not None:
            raise error
        return self._keys.stored_answer(key, self.model.keys)

    async def _learn(
        self, update: Update, each: bool, deadline: float
    ) -> tuple[ApplyResult | None, dict[int, ServiceError]]:
        """Learn an update; with `each`, skip the rejected examples, which may be all."""
        refused: dict[int, ServiceError] = {}
        indices = list(range(len(update.examples)))
        while update.examples or not each:
            admitted = await self._admit(update, each)
            refused |= {indices[place]: error for place, error in admitted.refused.items()}
            indices = [index for index in indices if index not in refused]
            update = admitted.update
            if each and not update.examples:
                break
            self.check_changeable()  # the first request may have ended meanwhile
            result = await self.queue.put(update, admitted.payload, admitted.checked, deadline)
            if not (each and isinstance(result.answer, InvalidExample)):
                return result, refused
            # The update no longer fits the model, which has changed since the admission.
            refused[indices.pop(result.answer.index)] = result.answer
            update = update.without([result.answer.index])
        return None, refused

    async def _admit(self, update: Update, each: bool) -> Admitted:
        position = self.model.position
        refusal: InvalidExample | LimitExceeded | None = None
        try:
            admitted = await self._admission.admit(update, self.model, self.queue, each=each)
            if not admitted.refused:
                return admitted
        except (InvalidExample, LimitExceeded) as error:
            refusal = error
        await self.sync()  # the update may fit the changed model, or its successor
        self.check_changeable()
        if self.model.position != position:
            return await self._admission.admit(update, self.model, self.queue, each=each)
        if refusal is not None:
            raise refusal
        return admitted

    def _answer(self, outcome: ApplyResult) -> UpdateResult:
        if isinstance(outcome.answer, ServiceError):
            raise outcome.answer
        return self._updated(outcome.answer, outcome.replayed, tuple(alarm.label for alarm in outcome.alarms))

    def _updated(self, answer: UpdateOutcome, replayed: bool, alarms: tuple[str | None, ...] = ()) -> UpdateResult:
        predictions = answer.predictions(self.model.labels.names, self.model.hidden)
        return UpdateResult(
            answer.position,
            answer.updates,
            answer.durability,
            predictions,
            replayed,
            answer.skipped,
            answer.rolled_back_to,
            alarms,
        )

    # -- history ----------------------------------------------------------------------------------

    async def state_at(self, at: str | int) -> OnlineModel:
        """Return the state after the entry at a position, or after the last entry up to a time. Raises
        PositionNotFound, BeforeHistory, HistoryDamaged, NotReady, StorageError or ModelGone.

        Parameters
        ----------
        at : position, or time in milliseconds of Unix time.
        """
        self.check_serving()
        try:
            position = await HistoryReader(self.record, self._store).find(at)
            if self.follow is not None:
                position = min(position, self.position, key=position_key)
            return await PastStates(self.record, self._store).at(position)
        except (LogTrimmed, LogLost) as error:
            raise NotReady(f"the history of model {self.record.name!r} is being cut: {error}") from error

    async def find_entry(self, position: str) -> str:
        """Return a position of the history in the syntax of the log.

        Raises PositionNotFound, BeforeHistory, HistoryDamaged, NotReady, StorageError or ModelGone.
        """
        self.check_serving()
        return await HistoryReader(self.record, self._store).find(position)

    async def verify(self) -> Verified:
        """Compare the stored states and the current state with the replayed history.

        Raises BeforeHistory, HistoryDamaged, NotReady, LimitExceeded, StorageError or ModelGone.
        """
        await self.take_snapshot()
        return await PastStates(self.record, self._store).verify(self._in_use.versions.format)

    async def read_log(
        self, after: str | int | None, to: str | int | None, limit: int, limit_bytes: int
    ) -> list[Entry]:
        """Return entries of the log, earliest first: at most `limit` entries and about the given bytes.

        Parameters
        ----------
        after : position or time of the first entry: entries after the position, or from the time on; None: the
        beginning.
        to : position or time of the last entry; None: the end.

        Raises
        ------
        ModelFollows
            The model follows another one.
        PositionNotFound, BeforeHistory, HistoryDamaged, NotReady, StorageError, ModelGone
        """
        self.check_serving()
        self.check_leads()
        reader = HistoryReader(self.record, self._store)
        begin = await reader.begin()
        try:
            position = begin if after is None else await reader.find(after - 1 if isinstance(after, int) else after)
        except BeforeHistory:
            if not isinstance(after, int) or begin not in (START, SEED):
                raise
            position = begin  # nothing is missing before the first entry
        last = None if to is None else position_key(await reader.find(to))
        found: list[Entry] = []
        size_bytes = 0
        while entries := await reader.read(position, limit - len(found)):
            for entry in entries:
                if last is not None and position_key(entry.position) > last:
                    return found
                found.append(entry)
                size_bytes += len(entry.payload)
                if len(found) == limit or size_bytes >= limit_bytes:
                    return found
            position = found[-1].position
        return found

    async def begin_follower(
        self, spec: ModelSpec, *, from_start: bool, until: str | int | None
    ) -> tuple[ModelSpec, OnlineModel | None, Follow]:
        """Return the spec of a follower, its initial state (None: empty), and the log that it learns.

        Parameters
        ----------
        spec : spec of the follower; unset texts, features and labels are those of this model.
        from_start : whether it begins at the start of the history, otherwise now.
        until : last position or time (milliseconds of Unix time) to learn; None: no end.

        Raises
        ------
        InvalidField
            The spec does not fit, `until` is before the beginning, or this model is a follower itself.
        PositionNotFound, BeforeHistory, HistoryDamaged, NotReady, StorageError, ModelGone
        """
        if self.follow is not None:
            raise InvalidField(("follow", "model"), f"must have a separate log: it follows {self.follow.model!r}")
        await self.sync()
        self.check_serving()
        spec = spec_of_follower(spec, self.model.online_spec)
        reader = HistoryReader(self.record, self._store)
        begin = await reader.begin() if from_start else self.position
        end = until
        if isinstance(until, int):
            try:
                end = await reader.find(until)
            except BeforeHistory:  # or the log has no entry yet
                end = None if self.position == START else START
        elif until is not None:
            end = until = await reader.find(until)
        if isinstance(end, str) and position_key(end) < position_key(begin):
            raise InvalidField(("follow", "until"), f"must not be before the start, position {begin}")
        follow = Follow(
            model=self.name,
            incarnation=self.record.incarnation,
            begin=begin,
            until=until if isinstance(until, str) else None,
            until_ms=until if isinstance(until, int) else None,
        )
        state = beginning(spec, await self.state_at(begin)) if follow.has_seed else None
        return spec, state, follow

    # -- snapshots --------------------------------------------------------------------------------

    async def take_snapshot(self) -> SnapshotMeta:
        """Take a snapshot of everything learnt so far; return when it is stored. Raises NotReady, LimitExceeded,
        StorageUnavailable or ModelGone."""
        super().check_changeable()
        return await self._applier.snapshot()

    async def keep_snapshot(self, kept: ManualSnapshot) -> SnapshotMeta:
        """Take a manual snapshot of everything learnt so far.

        Raises
        ------
        SnapshotExists, SnapshotsFull
            The snapshot was taken nevertheless; it is automatic, and removed later.
        NotReady, StorageUnavailable, ModelGone, LimitExceeded
        """
        record = await self.take_snapshot()
        await self.snapshotter.keep(record.position, kept)
        return await self._snapshot_reader.find(record.position)

    async def delete_snapshot(self, snapshot: str) -> None:
        """Delete a manual snapshot, at a position or with a name.

        It is removed unless the server still needs it as an automatic snapshot.

        Raises
        ------
        SnapshotNotFound
        SnapshotNeeded
            The snapshot is automatic.
        StorageUnavailable, ModelGone
        """
        await self.snapshotter.let_go((await self._snapshot_reader.find(snapshot)).position)

    async def list_snapshots(self) -> list[SnapshotMeta]:
        """Return the snapshots, the newest first; raise StorageUnavailable, ModelGone."""
        return await self._snapshot_reader.list()

    async def copy_snapshot(self, snapshot: str, file: IO[bytes]) -> None:
        """Write a snapshot to a file; raise SnapshotNotFound, StorageUnavailable, ModelGone, OSError."""
        await self._snapshot_reader.copy(snapshot, file)


def _needs_review(kept: StoredPrediction) -> bool:
    return kept.decision is None or kept.decision.review


def _served(
    decision: Decision | None, names: Sequence[str], hidden: Collection[str]
) -> tuple[list[str] | None, bool | None]:
    """Return the labels of a decision that may be applied unseen, and whether it needs review."""
    if decision is None:
        return None, None
    applied = (names[column] for column in decision.applied if column < len(names))
    return [name for name in applied if name not in hidden], decision.review


def _timed(
    work: Callable[[int, Sequence[Features]], Sequence[T]], begin: int, part: Sequence[Features], slices: SliceSize
) -> Sequence[T]:
    started = time.perf_counter()
    made = work(begin, part)
    slices.observe(len(part), time.perf_counter() - started)
    return made


async def _without_repeats(
    ranked: Sequence[tuple[str, StoredPrediction]], limit: int
) -> list[tuple[str, StoredPrediction]]:
    """Return the first examples, near-duplicates of earlier ones last."""
    columns_of: dict[Any, int] = {}
    rows: list[UnitRow] = []
    chosen: list[tuple[str, StoredPrediction]] = []
    async for _, kept in in_slices(ranked):
        rows.append(unit_row(kept.x, columns_of))
    async for place in in_slices(spread(rows)):
        chosen.append(ranked[place])
        if len(chosen) == limit:
            break
    return chosen
