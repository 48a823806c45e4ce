"""Apply loop of a model: one task appends to the log, reads new entries and applies them. Only this task changes the
model.

Queued updates share one append and one pass of the kernel (group commit). An append returns the entries that other
processes added before it, which are applied first. Without queued updates, `poll` makes the task read the entries of
other processes.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from functools import reduce
from itertools import chain
from typing import Any

import structlog

from manylabel_service.environment import time
from manylabel_service.errors import (
    FollowerFailed,
    HistoryDamaged,
    IncompatibleRelease,
    LimitExceeded,
    LogLost,
    LogSealed,
    LogTrimmed,
    ModelGone,
    ModelNotFound,
    NotReady,
    ServiceError,
    UnreadableEntry,
    check_limit,
)
from manylabel_service.hosting.events import Events
from manylabel_service.hosting.hosted_model import ErrorFactory, HostedModel, ModelLifecycle
from manylabel_service.hosting.kernels import GATE, NotCompiled
from manylabel_service.hosting.position_waiters import PositionWaiters
from manylabel_service.online.host import Host
from manylabel_service.online.prediction_store import SEALED_POLL_SECONDS, SEALED_SECONDS
from manylabel_service.online.snapshots.snapshotter import Snapshotter
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.online.state.apply import COPIED_BYTES, ApplyResult, LogEntry
from manylabel_service.online.state.dry_run import SizeDelta, grown_columns
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.events import events_of
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.online.updates.replay import READ_ENTRIES, Interrupted, TargetLost, payload_bytes
from manylabel_service.online.updates.replay_verifier import ReplayVerifier
from manylabel_service.online.updates.update_queue import Pending, UpdateQueue
from manylabel_service.storage import START, Entry, ModelMeta, SnapshotMeta

APPENDS = 3
"""Maximum number of attempts to append, each after the model was restored."""

_Waiter = asyncio.Future[ServiceError | None]
"""Waiter for the end of the log; its result is the error that prevented this, if any."""


log = structlog.get_logger()


class ApplierStatus(Enum):
    """Status of an applier."""

    FOLLOWING = "entries are applied"
    DIVERGED = "the model must be restored before further entries are applied"
    ENDED = "no more entries are applied"


class Applier(HostedModel):
    """Online model with the loop that applies its log; a subclass handles requests.

    Parameters
    ----------
    record, host : the model, and the components that the models of a process share.
    model : the state of a model that was just created; by default it is restored.

    Attributes
    ----------
    spec : spec of the model.
    follow : log of another model that this model follows; None if it has a separate log.
    queue : updates from admission to response.
    snapshotter : writer of the snapshots.
    files : stored parts of the model.
    learning : lock of the replayer, see `LogReplayer`.
    """

    _answered = (LogTrimmed, LogLost)

    def __init__(self, record: ModelMeta, host: Host, model: OnlineModel | None = None) -> None:
        settings, store = host.settings, host.store
        super().__init__(record, settings, host.store_health, host.on_deleted, host.on_crashed, host.on_changed)
        self.spec = read_spec(record.spec) if model is None else model.spec
        self.follow = follow_of(record.spec)
        self._model = model
        self._events = Events(record.name, lambda: self.model)
        self.queue = UpdateQueue(record.name, settings)
        self._store = store
        self.snapshotter = Snapshotter(record, store, settings, host.snapshot_room, self.queue.wake)
        self.files = ModelFiles(record, store, spec=self.spec)
        self._history = self.files.history()
        self._replayer = ModelFiles(record, store, host.pace, self.spec).replayer(self._history)
        self.learning = self._replayer.learning
        self._verifier = ReplayVerifier(record, self.spec, store, self.files.snapshots, self._replayer)
        self._task: asyncio.Task[None] | None = None
        self._status = ApplierStatus.FOLLOWING
        self._busy = self._behind = self._must_read = self._stopping = False
        self._caught_up = asyncio.Event()
        self._position_waiters = PositionWaiters(lambda: self.model.position)
        self._sync_waiters: list[_Waiter] = []

    @property
    def model(self) -> OnlineModel:
        """State of the model, which is empty until it is restored; a restore replaces the object."""
        if self._model is None:
            self._model = OnlineModel(self.spec)
        return self._model

    @model.setter
    def model(self, model: OnlineModel) -> None:
        self._model = model

    @property
    def events(self) -> Events:
        return self._events

    @property
    def position(self) -> str:
        return START if self._model is None else self._model.position

    @property
    def nbytes(self) -> int:
        return 0 if self._model is None else self._model.nbytes

    @property
    def log_record(self) -> ModelMeta:
        return self.record if self.follow is None else self.follow.record

    # -- lifecycle --------------------------------------------------------------------------------

    async def restore(self, verify: bool = False) -> None:
        """Load the newest intact snapshot and replay the log after it; then start to serve.

        With `verify`, first check that this process computes the state in the newest snapshot, and raise ReplayMismatch
        if not. Raises LogTrimmed, LogLost, TargetLost or UnreadableEntry if the current state cannot be computed. A
        follower only loads its newest snapshot, and catches up from there after its start.
        """
        await self._load(verify)
        self.start()

    async def _load(self, verify: bool = False) -> None:
        if self.follow is not None:
            self.model, snapshot, *_ = await self._replayer.stored(self.files.beginning)
            self.snapshotter.resume(snapshot, 0, 0)
            self.poll()
            return
        if verify:
            await self._verifier.check()
        self.model, snapshot, learnt, size_bytes = await self._replayer.restored()
        self.snapshotter.resume(snapshot, learnt, size_bytes)

    def start(self) -> None:
        """Start to serve; a follower serves when it has caught up. A new model needs no `restore`."""
        if self.follow is None:
            super().start()
        else:
            self._refusal = lambda: NotReady(f"model {self.name!r} has only reached position {self.position}")
        self._task = asyncio.create_task(self._run(), name=f"replica {self.name}")

    @property
    def catching_up(self) -> bool:
        """True until a follower first reaches the end of the log."""
        return self.follow is not None and self.state is ModelLifecycle.RESTORING

    async def catch_up(self, seconds: float) -> None:
        """Wait at most `seconds` until a follower has caught up, or has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._caught_up.wait()

    def _on_caught_up(self) -> None:
        if self.catching_up:
            super().start()
        self._caught_up.set()

    @property
    def busy(self) -> bool:
        return self._busy

    @property
    def log_ended(self) -> bool:
        """True once a follower with an end position or time has read all of its part of the log."""
        return self._history.ended and not self._behind

    @property
    def waited_for(self) -> bool:
        """True while a caller waits for the loop, or a snapshot is being stored."""
        waiters = self.queue or self._position_waiters or self._sync_waiters
        return bool(self._busy or waiters or self.snapshotter.requested or self.snapshotter.busy)

    async def sync(self) -> ServiceError | None:
        """Wait until all current log entries are applied; return the error that prevented this, if any.

        If the model was deleted, the loop has ended when this returns.
        """
        if self._status is ApplierStatus.ENDED or self._task is None:
            return None
        synced: _Waiter = asyncio.get_running_loop().create_future()
        self._sync_waiters.append(synced)
        self.poll()
        return await synced

    def poll(self) -> None:
        """Read new entries of other processes, unless an append is about to do so."""
        self._must_read = True
        self.queue.wake()

    async def reach(self, position: str, seconds: float) -> bool:
        if not self._position_waiters.reached(position) and self._status is not ApplierStatus.ENDED:
            self.poll()
            await self._position_waiters.wait(position, seconds)
        return self._position_waiters.reached(position)

    async def take_snapshot(self) -> SnapshotMeta:
        """Take a snapshot of everything learnt so far; return once it is stored. Raises NotReady, LimitExceeded,
        StorageUnavailable or ModelGone."""
        super().check_changeable()
        requested = self.snapshotter.request()
        self.queue.wake()
        return await requested

    async def cover(self) -> bool:
        """Ensure an up-to-date snapshot; return whether there is one. Raises NotReady, StorageError or ModelGone."""
        if not await self.snapshotter.covers(self.model.position):
            await self.take_snapshot()
        return self.model.position == self.snapshotter.covered

    def end(self, state: ModelLifecycle, refusal: ErrorFactory) -> None:
        super().end(state, refusal)
        self._status = ApplierStatus.ENDED
        self._caught_up.set()
        self.queue.refuse(refusal)
        self.snapshotter.refuse(refusal())
        self.queue.wake()

    def evict(self) -> None:
        """Evict the model, and free the memory of its state at once, which reference cycles would retain for long."""
        super().evict()
        self._model = None

    async def stop(self) -> None:
        self.stop_changes()
        self._stopping = True
        self.queue.wake()
        if self._task is not None:
            await self._task
        if self.serving and self._store_health.stale_seconds is None:
            await self.snapshotter.take_last(self.model)
            self._store_health.responded()  # nothing else records the error while the server stops

    async def drop(self) -> None:
        await super().drop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.events.close()
        await self.snapshotter.drop()

    # -- the task ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self._status is not ApplierStatus.ENDED and (self.queue or not self._stopping):
                if not (self.queue or self._must_read or self._sync_waiters or self._snapshot_due):
                    await self.queue.wait(self.snapshotter.seconds_until_due(self.model.position))
                self._busy = True
                await self._step()
                self._busy = False
        except Exception as error:
            super().handle_error(error)
        finally:
            self._busy, self._status = False, ApplierStatus.ENDED
            self.snapshotter.refuse(NotReady(f"model {self.name!r} has ended"))
            self._position_waiters.give_up()
            _answer(self._sync_waiters, None)
            self.events.close()

    @property
    def _snapshot_due(self) -> bool:
        """True if a requested snapshot can be begun."""
        return self.snapshotter.requested and not self.snapshotter.busy

    async def _step(self) -> None:
        if self._status is not ApplierStatus.ENDED:
            await self._apply()
        if self._status is ApplierStatus.ENDED:
            return
        try:
            if self._snapshot_due and self._status is ApplierStatus.DIVERGED:
                self.snapshotter.refuse(NotReady(f"model {self.name!r} is being restored"))
            elif self._snapshot_due:
                await self.snapshotter.begin_requested(self.model)
            elif self._status is ApplierStatus.FOLLOWING:
                await self.snapshotter.take_if_due(self.model)
        except (ModelGone, IncompatibleRelease) as error:
            self.handle_error(error)
        except Exception:  # the model is unchanged, and continues without it
            log.exception("snapshot_failed", model=self.name, position=self.model.position)
            self.snapshotter.refuse(NotReady(f"a snapshot of model {self.name!r} could not be taken"))

    async def _apply(self) -> None:
        """Append pending changes, or read the log; then resolve the pending syncs."""
        waiters, self._sync_waiters = self._sync_waiters, []
        error: ServiceError | None = None
        try:
            if group := self.queue.take_group():
                error = await self._commit(group, waiters)
            elif self._must_read or waiters:
                error = await (self._follow_on() if self.follow is not None else self._catch_up())
            if error is None and (self._status is ApplierStatus.DIVERGED or self._behind):  # the end is unknown
                self._sync_waiters, waiters = waiters + self._sync_waiters, []
        finally:
            if waiters:
                _answer(waiters, error)

    async def _commit(self, group: list[Pending[Any]], waiters: list[_Waiter]) -> ServiceError | None:
        """Append and apply a group, and resolve its requests; return the error that prevented this, if any.

        Syncs that wait for the end of the log are resolved earlier if the log is sealed.
        """
        failure: ServiceError | None = None
        results: list[ApplyResult] = []
        try:
            results, failure = await self._append_and_apply(group, waiters)
        except asyncio.CancelledError:
            results = [ApplyResult(ModelNotFound(self.name))] * len(group)
            raise
        except Exception as error:
            failure = self.handle_error(error)
            results = [ApplyResult(failure)] * len(group)
        finally:
            self.queue.answer(group, results[-len(group) :])
        return failure

    async def _append_and_apply(
        self, group: list[Pending[Any]], waiters: list[_Waiter]
    ) -> tuple[list[ApplyResult], ServiceError | None]:
        """Append the group; first apply earlier entries of other processes, then the group."""
        stored = await self._append([pending.payload for pending in group], waiters)
        n_foreign = len(stored) - len(group)
        entries = await self._replayer.decoded(stored[:n_foreign]) if n_foreign else []
        entries += [LogEntry(e.position, p.change, p.checked) for e, p in zip(stored[n_foreign:], group, strict=True)]
        try:
            if GATE.closed:
                await self._replayer.compiled(self.model, entries)
            await self._reserve_capacity(group)
            return await self._apply_entries(entries, payload_bytes(stored), by_others=n_foreign > 0), None
        except Interrupted as error:
            results, failure = error.results, self.handle_error(error.error)
        except NotCompiled as error:
            results, failure = [], error
        if isinstance(failure, NotCompiled):  # the server stops, but the group is in the log
            failure = NotReady(f"the server stops before model {self.name!r} has applied the change, which is stored")
        return results + [ApplyResult(failure)] * (len(entries) - len(results)), failure

    async def _append(self, payloads: Sequence[bytes], waiters: list[_Waiter]) -> list[Entry]:
        give_up = time.monotonic() + SEALED_SECONDS
        attempts_left = APPENDS
        while True:
            attempts_left -= 1
            if self._status is ApplierStatus.DIVERGED:
                await self._restore_anew()
            self._must_read = False
            try:
                return await self._store.logs.append(self.record, payloads, self.model.position)
            except (LogTrimmed, LogLost) as error:
                self._mark_diverged(error)
                if not attempts_left:
                    raise
            except LogSealed:  # the model is about to be replaced by its successor
                # If the process that has sealed the log has died, only a server that is not stopping unseals the log.
                if self._stopping or time.monotonic() > give_up:
                    raise
                attempts_left += 1
                waiters += self._sync_waiters  # the process that has sealed the log may wait for the end of the log
                self._sync_waiters = []
                _answer(waiters, await self._catch_up())
                await asyncio.sleep(SEALED_POLL_SECONDS)

    async def _catch_up(self) -> ServiceError | None:
        """Read new entries of other processes; return the error that stopped it, if any."""
        self._must_read = False
        try:
            if self._status is ApplierStatus.DIVERGED:
                await self._restore_anew()
            while entries := await self._store.logs.read(self.record, self.model.position, READ_ENTRIES):
                await self._apply_entries(await self._replayer.decoded(entries), payload_bytes(entries), by_others=True)
        except (LogTrimmed, LogLost) as error:
            self._mark_diverged(error)
        except Interrupted as error:
            return self.handle_error(error.error)
        except Exception as error:
            return self.handle_error(error)
        return None

    async def _follow_on(self) -> ServiceError | None:
        """Learn the next entries of the leader's log; return the error that prevented this, if any.

        Snapshots are taken meanwhile, so that a restart begins at the latest one.
        """
        self._must_read = self._behind = False
        try:
            if self._status is ApplierStatus.DIVERGED:
                await self._restore_anew()
            if entries := await self._history.read(self.model.position, READ_ENTRIES):
                self._must_read = self._behind = True
                await self._apply_entries(await self._replayer.decoded(entries), payload_bytes(entries))
                check_limit(f"bytes of model {self.name!r}", self.model.nbytes, self._settings.max_model_bytes)
            else:
                self.model.position = self._history.position
                self._position_waiters.notify()
                self._on_caught_up()
        except (LogTrimmed, LogLost) as error:
            self._mark_diverged(error)
        except Interrupted as error:
            self._behind = False
            return self.handle_error(error.error)
        except (TargetLost, HistoryDamaged, UnreadableEntry) as error:
            self._behind = False
            detail = f"follower {self.name!r} cannot continue: {error}; delete it, and create it again"
            return self.handle_error(FollowerFailed(detail))
        except LimitExceeded as error:
            self._behind = False
            return self.handle_error(FollowerFailed(f"follower {self.name!r} has ended: {error}; delete it"))
        except Exception as error:
            self._behind = False
            return self.handle_error(error)
        return None

    async def _apply_entries(
        self, entries: Sequence[LogEntry], size_bytes: int, by_others: bool = False
    ) -> list[ApplyResult]:
        try:
            results = await self._replayer.apply(self.model, entries, waits=True)
        except Interrupted as error:
            self._publish(error.results)
            raise
        self._publish(results, size_bytes, by_others)
        return results

    def _publish(self, results: Sequence[ApplyResult], size_bytes: int = 0, by_others: bool = False) -> None:
        """Count the learnt examples, and notify callers that wait for a position or for events."""
        self.snapshotter.note_applied(sum(result.learnt for result in results), size_bytes, by_others)
        self._on_changed(self)
        self._position_waiters.notify()
        if self._events:
            for event in chain.from_iterable(map(events_of, results)):
                self._events.record(event)
            self._events.notify()

    async def _reserve_capacity(self, group: list[Pending[Any]]) -> None:
        """Reserve memory for the group's new columns if the copy of the model takes long."""
        model = self.model
        n_columns, n_labels = grown_columns(model, reduce(SizeDelta.plus, (pending.growth for pending in group)))
        grows = n_columns > model.features.n_columns or n_labels > len(model.labels)
        if grows and model.learner.pipeline.nbytes_after(n_columns, n_labels, 0, 0) > COPIED_BYTES:
            # With hashed features, most columns may never be written, so their memory is not touched now; the system
            # provides it on the first write.
            touch = not model.limits.hashes
            await asyncio.to_thread(model.learner.pipeline.reserve, n_columns, n_labels, touch)

    # -- errors -----------------------------------------------------------------------------------

    def _mark_diverged(self, error: Exception) -> None:
        """Require a restore before applying further entries, because the state no longer matches the log."""
        log.warning("model_diverged", model=self.name, position=self.model.position, reason=str(error))
        self._status, self._must_read = ApplierStatus.DIVERGED, True

    async def _restore_anew(self) -> None:
        try:
            await self._load()
        except NotCompiled as error:
            await GATE.wait(error.tiers)
            await self._restore_anew()
            return
        except (LogTrimmed, LogLost, HistoryDamaged, TargetLost) as error:
            raise RuntimeError(f"it cannot be restored: {error}") from error
        self._status = ApplierStatus.FOLLOWING
        self.events.gap()
        self._publish(())
        log.info("model_restored", model=self.name, position=self.model.position, updates=self.model.updates)

    def handle_error(self, error: Exception) -> ServiceError:
        if isinstance(error, TargetLost):
            self._mark_diverged(error)
            return NotReady(f"model {self.name!r} is being restored")
        if isinstance(error, LogSealed):  # the store has responded
            return error
        return super().handle_error(error)


def _answer(waiters: Sequence[_Waiter], error: ServiceError | None) -> None:
    for synced in waiters:
        if not synced.done():
            synced.set_result(error)
