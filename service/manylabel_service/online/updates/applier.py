"""The log into the model: one task that appends, reads and folds. Nothing else touches the model.

Updates that wait together share one append and one pass of the kernel (group commit). An append
answers with what other processes added before it, and that is folded in first. When nothing waits
here, `look` makes the task read what others have added.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain

import structlog

from manylabel_service.errors import (
    DurabilityUnavailable,
    LogLost,
    LogTrimmed,
    ModelGone,
    ModelNotFound,
    NotReady,
    ServiceError,
    StorageGone,
)
from manylabel_service.hosting.events import Event, Events
from manylabel_service.hosting.hosted_model import ErrorFactory
from manylabel_service.hosting.position_waiters import PositionWaiters
from manylabel_service.hosting.store_health import StoreHealth
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.snapshots.requests import SnapshotRequests
from manylabel_service.online.snapshots.snapshotter import Snapshotter
from manylabel_service.online.state.answer import Answer
from manylabel_service.online.state.dry_run import SizeDelta, grown
from manylabel_service.online.state.fold import ApplyResult, LogEntry
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.replay import READ_ENTRIES, Interrupted, LogReplayer, TargetLost
from manylabel_service.online.updates.update_queue import Pending, UpdateQueue
from manylabel_service.storage import Durability, Entry, ModelRecord, SnapshotRecord, Store

COPIED_BYTES = 2**22
"""Bytes of a model that can be copied within a slice."""

APPENDS = 3
"""How often an append is tried, each time after the model was restored."""

log = structlog.get_logger()


class Applier:
    """Brings one model up to date, and keeps it there.

    Parameters
    ----------
    record, model, durability : the model, and its state before any entry.
    store : where its log is.
    queue : updates to append.
    shelf, snapshots : of the model: those stored, and when to take more.
    contact : told when the store is gone.
    ended : told what to answer from then on when there is no way on, and whether the model is gone.

    Attributes
    ----------
    model : the state; another takes its place when it has to be restored.
    events : what happens to the model.
    """

    def __init__(
        self,
        record: ModelRecord,
        model: OnlineModel,
        durability: Durability,
        store: Store,
        queue: UpdateQueue,
        shelf: SnapshotReader,
        snapshots: Snapshotter,
        contact: StoreHealth,
        ended: Callable[[ErrorFactory, bool], None],
    ) -> None:
        self.model = model
        self.events = Events(record.name, lambda: self.model)
        self._record = record
        self._durability = durability
        self._store = store
        self._queue = queue
        self._snapshots = snapshots
        self._contact = contact
        self._playback = LogReplayer(record, model.spec, store, shelf, snapshots)
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self._busy = self._behind = self._unsound = self._stopping = self._over = False
        self._arrivals = PositionWaiters(lambda: self.model.position)
        self._wanted = SnapshotRequests(record.name, snapshots)
        self._doubters: list[asyncio.Future[ServiceError | None]] = []

    # -- from outside -----------------------------------------------------------------------------

    async def restore(self) -> None:
        """Bring the model to the end of the log; before `start`. Raises as `LogReplayer.restored`."""
        self.model = await self._playback.restored()

    def start(self) -> None:
        """Begin to apply."""
        self._task = asyncio.create_task(self._run(), name=f"replica {self._record.name}")

    @property
    def busy(self) -> bool:
        """Whether entries are being appended, read or folded now."""
        return self._busy

    @property
    def waited_for(self) -> bool:
        """Whether anybody waits for what this task does."""
        return bool(self._busy or self._queue.examples or self._arrivals or self._wanted or self._doubters)

    async def confirm(self) -> ServiceError | None:
        """Wait until all that others have done to the model by now is known here; what kept it from that, if anything.

        A model that turns out to be gone has ended afterwards.
        """
        if self._over or self._task is None:
            return None
        known: asyncio.Future[ServiceError | None] = asyncio.get_running_loop().create_future()
        self._doubters.append(known)
        self.look()
        return await known

    def look(self) -> None:
        """Read what others have added, unless an append does so anyway."""
        self._behind = True
        self._queue.wake()

    async def reach(self, position: str, seconds: float) -> bool:
        """Wait, for so long at most, until the model is at or after the position; whether it is."""
        if not self._arrivals.reached(position) and not self._over:
            self.look()
            await self._arrivals.wait(position, seconds)
        return self._arrivals.reached(position)

    async def snapshot(self) -> SnapshotRecord:
        """Take a snapshot of all that has been learnt by now; answers when it is stored.

        Raises
        ------
        NotReady, StorageError
        """
        wanted = self._wanted.ask()
        self._queue.wake()
        return await wanted

    def stop(self) -> None:
        """End when nothing waits any more."""
        self._stopping = True
        self._queue.wake()

    async def done(self) -> None:
        """Wait for the end."""
        if self._task is not None:
            await self._task

    async def cancel(self) -> None:
        """End now."""
        self._over = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.events.close()

    # -- the task ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self._over and (self._queue or not self._stopping):
                if not (self._queue or self._behind or self._doubters or self._wanted.due):
                    await self._queue.wait(self._snapshots.seconds_until_due(self.model.position))
                self._busy = True
                await self._step()
                self._busy = False
        finally:
            self._busy, self._over = False, True
            self._wanted.refuse(NotReady(f"model {self._record.name!r} has ended"))
            self._arrivals.give_up()
            _settle(self._doubters, None)
            self.events.close()

    async def _step(self) -> None:
        await self._go_on()
        if self._over:
            return
        try:
            if self._wanted.due and self._unsound:
                self._wanted.refuse(NotReady(f"model {self._record.name!r} is being restored"))
            elif self._wanted.due:
                await self._wanted.begin(self.model)
            elif not self._unsound:
                await self._snapshots.take_if_due(self.model)
        except ModelGone as error:
            self._consequence(error)
        except Exception:  # the model is as good as before, and goes on without
            log.exception("snapshot_failed", model=self._record.name, position=self.model.position)
            self._wanted.refuse(NotReady(f"a snapshot of model {self._record.name!r} could not be taken"))

    async def _go_on(self) -> None:
        """Append what waits, else read; then those who asked before know what others had done."""
        doubters, self._doubters = self._doubters, []
        error: ServiceError | None = None
        try:
            if group := self._queue.take_group():
                error = await self._commit(group)
            elif self._behind or doubters:
                error = await self._catch_up()
            if error is None and self._unsound:  # nothing is known before it is restored
                self._doubters, doubters = doubters + self._doubters, []
        finally:
            _settle(doubters, error)

    async def _commit(self, group: list[Pending]) -> ServiceError | None:
        consequence: ServiceError | None = None
        outcomes: list[ApplyResult] = []
        try:
            outcomes, consequence = await self._learn(group)
        except asyncio.CancelledError:
            outcomes = [ApplyResult(ModelNotFound(self._record.name))] * len(group)
            raise
        except Exception as error:
            consequence = self._consequence(error)
            outcomes = [ApplyResult(consequence)] * len(group)
        finally:
            self._queue.settle(group, outcomes[-len(group) :])
        return consequence

    async def _learn(self, group: list[Pending]) -> tuple[list[ApplyResult], ServiceError | None]:
        """One append for the group; fold in what others appended before it, then the group, as far as that goes."""
        entries = await self._append([pending.payload for pending in group])
        await self._make_room(group)
        n_foreign = len(entries) - len(group)
        changes = await self._playback.decoded(entries[:n_foreign])
        self._snapshots.met_others |= n_foreign > 0
        changes += [LogEntry(e.position, p.update, p.checked) for e, p in zip(entries[n_foreign:], group, strict=True)]
        try:
            return await self._fold(changes), None
        except Interrupted as error:
            consequence = self._consequence(error.error)
            return error.outcomes + [ApplyResult(consequence)] * (len(changes) - len(error.outcomes)), consequence

    async def _append(self, payloads: Sequence[bytes]) -> list[Entry]:
        for attempts_left in reversed(range(APPENDS)):
            if self._unsound:
                await self._restore_anew()
            self._behind = False
            try:
                return await self._store.logs.append(self._record, payloads, self.model.position, self._durability)
            except (LogTrimmed, LogLost) as error:
                self._doubt(error)
                if not attempts_left:
                    raise
        raise AssertionError("unreachable")

    async def _catch_up(self) -> ServiceError | None:
        """Read what others have added; answers what kept it from that."""
        self._behind = False
        try:
            if self._unsound:
                await self._restore_anew()
            while await self._read_on():
                self._snapshots.met_others = True
        except (LogTrimmed, LogLost) as error:
            self._doubt(error)
        except Interrupted as error:
            return self._consequence(error.error)
        except Exception as error:
            return self._consequence(error)
        return None

    async def _read_on(self) -> bool:
        entries = await self._store.logs.read(self._record, self.model.position, READ_ENTRIES)
        if entries:
            await self._fold(await self._playback.decoded(entries))
        return bool(entries)

    async def _fold(self, changes: Sequence[LogEntry]) -> list[ApplyResult]:
        try:
            outcomes = await self._playback.fold(self.model, changes)
        except Interrupted as error:
            self._tell(error.outcomes)
            raise
        self._tell(outcomes)
        return outcomes

    def _tell(self, outcomes: Sequence[ApplyResult]) -> None:
        """Let those know who wait for a position, or for events."""
        self._arrivals.tell()
        if self.events:
            for event in chain.from_iterable(map(_events, outcomes)):
                self.events.record(event)
            self.events.notify()

    async def _make_room(self, group: list[Pending]) -> None:
        """Have the memory that the group's new columns need, if copying the model there takes a while."""
        model = self.model
        n_features, n_labels = grown(model, reduce(SizeDelta.plus, (pending.growth for pending in group)))
        grows = n_features > len(model.features) or n_labels > len(model.labels)
        if grows and model.learner.nbytes > COPIED_BYTES:
            await asyncio.to_thread(model.learner.reserve, n_features, n_labels)

    # -- when something is wrong ------------------------------------------------------------------

    def _doubt(self, error: Exception) -> None:
        """The state does not go with the log any more: get another before anything else is folded in."""
        log.warning("model_restored_anew", model=self._record.name, position=self.model.position, reason=str(error))
        self._unsound = self._behind = True

    async def _restore_anew(self) -> None:
        try:
            self.model = await self._playback.restored()
        except (LogTrimmed, LogLost, TargetLost) as error:
            raise RuntimeError(f"it cannot be restored: {error}") from error
        self._unsound = False
        self.events.gap()
        self._tell(())
        log.info("model_restored", model=self._record.name, position=self.model.position, updates=self.model.updates)

    def _consequence(self, error: Exception) -> ServiceError:
        """What to do about an error, and what to answer to those who waited."""
        name = self._record.name
        if isinstance(error, ModelGone):
            self._finish(lambda: ModelGone(name, self._record.incarnation), gone=True)
            return error
        if isinstance(error, StorageGone):
            self._contact.lost()  # whoever hears that it is back has this task look again
            return error
        if isinstance(error, DurabilityUnavailable | LogTrimmed | LogLost):
            return error
        if isinstance(error, TargetLost):
            self._doubt(error)
            return NotReady(f"model {name!r} is being restored")
        # The fold may have stopped half-way: this state must neither answer nor be kept.
        log.error("model_failed", model=name, position=self.model.position, exc_info=error)
        self._finish(lambda: NotReady(f"model {name!r} failed; the server must be restarted"), gone=False)
        return NotReady(f"model {name!r} failed")

    def _finish(self, reason: ErrorFactory, gone: bool) -> None:
        self._over = True
        self._ended(reason, gone)
        self._wanted.refuse(reason())


def _settle(doubters: Sequence[asyncio.Future[ServiceError | None]], error: ServiceError | None) -> None:
    for known in doubters:
        if not known.done():
            known.set_result(error)


def _events(outcome: ApplyResult) -> Iterator[Event]:
    answer = outcome.answer
    if not isinstance(answer, Answer) or outcome.replayed:
        return
    position = answer.position
    data: dict[str, object] = {"position": position, "updates": answer.updates}
    if outcome.kind == "rollback":
        yield Event("rollback", position, {**data, "to": answer.rolled_back_to})
        return
    for updates, label in outcome.alarms:
        yield Event("drift", position, {"position": position, "updates": updates, "label": label}, outcome.behind)
    yield Event("update", position, {**data, "examples": outcome.learnt})
