"""Base of the writers of successors: copies history, log, snapshots and predictions of a model."""

from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from manylabel_service.environment import time
from manylabel_service.errors import LogTrimmed
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.prediction_store import decode_kept, encode_kept
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.storage import START, Entry, ModelMeta, Store, pieces_of, position_key
from manylabel_service.ulid import timestamp_of

PREDICTIONS_AT_ONCE = 500

FEW_ENTRIES = 1_000
"""Maximum number of remaining entries when the log is sealed."""

MANY_ENTRIES = 100_000
"""Maximum number of counted entries of the log."""


class SuccessorWriter:
    """Writer of the successor of a model; every method raises the errors of reading and replaying a history.

    Parameters
    ----------
    record, store : the model and its store.
    room : quota of the snapshots of all models.
    ttl_seconds : seconds for which predictions are stored.

    Attributes
    ----------
    successor : staged successor.
    """

    successor: ModelMeta
    _ends: tuple[OnlineModel, OnlineModel]
    """States of the model and of the successor at the end of the log."""

    def __init__(self, record: ModelMeta, store: Store, room: SnapshotQuota, ttl_seconds: float) -> None:
        self._record = record
        self._store = store
        self._room = room
        self._ttl_seconds = ttl_seconds
        self._files = ModelFiles(record, store)
        self._reader = self._files.history()

    async def _stage(self, begin: str = START) -> ModelMeta:
        """Prepare the successor, whose log begins at the end of the segments of the history, or at a later position."""
        self._found = await self._files.catalogue.read()
        log_begin = START
        try:
            await self._store.logs.read(self._record, START, 1)
        except LogTrimmed as error:
            log_begin = error.trimmed
        self._adopted = max(self._found.through, log_begin, begin, key=position_key)
        self.successor = await self._store.models.stage(self._record, self._adopted)
        self._new_catalogue = CatalogueStore(self.successor, self._store)
        return self.successor

    async def _copied(self, id: str) -> str:
        """Copy a blob of the history; return the id of the copy."""
        copy, _ = await self._new_catalogue.put_blob(pieces_of(await self._files.catalogue.blob(id)))
        return copy

    async def catch_up(self) -> None:
        """Continue until few entries of the log remain, or their number does not decrease."""
        before = MANY_ENTRIES + 1
        while FEW_ENTRIES <= (left := await self._left()) < before:
            before = left if left < MANY_ENTRIES else before
            while left > 0 and (n_entries := await self._advance()):
                left -= n_entries

    async def _left(self) -> int:
        """Return the number of entries missing in the new log, at most `MANY_ENTRIES`."""
        counts = await self._store.logs.entries_after({self._record: self._adopted}, MANY_ENTRIES)
        return min(counts.get(self._record, 0), MANY_ENTRIES)

    async def _advance(self) -> int:
        """Add the next entries of the log; return their number."""
        entries = await self._reader.read(self._adopted)
        if entries:
            await self._add(entries)
            self._adopted = entries[-1].position
        return len(entries)

    async def _add(self, entries: Sequence[Entry]) -> None:
        """Add entries to the log of the successor."""
        await self._store.logs.adopt(self.successor, entries)

    # -- stored predictions -----------------------------------------------------------------------

    def _left_out(self) -> Set[str]:
        """Return the ids of stored predictions to omit from the successor."""
        return frozenset()

    async def copy_predictions(self, done: set[str]) -> None:
        """Copy the stored predictions that are not in `done`, and add them to `done`."""
        async for predictions in self._predictions(done):
            await self._put_predictions(predictions)

    async def copy_last_predictions(self, done: set[str]) -> None:
        """Copy the remaining predictions, once the successor is complete.

        If its labels have other columns than before, copy all predictions again.
        """
        old, new = self._ends
        names = old.labels.names
        if names == new.labels.names[: len(names)]:
            await self.copy_predictions(done)
            return
        columns = np.array(new.labels.lookup(names), dtype=np.int64)
        async for predictions in self._predictions(set()):
            moved = {}
            for id, value in predictions.items():
                with suppress(ValueError):  # it is damaged
                    moved[id] = _in_columns(value, columns)
            await self._put_predictions(moved)

    async def _predictions(self, done: set[str]) -> AsyncIterator[dict[str, bytes]]:
        """Yield the stored predictions for the successor in batches, except those in `done`."""
        before: str | None = None
        while ids := await self._store.predictions.ids(self._record, PREDICTIONS_AT_ONCE, before):
            before, left_out = ids[-1], self._left_out()
            wanted = [id for id in ids if id not in done and id not in left_out]
            values = zip(wanted, await self._store.predictions.get(self._record, wanted), strict=True)
            yield {id: value for id, value in values if value is not None}
            done.update(wanted)

    async def _put_predictions(self, predictions: Mapping[str, bytes]) -> None:
        for id, value in predictions.items():
            seconds = self._ttl_seconds + timestamp_of(id) / 1_000 - time.time()
            if seconds > 0:
                await self._store.predictions.put(self.successor, {id: value}, seconds, 2**31)


def _in_columns(value: bytes, columns: NDArray[np.int64]) -> bytes:
    """Return a stored prediction with its scores moved to other columns (-1: dropped); its decision is dropped."""
    kept = decode_kept(value)
    columns = columns[: len(kept.scores)]
    scores = np.full(1 + columns.max(initial=-1), np.nan)
    scores[columns[columns >= 0]] = kept.scores[: len(columns)][columns >= 0]
    return encode_kept(kept._replace(scores=scores, decision=None))
