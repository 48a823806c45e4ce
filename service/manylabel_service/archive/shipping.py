"""Shipping of new data of a store to an archive.

A pass writes blobs first, then entries and states of models, and last the catalogue that names them, if anything in it
has changed. Every object is read back. A process may die between any two objects: the next pass, or a reader,
recognises the written objects as parts of the same log. Two processes may ship concurrently, because their objects are
equivalent.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from manylabel_service.access.key import KIND as KEYS
from manylabel_service.archive import layout
from manylabel_service.archive.layout import (
    ArchivedBlob,
    ArchivedDocument,
    ArchivedModel,
    LogPart,
    StoreCatalogue,
)
from manylabel_service.archive.purging import Purger
from manylabel_service.archive.store_documents import ARCHIVE, Origin, origins
from manylabel_service.archive.thinning import Thinner
from manylabel_service.archive.writer import Shipped, Writer
from manylabel_service.clock import now_ms
from manylabel_service.datasets.dataset_store import KIND as DATASETS
from manylabel_service.datasets.records import PREFIX as DATASET_BLOBS
from manylabel_service.environment import secrets
from manylabel_service.errors import (
    BlobDamaged,
    BlobNotFound,
    DocumentDamaged,
    HistoryDamaged,
    LogLost,
    LogTrimmed,
    ModelDamaged,
    ModelGone,
    ReleaseTooOld,
    SnapshotNotFound,
    UnreadableEntry,
)
from manylabel_service.jobs.supervision.child_process import remove_stale, task_directory
from manylabel_service.online.history import segment
from manylabel_service.online.history.lineage import KIND as LINEAGES
from manylabel_service.online.history.lineage import Lineage, LineageStore
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.log_entries import decode
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.settings import Settings
from manylabel_service.storage import SEED, START, Entry, ModelMeta, SnapshotMeta, Store, position_key
from manylabel_service.storage.places.place import ArchiveError, ObjectDamaged, ObjectMissing, Place, PlaceUnavailable
from manylabel_service.trained.version_store import BLOBS as VERSION_BLOBS
from manylabel_service.trained.version_store import KIND as VERSIONS
from manylabel_service.webhooks.webhook import DEFINITIONS as WEBHOOKS

KINDS = (KEYS, DATASETS, VERSIONS, WEBHOOKS, LINEAGES)
"""Kinds of the documents that are archived."""

BLOBS = (DATASET_BLOBS, VERSION_BLOBS)
"""Prefixes of the blobs that are archived."""

SCRATCH = "scratch"
"""Directory below the data directory for files of a pass or a restore."""

PART_BYTES = 4 << 20
"""Approximate bytes of payloads in one part of a log."""

JOINED_PARTS = 360
"""Number of short parts, one per pass, that are joined into one part."""

STATE_ENTRIES = 50_000
STATE_BYTES = 32 << 20
"""Number of entries, or bytes of the log, after which a newer state is archived."""

MOVED = (LogLost, LogTrimmed, HistoryDamaged)
"""Errors of a log that cannot be continued from the last archived position."""

log = structlog.get_logger()


class OtherStore(ArchiveError):
    """The archive belongs to another store."""


class _NoState(Exception):
    """The store has no state of a model from which its log can be replayed."""


@dataclass
class _Cursor:
    """Progress of archiving the log of a model."""

    prefix: str
    timeline: int
    begin: str
    through: str
    short: list[LogPart] = field(default_factory=list)
    """Latest short parts, which will be joined."""
    short_bytes: int = 0
    entries: int = 0
    size_bytes: int = 0
    """Number of entries, and bytes of payloads, since the last state."""


class Shipper:
    """Shipper of a store to an archive, in consecutive passes.

    Parameters
    ----------
    store : open.
    place : of the archive.
    settings : of the server.
    clock : returns the time in milliseconds of Unix time.
    """

    def __init__(self, store: Store, place: Place, settings: Settings, clock: Callable[[], int] = now_ms) -> None:
        self._store = store
        self._place = place = layout.ArchivePlace(place)
        self._clock = clock
        self._scratch = partial(task_directory, settings.data_dir / SCRATCH)
        self._writer = Writer(place)
        self._thinner = Thinner(place, self._writer, settings.archive_days)
        self._purger: Purger | None = None
        self._lineages: dict[str, Lineage] = {}
        self._origin: Origin | None = None
        self._revisions: dict[str, dict[str, int]] | None = None
        self._documents: tuple[ArchivedDocument, ...] = ()
        self._closed = False
        self._cursors: dict[int, _Cursor] = {}
        self._models: dict[int, ArchivedModel] = {}
        self._blobs: dict[str, ArchivedBlob] = {}
        self._contents: str | None = None
        self._newest_ms = 0

    async def ship(self) -> Shipped:
        """Write new data and remove unneeded objects; return the counts of written objects.

        Raises ArchiveError, StorageError or OSError.
        """
        before = self._writer.shipped
        if self._origin is None:
            await self._begin()
        await self._find_newest()
        await self._ship_documents()
        models = []
        for record in await self._store.models.all():
            model = None if record.damaged else await self._ship_model(record)
            model = model or self._known(record)
            if model is not None:
                models.append(model)
        self._models = {model.incarnation: model for model in models}
        self._cursors = {number: cursor for number, cursor in self._cursors.items() if number in self._models}
        await self._put_catalogue()
        await self._purge()
        await self._thinner.thin(self._clock())
        written = self._writer.shipped
        return Shipped(written.objects - before.objects, written.size_bytes - before.size_bytes)

    async def _purge(self) -> None:
        """Delete the objects of models that were archived before the models forgot examples."""
        self._purger = self._purger or Purger(self._store, self._place, self._writer, self._id)
        for incarnation in self._cursors:  # they are archived in their current state
            model = self._models[incarnation]
            if (lineage := self._lineages.get(model.name)) is not None:
                await self._purger.purge(model, lineage)

    # -- identity of the archive ---------------------------------------------------------------------

    async def _begin(self) -> None:
        await asyncio.to_thread(remove_stale, self._scratch.args[0])
        origin = await origins(self._store).change(ARCHIVE, lambda found: found or Origin())
        assert origin is not None
        stores = {key.removeprefix(layout.STORES) for key in await self._place.keys(layout.STORES)}
        if others := stores - {origin.id, *origin.restored_from}:
            raise OtherStore(
                f"the archive belongs to the store {min(others)}, not to this one ({origin.id}): give each store its "
                "archive; if the other store was restored from this one, stop this server"
            )
        await self._writer.put(layout.store_key(origin.id), origin.to_bytes())
        catalogues = sorted(await self._place.keys(layout.catalogue_prefix(origin.id)))
        if catalogues:
            try:
                newest = StoreCatalogue.from_bytes(catalogues[-1], await self._place.get(catalogues[-1]))
            except (ObjectDamaged, ObjectMissing) as error:
                log.error("archive_damaged", error=str(error), action="a new catalogue is written")
            else:
                self._contents = newest.contents
                self._models = {model.incarnation: model for model in newest.models}
                self._blobs = {blob.key: blob for blob in newest.blobs}
                self._documents = newest.documents
        self._origin = origin

    @property
    def _id(self) -> str:
        assert self._origin is not None
        return self._origin.id

    # -- documents and blobs ------------------------------------------------------------------------

    async def _ship_documents(self) -> None:
        documents = self._store.documents
        revisions = {kind: await documents.revisions(kind) for kind in KINDS}
        if revisions == self._revisions:
            return
        found, closed = [], False
        for kind in KINDS:
            for document in await documents.all(kind):
                closed = closed or kind == KEYS
                if document.damaged:
                    action = "the archive keeps its earlier copy, if any"
                    log.error("document_damaged", kind=kind, document=document.name, action=action)
                    found += [each for each in self._documents if (each.kind, each.name) == (kind, document.name)]
                else:
                    name, revision, value = document.name, document.revision, document.value
                    made = ArchivedDocument.model_construct(kind=kind, name=name, revision=revision, value=value)
                    found.append(made)
        # Blobs are stored before a document names them, so all needed blobs exist by now.
        keys = [key for prefix in BLOBS for key in await self._store.blobs.keys(prefix)]
        blobs = {}
        for key in keys:
            if (blob := self._blobs.get(key) or await self._ship_blob(key)) is not None:
                blobs[key] = self._blobs[key] = blob
        self._blobs = blobs
        self._lineages = await LineageStore(self._store).intact() if revisions[LINEAGES] else {}
        self._documents, self._closed, self._revisions = tuple(found), closed, revisions

    async def _ship_blob(self, key: str) -> ArchivedBlob | None:
        """Ship a blob; return None if it was removed or is damaged."""
        with self._scratch() as directory:
            path = directory / "blob"
            try:
                async with aclosing(self._store.blobs.read(key)) as pieces:
                    size_bytes, digest = await _spool(pieces, path)
            except (BlobNotFound, BlobDamaged) as error:
                log.warning("blob_not_archived", blob=key, error=str(error))
                return None
            await self._writer.put_file(layout.blob_key(self._id, key), path, digest)
        return ArchivedBlob(key=key, size_bytes=size_bytes, sha256=digest)

    def _known(self, record: ModelMeta) -> ArchivedModel | None:
        """Return the latest archived version of the model; the metadata of a damaged model may lack its incarnation."""
        if record.damaged:
            return next((model for model in self._models.values() if model.name == record.name), None)
        return self._models.get(record.incarnation)

    # -- models -------------------------------------------------------------------------------------

    async def _ship_model(self, record: ModelMeta) -> ArchivedModel | None:
        """Ship the new data of a model; return None if it cannot be shipped now."""
        name, floor = record.name, START
        try:
            cursor = self._cursors.get(record.incarnation)
            try:
                cursor = cursor or await self._cursor(record)
                await self._ship_log(record, cursor)
            except MOVED as error:
                log.warning("archive_timeline", model=name, reason=str(error), action="another timeline begins")
                floor = error.through if isinstance(error, HistoryDamaged) else START
                timeline = await self._last_timeline(record) if cursor is None else cursor.timeline
                cursor = await self._new_timeline(record, timeline + 1, floor)
                await self._ship_log(record, cursor)
            self._cursors[record.incarnation] = cursor
            await self._ship_state(record, cursor)
        except ModelGone:
            return None
        except (ModelDamaged, DocumentDamaged, ReleaseTooOld, *MOVED, _NoState) as error:
            self._cursors.pop(record.incarnation, None)
            log.error("model_not_archived", model=name, error=str(error), action="repair or delete the model")
            return None
        return ArchivedModel.model_construct(
            name=name,
            incarnation=record.incarnation,
            spec=record.spec,
            timeline=cursor.timeline,
            begin=cursor.begin,
            through=cursor.through,
        )

    async def _last_timeline(self, record: ModelMeta) -> int:
        prefix = layout.model_prefix(self._id, record.incarnation)
        numbers = {int(key.removeprefix(prefix).partition("/")[0]) for key in await self._place.keys(prefix)}
        return max(numbers, default=0)

    async def _cursor(self, record: ModelMeta) -> _Cursor:
        """Return the position from which to continue shipping the log of a model; raises the errors of
        `_new_timeline`."""
        timeline = await self._last_timeline(record)
        known = self._models.get(record.incarnation)
        if known is None or known.timeline != timeline:
            return await self._new_timeline(record, max(timeline, 1), START)
        return await self._continued(record, timeline, known.begin)

    async def _new_timeline(self, record: ModelMeta, timeline: int, floor: str) -> _Cursor:
        """Begin a timeline with the first state of the model's history at or after a position."""
        prefix = layout.timeline_prefix(self._id, record.incarnation, timeline)
        if (follow := follow_of(record.spec)) is not None:  # the log of a follower is empty
            begin = SEED if follow.has_seed else START
        else:
            begin = max(await ModelFiles(record, self._store).history().begin(), floor, key=position_key)
        if begin == START:
            return await self._continued(record, timeline, begin)
        begin = await self._ship_first_state(record, prefix, begin)
        cursor = await self._continued(record, timeline, begin)
        # An interrupted pass may have archived entries that begin earlier, with fewer states.
        reader, position = ModelFiles(record, self._store).history(), begin
        while position_key(position) < position_key(cursor.through) and (entries := await reader.read(position)):
            await self._ship_targets(record, cursor, entries)
            position = entries[-1].position
        return cursor

    async def _continued(self, record: ModelMeta, timeline: int, begin: str) -> _Cursor:
        """Return the end of a timeline after comparing its last part with the log. Raises LogLost, LogTrimmed or
        HistoryDamaged."""
        prefix = layout.timeline_prefix(self._id, record.incarnation, timeline)
        parts = layout.log_parts(await self._place.keys(f"{prefix}log/"))
        cursor = _Cursor(prefix, timeline, begin, begin)
        while found := layout.chain(parts, begin):
            try:
                archived = await layout.entries_of(self._place, found[-1])
            except (ObjectDamaged, ObjectMissing) as error:  # the writer died before reading the object back
                log.warning("archive_damaged", model=record.name, error=str(error), action="it is written again")
                await self._place.delete(found[-1].key)
                parts.remove(found[-1])
                continue
            await self._compare(record, found[-1].after, archived)
            cursor.through = found[-1].through
            cursor.short = found[-JOINED_PARTS // 2 :]
            return cursor
        return cursor

    async def _compare(self, record: ModelMeta, after: str, archived: Sequence[Entry]) -> None:
        """Raise LogLost if the log of the store lacks the last of these entries."""
        last = archived[-1]
        reader = ModelFiles(record, self._store).history()
        try:
            following = await reader.read(archived[-2].position if len(archived) > 1 else after, 1)
        except LogTrimmed:
            following = []
        if following and following[0] != last:
            raise LogLost(record.name, last.position)
        await reader.read(last.position, 1)

    async def _ship_log(self, record: ModelMeta, cursor: _Cursor) -> None:
        # All that a new cursor has to ship may be in the history, unless the model follows: its log is empty.
        if self._cursors.get(record.incarnation) is cursor or follow_of(record.spec) is not None:
            counts = await self._store.logs.entries_after({record: cursor.through}, 1)
            if not counts.get(record):
                return
        reader = ModelFiles(record, self._store).history()
        while entries := await _next(reader, cursor.through):
            await self._ship_targets(record, cursor, entries)
            part = await self._put_part(cursor, cursor.through, entries)
            size_bytes = sum(len(entry.payload) for entry in entries)
            cursor.through = part.through
            cursor.entries += len(entries)
            cursor.size_bytes += size_bytes
            if size_bytes >= PART_BYTES:
                cursor.short, cursor.short_bytes = [], 0
                continue
            cursor.short.append(part)
            cursor.short_bytes += size_bytes
            if len(cursor.short) >= JOINED_PARTS or cursor.short_bytes >= PART_BYTES:
                await self._join(reader, cursor)
            return

    async def _join(self, reader: HistoryReader, cursor: _Cursor) -> None:
        """Write the last short parts as one, then delete them; readers may find both."""
        short, cursor.short, cursor.short_bytes = cursor.short, [], 0
        after, entries = short[0].after, list[Entry]()
        end = position_key(short[-1].through)
        try:
            while page := await reader.read(entries[-1].position if entries else after):
                entries += [entry for entry in page if position_key(entry.position) <= end]
                if position_key(page[-1].position) >= end:
                    break
        except MOVED:
            return  # the short parts remain
        if len(short) < 2 or not entries or entries[-1].position != short[-1].through:
            return
        await self._put_part(cursor, after, entries)
        for part in short:
            await self._place.delete(part.key)

    async def _put_part(self, cursor: _Cursor, after: str, entries: list[Entry]) -> LogPart:
        data = await asyncio.to_thread(segment.encode, after, entries)
        part = LogPart(layout.log_key(cursor.prefix, after, entries[-1].position), after, entries[-1].position)
        await self._writer.put(part.key, data, lambda found: _decoded(found) == (after, entries))
        return part

    # -- states -------------------------------------------------------------------------------------

    async def _ship_first_state(self, record: ModelMeta, prefix: str, begin: str) -> str:
        """Ship the first state at or after a position; return the position of this state."""
        snapshots = await self._store.snapshots.all(record)
        for snapshot in sorted(snapshots, key=lambda each: position_key(each.position)):
            if position_key(snapshot.position) < position_key(begin):
                continue
            if await self._put_state(record, prefix, snapshot):
                return snapshot.position
        raise _NoState("no stored state allows its log to be replayed")

    async def _ship_targets(self, record: ModelMeta, cursor: _Cursor, entries: list[Entry]) -> None:
        """Ship the states from before the timeline to which rollbacks in its entries return.

        Raises HistoryDamaged if the store has lost such a state; another timeline can then begin after the rollback.
        """
        if cursor.begin == START:
            return
        begin, lost = position_key(cursor.begin), None
        for position, to in await asyncio.to_thread(_rollbacks, entries):
            if position_key(to) < begin:
                stored = {each.position: each for each in await self._store.snapshots.all(record)}
                if to not in stored or not await self._put_state(record, cursor.prefix, stored[to]):
                    lost = position
        if lost is not None:
            raise HistoryDamaged(record.name, cursor.begin, lost, "the target state of a rollback is missing")

    async def _put_state(self, record: ModelMeta, prefix: str, snapshot: SnapshotMeta) -> bool:
        """Ship a snapshot; return whether the store has the whole snapshot."""
        with self._scratch() as directory:
            path = directory / "state"
            async with aclosing(self._store.snapshots.read(record, snapshot.position)) as pieces:
                size_bytes, _ = await _spool(pieces, path)
            if size_bytes < snapshot.size_bytes:
                return False
            await self._writer.put_file(layout.state_key(prefix, snapshot.position), path)
        return True

    async def _ship_state(self, record: ModelMeta, cursor: _Cursor) -> None:
        """Ship the newest snapshot if the log since the last state is long."""
        if cursor.entries < STATE_ENTRIES and cursor.size_bytes < STATE_BYTES:
            return
        snapshots = ModelFiles(record, self._store).snapshots
        through = position_key(cursor.through)
        reached = [each for each in await snapshots.list() if position_key(each.position) <= through]
        if not reached or cursor.size_bytes < reached[0].size_bytes:  # so that states take no more bytes than the log
            return
        with self._scratch() as directory:
            path = directory / "state"
            try:
                await _copy(snapshots, reached[0].position, path)
            except SnapshotNotFound:
                return
            await self._writer.put_file(layout.state_key(cursor.prefix, reached[0].position), path)
        cursor.entries = cursor.size_bytes = 0

    # -- catalogue and objects ----------------------------------------------------------------------

    async def _find_newest(self) -> None:
        """Find the time of the newest catalogue. If the place has lost the newest one, for example because its volume
        is not mounted, raise `PlaceUnavailable`: more data would leave a gap in the archive."""
        prefix = layout.catalogue_prefix(self._id)
        newest_ms = max(map(layout.unix_ms, await self._place.keys(prefix)), default=0)
        if newest_ms < self._newest_ms:
            self._cursors.clear()  # their ends may be elsewhere
            raise PlaceUnavailable(
                f"the archive no longer has its newest catalogue, {prefix}{self._newest_ms:015d}-...: mount the volume "
                "that has it; if it was deleted, restart the server, which completes the archive"
            )
        self._newest_ms = newest_ms

    async def _put_catalogue(self) -> None:
        made = StoreCatalogue.model_construct(
            format=1,
            store=self._id,
            unix_ms=max(self._clock(), self._newest_ms + 1),  # the clock may have been set back
            closed=self._closed,
            documents=self._documents,
            models=tuple(self._models.values()),
            blobs=tuple(self._blobs.values()),
        )
        contents = await asyncio.to_thread(lambda: made.contents)
        if contents == self._contents:
            return
        key = layout.catalogue_key(self._id, made.unix_ms, secrets.token_hex(4))
        await self._writer.put(key, await asyncio.to_thread(made.to_bytes))
        self._contents, self._newest_ms = contents, made.unix_ms


def _decoded(data: bytes) -> tuple[str, list[Entry]] | None:
    try:
        return segment.decode(data)
    except segment.DamagedSegment:
        return None


def _rollbacks(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Return the positions of the rollbacks among entries, with the positions of their target states."""
    found = []
    for entry in entries:
        with suppress(UnreadableEntry):
            if isinstance(change := decode(entry.payload), Rollback):
                found.append((entry.position, change.to))
    return found


async def _next(reader: HistoryReader, after: str) -> list[Entry]:
    """Return the next entries, enough for one part."""
    entries: list[Entry] = []
    size_bytes = 0
    while size_bytes < PART_BYTES and (page := await reader.read(entries[-1].position if entries else after)):
        entries += page
        size_bytes += sum(len(entry.payload) for entry in page)
    return entries


async def _spool(pieces: AsyncIterable[bytes], path: Path) -> tuple[int, str]:
    """Write chunks to a file; return the size in bytes and the SHA-256."""
    digest, size_bytes = hashlib.sha256(), 0
    with path.open("wb") as file:
        async for piece in pieces:
            await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(digest.update, piece)
            size_bytes += len(piece)
    return size_bytes, digest.hexdigest()


async def _copy(snapshots: SnapshotReader, position: str, path: Path) -> None:
    with path.open("wb") as file:
        await snapshots.copy(position, file)
