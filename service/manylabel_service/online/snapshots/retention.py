"""Retention: selects the snapshots to retain, the pins to remove, and the position up to which to trim the log."""

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from manylabel_service.environment import time
from manylabel_service.online.history.archiver import Archiver
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import SEED, START, UNREADABLE, ModelMeta, SnapshotMeta, Store, position_key

PIN_SECONDS = 60.0
"""Seconds for which an unneeded pin is retained, because a rollback may be about to enter the log. Each new pin of the
snapshot begins them again."""

log = structlog.get_logger()


class Plan(NamedTuple):
    """Snapshots to retain, and the position up to which to trim the log; None: do not trim it."""

    kept: Sequence[SnapshotMeta]
    trimmed: str | None


def plan(snapshots: Sequence[SnapshotMeta], n_kept: int) -> Plan:
    """Plan the retention of these snapshots (newest first) and of the log."""
    # The newest entry is retained, so that a replica that is behind notices it.
    first = max(n_kept, 2) - 1
    trimmed = snapshots[first].position if len(snapshots) > first else None
    return Plan(snapshots[:n_kept], trimmed)


def _total(snapshots: Sequence[SnapshotMeta]) -> int:
    """Return the total size of the snapshots in bytes."""
    return sum(snapshot.size_bytes for snapshot in snapshots)


class Retention:
    """Retention of the snapshots of one model: the newest ones, and those that the log needs.

    A rollback in the log can be replayed only with its target snapshot. The replica that appends a rollback pins that
    snapshot first; the pin is removed once the log is trimmed past the rollback.

    A follower has no log to trim, and retains its initial snapshot.

    Parameters
    ----------
    record, store : model and store.
    n_kept : number of snapshots to retain besides pinned ones.
    archiver : moves the log into the history before it is trimmed.
    """

    def __init__(self, record: ModelMeta, store: Store, n_kept: int, archiver: Archiver) -> None:
        self._record = record
        self._store = store
        self._n_kept = n_kept
        self._archiver = archiver
        self._follows = follow_of(record.spec) is not None
        # Time since when a pinned snapshot is not needed, by its position and number of pins.
        self._needless_since: dict[tuple[str, int], float] = {}

    async def bytes_to_go(self, new: SnapshotMeta) -> int:
        """Return the bytes of the snapshots that `apply` will delete when this snapshot is stored."""
        before = await self._store.snapshots.all(self._record)
        others = [old for old in before if old.listed and old.position != new.position]
        kept = {old.position for old in plan([new, *others], self._n_kept).kept}
        return _total([old for old in others if old.position not in kept and not old.pinned])

    async def apply(self, model: OnlineModel) -> list[SnapshotMeta]:
        """Delete old snapshots, and move the log before the oldest needed one into the history; return the previous
        snapshots."""
        stored = await self._store.snapshots.all(self._record)
        snapshots = [each for each in stored if each.listed]
        planned = plan(snapshots, self._n_kept)
        trimmed = None
        try:
            await self._archiver.check()
            if planned.trimmed is not None and not self._follows:
                trimmed = await self._archiver.close(planned.trimmed)
            await self._archiver.keep_states(stored)
        except UNREADABLE as error:
            action = "the history stays as it is, and the log is not trimmed"
            log.error("history_unreadable", model=self._record.name, error=str(error), action=action)
            await self._drop(snapshots, planned)
            return snapshots
        await self._drop(snapshots, planned)
        if self._follows:
            await self._archiver.retain(model.rollbacks, START)
        if trimmed is not None:
            await self._store.logs.trim(self._record, trimmed)
            await self._unpin(model, snapshots, trimmed)
            await self._archiver.retain(model.rollbacks, trimmed)
        return snapshots

    async def _drop(self, snapshots: Sequence[SnapshotMeta], planned: Plan) -> None:
        stay = {snapshot.position for snapshot in planned.kept}
        for old in snapshots:
            if old.position not in stay and not (old.pinned or (self._follows and old.position == SEED)):
                await self._store.snapshots.retain(self._record, old.position, drop="recent")

    async def _unpin(self, model: OnlineModel, snapshots: list[SnapshotMeta], trimmed: str) -> None:
        needed = {to for entry, to in model.rollbacks if position_key(entry) > position_key(trimmed)}
        needless = [(s.position, s.pins) for s in snapshots if s.pinned and s.position not in needed]
        now = time.monotonic()
        self._needless_since = {each: self._needless_since.get(each, now) for each in needless}
        for (position, pins), since in self._needless_since.items():
            if now - since >= PIN_SECONDS:
                await self._store.snapshots.retain(self._record, position, drop="pin", pins=pins)
