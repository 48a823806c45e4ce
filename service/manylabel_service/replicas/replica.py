"""A hosted model: requests and the log on one side, the fold on the other.

All access to the model is on the event loop, in slices, but for one reader: the thread that turns
it into a snapshot while the fold rests. Updates that wait together share one append and one pass of
the kernel (group commit); a prediction waits for neither.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from manylabel_service.errors import (
    KeyInFlight,
    KeyReused,
    LimitExceeded,
    ModelNotFound,
    NotReady,
    QueueFull,
    ServiceError,
    StorageError,
)
from manylabel_service.replicas.answers import Answer
from manylabel_service.replicas.entries import decode, encode_parts
from manylabel_service.replicas.examples import Example, Features, IdempotencyKey, Prediction, Update
from manylabel_service.replicas.feature_space import Layout
from manylabel_service.replicas.folding import Folding, LogEntry, Outcome
from manylabel_service.replicas.projection import Projection
from manylabel_service.replicas.slices import SLICE_SECONDS, SliceSize
from manylabel_service.replicas.snapshots import Snapshots
from manylabel_service.replicas.spec import ModelSpec
from manylabel_service.replicas.stream_model import StreamModel
from manylabel_service.settings import Settings
from manylabel_service.storage import Entry, ModelRecord, Store

GROUP_EXAMPLES = 10_000
"""Examples that share an append at most, unless one entry alone has more."""
REPLAYED_ENTRIES = 1_000
"""Entries read from the log at a time when a model is restored."""

WEIGHED_UPDATES = 256
"""The size of a model that gains no columns is looked at once in so many updates."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Updated:
    """The answer to an update."""

    position: str
    updates: int
    durability: str
    predictions: Sequence[Prediction] | None
    replayed: bool


@dataclass(frozen=True, slots=True)
class Predicted:
    """The answer to a prediction; `position` is that of the state which saw the last example."""

    predictions: list[Prediction]
    position: str


