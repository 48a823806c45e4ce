"""Removal of forgotten examples from an archive.

A model that has forgotten examples is a new incarnation with a separate timeline. Once this timeline is archived and in
a catalogue, the objects of former incarnations are deleted. Before that, one object per former incarnation is written.
It redirects readers of older catalogues to the new timeline, which has the same positions and times.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from manylabel_service.archive import layout
from manylabel_service.archive.layout import ArchivedModel, Replacement
from manylabel_service.archive.writer import Writer
from manylabel_service.online.history.lineage import Lineage, LineageStore
from manylabel_service.storage import Store
from manylabel_service.storage.places.place import ObjectDamaged, Place

log = structlog.get_logger()


class Purger:
    """Purges the archive of a store.

    Parameters
    ----------
    store, place, writer : store and archive.
    id : id of the store.
    """

    def __init__(self, store: Store, place: Place, writer: Writer, id: str) -> None:
        self._lineages = LineageStore(store)
        self._place = place
        self._writer = writer
        self._id = id
        self._purged = set[str]()

    async def purge(self, model: ArchivedModel, lineage: Lineage) -> None:
        """Delete the objects of a model that were archived before it forgot examples. Raises ArchiveError or
        StorageError.

        Parameters
        ----------
        model : the model in the newest catalogue.
        lineage : its receipts at the time of this catalogue.
        """
        done = {receipt.id for receipt in lineage.receipts if receipt.status == "done" and receipt.examples}
        if done <= self._purged or model.incarnation not in lineage.incarnations:
            return
        stores = {key.removeprefix(layout.STORES) for key in await self._place.keys(layout.STORES)}
        earlier = lineage.incarnations[: lineage.incarnations.index(model.incarnation)]
        former = {*lineage.origins, *((self._id, incarnation) for incarnation in earlier)}
        for store in stores & {store for store, _ in former}:
            keys = await self._place.keys(layout.models_prefix(store))
            for incarnation in {incarnation for of, incarnation in former if of == store}:
                prefix = layout.model_prefix(store, incarnation)
                await self._replace(store, incarnation, model, [key for key in keys if key.startswith(prefix)])
        if stores >= {store for store, _ in lineage.origins}:  # the other objects are in another archive
            await self._lineages.update(model.name, lambda found: found.purged(done))
        self._purged |= done

    async def _replace(self, store: str, incarnation: int, model: ArchivedModel, keys: Sequence[str]) -> None:
        if not keys:
            return
        key = layout.replaced_key(store, incarnation)
        await self._writer.put(
            key, Replacement(store=self._id, model=model).to_bytes(), lambda data: _is_one(key, data)
        )
        for each in keys:
            await self._place.delete(each)
        log.info("archive_purged", model=model.name, objects=len(keys))


def _is_one(key: str, data: bytes) -> bool:
    try:
        Replacement.from_bytes(key, data)
    except ObjectDamaged:
        return False
    return True
