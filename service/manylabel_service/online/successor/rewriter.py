"""Rewriting of the history of a model, without some examples, for the successor of the model.

The new history omits the forgotten examples, and the changes that the model rejected. Only the state shows which
changes were rejected, so the old history is replayed from the entry before the first forgotten one. Entries stay at
their positions. Then the new history is replayed to compute the new state.
"""

import asyncio
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from manylabel_service.errors import ServiceError
from manylabel_service.online.history.archiver import STATE_LOG_BYTES, is_far
from manylabel_service.online.history.catalogue import Catalogue, Segment
from manylabel_service.online.history.segment import decode as decode_segment
from manylabel_service.online.history.segment import encode as encode_segment
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.state.corrections import Corrects
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.successor.writer import SuccessorWriter
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.online.updates.replay import LARGE_ENTRY_BYTES, Interrupted
from manylabel_service.slices import Pace
from manylabel_service.storage import START, Entry, LogExtent, ModelMeta, Store, pieces_of, position_key
from manylabel_service.storage.protocol import NO_EXTENT


@dataclass(frozen=True, slots=True)
class Selection:
    """Examples to forget: all examples with one of these references, and all examples of the entries at these
    positions."""

    refs: Set[str] = frozenset()
    positions: Set[str] = frozenset()

    def of(self, entry: Entry, update: Update) -> list[int]:
        """Return the indices of the examples in an update that must be forgotten."""
        corrected = update.corrects and update.corrects.position
        if entry.position in self.positions or corrected in self.positions:
            return list(range(len(update.examples)))
        return [n for n, example in enumerate(update.examples) if example.ref is not None and example.ref in self.refs]


