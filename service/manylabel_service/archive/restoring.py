"""Restoration of a store from an archive.

A document marks the store for as long as it is not complete. No server starts on a store with this mark; a second
restore removes what the first has left.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from manylabel_core.state import DamagedState
from manylabel_service.access.key_store import KIND as KEYS
from manylabel_service.archive import layout
from manylabel_service.archive.archived import ArchivedLog, find_catalogue
from manylabel_service.archive.layout import ArchivedBlob, ArchivedDocument, ArchivedModel, Origin, StoreCatalogue
from manylabel_service.archive.mark import RESTORE
from manylabel_service.archive.shipping import ARCHIVE, BLOBS, KINDS, put_origin
from manylabel_service.datasets.dataset_store import KIND as DATASETS
from manylabel_service.errors import BeforeHistory, DurabilityUnavailable, ModelExists, PositionNotFound
from manylabel_service.hosting.size_limits import check_limit
from manylabel_service.models.membership import EXPIRY_SECONDS
from manylabel_service.models.membership import KIND as MEMBERS
from manylabel_service.online.history import segment
from manylabel_service.online.history.archiver import SEGMENT_BYTES
from manylabel_service.online.history.catalogue import BLOBS as HISTORY_BLOBS
from manylabel_service.online.history.catalogue import KIND as HISTORY
from manylabel_service.online.history.catalogue import Catalogue, CatalogueStore, Segment, StoredState
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.size_limits import check_arrays, check_size
from manylabel_service.online.spec.follow import FIELD, follow_of
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.past_states import PastStates
from manylabel_service.settings import Settings
from manylabel_service.storage import START, Entry, ModelMeta, Store, file_to_blob, pieces_of, position_key
from manylabel_service.storage.places.place import ArchiveError, ObjectDamaged, Place
from manylabel_service.trained.version_store import BLOBS as VERSION_BLOBS
from manylabel_service.trained.version_store import KIND as VERSIONS


class RestoreRefused(ArchiveError):
    """The store or the selection does not allow the restore; nothing was changed."""


class Restored(NamedTuple):
    """Contents of a restored store."""

    unix_ms: int
    """When the catalogue was written."""
    models: dict[str, tuple[str, str]]
    """By name: the position in the origin, and the one in this store."""
    datasets: int
    keys: int


async def restore(
    place: Place, store: Store, settings: Settings, *, until: str | int | None = None, model: str | None = None
) -> Restored:
    """Restore a store, or one model. Raises RestoreRefused, NoCatalogue, ArchiveError, ServiceError or DamagedState.

    Parameters
    ----------
    place : the archive.
    store : open, and empty; for one model, without a model of that name. No server may use it.
    settings : limits of the store.
    until : a time in milliseconds of Unix time, or the position of `model`; None for all there is.
    model : the one model to restore, without datasets, keys and webhooks.
    """
    catalogue, origin = await find_catalogue(place, until if isinstance(until, int) else None)
    restoring = _Restoring(place, store, settings, catalogue)
    await restoring.check(model)
    mark = await restoring.mark(model)
    try:
        restored = await restoring.all(origin, until) if model is None else await restoring.one(model, until)
    except BaseException:
        await restoring.undo(model, mark)
        raise
    await store.documents.delete(RESTORE, RESTORE, revision=mark)
    return restored


class _Restoring:
    """Restorer of one catalogue."""

    def __init__(self, place: Place, store: Store, settings: Settings, catalogue: StoreCatalogue) -> None:
        self._place = place
        self._store = store
        self._settings = settings
        self._catalogue = catalogue

    # -- before and after ---------------------------------------------------------------------------

    async def check(self, name: str | None) -> None:
        """Raise RestoreRefused unless the store can receive the restore; remove remnants of an interrupted restore."""
        await self._check_idle()
        document = next(iter(await self._store.documents.all(RESTORE)), None)
        if document is not None:
            left = None if document.damaged else json.loads(document.value)["model"]
            if left != name:
                what = "all of the archive" if left is None else f"--model {left}"
                raise RestoreRefused(f"a restore of {what} into this store is incomplete: repeat it")
            await self.wipe(name)
        if name is None:
            await self._check_empty()
        elif await self._store.models.find(name) is not None:
            raise ModelExists(name)
        elif self._catalogue.closed and not await self._store.documents.revisions(KEYS):
            raise RestoreRefused(
                "the archive is of a store with keys, and this store has none, so it is open: make its first key with "
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
        revision = (await self._store.documents.revisions(RESTORE)).get(RESTORE)
        value = json.dumps({"model": name}).encode()
        return await self._store.documents.put(RESTORE, RESTORE, value, revision=revision)

    async def undo(self, name: str | None, mark: int) -> None:
        """Remove the results of this restore, and its marker."""
        await self.wipe(name)
        await self._store.documents.delete(RESTORE, RESTORE, revision=mark)

    async def wipe(self, name: str | None) -> None:
        """Remove the results of a restore."""
        store = self._store
        for record in await store.models.all():
            if name in (None, record.name):
                await store.models.delete(record)
        if name is None:
            for kind in (*KINDS, ARCHIVE):
                for document, revision in (await store.documents.revisions(kind)).items():
                    await store.documents.delete(kind, document, revision=revision)
        there = {str(record.incarnation) for record in await store.models.all()}
        for kind in (HISTORY, VERSIONS):
            for document, revision in (await store.documents.revisions(kind)).items():
                if document not in there:
                    await store.documents.delete(kind, document, revision=revision)
        for prefix in {*(BLOBS if name is None else ()), HISTORY_BLOBS, VERSION_BLOBS}:
            for key in await store.blobs.keys(prefix):
                if name is None or key.removeprefix(prefix).partition("/")[0] not in there:
                    await store.blobs.delete(key)

    # -- all and one --------------------------------------------------------------------------------

    async def all(self, origin: Origin, until: str | int | None) -> Restored:
        """Restore everything."""
        check_limit("the number of models", len(self._catalogue.models), self._settings.max_models)
        ancestors = (origin.id, *origin.restored_from)
        await put_origin(self._store, Origin(id=secrets.token_hex(16), restored_from=ancestors))
        documents = [document for document in self._catalogue.documents if document.kind != VERSIONS]
        for document in sorted(documents, key=lambda document: document.revision):
            await self._put(document, document.name)
        for blob in self._catalogue.blobs:
            if not blob.key.startswith(VERSION_BLOBS):
                await self._put_blob(blob, blob.key)
        models: dict[str, tuple[str, str]] = {}
        followers = [model for model in self._catalogue.models if follow_of(model.spec) is not None]
        for model in self._catalogue.models:
            if model not in followers:
                models[model.name] = await self._model(model, until)
        for model in followers:
            await self._follower(model)
        return self._restored(models, len(self._of_kind(DATASETS)), len(self._of_kind(KEYS)))

    async def one(self, name: str, until: str | int | None) -> Restored:
        """Restore one model."""
        check_limit("the number of models", len(await self._store.models.all()) + 1, self._settings.max_models)
        found = next((model for model in self._catalogue.models if model.name == name), None)
        if found is None:
            raise RestoreRefused(f"the archive has no model {name!r}")
        if (follow := follow_of(found.spec)) is not None:
            raise RestoreRefused(f"model {name!r} has no separate log: it follows {follow.model!r}; restore that one")
        return self._restored({name: await self._model(found, until)}, 0, 0)

    def _restored(self, models: dict[str, tuple[str, str]], datasets: int, keys: int) -> Restored:
        return Restored(self._catalogue.unix_ms, models, datasets, keys)

    def _of_kind(self, kind: str) -> list[ArchivedDocument]:
        return [document for document in self._catalogue.documents if document.kind == kind]

    # -- documents and blobs ------------------------------------------------------------------------

    async def _put(self, document: ArchivedDocument, name: str) -> None:
        given = document.kind, name, document.value
        await self._store.documents.put(*given, revision=None, least=document.revision)

    async def _put_blob(self, blob: ArchivedBlob, key: str) -> None:
        archived = layout.blob_key(self._catalogue.store, blob.key)
        with TemporaryDirectory() as directory:
            path = Path(directory) / "blob"
            await self._place.fetch(archived, path)
            digest = await asyncio.to_thread(_digest, path)
            if digest != blob.sha256:
                raise ObjectDamaged(archived, "it does not match its checksum")
            await file_to_blob(self._store.blobs, path, key)

    # -- models -------------------------------------------------------------------------------------

    async def _model(self, model: ArchivedModel, until: str | int | None) -> tuple[str, str]:
        """Restore a model; return its position in the origin, and here."""
        archived = ArchivedLog(self._place, self._catalogue.store, model)
        await archived.open()
        position = await self._position(archived, until)
        state = await self._state(archived, position)
        at = self._store.models.position_at(position)
        record = await self._created(archived, state, position, at)
        await self._restore_versions(model, record)
        await self._restore_history(archived, record, position, at)
        return position, at

    async def _follower(self, model: ArchivedModel) -> None:
        """Restore a follower as it began; it learns from the log of its leader, which is restored, again."""
        follow = follow_of(model.spec)
        leader = None if follow is None else await self._store.models.find(follow.model)
        if leader is None:
            return  # it was deleted
        document = json.loads(model.spec)
        document[FIELD]["incarnation"] = leader.incarnation
        state = None
        if model.begin != START:
            prefix = layout.timeline_prefix(self._catalogue.store, model.incarnation, model.timeline)
            state = await self._place.get(layout.state_key(prefix, model.begin))
            await asyncio.to_thread(
                OnlineModel.from_bytes, bytes(state), lambda arrays: check_arrays(arrays, self._settings)
            )
        await self._store.models.create(model.name, json.dumps(document).encode(), state)

    async def _position(self, archived: ArchivedLog, until: str | int | None) -> str:
        reader = HistoryReader(archived.record, archived.as_store)
        try:
            position = archived.through if until is None else await reader.find(until)
        except BeforeHistory:
            if isinstance(until, int):  # the catalogue is of an earlier time, so the model was there, as it began
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
        past = PastStates(archived.record, archived.as_store)
        model, settings = await past.at(position), self._settings
        data = await asyncio.to_thread(model.to_buffer)
        checked = await asyncio.to_thread(OnlineModel.from_bytes, data, lambda arrays: check_arrays(arrays, settings))
        if checked.spec.name != archived.record.name:
            raise DamagedState(f"the state is that of a model {checked.spec.name!r}, not {archived.record.name!r}")
        if isinstance(checked.spec, ModelSpec):
            check_size(checked.spec, checked, settings)
        return checked

    async def _created(self, archived: ArchivedLog, state: OnlineModel | None, position: str, at: str) -> ModelMeta:
        record = archived.record
        durability = read_spec(record.spec).durability
        if durability is not None and durability not in self._store.logs.durabilities:
            raise DurabilityUnavailable(durability, self._store.logs.durabilities)
        if state is None:
            return await self._store.models.create(record.name, record.spec)
        state.position = at
        data = await asyncio.to_thread(state.to_buffer)
        return await self._store.models.create(record.name, record.spec, data, at)

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
        if not self._settings.history_bytes or position == archived.begin:
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
        states = []
        for place in archived.states:
            if position_key(archived.begin) <= position_key(place) < position_key(position):
                data = await archived.snapshots.get(record, place)
                assert data is not None
                id, size_bytes = await history.put_blob(pieces_of(bytes(data)))
                states.append(StoredState(id, place, 0, 0, size_bytes))
        catalogue = Catalogue(
            begin=archived.begin,
            segments=tuple(segments),
            states=tuple(states),
            moved_to=at if at != position else None,
        )
        await history.put(await history.read(), catalogue)


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


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
