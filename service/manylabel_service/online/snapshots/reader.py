"""Reader of the stored snapshots of one model."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import IO, Any

from manylabel_core.state import DamagedState, NewerState, State
from manylabel_service.errors import ReleaseTooOld, SnapshotNotFound
from manylabel_service.hosting.kernels import NotCompiled
from manylabel_service.online.state.model import MAX_HEADER_BYTES, OnlineModel
from manylabel_service.storage import ModelMeta, SnapshotMeta, Store, position_key


class SnapshotReader:
    """Finds and reads snapshots; every method raises StorageUnavailable and ModelGone."""

    def __init__(self, record: ModelMeta, store: Store) -> None:
        self._record = record
        self._store = store

    async def list(self) -> list[SnapshotMeta]:
        """Return all snapshots except states of the history, newest first."""
        return [each for each in await self._store.snapshots.all(self._record) if each.listed]

    async def load(self, position: str) -> OnlineModel:
        """Return the model in a snapshot. Raises manylabel_core.state.DamagedState, ReleaseTooOld or NotCompiled."""
        data = await self._store.snapshots.get(self._record, position)
        try:
            return await asyncio.to_thread(OnlineModel.from_bytes, data or b"")
        except NewerState as error:
            raise ReleaseTooOld(f"the snapshot at {position} is {error}") from error

    async def header(self, position: str) -> dict[str, Any]:
        """Return the unverified header of a snapshot, with its checksum. Raises
        manylabel_core.state.DamagedState."""
        async with aclosing(self._store.snapshots.read(self._record, position)) as pieces:
            return State.header_of(await anext(pieces, b""), MAX_HEADER_BYTES)

    async def copy(self, position: str, file: IO[bytes]) -> None:
        """Write a stored snapshot to an empty file in chunks; a second call starts over. Raises SnapshotNotFound or
        OSError."""
        record, size_bytes = await self.find(position), 0
        await asyncio.to_thread(file.truncate, 0)
        file.seek(0)
        async with aclosing(self._store.snapshots.read(self._record, record.position)) as pieces:
            async for piece in pieces:
                size_bytes += await asyncio.to_thread(file.write, piece)
        if size_bytes < record.size_bytes:
            raise SnapshotNotFound(self._record.name, position)
        await asyncio.to_thread(file.flush)

    async def pin(self, position: str) -> str:
        """Protect the snapshot at a position, in the syntax of the store, as long as the log needs it. Raises
        SnapshotNotFound or NotCompiled."""
        record = await self.find(position)
        pinned = await self._store.snapshots.retain(self._record, record.position, add="pin")
        if not pinned:
            raise SnapshotNotFound(self._record.name, position)
        try:
            await self.load(record.position)
        except (DamagedState, NotCompiled) as error:
            if not record.pinned:
                pins = pinned[0].pins
                await self._store.snapshots.retain(self._record, record.position, drop="pin", pins=pins)
            if isinstance(error, NotCompiled):
                raise
            raise SnapshotNotFound(self._record.name, position) from error
        return record.position

    async def find(self, position: str) -> SnapshotMeta:
        """Return the snapshot at a position; raise SnapshotNotFound."""
        try:
            record = at(position, await self.list())
        except ValueError:  # not a position
            record = None
        if record is None:
            raise SnapshotNotFound(self._record.name, position)
        return record


def at(position: str, snapshots: Sequence[SnapshotMeta]) -> SnapshotMeta | None:
    """Return the snapshot at a position; raise ValueError for an invalid position."""
    key = position_key(position)
    return next((snapshot for snapshot in snapshots if position_key(snapshot.position) == key), None)
