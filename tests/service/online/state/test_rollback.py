"""A rollback undoes what was learnt, but nothing of the state of requests."""

from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import States, append, dense, learn, named, new_model, sparse, ulid
from tests.support.cases import for_each

from manylabel_core.state import State
from manylabel_service.errors import InvalidExample, PredictionLabelled
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.online.state.stream_offsets import StreamPart

KEY = IdempotencyKey("k", b"d" * 16)
BACK = Rollback("1", IdempotencyKey("back", b"b" * 16))

ROLLED: list[dict[str, Any]] = [
    {},
    {"algorithm": "falt", "params": {"drift": "adwin"}},
    {"algorithm": "salt", "params": {"optimise": "macro_f1"}},
    {"algorithm": "kernel_falt", "params": {"budget": 4}},
    {"algorithm": "kernel_salt", "params": {"budget": 4}},
    {"algorithm": "passive_aggressive"},
    {"features": ["a", "b", "c"], "labels": ["x", "y", "z"]},
    {"limits": {"features": {"most": 8, "policy": "hash"}}},
]


def learnt(model: OnlineModel) -> object:
    """The parts of a state that a rollback undoes."""
    arrays, header = State.from_bytes(model.seed("seed"))
    weights = arrays["learner.weights"]
    n_features, n_labels = (1 + np.flatnonzero(weights.any(axis=axis)).max(initial=-1) for axis in (1, 0))
    measures = {name: array.tolist() for name, array in arrays.items() if name.startswith("prequential")}
    return weights[:n_features, :n_labels].tolist(), measures, header["updates"]


def two_states() -> tuple[OnlineModel, States, object]:
    """Return a model at position 2, its snapshot at 1, and what it had learnt at 1."""
    model = new_model()
    learn(model, (named(a=1, b=2), ["x"]), key=KEY, want_predictions=True)
    states, then = {"1": model.to_bytes()}, learnt(model)
    learn(model, (named(c=3, a=-1), ["y", "z"]))
    return model, states, then


def test_the_learnt_state_of_the_target_is_restored() -> None:
    model, states, then = two_states()
    assert learnt(model) != then
    outcome = append(model, BACK, states)
    assert isinstance(outcome.answer, UpdateOutcome)
    assert (outcome.answer.rolled_back_to, outcome.replayed, outcome.learnt) == ("1", False, 0)
    assert (outcome.answer.position, outcome.answer.updates) == ("3", 1)
    assert outcome.answer.rolled_back_to == "1"
    assert learnt(model) == then
    assert (model.position, model.updates, model.rollbacks) == ("3", 1, [("3", "1")])


def test_later_names_stay_without_weights() -> None:
    model, states, _ = two_states()
    append(model, BACK, states)
    assert model.labels.names == ("x", "y", "z")
    assert model.features.names.names == ("a", "b", "c")
    straight = OnlineModel.from_bytes(states["1"])
    x = named(a=1, b=1, c=1)
    (rolled,), (before,) = model.predict([x]), straight.predict([x])
    assert rolled.threshold == before.threshold
    assert {"x": rolled.scores["x"]} == before.scores
    assert rolled.scores["y"] == rolled.scores["z"] < rolled.threshold  # like any new label
    assert rolled.labels == ["x"]


def test_later_updates_are_learnt_as_if_nothing_had_come_between() -> None:
    model, states, _ = two_states()
    append(model, BACK, states)
    straight = OnlineModel.from_bytes(states["1"])
    for one in (model, straight):
        learn(one, (named(d=1, b=1), ["w", "x"]))
    assert model.labels.names == ("x", "y", "z", "w")
    assert straight.labels.names == ("x", "w")
    x = named(a=1, b=1, d=1)
    (rolled,), (expected,) = model.predict([x]), straight.predict([x])
    assert {name: rolled.scores[name] for name in "xw"} == pytest.approx(expected.scores)


def test_applying_stops_until_the_wanted_state_is_given() -> None:
    model, states, then = two_states()
    early, other = new_model(), new_model(labels=["x"])
    other.position = "1"
    later = LogEntry("4", Update((Example(named(a=1), Labels.all_of(["x"])),)))
    folding = ApplyBatch(model, [LogEntry("3", BACK), later])
    with pytest.raises(ValueError, match="no snapshot is needed"):
        folding.roll_back(OnlineModel.from_bytes(states["1"]))
    for _ in range(2):
        assert folding.step(100)
        assert (folding.needed_snapshot, folding.outcomes, model.position) == ("1", [], "2")
    for wrong in (early, other):
        with pytest.raises(ValueError, match="the target must be the state of 'm' at 1"):
            folding.roll_back(wrong)
        assert (model.position, model.updates) == ("2", 2)
    folding.roll_back(OnlineModel.from_bytes(states["1"]))
    assert (folding.needed_snapshot, model.position, learnt(model)) == (None, "3", then)
    assert not folding.step(100)
    assert [outcome.answer.rolled_back_to for outcome in folding.outcomes] == ["1", None]


