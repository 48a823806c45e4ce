"""Dataset of the latest examples of an online model.

Examples are stored only in the log. Only a replay of the log shows which examples were learnt, and in which columns:
rejected, repeated and rolled-back entries add no examples. So the log is replayed from the latest stored state before
the wanted rows, with a learner that records rows instead of learning. This runs in a child process, to which this
module passes the stored states and entries.
"""

import asyncio
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from manylabel_core.state import DamagedState
from manylabel_service.datasets.log_frames import BASE, ENTRY, SNAPSHOT, write_frame, write_head
from manylabel_service.datasets.sandbox import BASE_BYTES, run, scratch_file
from manylabel_service.errors import (
    HistoryDamaged,
    InvalidDataset,
    LogTrimmed,
    ModelFollows,
    ModelIsTrained,
    ModelNotFound,
)
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.spec.trained import is_trained, read_spec
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.log_entries import decode
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.online.updates.replay import TargetLost
from manylabel_service.settings import Settings
from manylabel_service.storage import SEED, START, Entry, ModelMeta, Store, open_in_thread, position_key

ATTEMPTS = 3
"""Maximum attempts if the log is trimmed while it is read."""

BYTES_PER_ROW_BYTE = 4
"""Maximum bytes of the log read per byte of the maximum size of a dataset."""


