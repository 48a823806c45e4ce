"""Writer of the successors of a leader and of its promoted follower.

The successor of the leader has the log of the leader, and the spec, snapshots and states of the follower. The successor
of the follower has the spec, snapshots and states of the leader, and follows the other successor. Both models continue
bit for bit. Their history begins at a position where both have a state, and no later rollback returns to a state before
this position.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

import structlog

from manylabel_core.state import DamagedState
from manylabel_service.errors import NotPromotable
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.spec.follow import Follow, demoted, follow_of, promoted
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import TrainedSpec, read_spec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.successor.writer import SuccessorWriter
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.storage import SEED, START, LogExtent, ModelMeta, Store, position_key
from manylabel_service.storage.protocol import Reason

log = structlog.get_logger()

RECENT: tuple[Reason, ...] = ("recent",)
HISTORY: tuple[Reason, ...] = ("history",)


class Promoted(NamedTuple):
    """Models and their successors, the beginning of the history, and the follower's state at the end of the log."""

    successions: Sequence[tuple[ModelMeta, ModelMeta]]
    since: str
    position: str
    updates: int
    checksum: str


class PromotionWriter(SuccessorWriter):
    """Writer of the successors of a leader and of the follower that replaces it.

    Parameters
    ----------
    record : the leader.
    follower : follower that has caught up.
    store, room, ttl_seconds : see `SuccessorWriter`.
    """

    def __init__(
        self,
        record: ModelMeta,
        follower: ModelMeta,
        store: Store,
        room: SnapshotQuota,
        ttl_seconds: float,
    ) -> None:
        super().__init__(record, store, room, ttl_seconds)
        self._follower = follower
        follow = follow_of(follower.spec)
        assert follow is not None
        self._follow: Follow = follow

    async def stage(self, rollbacks: Collection[tuple[str, str]]) -> list[tuple[ModelMeta, ModelMeta]]:
        """Prepare both successors; return each model with its successor.

        Parameters
        ----------
        rollbacks : position and target position of each rollback of both models.
        """
        self._begin = await self._beginning(rollbacks)
        await self._stage(self._begin)
        seeded = START if self._begin == START else SEED
        self._demoted = await self._store.models.stage(self._follower, seeded)
        self._new_follow = Follow(model=self._record.name, incarnation=self.successor.incarnation, begin=self._begin)
        return self._successions(START)

    def _successions(self, position: str) -> list[tuple[ModelMeta, ModelMeta]]:
        """Return the models and their successors, with their specs after a position."""
        specs = self._record.spec, self._follower.spec
        successor = ModelMeta(self._record.name, self.successor.incarnation, promoted(*specs, position))
        other = ModelMeta(self._follower.name, self._demoted.incarnation, demoted(*specs, position, self._new_follow))
        return [(self._record, successor), (self._follower, other)]

    async def _beginning(self, rollbacks: Collection[tuple[str, str]]) -> str:
        """Return the earliest position at which the new history can begin."""
        least = position_key(await self._files.first_state())
        positions = {snapshot.position for snapshot in await self._store.snapshots.all(self._follower)}
        positions -= {SEED} if self._follow.has_seed else set()
        possible = [each for each in (self._follow.begin, *positions) if position_key(each) >= least]
        for begin in sorted(possible, key=position_key):
            if _can_begin_at(begin, rollbacks):
                return begin
        raise NotPromotable(self._follower.name, "its snapshots are older than the history of its leader")

    async def build(self) -> None:
        """Write the history and the log almost up to the end of the log, and the existing snapshots and states."""
        catalogue = self._found.beginning_at(self._begin)
        segments = [segment._replace(id=await self._copied(segment.id)) for segment in catalogue.segments]
        new = catalogue.model_copy(update={"segments": tuple(segments)})
        await self._new_catalogue.change(lambda _: new)
        specs = [read_spec(record.spec) for _, record in self._successions(START)]
        shared = self._store, self._room
        self._copies = (
            _Copy(*shared, self._follower, self.successor, specs[0], self._follow.has_seed),
            _Copy(*shared, self._record, self._demoted, specs[1], self._new_follow.has_seed),
        )
        if self._begin != START:
            own, other = self._copies
            for at, copy, reason in ((self._begin, own, HISTORY), (SEED, other, RECENT)):
                model = await copy.files.state_at(self._begin)
                await copy.put(at, model, LogExtent(model.updates, 0), reason)
        for copy in self._copies:
            await copy.copy_states(self._begin)
        await self.catch_up()

    async def finish(self, log_bytes: int) -> Promoted:
        """Complete `build` after the log is sealed.

        Parameters
        ----------
        log_bytes : bytes of the whole log of the leader.
        """
        while await self._advance():
            pass
        position = self._adopted
        new, old = [await copy.files.state_at(position) for copy in self._copies]
        if not _can_begin_at(self._begin, (*new.rollbacks, *old.rollbacks)):
            raise NotPromotable(self._follower.name, "its leader was rolled back to before the history; try again")
        checksum = await asyncio.to_thread(new.checksum)
        for copy, model in zip(self._copies, (new, old), strict=True):
            if position != START:
                await copy.put(position, model, LogExtent(model.updates, log_bytes), RECENT)
            await copy.pin()
        self._ends = old, new
        return Promoted(self._successions(position), self._begin, position, new.updates, checksum)


def _can_begin_at(begin: str, rollbacks: Collection[tuple[str, str]]) -> bool:
    """Return whether no rollback after a position returns to a state before it."""
    key = position_key(begin)
    return all(position_key(to) >= key or position_key(entry) <= key for entry, to in rollbacks)


class _Copy:
    """Copier of the snapshots and states of a model to a successor with another spec.

    Parameters
    ----------
    source, successor, spec : the two models, and the spec for the states of the successor.
    seeded : whether the initial state of either model is the snapshot at `SEED`, which is not copied.
    """

    def __init__(
        self,
        store: Store,
        room: SnapshotQuota,
        source: ModelMeta,
        successor: ModelMeta,
        spec: ModelSpec | TrainedSpec,
        seeded: bool,
    ) -> None:
        self.source, self.successor = source, successor
        self.files = ModelFiles(source, store)
        self._store = store
        self._room = room
        self._spec = spec
        self._seeded = seeded

    async def copy_states(self, begin: str) -> None:
        """Copy the snapshots from a position on."""
        key, reader = position_key(begin), self.files.snapshots
        for snapshot in await self._store.snapshots.all(self.source):
            if (self._seeded and snapshot.position == SEED) or position_key(snapshot.position) < key:
                continue
            try:
                model = await reader.load(snapshot.position)
            except DamagedState as error:
                log.warning("snapshot_damaged", model=self.source.name, position=snapshot.position, error=str(error))
            else:
                await self.put(snapshot.position, model, snapshot.extent, snapshot.reasons)

    async def put(self, position: str, model: OnlineModel, extent: LogExtent, reasons: tuple[Reason, ...]) -> None:
        """Store a snapshot of the successor, unless it already has a snapshot at the position for the same reasons."""
        if all([await self._store.snapshots.retain(self.successor, position, add=reason) for reason in reasons]):
            return
        await self._room.put(self.successor, position, await self._data(model), extent, reasons)

    async def pin(self) -> None:
        """Pin the snapshots of the successor like those of the source."""
        for snapshot in await self._store.snapshots.all(self.source):
            if snapshot.pinned:
                await self._store.snapshots.retain(self.successor, snapshot.position, add="pin")

    async def _data(self, model: OnlineModel) -> memoryview:
        model.spec = self._spec
        return await asyncio.to_thread(model.to_buffer)
