"""Plain oracle of a log: it applies one entry after the other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from manylabel_service.online.spec.follow import Roles
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Control
from manylabel_service.online.state.log_entries import Update, as_followed, decode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.storage import Entry


@dataclass
class Replayed:
    """Result of a replay.

    Attributes
    ----------
    model : state at the end of the log.
    learnt : number of times each example was learnt, by its reference.
    positions : position of the reply of the update with each example, by its reference.
    changes : positions of control entries and corrections that took effect, by the text of their key.
    """

    model: OnlineModel
    learnt: Counter[str] = field(default_factory=Counter)
    positions: dict[str, str] = field(default_factory=dict)
    changes: dict[str, list[str]] = field(default_factory=dict)


def replay(spec: bytes, entries: Sequence[Entry]) -> Replayed:
    """Apply a whole log to an empty model with a stored spec."""
    replayed, roles = Replayed(OnlineModel(read_spec(spec))), Roles(spec)
    decoded = [decode(entry.payload) for entry in entries]
    needed, states = {change.needs for change in decoded if isinstance(change, Control)}, dict[str, bytes]()
    for entry, change in zip(entries, decoded, strict=True):
        if roles.follows_at(entry.position):
            change = as_followed(change)
        batch = ApplyBatch(replayed.model, [LogEntry(entry.position, change)])
        while batch.step(1_000):
            if batch.needed_snapshot is not None:
                batch.roll_back(OnlineModel.from_bytes(states[batch.needed_snapshot]))
        if entry.position in needed:
            states[entry.position] = replayed.model.to_bytes()
        (outcome,) = batch.outcomes
        if not isinstance(change, Update) or change.corrects is not None:
            done = isinstance(outcome.answer, UpdateOutcome) and outcome.answer.position == entry.position
            if change.key is not None and done:  # otherwise it repeats another one, or does not fit the model
                replayed.changes.setdefault(change.key.key, []).append(entry.position)
        elif isinstance(outcome.answer, UpdateOutcome) and not outcome.replayed:
            for example in change.examples:
                assert example.ref is not None
                replayed.learnt[example.ref] += 1
                replayed.positions[example.ref] = outcome.answer.position
    return replayed
