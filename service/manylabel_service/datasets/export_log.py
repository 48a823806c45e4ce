"""Child process that replays a log to extract its rows, from the frames of the log into a dataset."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manylabel_core.datasets import BadDataset
from manylabel_core.rows import Rows, Targets
from manylabel_core.state import DamagedState
from manylabel_service.datasets.examples_of_log import ExampleRecorder
from manylabel_service.datasets.last_rows import EVERY, LastRows
from manylabel_service.datasets.log_frames import BASE, ENTRY, SNAPSHOT, Frame, payload_of, read_frames
from manylabel_service.datasets.sandbox_child import serve_request
from manylabel_service.hosting.examples import Example
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.corrections import Place
from manylabel_service.online.state.log_entries import Update, decode
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
        if request["examples"]:
            return _write_examples(folded, request, result)
        recorder = _LastRecorder(LastRows(request["last"], request["bytes"]), folded.corrected())
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
    n_learnt = model.updates - model.corrections.count  # a correction does not add an example
    n_late = last_rows.n_rows - data.n_rows  # examples from before a label first appeared have no value for it
    available = min(asked, n_learnt - last_rows.n_skipped_in_all) - n_late
    if available <= 0:
        raise BadDataset(_no_rows(n_learnt))
    result.write(data.to_bytes())
    counts = {
        "asked": asked,
        "rows": data.n_rows,
        "learnt": n_learnt,
        "available": available,
        "partial": last_rows.n_skipped + n_late,
        "rolled_back": recorder.n_undone,
        "position": model.position,
    }
    return {"damaged": None, "counts": counts}


def _write_examples(folded: _Log, request: dict[str, Any], result: IO[bytes]) -> dict[str, Any]:
    """Write the last examples with their places; return their number."""
    recorder = ExampleRecorder(request["last"], request["bytes"], folded.corrected())
    model = folded.played(recorder)
    state, n_rows = recorder.to_state(model, folded.times())
    if not n_rows:
        raise BadDataset("the log has no examples with labels of people: send updates to the model first")
    result.write(state.to_buffer())
    learnt = model.updates - model.corrections.count
    counts = {
        "asked": request["last"],
        "rows": n_rows,
        "learnt": learnt,
        "available": min(request["last"], learnt),
        "partial": 0,
        "rolled_back": recorder.n_undone,
        "position": model.position,
    }
    return {"damaged": None, "counts": counts}


def _no_rows(n_learnt: int) -> str:
    """Return a message: why a log has no rows, and what to do."""
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
        self._undone: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        """Spans of the log that rollbacks have undone: after which entry, and up to which."""
        self._corrected: set[Place] = set()
        for frame in self._entries:
            change = decode(payload_of(file, frame))
            if isinstance(change, Rollback):
                self._undone.append((position_key(change.to), position_key(frame.position)))
            elif isinstance(change, Update) and change.corrects is not None and change.examples:
                self._corrected.add(change.corrects.place)
        bases = [frame for frame in frames if frame.kind == BASE]
        self._model = OnlineModel.from_bytes(payload_of(file, bases[0])) if bases else empty

    def corrected(self) -> Set[Place]:
        """Return the places of the examples that entries correct, even if the correction was undone."""
        return self._corrected

    def times(self) -> dict[str, int]:
        """Return the time of each entry by position, in milliseconds of Unix time."""
        return {frame.position: frame.time_ms for frame in self._entries}

    def played(self, recorder: Recorder) -> OnlineModel:
        """Return the model after the last entry; the recorder receives the examples instead of the learner.

        It also gets the position of each entry, and the place of the example if the entry corrects one.
        """
        model = _without_learner(self._model)
        for frame in self._entries:
            key = position_key(frame.position)
            is_undone = any(after < key <= through for after, through in self._undone)
            change = decode(payload_of(self._file, frame))
            corrects = change.corrects if isinstance(change, Update) else None
            folding = ApplyBatch(model, [LogEntry(frame.position, change)])
            more = True
            while more:
                folding.take(SLICE_EXAMPLES)
                if (collected := folding.collected) is not None and is_undone:
                    recorder.n_undone += len(collected[1].complete)
                elif collected is not None and corrects is not None:
                    recorder.correct(corrects.place, collected[1])
                elif collected is not None:
                    places = [(frame.position, index) for index, _ in folding.collected_examples]
                    recorder.add(*collected, places, [example for _, example in folding.collected_examples])
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


class Recorder(Protocol):
    """Receiver of the examples of a log.

    Attributes
    ----------
    n_undone : number of examples and corrections that a later rollback undoes.
    """

    n_undone: int

    def add(self, rows: Rows, targets: Targets, places: Sequence[Place], examples: Sequence[Example]) -> None:
        """Record the next examples, with their places in the log."""
        ...

    def correct(self, place: Place, targets: Targets) -> None:
        """Replace the true labels of an example."""
        ...


class _LastRecorder:
    """Recorder of the last rows of a log, see `Recorder`.

    Attributes
    ----------
    last_rows : buffer of the last examples.
    """

    def __init__(self, last_rows: LastRows, corrected: Set[Place]) -> None:
        self.last_rows = last_rows
        self.n_undone = 0
        self._corrected = corrected
        self._rows: dict[Place, int] = {}
        """Numbers of the rows that later entries correct."""

    def add(self, rows: Rows, targets: Targets, places: Sequence[Place], examples: Sequence[Example]) -> None:
        """Record the next examples, with their places in the log."""
        for i, place in enumerate(places):
            relevant, n_known = _truth(targets, i)
            weight = float(targets.weights[i]) if len(targets.weights) else 1.0
            number = self.last_rows.add(*rows.row(i), relevant, n_known, weight, place in self._corrected)
            if place in self._corrected:
                self._rows[place] = number

    def correct(self, place: Place, targets: Targets) -> None:
        """Replace the true labels of an example, unless it is not recorded."""
        if place in self._rows:
            self.last_rows.replace(self._rows[place], *_truth(targets, 0))


def _truth(targets: Targets, i: int) -> tuple[NDArray[np.int32] | None, int]:
    """Return the relevant labels of an example, and the number of known labels; None instead of the labels if some are
    unknown."""
    listed = slice(targets.indptr[i], targets.indptr[i + 1])
    relevant = targets.indices[listed][targets.signs[listed] > 0]
    # An example that states for every existing label whether it is relevant counts as complete.
    n_known = EVERY if targets.complete[i] else int(listed.stop - listed.start)
    return relevant if n_known >= targets.n_labels[i] else None, n_known