class StreamCounts(NamedTuple):
    """Numbers of rows of a stream by their use.

    Attributes
    ----------
    asked : maximum number of rows requested.
    rows : number of rows in the dataset; fewer than requested if the log does not have as many.
    learnt : number of learnt examples that were not rolled back.
    available : number of rows if the log still had all learnt examples.
    partial : number of latest examples omitted because some labels are unknown.
    rolled_back : number of examples omitted because of a later rollback.
    position : position of the last log entry read.
    all_of_log : whether the log is complete; otherwise the model was created with an initial state.
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
        left = f"; {self.partial:,} skipped because a label is unknown" if self.partial else ""
        return f"{self.rows:,} of {self.asked:,} asked; {self.learnt:,} were learnt{gone}{left}"


async def rows_of_stream(
    store: Store, settings: Settings, model: str, last: int, to: Path, examples: bool = False
) -> StreamCounts:
    """Write the last examples that an online model learnt to a file, as a dataset.

    Rows are in log order; features and labels have their current names and columns in the model. If the log no longer
    has examples, there are no rows.

    Parameters
    ----------
    store, settings : store of the model; limits, and the directory for temporary files.
    model : name of the model.
    last : maximum number of rows.
    to : file to write, in the format of `manylabel_core.datasets.Dataset.from_bytes`.
    examples : whether to write examples with their places instead of rows, including partial labels; see
        `examples_of_log`.

    Raises
    ------
    ModelNotFound, ModelIsTrained, ModelFollows, ModelGone, StorageUnavailable
    InvalidDataset
        The model has learnt no example with all labels known, or the rows are larger than a dataset may be, or
        the model hashes its features: a trained model would not know them by their names.
    LogTrimmed, LogLost, HistoryDamaged
        The log cannot be replayed to its end from any intact state.
    OSError
        A file cannot be written.
    """
    record = await store.models.find(model)
    if record is None:
        raise ModelNotFound(model)
    record.check()
    if is_trained(record.spec):
        raise ModelIsTrained(model)  # the log has no examples
    if follow_of(record.spec) is not None:
        raise ModelFollows(model)
    limits = read_spec(record.spec).limits
    if limits is not None and limits.hashes and not examples:
        raise InvalidDataset(f"model {model!r} hashes its features, so their names are unknown")
    failure: Exception | None = None
    for _ in range(ATTEMPTS):
        first, earlier, later = await _beginnings(store, settings, record, last)
        for n, begin in enumerate((*first, *earlier, *first, *later)):
            try:
                counts = await _folded(store, settings, record, begin.position, last, to, examples)
            except (LogTrimmed, HistoryDamaged) as error:  # the log may have been trimmed in the meantime
                failure = error
                continue
            # There may be fewer rows with partial labels than examples.
            if counts is not None and (counts.rows >= last or n > 0 or not earlier):
                return counts._replace(all_of_log=begin == _Begin(SEED, 0, 0))
        if not isinstance(failure, LogTrimmed):
            break
    raise failure or InvalidDataset(f"no snapshot of model {model!r} is intact, so its log cannot be read")


class _Begin(NamedTuple):
    """State from which the log can be replayed: its position, and the examples and bytes of the log before it."""

    position: str
    examples: int
    log_bytes: int


async def _beginnings(store: Store, settings: Settings, record: ModelMeta, last: int) -> tuple[list[_Begin], ...]:
    """Return the states from which to replay the log, in this order: the latest with enough examples after it, earlier
    ones, later ones.

    The part of the log that is read is bounded by the size of the largest dataset.
    """
    reader = ModelFiles(record, store).history()
    begin = await reader.begin()
    found = {
        s.position: _Begin(s.position, *s.extent)
        for s in await store.snapshots.all(record)
        if s.listed or s.extent.size_bytes or s.position == begin
    }
    if begin in (START, SEED):
        found.setdefault(begin, _Begin(begin, 0, 0))
    begins = sorted(found.values(), key=lambda each: position_key(each.position))
    begins = [each for each in begins if position_key(each.position) >= position_key(begin)]
    if not begins:
        return [], [], []
    newest, most_bytes = begins[-1], BYTES_PER_ROW_BYTE * settings.max_dataset_bytes
    begins = [each for each in begins if newest.log_bytes - each.log_bytes <= most_bytes]
    first = sum(newest.examples - each.examples >= last for each in begins) - 1
    first = max(first, 0)
    return begins[first : first + 1], begins[:first], begins[first + 1 :]


async def _folded(
    store: Store, settings: Settings, record: ModelMeta, base: str, last: int, to: Path, examples: bool
) -> StreamCounts | None:
    """Return the rows from one start on; None if a required snapshot is damaged."""
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
            {"spec": read_spec(record.spec).to_bytes().decode(), "last": last, "bytes": most, "examples": examples},
            [log, file],
            memory_bytes=BASE_BYTES + 2 * settings.max_model_bytes + 6 * most,
            file_bytes=BASE_BYTES + 2 * most,
        )
    return None if report["damaged"] else StreamCounts(**report["counts"])


async def _gather(store: Store, record: ModelMeta, base: str, file: IO[bytes]) -> None:
    """Write the frames of the log that begins at a state; each state precedes the first entry that needs it.

    Raises
    ------
    DamagedState
        A state is missing.
    """
    written: set[str] = set()
    if base != START:
        await _put_state(store, record, base, file, BASE)
    reader, position = ModelFiles(record, store).history(), base
    while entries := await reader.read(position):
        for target in await asyncio.to_thread(_targets, entries):
            if target not in written:
                await _put_state(store, record, target, file, SNAPSHOT)
                written.add(target)
        await asyncio.to_thread(_put_entries, entries, file)
        position = entries[-1].position


async def _put_state(store: Store, record: ModelMeta, at: str, file: IO[bytes], kind: int) -> None:
    """Store a state; compute it first if it is not stored."""
    if (snapshot := next((s for s in await store.snapshots.all(record) if s.position == at), None)) is not None:
        due, stored = snapshot.size_bytes, store.snapshots.read(record, at)
    else:
        try:
            model = await ModelFiles(record, store).target(at)
        except TargetLost as error:
            raise DamagedState(str(error)) from error
        await asyncio.to_thread(write_frame, file, kind, at, await asyncio.to_thread(model.to_buffer))
        return
    await asyncio.to_thread(write_head, file, kind, at, due)
    async with aclosing(stored) as pieces:
        async for piece in pieces:
            due -= await asyncio.to_thread(file.write, piece)
    if due:
        raise DamagedState(f"there is no complete state at {at}")


def _put_entries(entries: list[Entry], file: IO[bytes]) -> None:
    for entry in entries:
        write_frame(file, ENTRY, entry.position, entry.payload, entry.time_ms)


def _targets(entries: list[Entry]) -> list[str]:
    """Return the positions to which rollbacks among the entries return."""
    changes = (decode(entry.payload) for entry in entries)
    return [change.to for change in changes if isinstance(change, Rollback)]
