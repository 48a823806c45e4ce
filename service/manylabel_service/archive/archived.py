"""Reader of an archive: its catalogues, and one model through the interfaces of a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, cast

from manylabel_service.archive import layout
from manylabel_service.archive.layout import (
    ArchivedModel,
    LogPart,
    NoCatalogue,
    Replacement,
    Replacements,
    StoreCatalogue,
)
from manylabel_service.archive.store_documents import ARCHIVE, Origin
from manylabel_service.clock import rfc3339
from manylabel_service.errors import DocumentDamaged, LogLost, LogTrimmed
from manylabel_service.storage import Entry, ModelMeta, SnapshotMeta, Store, position_key
from manylabel_service.storage.places.place import ObjectDamaged, ObjectMissing, Place


async def catalogue_keys(place: Place) -> list[str]:
    """Return the keys of the catalogues of all stores, oldest first. Raises PlaceUnavailable."""
    stores = [key.removeprefix(layout.STORES) for key in await place.keys(layout.STORES)]
    keys = [key for store in stores for key in await place.keys(layout.catalogue_prefix(store))]
    return sorted(keys, key=lambda key: key.rpartition("/")[2])


async def find_catalogue(place: Place, until_ms: int | None, model: str | None = None) -> tuple[StoreCatalogue, Origin]:
    """Return the newest catalogue, or the newest one up to a time, and the id of its store.

    Parameters
    ----------
    model : model that the catalogue should contain; the oldest catalogue is returned if all are later.

    Raises
    ------
    NoCatalogue, ObjectMissing, ObjectDamaged, PlaceUnavailable
    DocumentNewer
        A later release wrote the name of the store.
    """
    keys = await catalogue_keys(place)
    if not keys:
        raise NoCatalogue("the archive contains no backup")
    reached = [key for key in keys if until_ms is None or layout.unix_ms(key) <= until_ms]
    if not reached and model is not None:
        reached = keys[:1]
    if not reached:
        raise NoCatalogue(f"the archive begins at {rfc3339(layout.unix_ms(keys[0]))}, after the time of --until")
    catalogue = await _catalogue(place, reached[-1])
    if model is not None and not catalogue.has(model):  # the catalogue was deleted meanwhile
        for key in reached[-2::-1]:
            if (earlier := await _catalogue(place, key)).has(model):
                catalogue = earlier
                break
    name = layout.store_key(catalogue.store)
    try:
        return catalogue, Origin.from_bytes(ARCHIVE, name, await place.get(name))
    except DocumentDamaged as error:
        raise ObjectDamaged(name, str(error)) from error


async def _catalogue(place: Place, key: str) -> StoreCatalogue:
    return StoreCatalogue.from_bytes(key, await place.get(key))


async def replacements(place: Place) -> Replacements:
    """Return the replacements of models that have forgotten examples. Raises ObjectDamaged or PlaceUnavailable."""
    found = {}
    for store in await place.keys(layout.STORES):
        store = store.removeprefix(layout.STORES)
        for key in await place.keys(layout.replaced_prefix(store)):
            with suppress(ObjectMissing):  # another process has removed the object
                found[store, int(key.rpartition("/")[2])] = Replacement.from_bytes(key, await place.get(key))
    return found


def chain_of(replaced: Replacements, store: str, model: ArchivedModel) -> list[tuple[str, ArchivedModel]]:
    """Return a model in a catalogue, and its replacements in order, each with the id of its store. The last one is the
    timeline to read. Raises ObjectDamaged if the replacements form a circle."""
    chain = [(store, model)]
    while (replacement := replaced.get((store, model.incarnation))) is not None:
        store, model = replacement.store, replacement.model
        if any(key == store and each.incarnation == model.incarnation for key, each in chain):
            raise ObjectDamaged(layout.replaced_key(store, model.incarnation), "the model replaces itself")
        chain.append((store, model))
    return chain


class ArchivedLog:
    """Log and states of a model in an archive, with the interface of a store.

    It has the parts of a `Store` that `ModelFiles` uses: a log trimmed up to the beginning of the
    timeline, and a snapshot for each state.

    Attributes
    ----------
    record : the model.
    through : position of the end of the log, or of its first gap.
    missing : error for the gap after `through`; None without a gap.
    """

    def __init__(self, place: Place, store: str, model: ArchivedModel, most_bytes: int) -> None:
        self.record = ModelMeta(model.name, model.incarnation, model.spec)
        self.begin = self.through = model.begin
        self.states: list[str] = []
        self.missing: ObjectMissing | None = None
        self._model = model
        self._place = place
        self._most_bytes = most_bytes
        self._prefix = layout.timeline_prefix(store, model.incarnation, model.timeline)
        self._parts: list[LogPart] = []
        self._decoded: tuple[LogPart, list[Entry]] | None = None

    async def open(self) -> None:
        """List the objects; raises PlaceUnavailable."""
        keys = await self._place.keys(self._prefix)
        parts = layout.log_parts(keys)
        self._parts = layout.chain(parts, self._model.begin)
        self.states = layout.state_positions(keys)
        if self._parts:
            self.through = self._parts[-1].through
        ends = [self._model.through, *(part.through for part in parts)]
        if position_key(last := max(ends, key=position_key)) > position_key(self.through):
            what = f"the log of model {self._model.name!r} after position {self.through}, up to {last}"
            self.missing = ObjectMissing(f"{what} ({self._prefix}log/{self.through}_...)")

    @property
    def as_store(self) -> Store:
        """This object, with the interface of a store."""
        return cast(Store, self)

    @property
    def logs(self) -> ArchivedLog:
        """Itself."""
        return self

    @property
    def snapshots(self) -> _States:
        """The states."""
        return _States(self, self._place, self._prefix, self._most_bytes)

    @property
    def documents(self) -> _NoDocuments:
        """None: an archive has no history besides the log."""
        return _NoDocuments()

    blobs = None

    async def read(self, record: ModelMeta, after: str, limit: int) -> list[Entry]:
        """Return the next entries after a position, like `Logs.read`; also raises ArchiveError."""
        key = position_key(after)
        if key < position_key(self.begin):
            raise LogTrimmed(record.name, after, self.begin)
        part = next((part for part in self._parts if position_key(part.through) > key), None)
        if part is None:
            if key != position_key(self.through):
                raise LogLost(record.name, after)
            return []
        if self._decoded is None or self._decoded[0] != part:
            self._decoded = part, await layout.entries_of(self._place, part)
        entries = [entry for entry in self._decoded[1] if position_key(entry.position) > key]
        known = {self.begin, part.after, *(each.through for each in self._parts)}
        if after not in known and all(entry.position != after for entry in self._decoded[1]):
            raise LogLost(record.name, after)
        return entries[:limit]

    async def time_of(self, position: str) -> int | None:
        """Return the time of an entry in milliseconds of Unix time; None if the archive cannot tell. Raises
        PlaceUnavailable."""
        key = position_key(position)
        part = next((part for part in self._parts if key <= position_key(part.through)), None)
        if part is None:
            return None
        try:
            entries = await layout.entries_of(self._place, part)
        except (ObjectMissing, ObjectDamaged):
            return None
        return next((entry.time_ms for entry in entries if entry.position == position), None)


class _States:
    """The states of a timeline, as snapshots."""

    def __init__(self, archived: ArchivedLog, place: Place, prefix: str, most_bytes: int) -> None:
        self._archived = archived
        self._place = place
        self._prefix = prefix
        self._most_bytes = most_bytes

    async def all(self, record: ModelMeta) -> list[SnapshotMeta]:
        return [SnapshotMeta(position, 0, 0) for position in reversed(self._archived.states)]

    async def get(self, record: ModelMeta, position: str) -> memoryview | None:
        try:
            return memoryview(bytearray(await self._get(position)))
        except ObjectMissing:
            return None

    async def read(self, record: ModelMeta, position: str) -> AsyncGenerator[bytes, None]:
        yield await self._get(position)

    async def _get(self, position: str) -> bytes:
        return await self._place.get(layout.state_key(self._prefix, position), self._most_bytes)


class _NoDocuments:
    async def get(self, kind: str, name: str) -> Any:
        return None