@dataclass(frozen=True, slots=True)
class _Pending:
    """An update that waits for its place in the log and in the model."""

    update: Update
    payload: bytes
    fits: Layout
    outcome: "asyncio.Future[Outcome]"


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
        self._store = store
        self._settings = settings
        self._queue: deque[_Pending] = deque()
        self._queued_examples = 0
        self._queued_bytes = 0
        self._weigh_at = 0
        self._keys_in_flight: set[str] = set()
        self._fold_slice = SliceSize()
        self._predict_slice = SliceSize()
        self._work = asyncio.Event()
        # Makes a new error for each request: one that is raised again and again keeps every traceback.
        self._closed: Callable[[], ServiceError] | None = lambda: NotReady(f"model {record.name!r} is being restored")
        self._stopping = False
        self._runner: asyncio.Task[None] | None = None

    @property
    def queued_examples(self) -> int:
        """Examples that wait to be learnt."""
        return self._queued_examples

    def status(self) -> dict[str, Any]:
        """What GET /v1/models/{m} answers."""
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
        """Prequential measures, cumulative and over the window."""
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
        while self._queue:
            self._settle(self._queue.popleft(), Outcome(reason()))

    async def stop(self) -> None:
        """Take no more updates, finish those that wait, and take a last snapshot."""
        if self._runner is None:
            return
        self._stopping = True
        self._work.set()
        await self._runner
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

    # -- the queue --------------------------------------------------------------------------------

    async def _learn(self, update: Update) -> Outcome:
        """Check and encode the update, queue it, and wait for what becomes of it."""
        projection, payload = await self._prepare(update)
        self._check_learning()  # it may have changed while the update was prepared
        self._check_limits(projection, len(payload))
        pending = _Pending(update, payload, projection.layout, asyncio.get_running_loop().create_future())
        self._queue.append(pending)
        self._queued_examples += len(update.examples)
        self._queued_bytes += len(payload)
        self._work.set()
        return await pending.outcome

    async def _prepare(self, update: Update) -> tuple[Projection, bytes]:
        projection, parts = Projection(self.model), encode_parts(update)
        payload = bytearray(next(parts))
        slice_ends = time.perf_counter() + SLICE_SECONDS
        for example, part in zip(update.examples, parts, strict=True):
            if time.perf_counter() > slice_ends:
                await asyncio.sleep(0)
                slice_ends = time.perf_counter() + SLICE_SECONDS
            projection.add(example)
            payload += part
        return projection, bytes(payload)

    def _check_limits(self, projection: Projection, payload_bytes: int) -> None:
        name, settings = self.spec.name, self._settings
        for waiting, more, limit, unit in (
            (self._queued_examples, projection.n_examples, settings.max_queue_examples, "examples"),
            (self._queued_bytes, payload_bytes, settings.max_queue_bytes, "bytes"),
        ):
            if waiting and waiting + more > limit:
                raise QueueFull(name, f"{limit:,} {unit}", retry_after=1.0)
        for what, size, limit in (
            ("features", projection.n_features, settings.max_features),
            ("labels", projection.n_labels, settings.max_labels),
            ("bytes", self._bytes_after(projection), settings.max_model_bytes),
        ):
            if size > limit:
                raise LimitExceeded(f"{what} of model {name!r}", size, limit)
        if self.model.updates >= self._weigh_at:
            self._weigh_at = self.model.updates + WEIGHED_UPDATES

    def _bytes_after(self, projection: Projection) -> int:
        """Bytes of the model once the update is learnt; 0 if it gains no columns and was weighed not long ago."""
        if not projection.grows and self.model.updates < self._weigh_at:
            return 0
        p = projection
        return self.model.nbytes_after(p.n_features, p.n_labels, p.n_examples, p.n_values)

    def _settle(self, pending: _Pending, outcome: Outcome) -> None:
        self._queued_examples -= len(pending.update.examples)
        self._queued_bytes -= len(pending.payload)
        if not pending.outcome.done():  # done: the client went away, and its request was cancelled
            pending.outcome.set_result(outcome)

    async def _run(self) -> None:
        while self._queue or not self._stopping:
            await self._wait_for_work()
            if group := self._next_group():
                await self._commit(group)
            if self.snapshots.due(self.model):
                await self.snapshots.begin(self.model)

    async def _wait_for_work(self) -> None:
        """Wait for an update, the next snapshot's time, or the end."""
        if self._queue or self._stopping:
            return
        self._work.clear()
        seconds = self.snapshots.seconds_until_due(self.model)
        # A timer, because asyncio.wait_for would make a task of its own for each update.
        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._work.set)
        await self._work.wait()
        if timer is not None:
            timer.cancel()

    def _next_group(self) -> list[_Pending]:
        group: list[_Pending] = []
        room = GROUP_EXAMPLES
        while self._queue and (not group or len(self._queue[0].update.examples) <= room):
            group.append(self._queue.popleft())
            room -= len(group[-1].update.examples)
        return group

    async def _commit(self, group: list[_Pending]) -> None:
        """One append for the group; fold in what others appended before it, then the group."""
        try:
            payloads = [pending.payload for pending in group]
            entries = await self._store.append(self.record, payloads, self.model.position, self.durability)
            outcomes = await self._fold(_with_updates(entries, group))
        except StorageError as error:
            outcomes = [Outcome(error)] * len(group)
        except asyncio.CancelledError:
            outcomes = [Outcome(ModelNotFound(self.spec.name))] * len(group)
            raise
        except Exception:
            # The fold may have stopped half-way: this state must not answer any more.
            log.exception("model_failed", model=self.spec.name, position=self.model.position)
            self.refuse(lambda: NotReady(f"model {self.spec.name!r} failed; the server must be restarted"))
            outcomes = [Outcome(NotReady(f"model {self.spec.name!r} failed"))] * len(group)
        finally:
            self._settle_all(group, outcomes)

    def _settle_all(self, group: list[_Pending], outcomes: list[Outcome]) -> None:
        for pending, outcome in zip(group, outcomes[-len(group) :], strict=True):
            self._settle(pending, outcome)

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


def _with_updates(entries: Sequence[Entry], own: Sequence[_Pending]) -> list[LogEntry]:
    """Entries that end with our own, which need no decoding and have been checked."""
    foreign = [LogEntry(entry.position, decode(entry.payload)) for entry in entries[: -len(own)]]
    appended = entries[-len(own) :]
    return foreign + [LogEntry(e.position, p.update, p.fits) for e, p in zip(appended, own, strict=True)]
