"""A hosted model: requests and the log on one side, the fold on the other.

All access to the model is on the event loop, in slices, but for one reader: the thread that turns
it into a snapshot while the fold rests. Updates that wait together share one append and one pass of
the kernel (group commit); a prediction waits for neither.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import structlog

from manylabel_service.errors import (
    KeyInFlight,
    KeyReused,
    ModelNotFound,
    NotReady,
    ServiceError,
    StorageError,
)
from manylabel_service.replicas.admission import Admission
from manylabel_service.replicas.answers import Answer, Predicted, Updated
from manylabel_service.replicas.entries import decode
from manylabel_service.replicas.examples import Example, Features, IdempotencyKey, Prediction, Update
from manylabel_service.replicas.folding import Folding, LogEntry, Outcome
from manylabel_service.replicas.slices import SliceSize
from manylabel_service.replicas.snapshots import Snapshots
from manylabel_service.replicas.spec import ModelSpec
from manylabel_service.replicas.stream_model import StreamModel
from manylabel_service.replicas.update_queue import Pending, UpdateQueue
from manylabel_service.settings import Settings
from manylabel_service.storage import Entry, ModelRecord, Store

REPLAYED_ENTRIES = 1_000
"""Entries read from the log at a time when a model is restored."""

COPIED_BYTES = 2**22
"""Bytes of a model that can be copied within a slice."""

log = structlog.get_logger()


class Replica:
    """One model in this process.

    Parameters
    ----------
    record : the model in the store.
    store : where its log and its snapshots are.
    settings : limits, and when to take snapshots.
    """

    def __init__(self, record: ModelRecord, store: Store, settings: Settings) -> None:
        self.record = record
        self.spec = ModelSpec.model_validate_json(record.spec)
        self.durability = self.spec.durability or settings.durability
        self.model = StreamModel(self.spec)
        self.snapshots = Snapshots(record, store, settings)
        self.queue = UpdateQueue(record.name, settings)
        self._admission = Admission(record.name, settings)
        self._store = store
        self._keys_in_flight: set[str] = set()
        self._fold_slice = SliceSize()
        self._predict_slice = SliceSize()
        # Makes a new error for each request: one that is raised again and again keeps every traceback.
        self._closed: Callable[[], ServiceError] | None = lambda: NotReady(f"model {record.name!r} is being restored")
        self._stopping = False
        self.failed = False
        self._runner: asyncio.Task[None] | None = None

    def status(self) -> dict[str, Any]:
        """What GET /v1/models/{m} answers.

        Raises
        ------
        NotReady
            There is no state to speak of: it is being restored, or could not be.
        """
        self._check_open()
        return {
            "name": self.spec.name,
            "algorithm": self.spec.algorithm,
            "params": self.spec.params.model_dump(),
            "scaling": self.spec.scaling,
            "durability": self.durability,
            "position": self.model.position,
            "updates": self.model.updates,
            "labels": len(self.model.labels),
            "features": len(self.model.features),
            "bytes": self.model.nbytes,
            "metrics": self.measures(),
        }

    def measures(self) -> dict[str, Any]:
        """Prequential measures, cumulative and over the window; raises as `status`."""
        self._check_open()
        return self.model.prequential.measures()

    # -- life -------------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Newest intact snapshot, then the log after it; the replica answers from then on.

        Raises
        ------
        StorageError
            The store cannot be read, or no intact snapshot reaches back to where the log begins.
        UnreadableEntry
            An entry of the log cannot be decoded.
        """
        self.model = await self.snapshots.newest_intact() or self.model
        while entries := await self._store.read(self.record, self.model.position, REPLAYED_ENTRIES):
            await self._fold([LogEntry(entry.position, decode(entry.payload)) for entry in entries])
        self.start()

    def start(self) -> None:
        """Begin to answer. A new model needs no `restore`."""
        self._closed = None
        self._runner = asyncio.create_task(self._run(), name=f"replica {self.spec.name}")

    def refuse(self, reason: Callable[[], ServiceError]) -> None:
        """Answer every request, those that wait included, with such an error from now on."""
        self._closed = reason
        self.queue.refuse(reason)

    def fail(self, reason: Callable[[], ServiceError]) -> None:
        """The same, because the state cannot be trusted: it will not be kept either."""
        self.failed = True
        self.refuse(reason)

    def stop_learning(self) -> None:
        """Take no more updates."""
        self._stopping = True
        self.queue.wake()

    async def stop(self) -> None:
        """Take no more updates, finish those that wait, and take a last snapshot."""
        self.stop_learning()
        if self._runner is None:
            return
        await self._runner
        if not self.failed:
            await self.snapshots.take(self.model)

    async def drop(self) -> None:
        """End without a trace: the model has been deleted."""
        self.refuse(lambda: ModelNotFound(self.spec.name))
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        await self.snapshots.drop()

    # -- requests ---------------------------------------------------------------------------------

    async def predict(self, xs: Sequence[Features]) -> Predicted:
        """Predict without learning; a long batch yields to other requests between slices.

        Raises
        ------
        NotReady, InvalidExample
        """
        self._check_open()
        predictions: list[Prediction] = []
        while (begin := len(predictions)) < len(xs):
            if begin:
                await asyncio.sleep(0)
            started = time.perf_counter()
            part = xs[begin : begin + self._predict_slice.examples]
            for index, x in enumerate(part, begin):
                self.model.features.check(index, x)
            predictions += self.model.predict(part)
            self._predict_slice.observe(len(part), time.perf_counter() - started)
        return Predicted(predictions, self.model.position)

    async def update(
        self,
        examples: Sequence[Example],
        *,
        key: IdempotencyKey | None = None,
        want_predictions: bool = False,
    ) -> Updated:
        """Learn the examples, all or none, in order; answers when they are in the log and in the model.

        Raises
        ------
        NotReady, InvalidExample, KeyInFlight, KeyReused, QueueFull, LimitExceeded, StorageGone
        """
        self._check_learning()
        if key is not None and (earlier := self._earlier_answer(key)) is not None:
            return self._updated(earlier, replayed=True)
        with self._in_flight(key):
            outcome = await self._learn(Update(tuple(examples), self.durability, key, want_predictions))
        if isinstance(outcome.answer, ServiceError):
            raise outcome.answer
        return self._updated(outcome.answer, outcome.replayed)

    def has_seen(self, key: IdempotencyKey) -> bool:
        """Whether an update with this key is under way, or among those remembered."""
        return key.key in self._keys_in_flight or key.key in self.model.keys

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed()

    def _check_learning(self) -> None:
        self._check_open()
        if self._stopping:
            raise NotReady("the server is stopping")

    def _earlier_answer(self, key: IdempotencyKey) -> Answer | None:
        if key.key in self._keys_in_flight:
            raise KeyInFlight(key.key)
        seen = self.model.keys.find(key.key)
        if seen is None:
            return None
        digest, answer = seen
        if digest != key.digest:
            raise KeyReused(key.key)
        return answer

    @contextmanager
    def _in_flight(self, key: IdempotencyKey | None) -> Iterator[None]:
        if key is None:
            yield
            return
        self._keys_in_flight.add(key.key)
        try:
            yield
        finally:
            self._keys_in_flight.discard(key.key)

    def _updated(self, answer: Answer, replayed: bool) -> Updated:
        predictions = answer.predictions(self.model.labels.names)
        return Updated(answer.position, answer.updates, answer.durability, predictions, replayed)

    async def _learn(self, update: Update) -> Outcome:
        admitted = await self._admission.admit(update, self.model, self.queue)
        self._check_learning()  # it may have ended meanwhile
        return await self.queue.put(update, admitted.payload, admitted.fits, admitted.growth)

    # -- the log ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self.failed and (self.queue or not self._stopping):
            if not self.queue:
                await self.queue.wait(self.snapshots.seconds_until_due(self.model))
            if group := self.queue.take_group():
                await self._commit(group)
            if not self.failed and self.snapshots.due(self.model):
                await self.snapshots.begin(self.model)

    async def _commit(self, group: list[Pending]) -> None:
        """One append for the group; fold in what others appended before it, then the group."""
        try:
            payloads = [pending.payload for pending in group]
            entries = await self._store.append(self.record, payloads, self.model.position, self.durability)
            await self._make_room(group)
            outcomes = await self._fold(_with_updates(entries, group))
        except StorageError as error:
            outcomes = [Outcome(error)] * len(group)
        except asyncio.CancelledError:
            outcomes = [Outcome(ModelNotFound(self.spec.name))] * len(group)
            raise
        except Exception:
            # The fold may have stopped half-way: this state must neither answer nor be kept.
            log.exception("model_failed", model=self.spec.name, position=self.model.position)
            self.fail(lambda: NotReady(f"model {self.spec.name!r} failed; the server must be restarted"))
            outcomes = [Outcome(NotReady(f"model {self.spec.name!r} failed"))] * len(group)
        finally:
            self.queue.settle(group, outcomes[-len(group) :])

    async def _make_room(self, group: list[Pending]) -> None:
        """Have the memory that the group's new columns need, if copying the model there takes a while."""
        model = self.model
        n_features = len(model.features) + sum(pending.growth.features for pending in group)
        n_labels = len(model.labels) + sum(pending.growth.labels for pending in group)
        grows = n_features > len(model.features) or n_labels > len(model.labels)
        if grows and model.learner.nbytes > COPIED_BYTES:
            await asyncio.to_thread(model.learner.reserve, n_features, n_labels)

    async def _fold(self, entries: Iterable[LogEntry]) -> list[Outcome]:
        """Fold entries in, in slices between which predictions are answered."""
        folding = Folding(self.model, entries)
        more = True
        while more:
            started, learnt = time.perf_counter(), folding.learnt
            more = folding.step(self._fold_slice.examples)
            if folding.learnt > learnt:
                self._fold_slice.observe(folding.learnt - learnt, time.perf_counter() - started)
            if more:
                await asyncio.sleep(0)
        return folding.outcomes


def _with_updates(entries: Sequence[Entry], own: Sequence[Pending]) -> list[LogEntry]:
    """Entries that end with our own, which need no decoding and have been checked."""
    foreign = [LogEntry(entry.position, decode(entry.payload)) for entry in entries[: -len(own)]]
    appended = entries[-len(own) :]
    return foreign + [LogEntry(e.position, p.update, p.fits) for e, p in zip(appended, own, strict=True)]
