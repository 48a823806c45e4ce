"""Snapshotter of one model: schedule, serialisation and retention.

The store verifies the written bytes before a snapshot is used; only then are older snapshots deleted, and the log is
trimmed up to the oldest retained snapshot. So if a snapshot is damaged, replay takes longer, but no part of the model
is lost.

One snapshot per model is sufficient for all processes: a replica first checks whether another replica has taken one,
and replicas of shared models wait for a random additional time.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

import structlog

from manylabel_service.environment import random, time
from manylabel_service.errors import (
    DocumentNewer,
    LimitExceeded,
    LogTrimmed,
    ModelGone,
    NotReady,
    ServiceError,
    StorageError,
    StorageUnavailable,
)
from manylabel_service.online.history.archiver import NO_HISTORY, Archiver, HistoryLimits
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.snapshots.reader import at
from manylabel_service.online.snapshots.retention import Retention
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.spec.trained import is_trained
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings
from manylabel_service.storage import START, LogExtent, ModelMeta, SnapshotMeta, Store, position_key

STORING_SECONDS = 0.5
"""Seconds between checks of a snapshot that another process is storing."""
SPREAD = 0.25
"""Maximum additional wait of a replica before a snapshot, as a share of the configured interval, so that one replica is
first."""

log = structlog.get_logger()

Storing = asyncio.Task[SnapshotMeta | None]
Request = asyncio.Future[SnapshotMeta]


class Snapshotter:
    """Takes and retains the snapshots of one model.

    Attributes
    ----------
    covered : position up to which a known snapshot includes the log.
    archiver : moves the log into the history of the model.
    log_bytes : known bytes of all payloads of the log, including trimmed ones.
    taken_at : time.monotonic() of the last snapshot, or of the start of this process.
    size_bytes : size of the last snapshot; 0 before the first.
    """

    def __init__(
        self,
        record: ModelMeta,
        store: Store,
        settings: Settings,
        room: SnapshotQuota,
        on_stored: Callable[[], None],
    ) -> None:
        self._record = record
        self._store = store
        self._settings = settings
        self._room = room
        self._on_stored = on_stored
        # The log of a trained model has no examples, only labels of its predictions.
        limits = NO_HISTORY if is_trained(record.spec) else HistoryLimits.of(settings)
        self.archiver = Archiver(record, store, limits)
        self._retention = Retention(record, store, settings.snapshot_retention_count, self.archiver)
        self._storing: Storing | None = None
        self._patience = 1.0
        self._soon = False
        self._room_free = asyncio.Event()
        self._room_free.set()
        self._learnt = 0  # examples since the last attempt
        self._met_others = False  # whether other processes have the model too
        self._requests: list[Request] = []
        self.covered = START
        self.log_bytes = 0
        self.taken_at = time.monotonic()
        self.size_bytes = 0

    def resume(self, snapshot: SnapshotMeta | None, learnt: int, size_bytes: int) -> None:
        """Start from the restored snapshot (None: none), and the part of the log that was learnt since then."""
        self.covered = START if snapshot is None else snapshot.position
        self.size_bytes = 0 if snapshot is None else snapshot.size_bytes
        self._learnt = learnt
        self.log_bytes = size_bytes + (0 if snapshot is None else snapshot.extent.size_bytes)

    def note_applied(self, examples: int, size_bytes: int, by_others: bool) -> None:
        """Count learnt examples and applied bytes of the log; other processes may have appended them."""
        self._learnt += examples
        self.log_bytes += size_bytes
        self._met_others |= by_others

    # -- schedule ---------------------------------------------------------------------------------

    def soon(self) -> None:
        """Make the next snapshot due at once."""
        self._soon = True

    def due(self, position: str) -> bool:
        """Return whether the next snapshot is due when the model is at this position."""
        return not self.busy and (
            self._learnt >= self._settings.snapshot_every_updates * self._patience
            or self.seconds_until_due(position) == 0
        )

    def seconds_until_due(self, position: str) -> float | None:
        """Return the seconds until the next check of `due`; None if a snapshot is up to date."""
        if position == self.covered:
            return None
        seconds = self.taken_at + self._settings.snapshot_every_seconds * self._patience - time.monotonic()
        return max(0.0 if self._soon else seconds, STORING_SECONDS if self.busy else 0.0)

    @property
    def busy(self) -> bool:
        """True if a snapshot is being stored, or waits for memory."""
        return not self._room_free.is_set() or (self._storing is not None and not self._storing.done())

    # -- requests ---------------------------------------------------------------------------------

    @property
    def requested(self) -> bool:
        """True if a requested snapshot has not been begun."""
        return bool(self._requests)

    def request(self) -> Request:
        """Request a snapshot of everything learnt so far; concurrent requests get the same snapshot."""
        request: Request = asyncio.get_running_loop().create_future()
        self._requests.append(request)
        return request

    async def begin_requested(self, model: OnlineModel) -> None:
        """Begin one snapshot for all pending requests (see `begin`), which resolve when it is stored."""
        n_covered = len(self._requests)
        if (storing := await self.begin(model)) is not None:
            covered, self._requests = self._requests[:n_covered], self._requests[n_covered:]
            storing.add_done_callback(lambda storing: self._answer(covered, storing))

    def refuse(self, error: ServiceError) -> None:
        """Fail all pending requests with an error."""
        requests, self._requests = self._requests, []
        _refuse(requests, error)

    def _answer(self, requests: Sequence[Request], storing: Storing) -> None:
        error = None if storing.cancelled() else storing.exception()
        record = None if storing.cancelled() or error is not None else storing.result()
        if record is None:
            _refuse(requests, error or NotReady(f"a snapshot of model {self._record.name!r} could not be taken"))
            return
        for request in requests:
            if not request.done():
                request.set_result(record)

    # -- taking -----------------------------------------------------------------------------------

    async def take_if_due(self, model: OnlineModel) -> None:
        """Begin a snapshot if it is due and no other replica has taken it."""
        if not self.due(model.position) or (reservation := self._reserve(model)) is None:
            return
        with reservation:
            must_cover = self._soon
            self._tried()
            try:
                taken = await self._others_took(model.position, must_cover)
            except StorageError:
                return  # retried at the next due time
            if not taken:
                await self._begin(model, reservation)

    async def begin(self, model: OnlineModel) -> Storing | None:
        """Serialise the model in a thread, and store it in the background.

        The caller must not apply entries until this returns; predictions may continue. Returns None if the memory quota
        is exhausted; the snapshotter is then `busy` until another attempt may succeed.
        """
        await self._wait_until_stored()
        if (reservation := self._reserve(model)) is None:
            return None
        with reservation:
            return await self._begin(model, reservation)

    async def _begin(self, model: OnlineModel, reservation: ExitStack) -> Storing:
        """Begin to store the model; the storing task takes over the reservation."""
        self._tried()
        try:
            data = await asyncio.to_thread(model.to_buffer)
        except MemoryError as error:
            log.warning("snapshot_failed", model=self._record.name, position=model.position, error=repr(error))
            self._storing = asyncio.create_task(_nothing())
        else:
            extent = LogExtent(model.updates, self.log_bytes)
            self._storing = asyncio.create_task(self._put(model, model.position, data, extent))
        reserved = reservation.pop_all()
        self._storing.add_done_callback(lambda storing: self._ended(storing, reserved))
        return self._storing

    def _reserve(self, model: OnlineModel) -> ExitStack | None:
        reservation = self._room.reserve(model.nbytes, self._try_again)
        if reservation is None:
            self._room_free.clear()
        return reservation

    def _try_again(self) -> None:
        self._room_free.set()
        self._on_stored()

    async def covers(self, position: str) -> bool:
        """Return whether a snapshot of any replica includes a position, after running snapshots are stored. Raises
        StorageError or ModelGone."""
        await self._wait_until_stored()
        if position != self.covered:
            await self._newer_of_others()
        return position_key(self.covered) >= position_key(position)

    async def take_last(self, model: OnlineModel) -> None:
        """Ensure an up-to-date snapshot, and wait until it is stored; call this only after the last entry is applied.
        Raises StorageError or ModelGone."""
        if not await self.covers(model.position):
            while await self.begin(model) is None:
                await self._room_free.wait()
            await self._wait_until_stored()

    def storing(self) -> AbstractContextManager[None]:
        """Return the context in which blobs of the model are stored; forgetting of examples waits until it ends."""
        return self._room.storing(self._record.incarnation)

    async def drop(self) -> None:
        """Drop the snapshot that is being stored."""
        if self._storing is not None:
            self._storing.cancel()
            await self._wait_until_stored()

    def _tried(self) -> None:
        self.taken_at = time.monotonic()
        self._learnt = 0
        self._soon = False
        self._patience = 1.0 + SPREAD * random.random() if self._met_others else 1.0

    async def _others_took(self, position: str, must_cover: bool) -> bool:
        """Return whether a snapshot of another replica is recent enough.

        Its age is measured by the clock of the other machine. If that clock is wrong, this replica takes a snapshot
        that is not needed, or takes it one interval later.
        """
        newest = await self._newer_of_others()
        if newest is None or must_cover:
            return position_key(self.covered) >= position_key(position)
        age_seconds = time.time() - newest.created_unix_ms / 1000
        return newest.position == position or age_seconds < self._settings.snapshot_every_seconds

    async def _newer_of_others(self) -> SnapshotMeta | None:
        """Return the newest snapshot if another replica stored it and this process does not know it yet."""
        newest = next((each for each in await self._store.snapshots.all(self._record) if each.listed), None)
        if newest is None or position_key(newest.position) <= position_key(self.covered):
            return None
        self.covered, self._met_others, self.size_bytes = newest.position, True, newest.size_bytes
        return newest

    async def _wait_until_stored(self) -> None:
        if self._storing is not None:
            await asyncio.gather(self._storing, return_exceptions=True)

    def _ended(self, storing: Storing, reserved: ExitStack) -> None:
        reserved.close()
        if not storing.cancelled():
            storing.exception()  # marks the error as retrieved; it has been logged already
        self._on_stored()

    async def _put(self, model: OnlineModel, position: str, data: memoryview, extent: LogExtent) -> SnapshotMeta | None:
        new = SnapshotMeta(position, len(data), time.time_ns() // 1_000_000, extent=extent)
        try:
            await self._room.add_stored(new.size_bytes - await self._retention.bytes_to_go(new))
            foreign = follow_of(self._record.spec) is not None
            with self.storing():
                await self._store.snapshots.put(self._record, position, data, extent, *((True,) if foreign else ()))
                self.covered, self.size_bytes = position, len(data)
                log.info("snapshot_stored", model=self._record.name, position=position, bytes=len(data))
                kept = await self._retention.apply(model)
        except ModelGone:
            return None
        except LogTrimmed:
            log.info("snapshot_superseded", model=self._record.name, position=position)  # by another replica
            return None
        except (StorageError, LimitExceeded, DocumentNewer) as error:
            log.warning("snapshot_failed", model=self._record.name, position=position, error=str(error))
            if isinstance(error, StorageUnavailable | LimitExceeded | DocumentNewer):
                raise
            raise NotReady(f"the snapshot of model {self._record.name!r} could not be stored") from error
        return at(position, kept)


def _refuse(requests: Sequence[Request], error: BaseException) -> None:
    for request in requests:
        if not request.done():
            request.set_exception(error)


async def _nothing() -> SnapshotMeta | None:
    return None
