"""Stored parts of a model: spec, log with its history, and snapshots; and the past states that follow from them.

A past state is replayed from the closest earlier snapshot.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import structlog

from manylabel_core.state import DamagedState
from manylabel_service.errors import (
    BeforeHistory,
    HistoryDamaged,
    LogLost,
    LogTrimmed,
    ModelDamaged,
    PositionNotFound,
)
from manylabel_service.hosting.events import Event
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import TrainedSpec, read_spec
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.events import events_of
from manylabel_service.online.updates.replay import Interrupted, LogReplayer, TargetLost
from manylabel_service.slices import HalfPace
from manylabel_service.storage import SEED, START, Entry, ModelMeta, Store, position_key

log = structlog.get_logger()


class Verified(NamedTuple):
    """Result of comparing stored states with the history, with the first position at which they differ, or None."""

    equal: bool
    since: str
    position: str
    states: int
    differs_at: str | None


class ModelFiles:
    """Stored parts of one model, and its states at positions of its log, bit for bit.

    Parameters
    ----------
    record, store : the model and its store.
    pace : see `LogReplayer`.
    spec : spec of the model, if the caller has already read it, because reading hundreds of thousands of names takes
        long.

    Attributes
    ----------
    follow : the part of another model's log that the model learns; None for a model with its own log.
    snapshots : reader of its snapshots.
    catalogue : segments of its history.
    """

    def __init__(
        self,
        record: ModelMeta,
        store: Store,
        pace: HalfPace | None = None,
        spec: ModelSpec | TrainedSpec | None = None,
    ) -> None:
        self.record = record
        self.store = store
        self.follow = follow_of(record.spec)
        self.snapshots = SnapshotReader(record, store)
        self.catalogue = CatalogueStore(record, store)
        self._pace = pace
        self._spec = spec

    @property
    def spec(self) -> ModelSpec | TrainedSpec:
        """Spec of the model."""
        if self._spec is None:
            self._spec = read_spec(self.record.spec)
        return self._spec

    def history(self) -> HistoryReader:
        """Return a new reader of the log, including its trimmed part."""
        return HistoryReader(self.record, self.store)

    def replayer(self, reader: HistoryReader) -> LogReplayer:
        """Return a replayer of the entries from a reader of the history."""
        return LogReplayer(self.record, self.spec, self.store, self.snapshots, reader.read, self.target, self._pace)

    async def beginning(self) -> OnlineModel:
        """Return the state before the first entry; raise DamagedState if it cannot be read.

        Only a follower can have an initial state that is not empty.
        """
        if self.follow is not None and self.follow.has_seed:
            return await self.snapshots.load(SEED)
        return await asyncio.to_thread(OnlineModel, self.spec)

    async def state_at(self, position: str) -> OnlineModel:
        """Return the state after the entry at a position that `HistoryReader.find` has returned.

        The target states of rollbacks before the position are computed in the same way. Raises BeforeHistory if no
        earlier state is stored, HistoryDamaged if the history after it cannot be read, and errors of the store and of
        entries.
        """
        reader = self.history()
        begin = await reader.begin()
        for at in await self._stored_before(position, begin):
            try:
                model = await self.snapshots.load(at)
            except DamagedState as error:
                log.warning("past_state_damaged", model=self.record.name, position=at, error=str(error))
                continue
            await self.advance(model, position)
            return model
        first = START if self.follow is None else self.follow.begin
        if not position_key(begin) <= position_key(first) <= position_key(position):
            raise BeforeHistory(self.record.name, f"position {position}", await self.first_state())
        try:
            model = await self.beginning()
        except DamagedState as error:
            raise HistoryDamaged(self.record.name, first, position, str(error)) from error
        await self.advance(model, position)
        return model

    async def first_state(self) -> str:
        """Return the earliest position whose state can be computed, or else the beginning of the history.

        The log may begin earlier, because its newest entries are retained after a snapshot.
        """
        begin = await self.history().begin()
        first = START if self.follow is None else self.follow.begin
        if position_key(begin) <= position_key(first):
            return first
        key = position_key(begin)
        stored = {snapshot.position for snapshot in await self.store.snapshots.all(self.record)}
        return min((at for at in stored if position_key(at) >= key), key=position_key, default=begin)

    async def entry(self, position: str) -> tuple[str, Entry]:
        """Return the entry at a position, and the position before it.

        Raises PositionNotFound, BeforeHistory, HistoryDamaged, or errors of the store.
        """
        reader = self.history()
        begin, at = await reader.begin(), await reader.find(position)
        stored = [each for each in await self._stored_before(at, begin) if each != at]
        after = stored[0] if stored else begin
        while entries := await reader.read(after):
            for entry in entries:
                if entry.position == at:
                    return after, entry
                after = entry.position
            if position_key(after) > position_key(at):
                break
        raise PositionNotFound(self.record.name, position)

    async def events(self, after: str, through: str) -> list[Event] | None:
        """Return the events after a position and up to another; None if the history no longer has all of these entries.

        A second copy of the model is restored and learns the entries again. All entries of a model are after `START`,
        even if it was created with an initial state.
        """
        for begin in (after, SEED) if after == START else (after,):
            try:
                model = await self.state_at(begin)
                results = [result async for result in self._results(model, through)]
            except (BeforeHistory, HistoryDamaged, ModelDamaged):
                continue
            return [event for result in results for event in events_of(result)]
        return None

    async def verify(self) -> Verified:
        """Replay the history from its earliest state, and compare each later stored state with it.

        Raises the errors of `state_at`.
        """
        begin = await self.history().begin()
        newest = next(iter(await self.snapshots.list()), None)
        stored = [] if newest is None else (await self._stored_before(newest.position, begin))[::-1]
        if begin == START:
            model = await asyncio.to_thread(OnlineModel, self.spec)
        elif stored:
            model = await self._stored(stored.pop(0))
        else:
            raise BeforeHistory(self.record.name, "every state", begin)
        for n, position in enumerate(stored, 1):
            await self.advance(model, position)
            other = await self._stored(position)
            checksums = [await asyncio.to_thread(each.checksum) for each in (model, other)]
            if checksums[0] != checksums[1]:
                return Verified(False, begin, position, n, position)
        return Verified(True, begin, model.position, len(stored), None)

    async def _stored(self, position: str) -> OnlineModel:
        try:
            return await self.snapshots.load(position)
        except DamagedState as error:
            raise HistoryDamaged(self.record.name, position, position, str(error)) from error

    async def target(self, position: str) -> OnlineModel:
        """Return the target state of a rollback; raise TargetLost if it is missing and cannot be computed."""
        try:
            if self.follow is not None and position_key(position) <= position_key(self.follow.begin):
                model = await self.beginning()
                model.position = position
                return model
            return await self.snapshots.load(position)
        except DamagedState:
            pass
        try:
            return await self.state_at(position)
        except (BeforeHistory, HistoryDamaged, LogTrimmed, LogLost) as error:
            raise TargetLost(f"a rollback in the log returns to position {position}, but {error}") from error

    async def _stored_before(self, position: str, begin: str) -> list[str]:
        """Return the positions of snapshots at or before a position, latest first."""
        stored = {snapshot.position for snapshot in await self.store.snapshots.all(self.record)}
        if self.follow is not None and self.follow.has_seed:
            stored.discard(SEED)  # the blob belongs to another position
        key, first = position_key(position), position_key(begin)
        leading = [at for at in stored if first <= position_key(at) <= key or position_key(at) == key]
        return sorted(leading, key=position_key, reverse=True)

    async def advance(self, model: OnlineModel, position: str) -> None:
        """Apply the entries after the position of a model, up to another; raises the errors of `state_at`."""
        async for _ in self._results(model, position):
            pass

    async def _results(self, model: OnlineModel, position: str) -> AsyncIterator[ApplyResult]:
        """Apply the entries up to a position, and yield their results."""
        reader, begin = self.history(), model.position
        replayer = self.replayer(reader)
        try:
            while position_key(model.position) < position_key(position):
                if not (pairs := await replayer.read_on(model, position)):
                    if reader.position != position:
                        raise LogLost(self.record.name, position)
                    model.position = position  # the position belongs to another store
                for _, result in pairs:
                    yield result
        except Interrupted as error:
            raise error.error from error
        except LogTrimmed as error:  # in the meantime
            raise BeforeHistory(self.record.name, f"position {begin}", error.trimmed) from error
        except (LogLost, TargetLost) as error:
            raise HistoryDamaged(self.record.name, begin, position, str(error)) from error
