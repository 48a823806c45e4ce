"""Snapshots of one model: when, how, and which are kept.

A snapshot is verified after it was written; only then are older ones dropped and the log trimmed
behind the oldest kept. So a damaged snapshot costs a longer replay, and never part of the model.
"""

import asyncio
import time

import structlog

from manylabel_core.state import DamagedState, load
from manylabel_service.errors import ModelGone, StorageError, StorageGone
from manylabel_service.replicas.stream_model import StreamModel
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelRecord, Store

STORING_SECONDS = 0.5
"""How long to leave a snapshot that is being stored before looking again."""

log = structlog.get_logger()


class Snapshots:
    """Takes, keeps and finds the snapshots of one model.

    Attributes
    ----------
    taken_at : time.monotonic() of the last snapshot taken by this process, or of its start.
    size_bytes : of that snapshot; 0 before the first.
    """

    def __init__(self, record: ModelRecord, store: Store, settings: Settings) -> None:
        self._record = record
        self._store = store
        self._settings = settings
        self._updates_covered = 0
        self._tried_updates = 0
        self._storing: asyncio.Task[None] | None = None
        self.taken_at = time.monotonic()
        self.size_bytes = 0

    async def newest_intact(self) -> StreamModel | None:
        """The model of the newest snapshot that is whole; None when there is none."""
        for snapshot in await self._store.snapshots(self._record):
            try:
                data = await self._store.get_snapshot(self._record, snapshot.position)
                model = await asyncio.to_thread(StreamModel.from_bytes, data or b"")
            except (DamagedState, StorageGone) as error:
                log.warning(
                    "snapshot_damaged",
                    model=self._record.name,
                    position=snapshot.position,
                    error=str(error),
                    action="falling back to an older snapshot and a longer replay",
                )
                continue
            self._updates_covered = self._tried_updates = model.updates
            self.size_bytes = snapshot.size_bytes
            return model
        return None

    def due(self, model: StreamModel) -> bool:
        """Whether it is time for the next."""
        return not self._busy and (
            model.updates - self._tried_updates >= self._settings.snapshot_every_updates
            or self.seconds_until_due(model) == 0
        )

    def seconds_until_due(self, model: StreamModel) -> float | None:
        """Until it is worth asking `due` again; None while every update is covered by a snapshot."""
        if model.updates == self._updates_covered:
            return None
        seconds = self.taken_at + self._settings.snapshot_every_seconds - time.monotonic()
        return max(seconds, STORING_SECONDS if self._busy else 0.0)

    async def begin(self, model: StreamModel) -> None:
        """Turn the model into bytes, in a thread, and go on storing them in the background.

        The caller must not fold anything in until this returns; predictions may go on.
        """
        position, updates = model.position, model.updates
        self.taken_at = time.monotonic()
        self._tried_updates = updates
        try:
            data = await asyncio.to_thread(model.to_bytes)
        except MemoryError as error:
            log.warning("snapshot_failed", model=self._record.name, position=position, error=repr(error))
            return
        self._storing = asyncio.create_task(self._put(position, updates, data))

    async def take(self, model: StreamModel) -> None:
        """Take one now if the model has changed since the last, and wait until it is stored."""
        await self._settled()
        if model.updates != self._updates_covered:
            await self.begin(model)
            await self._settled()

    async def drop(self) -> None:
        """Give up the one being stored."""
        if self._storing is not None:
            self._storing.cancel()
            await self._settled()

    @property
    def _busy(self) -> bool:
        return self._storing is not None and not self._storing.done()

    async def _settled(self) -> None:
        if self._storing is not None:
            await asyncio.gather(self._storing, return_exceptions=True)

    async def _put(self, position: str, updates: int, data: bytes) -> None:
        try:
            await self._store.put_snapshot(self._record, position, data)
            await self._verify(position)
            await self._keep_newest()
        except ModelGone:
            return
        except (StorageError, DamagedState) as error:
            log.warning("snapshot_failed", model=self._record.name, position=position, error=str(error))
        else:
            self._updates_covered, self.size_bytes = updates, len(data)
            log.info("snapshot", model=self._record.name, position=position, bytes=len(data))

    async def _verify(self, position: str) -> None:
        data = await self._store.get_snapshot(self._record, position)
        try:
            await asyncio.to_thread(load, data or b"")
        except DamagedState:
            await self._store.delete_snapshot(self._record, position)
            raise

    async def _keep_newest(self) -> None:
        kept = self._settings.snapshots_kept
        snapshots = await self._store.snapshots(self._record)
        for old in snapshots[kept:]:
            await self._store.delete_snapshot(self._record, old.position)
        if len(snapshots) >= kept:
            await self._store.trim(self._record, snapshots[kept - 1].position)
