"""Undoing a change of labels: the state is that of before the change, and later entries stay."""

from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, learn, named, new_model, taught
from tests.support.cases import for_each

from manylabel_core.label_structure import Group
from manylabel_service.errors import CannotUndo, UnreadableEntry
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.controls import Control, Describe, Dismiss, Regroup, Relabel, Rollback
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.online.state.tiers import tiers_of_control
from manylabel_service.online.state.undo import Undo, undoing

KEY = IdempotencyKey("k", b"d" * 16)
GROUP = Group("g", ("s", "t"), "one")

CHANGES: dict[str, Control] = {
    "merge": Relabel("p", "q", merges=True),
    "merge of a paused label with old names": Relabel("u", "q", merges=True),
    "rename": Relabel("p", "r"),
    "rename of a paused label": Relabel("u", "r"),
    "rename to an old name": Relabel("u", "old"),
    "retire": Relabel("p", None),
    "retire a paused label": Relabel("u", None),
    "pause": Relabel("p", None, paused=True),
    "pause again": Relabel("u", None, paused=True),
    "resume": Relabel("u", None, paused=False),
    "groups": Regroup((Group("h", ("p", "t"), "at_most_one"),), {"s": "q"}),
    "no groups": Regroup((), {}),
    "dismiss": Dismiss("parent", "p", "q"),
    "dismiss again": Dismiss("merge", "p", "q"),
}
"""A change of each kind of the labels of `grown`."""


def grown() -> OnlineModel:
    """Return a model with groups, a paused label that has old names, and dismissed suggestions."""
    model = taught()
    undone(learn(model, (named(a=1), ["older", "s"]), (named(b=1), ["t"]), (named(b=2), ["first"])))
    for change in (
        Relabel("older", "old"),
        Relabel("old", "u"),
        Relabel("first", "p2"),
        Relabel("p2", "first"),
        Relabel("u", None, paused=True),
        Dismiss("merge", "p", "q"),
        Dismiss("pause", "s", None),
        Regroup((GROUP,), {}),
    ):
        assert isinstance(append(model, change).answer, UpdateOutcome)
    return model


def copied(model: OnlineModel) -> OnlineModel:
    return OnlineModel.from_bytes(model.to_bytes())


def facts(model: OnlineModel) -> dict[str, Any]:
    """Return the whole state, apart from the position and the state of requests."""
    arrays, header = model._state()
    requests = {"keys", "renamed"}
    return {**{name: each.tobytes() for name, each in arrays.items() if name not in requests}, **header, "position": ""}


def undo(model: OnlineModel, before: OnlineModel, change: Any, key: IdempotencyKey | None = None) -> ApplyResult:
    """Undo a change that followed a state."""
    return append(model, undoing(copied(before), change, str(int(before.position) + 1), key))


def undone(result: ApplyResult) -> UpdateOutcome:
    assert isinstance(result.answer, UpdateOutcome), result.answer
    return result.answer


