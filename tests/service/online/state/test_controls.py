"""Control entries, which are all changes of a model but updates: their bytes in the log, one effect per key, and what
stays of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tests.service.online.folds import append, facts, learn, named, new_model, taught
from tests.service.online.state.test_promises import EASY
from tests.support.cases import for_each

from manylabel_core import Vocabulary
from manylabel_core.label_structure import Group
from manylabel_service.errors import KeyReused
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Describe, Dismiss, Regroup, Relabel, Rollback, SetPromise
from manylabel_service.online.state.log_entries import Change, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome

KEY = IdempotencyKey("k", b"d" * 16)


class Control(NamedTuple):
    """A control entry, and the facts of a model that it changes."""

    change: Change
    facts: Callable[[OnlineModel], object]


SETTINGS: dict[str, Control] = {
    "rename": Control(Relabel("p", "r", KEY), lambda model: model.labels.names),
    "retire": Control(Relabel("p", None, KEY), lambda model: sorted(model.retired)),
    "merge": Control(
        Relabel("p", "q", KEY, merges=True), lambda model: (sorted(model.retired), model.old_names.by_column())
    ),
    "pause": Control(Relabel("p", None, KEY, paused=True), lambda model: sorted(model.paused)),
    "describe": Control(
        Describe({"p": {"title": "P", "uri": None}, "\u00e9": {}}, KEY),
        lambda model: (model.labels.names, dict(model.details.by_column()), model.details.nbytes),
    ),
    "regroup": Control(
        Regroup((Group("g", ("p", "q"), "one"),), {"\u00e9": "billing"}, KEY),
        lambda model: (model.groups.to_json(model.labels), model.groups.nbytes),
    ),
    "dismiss": Control(Dismiss("merge", "p", "q", KEY), lambda model: model.dismissals.to_array().tobytes()),
    "promise": Control(SetPromise(EASY, KEY), lambda model: model.promises.promise and model.promises.promise.target),
}
OTHERS: dict[str, Change] = {"no promise": SetPromise(None, KEY), "rollback": Rollback("5", KEY)}


@for_each("change", [*(control.change for control in SETTINGS.values()), *OTHERS.values()], ids=[*SETTINGS, *OTHERS])
def test_an_entry_is_read_as_it_was_written_and_applied_once(change: Any) -> None:
    assert decode(encode(change)) == change
    model = taught()
    states = {model.position: model.to_bytes()}
    first = append(model, change, states)
    learn(model, (named(a=1), ["p"]))
    changed = bytes(model.seed("copy"))
    again = append(model, change)  # a retry needs no snapshot
    assert (first.replayed, again.replayed, model.position) == (False, True, "8")
    assert facts([first])[0][3:] == facts([again])[0][3:]  # type: ignore[index]
    other = append(model, replace(change, key=IdempotencyKey("k", b"e" * 16)))
    assert isinstance(other.answer, KeyReused)
    assert bytes(model.seed("copy")) == changed


@for_each("control", SETTINGS.values(), ids=SETTINGS)
def test_an_effect_stays_in_a_state_in_a_copy_and_after_a_rollback(control: Control) -> None:
    model = taught()
    states, before = {model.position: model.to_bytes()}, control.facts(model)
    assert isinstance(append(model, control.change).answer, UpdateOutcome)
    due, (predicted,) = control.facts(model), model.predict([named(a=1)])
    assert due != before
    restored = OnlineModel.from_bytes(model.to_bytes())
    copy = OnlineModel.from_bytes(model.seed("copy"))
    assert isinstance(append(model, Rollback("5"), states).answer, UpdateOutcome)
    after_restart = OnlineModel.from_bytes(model.to_bytes())
    for one in (restored, copy, model, after_restart):
        assert control.facts(one) == due
        (found,) = one.predict([named(a=1)])
        assert (found.scores, found.labels, found.review) == (predicted.scores, predicted.labels, predicted.review)
    assert after_restart.to_bytes() == model.to_bytes()


def test_a_large_change_is_applied_beside_the_event_loop() -> None:
    """`take` leaves it to `learn`, which runs in a thread, on every replica."""
    names = [f"l{n}" for n in range(600)]
    changes: list[Change] = [
        Describe({name: {"title": "some words"} for name in names}),
        Regroup((), dict.fromkeys(names[1:], names[0])),
    ]
    for change in changes:
        model = new_model()
        batch = ApplyBatch(model, [LogEntry("9", change)])
        batch.take(10)
        assert batch.takes_long
        assert (len(model.labels), model.position) == (0, "0")
        batch.learn()
        assert not batch.finish()
        assert (len(model.labels), model.position) == (600, "9")


def test_groups_are_read_while_a_thread_adds_labels_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other thread gets to run whenever the names of labels are read."""
    model = taught()
    groups = (Group("g", ("p", "new"), "one"),)
    names = vars(Vocabulary)["names"].fget

    def late(labels: Vocabulary) -> tuple[str, ...]:
        monkeypatch.undo()
        found: tuple[str, ...] = names(labels)
        model.regroup(groups, {})
        return found

    monkeypatch.setattr(Vocabulary, "names", property(late))
    assert model.groups.to_json(model.labels) == {"groups": [], "parents": {}}
    assert model.groups.to_json(model.labels)["groups"][0]["labels"] == ["p", "new"]
