"""Child process that replays a log to extract its rows, from the frames of the log into a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import IO, Any

from manylabel_core.datasets import BadDataset
from manylabel_core.rows import Rows, Targets
from manylabel_core.state import DamagedState
from manylabel_service.datasets.last_rows import EVERY, LastRows
from manylabel_service.datasets.log_frames import BASE, ENTRY, SNAPSHOT, Frame, payload_of, read_frames
from manylabel_service.datasets.sandbox_child import serve_request
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.log_entries import decode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.served_metrics import NothingLearnt
from manylabel_service.storage import position_key

SLICE_EXAMPLES = 1_000


def main(arguments: Sequence[str], fds: Sequence[int]) -> int:
    """Handle one request, as a child of the fork server."""
    return serve_request(fold, fds)


def fold(request: dict[str, Any], files: list[IO[bytes]]) -> dict[str, Any]:
    """Replay the frames, and write the last rows; return their number."""
    log, result = files
    frames = list(read_frames(log))
    try:
        folded = _Log(log, frames, OnlineModel(ModelSpec.from_bytes(request["spec"])))
        recorder = _Recorder(LastRows(request["last"], request["bytes"]), folded.forgotten())
        model = folded.played(recorder)
    except DamagedState as error:
        return {"damaged": str(error)}
    features, labels = model.features, model.labels.names
    if features.layout.kind == "numbered":
        data = recorder.last_rows.dataset(len(features), None, labels, features.columns.indices)
    else:
        fields = features.layout.vector_fields
        vectors = [(field if fields[field] == n else None, n) for field, n in features.layout.vectors]
        named = recorder.last_rows.dataset(len(features.names), features.names.names, labels, vectors=vectors)
        data = replace(named, text=None if model.spec.text is None else model.spec.text.settings())
    last_rows, asked = recorder.last_rows, request["last"]
    n_late = last_rows.n_rows - data.n_rows  # examples before a label first appeared do not know the label
    available = min(asked, model.updates - last_rows.n_skipped_in_all) - n_late
    if available <= 0:
        raise BadDataset(_no_rows(model.updates))
    result.write(data.to_bytes())
    counts = {
        "asked": asked,
        "rows": data.n_rows,
        "learnt": model.updates,
        "available": available,
        "partial": last_rows.n_skipped + n_late,
        "rolled_back": recorder.n_forgotten,
        "position": model.position,
    }
    return {"damaged": None, "counts": counts}


def _no_rows(n_learnt: int) -> str:
    """Return why a log has no rows, and what to do."""
    if not n_learnt:
        return "the log has no examples: send updates to the model first"
    return (
        f"the log has no example with complete labels: the {n_learnt:,} learnt have partial labels; send "
        "examples with all their labels (y as a list), or train from a dataset"
    )


class _Log:
    """Frames of a log, and the model at its start.

    Parameters
    ----------
    file, frames : file with the frames of the log.
    empty : model before any entry, the initial state unless the first frame is a snapshot.
    """

    def __init__(self, file: IO[bytes], frames: list[Frame], empty: OnlineModel) -> None:
        self._file = file
        self._entries = [frame for frame in frames if frame.kind == ENTRY]
        self._snapshots = {frame.position: frame for frame in frames if frame.kind == SNAPSHOT}
        bases = [frame for frame in frames if frame.kind == BASE]
        self._model = OnlineModel.from_bytes(payload_of(file, bases[0])) if bases else empty

    def forgotten(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the spans of the log that rollbacks have undone: after which entry, and up to which."""
        changes = ((frame.position, decode(payload_of(self._file, frame))) for frame in self._entries)
        return [
            (position_key(change.to), position_key(position))
            for position, change in changes
            if isinstance(change, Rollback)
        ]

    def played(self, recorder: _Recorder) -> OnlineModel:
        """Return the model after the last entry; the recorder receives the examples instead of the learner."""
        model = _without_learner(self._model)
        for frame in self._entries:
            recorder.at(frame.position)
            folding = ApplyBatch(model, [LogEntry(frame.position, decode(payload_of(self._file, frame)))])
            more = True
            while more:
                folding.take(SLICE_EXAMPLES)
                if (collected := folding.collected) is not None:
                    recorder.add(*collected)
                more = folding.finish()
                if folding.needed_snapshot is not None:
                    folding.roll_back(_without_learner(self._snapshot(folding.needed_snapshot)))
        return model

    def _snapshot(self, position: str) -> OnlineModel:
        if (frame := self._snapshots.get(position)) is None:
            raise DamagedState(f"there is no snapshot at {position}")
        return OnlineModel.from_bytes(payload_of(self._file, frame))


def _without_learner(model: OnlineModel) -> OnlineModel:
    """Release the memory of the learner of a model; return the model."""
    model.learner = NothingLearnt()
    return model


class _Recorder:
    """Last examples of a log.

    Attributes
    ----------
    last_rows : buffer of the last examples.
    n_forgotten : examples that a later rollback undoes.
    """

    def __init__(self, last_rows: LastRows, forgotten: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
        self.last_rows = last_rows
        self.n_forgotten = 0
        self._intervals = forgotten
        self._is_forgotten = False

    def at(self, position: str) -> None:
        """Note the position of the entry that follows."""
        key = position_key(position)
        self._is_forgotten = any(after < key <= through for after, through in self._intervals)

    def add(self, rows: Rows, targets: Targets) -> None:
        """Record the next examples."""
        n_rows = len(rows.indptr) - 1
        if self._is_forgotten:
            self.n_forgotten += n_rows
            return
        for i in range(n_rows):
            listed = slice(targets.indptr[i], targets.indptr[i + 1])
            relevant = targets.indices[listed][targets.signs[listed] > 0]
            # An example that states for every existing label whether it is relevant counts as complete.
            n_known = EVERY if targets.complete[i] else int(listed.stop - listed.start)
            weight = float(targets.weights[i]) if len(targets.weights) else 1.0
            self.last_rows.add(*rows.row(i), relevant if n_known >= targets.n_labels[i] else None, n_known, weight)
