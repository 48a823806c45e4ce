"""Which snapshots stay, which pins are let go, and how much of the log."""

import time

from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import ModelRecord, SnapshotRecord, Store, position_key

PIN_SECONDS = 60.0
"""A pin that nothing in the log needs stays for so long: a rollback may be on its way into the log."""


class Retention:
    """Keeps the newest snapshots of one model, and those that the log still needs.

    A rollback in the log can be replayed only with the snapshot that it goes back to. Whoever
    appends one pins that snapshot first; it is let go once the log is trimmed past the rollback.

    Parameters
    ----------
    record, store : the model and where it is.
    kept : snapshots kept beside the pinned ones.
    """

    def __init__(self, record: ModelRecord, store: Store, kept: int) -> None:
        self._record = record
        self._store = store
        self._kept = kept
        self._needless_since: dict[str, float] = {}

    async def next_to_go_bytes(self) -> int:
        """Return the bytes of the snapshots that will be dropped once one more is stored."""
        snapshots = await self._store.snapshots.all(self._record)
        return sum(old.size_bytes for old in snapshots[self._kept - 1 :] if not old.pinned)

    async def apply(self, model: OnlineModel) -> list[SnapshotRecord]:
        """Drop what is old, trim the log behind the oldest kept; answers the snapshots there were before."""
        snapshots = await self._store.snapshots.all(self._record)
        for old in snapshots[self._kept :]:
            if not old.pinned:
                await self._store.snapshots.delete(self._record, old.position)
        # Behind the newest but one at most: some entry stays, which tells a replica that is behind that it is.
        last = max(self._kept, 2)
        if len(snapshots) >= last:
            trimmed = snapshots[last - 1].position
            await self._store.logs.trim(self._record, trimmed)
            await self._unpin(model, snapshots, trimmed)
        return snapshots

    async def _unpin(self, model: OnlineModel, snapshots: list[SnapshotRecord], trimmed: str) -> None:
        needed = {to for entry, to in model.rollbacks if position_key(entry) > position_key(trimmed)}
        needless = [s.position for s in snapshots if s.pinned and s.position not in needed]
        now = time.monotonic()
        self._needless_since = {position: self._needless_since.get(position, now) for position in needless}
        for position, since in self._needless_since.items():
            if now - since >= PIN_SECONDS:
                await self._store.snapshots.pin(self._record, position, False)
