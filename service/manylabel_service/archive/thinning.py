"""Removal of unneeded objects from an archive.

After two days, only one catalogue per day is retained, for some days. A blob or a timeline that no catalogue names is
noted in the archive, and deleted three days later: another server may name it meanwhile, and the catalogues of the last
two days are not read.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

import structlog

from manylabel_service.archive import layout
from manylabel_service.archive.archived import catalogue_keys, chain_of, replacements
from manylabel_service.archive.layout import ArchivedModel, Replacements, StoreCatalogue
from manylabel_service.archive.writer import Writer
from manylabel_service.environment import secrets
from manylabel_service.storage.places.place import ObjectDamaged, ObjectMissing, Place

LOOK_MS = 3_600_000
"""Interval in milliseconds between two searches for unneeded objects."""

DAY_MS = 86_400_000

ALL_MS = 2 * DAY_MS
"""Age in milliseconds up to which all catalogues are retained."""

NOTED_MS = ALL_MS + DAY_MS
"""Time in milliseconds for which an object is retained after it was noted as unreferenced."""

log = structlog.get_logger()


class Thinner:
    """Thins an archive.

    Parameters
    ----------
    place, writer : place and writer of the archive.
    days : days after which catalogues are deleted; 0 for never.
    """

    def __init__(self, place: Place, writer: Writer, days: float) -> None:
        self._place = place
        self._writer = writer
        self._days = days
        self._looked_ms: int | None = None
        self._read: dict[str, StoreCatalogue] = {}

    async def thin(self, now_ms: int) -> None:
        """Remove objects that are unneeded at a time, unless objects were removed recently. Raises ArchiveError,
        OSError."""
        if self._looked_ms is not None and now_ms - self._looked_ms < LOOK_MS:
            return
        keys = await catalogue_keys(self._place)
        kept = needed_catalogues(keys, now_ms, self._days)
        for key in set(keys) - kept.keys():
            await self._place.delete(key)
        try:
            named = await self._named([key for key, is_read in kept.items() if is_read])
        except ObjectDamaged as error:  # or it is of a later release, and its references are unknown
            log.warning("archive_not_thinned", error=str(error), action="nothing is deleted while it is there")
        else:
            await self._sweep(await self._unnamed(named), now_ms)
        self._looked_ms = now_ms

    async def _named(self, keys: Sequence[str]) -> set[str]:
        """Return the keys of the blobs, and the prefixes of the timelines, that catalogues reference."""
        self._read = {key: self._read.get(key) or await self._catalogue(key) for key in keys}
        replaced = await replacements(self._place)
        named = set[str]()
        for catalogue in self._read.values():
            named |= {layout.blob_key(catalogue.store, blob.key) for blob in catalogue.blobs}
            for model in catalogue.models:
                named |= _leads_to(catalogue.store, model, replaced)
        return named

    async def _catalogue(self, key: str) -> StoreCatalogue:
        data = await self._place.get(key)
        found = await asyncio.to_thread(StoreCatalogue.from_bytes, key, data)
        return found.model_copy(update={"documents": ()})  # they are the largest part of a catalogue

    async def _unnamed(self, named: set[str]) -> Mapping[str, Sequence[str]]:
        """Return the keys of unneeded objects, by the key or the prefix that a catalogue would name."""
        found = defaultdict[str, list[str]](list)
        for store in await self._place.keys(layout.STORES):
            store = store.removeprefix(layout.STORES)
            for key in await self._place.keys(layout.blobs_prefix(store)):
                found[key].append(key)
            for key in await self._place.keys(layout.replaced_prefix(store)):
                found[key].append(key)
            for key in await self._place.keys(layout.models_prefix(store)):
                found[layout.timeline_of(key)].append(key)
        return {name: keys for name, keys in found.items() if name not in named}

    async def _sweep(self, unnamed: Mapping[str, Sequence[str]], now_ms: int) -> None:
        """Delete the unneeded objects that were noted long ago, and note the others."""
        noted = set[str]()
        ended = []
        for key in await self._place.keys(layout.NOTES):
            try:
                names = _names_in(await self._place.get(key))
            except ObjectMissing:  # another process has deleted it
                continue
            noted |= names
            if now_ms - layout.unix_ms(key) >= NOTED_MS:
                for name in names & unnamed.keys():
                    log.info("archive_thinned", object=name)
                    for each in unnamed[name]:
                        await self._place.delete(each)
                ended.append(key)
        if fresh := sorted(unnamed.keys() - noted):
            await self._writer.put(layout.note_key(now_ms, secrets.token_hex(4)), json.dumps(fresh).encode())
        for key in ended:
            await self._place.delete(key)


def needed_catalogues(keys: Sequence[str], now_ms: int, days: float) -> dict[str, bool]:
    """Return the catalogues to retain at a time, each with a flag: whether it is retained for more than two days, so
    that it must be read.

    Parameters
    ----------
    keys : keys of the catalogues, oldest first.
    days : days after which a catalogue is deleted, unless it is the newest; 0 for never.
    """
    kept: dict[str, bool] = {}
    last_of = {layout.unix_ms(key) // DAY_MS: key for key in keys}
    for key in keys:
        at_ms = layout.unix_ms(key)
        is_last = last_of[at_ms // DAY_MS] == key
        age_ms = now_ms - at_ms
        if key == keys[-1] or age_ms <= ALL_MS or (is_last and (not days or age_ms <= days * DAY_MS)):
            kept[key] = is_last
    return kept


def _leads_to(store: str, model: ArchivedModel, replaced: Replacements) -> set[str]:
    *former, (last, present) = chain_of(replaced, store, model)
    names = {layout.replaced_key(store, model.incarnation) for store, model in former}
    return {*names, layout.timeline_prefix(last, present.incarnation, present.timeline)}


def _names_in(data: bytes) -> set[str]:
    """Return the names in a note; an empty list if the note is damaged, so that the names are noted again."""
    try:
        return set(json.loads(data))
    except (ValueError, TypeError):
        return set()
