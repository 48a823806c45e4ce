"""The log of a trained model, read and written."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from manylabel_service.errors import LogLost, LogTrimmed, StorageError, UnreadableEntry
from manylabel_service.settings import Settings
from manylabel_service.storage import Entry as StoredEntry
from manylabel_service.storage import ModelRecord, Store, position_key
from manylabel_service.trained.entries import Compaction, Entry, decode, encode
from manylabel_service.trained.version_store import Outcome, VersionCatalogue

READ_ENTRIES = 250
"""Entries read at a time, and taken in between two turns of other requests."""

SUMMARY_ENTRIES = 1_000
"""Entries after which a summary takes the place of all before."""

log = structlog.get_logger()


class VersionLog:
    """Brings a catalogue up to date and adds to it; one call after the other, in the order of the log.

    Parameters
    ----------
    record, store : the model and where it is.
    settings : say how safe an entry is; at the least it survives any end of the server.
    told : called with each outcome, in log order; with None where the store has lost some of the log, and what is
        left of it was read anew.

    Attributes
    ----------
    catalogue : as of the last entry read; another object after the store lost some.
    """

    def __init__(
        self,
        record: ModelRecord,
        store: Store,
        settings: Settings,
        told: Callable[[Outcome | None], None] = lambda _: None,
    ) -> None:
        self.catalogue = VersionCatalogue(record.name)
        self._record = record
        self._store = store
        self._durability = settings.durability
        self._told = told
        self._turn = asyncio.Lock()

    async def read(self) -> None:
        """Read on to the end of the log.

        Raises
        ------
        StorageGone, ModelGone, UnreadableEntry
        """
        async with self._turn:
            try:
                await self._read_on()
            except (LogLost, LogTrimmed):
                await self._read_anew()

    async def append(self, entry: Entry) -> Outcome:
        """Add an entry; what became of it, after all before it.

        Raises
        ------
        StorageGone, ModelGone, UnreadableEntry, DurabilityUnavailable
        """
        async with self._turn:
            try:
                outcome = await self._append(entry)
            except (LogLost, LogTrimmed):
                await self._read_anew()
                outcome = await self._append(entry)
            if self.catalogue.entries >= SUMMARY_ENTRIES:
                await self._summarise()
            return outcome

    async def _append(self, entry: Entry) -> Outcome:
        position = self.catalogue.position
        return self._fold(await self._store.logs.append(self._record, [encode(entry)], position, self._durability))

    async def _read_on(self) -> None:
        while entries := await self._store.logs.read(self._record, self.catalogue.position, READ_ENTRIES):
            self._fold(entries)

    async def _read_anew(self) -> None:
        catalogue = VersionCatalogue(self._record.name)
        while True:
            try:
                entries = await self._store.logs.read(self._record, catalogue.position, READ_ENTRIES)
            except LogTrimmed as error:
                catalogue = await self._summarised(error.trimmed)
                continue
            if not entries:
                break
            for position, payload in entries:
                catalogue.fold(position, decode(payload))
        self.catalogue = catalogue
        self._told(None)

    async def _summarised(self, trimmed: str) -> VersionCatalogue:
        """The catalogue as of the position up to which the log is trimmed."""
        entries = await self._store.logs.read(self._record, trimmed, READ_ENTRIES)
        while entries:
            for _, payload in entries:
                entry = decode(payload)
                if isinstance(entry, Compaction) and position_key(entry.as_of) == position_key(trimmed):
                    return VersionCatalogue.from_summary(self._record.name, entry)
            entries = await self._store.logs.read(self._record, entries[-1].position, READ_ENTRIES)
        raise UnreadableEntry(f"the log is trimmed up to {trimmed}, and has no summary of what was before")

    async def _summarise(self) -> None:
        """Append a summary, then remove what it is of; a summary whose log was not trimmed does no harm."""
        summary = self.catalogue.summary()
        try:
            await self._append(summary)
            await self._store.logs.trim(self._record, summary.as_of)
        except StorageError as error:  # what was asked for is done; the next one tries again
            log.warning("log_not_summarised", model=self._record.name, error=str(error))

    def _fold(self, entries: Sequence[StoredEntry]) -> Outcome:
        outcome = Outcome()
        for position, payload in entries:
            outcome = self.catalogue.fold(position, decode(payload))
            self._told(outcome)
        return outcome
