"""Replay verification: compares the states of this process with those of processes that replayed a log earlier.

A snapshot has the bits of another replica at the position of the snapshot. A process of another build starts from an
earlier state, applies the entries in between, and must compute identical bits. This is evidence for these entries, not
a proof.
"""

import asyncio
from collections.abc import Sequence

import structlog

from manylabel_core.state import DamagedState
from manylabel_service.errors import LogLost, LogTrimmed, ReplayMismatch
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import TrainedSpec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.replay import RESTORES, Interrupted, LogReplayer, TargetLost
from manylabel_service.release import FORMAT
from manylabel_service.storage import START, ModelMeta, SnapshotMeta, Store, position_key

ENOUGH_EXAMPLES = 1_000
"""Minimum number of examples replayed for the comparison, if the log has enough."""

log = structlog.get_logger()


class ReplayVerifier:
    """Comparison of the states that this process and other processes compute from the log of one model."""

    def __init__(
        self,
        record: ModelMeta,
        spec: ModelSpec | TrainedSpec,
        store: Store,
        snapshot_reader: SnapshotReader,
        replayer: LogReplayer,
    ) -> None:
        self._record = record
        self._spec = spec
        self._store = store
        self._reader = snapshot_reader
        self._replayer = replayer

    async def check(self) -> None:
        """Compare the states, if there is a snapshot with entries before it; raise ReplayMismatch if they differ."""
        for attempt in range(1, RESTORES + 1):
            try:
                await self._compare(await self._reader.list())
            except (LogTrimmed, LogLost, TargetLost) as error:  # other replicas have deleted the snapshot meanwhile
                if attempt == RESTORES:
                    raise ReplayMismatch(f"model {self._record.name!r} could not be compared: {error}") from error
            else:
                return

    async def _compare(self, snapshots: Sequence[SnapshotMeta]) -> None:
        """Compare the states at the newest readable snapshot."""
        begin = await self._begin(snapshots)
        if begin is None:
            return
        reading = newest = snapshots[0].position
        try:
            header = await self._reader.header(newest)
            written = header.get("version")
            if "checksum" not in header or type(written) is not int or written > FORMAT:
                raise DamagedState(f"the header has format {written}, which this release cannot read")
            reading = begin
            is_stored = any(snapshot.position == begin for snapshot in snapshots)
            model = await (self._reader.load(begin) if is_stored else asyncio.to_thread(OnlineModel, self._spec))
        except DamagedState as error:
            log.warning("snapshot_damaged", model=self._record.name, position=reading, error=str(error))
            await self._compare([snapshot for snapshot in snapshots if snapshot.position != reading])
            return
        await self._replay(model, newest)
        if await asyncio.to_thread(model.checksum) != header["checksum"]:
            raise ReplayMismatch(
                f"replay of model {self._record.name!r} from {begin} to {newest} gives another state than its snapshot"
            )
        log.info("replay_agrees", model=self._record.name, begin=begin, position=newest)

    async def _begin(self, snapshots: Sequence[SnapshotMeta]) -> str | None:
        """Return the position of an earlier state from which the log can be replayed to the newest snapshot."""
        if not snapshots:
            return None
        newest, found = snapshots[0], None
        states = [*((older.position, older.extent.examples) for older in snapshots[1:]), (START, 0)]
        for position, examples in states:
            if position_key(position) >= position_key(newest.position):
                continue
            try:
                await self._store.logs.read(self._record, position, 1)
            except (LogTrimmed, LogLost):
                break
            found = position
            if newest.extent.examples - examples >= ENOUGH_EXAMPLES:
                break
        return found

    async def _replay(self, model: OnlineModel, through: str) -> None:
        try:
            while position_key(model.position) < position_key(through):
                if not await self._replayer.read_on(model, through):
                    raise LogLost(self._record.name, through)
        except Interrupted as error:
            raise error.error from error
