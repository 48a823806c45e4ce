"""Rewrites the history of a model without some of its examples, into the successor of the model.

Two states are folded side by side from the entry before the first one that is forgotten: the old one, to know what each
entry did, and the new one. The new history omits every change that the old one refused. Entries stay at their
positions; those of which examples are forgotten have only the others.
"""

import asyncio
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from manylabel_service.errors import LogTrimmed, ServiceError
from manylabel_service.online.history.catalogue import CatalogueStore, Segment
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.history.segment import decode as decode_segment
from manylabel_service.online.history.segment import encode as encode_segment
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.past_states import PastStates
from manylabel_service.online.updates.replay import Interrupted, LogReplayer
from manylabel_service.slices import Pace
from manylabel_service.storage import START, Entry, LogExtent, ModelMeta, Store, pieces_of, position_key
from manylabel_service.ulid import timestamp_of

PREDICTIONS_AT_ONCE = 500

FEW_ENTRIES = 1_000
"""Entries that may be left when the log is sealed."""

MANY_ENTRIES = 100_000
"""Entries of the log that are counted at most."""

MANY_SNAPSHOTS = 10_000
"""More manual snapshots than a model has."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Examples to forget: those with one of these references, and those of the entries at these positions."""

    refs: Set[str] = frozenset()
    positions: Set[str] = frozenset()

    def of(self, entry: Entry, update: Update) -> list[int]:
        """Return the indices of the examples of an update that are to be forgotten."""
        if entry.position in self.positions:
            return list(range(len(update.examples)))
        return [n for n, example in enumerate(update.examples) if example.ref is not None and example.ref in self.refs]


@dataclass(slots=True)
class Findings:
    """Result of a search in a history: counts, the first position and the one before it, ids of predictions."""

    begin: str = START
    entries: int = 0
    examples: int = 0
    first: str | None = None
    previous: str = START
    predictions: set[str] = field(default_factory=set)


class Rewritten(NamedTuple):
    """Successor at the end of the log, with the checksums of the old and the new state."""

    position: str
    before: str
    after: str