def test_the_state_of_requests_stays() -> None:
    model, states, _ = two_states()
    learn(model, (named(a=1), ["x"]), key=IdempotencyKey("late", b"l" * 16))
    learn(model, (named(a=1), ["x"]), prediction_ids=(ulid(5),))
    learn(model, (named(a=1), ["x"]), stream=StreamPart("s", (7,)))
    append(model, BACK, states)
    for repeated in ({"key": IdempotencyKey("late", b"l" * 16)}, {"stream": StreamPart("s", (7,))}):
        assert learn(model, (named(a=1), ["x"]), **repeated).replayed
    labelled = learn(model, (named(a=1), ["x"]), prediction_ids=(ulid(5),))
    assert isinstance(labelled.answer, PredictionLabelled)
    assert model.updates == 1


def test_a_rollback_may_return_to_a_state_before_another_rollback() -> None:
    model, states, then = two_states()
    states["2"], forward = model.to_bytes(), learnt(model)
    append(model, BACK, states)
    append(model, Rollback("2"), states)
    assert (learnt(model), model.updates) == (forward, 2)
    append(model, Rollback("1"), states)
    assert learnt(model) == then
    assert model.rollbacks == [("3", "1"), ("4", "2"), ("5", "1")]
    assert OnlineModel.from_bytes(model.to_bytes()).rollbacks == model.rollbacks


def test_the_kind_of_features_stays_if_the_target_has_some() -> None:
    model = new_model()
    learn(model, (named(a=1), ["x"]))
    states = {"1": model.to_bytes()}
    learn(model, (named(b=1), ["x"]))
    append(model, Rollback("1"), states)
    assert isinstance(learn(model, (dense(1, 2), ["y"])).answer, InvalidExample)
    assert isinstance(learn(model, (named(c=1), ["y"])).answer, UpdateOutcome)
    assert (model.features.names.names, model.labels.names) == (("a", "b", "c"), ("x", "y"))


@for_each("wrong", [named(a=1, b=2), dense(1, 2, 3), sparse(7)], ids=["named", "long", "numbered"])
@for_each("right", [named(c=1), dense(1, 2)], ids=["named", "dense"])
def test_the_kind_of_features_is_free_after_a_rollback_to_an_empty_model(wrong: Features, right: Features) -> None:
    model = new_model()
    states = {"0": model.to_bytes()}
    learn(model, (wrong, ["x"]))
    states["1"] = model.to_bytes()
    append(model, Rollback("0"), states)
    assert len(model.features) == 0
    assert isinstance(learn(model, (right, ["y"])).answer, UpdateOutcome)
    assert model.labels.names == ("x", "y")
    (expected,) = straight(right).predict([right])
    (found,) = OnlineModel.from_bytes(model.to_bytes()).predict([right])
    assert (found.threshold, found.scores["y"]) == (expected.threshold, expected.scores["y"])
    states["3"] = model.to_bytes()
    for there, x in (("1", wrong), ("3", right), ("1", wrong)):
        append(model, Rollback(there), states)
        assert learnt(model) == learnt(OnlineModel.from_bytes(states[there])), "also to a state of another form"
        assert isinstance(learn(OnlineModel.from_bytes(model.to_bytes()), (x, ["z"])).answer, UpdateOutcome)


def straight(x: Features) -> OnlineModel:
    """A model that knows a label, and has learnt another one of an example."""
    model = new_model()
    model.labels.add(["x"])
    model.learner.pipeline.grow(0, 1)
    learn(model, (x, ["y"]))
    return model


@for_each("spec", ROLLED, ids=str)
def test_a_rollback_to_an_empty_model_survives_a_restart(spec: dict[str, Any]) -> None:
    model = new_model(**spec)
    states = {"0": model.to_bytes()}
    learn(model, (named(a=1, b=2), ["x", "y"]))
    append(model, Rollback("0"), states)
    assert model.updates == 0
    again = OnlineModel.from_bytes(model.to_bytes())
    seed = OnlineModel.from_bytes(model.seed("seed"))
    for one in (model, again, seed):
        learn(one, (named(a=1, b=3), ["x"]), (named(b=1, c=1), ["z"]))
    assert again.to_bytes() == model.to_bytes()
    assert seed.labels.names == model.labels.names == ("x", "y", "z")
    assert seed.predict([named(a=1, c=2)]) == model.predict([named(a=1, c=2)])


def test_the_oldest_rollbacks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manylabel_service.online.state.model.MAX_ROLLBACKS", 2)
    model, states, _ = two_states()
    for _ in range(3):
        append(model, Rollback("1"), states)
    assert model.rollbacks == [("4", "1"), ("5", "1")]
