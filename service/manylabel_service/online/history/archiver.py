"""Archiver that moves a log into segments before it is trimmed, and retains states of the model until they are too old.

A segment is stored, read back and compared; then it is added to the catalogue; only then is the log trimmed up to the
end of the segment. A server killed between two of these steps leaves a blob that nothing names, or entries that are in
both the log and a segment.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import structlog

from manylabel_service.environment import time
from manylabel_service.errors import LogLost, LogTrimmed, ModelDamaged, StorageUnavailable, check_limit
from manylabel_service.online.history import segment as segments
from manylabel_service.online.history.catalogue import MAX_SEGMENTS, Catalogue, CatalogueStore, Segment
from manylabel_service.settings import Settings
from manylabel_service.storage import (
    START,
    Entry,
    LogExtent,
    ModelMeta,
    SnapshotMeta,
    Store,
    pieces_of,
    position_key,
)
from manylabel_service.storage.protocol import NO_EXTENT

SEGMENT_BYTES = 4 << 20
"""Bytes of payloads after which a segment ends."""

SEGMENT_SECONDS = 86_400.0
"""Seconds after which a segment ends if entries are retained only for a limited number of days."""

STATE_EXAMPLES = 50_000
STATE_LOG_BYTES = 32 << 20
"""Minimum number of examples, or bytes of the log, between two states of a history."""

STATE_SHARE = 4
"""Minimum bytes of the log between two states, as a multiple of the bytes of a state."""

MAX_STATES = 1_024
"""Maximum number of states of one history."""

TARGETS = 8
"""Number of target states of rollbacks that are retained even above twice the maximum size of a history."""

READ_ENTRIES = 1_000
"""Number of entries read from the log at a time."""

YOUNG_SECONDS = 300.0
"""Seconds for which a state requested by a rollback is retained before the rollback is in the log."""

log = structlog.get_logger()


class HistoryLimits(NamedTuple):
    """Limits on the history of a model: bytes (0: no history) and age in seconds (0: unlimited)."""

    size_bytes: int
    seconds: float = 0.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the limits in the settings."""
        return cls(settings.history_bytes, 86_400 * settings.history_days)


NO_HISTORY = HistoryLimits(0)


