"""Replay of a log into a model, in time slices between which predictions run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import structlog

from manylabel_core.state import DamagedState
from manylabel_service.environment import time
from manylabel_service.errors import (
    FollowerFailed,
    HistoryDamaged,
    LogLost,
    LogTrimmed,
    StorageUnavailable,
    UnreadableEntry,
)
from manylabel_service.hosting.kernels import GATE, NotCompiled
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.follow import Roles, follow_of
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import TrainedSpec
from manylabel_service.online.state.apply import ApplyBatch, ApplyResult, LogEntry
from manylabel_service.online.state.log_entries import as_followed, decode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.tiers import tiers_of_entries
from manylabel_service.slices import SLICE_SECONDS, HalfPace, SliceSize, in_thread
from manylabel_service.storage import START, Entry, ModelMeta, SnapshotMeta, Store, position_key

READ_ENTRIES = 1_000
"""Number of entries read from the log at a time."""

LARGE_ENTRY_BYTES = 2**16
"""Minimum bytes of an entry that a thread decodes."""

RESTORES = 3
"""Maximum number of attempts to restore; during each, other replicas may trim the log."""

log = structlog.get_logger()


class TargetLost(Exception):
    """The target snapshot of a rollback is missing or incomplete."""


HOPELESS = (LogTrimmed, LogLost, HistoryDamaged, TargetLost, UnreadableEntry)
"""Permanent errors: the model cannot be restored."""


class Interrupted(Exception):
    """The store became unavailable during the replay, or the server stopped before the functions of a rollback's target
    were compiled. The model is then at an earlier entry.

    Parameters
    ----------
    results : results of the applied entries.
    error : error that ended the replay.
    """

    def __init__(self, results: list[ApplyResult], error: StorageUnavailable | NotCompiled) -> None:
        super().__init__(str(error))
        self.results = results
        self.error = error


class Restored(NamedTuple):
    """Model at the end of its log, the snapshot from which it was restored, and the log since the snapshot:

    `learnt` is the number of examples in this part, and `size_bytes` the size of its payloads.
    """

    model: OnlineModel
    snapshot: SnapshotMeta | None
    learnt: int
    size_bytes: int


class LogReplayer:
    """Replayer of the log of one model: it decodes entries and applies them to states of the model.

    Parameters
    ----------
    record, spec : the model.
    store : store of its log.
    snapshot_reader : reader of its snapshots.
    read : returns a number of entries after a position, like `Logs.read`.
    target : returns the target state of a rollback; raises TargetLost.
    pace : pace shared with the other followers of this process; not needed for a model with a separate log.

    Attributes
    ----------
    learning : lock that a thread holds while it learns or explains.
    """

    def __init__(
        self,
        record: ModelMeta,
        spec: ModelSpec | TrainedSpec,
        store: Store,
        snapshot_reader: SnapshotReader,
        read: Callable[[str, int], Awaitable[list[Entry]]],
        target: Callable[[str], Awaitable[OnlineModel]],
        pace: HalfPace | None = None,
    ) -> None:
        self._record = record
        self._spec = spec
        self._store = store
        self._snapshot_reader = snapshot_reader
        self._read = read
        self._target = target
        self._slice = SliceSize()
        self._follow = follow_of(record.spec)
        self._roles = Roles(record.spec)
        self._pace = pace or HalfPace()
        self.learning = asyncio.Lock()

    async def restored(self) -> Restored:
        """Return the model at the end of the log: the newest intact snapshot and the replayed log after it.

        Raises LogTrimmed, LogLost or TargetLost if no intact snapshot is at or after the beginning of the log.
        """
        for _ in range(RESTORES):
            try:
                return await self._from_newest()
            except LogTrimmed as error:  # other replicas have stored newer snapshots in the meantime
                trimmed = error
        raise trimmed

    async def stored(self, beginning: Callable[[], Awaitable[OnlineModel]]) -> Restored:
        """Return a follower at its newest intact snapshot from which the leader's log continues, or at its beginning.

        Raises FollowerFailed if the leader's log does not continue from any of them, or if the leader was deleted.
        """
        follow = self._follow
        assert follow is not None
        leader = await self._store.models.find(follow.model)
        if leader is None or leader.incarnation != follow.incarnation:
            raise FollowerFailed(
                f"follower {self._record.name!r} cannot continue: model {follow.model!r}, which it follows, was "
                "deleted; delete the follower too"
            )
        for snapshot in [*await self._snapshot_reader.list(), None]:
            try:
                model = await (beginning() if snapshot is None else self._snapshot_reader.load(snapshot.position))
                await self._read(model.position, 1)
            except (DamagedState, LogTrimmed, LogLost, HistoryDamaged) as error:
                self._pass_over(snapshot.position if snapshot else START, error)
            else:
                return Restored(model, snapshot, 0, 0)
        raise FollowerFailed(
            f"follower {self._record.name!r} cannot continue: the history of its leader no longer reaches back to what "
            "it has learnt; delete it, and create it again"
        )

    async def _from_newest(self) -> Restored:
        failure: Exception | None = None
        unavailable: StorageUnavailable | None = None
        for snapshot in [*await self._snapshot_reader.list(), None]:
            try:
                model = await self._snapshot(snapshot)
            except (DamagedState, StorageUnavailable) as error:
                if isinstance(error, StorageUnavailable):
                    await self._store.models.find(self._record.name)  # if this fails too, the snapshot is not the cause
                    unavailable = error
                self._pass_over(snapshot.position if snapshot else START, error)
                continue
            learnt = size_bytes = 0
            try:
                while pairs := await self.read_on(model):
                    learnt += sum(result.learnt for _, result in pairs)
                    size_bytes += payload_bytes(entry for entry, _ in pairs)
            except Interrupted as error:
                raise error.error from error
            except LogTrimmed as error:
                if unavailable is None:
                    raise
                raise unavailable from error
            except (LogLost, TargetLost, HistoryDamaged) as error:
                self._pass_over(model.position, error)
                failure = error
            else:
                return Restored(model, snapshot, learnt, size_bytes)
        assert failure is not None
        raise unavailable or failure  # the unavailable snapshot may be the needed one

    async def _snapshot(self, snapshot: SnapshotMeta | None) -> OnlineModel:
        if snapshot is None:  # a spec may declare hundreds of thousands of names
            return await asyncio.to_thread(OnlineModel, self._spec)
        try:
            return await self._snapshot_reader.load(snapshot.position)
        except StorageUnavailable:  # an interruption must not cost a long replay
            return await self._snapshot_reader.load(snapshot.position)

    def _pass_over(self, position: str, error: Exception) -> None:
        action = "falling back to an older snapshot and a longer replay"
        fields = {"model": self._record.name, "position": position, "error": str(error), "action": action}
        if isinstance(error, StorageUnavailable):
            log.warning("snapshot_unreadable", **fields)
        else:
            log.warning("snapshot_damaged", **fields)

    async def read_on(self, model: OnlineModel, through: str | None = None) -> list[tuple[Entry, ApplyResult]]:
        """Apply the next entries of the log, at most up to a position if it is set; return each entry with its result.

        At the end of the log, the result is empty. Raises LogTrimmed, LogLost, TargetLost, UnreadableEntry, NotCompiled
        or ModelGone, and Interrupted or StorageUnavailable; after these, applied entries stay applied.
        """
        entries = await self._read(model.position, READ_ENTRIES)
        if through is not None:
            entries = [entry for entry in entries if position_key(entry.position) <= position_key(through)]
        results = await self.apply(model, await self.decoded(entries)) if entries else []
        return list(zip(entries, results, strict=True))

    async def decoded(self, entries: Sequence[Entry]) -> list[LogEntry]:
        """Decode entries; other tasks may run between two entries, and during a large one."""
        decoded: list[LogEntry] = []
        slice_ends = time.perf_counter() + SLICE_SECONDS
        for entry in entries:
            if time.perf_counter() > slice_ends:
                await self._rest(SLICE_SECONDS)
                slice_ends = time.perf_counter() + SLICE_SECONDS
            large = len(entry.payload) >= LARGE_ENTRY_BYTES
            change = await asyncio.to_thread(decode, entry.payload) if large else decode(entry.payload)
            follows = self._roles.follows_at(entry.position)
            decoded.append(LogEntry(entry.position, as_followed(change) if follows else change))
        return decoded

    async def _rest(self, worked_seconds: float) -> None:
        """Yield to other tasks after some work; a follower pauses for the duration of its work."""
        if self._follow is None:
            await asyncio.sleep(0)
            return
        self._pace.worked(worked_seconds)
        await self._pace.turn()

    async def apply(self, model: OnlineModel, entries: Sequence[LogEntry], waits: bool = False) -> list[ApplyResult]:
        """Apply entries; raises the errors of `read_on`.

        If functions that the entries need are not compiled yet, wait for them, or, unless `waits`, raise NotCompiled.
        """
        if GATE.closed:
            await self.compiled(model, entries, waits)
        batch = ApplyBatch(model, entries)
        more = True
        if self._follow is not None:
            await self._pace.turn()
        try:
            while more:
                needed = batch.needed_snapshot
                target = None if needed is None else await self._loaded(needed, waits)
                if self.learning.locked():
                    async with self.learning:  # no thread explains now, and none begins before `take`
                        pass
                if target is not None:
                    batch.roll_back(target)
                started, learnt = time.perf_counter(), batch.learnt
                batch.take(self._slice.examples)
                if batch.takes_long:
                    async with self.learning:
                        await in_thread(batch.learn)
                else:
                    batch.learn()
                more = batch.finish()
                seconds = time.perf_counter() - started
                if batch.learnt > learnt:
                    self._slice.observe(batch.learnt - learnt, seconds)
                if more or self._follow is not None:
                    await self._rest(seconds)
        except (StorageUnavailable, NotCompiled) as error:
            if isinstance(error, NotCompiled) and not waits:
                raise
            raise Interrupted(batch.outcomes, error) from error
        return batch.outcomes

    async def compiled(self, model: OnlineModel, entries: Sequence[LogEntry], waits: bool = True) -> None:
        """Wait, or raise NotCompiled, until the functions that entries need are loaded; rollbacks load their target
        later."""
        tiers = tiers_of_entries(model, entries)
        if waits:
            await GATE.wait(tiers)
        GATE.require(tiers)

    async def _loaded(self, position: str, waits: bool) -> OnlineModel:
        """Return the target state of a rollback."""
        while True:
            try:
                return await self._target(position)
            except NotCompiled as error:
                if not waits:
                    raise
                await GATE.wait(error.tiers)


def payload_bytes(entries: Iterable[Entry]) -> int:
    """Return the total size of the payloads of entries in bytes."""
    return sum(len(entry.payload) for entry in entries)
