"""Reader of the history of a model: the segments, and then the log."""

import asyncio
from collections.abc import Iterable, Sequence

from manylabel_service.clock import rfc3339
from manylabel_service.errors import (
    BeforeHistory,
    HistoryDamaged,
    LogLost,
    LogTrimmed,
    ModelDamaged,
    PositionNotFound,
)
from manylabel_service.online.history.catalogue import LOST, Catalogue, CatalogueStore, Segment
from manylabel_service.online.history.segment import DamagedSegment, decode
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.slices import Pace
from manylabel_service.storage import SEED, START, Entry, ModelMeta, Store, position_key

READ_ENTRIES = 1_000
"""Number of entries read at a time."""


class HistoryReader:
    """Reader of the history of one model. It caches one decoded segment, so discard it after a read.

    The history of a follower is the part of the leader's history that the follower learns.

    Attributes
    ----------
    ended : whether the follower's part of the log ends within the entries last read.
    position : position in the log of this store after which entries were last read.
    """

    def __init__(self, record: ModelMeta, store: Store) -> None:
        self._follow = follow_of(record.spec)
        self._record = record = record if self._follow is None else self._follow.record
        self._store = store
        self._catalogue = CatalogueStore(record, store)
        self.ended = False
        self.position = START
        self._decoded: tuple[Segment, list[Entry]] | None = None

    async def catalogue(self) -> Catalogue:
        """Return the catalogue of the segments; raise DocumentDamaged, StorageUnavailable."""
        return await self._catalogue.read()

    async def read(self, after: str, limit: int = READ_ENTRIES) -> list[Entry]:
        """Return the next entries after a position like `Logs.read`, also from the trimmed part of the log.

        A follower gets no entries after the end of its part.

        Raises
        ------
        LogTrimmed
            The history begins later.
        LogLost
            Neither the log nor the history has the position.
        HistoryDamaged
            The segment with the entries is damaged or missing.
        DocumentDamaged, StorageUnavailable, ModelGone, ModelDamaged
        """
        entries = await self._read(after, limit)
        if self._follow is None:
            return entries
        part = self._follow.part_of(entries)
        self.ended = len(part) < len(entries)
        return part

    async def between(self, after: str | int | None, to: str | int | None, limit: int, limit_bytes: int) -> list[Entry]:
        """Return entries, earliest first: at most `limit` entries, and at most about the requested number of bytes.

        Parameters
        ----------
        after : position or time of the first entry: entries after the position, or from the time on; None: the
            beginning.
        to : position or time of the last entry; None: the end.

        Raises
        ------
        PositionNotFound, BeforeHistory, HistoryDamaged, StorageError, ModelGone
        """
        begin = await self.begin()
        try:
            position = begin if after is None else await self.find(after - 1 if isinstance(after, int) else after)
        except BeforeHistory:
            if not isinstance(after, int) or begin not in (START, SEED):
                raise
            position = begin  # nothing is missing before the first entry
        last = None if to is None else position_key(await self.find(to))
        found: list[Entry] = []
        size_bytes = 0
        while entries := await self.read(position, limit - len(found)):
            for entry in entries:
                if last is not None and position_key(entry.position) > last:
                    return found
                found.append(entry)
                size_bytes += len(entry.payload)
                if len(found) == limit or size_bytes >= limit_bytes:
                    return found
            position = found[-1].position
        return found

    async def _read(self, after: str, limit: int) -> list[Entry]:
        self.position = after
        try:
            entries = await self._store.logs.read(self._record, after, limit)
        except LogTrimmed as error:
            trimmed = error
        else:
            self._decoded = None
            return entries
        if (found := await self._segment_after(after)) is None:
            # Another server may have trimmed the log in the meantime.
            self.position = await self._in_log(after)
            return await self._store.logs.read(self._record, self.position, limit)
        segment, entries = found
        if position_key(after) <= position_key(segment.after):
            return entries[:limit]
        at = _index(entries, after)
        if at is None:
            raise LogLost(self._record.name, after) from trimmed
        return entries[at + 1 : at + 1 + limit]

    async def _in_log(self, position: str) -> str:
        """Translate the end of the last segment to its position in the log; return other positions unchanged."""
        catalogue = await self._catalogue.read()
        ended = catalogue.segments[-1].through if catalogue.segments else None
        return catalogue.moved_to or position if position == ended else position

    async def _segment_after(self, position: str) -> tuple[Segment, list[Entry]] | None:
        key = position_key(position)
        if self._decoded is not None:
            segment, entries = self._decoded
            if position_key(segment.after) <= key < position_key(segment.through):
                return segment, entries
        catalogue = await self._catalogue.read()
        if key < position_key(catalogue.begin):
            raise LogTrimmed(self._record.name, position, catalogue.begin)
        if (found := catalogue.segment_after(position)) is None:
            return None
        self._decoded = found, await self._entries(found)
        return self._decoded

    async def _entries(self, segment: Segment) -> list[Entry]:
        try:
            data = await self._catalogue.blob(segment.id)
            after, entries = await asyncio.to_thread(decode, data)
        except (*LOST, DamagedSegment) as error:
            if segment not in (catalogue := await self._catalogue.read()).segments:
                raise LogTrimmed(self._record.name, segment.after, catalogue.begin) from error
            raise HistoryDamaged(self._record.name, segment.after, segment.through, str(error)) from error
        if (after, entries[-1].position) != (segment.after, segment.through):
            reason = "the segment stored for them contains other entries"
            raise HistoryDamaged(self._record.name, segment.after, segment.through, reason)
        return entries

    # -- positions --------------------------------------------------------------------------------

    async def begin(self) -> str:
        """Return the position after which entries exist; raise the errors of `read`."""
        catalogue = await self._catalogue.read()
        try:
            await self._store.logs.read(self._record, START, 1)
        except LogTrimmed as error:
            # If the history was disabled, its segments may end before the log begins; then only the log is read.
            reached = position_key(catalogue.through) >= position_key(error.trimmed)
            return catalogue.begin if reached else error.trimmed
        except ModelDamaged:  # the log is not trimmed, and its first entries are damaged
            pass
        return START

    async def find(self, at: str | int) -> str:
        """Return the log position of the entry at a position, or of the last entry up to a time.

        The position at which the history begins is also accepted. Raises PositionNotFound, BeforeHistory,
        HistoryDamaged, DocumentDamaged, StorageUnavailable, ModelGone or ModelDamaged.

        Parameters
        ----------
        at : position, or time in milliseconds of Unix time.
        """
        if isinstance(at, int):
            return await self._at_time(at)
        return await self._find(at, await self.begin())

    async def find_all(self, positions: Iterable[str]) -> list[str]:
        """Return the log positions of entries like `find`, in ascending order; each segment is read once."""
        begin = await self.begin()
        return [await self._find(at, begin) for at in sorted(positions, key=position_key)]

    async def _find(self, at: str, begin: str) -> str:
        key = position_key(at)
        if key == position_key(begin):
            return begin
        if key < position_key(begin):
            raise BeforeHistory(self._record.name, f"position {at}", begin)
        try:
            await self._store.logs.read(self._record, at, 1)
        except (LogLost, ValueError):  # the position belongs to another store
            raise PositionNotFound(self._record.name, at) from None
        except LogTrimmed:
            return await self._in_segments(at)
        return at

    async def _in_segments(self, at: str) -> str:
        """Return the position of an entry of the trimmed part of the log; raise the errors of `find`."""
        key, holder = position_key(at), None
        if self._decoded is not None and position_key(self._decoded[0].after) < key:
            holder = self._decoded[0]
        if holder is None or position_key(holder.through) < key:
            segments = (await self._catalogue.read()).segments
            holder = next((segment for segment in segments if position_key(segment.through) >= key), None)
        if holder is not None and position_key(holder.through) == key:
            return holder.through
        if holder is not None and (self._decoded is None or self._decoded[0] != holder):
            self._decoded = holder, await self._entries(holder)
        entries = [] if holder is None or self._decoded is None else self._decoded[1]
        if (index := _index(entries, at)) is None:
            raise PositionNotFound(self._record.name, at)
        return entries[index].position

    async def _at_time(self, time_ms: int) -> str:
        begin = position = await self.begin()
        catalogue = await self._catalogue.read()
        pace, found = Pace(), None
        for segment in catalogue.segments:
            if segment.last_ms <= time_ms and position_key(segment.through) > position_key(begin):
                position = found = segment.through
        while entries := await self.read(position):
            earlier = [entry for entry in entries if entry.time_ms <= time_ms]
            found = earlier[-1].position if earlier else found
            if len(earlier) < len(entries):
                break
            position = entries[-1].position
            await pace.rest()
        if found is None:
            raise BeforeHistory(self._record.name, rfc3339(time_ms), begin)
        return found


def _index(entries: Sequence[Entry], position: str) -> int | None:
    """Return the index of the entry at a position, by bisection; None if missing."""
    key, low, high = position_key(position), 0, len(entries)
    while low < high:
        middle = (low + high) // 2
        if position_key(entries[middle].position) < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(entries) and position_key(entries[low].position) == key else None
