"""Restoration of a store from an archive.

A document marks the store until the restore is complete. No server starts on a marked store; a second restore removes
the remnants of the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from manylabel_core.state import DamagedState
from manylabel_service import ulid
from manylabel_service.access.key import KIND as KEYS
from manylabel_service.archive import layout
from manylabel_service.archive.archived import ArchivedLog, chain_of, find_catalogue, replacements
from manylabel_service.archive.layout import (
    ArchivedBlob,
    ArchivedDocument,
    ArchivedModel,
    Replacements,
    StoreCatalogue,
)
from manylabel_service.archive.shipping import BLOBS, KINDS, SCRATCH
from manylabel_service.archive.store_documents import ARCHIVE, RESTORE, Origin, RestoreMark, origins, restore_marks
from manylabel_service.archive.writer import digest_of
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.datasets.dataset_store import KIND as DATASETS
from manylabel_service.errors import (
    BeforeHistory,
    ModelExists,
    PositionNotFound,
    ServiceError,
    StorageUnavailable,
    check_limit,
)
from manylabel_service.hosting.examples import MAX_REF_BYTES
from manylabel_service.jobs.supervision.child_process import remove_stale, task_directory
from manylabel_service.models.forgetting import ended_receipt
from manylabel_service.models.membership import EXPIRY_SECONDS
from manylabel_service.models.membership import KIND as MEMBERS
from manylabel_service.online.history import segment
from manylabel_service.online.history.archiver import SEGMENT_BYTES
from manylabel_service.online.history.catalogue import BLOBS as HISTORY_BLOBS
from manylabel_service.online.history.catalogue import KIND as HISTORY
from manylabel_service.online.history.catalogue import Catalogue, CatalogueStore, Segment
from manylabel_service.online.history.lineage import KIND as LINEAGES
from manylabel_service.online.history.lineage import Lineage, LineageStore, Receipt, read_lineage
from manylabel_service.online.size_limits import check_arrays, check_size
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.spec.follow import as_of, follow_of, moved
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import is_trained
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.successor.rewriter import Rewriter, Selection
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.settings import Settings
from manylabel_service.storage import (
    POSITION,
    START,
    UNREADABLE,
    Entry,
    ModelMeta,
    Store,
    file_to_blob,
    pieces_of,
    position_key,
)
from manylabel_service.storage.places.place import ArchiveError, ObjectDamaged, Place, PlaceUnavailable
from manylabel_service.storage.store import named_models
from manylabel_service.trained.version_store import BLOBS as VERSION_BLOBS
from manylabel_service.trained.version_store import KIND as VERSIONS

OF_MODELS = (VERSIONS, LINEAGES)
"""Kinds of documents that are restored with their models."""


class RestoreRefused(ArchiveError):
    """The store or the selection does not allow the restore; nothing was changed."""


class Restored(NamedTuple):
    """Contents of a restored store."""

    unix_ms: int
    """Time of the restored catalogue, and so of datasets, keys, webhooks and versions."""
    models: dict[str, tuple[str, str]]
    """Positions of each model: in the origin, and in this store."""
    datasets: int
    keys: int
    refused: Mapping[str, str] = {}
    """Reasons for models that were not restored, by name."""
    receipt: Receipt | None = None
    """Receipt of the examples that were omitted."""
    times: Mapping[str, int] = {}
    """Times of the last restored log entry of each model, in milliseconds of Unix time, if known."""

    @property
    def state_ms(self) -> int:
        """Time of the whole restored state: the time of the catalogue, or of the latest restored entry of a log."""
        return max(self.unix_ms, *self.times.values()) if self.times else self.unix_ms


class Without(BaseModel):
    """Examples to omit from a restored model, by reference and by position in the log."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    refs: frozenset[Annotated[str, Field(strict=True, min_length=1, max_length=MAX_REF_BYTES)]] = frozenset()
    positions: frozenset[Annotated[str, Field(strict=True, max_length=64, pattern=POSITION)]] = frozenset()


