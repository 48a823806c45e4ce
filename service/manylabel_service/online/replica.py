"""Hosted online model, which handles requests and applies its log.

All access to the model is on the event loop, in time slices, except for the thread that serialises a snapshot while the
applier pauses. Updates go through the log; a prediction waits only if it requests a position that the model has not
reached yet.
"""

import asyncio
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from manylabel_core.parity import Deferral
from manylabel_core.promise import Decision
from manylabel_core.records import RecordEncoder
from manylabel_service.clock import now_ms
from manylabel_service.environment import time
from manylabel_service.errors import (
    ExampleNotFound,
    InvalidExample,
    InvalidField,
    KeyReused,
    LimitExceeded,
    LogLost,
    LogTrimmed,
    ModelFollows,
    NoProbabilities,
    NotReady,
    PredictionNotDeferred,
    ServiceError,
    SnapshotNotFound,
)
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.hosting.kernels import GATE, when_loaded
from manylabel_service.hosting.predictions import MadePredictions, Prediction, PredictResult
from manylabel_service.hosting.signature import EXAMPLE, Signature
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.fields import ModelFields
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.host import Host
from manylabel_service.online.prediction_store import PredictionStore, StoredPrediction
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.controls import Control, Rollback, Served
from manylabel_service.online.state.corrections import Corrects, Place
from manylabel_service.online.state.label_table import measured
from manylabel_service.online.state.log_entries import Change, Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.online.state.served_metrics import ServedBy, VersionMeasures
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.online.state.tiers import tiers_of_examples
from manylabel_service.online.state.undo import undoing
from manylabel_service.online.updates.admission import Admission, InFlightKeys
from manylabel_service.online.updates.applier import Applier
from manylabel_service.online.updates.files import Verified
from manylabel_service.online.updates.replay import LARGE_ENTRY_BYTES
from manylabel_service.online.updates.update_queue import Pending
from manylabel_service.slices import Pace, SliceSize, in_slices, in_thread
from manylabel_service.storage import (
    POSITION,
    Entry,
    ModelMeta,
    position_key,
)

T = TypeVar("T")

EXPLAINED_AT_ONCE = 2**14
"""Maximum number of labels times values that are explained on the event loop, in about a millisecond; above it, a
thread is used."""
EXPLAIN_VALUES = 256
"""Number of values whose contributions take as much time as the other work for a label."""


SERVED_AT_ONCE, SERVED_SECONDS = 100, 1.0
"""Number of served predictions, and seconds, after which the counts of served predictions are logged with the next
prediction. A crash loses only counts that were not logged."""


class ServedCounts:
    """Counts of predictions that were served under a promise of parity, without audits, and that are not in the log
    yet."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.answered = self.empty = self.unsure = 0
        self._since = time.monotonic()

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of answers, of answers without a label, and of unsure examples."""
        return self.answered, self.empty, self.unsure

    @property
    def due(self) -> bool:
        """True if the counts should be logged."""
        n = self.answered + self.unsure
        return n >= SERVED_AT_ONCE or (n > 0 and time.monotonic() >= self._since + SERVED_SECONDS)

    def add(self, ask: bool, empty: bool) -> None:
        """Count a prediction."""
        self.unsure += ask
        self.answered += not ask
        self.empty += empty and not ask

    def take(self, other: "ServedCounts") -> None:
        """Add other counts, if they belong to the same promise."""
        if other.version == self.version:
            self.answered += other.answered
            self.empty += other.empty
            self.unsure += other.unsure