class Archiver:
    """Moves the log of one model into its history, and limits the history.

    Attributes
    ----------
    size_bytes : known bytes of the history.
    """

    def __init__(self, record: ModelMeta, store: Store, limits: HistoryLimits) -> None:
        self._record = record
        self._store = store
        self._limits = limits
        self._catalogue = CatalogueStore(record, store)
        self.size_bytes = 0

    async def check(self) -> None:
        """Raise DocumentNewer or DocumentDamaged if the catalogue cannot be read."""
        await self._catalogue.read()

    async def close(self, through: str) -> str:
        """Move the log up to about a position into segments; return the position up to which the log may be trimmed.

        Entries that do not fill a segment stay in the log, and so do all entries after a damaged one. Raises
        StorageUnavailable, ModelGone, DocumentNewer or DocumentDamaged.
        """
        if not self._limits.size_bytes:
            return through
        found = await self._catalogue.read()
        while True:
            try:
                entries = await self._next(found.through, through)
            except (LogLost, LogTrimmed) as error:
                found = await self._begun_anew(found, error)
                continue
            except ModelDamaged as error:
                action = "the log stays from here on: restore the store from a backup, or create the model again"
                log.error("history_damaged", model=self._record.name, error=str(error), action=action)
                return min(found.through, through, key=position_key)
            if not await self._is_due(entries, found):
                return min(found.through, through, key=position_key)
            found = await self._add(found, entries)

    async def keep_states(self, snapshots: Sequence[SnapshotMeta]) -> None:
        """Retain the snapshots that the history needs; raises the errors of `close`.

        Parameters
        ----------
        snapshots : all snapshots of the model.
        """
        if not self._limits.size_bytes:
            return
        begin = (await self._catalogue.read()).begin
        states = [each for each in snapshots if "history" in each.reasons]
        for snapshot in sorted(snapshots, key=lambda each: position_key(each.position)):
            if snapshot not in states and self._is_state_due(snapshot, states, begin):
                await self._store.snapshots.retain(self._record, snapshot.position, add="history")
                states.append(snapshot)

    async def put_state(self, position: str, examples: int, data: bytes | memoryview) -> None:
        """Store the state at a position, to which a rollback will return; the rollback is not in the log yet.

        Raises LimitExceeded if too many states are retained for rollbacks.
        """
        found = await self._states()
        states = [state for state in found if position_key(state.position) != position_key(position)]
        # Target states of rollbacks cannot be dropped before the log is trimmed past the rollbacks.
        limit = 2 * self._limits.size_bytes + TARGETS * len(data)
        size_bytes = (await self._catalogue.read()).size_bytes + _total(states)
        check_limit(f"bytes of the history of model {self._record.name!r}", size_bytes + len(data), limit)
        check_limit(f"states in the history of model {self._record.name!r}", len(states), MAX_STATES)
        # The number of bytes of the log before this state is unknown, so this state does not delay the next one.
        extent = next((state.extent for state in found if state not in states), LogExtent(examples, 0))
        await self._store.snapshots.put(self._record, position, data, extent, foreign=True, reasons=("history",))

    async def retain(self, rollbacks: Iterable[tuple[str, str]], trimmed: str) -> None:
        """Drop the oldest part of the history above its maximum size or age. Raises StorageUnavailable or ModelGone.

        Parameters
        ----------
        rollbacks : positions of rollbacks that may be needed, with their target positions.
        trimmed : position up to which the log was trimmed.
        """
        targets = {position_key(to): position_key(entry) for entry, to in rollbacks}
        young_ms = int(1_000 * (time.time() - YOUNG_SECONDS))
        states = sorted(await self._states(), key=lambda each: position_key(each.position))

        def needed(begin: str) -> list[SnapshotMeta]:
            key = position_key(begin)
            return [
                state
                for state in states
                if (at := position_key(state.position)) >= key
                or targets.get(at, key) > key
                or (not state.extent.size_bytes and state.created_unix_ms >= young_ms)
            ]

        def retained(catalogue: Catalogue) -> Catalogue:
            if not self._limits.size_bytes:
                return catalogue.beginning_at(max(catalogue.begin, trimmed, key=position_key))
            begins = [state.position for state in states]
            later = [begin for begin in begins if position_key(begin) > position_key(catalogue.begin)]
            for begin in (catalogue.begin, *later):
                if self._fits(left := catalogue.beginning_at(begin), needed(begin)):
                    return left
            return catalogue.beginning_at(catalogue.through)

        # The catalogue is changed first: states before its beginning are unneeded, and are dropped the next time.
        catalogue = await self._catalogue.change(retained)
        left = needed(catalogue.begin)
        # A rollback that is not in the log yet may return to a young state.
        await self._drop([state for state in states if state not in left and state.created_unix_ms < young_ms])
        self.size_bytes = catalogue.size_bytes + _total(left)

    async def _states(self) -> list[SnapshotMeta]:
        return [each for each in await self._store.snapshots.all(self._record) if "history" in each.reasons]

    async def _drop(self, states: Sequence[SnapshotMeta]) -> None:
        if states:
            await self._store.snapshots.retain(self._record, *(each.position for each in states), drop="history")

    def _fits(self, catalogue: Catalogue, states: Sequence[SnapshotMeta]) -> bool:
        if len(catalogue.segments) > MAX_SEGMENTS - 16 or len(states) > MAX_STATES - 64:
            return False
        oldest_ms = 1_000 * (time.time() - self._limits.seconds)
        if self._limits.seconds and catalogue.segments and catalogue.segments[0].first_ms < oldest_ms:
            return False
        return catalogue.size_bytes + _total(states) <= self._limits.size_bytes

    async def _next(self, after: str, through: str) -> list[Entry]:
        """Return the entries of the next segment, up to a position."""
        entries: list[Entry] = []
        size_bytes, last = 0, position_key(through)
        while size_bytes < SEGMENT_BYTES:
            for entry in (page := await self._store.logs.read(self._record, after, READ_ENTRIES)):
                if position_key(entry.position) > last or size_bytes >= SEGMENT_BYTES:
                    return entries
                entries.append(entry)
                size_bytes += len(entry.payload)
            if not page:
                break
            after = page[-1].position
        return entries

    async def _is_due(self, entries: Sequence[Entry], catalogue: Catalogue) -> bool:
        if not entries or sum(len(entry.payload) for entry in entries) >= SEGMENT_BYTES:
            return bool(entries)
        # Otherwise, states needed only by the rest of the log could not be dropped.
        is_large = catalogue.size_bytes + _total(await self._states()) > self._limits.size_bytes
        is_old = entries[0].time_ms < 1_000 * (time.time() - SEGMENT_SECONDS)
        return is_large or (is_old and self._limits.seconds > 0)

    async def _add(self, found: Catalogue, entries: list[Entry]) -> Catalogue:
        """Store a segment, read it back, and add it to the catalogue."""
        after = found.through
        data = await asyncio.to_thread(segments.encode, after, entries)
        id, size_bytes = await self._catalogue.put_blob(pieces_of(data))
        if await self._catalogue.blob(id) != data:
            await self._catalogue.delete([id])
            raise StorageUnavailable(
                "a stored segment of a history differs from the bytes that were written", heals=True
            )
        segment = Segment(
            id,
            after,
            entries[-1].position,
            len(entries),
            sum(len(entry.payload) for entry in entries),
            size_bytes,
            entries[0].time_ms,
            entries[-1].time_ms,
        )
        added = await self._replace(found, found.with_segment(segment))
        if id not in added.ids:  # another server has changed the catalogue, and may have added this segment
            await self._catalogue.delete([id])
            return added
        log.info(
            "segment_closed", model=self._record.name, through=segment.through, entries=len(entries), bytes=size_bytes
        )
        return added

    async def _replace(self, found: Catalogue, catalogue: Catalogue) -> Catalogue:
        """Replace the catalogue unless another server has changed it; return the current one."""
        return await self._catalogue.change(lambda now: catalogue if now.revision == found.revision else now)

    async def _begun_anew(self, found: Catalogue, error: LogLost | LogTrimmed) -> Catalogue:
        """Return the catalogue, or a new one if the log does not continue it.

        The log begins after the end of the history if the history is new, or was disabled for a while. The log lacks
        the end of the history if the store lost its newest entries; then the log still has all entries that were not
        trimmed.
        """
        newest = await self._catalogue.read()
        if newest.revision != found.revision:
            return newest  # another server has added to the history, and trimmed the log
        begin = START
        try:
            await self._store.logs.read(self._record, START, 1)
        except LogTrimmed as trimmed:
            begin = trimmed.trimmed
        key = position_key(begin)
        cut: dict[str, object] = {"begin": begin, "segments": (), "moved_to": None}
        left = [state for state in await self._states() if position_key(state.position) == key]
        if isinstance(error, LogLost):
            kept = tuple(s for s in newest.segments if position_key(s.through) <= key)
            if kept and kept[-1].through == begin:
                left = [state for state in await self._states() if position_key(state.position) <= key]
                cut |= {"begin": newest.begin, "segments": kept}
        await self._drop([state for state in await self._states() if state not in left])
        catalogue = newest.model_copy(update=cut)
        if newest.revision:
            log.warning("history_cut", model=self._record.name, position=catalogue.through, reason=str(error))
        return await self._replace(newest, catalogue)

    def _is_state_due(self, snapshot: SnapshotMeta, states: Sequence[SnapshotMeta], begin: str) -> bool:
        key = position_key(snapshot.position)
        if len(states) >= MAX_STATES - 64:
            return False
        if snapshot.pinned:  # a rollback in the log returns to the state
            return True
        if STATE_SHARE * snapshot.size_bytes > self._limits.size_bytes or key < position_key(begin):
            return False
        earlier = [each for each in states if each.extent.size_bytes and position_key(each.position) < key]
        if not earlier and begin != START:
            return True
        last = max(earlier, key=lambda each: position_key(each.position)).extent if earlier else NO_EXTENT
        enough_bytes = min(STATE_LOG_BYTES, self._limits.size_bytes // 4)
        return is_far(snapshot.extent, last, snapshot.size_bytes, enough_bytes)


def _total(snapshots: Iterable[SnapshotMeta]) -> int:
    return sum(each.size_bytes for each in snapshots)


def is_far(extent: LogExtent, last: LogExtent, size_bytes: int, enough_bytes: int = STATE_LOG_BYTES) -> bool:
    """Return whether the log since the last state of a history is long enough for another state of `size_bytes`."""
    new_bytes = extent.size_bytes - last.size_bytes
    enough = new_bytes >= enough_bytes or abs(extent.examples - last.examples) >= STATE_EXAMPLES
    return enough and new_bytes >= STATE_SHARE * size_bytes