async def restore(
    place: Place,
    store: Store,
    settings: Settings,
    *,
    until: str | int | None = None,
    model: str | None = None,
    without: Without | None = None,
) -> Restored:
    """Restore a store, or one model. Raises RestoreRefused, NoCatalogue, ArchiveError, ServiceError or DamagedState.

    If one model of a store cannot be restored, the others are still restored.

    Parameters
    ----------
    place : the archive.
    store : open, empty store; for one model, a store without a model of that name. No server may use it.
    settings : limits of the store.
    until : time in milliseconds of Unix time, or position of `model`; None for the newest state.
    model : single model to restore, without datasets, keys and webhooks.
    without : examples to omit from `model`.
    """
    place = layout.ArchivePlace(place)
    until_ms = until if isinstance(until, int) else None
    catalogue, origin = await find_catalogue(place, until_ms, model)
    restoring = _Restoring(place, store, settings, catalogue, await replacements(place))
    await restoring.check(model)
    mark = await restoring.mark(model)
    try:
        restored = await restoring.all(origin, until) if model is None else await restoring.one(model, until, without)
    except BaseException:
        await restoring.undo(model, mark)
        raise
    await store.documents.delete(RESTORE, RESTORE, revision=mark)
    return restored


class _Restoring:
    """Restorer of one catalogue."""

    def __init__(
        self, place: Place, store: Store, settings: Settings, catalogue: StoreCatalogue, replaced: Replacements
    ) -> None:
        self._place = place
        self._store = store
        self._settings = settings
        self._catalogue = catalogue
        self._replaced = replaced
        self._scratch = settings.data_dir / SCRATCH
        self._marks = restore_marks(store)
        self._most_state_bytes = 2 * settings.max_model_bytes
        self._times: dict[str, int] = {}

    # -- before and after ---------------------------------------------------------------------------

    async def check(self, name: str | None) -> None:
        """Raise RestoreRefused unless the store can receive the restore; remove remnants of an interrupted restore."""
        await self._check_idle()
        for mark in (await self._marks.all()).values():
            if isinstance(mark, UNREADABLE):
                raise RestoreRefused(f"{mark}: it describes an incomplete restore; restore into an empty store")
            left = mark.model
            if left != name:
                what = "the whole archive" if left is None else f"--model {left}"
                raise RestoreRefused(f"a restore of {what} into this store is incomplete: run it again first")
            await self.wipe(name)
        if name is None:
            await self._check_empty()
        elif await self._store.models.find(name) is not None:
            raise ModelExists(name)
        elif self._catalogue.closed and not await self._store.documents.revisions(KEYS):
            raise RestoreRefused(
                "the archived store has keys, but this one has none and is open to everyone: make its first key with "
                "manylabel keys init"
            )
        if name is None and self._catalogue.closed and not self._of_kind(KEYS):
            raise RestoreRefused("the store of this archive has keys, but none could be archived")

    async def _check_idle(self) -> None:
        """Raise RestoreRefused while a server uses the store."""
        before = await self._store.documents.revisions(MEMBERS)
        if before:
            await asyncio.sleep(EXPIRY_SECONDS / 2)
            after = await self._store.documents.revisions(MEMBERS)
            if any(revision != before.get(name) for name, revision in after.items()):
                raise RestoreRefused("servers or workers use this store: stop them first")

    async def _check_empty(self) -> None:
        found = [record.name for record in await self._store.models.all()]
        for kind in KINDS:
            found += await self._store.documents.revisions(kind)
        if found:
            raise RestoreRefused(
                f"this store is not empty, it has {found[0]!r}: restore into an empty store, or one model with --model"
            )

    async def mark(self, name: str | None) -> int:
        """Mark the store as incomplete; return the revision of the mark."""
        known = (await self._store.documents.revisions(RESTORE)).get(RESTORE, 0)
        return (await self._marks.put(RESTORE, RestoreMark(model=name).at(known))).revision

    async def undo(self, name: str | None, mark: int) -> None:
        """Remove the results of this restore, and its marker."""
        await self.wipe(name)
        await self._store.documents.delete(RESTORE, RESTORE, revision=mark)

    async def wipe(self, name: str | None) -> None:
        """Remove the results of a restore.

        If the metadata of another model is damaged, the history and the versions of removed models stay: they may
        belong to that model.
        """
        store = self._store
        await asyncio.to_thread(remove_stale, self._scratch)
        for record in await store.models.all():
            if name in (None, record.name):
                await store.models.delete(record)
        if name is None:
            for kind in (*KINDS, ARCHIVE):
                for document, revision in (await store.documents.revisions(kind)).items():
                    await store.documents.delete(kind, document, revision=revision)
            for prefix in BLOBS:
                for key in await store.blobs.keys(prefix):
                    await store.blobs.delete(key)
        else:
            await LineageStore(store).delete(name)
        for kind, prefix in ((HISTORY, HISTORY_BLOBS), (VERSIONS, VERSION_BLOBS)):
            for incarnation, named in (await named_models(store, kind, prefix)).items():
                if named.record is not None:
                    continue
                at = (await store.documents.revisions(kind)).get(str(incarnation))
                if at is not None:
                    await store.documents.delete(kind, str(incarnation), revision=at)
                for key in named.keys:
                    await store.blobs.delete(key)

    # -- everything, or one model -------------------------------------------------------------------

    async def all(self, origin: Origin, until: str | int | None) -> Restored:
        """Restore everything."""
        check_limit("the number of models", len(self._catalogue.models), self._settings.max_models)
        ancestors = (origin.id, *origin.restored_from)
        await origins(self._store).put(ARCHIVE, Origin(restored_from=ancestors))
        documents = [document for document in self._catalogue.documents if document.kind not in OF_MODELS]
        for document in sorted(documents, key=lambda document: document.revision):
            await self._put(document, document.name)
        for blob in self._catalogue.blobs:
            if not blob.key.startswith(VERSION_BLOBS):
                await self._put_blob(blob, blob.key)
        models: dict[str, tuple[str, str]] = {}
        refused: dict[str, str] = {}
        for model in sorted(self._catalogue.models, key=lambda model: follow_of(model.spec) is not None):
            try:
                if (follow := follow_of(model.spec)) is None:
                    models[model.name] = await self._model(model, until)
                elif follow.model in refused:
                    refused[model.name] = f"it follows {follow.model!r}"
                else:
                    await self._follower(model, models)
            except (PlaceUnavailable, StorageUnavailable):
                raise
            except (ArchiveError, ServiceError, DamagedState) as error:
                refused[model.name] = str(error)
                self._times.pop(model.name, None)
                await self.wipe(model.name)
        restored = self._restored(models, len(self._of_kind(DATASETS)), len(self._of_kind(KEYS)))
        return restored._replace(refused=refused)

    async def one(self, name: str, until: str | int | None, without: Without | None) -> Restored:
        """Restore one model."""
        check_limit("the number of models", await self._store.models.count() + 1, self._settings.max_models)
        found = next((model for model in self._catalogue.models if model.name == name), None)
        if found is None:
            raise RestoreRefused(f"the archive has no model {name!r}")
        if (follow := follow_of(found.spec)) is not None:
            raise RestoreRefused(f"model {name!r} has no separate log: it follows {follow.model!r}; restore that one")
        if without is not None and is_trained(found.spec):
            raise RestoreRefused(f"model {name!r} is trained by jobs, and has no logged examples")
        restored = self._restored({name: await self._model(found, until, without)}, 0, 0)
        lineage = await LineageStore(self._store).find(name)
        return restored if without is None else restored._replace(receipt=lineage.receipts[-1])

    def _restored(self, models: dict[str, tuple[str, str]], datasets: int, keys: int) -> Restored:
        return Restored(self._catalogue.unix_ms, models, datasets, keys, times=self._times)

    def _of_kind(self, kind: str) -> list[ArchivedDocument]:
        return [document for document in self._catalogue.documents if document.kind == kind]

    # -- documents and blobs ------------------------------------------------------------------------

    async def _put(self, document: ArchivedDocument, name: str) -> None:
        given = document.kind, name, document.value
        await self._store.documents.put(*given, revision=None, least=document.revision)

    async def _put_blob(self, blob: ArchivedBlob, key: str) -> None:
        archived = layout.blob_key(self._catalogue.store, blob.key)
        with task_directory(self._scratch) as directory:
            path = directory / "blob"
            await self._place.fetch(archived, path, blob.size_bytes)
            digest = await asyncio.to_thread(digest_of, path)
            if digest != blob.sha256:
                raise ObjectDamaged(archived, "it does not match its checksum")
            await file_to_blob(self._store.blobs, path, key)

    # -- models -------------------------------------------------------------------------------------

    async def _model(
        self, model: ArchivedModel, until: str | int | None, without: Without | None = None
    ) -> tuple[str, str]:
        """Restore a model; return its position in the origin, and here."""
        store, found = chain_of(self._replaced, self._catalogue.store, model)[-1]
        archived = ArchivedLog(self._place, store, found, self._most_state_bytes)
        await archived.open()
        position = await self._position(archived, until, found == model)
        if (time_ms := await archived.time_of(position)) is not None:
            self._times[model.name] = time_ms
        state = await self._state(archived, position)
        at = self._store.models.position_at(position)
        record = await self._created(archived, state, position, at)
        if self._settings.history_bytes or without is not None:
            await self._restore_history(archived, record, position, at)
        lineage = await self._restore_receipts(model, (store, found.incarnation), record)
        if without is not None:
            await self._forget(record, without, lineage)
        elif is_trained(record.spec):
            await self._restore_versions(model, record)
        return position, at

    async def _restore_receipts(self, model: ArchivedModel, read: tuple[str, int], record: ModelMeta) -> Lineage:
        """Store the receipts of forgotten examples, and the timeline from which the model was restored.

        Parameters
        ----------
        read : store id and incarnation of the timeline that was read.
        """
        document = next((each for each in self._of_kind(LINEAGES) if each.name == record.name), None)
        before = Lineage() if document is None else read_lineage(record.name, document.value)
        former = [(self._catalogue.store, each) for each in (*before.incarnations, model.incarnation)]
        lineage = before.restored((*former, read), record.incarnation)
        await LineageStore(self._store).update(record.name, lambda _: lineage)
        return lineage

    async def _forget(self, record: ModelMeta, without: Without, lineage: Lineage) -> None:
        """Replace a restored model by one that has never seen some examples, and store the receipt."""
        store, settings = self._store, self._settings
        files = ModelFiles(record, store)
        reader = files.history()
        selection = Selection(without.refs, frozenset([await reader.find(position) for position in without.positions]))
        room = SnapshotQuota(store, settings.max_snapshot_bytes)
        rewriter = Rewriter(record, store, room, selection, settings.prediction_ttl_seconds)
        findings = await rewriter.find()
        receipt = Receipt(
            id=ulid.new(), status="done", created=rfc3339(now_ms()), since=findings.begin, first=findings.first
        )
        incarnations = lineage.incarnations
        if findings.first is not None:
            successor = await rewriter.stage()
            try:
                await rewriter.build()
                rewritten = await rewriter.finish(0)
                await store.models.replace([(record, successor)])
            except BaseException:
                await store.models.discard(successor)
                raise
            await files.catalogue.delete_all()
            await store.snapshots.forget(record.incarnation)
            if not settings.history_bytes:
                await CatalogueStore(successor, store).delete_all()
            await store.erased()
            receipt = await ended_receipt(receipt, rewriter, rewritten, store.shared, archived=True)
            incarnations = (*incarnations, successor.incarnation)
        receipt = receipt.model_copy(update={"ended": rfc3339(now_ms())})
        ended = lineage.with_change(receipt).model_copy(update={"incarnations": incarnations})
        await LineageStore(store).update(record.name, lambda _: ended)

    async def _follower(self, model: ArchivedModel, models: Mapping[str, tuple[str, str]]) -> None:
        """Restore a follower in its initial state; it learns again from its leader, which is restored too."""
        follow = follow_of(model.spec)
        leader = None if follow is None else await self._store.models.find(follow.model)
        if leader is None:
            return  # the leader was deleted
        state = None
        if model.begin != START:
            prefix = layout.timeline_prefix(self._catalogue.store, model.incarnation, model.timeline)
            state = await self._place.get(layout.state_key(prefix, model.begin), self._most_state_bytes)
            await asyncio.to_thread(
                OnlineModel.from_bytes, bytes(state), lambda arrays: check_arrays(arrays, self._settings)
            )
        spec = as_of(moved(model.spec, leader.incarnation), models[leader.name][0])
        await self._store.models.create(model.name, spec, state)

    async def _position(self, archived: ArchivedLog, until: str | int | None, is_of_then: bool) -> str:
        """Return the position to restore.

        Parameters
        ----------
        is_of_then : whether the timeline is the one in the catalogue.
        """
        reader = ModelFiles(archived.record, archived.as_store).history()
        try:
            position = archived.through if until is None else await reader.find(until)
        except BeforeHistory:
            if isinstance(until, int) and is_of_then and self._catalogue.unix_ms <= until:  # its initial state
                return archived.begin
            raise
        except PositionNotFound:
            raise archived.missing or PositionNotFound(archived.record.name, str(until)) from None
        if archived.missing is not None and position == archived.through:
            raise archived.missing
        return position

    async def _state(self, archived: ArchivedLog, position: str) -> OnlineModel | None:
        """Return the state at a position, validated like an upload; None if nothing was learnt."""
        if position == START:
            return None
        past = ModelFiles(archived.record, archived.as_store)
        model, settings = await past.state_at(position), self._settings
        data = await asyncio.to_thread(model.to_buffer)
        checked = await asyncio.to_thread(OnlineModel.from_bytes, data, lambda arrays: check_arrays(arrays, settings))
        if checked.spec.name != archived.record.name:
            raise DamagedState(f"the state belongs to model {checked.spec.name!r}, not {archived.record.name!r}")
        if isinstance(checked.spec, ModelSpec):
            check_size(checked.spec, checked, settings)
        return checked

    async def _created(self, archived: ArchivedLog, state: OnlineModel | None, position: str, at: str) -> ModelMeta:
        record = archived.record
        spec = as_of(record.spec, position)
        if state is None:
            return await self._store.models.create(record.name, spec)
        state.position = at
        data = await asyncio.to_thread(state.to_buffer)
        return await self._store.models.create(record.name, spec, data, at)

    async def _restore_versions(self, model: ArchivedModel, record: ModelMeta) -> None:
        prefix, own = (f"{VERSION_BLOBS}{each.incarnation}/" for each in (model, record))
        for blob in self._catalogue.blobs:
            if blob.key.startswith(prefix):
                await self._put_blob(blob, own + blob.key.removeprefix(prefix))
        for document in self._of_kind(VERSIONS):
            if document.name == str(model.incarnation):
                await self._put(document, str(record.incarnation))

    async def _restore_history(self, archived: ArchivedLog, record: ModelMeta, position: str, at: str) -> None:
        """Write the log up to a position as the history of the restored model."""
        if position == archived.begin:
            return
        history = CatalogueStore(record, self._store)
        segments: list[Segment] = []
        after, waiting = archived.begin, list[Entry]()
        while after != position:
            page = await archived.read(record, after, 1_000)
            page = [entry for entry in page if position_key(entry.position) <= position_key(position)]
            waiting += page
            after = page[-1].position
            if after == position or sum(len(entry.payload) for entry in waiting) >= SEGMENT_BYTES:
                begin = segments[-1].through if segments else archived.begin
                segments.append(await _put_segment(history, begin, waiting))
                waiting = []
        for place in archived.states:  # states before the beginning are targets of rollbacks
            if position_key(place) < position_key(position):
                data = await archived.snapshots.get(record, place)
                assert data is not None
                await self._store.snapshots.put(record, place, data, foreign=True, reasons=("history",))
        catalogue = Catalogue(begin=archived.begin, segments=tuple(segments), moved_to=at if at != position else None)
        await history.change(lambda _: catalogue)


async def _put_segment(history: CatalogueStore, after: str, entries: Sequence[Entry]) -> Segment:
    data = await asyncio.to_thread(segment.encode, after, entries)
    id, size_bytes = await history.put_blob(pieces_of(data))
    raw_bytes = sum(len(entry.payload) for entry in entries)
    return Segment(
        id,
        after,
        entries[-1].position,
        len(entries),
        raw_bytes,
        size_bytes,
        entries[0].time_ms,
        entries[-1].time_ms,
    )