class Rewriter:
    """Rewrites the history of one model; every method raises what reading a history and folding it does.

    Parameters
    ----------
    record, store, selection : the model, where it is, and what to forget.
    format_version : in which entries and states are written.
    ttl_seconds : for which predictions are stored.
    """

    def __init__(
        self, record: ModelMeta, store: Store, selection: Selection, format_version: int, ttl_seconds: float
    ) -> None:
        self._record = record
        self._store = store
        self._selection = selection
        self._format = format_version
        self._ttl_seconds = ttl_seconds
        self._catalogue = CatalogueStore(record, store)
        self.findings = Findings()
        self.counted = Findings()
        """The examples omitted from the new history, which are more where entries came after `find`."""

    async def find(self) -> Findings:
        """Find the examples to forget."""
        reader = HistoryReader(self._record, self._store)
        findings = Findings(begin=await reader.begin())
        position, pace = findings.begin, Pace()
        while entries := await reader.read(position):
            for entry in entries:
                _count(findings, entry, self._chosen(entry), position)
                position = entry.position
                await pace.rest()
        self.findings = findings
        return findings

    def _chosen(self, entry: Entry) -> tuple[Update | None, list[int]]:
        change = decode(entry.payload)
        return (change, self._selection.of(entry, change)) if isinstance(change, Update) else (None, [])

    # -- building ---------------------------------------------------------------------------------

    async def stage(self) -> ModelMeta:
        """Prepare the successor, whose log begins where the history ends in segments."""
        assert self.findings.first is not None
        self._found = await self._catalogue.read()
        begin = START
        try:
            await self._store.logs.read(self._record, START, 1)
        except LogTrimmed as error:
            begin = error.trimmed
        self._begins = self._adopted = max(self._found.through, begin, key=position_key)
        self.successor = await self._store.models.stage(self._record, self._adopted)
        self._new_catalogue = CatalogueStore(self.successor, self._store)
        return self.successor

    async def build(self) -> None:
        """Write the new history up to about the end of the log."""
        past = PastStates(self._record, self._store)
        self._old = await past.at(self.findings.previous)
        data = await asyncio.to_thread(self._old.to_buffer, self._format)
        self._new = await asyncio.to_thread(OnlineModel.from_bytes, memoryview(bytearray(data)))
        del data
        self._old_replayer = self._replayer(self._record, past)
        self._new_replayer = self._replayer(self.successor, PastStates(self.successor, self._store))
        self._reader = HistoryReader(self._record, self._store)
        await self._carry_early()
        for segment in self._found.segments:
            await self._rewrite(segment)
        moved_to = self._found.moved_to
        await self._new_catalogue.change(lambda catalogue: catalogue.model_copy(update={"moved_to": moved_to}))
        if moved_to is not None:
            self._old.position = self._new.position = moved_to
        await self.catch_up()

    async def catch_up(self) -> None:
        """Continue until few entries of the log are left, or until their number no longer falls."""
        before = MANY_ENTRIES + 1
        while FEW_ENTRIES <= (left := await self._left()) < before:
            before = left if left < MANY_ENTRIES else before
            while left > 0 and (n_entries := await self._advance()):
                left -= n_entries

    async def _left(self) -> int:
        """Return the number of entries missing in the new log, at most `MANY_ENTRIES`."""
        counts = await self._store.logs.entries_after({self._record: self._adopted}, MANY_ENTRIES)
        return min(counts.get(self._record, 0), MANY_ENTRIES)

    def _replayer(self, record: ModelMeta, past: PastStates) -> LogReplayer:
        reader = HistoryReader(record, self._store)
        snapshots = SnapshotReader(record, self._store)
        return LogReplayer(record, read_spec(record.spec), self._store, snapshots, reader.read, past.target)

    async def _carry_early(self) -> None:
        """Copy the states and snapshots before the first forgotten example; note the positions of later ones."""
        catalogue = self._found
        states = [state for state in catalogue.states if not self._is_later(state.position)]
        copied = [state._replace(id=await self._copied(state.id)) for state in states]
        new = catalogue.model_copy(update={"segments": (), "states": tuple(copied)})
        await self._new_catalogue.put(await self._new_catalogue.read(), new)
        self._carried = {position_key(state.position) for state in states}
        self._snapped = set[tuple[int, ...]]()
        for snapshot in await self._store.snapshots.all(self._record):
            if not self._is_later(snapshot.position):
                data = await self._store.snapshots.get(self._record, snapshot.position)
                if data is not None:
                    await self._store.snapshots.put(self.successor, snapshot.position, data, snapshot.extent)
                    self._snapped.add(position_key(snapshot.position))
        await self._note_stops()

    async def _note_stops(self) -> None:
        """Note the positions at which the old history has a state or a snapshot that the new one has not."""
        self._states = {position_key(s.position): s for s in (await self._catalogue.read()).states}
        self._snapshots = {position_key(s.position): s for s in await self._store.snapshots.all(self._record)}
        self._stops = (self._states.keys() - self._carried) | (self._snapshots.keys() - self._snapped)

    async def _copied(self, id: str) -> str:
        copy, _ = await self._new_catalogue.put_blob(pieces_of(await self._catalogue.blob(id)))
        return copy

    def _is_later(self, position: str) -> bool:
        return position_key(position) > position_key(self.findings.previous)

    async def _rewrite(self, segment: Segment) -> None:
        """Rewrite a segment, or copy one that has nothing to be forgotten before it or in it."""
        if not self._is_later(segment.through):
            new = segment._replace(id=await self._copied(segment.id))
        else:
            after, entries = await asyncio.to_thread(decode_segment, await self._catalogue.blob(segment.id))
            amended = await self._amended(entries)
            data = await asyncio.to_thread(encode_segment, after, amended)
            id, size_bytes = await self._new_catalogue.put_blob(pieces_of(data))
            raw_bytes = sum(len(entry.payload) for entry in amended)
            new = segment._replace(id=id, size_bytes=size_bytes, raw_bytes=raw_bytes)
        # Until the last segment is there, the log continues after this one, so that rollbacks find their targets.
        moved_to = self._begins
        await self._new_catalogue.change(
            lambda catalogue: catalogue.with_segment(new).model_copy(update={"moved_to": moved_to})
        )
        if self._is_later(segment.through):
            await self._fold_new(amended)

    async def _advance(self) -> int:
        """Process the next entries of the log; return their number."""
        entries = await self._reader.read(self._adopted)
        if entries:
            amended = await self._amended(entries)
            await self._store.logs.adopt(self.successor, amended)
            self._adopted = entries[-1].position
            await self._fold_new(amended)
        return len(entries)

    async def _amended(self, entries: Sequence[Entry]) -> list[Entry]:
        """Apply entries to the old state, and return them without forgotten examples and rejected changes."""
        done = position_key(self._old.position)
        earlier = [entry for entry in entries if position_key(entry.position) <= done]
        later = entries[len(earlier) :]
        decoded = await self._old_replayer.decoded(later)
        try:
            results = await self._old_replayer.fold(self._old, decoded)
        except Interrupted as error:
            raise error.error from error
        amended, pace = list(earlier), Pace()
        for entry, logged, result in zip(later, decoded, results, strict=True):
            change, changed = logged.change, None
            if isinstance(change, Update) and (indices := self._selection.of(entry, change)):
                changed = change.forgetting(indices)
                _count(self.counted, entry, (change, indices), "")
            if isinstance(result.answer, ServiceError):  # it might be learnt now
                changed = Update((), change.durability)
            amended.append(entry if changed is None else entry._replace(payload=encode(changed, self._format)))
            await pace.rest()
        return amended

    async def _fold_new(self, entries: Sequence[Entry]) -> None:
        """Fold amended entries into the new state, and store it where the old history has one."""
        part: list[Entry] = []
        for entry in entries:
            if position_key(entry.position) <= position_key(self._new.position):
                continue
            part.append(entry)
            if (key := position_key(entry.position)) in self._stops:
                await self._fold_part(part)
                part = []
                await self._keep(key)
        if part:
            await self._fold_part(part)

    async def _fold_part(self, entries: Sequence[Entry]) -> None:
        try:
            await self._new_replayer.fold(self._new, await self._new_replayer.decoded(entries))
        except Interrupted as error:
            raise error.error from error

    async def _keep(self, key: tuple[int, ...], model: OnlineModel | None = None) -> None:
        """Store a state of the new history at a position of the old one."""
        model = model or self._new
        data = await asyncio.to_thread(model.to_buffer, self._format)
        if key in self._states and key not in self._carried:
            id, size_bytes = await self._new_catalogue.put_blob(pieces_of(bytes(data)))
            state = self._states[key]._replace(id=id, examples=model.updates, size_bytes=size_bytes)
            await self._new_catalogue.change(lambda catalogue: catalogue.with_state(state))
            self._carried.add(key)
        if key in self._snapshots and key not in self._snapped:
            await self._put_snapshot(model, self._snapshots[key].extent.size_bytes, data)
            self._snapped.add(key)

    async def _put_snapshot(self, model: OnlineModel, log_bytes: int, data: memoryview) -> None:
        extent = LogExtent(model.updates, log_bytes)
        await self._store.snapshots.put(self.successor, model.position, data, extent)

    # -- ending -----------------------------------------------------------------------------------

    async def carry(self) -> None:
        """Store the states and snapshots that the old history has got since `build` began."""
        await self._note_stops()
        past = PastStates(self.successor, self._store)
        for key in sorted(self._stops):
            position = self._snapshots[key].position if key in self._snapshots else self._states[key].position
            if key <= position_key(self._new.position):
                await self._keep(key, await past.at(position))

    async def finish(self, log_bytes: int) -> Rewritten:
        """Complete `build` after the log is sealed; then the successor can replace the model.

        Parameters
        ----------
        log_bytes : of the whole log of the model.
        """
        while await self._advance():
            pass
        await self.carry()
        data = await asyncio.to_thread(self._new.to_buffer, self._format)
        await self._put_snapshot(self._new, log_bytes, data)
        for snapshot in self._snapshots.values():
            if snapshot.kept is not None:
                await self._store.snapshots.keep(self.successor, snapshot.position, snapshot.kept, MANY_SNAPSHOTS)
            if snapshot.pinned:
                await self._store.snapshots.pin(self.successor, snapshot.position, True)
        before = await asyncio.to_thread(self._old.checksum, self._format)
        after = await asyncio.to_thread(self._new.checksum, self._format)
        return Rewritten(self._new.position, before, after)

    async def copy_predictions(self, done: set[str]) -> None:
        """Copy stored predictions without forgotten labels; `done` has the already copied ones."""
        before: str | None = None
        predictions, labelled = self._store.predictions, self.findings.predictions | self.counted.predictions
        while ids := await predictions.ids(self._record, PREDICTIONS_AT_ONCE, before):
            before = ids[-1]
            wanted = [id for id in ids if id not in done and id not in labelled]
            kept = zip(wanted, await predictions.get(self._record, wanted), strict=True)
            for id, value in kept:
                seconds = self._ttl_seconds + timestamp_of(id) / 1_000 - time.time()
                if value is not None and seconds > 0:
                    await predictions.put(self.successor, {id: value}, seconds, 2**31)
            done.update(wanted)

    async def drop(self) -> None:
        """Remove the history of the successor."""
        await self._new_catalogue.delete_all()


def _count(findings: Findings, entry: Entry, chosen: tuple[Update | None, Sequence[int]], previous: str) -> None:
    update, indices = chosen
    if update is None or not indices:
        return
    if findings.first is None:
        findings.first, findings.previous = entry.position, previous
    findings.entries += 1
    findings.examples += len(indices)
    if update.prediction_ids is not None:
        findings.predictions.update(update.prediction_ids[index] for index in indices)