class Replica(Applier):
    """Online model in this process, which applies the log of the model and serves its requests.

    Attributes
    ----------
    prediction_store : stored predictions that wait for their labels.
    """

    def __init__(self, record: ModelMeta, host: Host, model: OnlineModel | None = None) -> None:
        super().__init__(record, host, model)
        text = None if self.spec.text is None else self.spec.text.settings()
        self._records = RecordEncoder(text, host.settings.record_limits)
        self._fields: ModelFields | None = None
        self._admission = Admission(record.name, host.settings)
        self._keys = InFlightKeys()
        self.prediction_store = PredictionStore(record, host.store, host.settings)
        self._predict_slice = SliceSize()
        self._ttl_ms = int(1000 * host.settings.prediction_ttl_seconds)
        self._served = ServedCounts(0)

    @property
    def records(self) -> RecordEncoder:
        """Encoder of records, with the text settings of the spec."""
        return self._records

    @property
    def n_labels(self) -> int:
        return len(self.model.labels)

    def status(self) -> dict[str, Any]:
        self.check_serving()
        model = self.model
        spec = model.online_spec
        return {
            **spec.described(),
            **({} if self.follow is None else {"follow": self.follow.to_json()}),
            "position": model.position,
            "updates": model.updates,
            "labels": len(model.labels),
            **model.groups.to_json(model.labels),
            **model.promises.to_json(),
            "features": len(model.features),
            "bytes": model.nbytes,
            "ignored": model.ignored,
            "unseen_words": model.words.share,
            "alike_labels": model.alike_labels(),
            "metrics": self.measures(),
        }

    def details(self) -> dict[str, Any]:
        """Return the status with the fields of records. Raises the errors of `status`."""
        status, model = self.status(), self.model
        if self._fields is None or self._fields.features is not model.features:
            self._fields = ModelFields(model.features, self._records.text)
        return {**status, **self._fields.to_json(model)}

    def signature(self) -> Signature:
        self.check_serving()
        model = self.model
        vectors = model.features.layout.vector_fields
        inputs = {EXAMPLE: model.features.layout.n_dense, **vectors}
        hidden, labels = model.hidden, model.labels.names
        if hidden:
            labels = tuple(name for name in labels if name not in hidden)
        return Signature(
            model.online_spec.algorithm, inputs, labels, self.has_probabilities, self._records, vectors=tuple(vectors)
        )

    def measures(self) -> dict[str, Any]:
        """Return the metrics, cumulative and of the window, with the drift alarms if drift detection is enabled. Raises
        the errors of `status`."""
        self.check_serving()
        return {**measured(self.model.prequential), **self.model.drift()}

    def gauges(self) -> dict[str, float]:
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
            "kept_prediction_bytes": self.prediction_store.kept_bytes,
        }

    @property
    def waited_for(self) -> bool:
        return bool(self._keys) or super().waited_for

    def snapshot_soon(self) -> None:
        self.snapshotter.soon()
        self.queue.wake()

    # -- predictions ------------------------------------------------------------------------------

    @property
    def has_probabilities(self) -> bool:
        """True if the model's predictions can have probabilities."""
        return self.model.learner.calibrate

    @when_loaded
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
        at_least : position up to which the prediction must include all updates; the call waits for it up to a timeout.
        probabilities : whether to return probabilities.
        explainer : explains the predicted labels.
        """
        self.check_serving()
        if probabilities:
            self._check_probabilities()
        if at_least is not None:
            await self.wait_until(at_least)
        predictions: Sequence[Prediction]
        if explainer is not None:
            predictions = await self._explained(xs, probabilities, explainer)
        elif len(xs) == 1:
            predictions = await self._in_slices(xs, partial(self._predict_part, probabilities))
        else:
            predictions = MadePredictions(await self._in_slices(xs, partial(self._predicting_part, probabilities)))
        return PredictResult(predictions, self.model.position, self._store_health.stale_seconds)

    def _predict_part(self, probabilities: bool, begin: int, part: Sequence[Features]) -> list[Prediction]:
        return self._checked(begin, part).predict(part, probabilities)

    def _predicting_part(
        self, probabilities: bool, begin: int, part: Sequence[Features]
    ) -> list[Callable[[], Prediction]]:
        return self._checked(begin, part).predicting(part, probabilities)

    def _checked(self, begin: int, part: Sequence[Features]) -> OnlineModel:
        """Check that the examples fit the model, and return the model; raise InvalidExample or NotCompiled."""
        if GATE.closed:
            GATE.require(tiers_of_examples(part))
        model = self.model
        for index, x in enumerate(part, begin):
            model.features.check(index, x)
        return model

    async def _explained(self, xs: Sequence[Features], probabilities: bool, explainer: Explainer) -> list[Prediction]:
        """Return predictions with explanations; nothing is learnt while a thread computes a long explanation."""
        made: list[Prediction] = []
        pace = Pace()
        for index, x in enumerate(xs):
            await pace.rest()
            async with self.learning:
                model = self.model
                (one,) = self._predict_part(probabilities, index, [x])
                if len(one.labels) * (EXPLAIN_VALUES + x.n_values) > EXPLAINED_AT_ONCE:
                    why = await in_thread(partial(model.explain, x, one.labels, explainer))
                else:
                    why = model.explain(x, one.labels, explainer)
            made.append(one._replace(explanations=why))
        return made

    async def _in_slices(
        self, xs: Sequence[Features], work: Callable[[int, Sequence[Features]], Sequence[T]]
    ) -> list[T]:
        """Return the results of `work` for slices of examples; each call gets a slice and the index of its first
        example."""
        slices = self._predict_slice
        made: list[T] = []
        while (begin := len(made)) < len(xs):
            if begin:
                await asyncio.sleep(0)
            part = xs[begin : begin + slices.examples]
            if (learning := self.learning).locked():
                async with learning:  # the thread has ended, and no other begins before the work below is done
                    pass
            started = time.perf_counter()
            made += work(begin, part)
            slices.observe(len(part), time.perf_counter() - started)
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
        """Store the features and predictions. Raises the errors of `PredictionStore.put`.

        For a version of a trained model, only its predictions are stored.
        """
        self.check_serving()
        self.check_leads()
        if version is not None:
            await self.prediction_store.put_answers(ids, predictions, version)
            return
        # Predictions without hidden labels are stored with the columns of the other labels.
        columns_of = self.model.labels.lookup if self.model.hidden else None
        await self.prediction_store.put(ids, xs, predictions, columns_of, records)
        if self.model.promises.parity is not None:
            await self._note_served(ids, predictions)

    async def _note_served(self, ids: Sequence[str], predictions: Sequence[Prediction]) -> None:
        """Log the audits among stored predictions before the client gets the response, and sometimes the counts of
        other predictions."""
        here, audits = ServedCounts(0), list[tuple[str, float]]()
        async for id, prediction in in_slices(zip(ids, predictions, strict=True)):
            if (deferral := prediction.deferral) is None:
                continue
            if deferral.version != here.version:
                here, audits = ServedCounts(deferral.version), []
            if deferral.ask and deferral.sure:
                audits.append((id, deferral.rate))
            else:
                here.add(deferral.ask, not prediction.labels)
        if here.version > self._served.version:
            self._served = ServedCounts(here.version)
        if here.version < self._served.version:
            return  # the promise has changed meanwhile
        served = self._served
        served.take(here)
        if not (audits or served.due):
            return
        self._served = ServedCounts(served.version)
        now = now_ms()
        entry = Served(served.version, tuple(audits), served.counts, now, now + self._ttl_ms)
        try:
            await self._appended(entry)
        except ServiceError:
            self._served.take(served)
            if audits:
                raise

    async def kept(self, ids: Sequence[str], truths: Sequence[Labels]) -> list[StoredPrediction]:
        """Return the stored predictions with these ids, for which all or some true labels were submitted.

        Raises PredictionLabelled if a prediction already has these labels, and the errors of `PredictionStore.get`.
        """
        self.check_serving()
        self.check_leads()
        current = [self.model.resolve(y) for y in truths]
        self.model.labelled.check(ids, current, self.model.labels.lookup)
        return await self.prediction_store.get(ids)

    @when_loaded
    async def uncertainties(self, xs: Sequence[Features]) -> list[float]:
        """Return the uncertainty of each example, 0 to 1; NaN for examples that do not fit the model."""

        def uncertain(_: int, part: Sequence[Features]) -> list[float]:
            if GATE.closed:
                GATE.require(tiers_of_examples(part))
            return self.model.uncertainties(part)

        return await self._in_slices(xs, uncertain)

    # -- updates ----------------------------------------------------------------------------------

    def check_changeable(self) -> None:
        """Raise the current error unless the model accepts changes; a follower never accepts changes."""
        self.check_leads()
        super().check_changeable()

    def check_leads(self) -> None:
        """Raise ModelFollows if the model follows another."""
        if self.follow is not None:
            raise ModelFollows(self.name)

    @when_loaded
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
        deferrals: Sequence[Deferral | None] | None = None,
        stream: StreamPart | None = None,
        refuse_each: bool = False,
        check: Callable[[Sequence[int], float], None] | None = None,
        deadline: float = math.inf,
    ) -> UpdateResult:
        """Learn either all examples, in order, or none; return when they are in the log and learnt.

        Parameters
        ----------
        examples : at least one.
        key : idempotency key of the request; a retry gets the first response.
        want_predictions : whether to return the prediction of each example just before it was learnt.
        want_probabilities : whether to return their probabilities too.
        prediction_ids : ids of the stored predictions that the examples label; a label is learnt once.
        served : served scores of each prediction, as in `StoredPrediction`.
        answered : version of a trained model that served each prediction.
        decisions : served decision of each prediction, if precision was promised.
        deferrals : served deferral of each prediction, if parity was promised.
        stream : position of the examples in a stream; lines that were learnt earlier are skipped.
        refuse_each : whether to reject invalid examples separately and learn the others; the response then has the
            errors.
        check : called with the number of labels of each prediction and the mean bytes of their names; raises an error
            if the response would be too large. It is not called for a repeated request.
        deadline : value of time.monotonic() at which the update is rejected if it still waits for earlier updates;
            None: no limit.

        Raises
        ------
        NotReady, InvalidExample, KeyInFlight, KeyReused, QueueFull, LimitExceeded, PredictionError, StorageUnavailable
        NoProbabilities
        ModelGone
            Another process deleted the model; nothing was learnt. A new model may have the same name.
        """
        self.check_changeable()
        if want_probabilities:
            self._check_probabilities()
        if key is not None and (earlier := await self.replayed(key)) is not None:
            return earlier
        if check is not None:
            check(self.answer_sizes(examples), self._mean_label_bytes(examples))
        ids = None if prediction_ids is None else tuple(prediction_ids)
        update = Update(
            tuple(examples),
            key,
            want_predictions,
            ids,
            stream,
            want_probabilities,
            None if served is None else tuple(served),
            None if answered is None else tuple(answered),
            None if decisions is None else tuple(decisions),
            None if deferrals is None else tuple(deferrals),
        )
        self._check_teacher(update)
        with self._keys.hold(key):
            result, refused = await self._learn(update, refuse_each, deadline)
        if result is None:
            return UpdateResult(self.position, self.model.updates, (), replayed=False, refused=refused)
        answer = self._answer(result)
        return answer._replace(refused=refused) if refused else answer

    def _check_teacher(self, update: Update) -> None:
        """Raise PredictionNotDeferred or InvalidExample if the promise of parity refuses labels of the teacher."""
        if (parity := self.model.promises.parity) is None or update.deferrals is None:
            return
        pairs = zip(update.prediction_ids or (), update.examples, update.deferrals, strict=True)
        for index, (id, example, deferral) in enumerate(pairs):
            if deferral is None or example.source != parity.target.of:
                continue
            if not deferral.ask:
                raise PredictionNotDeferred(id, example.source)
            if not example.y.complete:
                detail = f"must be a complete list of names, because it is the answer of {example.source!r}"
                raise InvalidExample(index, ("y",), detail)

    @when_loaded
    async def correct(
        self, position: str, index: int | None, y: Labels, key: IdempotencyKey | None = None
    ) -> UpdateResult:
        """Correct the true labels of a learnt example, and learn the example again; if `y` agrees with them, confirm
        them.

        Parameters
        ----------
        position : position of the entry of the example.
        index : index of the example in the entry; None if it is the only one.
        y : all true labels of the example, or only the labels that a person has checked.

        Raises
        ------
        ExampleNotFound, LabelNotFound, PositionNotFound, BeforeHistory, HistoryDamaged
        InvalidField
            The entry has several examples, and no index was passed.
        InvalidExample
            The true labels contradict the groups of the model.
        NotReady, KeyInFlight, KeyReused, QueueFull, LimitExceeded, StorageUnavailable, ModelGone
        """
        self.check_changeable()
        if (earlier := await self.replayed(key)) is not None:
            return earlier
        with self._keys.hold(key):
            place, example = await self._learnt_example(position, index)
            model = self.model
            corrects = Corrects(*place, None if y.complete else y.names, example.source)
            for label in model.resolve(y).names:
                model.check_label(label)
            corrected = model.corrected(example, y)
            examples = () if corrected is None else (corrected,)
            result, _ = await self._learn(Update(examples, key, corrects=corrects), False, math.inf)
            assert result is not None
            return self._answer(result)

    async def _learnt_example(self, position: str, index: int | None) -> tuple[Place, Example]:
        """Return the place of a learnt example, and the example with its latest correction. Raises the errors of
        `correct`."""
        _, entry, update = await self._entry(position)
        if not isinstance(update, Update) or update.corrects is not None or not update.examples:
            raise ExampleNotFound(self.name, position, index or 0, "the entry is no update with examples")
        n_examples = len(update.examples)
        if index is None and n_examples > 1:
            raise InvalidField(("index",), f"is required: the entry has {n_examples:,} examples")
        place = entry.position, index or 0
        if place[1] >= n_examples:
            raise ExampleNotFound(self.name, *place, f"the entry has {n_examples:,} examples")
        example = update.examples[place[1]]
        if not self.model.learns(example):
            detail = f"the model does not learn labels from {example.source!r}, so it has nothing to correct"
            raise ExampleNotFound(self.name, *place, detail)
        self.model.check_learnt(place)
        if (corrected_at := self.model.corrections.find(place).corrected_at) is not None:
            *_, correction = await self._entry(corrected_at)
            if isinstance(correction, Update) and correction.examples:
                (example,) = correction.examples
        return place, example

    async def _entry(self, position: str) -> tuple[str, Entry, Change]:
        """Return the position before an entry, the entry at a position, and the decoded entry."""
        try:
            previous, entry = await self.files.entry(position)
            large = len(entry.payload) >= LARGE_ENTRY_BYTES
            return previous, entry, await asyncio.to_thread(decode, entry.payload) if large else decode(entry.payload)
        except (LogTrimmed, LogLost) as error:
            raise NotReady(f"the history of model {self.record.name!r} is being trimmed: {error}") from error

    @when_loaded
    async def rollback(self, to: str | int, key: IdempotencyKey | None = None) -> UpdateResult:
        """Return to an earlier state, here and on every other replica, at the same log entry.

        Parameters
        ----------
        to : position in the history or of a snapshot, or time (milliseconds of Unix time).
        key : idempotency key of the request.

        Raises
        ------
        SnapshotNotFound
            The string is not a position.
        PositionNotFound, BeforeHistory, HistoryDamaged
        NotReady, KeyInFlight, KeyReused, QueueFull, LimitExceeded, StorageUnavailable, ModelGone
        """
        self.check_changeable()
        if (earlier := await self.replayed(key)) is not None:
            return earlier
        with self._keys.hold(key):
            rollback = Rollback(await self._kept_state(to), key)
            self.check_changeable()
            outcome = await self._appended(rollback)
        self.snapshot_soon()
        return self._answer(outcome)

    async def _kept_state(self, at: str | int) -> str:
        """Protect a state as long as the log needs it; return its position. Raises the errors of `rollback`."""
        if isinstance(at, str):
            try:
                return await self.files.snapshots.pin(at)
            except SnapshotNotFound:
                if not re.fullmatch(POSITION, at):
                    raise
        model = await self.state_at(at)
        data = await asyncio.to_thread(model.to_buffer)
        with self.snapshotter.storing():
            await self.snapshotter.archiver.put_state(model.position, model.updates, data)
        return model.position

    @when_loaded
    async def change(self, entry: Control) -> UpdateResult:
        """Change the model by a control entry other than a rollback, on this and every other replica.

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
            if entry.takes_long:
                await asyncio.to_thread(self._admission.check_control, self.model, entry)
                self.check_changeable()
            else:
                self._admission.check_control(self.model, entry)
            return self._answer(await self._appended(entry))

    @when_loaded
    async def undo(self, position: str, key: IdempotencyKey | None = None) -> UpdateResult:
        """Undo the change of labels by the entry at a position, on this and every other replica.

        If no later entry changed the model, it returns to the state before the change, and the result has
        `rolled_back_to`.

        Raises
        ------
        CannotUndo
            The entry is no change of labels, was rejected, or a later entry changed the same label or groups.
        PositionNotFound, BeforeHistory, HistoryDamaged
        NotReady, KeyInFlight, KeyReused, QueueFull, LimitExceeded, StorageUnavailable, ModelGone
        """
        self.check_changeable()
        if (earlier := await self.replayed(key)) is not None:
            return earlier
        with self._keys.hold(key):
            previous, entry, change = await self._entry(position)
            before = await self.state_at(previous)
            undo = await asyncio.to_thread(undoing, before, change, entry.position, key)
            self.check_changeable()
            self._admission.check_control(self.model, undo)
            return self._answer(await self._appended(undo))

    async def _appended(self, change: Control) -> ApplyResult:
        return await self.queue.put(Pending(change, encode(change)))

    def measured(self, version: int) -> VersionMeasures:
        """Return the metrics of a version of the trained model. Raises the errors of `status`."""
        self.check_serving()
        assert self.model.answers is not None
        return self.model.answers[version]

    def answer_sizes(self, examples: Iterable[Example]) -> list[int]:
        """Return, for each example, the number of scores (one per known label) of the prediction just before it is
        learnt."""
        labels, new = self.model.labels, set[str]()
        sizes = []
        for _, y, *_ in examples:
            sizes.append(len(labels) + len(new))
            new.update(labels.unknown(y.names))
        return sizes

    def _mean_label_bytes(self, examples: Iterable[Example]) -> float:
        """Return the mean bytes of the names of all labels, including new labels of the examples."""
        labels, new = self.model.labels, set[str]()
        for _, y, *_ in examples:
            new.update(labels.unknown(y.names))
        total = labels.mean_bytes * len(labels) + sum(map(len, new))
        return total / max(1, len(labels) + len(new))

    async def replayed(self, key: IdempotencyKey | None) -> UpdateResult | None:
        """Return the result of an earlier request with this key; None if this is the first request. Raises NotReady,
        KeyInFlight, KeyReused, StorageUnavailable or ModelGone."""
        if key is None:
            return None
        try:
            if self._keys.stored_answer(key, self.model.keys) is None:
                return None
        except KeyReused:
            pass
        error = await self.sync()  # by now, the name may belong to another model
        self.check_changeable()
        if error is not None:
            raise error
        earlier = self._keys.stored_answer(key, self.model.keys)
        return None if earlier is None else self._answer(ApplyResult(earlier, replayed=True))

    async def _learn(
        self, update: Update, each: bool, deadline: float
    ) -> tuple[ApplyResult | None, dict[int, ServiceError]]:
        """Learn an update; with `each`, skip rejected examples, which may be all."""
        refused: dict[int, ServiceError] = {}
        indices = list(range(len(update.examples)))
        while update.examples or not each:
            admitted = await self._admit(update, each)
            if admitted.refused:
                refused |= {indices[place]: error for place, error in admitted.refused.items()}
                indices = [index for index in indices if index not in refused]
            update = admitted.change
            if each and not update.examples:
                break
            super().check_changeable()  # the model may have ended meanwhile
            admitted.deadline = deadline
            result = await self.queue.put(admitted)
            if not (each and isinstance(result.answer, InvalidExample)):
                return result, refused
            # The update no longer fits the model, which has changed since the admission.
            refused[indices.pop(result.answer.index)] = result.answer
            update = update.without([result.answer.index])
        return None, refused

    async def _admit(self, update: Update, each: bool) -> Pending[Update]:
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

    def _answer(self, result: ApplyResult) -> UpdateResult:
        answer = result.answer
        if isinstance(answer, ServiceError):
            raise answer
        return UpdateResult(
            answer.position,
            answer.updates,
            answer.predictions(self.model.labels.names, self.model.hidden),
            result.replayed,
            answer.skipped,
            answer.rolled_back_to,
            tuple([alarm.label for alarm in result.alarms]),
        )

    # -- history ----------------------------------------------------------------------------------

    def history(self) -> HistoryReader:
        """Return a reader of the log, including its trimmed part."""
        return self.files.history()

    @when_loaded
    async def state_at(self, at: str | int) -> OnlineModel:
        """Return the state after the entry at a position, or after the last entry up to a time. Raises
        PositionNotFound, BeforeHistory, HistoryDamaged, NotReady, StorageError or ModelGone.

        Parameters
        ----------
        at : position, or time in milliseconds of Unix time.
        """
        self.check_serving()
        try:
            position = await self.history().find(at)
            if self.follow is not None:
                position = min(position, self.position, key=position_key)
            return await self.files.state_at(position)
        except (LogTrimmed, LogLost) as error:
            raise NotReady(f"the history of model {self.record.name!r} is being trimmed: {error}") from error

    async def find_entries(self, positions: Iterable[str]) -> list[str]:
        """Return positions of the history in the syntax of the log.

        Raises PositionNotFound, BeforeHistory, HistoryDamaged, NotReady, StorageError or ModelGone.
        """
        self.check_serving()
        return await self.history().find_all(positions)

    @when_loaded
    async def verify(self) -> Verified:
        """Compare the stored states and the current state with the replayed history.

        Raises BeforeHistory, HistoryDamaged, NotReady, LimitExceeded, StorageError or ModelGone.
        """
        await self.take_snapshot()
        return await self.files.verify()

    async def read_log(
        self, after: str | int | None, to: str | int | None, limit: int, limit_bytes: int
    ) -> list[Entry]:
        """Return entries of the log (see `HistoryReader.between`); also raises ModelFollows and NotReady."""
        self.check_serving()
        self.check_leads()
        return await self.history().between(after, to, limit, limit_bytes)

    # -- snapshots --------------------------------------------------------------------------------
