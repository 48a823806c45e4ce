"""Collection of garbage: blobs that no document names, and remains of deleted models and their lineages.

Garbage remains if a process dies after it has written a blob and before it writes the document, or while it deletes a
model. Each step examines the next keys of blobs and the next lineages, so its work does not grow with the number of
models.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any

from manylabel_service.online.history.catalogue import KIND as HISTORY
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.history.lineage import Lineage, LineageStore
from manylabel_service.storage import UNREADABLE, ModelMeta, Store
from manylabel_service.storage.blob_collection import BlobCollection, delete_orphans
from manylabel_service.storage.snapshots import KIND as SNAPSHOTS
from manylabel_service.trained.version_store import KIND as VERSIONS
from manylabel_service.trained.version_store import VersionStore
from manylabel_service.ulid import MAX_MS

KEYS_AT_ONCE = 1_000
"""Number of keys of blobs examined in a step."""
LINEAGES_AT_ONCE = 100
"""Number of lineages examined in a step."""


class GarbageCollector:
    """Collector of the garbage of a store, one step after another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = self._after_lineage = ""

    async def step(self) -> bool:
        """Examine the next keys and lineages; return whether the end of both was reached.

        Raises StorageUnavailable. A blob that an unreadable document may name is not deleted.
        """
        keys = await self._store.blobs.keys(after=self._after, limit=KEYS_AT_ONCE)
        self._after = keys[-1] if len(keys) == KEYS_AT_ONCE else ""
        await self._examine(keys)
        await self._examine_lineages()
        return not (self._after or self._after_lineage)

    async def delete_remains(self) -> None:
        """Delete all blobs of deleted models. Raises StorageUnavailable."""
        keys, after = [""], ""
        while keys:
            keys = await self._store.blobs.keys(after=after, limit=KEYS_AT_ONCE)
            await self._examine(keys, of_deleted=True)
            after = keys[-1] if keys else ""

    async def _examine(self, keys: Iterable[str], of_deleted: bool = False) -> None:
        """Delete blobs of deleted models and, unless `of_deleted`, old blobs that no document names."""
        owned = [(owner, list(some)) for owner, some in groupby(keys, _owner) if owner is not None]
        # Read the models after the keys, because a model is created before its blobs.
        there = await self._store.models.existing({incarnation for (_, incarnation), _ in owned}) if owned else {}
        for (kind, incarnation), some in owned:
            files = self._files(kind, incarnation)
            with suppress(*UNREADABLE):  # the model that uses the unreadable document reports it
                if incarnation not in there:
                    await self._delete(kind, files, some)
                elif not of_deleted and kind != VERSIONS:  # a trained model removes its own unneeded blobs
                    await files.collect_garbage(some)

    async def _delete(self, kind: str, files: BlobCollection[Any], keys: Iterable[str]) -> None:
        """Delete the blobs of a deleted model."""
        # Snapshots that no table names may belong to a later release, which names blobs differently.
        if kind == SNAPSHOTS and await files.documents.get(files.name) is None:
            await delete_orphans(self._store.blobs, keys, (), before_ms=MAX_MS)  # their server died meanwhile
        elif not await files.is_newer():
            await files.delete_all()

    def _files(self, kind: str, incarnation: int) -> BlobCollection[Any]:
        record = ModelMeta("", incarnation, b"")
        if kind == SNAPSHOTS:
            return self._store.snapshots.files(record)
        return CatalogueStore(record, self._store) if kind == HISTORY else VersionStore(record, self._store).files

    async def _examine_lineages(self) -> None:
        """Delete lineages of deleted models, unless the name of a model is unreadable."""
        lineages, models = LineageStore(self._store), self._store.models
        names = sorted(name for name in await lineages.names() if name > self._after_lineage)[:LINEAGES_AT_ONCE]
        self._after_lineage = names[-1] if len(names) == LINEAGES_AT_ONCE else ""
        found = dict[str, Lineage]()
        for name in names:
            if await models.find(name) is None:
                with suppress(*UNREADABLE):
                    if (lineage := await lineages.get(name)) is not None and lineage.running is None:
                        found[name] = lineage
        # Read the models last: if a model is created later, its lineage is no longer the one found.
        records = await models.all() if found else []
        if any(record.damaged for record in records):
            return
        for name in found.keys() - {record.name for record in records}:
            await lineages.delete(name, found[name].revision)


async def collect_garbage(store: Store) -> None:
    """Collect all garbage of a store."""
    collector = GarbageCollector(store)
    while not await collector.step():
        pass


def _owner(key: str) -> tuple[str, int] | None:
    """Return the kind of a blob and the incarnation of its model; None for other blobs, and for names that later
    releases use."""
    kind, _, rest = key.partition("/")
    name = rest.partition("/")[0]
    return (kind, int(name)) if kind in (SNAPSHOTS, HISTORY, VERSIONS) and name.isdecimal() else None
