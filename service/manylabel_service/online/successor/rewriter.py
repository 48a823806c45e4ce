"""Rewriting of the history of a model without some examples, into the successor of the model.

Two states are replayed side by side from the entry before the first forgotten one: the old state, which shows the
effect of each entry, and the new state. The new history omits every change that the old state rejected. Entries stay at
their positions, without forgotten examples.
"""

import asyncio
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from manylabel_service.errors import ServiceError
from manylabel_service.online.history.catalogue import Catalogue, Segment
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.history.segment import decode as decode_segment
from manylabel_service.online.history.segment import encode as encode_segment
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.successor.writer import SuccessorWriter
from manylabel_service.online.updates.past_states import PastStates
from manylabel_service.online.updates.replay import LARGE_ENTRY_BYTES, Interrupted, LogReplayer
from manylabel_service.slices import Pace
from manylabel_service.storage import START, Entry, LogExtent, ModelMeta, Store, pieces_of, position_key


@dataclass(frozen=True, slots=True)
class Selection:
    """Examples to forget: those with one of these references, and those in entries at these positions."""

    refs: Set[str] = frozenset()
    positions: Set[str] = frozenset()

    def of(self, entry: Entry, update: Update) -> list[int]:
        """Return the indices of the examples in an update that must be forgotten."""
        if entry.position in self.positions:
            return list(range(len(update.examples)))
        return [n for n, example in enumerate(update.examples) if example.ref is not None and example.ref in self.refs]


@dataclass(slots=True)
class Findings:
    """Result of a search in a history: counts, first position and the position before it, ids of predictions."""

    begin: str = START
    entries: int = 0
    examples: int = 0
    first: str | None = None
    previous: str = START
    predictions: set[str] = field(default_factory=set)


class Rewritten(NamedTuple):
    """Successor at the end of the log, and the checksums and metrics of both states there."""

    position: str
    before: str
    after: str
    metrics_before: dict[str, Any]
    metrics_after: dict[str, Any]


