"""Apply loop of a model: one task appends to the log, reads new entries and applies them. Only it modifies the model.

Queued updates share one append and one pass of the kernel (group commit). An append returns the entries that other
processes added before it, which are applied first. Without queued updates, `poll` makes the task read the entries of
other processes.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from enum import Enum
from functools import reduce
from itertools import chain

import structlog

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
from manylabel_service.hosting.kernels import GATE, NotCompiled
from manylabel_service.hosting.position_waiters import PositionWaiters
from manylabel_service.online.host import Host
from manylabel_service.online.prediction_store import SEALED_POLL_SECONDS, SEALED_SECONDS
from manylabel_service.online.snapshots.snapshotter import Snapshotter
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.state.apply import COPIED_BYTES, ApplyResult, LogEntry
from manylabel_service.online.state.dry_run import SizeDelta, grown_columns
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.events import events_of
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.online.updates.replay import READ_ENTRIES, Interrupted, TargetLost, payload_bytes
from manylabel_service.online.updates.replay_verifier import ReplayVerifier
from manylabel_service.online.updates.update_queue import Pending, UpdateQueue
from manylabel_service.storage import Durability, Entry, ModelMeta, SnapshotMeta

APPENDS = 3
"""Maximum number of attempts to append, each after the model was restored."""


log = structlog.get_logger()


class ApplierStatus(Enum):
    """Status of an applier."""

    FOLLOWING = "entries are applied"
    DIVERGED = "the model must be restored before further entries are applied"
    ENDED = "no more entries are applied"


class Applier:
    """Loop that applies the log of one model to the model.

    Parameters
    ----------
    record, model, durability : metadata and initial state of the model.
    host : components that the models of a process share.
    queue : updates to append.
    snapshotter : snapshotter of the model.
    on_error : handles an error, and returns the error for pending requests.
    on_caught_up : callback when a follower has reached the end of its part of the log.

    Attributes
    ----------
    model : the state; replaced by a restore.
    events : events of the model.
    learning : lock of the replayer, see `LogReplayer`.
    """

    def __init__(
        self,
        record: ModelMeta,
        model: OnlineModel,
        durability: Durability,
        host: Host,
        queue: UpdateQueue,
        snapshotter: Snapshotter,
        on_error: Callable[[Exception], ServiceError],
        on_caught_up: Callable[[], None],
    ) -> None:
        self.model = model
        self.events = Events(record.name, lambda: self.model)
        self._record = record
        self._durability = durability
        self._store = store = host.store
        self._queue = queue
        self._snapshotter = snapshotter
        self._files = files = ModelFiles(record, store, host.pace, model.spec)
        self._history = files.history()
        self._replayer = files.replayer(self._history)
        self._follows = follow_of(record.spec) is not None
        self._behind = False
        self._on_caught_up = on_caught_up
        self._max_bytes = host.settings.max_model_bytes
        self.learning = self._replayer.learning
        self._agreement = ReplayVerifier(record, model.spec, store, files.snapshots, self._replayer)
        self._on_error = on_error
        self._task: asyncio.Task[None] | None = None
        self._state = ApplierStatus.FOLLOWING
        self._busy = self._must_read = self._stopping = False
        self._position_waiters = PositionWaiters(lambda: self.model.position)
        self._sync_waiters: list[asyncio.Future[ServiceError | None]] = []

    # -- interface --------------------------------------------------------------------------------

    async def restore(self, ask: Callable[[], bool] | None = None) -> None:
        """Bring the model to the end of the log, after a `ReplayVerifier.check` if `ask` is set; raises the errors of
        both.

        A follower is only restored to its newest snapshot, and catches up from there once it is started.
        """
        if self._follows:
            self.model, snapshot, *_ = await self._replayer.stored(self._files.beginning)
            self._snapshotter.resume(snapshot, 0, 0)
            self.poll()
            return
        if ask is not None:
            await self._agreement.check(ask)
        self.model, snapshot, learnt, size_bytes = await self._replayer.restored()
        self._snapshotter.resume(snapshot, learnt, size_bytes)

    def start(self) -> None:
        """Start the apply loop."""
        self._task = asyncio.create_task(self._run(), name=f"replica {self._record.name}")

    @property
    def busy(self) -> bool:
        """True while entries are being appended, read or applied."""
        return self._busy

    @property
    def log_ended(self) -> bool:
        """True once a follower with an end position or time has read all of its part of the log."""
        return self._history.ended and not self._behind

    @property
    def waited_for(self) -> bool:
        """True while a caller waits for this task."""
        waiters = self._queue or self._position_waiters or self._snapshotter.requested or self._sync_waiters
        return bool(self._busy or waiters)

    async def sync(self) -> ServiceError | None:
        """Wait until all current log entries are applied; return the error that prevented this, if any.

        If the model was deleted, the loop has ended when this returns.
        """
        if self._state is ApplierStatus.ENDED or self._task is None:
            return None
        synced: asyncio.Future[ServiceError | None] = asyncio.get_running_loop().create_future()
        self._sync_waiters.append(synced)
        self.poll()
        return await synced

    def poll(self) -> None:
        """Read new entries of other processes, unless an append is about to do so."""
        self._must_read = True
        self._queue.wake()

    async def reach(self, position: str, seconds: float) -> bool:
        """Wait at most `seconds` until the model is at or after the position; return whether it is."""
        if not self._position_waiters.reached(position) and self._state is not ApplierStatus.ENDED:
            self.poll()
            await self._position_waiters.wait(position, seconds)
        return self._position_waiters.reached(position)

    async def snapshot(self) -> SnapshotMeta:
        """Take a snapshot of everything learnt so far; return when it is stored. Raises NotReady or StorageError."""
        requested = self._snapshotter.request()
        self._queue.wake()
        return await requested

    def end(self, error: ServiceError) -> None:
        """Stop applying entries; pending requests for snapshots get the error."""
        self._state = ApplierStatus.ENDED
        self._snapshotter.refuse(error)
        self._queue.wake()

    async def stop(self) -> None:
        """Apply the queued updates, then stop."""
        self._stopping = True
        self._queue.wake()
        if self._task is not None:
            await self._task

    async def cancel(self) -> None:
        """Stop immediately."""
        self._state = ApplierStatus.ENDED
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.events.close()

    # -- the task ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self._state is not ApplierStatus.ENDED and (self._queue or not self._stopping):
                if not (self._queue or self._must_read or self._sync_waiters or self._snapshot_due):
                    await self._queue.wait(self._snapshotter.seconds_until_due(self.model.position))
                self._busy = True
                await self._step()
                self._busy = False
        except Exception as error:
            self._on_error(error)
        finally:
            self._busy, self._state = False, ApplierStatus.ENDED
            self._snapshotter.refuse(NotReady(f"model {self._record.name!r} has ended"))
            self._position_waiters.give_up()
            _answer(self._sync_waiters, None)
            self.events.close()

    @property
    def _snapshot_due(self) -> bool:
        """True if a requested snapshot can be begun."""
        return self._snapshotter.requested and not self._snapshotter.busy

    async def _step(self) -> None:
        await self._apply()
        if self._state is ApplierStatus.ENDED:
            return
        try:
            if self._snapshot_due and self._state is ApplierStatus.DIVERGED:
                self._snapshotter.refuse(NotReady(f"model {self._record.name!r} is being restored"))
            elif self._snapshot_due:
                await self._snapshotter.begin_requested(self.model)
            elif self._state is ApplierStatus.FOLLOWING:
                await self._snapshotter.take_if_due(self.model)
        except (ModelGone, IncompatibleRelease) as error:
            self._handle_error(error)
        except Exception:  # the model is unchanged, and continues without it
            log.exception("snapshot_failed", model=self._record.name, position=self.model.position)
            self._snapshotter.refuse(NotReady(f"a snapshot of model {self._record.name!r} could not be taken"))

    async def _apply(self) -> None:
        """Append pending changes, or read the log; then resolve the pending syncs."""
        waiters, self._sync_waiters = self._sync_waiters, []
        error: ServiceError | None = None
        try:
            if group := self._queue.take_group():
                error = await self._commit(group)
            elif self._must_read or waiters:
                error = await (self._follow_on() if self._follows else self._catch_up())
            if error is None and (self._state is ApplierStatus.DIVERGED or self._behind):  # the end is unknown
                self._sync_waiters, waiters = waiters + self._sync_waiters, []
        finally:
            _answer(waiters, error)

    async def _commit(self, group: list[Pending]) -> ServiceError | None:
        """Append and apply a group, and resolve its requests; return the error that prevented this, if any."""
        failure: ServiceError | None = None
        results: list[ApplyResult] = []
        try:
            results, failure = await self._append_and_apply(group)
        except asyncio.CancelledError:
            results = [ApplyResult(ModelNotFound(self._record.name))] * len(group)
            raise
        except Exception as error:
            failure = self._handle_error(error)
            results = [ApplyResult(failure)] * len(group)
        finally:
            self._queue.answer(group, results[-len(group) :])
        return failure

    async def _append_and_apply(self, group: list[Pending]) -> tuple[list[ApplyResult], ServiceError | None]:
        """Append the group; first apply earlier entries of other processes, then the group."""
        stored = await self._append([pending.payload for pending in group])
        n_foreign = len(stored) - len(group)
        entries = await self._replayer.decoded(stored[:n_foreign])
        entries += [LogEntry(e.position, p.change, p.checked) for e, p in zip(stored[n_foreign:], group, strict=True)]
        try:
            if GATE.closed:
                await self._replayer.compiled(self.model, entries)
            await self._reserve_capacity(group)
            return await self._apply_entries(entries, payload_bytes(stored), by_others=n_foreign > 0), None
        except Interrupted as error:
            results, failure = error.results, self._handle_error(error.error)
        except NotCompiled as error:
            results, failure = [], error
        if isinstance(failure, NotCompiled):  # the server stops, but the group is in the log
            failure = NotReady(
                f"the server stops before model {self._record.name!r} has applied the change, which is stored"
            )
        return results + [ApplyResult(failure)] * (len(entries) - len(results)), failure

    async def _append(self, payloads: Sequence[bytes]) -> list[Entry]:
        give_up = time.monotonic() + SEALED_SECONDS
        attempts_left = APPENDS
        while True:
            attempts_left -= 1
            if self._state is ApplierStatus.DIVERGED:
                await self._restore_anew()
            self._must_read = False
            try:
                return await self._store.logs.append(self._record, payloads, self.model.position, self._durability)
            except (LogTrimmed, LogLost) as error:
                self._mark_diverged(error)
                if not attempts_left:
                    raise
            except LogSealed:  # the model is about to be replaced by its successor
                if time.monotonic() > give_up:
                    raise
                attempts_left += 1
                waiters, self._sync_waiters = self._sync_waiters, []
                _answer(waiters, await self._catch_up())
                await asyncio.sleep(SEALED_POLL_SECONDS)

    async def _catch_up(self) -> ServiceError | None:
        """Read new entries of other processes; return the error that stopped it, if any."""
        self._must_read = False
        try:
            if self._state is ApplierStatus.DIVERGED:
                await self._restore_anew()
            while entries := await self._store.logs.read(self._record, self.model.position, READ_ENTRIES):
                await self._apply_entries(await self._replayer.decoded(entries), payload_bytes(entries), by_others=True)
        except (LogTrimmed, LogLost) as error:
            self._mark_diverged(error)
        except Interrupted as error:
            return self._handle_error(error.error)
        except Exception as error:
            return self._handle_error(error)
        return None

    async def _follow_on(self) -> ServiceError | None:
        """Learn the next entries of the leader's log; return the error that prevented this, if any.

        Snapshots are taken in between, so a restart begins at the latest one.
        """
        self._must_read = self._behind = False
        try:
            if self._state is ApplierStatus.DIVERGED:
                await self._restore_anew()
            if entries := await self._history.read(self.model.position, READ_ENTRIES):
                self._must_read = self._behind = True
                await self._apply_entries(await self._replayer.decoded(entries), payload_bytes(entries))
                check_limit(f"bytes of model {self._record.name!r}", self.model.nbytes, self._max_bytes)
            else:
                self.model.position = self._history.position
                self._position_waiters.notify()
                self._on_caught_up()
        except (LogTrimmed, LogLost) as error:
            self._mark_diverged(error)
        except Interrupted as error:
            self._behind = False
            return self._handle_error(error.error)
        except (TargetLost, HistoryDamaged, UnreadableEntry) as error:
            self._behind = False
            detail = f"follower {self._record.name!r} cannot continue: {error}; delete it, and create it again"
            return self._on_error(FollowerFailed(detail))
        except LimitExceeded as error:
            self._behind = False
            return self._on_error(FollowerFailed(f"follower {self._record.name!r} has ended: {error}; delete it"))
        except Exception as error:
            self._behind = False
            return self._handle_error(error)
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
        self._snapshotter.note_applied(sum(result.learnt for result in results), size_bytes, by_others)
        self._position_waiters.notify()
        if self.events:
            for event in chain.from_iterable(map(events_of, results)):
                self.events.record(event)
            self.events.notify()

    async def _reserve_capacity(self, group: list[Pending]) -> None:
        """Reserve memory for the group's new columns if the copy of the model takes long."""
        model = self.model
        n_columns, n_labels = grown_columns(model, reduce(SizeDelta.plus, (pending.growth for pending in group)))
        grows = n_columns > model.features.n_columns or n_labels > len(model.labels)
        if grows and model.learner.pipeline.nbytes_after(n_columns, n_labels, 0, 0) > COPIED_BYTES:
            # With hashed features most columns may never be written: their memory is not touched now; the system
            # provides it on the first write.
            touch = not model.limits.hashes
            await asyncio.to_thread(model.learner.pipeline.reserve, n_columns, n_labels, touch)

    # -- errors -----------------------------------------------------------------------------------

    def _mark_diverged(self, error: Exception) -> None:
        """Require a restore before applying further entries, because the state no longer matches the log."""
        log.warning("model_diverged", model=self._record.name, position=self.model.position, reason=str(error))
        self._state, self._must_read = ApplierStatus.DIVERGED, True

    async def _restore_anew(self) -> None:
        try:
            await self.restore()
        except NotCompiled as error:
            await GATE.wait(error.tiers)
            await self._restore_anew()
            return
        except (LogTrimmed, LogLost, HistoryDamaged, TargetLost) as error:
            raise RuntimeError(f"it cannot be restored: {error}") from error
        self._state = ApplierStatus.FOLLOWING
        self.events.gap()
        self._publish(())
        log.info("model_restored", model=self._record.name, position=self.model.position, updates=self.model.updates)

    def _handle_error(self, error: Exception) -> ServiceError:
        """Handle an error, and return the error for the pending requests."""
        if isinstance(error, TargetLost):
            self._mark_diverged(error)
            return NotReady(f"model {self._record.name!r} is being restored")
        return self._on_error(error)


def _answer(waiters: Sequence[asyncio.Future[ServiceError | None]], error: ServiceError | None) -> None:
    for synced in waiters:
        if not synced.done():
            synced.set_result(error)
