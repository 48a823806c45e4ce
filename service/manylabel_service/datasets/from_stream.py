"""A dataset made of what an online model has learnt last.

Only the log knows the examples; which of them were learnt, and in which columns, follows from folding it: entries that
are refused, repeated or rolled back leave none. So the log is replayed from the oldest snapshot that covers the wanted
rows, by a learner that learns nothing and records its rows. A child process does that; this module only passes on the
stored snapshots and entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from manylabel_core.state import DamagedState
from manylabel_service.datasets.log_frames import BASE, ENTRY, SNAPSHOT, write_frame, write_head
from manylabel_service.datasets.sandbox import BASE_BYTES, run, scratch_file
from manylabel_service.errors import InvalidDataset, LogLost, LogTrimmed, ModelIsTrained, ModelNotFound
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import is_trained
from manylabel_service.online.state.log_entries import Rollback, decode
from manylabel_service.settings import Settings
from manylabel_service.storage import SEED, START, Entry, ModelMeta, SnapshotMeta, Store, open_in_thread

READ_ENTRIES = 1_000
"""Entries read from the log at a time."""

ATTEMPTS = 3
"""Maximum attempts if the log is trimmed while it is read."""


class StreamCounts(NamedTuple):
    """Counts of the rows of a stream by their use.

    Attributes
    ----------
    asked : rows, at most.
    rows : in the dataset; fewer than asked for if the log no longer has, or never had, that number.
    learnt : examples that the model has learnt, and not forgotten by a rollback.
    available : rows that there would be if the log still had all of these.
    partial : examples left out, among the latest, because some of their labels are not known.
    rolled_back : examples left out because the model has forgotten them by a rollback since.
    position : of the last log entry that was looked at.
    all_of_log : whether the log has all that was ever in it: the model was made with what older examples had taught.
    """

    asked: int
    rows: int
    learnt: int
    available: int
    partial: int
    rolled_back: int
    position: str
    all_of_log: bool = False

    def to_text(self) -> str:
        """Return the description of the rows for people."""
        older = "were learnt before this log began" if self.all_of_log else "are no longer in the log"
        gone = f", older ones {older}" if self.rows < self.available else ""
        left = f"; {self.partial:,} left out, of which a label is not known" if self.partial else ""
        return f"{self.rows:,} of {self.asked:,} asked; {self.learnt:,} were learnt{gone}{left}"


async def rows_of_stream(store: Store, settings: Settings, model: str, last: int, to: Path) -> StreamCounts:
    """Write the last examples that an online model learnt to a file, as a dataset.

    Rows are in log order, with the names and columns that features and labels have in the model now. There may be none,
    where the log no longer has any.

    Parameters
    ----------
    store, settings : where the model is; limits, and the directory whose disk is used meanwhile.
    model : its name.
    last : rows at most.
    to : is written as `manylabel_core.datasets.Dataset.from_bytes` reads it.

    Raises
    ------
    ModelNotFound, ModelIsTrained, ModelGone, StorageUnavailable
    InvalidDataset
        The model has learnt no example with all labels known, or the rows are larger than a dataset may be, or
        the model hashes its features: a trained model would not know them by their names.
    LogTrimmed, LogLost
        No snapshot that is intact reaches back to where the log begins.
    OSError
        A file cannot be written.
    """
    record = await store.models.find(model)
    if record is None:
        raise ModelNotFound(model)
    record.check()
    if is_trained(record.spec):
        raise ModelIsTrained(model)  # it has no examples in its log
    limits = ModelSpec.from_bytes(record.spec).limits
    if limits is not None and limits.hashes:
        raise InvalidDataset(f"model {model!r} hashes its features, so that what they are called is not known")
    failure: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            async for base in _beginnings(store, record):
                counts = await _folded(store, settings, record, None if base is None else base.position, last, to)
                if counts is not None:
                    return counts._replace(all_of_log=base is not None and _is_seed(base))
        except LogTrimmed as error:  # snapshots were taken meanwhile
            failure = error
        else:
            break
    raise failure or InvalidDataset(f"no snapshot of model {model!r} is intact, so that its log cannot be read")


def _is_seed(snapshot: SnapshotMeta) -> bool:
    """Return whether a model was made with this state; one after the first entry of a log may have that place too."""
    return snapshot.position == SEED and not any(snapshot.extent)


async def _beginnings(store: Store, record: ModelMeta) -> AsyncIterator[SnapshotMeta | None]:
    """Return where the log can be read from, the earliest first: None is its very beginning, else a snapshot."""
    snapshots = reversed(await store.snapshots.all(record))
    failure: LogTrimmed | LogLost | None = None
    found = False
    for base in (None, *snapshots):
        try:
            await store.logs.read(record, START if base is None else base.position, 1)
        except (LogTrimmed, LogLost) as error:
            failure = error
        else:
            found = True
            yield base
    if not found and failure is not None:
        raise failure


async def _folded(
    store: Store, settings: Settings, record: ModelMeta, base: str | None, last: int, to: Path
) -> StreamCounts | None:
    """Return the rows from one beginning on; None if a snapshot is damaged that is needed for it."""
    most = settings.max_dataset_bytes
    with (
        await open_in_thread(partial(scratch_file, settings.data_dir)) as log,
        await open_in_thread(lambda: to.open("w+b")) as file,
    ):
        try:
            await _gather(store, record, base, log)
        except DamagedState:
            return None
        report = await run(
            "manylabel_service.datasets.export_log",
            {"spec": record.spec.decode(), "last": last, "bytes": most},
            [log, file],
            memory_bytes=BASE_BYTES + 2 * settings.max_model_bytes + 6 * most,
            file_bytes=BASE_BYTES + 2 * most,
        )
    return None if report["damaged"] else StreamCounts(**report["counts"])


async def _gather(store: Store, record: ModelMeta, base: str | None, file: IO[bytes]) -> None:
    """Write down the log from a beginning on, each snapshot before the first entry that needs it.

    Raises
    ------
    DamagedState
        A snapshot is not there.
    """
    written: set[str] = set()
    if base is not None:
        await _put_snapshot(store, record, base, file, BASE)
    position = base or START
    while entries := await store.logs.read(record, position, READ_ENTRIES):
        for target in await asyncio.to_thread(_targets, entries):
            if target not in written:
                await _put_snapshot(store, record, target, file, SNAPSHOT)
                written.add(target)
        await asyncio.to_thread(_put_entries, entries, file)
        position = entries[-1].position


async def _put_snapshot(store: Store, record: ModelMeta, at: str, file: IO[bytes], kind: int) -> None:
    due = next((s.size_bytes for s in await store.snapshots.all(record) if s.position == at), 0)
    await asyncio.to_thread(write_head, file, kind, at, due)
    async with aclosing(store.snapshots.read(record, at)) as pieces:
        async for piece in pieces:
            due -= await asyncio.to_thread(file.write, piece)
    if due:
        raise DamagedState(f"there is no snapshot at {at}")


def _put_entries(entries: list[Entry], file: IO[bytes]) -> None:
    for position, payload in entries:
        write_frame(file, ENTRY, position, payload)


def _targets(entries: list[Entry]) -> list[str]:
    """Return the snapshots that rollbacks among the entries go back to."""
    changes = (decode(entry.payload) for entry in entries)
    return [change.to for change in changes if isinstance(change, Rollback)]
