"""Snapshots of models: blobs that a document of the model names.

A blob is stored under a key that is never used again, and read back. The snapshot exists once the document names it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

import structlog
from pydantic import ConfigDict, Field

from manylabel_service import ulid
from manylabel_service.clock import now_ms
from manylabel_service.errors import (
    BlobDamaged,
    BlobNotFound,
    DocumentDamaged,
    LogLost,
    LogTrimmed,
    ModelDamaged,
    ModelGone,
    StorageFull,
    StorageUnavailable,
)
from manylabel_service.storage.blob_collection import BlobCollection, delete_orphans
from manylabel_service.storage.blob_pieces import pieces_of
from manylabel_service.storage.collection import UNREADABLE, Collection, StoredModel, intact
from manylabel_service.storage.gate import Gate, gated
from manylabel_service.storage.protocol import (
    NO_EXTENT,
    Blobs,
    Bytes,
    Documents,
    LogExtent,
    Logs,
    ModelMeta,
    Reason,
    SnapshotMeta,
    position_key,
)

KIND = "snapshots"
"""Kind of the documents, which are named by the incarnation."""

BLOBS = "snapshots/"

MAX_SIZES = 1_000
"""Maximum number of blobs whose sizes are cached."""

NOT_PUT = (ModelGone, ModelDamaged, LogTrimmed, LogLost, StorageFull)
"""Errors that mean that no document names the new blob."""

log = structlog.get_logger()


class SnapshotTable(StoredModel):
    """Table of the snapshots of one model, by the ids of their blobs."""

    model_config = ConfigDict(frozen=True)

    model: str
    snapshots: dict[str, SnapshotMeta] = Field(default_factory=dict)

    def find(self, position: str) -> tuple[str, SnapshotMeta] | None:
        """Return the snapshot at a position, with the id of its blob."""
        return next(((id, each) for id, each in self.snapshots.items() if each.position == position), None)

    def having(self, id: str, snapshot: SnapshotMeta) -> "SnapshotTable":
        """Return the table with a snapshot that replaces any other at its position."""
        others = {other: each for other, each in self.snapshots.items() if each.position != snapshot.position}
        return self.model_copy(update={"snapshots": {**others, id: snapshot}})

    def without(self, id: str) -> "SnapshotTable":
        """Return the table without a snapshot."""
        return self.model_copy(update={"snapshots": {key: each for key, each in self.snapshots.items() if key != id}})


class Snapshots:
    """Snapshots of all models: states as bytes, at positions of the logs.

    All stores share this class, which uses the logs, documents and blobs of a store.
    """

    def __init__(self, gate: Gate, logs: Logs, documents: Documents, blobs: Blobs) -> None:
        self.gate = gate
        self._logs = logs
        self._documents = documents
        self._blobs = blobs
        self._sizes: dict[str, int] = {}
        """Bytes of blobs that no readable table names, by key."""
        self._tables = Collection(documents, KIND, SnapshotTable)
        self._listed_bytes: dict[str, int] = {}
        self._total_bytes = 0
        self._counting = asyncio.Lock()

    @gated
    async def put(
        self,
        record: ModelMeta,
        position: str,
        data: Bytes,
        extent: LogExtent = NO_EXTENT,
        foreign: bool = False,
        reasons: Sequence[Reason] = ("recent",),
    ) -> None:
        """Add a snapshot; if there is one at the same position, replace it and keep its reasons, too.

        A `foreign` position is not looked up in the log: it belongs to the log of another model, or to a successor
        whose log has not reached it yet.

        The snapshot is listed and readable only after all bytes were stored, read back and found equal; otherwise
        `StorageUnavailable` is raised. If a power failure loses the snapshot, any later `trim` is also lost. All
        processes that put a snapshot at the same position put equal bytes. Raises `ModelGone`, and, like `append`,
        `LogLost` for a position that the log does not have, or `LogTrimmed` for a position before the start of the log.
        """
        id, position = ulid.new(), _normal(position)
        new = SnapshotMeta(position, len(data), now_ms(), extent, tuple(reasons))

        def named(table: SnapshotTable) -> SnapshotTable:
            found = table.find(position)
            return table.having(id, new if found is None else _replacing(found[1], new))

        files = self.files(record)
        key = files.key(_key(id, new))
        await files.read()  # the table cannot be changed, so the blob is unneeded
        await self._logs.check(record)
        await self._blobs.put(key, pieces_of(data))
        try:
            await self._verify(record, key)
            if not foreign:
                await self._logs.read(record, position, 1)
            await self._change(record, named)
        except NOT_PUT:
            await self._blobs.delete(key)
            raise

    async def _verify(self, record: ModelMeta, key: str) -> None:
        """Read a blob back; if it differs from the written bytes, delete it and raise `StorageUnavailable` or
        `ModelGone`."""
        try:
            async with aclosing(self._blobs.read(key)) as pieces:
                async for _ in pieces:
                    pass
        except (BlobDamaged, BlobNotFound) as error:
            await self._blobs.delete(key)
            await self._logs.check(record)  # a deletion of the model may have removed the blob
            raise StorageUnavailable("a snapshot differs from what was written", heals=True) from error

    @gated
    async def all(self, record: ModelMeta) -> list[SnapshotMeta]:
        """Return the snapshots of a model, highest position first. Raises `ModelGone`."""
        await self._logs.check(record)
        table = await self._table(record)
        return sorted(table.snapshots.values(), key=lambda each: position_key(each.position), reverse=True)

    @gated
    async def get(self, record: ModelMeta, position: str) -> memoryview | None:
        """Return the stored bytes of a snapshot; the reader verifies their checksum.

        The caller owns the bytes and may modify them. None if there is no snapshot at the position, or its bytes are
        lost. Raises `ModelGone`.
        """
        tried, found = None, await self._find(record, position)
        while found is not None and found[0] != tried:
            tried, data = found[0], bytearray()
            try:
                async with aclosing(self._blobs.read(self.files(record).key(_key(*found)))) as pieces:
                    async for piece in pieces:
                        data += piece
                return memoryview(data)
            except BlobNotFound:  # it was replaced or deleted in the meantime, or lost
                found = await self._find(record, position)
            except BlobDamaged as error:
                log.error("snapshot_damaged", model=record.name, position=position, error=str(error))
                return None
        return None

    async def read(self, record: ModelMeta, position: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes that `get` returns, in order, in pieces of a few megabytes.

        Yields nothing if the snapshot does not exist. If the snapshot is removed meanwhile, the last pieces may be
        missing; if it is replaced, all pieces are yielded. `close` does not wait for the reader. Raises `ModelGone`.
        """
        tried, n_sent, found = None, 0, await self._find(record, position)
        while found is not None and found[0] != tried:
            (tried, snapshot), n_known = found, n_sent
            try:
                async with aclosing(self._blobs.read(self.files(record).key(_key(*found)))) as pieces:
                    async for piece in pieces:
                        rest, n_known = piece[n_known:], max(0, n_known - len(piece))
                        if rest:
                            n_sent += len(rest)
                            yield rest
                return
            except BlobNotFound:
                found = await self._find(record, position)
                if found is not None and n_sent and found[1].size_bytes != snapshot.size_bytes:
                    return
            except BlobDamaged as error:
                log.error("snapshot_damaged", model=record.name, position=position, error=str(error))
                return

    @gated
    async def total_bytes(self, exact: bool = True) -> int:
        """Return the bytes of all listed snapshots of all models and staged successors.

        Only the tables that changed since the last call are read. Unless the result must be `exact`, snapshots of
        models deleted within the last minute may count.
        """
        async with self._counting, self._tables.changes(whole=exact) as (found, names):
            for name, table in found.items():
                snapshots = () if isinstance(table, UNREADABLE) else table.snapshots.values()
                self._total_bytes -= self._listed_bytes.get(name, 0)
                self._listed_bytes[name] = sum(each.size_bytes for each in snapshots if each.listed)
                self._total_bytes += self._listed_bytes[name]
            for name in () if names is None else self._listed_bytes.keys() - names:
                self._total_bytes -= self._listed_bytes.pop(name)
        return self._total_bytes

    @gated
    async def retain(
        self,
        record: ModelMeta,
        *positions: str,
        add: Reason | None = None,
        drop: Reason | None = None,
        pins: int | None = None,
    ) -> list[SnapshotMeta]:
        """Add or drop a reason to retain snapshots; a snapshot without reasons is deleted.

        With `pins`, a snapshot keeps its reasons unless it has been pinned this often. Returns the changed snapshots,
        or none if a position has no snapshot. Raises `ModelGone`.
        """
        normal, found = [_normal(position) for position in positions], list[SnapshotMeta]()

        def changed(table: SnapshotTable) -> SnapshotTable:
            found.clear()
            for position in normal:
                if (named := table.find(position)) is not None:
                    id, before = named
                    after = before if add is None else _with(before, add)
                    if pins in (None, before.pins):
                        after = replace(after, reasons=tuple(each for each in after.reasons if each != drop))
                    found.append(after)
                    table = table.having(id, after) if after.reasons else table.without(id)
            return table

        await self._change(record, changed, urgent=add is None)
        return found if len(found) == len(normal) else []

    async def _change(
        self, record: ModelMeta, change: Callable[[SnapshotTable], SnapshotTable], *, urgent: bool = False
    ) -> SnapshotTable:
        """Change the table and return it; delete the blobs that the table no longer names. Raises ModelGone,
        DocumentNewer or DocumentDamaged."""
        await self._logs.check(record)
        after = await self.files(record).change(change, urgent=urgent)
        try:
            await self._logs.check(record)
        except ModelGone:
            await self.forget(record.incarnation)
            raise
        return after

    def files(self, record: ModelMeta) -> BlobCollection[SnapshotTable]:
        """Return the document with the table of a model, and the blobs that it names."""
        return BlobCollection(
            self._documents,
            self._blobs,
            KIND,
            str(record.incarnation),
            SnapshotTable,
            lambda table: {_key(*item) for item in table.snapshots.items()},
            lambda: SnapshotTable(model=record.name),
        )

    async def _find(self, record: ModelMeta, position: str) -> tuple[str, SnapshotMeta] | None:
        position = _normal(position)
        await self._logs.check(record)
        return (await self._table(record)).find(position)

    async def _table(self, record: ModelMeta) -> SnapshotTable:
        try:
            return await self.files(record).read()
        except DocumentDamaged as error:
            action = "its blobs are listed instead; no snapshot is stored or deleted"
            log.error("snapshots_damaged", model=record.name, error=str(error), action=action)
            return await self._listed(record)

    async def _listed(self, record: ModelMeta) -> SnapshotTable:
        """Return the blobs that a damaged table may have named: all blobs of the model."""
        snapshots = {}
        for key in await self._blobs.keys(f"{BLOBS}{record.incarnation}/"):
            *_, position, id = key.split("/")
            with suppress(BlobNotFound, BlobDamaged):
                snapshots[id] = SnapshotMeta(position, await self._size(key), ulid.timestamp_of(id))
        return SnapshotTable(model=record.name, snapshots=snapshots)

    async def _size(self, key: str) -> int:
        if key not in self._sizes:
            if len(self._sizes) >= MAX_SIZES:
                self._sizes.clear()
            async with aclosing(self._blobs.read(key)) as pieces:
                self._sizes[key] = sum([len(piece) async for piece in pieces])
        return self._sizes[key]

    async def forget(self, incarnation: int) -> None:
        """Remove the snapshots of a model that has been deleted."""
        await self.files(ModelMeta("", incarnation, b"")).delete_all()

    async def collect_garbage(self, models: Iterable[ModelMeta], before_ms: int | None = None) -> None:
        """Delete the snapshots of deleted models, and old blobs that no document names.

        Parameters
        ----------
        models : iterable of ModelMeta
            All models of the store; successors need not be among them.
        before_ms : int, optional
            Unix time in milliseconds; no running process stored a blob before this time.
        """
        keys = await self._blobs.keys(BLOBS)
        tables = await Collection(self._documents, KIND, SnapshotTable).all()
        alive = {str(record.incarnation) for record in models}
        readable = intact(tables)
        for name, table in readable.items():
            if name not in alive and name.isdecimal():
                await self._forget_deleted(ModelMeta(table.model, int(name), b""))
        unreadable = tables.keys() - readable.keys()  # its blobs are unknown; a later release may use other names
        known = [key for key in keys if (name := key.split("/")[1]).isdecimal() and name not in unreadable]
        named = {f"{BLOBS}{name}/{_key(*item)}" for name, table in readable.items() for item in table.snapshots.items()}
        await delete_orphans(self._blobs, known, named, before_ms)

    async def _forget_deleted(self, record: ModelMeta) -> None:
        try:
            await self._logs.check(record)
        except ModelGone:
            await self.forget(record.incarnation)
        except ModelDamaged:
            pass


def _with(snapshot: SnapshotMeta, *reasons: Reason) -> SnapshotMeta:
    pins = snapshot.pins + ("pin" in reasons)
    return replace(snapshot, reasons=tuple(sorted({*snapshot.reasons, *reasons})), pins=pins)


def _replacing(old: SnapshotMeta, new: SnapshotMeta) -> SnapshotMeta:
    """Return the metadata of a snapshot that replaces an equal one; the time is the later one of both."""
    created, pins = max(old.created_unix_ms, new.created_unix_ms), old.pins + ("pin" in new.reasons)
    return replace(_with(new, *old.reasons), created_unix_ms=created, pins=pins)


def _key(id: str, snapshot: SnapshotMeta) -> str:
    return f"{snapshot.position}/{id}"


def _normal(position: str) -> str:
    """Return a position in its shortest form, without a second number that is zero; raise ValueError for an invalid
    position."""
    return "-".join(map(str, position_key(position))).removesuffix("-0")