@dataclass(slots=True)
class Findings:
    """Result of a search in a history: counts, the first position and the position before it, and ids of
    predictions."""

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
        self._new: OnlineModel | None = None
        self.counted = Findings()
        """Examples omitted from the new history; more than `find` returned if entries were added later."""
        self._gone: dict[str, Sequence[int]] = {}
        """Indices of the examples omitted from each entry."""

    async def find(self) -> Findings:
        """Find the examples to forget."""
        await self._cut_beginning()
        self.findings = await self._search()
        if self.findings.first is not None and await self._begin_at_state(self.findings.begin):
            await self._cut_beginning()
            self.findings = await self._search()
        return self.findings

    async def _search(self) -> Findings:
        """Search the whole history for examples to forget, and return the findings."""
        reader = self._files.history()
        findings = Findings(begin=await reader.begin())
        position, pace = findings.begin, Pace()
        while entries := await reader.read(position):
            for entry in entries:
                large = len(entry.payload) >= LARGE_ENTRY_BYTES
                chosen = await asyncio.to_thread(self._chosen, entry) if large else self._chosen(entry)
                _count(findings, entry, chosen, position)
                position = entry.position
                await pace.rest()
        return findings

    async def _begin_at_state(self, position: str) -> bool:
        """If a position is before the first state of the history, let the history begin at this state, because earlier
        entries cannot be replayed, but may contain the examples. Return whether the position is before it."""
        first = await self._files.first_state()
        if position_key(position) >= position_key(first):
            return False
        await self._files.catalogue.change(lambda found: found.beginning_at(max(found.begin, first, key=position_key)))
        await self._store.logs.trim(self._record, first)
        return True

    async def _cut_beginning(self) -> None:
        """Remove the entries before the beginning of the history, which its first segment may still contain."""
        catalogue = await self._files.catalogue.read()
        begin, first = catalogue.begin, next(iter(catalogue.segments), None)
        if first is None or position_key(first.after) >= position_key(begin):
            return
        _, entries = await asyncio.to_thread(decode_segment, await self._files.catalogue.blob(first.id))
        left = [entry for entry in entries if position_key(entry.position) > position_key(begin)]
        data = await asyncio.to_thread(encode_segment, begin, left)
        id, size_bytes = await self._files.catalogue.put_blob(pieces_of(data))
        raw_bytes, first_ms = sum(len(entry.payload) for entry in left), left[0].time_ms
        cut = Segment(id, begin, first.through, len(left), raw_bytes, size_bytes, first_ms, first.last_ms)

        def cutting(found: Catalogue) -> Catalogue:
            segments = tuple(cut if segment == first else segment for segment in found.segments)
            return found.model_copy(update={"segments": segments})

        if cut not in (await self._files.catalogue.change(cutting)).segments:  # retention has removed the first segment
            await self._files.catalogue.delete([id])
        await self._store.erased()

    def _chosen(self, entry: Entry) -> tuple[Update | None, list[int]]:
        change = decode(entry.payload)
        return (change, self._selection.of(entry, change)) if isinstance(change, Update) else (None, [])

    # -- building ---------------------------------------------------------------------------------

    async def stage(self) -> ModelMeta:
        """Prepare the successor, whose log begins at the end of the segments of the history."""
        assert self.findings.first is not None
        return await self._stage()

    async def build(self) -> None:
        """Write the new history almost up to the end of the log, and replay it."""
        self._old = await self._files.state_at(self.findings.previous)
        self._old_replayer = self._files.replayer(self._files.history())
        await self._copy_early()
        for segment in self._found.segments:
            await self._rewrite(segment)
        if (moved_to := self._found.moved_to) is not None:
            await self._new_catalogue.change(lambda catalogue: catalogue.model_copy(update={"moved_to": moved_to}))
            self._old.position = moved_to
        await self.catch_up()
        await self._replay()
        await self.catch_up()

    async def _copy_early(self) -> None:
        """Copy the snapshots before the first forgotten example."""
        new = self._found.model_copy(update={"segments": (), "moved_to": None})
        await self._new_catalogue.change(lambda _: new)
        for snapshot in await self._store.snapshots.all(self._record):
            if not self._is_later(snapshot.position):
                data = await self._store.snapshots.get(self._record, snapshot.position)
                if data is not None:
                    await self._room.put(self.successor, snapshot.position, data, snapshot.extent, snapshot.reasons)

    async def _replay(self) -> None:
        """Replay the new history up to the end of its log, and store states as an archiver does."""
        self._new_files = _NewFiles(self)
        new = await self._new_files.state_at(min(self.findings.previous, self._adopted, key=position_key))
        catalogue = await self._new_catalogue.read()
        known = [each.extent for each in await self._store.snapshots.all(self.successor)] or [NO_EXTENT]
        last, log_bytes = known[0], known[-1].size_bytes
        enough_bytes = min(STATE_LOG_BYTES, catalogue.size_bytes // 4)  # as for a history that may not grow
        for segment in catalogue.segments:
            log_bytes += segment.raw_bytes
            if not self._is_later(segment.through):
                continue
            await self._new_files.advance(new, segment.through)
            if is_far(extent := LogExtent(new.updates, log_bytes), last, new.nbytes, enough_bytes):
                await self.put_state(segment.through, new, log_bytes)
                last = extent
        await self._new_files.advance(new, self._adopted)
        self._new = new

    async def put_state(self, position: str, model: OnlineModel, log_bytes: int = 0) -> None:
        """Retain a state for the new history."""
        if not await self._store.snapshots.retain(self.successor, position, add="history"):
            data = await asyncio.to_thread(model.to_buffer)
            await self._room.put(self.successor, position, data, LogExtent(model.updates, log_bytes), ("history",))

    def _is_later(self, position: str) -> bool:
        return position_key(position) > position_key(self.findings.previous)

    async def _rewrite(self, segment: Segment) -> None:
        """Rewrite a segment; copy it unchanged if no example in it or before it is forgotten."""
        if not self._is_later(segment.through):
            new = segment._replace(id=await self._copied(segment.id))
        else:
            after, entries = await asyncio.to_thread(decode_segment, await self._files.catalogue.blob(segment.id))
            amended = await self._amended(entries)
            data = await asyncio.to_thread(encode_segment, after, amended)
            id, size_bytes = await self._new_catalogue.put_blob(pieces_of(data))
            raw_bytes = sum(len(entry.payload) for entry in amended)
            new = segment._replace(id=id, size_bytes=size_bytes, raw_bytes=raw_bytes)
        await self._new_catalogue.change(lambda catalogue: catalogue.with_segment(new))

    async def _add(self, entries: Sequence[Entry]) -> None:
        await super()._add(await self._amended(entries))
        if self._new is not None:
            await self._new_files.advance(self._new, entries[-1].position)

    async def _amended(self, entries: Sequence[Entry]) -> list[Entry]:
        """Apply entries to the old state, and return them without forgotten examples and changes without effect."""
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
                self._gone[entry.position] = indices
                _count(self.counted, entry, (change, indices), "")
            elif isinstance(change, Update) and change.corrects is not None:
                left = self._moved(entry, change.corrects)
            answer = result.answer
            if isinstance(answer, ServiceError) or (result.replayed and answer.position != entry.position):
                # The new model might not reject the change. A repetition also contains the examples of the first
                # request.
                left = entry._replace(payload=encode(Update(())))
            amended.append(left)
            await pace.rest()
        return amended

    def _without(self, entry: Entry, indices: Sequence[int]) -> Entry:
        """Return an entry without some examples."""
        whole = decode(entry.payload)  # with served scores, which a promoted follower does not learn
        assert isinstance(whole, Update)
        return entry._replace(payload=encode(whole.forgetting(indices)))

    def _moved(self, entry: Entry, corrects: Corrects) -> Entry:
        """Return a correction with the index of its example in the new history."""
        if not (gone := self._gone.get(corrects.position)):
            return entry
        update = decode(entry.payload)
        assert isinstance(update, Update)
        if corrects.number in gone:
            return entry._replace(payload=encode(update.forgetting(range(len(update.examples)))))
        number = corrects.number - sum(index < corrects.number for index in gone)
        return entry._replace(payload=encode(update._replace(corrects=corrects._replace(number=number))))

    # -- ending -----------------------------------------------------------------------------------

    async def finish(self, log_bytes: int) -> Rewritten:
        """Complete `build` after the log is sealed; then the successor can replace the model.

        Parameters
        ----------
        log_bytes : bytes of the whole log of the model.
        """
        while await self._advance():
            pass
        assert self._new is not None
        data = await asyncio.to_thread(self._new.to_buffer)
        extent = LogExtent(self._new.updates, log_bytes)
        await self._room.put(self.successor, self._new.position, data, extent)
        self._ends = self._old, self._new
        before = await asyncio.to_thread(self._old.checksum)
        after = await asyncio.to_thread(self._new.checksum)
        return Rewritten(self._new.position, before, after, *map(_metrics, self._ends))

    def _left_out(self) -> Set[str]:
        return self.findings.predictions | self.counted.predictions


class _NewFiles(ModelFiles):
    """States of the new history. Target states of rollbacks are stored, so that the history may later begin after
    them."""

    def __init__(self, rewriter: Rewriter) -> None:
        super().__init__(rewriter.successor, rewriter._store)
        self._rewriter = rewriter

    async def target(self, position: str) -> OnlineModel:
        model = await super().target(position)
        await self._rewriter.put_state(position, model)
        return model


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