class Rewriter(SuccessorWriter):
    """Rewrites the history of one model.

    Parameters
    ----------
    record, store, room : see `SuccessorWriter`.
    selection : examples to forget.
    ttl_seconds : see `SuccessorWriter`.
    """

    def __init__(
        self,
        record: ModelMeta,
        store: Store,
        room: SnapshotQuota,
        selection: Selection,
        ttl_seconds: float,
    ) -> None:
        super().__init__(record, store, room, ttl_seconds)
        self._selection = selection
        self.findings = Findings()
        self.counted = Findings()
        """Examples omitted from the new history; more than `find` returned if entries were added later."""

    async def find(self) -> Findings:
        """Find the examples to forget."""
        await self._cut_beginning()
        reader = HistoryReader(self._record, self._store)
        findings = Findings(begin=await reader.begin())
        position, pace = findings.begin, Pace()
        while entries := await reader.read(position):
            for entry in entries:
                large = len(entry.payload) >= LARGE_ENTRY_BYTES
                chosen = await asyncio.to_thread(self._chosen, entry) if large else self._chosen(entry)
                _count(findings, entry, chosen, position)
                position = entry.position
                await pace.rest()
        self.findings = findings
        return findings

    async def _cut_beginning(self) -> None:
        """Remove the entries before the beginning of the history, which its first segment may still contain."""
        catalogue = await self._catalogue.read()
        begin, first = catalogue.begin, next(iter(catalogue.segments), None)
        if first is None or position_key(first.after) >= position_key(begin):
            return
        _, entries = await asyncio.to_thread(decode_segment, await self._catalogue.blob(first.id))
        left = [entry for entry in entries if position_key(entry.position) > position_key(begin)]
        data = await asyncio.to_thread(encode_segment, begin, left)
        id, size_bytes = await self._catalogue.put_blob(pieces_of(data))
        raw_bytes, first_ms = sum(len(entry.payload) for entry in left), left[0].time_ms
        cut = Segment(id, begin, first.through, len(left), raw_bytes, size_bytes, first_ms, first.last_ms)

        def cutting(found: Catalogue) -> Catalogue:
            segments = tuple(cut if segment == first else segment for segment in found.segments)
            return found.model_copy(update={"segments": segments})

        if cut not in (await self._catalogue.change(cutting)).segments:  # retention has removed the first
            await self._catalogue.delete([id])
        await self._store.erased()

    def _chosen(self, entry: Entry) -> tuple[Update | None, list[int]]:
        change = decode(entry.payload)
        return (change, self._selection.of(entry, change)) if isinstance(change, Update) else (None, [])

    # -- building ---------------------------------------------------------------------------------

    async def stage(self) -> ModelMeta:
        """Prepare the successor, whose log begins where the history ends in segments."""
        assert self.findings.first is not None
        return await self._stage()

    async def build(self) -> None:
        """Write the new history up to about the end of the log."""
        past = PastStates(self._record, self._store)
        self._old = await past.at(self.findings.previous)
        data = await asyncio.to_thread(self._old.to_buffer)
        self._new = await asyncio.to_thread(OnlineModel.from_bytes, memoryview(bytearray(data)))
        del data
        self._old_replayer = self._replayer(self._record, past)
        self._new_replayer = self._replayer(self.successor, PastStates(self.successor, self._store))
        await self._carry_early()
        for segment in self._found.segments:
            await self._rewrite(segment)
        moved_to = self._found.moved_to
        await self._new_catalogue.change(lambda catalogue: catalogue.model_copy(update={"moved_to": moved_to}))
        if moved_to is not None:
            self._old.position = self._new.position = moved_to
        await self.catch_up()

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
                    await self._room.put(self.successor, snapshot.position, data, snapshot.extent)
                    self._snapped.add(position_key(snapshot.position))
        await self._note_stops()

    async def _note_stops(self) -> None:
        """Record the positions at which the old history has a state or a snapshot that the new one lacks."""
        self._states = {position_key(s.position): s for s in (await self._catalogue.read()).states}
        self._snapshots = {position_key(s.position): s for s in await self._store.snapshots.all(self._record)}
        self._stops = (self._states.keys() - self._carried) | (self._snapshots.keys() - self._snapped)

    def _is_later(self, position: str) -> bool:
        return position_key(position) > position_key(self.findings.previous)

    async def _rewrite(self, segment: Segment) -> None:
        """Rewrite a segment, or copy it if nothing in it or before it is forgotten."""
        if not self._is_later(segment.through):
            new = segment._replace(id=await self._copied(segment.id))
        else:
            after, entries = await asyncio.to_thread(decode_segment, await self._catalogue.blob(segment.id))
            amended = await self._amended(entries)
            data = await asyncio.to_thread(encode_segment, after, amended)
            id, size_bytes = await self._new_catalogue.put_blob(pieces_of(data))
            raw_bytes = sum(len(entry.payload) for entry in amended)
            new = segment._replace(id=id, size_bytes=size_bytes, raw_bytes=raw_bytes)
        # Until the last segment exists, the log continues after this one, so that rollbacks find their targets.
        moved_to = self._begins
        await self._new_catalogue.change(
            lambda catalogue: catalogue.with_segment(new).model_copy(update={"moved_to": moved_to})
        )
        if self._is_later(segment.through):
            await self._apply_new(amended)

    async def _add(self, entries: Sequence[Entry]) -> None:
        amended = await self._amended(entries)
        await super()._add(amended)
        await self._apply_new(amended)

    async def _amended(self, entries: Sequence[Entry]) -> list[Entry]:
        """Apply entries to the old state, and return them without forgotten examples and rejected changes."""
        done = position_key(self._old.position)
        earlier = [entry for entry in entries if position_key(entry.position) <= done]
        later = entries[len(earlier) :]
        decoded = await self._old_replayer.decoded(later)
        try:
            results = await self._old_replayer.apply(self._old, decoded)
        except Interrupted as error:
            raise error.error from error
        amended, pace = list(earlier), Pace()
        for entry, logged, result in zip(later, decoded, results, strict=True):
            change, left = logged.change, entry
            if isinstance(change, Update) and (indices := self._selection.of(entry, change)):
                left = await asyncio.to_thread(self._without, entry, indices)
                _count(self.counted, entry, (change, indices), "")
            if isinstance(result.answer, ServiceError):  # otherwise the change might be learnt now
                left = entry._replace(payload=encode(Update(())))
            amended.append(left)
            await pace.rest()
        return amended

    def _without(self, entry: Entry, indices: Sequence[int]) -> Entry:
        """Return an entry without some examples."""
        whole = decode(entry.payload)  # with served scores, which a promoted follower does not learn
        assert isinstance(whole, Update)
        return entry._replace(payload=encode(whole.forgetting(indices)))

    async def _apply_new(self, entries: Sequence[Entry]) -> None:
        """Apply amended entries to the new state, and store it where the old history has one."""
        part: list[Entry] = []
        for entry in entries:
            if position_key(entry.position) <= position_key(self._new.position):
                continue
            part.append(entry)
            if (key := position_key(entry.position)) in self._stops:
                await self._apply_part(part)
                part = []
                await self._keep(key)
        if part:
            await self._apply_part(part)

    async def _apply_part(self, entries: Sequence[Entry]) -> None:
        try:
            await self._new_replayer.apply(self._new, await self._new_replayer.decoded(entries))
        except Interrupted as error:
            raise error.error from error

    async def _keep(self, key: tuple[int, ...], model: OnlineModel | None = None) -> None:
        """Store a state of the new history at a position of the old one."""
        model = model or self._new
        data = await asyncio.to_thread(model.to_buffer)
        if key in self._states and key not in self._carried:
            id, size_bytes = await self._new_catalogue.put_blob(pieces_of(data))
            state = self._states[key]._replace(id=id, examples=model.updates, size_bytes=size_bytes)
            await self._new_catalogue.change(lambda catalogue: catalogue.with_state(state))
            self._carried.add(key)
        if key in self._snapshots and key not in self._snapped:
            await self._put_snapshot(model, self._snapshots[key].extent.size_bytes, data)
            self._snapped.add(key)

    async def _put_snapshot(self, model: OnlineModel, log_bytes: int, data: memoryview) -> None:
        extent = LogExtent(model.updates, log_bytes)
        await self._room.put(self.successor, model.position, data, extent)

    # -- ending -----------------------------------------------------------------------------------

    async def carry(self) -> None:
        """Store the states and snapshots that were added to the old history since `build` began."""
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
        log_bytes : bytes of the whole log of the model.
        """
        while await self._advance():
            pass
        await self.carry()
        data = await asyncio.to_thread(self._new.to_buffer)
        await self._put_snapshot(self._new, log_bytes, data)
        await self._mark_snapshots(self._record, self.successor)
        self._ends = self._old, self._new
        before = await asyncio.to_thread(self._old.checksum)
        after = await asyncio.to_thread(self._new.checksum)
        return Rewritten(self._new.position, before, after, *map(_metrics, self._ends))

    def _left_out(self) -> Set[str]:
        return self.findings.predictions | self.counted.predictions


def _metrics(model: OnlineModel) -> dict[str, Any]:
    """Return the cumulative metrics of a model, without the metrics of its baseline."""
    measures: dict[str, Any] = model.prequential.measures()["cumulative"]
    return {name: value for name, value in measures.items() if name != "baseline"}


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
