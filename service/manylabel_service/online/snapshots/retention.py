"""Retention: the snapshots to keep, the pins to remove, and the position to trim the log to."""

import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from manylabel_service.errors import LogTrimmed
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelMeta, SnapshotMeta, Store, position_key

PIN_SECONDS = 60.0
"""Seconds for which a pin stays that no log entry needs: a rollback may be on its way into the log."""

STEP = 0.25
"""Between two snapshots that the log may begin at later lies this share of what is kept of it."""


class LogWindow(NamedTuple):
    """How much of a log is kept for those who train from it: the end of it that has `examples` and took `seconds`.

    Unless that, with the snapshots that are kept for it alone, is more than `size_bytes`.
    """

    examples: int
    seconds: float
    size_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return what the settings say."""
        return cls(settings.log_retention_examples, 3600 * settings.log_retention_hours, settings.log_retention_bytes)

    def share(self, earlier: SnapshotMeta, later: SnapshotMeta) -> float:
        """Return how much of the window lies between two snapshots: at 1 it is all there."""
        examples = later.extent.examples - earlier.extent.examples
        seconds = (later.created_unix_ms - earlier.created_unix_ms) / 1000
        pairs = ((examples, self.examples), (seconds, self.seconds))
        return min((had / due for had, due in pairs if due > 0), default=1.0)

    def is_step(self, earlier: SnapshotMeta, later: SnapshotMeta) -> bool:
        """Return whether the log may begin at either, and not be much longer at one than at the other."""
        share_of_bytes = (later.extent.size_bytes - earlier.extent.size_bytes) / self.size_bytes
        return max(self.share(earlier, later), share_of_bytes) >= STEP


NO_WINDOW = LogWindow(0, 0, 1)


class Plan(NamedTuple):
    """A plan says which snapshots stay, and through which position the log goes; None: no more of it than has gone."""

    kept: Sequence[SnapshotMeta]
    trimmed: str | None


def plan(snapshots: Sequence[SnapshotMeta], n_kept: int, window: LogWindow) -> Plan:
    """Plan what stays of these snapshots, the newest of which is the first, and of the log.

    The newest `n_kept` stay; and the one that the log begins at, without which it cannot be read, with some between.
    """
    # Behind the newest but one at most: some entry stays, which tells a replica that is behind that it is.
    first = max(n_kept, 2) - 1
    if len(snapshots) <= first:
        return Plan(snapshots, None)
    newest, begin = snapshots[0], first
    while window.share(snapshots[begin], newest) < 1:
        if begin + 1 == len(snapshots):  # all that there is does not reach
            older = _between(snapshots, n_kept, begin, window)
            fits = newest.extent.size_bytes + _total(older) <= window.size_bytes
            return Plan([*snapshots[:n_kept], *older], None if fits else snapshots[begin].position)
        log_bytes = newest.extent.size_bytes - snapshots[begin + 1].extent.size_bytes
        if log_bytes + _total(_between(snapshots, n_kept, begin + 1, window)) > window.size_bytes:
            break
        begin += 1
    if begin == first:
        return Plan(snapshots[:n_kept], snapshots[begin].position)
    return Plan([*snapshots[:n_kept], *_between(snapshots, n_kept, begin, window)], snapshots[begin].position)


def _between(snapshots: Sequence[SnapshotMeta], n_kept: int, begin: int, window: LogWindow) -> Sequence[SnapshotMeta]:
    """Return the snapshots to keep beside the newest, if the log begins at this one, from it on."""
    between: list[SnapshotMeta] = []
    for snapshot in reversed(snapshots[n_kept : begin + 1]):
        if not between or snapshot.pinned or snapshot.kept or window.is_step(between[-1], snapshot):
            between.append(snapshot)
    return between[::-1]


def _total(snapshots: Sequence[SnapshotMeta]) -> int:
    """Return the bytes of the automatic snapshots."""
    return sum(snapshot.size_bytes for snapshot in snapshots if not snapshot.kept)


class Retention:
    """Keeps the newest snapshots of one model, the manual ones, and those that the log still needs.

    A rollback in the log can be replayed only with the snapshot that it goes back to. The replica that
    appends a rollback pins that snapshot first; the pin is removed once the log is trimmed past the rollback.

    Parameters
    ----------
    record, store : the model and where it is.
    n_kept : snapshots kept beside the pinned ones, and those that the log begins at.
    window : how much of the log is kept.
    """

    def __init__(self, record: ModelMeta, store: Store, n_kept: int, window: LogWindow) -> None:
        self._record = record
        self._store = store
        self._n_kept = n_kept
        self._window = window
        self._needless_since: dict[str, float] = {}
        self._behind_log: set[str] = set()

    async def bytes_to_go(self, new: SnapshotMeta, keep_log: bool = True) -> int:
        """Return the bytes of the snapshots that `apply` will drop once this one is stored."""
        before = await self._store.snapshots.all(self._record)
        others = [old for old in before if old.position != new.position]
        kept = {old.position for old in (await self._plan([new, *others], keep_log)).kept}
        return _total([old for old in others if old.position not in kept and not old.pinned])

    async def apply(self, model: OnlineModel, keep_log: bool = True) -> list[SnapshotMeta]:
        """Drop what is old, trim the log behind the oldest needed; answers the snapshots there were before.

        Without `keep_log`, no more of the log is kept than the newest snapshots need.
        """
        snapshots = await self._store.snapshots.all(self._record)
        planned = await self._plan(snapshots, keep_log)
        await self._drop(snapshots, planned)
        if (trimmed := planned.trimmed) is not None:
            await self._store.logs.trim(self._record, trimmed)
            await self._unpin(model, snapshots, trimmed)
        return snapshots

    async def drop_old(self) -> None:
        """Drop what is old, as `apply`; the log stays as it is."""
        snapshots = await self._store.snapshots.all(self._record)
        await self._drop(snapshots, await self._plan(snapshots, True))

    async def _drop(self, snapshots: Sequence[SnapshotMeta], planned: Plan) -> None:
        stay = {snapshot.position for snapshot in planned.kept}
        for old in snapshots:
            if old.position not in stay and not (old.pinned or old.kept):
                await self._store.snapshots.delete(self._record, old.position)

    async def _plan(self, snapshots: Sequence[SnapshotMeta], keep_log: bool) -> Plan:
        reached = [snapshot for snapshot in snapshots if not await self._is_behind_log(snapshot)]
        return plan(reached, self._n_kept, self._window if keep_log else NO_WINDOW)

    async def _is_behind_log(self, snapshot: SnapshotMeta) -> bool:
        """Return whether a snapshot stays only because it is manual: the log does not reach back to it."""
        if snapshot.kept and snapshot.position not in self._behind_log:
            try:
                await self._store.logs.read(self._record, snapshot.position, 1)
            except LogTrimmed:
                self._behind_log.add(snapshot.position)
        return bool(snapshot.kept) and snapshot.position in self._behind_log

    async def _unpin(self, model: OnlineModel, snapshots: list[SnapshotMeta], trimmed: str) -> None:
        needed = {to for entry, to in model.rollbacks if position_key(entry) > position_key(trimmed)}
        needless = [s.position for s in snapshots if s.pinned and s.position not in needed]
        now = time.monotonic()
        self._needless_since = {position: self._needless_since.get(position, now) for position in needless}
        for position, since in self._needless_since.items():
            if now - since >= PIN_SECONDS:
                await self._store.snapshots.pin(self._record, position, False)
