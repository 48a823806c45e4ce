"""Past states of a model, replayed from the closest earlier stored state."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import structlog

from manylabel_core.state import DamagedState
from manylabel_service.errors import BeforeHistory, HistoryDamaged, LogLost, LogTrimmed, ModelDamaged
from manylabel_service.hosting.events import Event
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
from manylabel_service.storage import SEED, START, ModelMeta, Store, position_key

log = structlog.get_logger()


class Verified(NamedTuple):
    """Result of comparing stored states with the history; it has the first position where they differ, or None."""

    equal: bool
    since: str
    position: str
    states: int
    differs_at: str | None


class PastStates:
    """Computes the states of one model at positions of its log, bit for bit.

    Parameters
    ----------
    record, store : the model and its store.
    snapshots : reader of its snapshots.
    pace : see `LogReplayer`.
    spec : spec of the model, if the caller has read it: reading hundreds of thousands of names takes long.
    """

    def __init__(
        self,
        record: ModelMeta,
        store: Store,
        snapshots: SnapshotReader | None = None,
        pace: HalfPace | None = None,
        spec: ModelSpec | TrainedSpec | None = None,
    ) -> None:
        self._record = record
        self._store = store
        self._spec = read_spec(record.spec) if spec is None else spec
        self._snapshots = snapshots or SnapshotReader(record, store)
        self._follow = follow_of(record.spec)
        self._pace = pace

    async def beginning(self) -> OnlineModel:
        """Return the state before the first entry; raise DamagedState if it cannot be read.

        Only a follower can have an initial state that is not empty.
        """
        if self._follow is not None and self._follow.has_seed:
            return await self._snapshots.load(SEED)
        return await asyncio.to_thread(OnlineModel, self._spec)

    async def at(self, position: str) -> OnlineModel:
        """Return the state after the entry at a position, which `HistoryReader.find` has returned.

        If there is a rollback on the way, its target state is computed in the same way. Raises BeforeHistory if no
        earlier state is stored, HistoryDamaged if the history after it cannot be read, and errors of the store and of
        entries.
        """
        reader = HistoryReader(self._record, self._store)
        begin = await reader.begin()
        for at in await self._stored_before(position, begin):
            try:
                model = await self._snapshots.load(at)
            except DamagedState as error:
                log.warning("past_state_damaged", model=self._record.name, position=at, error=str(error))
                continue
            await self.advance(model, position)
            return model
        first = START if self._follow is None else self._follow.begin
        if not position_key(begin) <= position_key(first) <= position_key(position):
            raise BeforeHistory(self._record.name, f"position {position}", begin)
        try:
            model = await self.beginning()
        except DamagedState as error:
            raise HistoryDamaged(self._record.name, first, position, str(error)) from error
        await self.advance(model, position)
        return model

    async def events(self, after: str, through: str) -> list[Event] | None:
        """Return the events after a position and up to another; None if the history no longer has all of these entries.

        A second copy of the model is restored and learns the entries again. All entries of a model are after `START`,
        even if it was created with an initial state.
        """
        for begin in (after, SEED) if after == START else (after,):
            try:
                model = await self.at(begin)
                results = [result async for result in self._results(model, through)]
            except (BeforeHistory, HistoryDamaged, ModelDamaged):
                continue
            return [event for result in results for event in events_of(result)]
        return None

    async def verify(self) -> Verified:
        """Replay the history from its earliest state, and compare each later stored state with it.

        Raises the errors of `at`.
        """
        begin = await HistoryReader(self._record, self._store).begin()
        newest = next(iter(await self._snapshots.list()), None)
        stored = [] if newest is None else (await self._stored_before(newest.position, begin))[::-1]
        if begin == START:
            model = await asyncio.to_thread(OnlineModel, self._spec)
        elif stored:
            model = await self._stored(stored.pop(0))
        else:
            raise BeforeHistory(self._record.name, "every state", begin)
        for n, position in enumerate(stored, 1):
            await self.advance(model, position)
            other = await self._stored(position)
            checksums = [await asyncio.to_thread(each.checksum) for each in (model, other)]
            if checksums[0] != checksums[1]:
                return Verified(False, begin, position, n, position)
        return Verified(True, begin, model.position, len(stored), None)

    async def _stored(self, position: str) -> OnlineModel:
        try:
            return await self._snapshots.load(position)
        except DamagedState as error:
            raise HistoryDamaged(self._record.name, position, position, str(error)) from error

    async def target(self, position: str) -> OnlineModel:
        """Return the target state of a rollback; raise TargetLost if it is missing and cannot be computed."""
        try:
            if self._follow is not None and position_key(position) <= position_key(self._follow.begin):
                model = await self.beginning()
                model.position = position
                return model
            return await self._snapshots.load(position)
        except DamagedState:
            pass
        try:
            return await self.at(position)
        except (BeforeHistory, HistoryDamaged, LogTrimmed, LogLost) as error:
            raise TargetLost(f"a rollback in the log returns to position {position}, but {error}") from error

    async def _stored_before(self, position: str, begin: str) -> list[str]:
        """Return the positions of snapshots at or before a position, latest first."""
        stored = {snapshot.position for snapshot in await self._store.snapshots.all(self._record)}
        if self._follow is not None and self._follow.has_seed:
            stored.discard(SEED)  # the blob belongs to another position
        key, first = position_key(position), position_key(begin)
        leading = [at for at in stored if first <= position_key(at) <= key or position_key(at) == key]
        return sorted(leading, key=position_key, reverse=True)

    async def advance(self, model: OnlineModel, position: str) -> None:
        """Apply the entries after the position of a model, up to another; raises the errors of `at`."""
        async for _ in self._results(model, position):
            pass

    async def _results(self, model: OnlineModel, position: str) -> AsyncIterator[ApplyResult]:
        """Apply the entries up to a position, and yield their results."""
        reader, begin = HistoryReader(self._record, self._store), model.position
        replayer = LogReplayer(
            self._record, self._spec, self._store, self._snapshots, reader.read, self.target, self._pace
        )
        try:
            while position_key(model.position) < position_key(position):
                if not (pairs := await replayer.read_on(model, position)):
                    if reader.position != position:
                        raise LogLost(self._record.name, position)
                    model.position = position  # the position belongs to another store
                for _, result in pairs:
                    yield result
        except Interrupted as error:
            raise error.error from error
        except LogTrimmed as error:  # in the meantime
            raise BeforeHistory(self._record.name, f"position {begin}", error.trimmed) from error
        except (LogLost, TargetLost) as error:
            raise HistoryDamaged(self._record.name, begin, position, str(error)) from error