@for_each("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_undone_bit_for_bit(change: Control) -> None:
    model, before = grown(), grown()
    append(model, change)
    answer = undone(undo(model, before, change, KEY))
    assert (answer.rolled_back_to, answer.position) == (before.position, str(int(before.position) + 2))
    assert facts(model) == facts(before)
    restored = copied(model)
    assert restored.to_bytes() == model.to_bytes()
    assert undo(model, before, change, KEY).replayed
    for each in (model, before):
        undone(learn(each, (named(a=1, b=1), ["p", "q", "s", "new"]), (named(a=2), ["older", "s"])))
    assert facts(model) == facts(before)


@for_each("change", CHANGES.values(), ids=CHANGES)
def test_what_was_learnt_since_stays(change: Control) -> None:
    model, before = grown(), grown()
    append(model, change)
    undone(learn(model, (named(b=3), ["q", "s", "new"])))
    learnt = model.learner.pipeline.arrays()
    kept = {name: array.copy() for name, array in learnt.items()}
    assert undone(undo(model, before, change)).rolled_back_to is None
    for name, array in model.learner.pipeline.arrays().items():
        np.testing.assert_array_equal(array, kept[name])
    after, due = facts(model), facts(before)
    for part in ("retired", "paused", "groups", "dismissals", "old_names.columns", "old_names.offsets"):
        assert after[part] == due[part], part
    assert model.labels.names == (*before.labels.names, "new")
    assert model.updates == before.updates + 1


def test_labels_that_groups_declared_stay() -> None:
    model, before = grown(), grown()
    change = Regroup((), {"p": "parent"})
    append(model, change)
    assert undone(undo(model, before, change)).rolled_back_to is None
    assert model.labels.names == (*before.labels.names, "parent")
    assert model.groups.to_json(model.labels) == before.groups.to_json(before.labels)


@for_each(
    ("change", "later"),
    [
        (Relabel("p", "q", merges=True), Relabel("q", "s2")),
        (Relabel("p", "q", merges=True), Relabel("q", None)),
        (Relabel("p", "r"), Relabel("q", "p3")),
        (Relabel("p", None, paused=True), Relabel("q", None, paused=True)),
        (Relabel("p", None), Regroup((GROUP,), {"q": "first"})),
        (Regroup((), {"p": "q"}), Relabel("q", "q2")),
        (Dismiss("parent", "p", "q"), Dismiss("parent", "q", "p")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_change_of_another_label_does_not_matter(change: Any, later: Any) -> None:
    model, before = grown(), grown()
    append(model, change)
    undone(append(model, later))
    undone(undo(model, before, change))
    due = copied(before)
    undone(append(due, later))
    names = {"labels.bytes", "labels.offsets", "retired", "paused", "old_names.columns", "groups", "dismissals"}
    after = facts(model)
    assert {part: after[part] for part in names & after.keys()} == {
        part: each for part, each in facts(due).items() if part in names
    }


@for_each(
    ("change", "later"),
    [
        (Relabel("p", "q", merges=True), Relabel("q", "t2", merges=False)),
        (Relabel("p", "r"), Relabel("r", "r2")),
        (Relabel("p", "r"), Relabel("r", "q", merges=True)),
        (Relabel("p", None, paused=True), Relabel("p", None, paused=False)),
        (Relabel("p", None, paused=True), Relabel("p", None)),
        (Regroup((), {"p": "q"}), Regroup((), {})),
        (Dismiss("merge", "s", "q"), Dismiss("merge", "s", "q")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_later_change_must_be_undone_first(change: Any, later: Any) -> None:
    model = grown()
    first = copied(model)
    undone(append(model, change))
    if isinstance(change, Dismiss):
        undone(learn(model, *[(named(a=1), ["q", "s"])] * 3))
    second = copied(model)
    if isinstance(change, Relabel) and change.merges:
        later = Relabel("q", "first", merges=True)
    undone(append(model, later))
    state = facts(model)
    refused = undo(model, first, change).answer
    assert isinstance(refused, CannotUndo)
    assert "a later entry" in str(refused)
    assert facts(model) == state
    undone(undo(model, second, later))
    undone(undo(model, first, change))
    again = undo(model, first, change).answer
    assert isinstance(again, CannotUndo)
    assert "a later entry, such as an undo, has already reverted it" in str(again)


def test_groups_of_a_label_that_is_retired_by_now_do_not_return() -> None:
    model = grown()
    before = copied(model)
    change = Regroup((), {})
    append(model, change)
    undone(append(model, Relabel("s", None)))
    refused = undo(model, before, change).answer
    assert isinstance(refused, CannotUndo)
    assert "retired" in str(refused)


def test_only_changes_that_were_applied_are_undone() -> None:
    before = grown()
    for change, why in (
        (Relabel("unknown", "q"), "rejected"),
        (Dismiss("merge", "p", "unknown"), "rejected"),
        (Relabel("p", "q"), "rejected"),
        (Update(()), "no change of labels"),
        (Describe({"p": {}}), "no change of labels"),
        (Rollback("1"), "no change of labels"),
    ):
        with pytest.raises(CannotUndo, match=why):
            undoing(copied(before), change, "99", None)
    append(before, Relabel("p", None, KEY, paused=True))
    with pytest.raises(CannotUndo, match="repeats"):
        undoing(copied(before), Relabel("p", None, KEY, paused=True), "99", None)


def test_a_rollback_to_a_state_between_is_possible() -> None:
    model = grown()
    before, change = copied(model), Relabel("p", "r")
    append(model, change)
    states = {model.position: model.to_bytes()}
    undone(undo(model, before, change))
    undone(append(model, Rollback(next(iter(states))), states))
    assert model.labels.names == before.labels.names


@for_each("change", CHANGES.values(), ids=CHANGES)
def test_an_entry_is_read_as_it_was_written(change: Any) -> None:
    before = grown()
    entry = undoing(copied(before), change, "99", KEY)
    assert decode(encode(entry)) == entry
    assert not entry.takes_long
    assert entry.to_json()["undoes"] == "99"


def test_large_groups_are_restored_beside_the_event_loop() -> None:
    model = new_model()
    change = Regroup((), {f"l{n}": "all" for n in range(600)})
    entry = undoing(model, change, "1-2", None)
    assert entry.takes_long
    assert tiers_of_control(entry) == ("groups",)


@for_each(
    "facts",
    [
        ("5", "5", 1, [b"", b""], True),
        ("5", "6", 1, [b"", b""], True),
        ("6", "5", 3, [b"", b""], True),
        ("6", "5", 1, [b"", b""], 1),
        ("6", "5", 1, ["", b""], True),
        ("6", "5", 1, [b""], True),
        ("6", "5", 0, [0, ["p", False, False, None], ["p", True, False, -1], [], None], True),
        ("6", "5", 0, [0, ["p", 0, False, None], ["p", True, False, None], [], None], True),
        ("6", "5", 0, [-1, ["p", False, False, None], ["p", True, False, None], [], None], True),
        ("6", "5", 0, [0, ["p", False, False, None], ["p", True, False, None], [1], None], True),
        ("6", "5", 2, ["retire", 0, None, None, 1.0], True),
        ("6", "5", 2, ["pause", 0, None, None, 1], True),
        ("6", "5", 2, ["pause", 0, None, [0, -1.0], 1.0], True),
    ],
)
def test_damaged_entries(facts: Any) -> None:
    class Damaged(Undo):
        @property
        def facts(self) -> Any:
            return facts

    with pytest.raises(UnreadableEntry):
        decode(encode(Damaged("6", "5", None, True)))  # type: ignore[arg-type]


def test_an_entry_that_does_not_fit_the_model_changes_nothing() -> None:
    model, other = taught(), grown()
    entry = undoing(copied(other), Relabel("first", None), "99", None)
    state = facts(model)
    assert isinstance(append(model, entry).answer, CannotUndo)
    assert facts(model) == state
