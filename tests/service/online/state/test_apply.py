"""The state is a function of the log alone: not of grouping, slicing, restarts or retries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.online.folds import (
    LIMITED,
    SPECS,
    Log,
    dense,
    facts,
    fold,
    fold_one_by_one,
    learn,
    logs,
    named,
    new_model,
    sparse,
)
from tests.support.cases import for_each

from manylabel_service.errors import InvalidExample, KeyReused
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state import apply, controls
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.corrections import Corrections
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome


@pytest.mark.parametrize("spec", [*SPECS, *LIMITED], ids=str)
@settings(max_examples=settings.default.max_examples // 5)
@given(log=logs(), data=st.data())
def test_grouping_slicing_and_restarts_change_no_bit(spec: dict[str, Any], log: Log, data: st.DataObject) -> None:
    stepwise = new_model(**spec)
    told, states = fold_one_by_one(stepwise, log)

    whole = new_model(**spec)
    assert facts(fold(whole, log, states=states)) == told
    assert whole.to_bytes() == stepwise.to_bytes()

    piecewise = new_model(**spec)
    pieces: list[object] = []
    begin = 0
    while begin < len(log):
        end = data.draw(st.integers(begin + 1, len(log)))
        entries = [LogEntry(entry.position, decode(encode(entry.change))) for entry in log[begin:end]]
        outcomes = fold(piecewise, entries, max_examples=data.draw(st.integers(1, 5)), states=states)
        pieces += facts(outcomes)
        assert piecewise.to_bytes() == states[piecewise.position]
        if data.draw(st.booleans()):
            piecewise = OnlineModel.from_bytes(piecewise.to_bytes())
        begin = end

    assert pieces == told
    assert piecewise.to_bytes() == stepwise.to_bytes()
    if spec in LIMITED:
        assert max(len(whole.labels), len(whole.features), whole.learner.n_features_) <= 2


@pytest.mark.parametrize("spec", [*SPECS, *LIMITED], ids=str)
@settings(max_examples=settings.default.max_examples // 5)
@given(log=logs())
def test_entries_that_take_long_change_no_bit(spec: dict[str, Any], log: Log) -> None:
    """They are applied or begun by `learn`, which a thread may call, instead of `take`."""
    usual, alone = new_model(**spec), new_model(**spec)
    log = [LogEntry(entry.position, decode(encode(entry.change))) for entry in log]
    _, states = fold_one_by_one(new_model(**spec), log)
    told = facts(fold(usual, log, states=states))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "CHECKED_AT_ONCE", 0)
        for name in ("MANY_DESCRIBED", "MANY_CHARACTERS", "MANY_GROUPED"):
            patch.setattr(controls, name, -1)
        assert facts(fold(alone, log, states=states)) == told
    assert alone.to_bytes() == usual.to_bytes()


def test_many_examples_are_checked_beside_the_event_loop() -> None:
    model = new_model()
    update = Update((Example(named(a=1.0), Labels.all_of(["p"])),) * 300)
    batch = ApplyBatch(model, [LogEntry("1", update)])
    batch.take(1_000)
    assert batch.takes_long
    assert len(model.labels) == 0
    while batch.step(1_000):
        pass
    assert model.updates == 300


def test_entries_that_take_long_are_read_without_being_learnt() -> None:
    """A dataset of a log is made in this way."""
    update = Update((Example(named(a=1.0), Labels.all_of(["p"])),) * 300)
    describe = controls.Describe({f"l{n}": {"title": "t"} for n in range(200)})
    batch = ApplyBatch(new_model(), [LogEntry("1", describe), LogEntry("2", update)])
    read, more = 0, True
    while more:
        batch.take(1_000)
        read += 0 if batch.collected is None else len(batch.collected[0].indptr) - 1
        more = batch.finish()
    assert read == 300


def test_an_update_in_slices_is_one_update() -> None:
    model = new_model()
    update = Update(tuple(Example(named(a=i), Labels.all_of(["x"])) for i in range(7)))
    folding = ApplyBatch(model, [LogEntry("5", update)])
    assert folding.step(3)
    assert folding.step(3)
    assert (model.position, folding.outcomes) == ("0", [])
    assert not folding.step(3)
    assert (model.position, model.updates, len(folding.outcomes)) == ("5", 7, 1)


def test_a_key_is_learnt_once_and_answers_the_same_request_alike() -> None:
    model, key = new_model(), IdempotencyKey("k", b"d" * 16)
    first = learn(model, (named(a=1), ["x"]), key=key, want_predictions=True)
    state = model.prequential.measures(), model.updates
    again = learn(model, (named(a=1), ["x"]), key=key, want_predictions=True)
    assert not first.replayed
    assert again.replayed
    assert again.answer is first.answer
    assert (model.prequential.measures(), model.updates) == state
    assert model.position == "2"
    other = learn(model, (named(a=1), ["y"]), key=IdempotencyKey("k", b"e" * 16))
    assert isinstance(other.answer, KeyReused)
    assert model.labels.names == ("x",)


def test_an_answered_prediction_has_only_the_labels_known_before_its_example() -> None:
    model = new_model()
    outcome = learn(model, (named(a=1), ["x"]), (named(a=1), ["y"]), want_predictions=True)
    assert isinstance(outcome.answer, UpdateOutcome)
    predictions = outcome.answer.predictions(model.labels.names)
    assert predictions is not None
    assert [list(p.scores) for p in predictions] == [[], ["x"]]
    assert predictions[0].labels == []


@for_each("spec", [*SPECS, {"scaling": "unit"}, *LIMITED], ids=str)
def test_an_update_answers_the_prediction_of_the_model_before_it(spec: dict[str, Any]) -> None:
    model = new_model(**spec)
    learn(model, (named(a=3), ["x"]), (named(a=1), []), (named(a=2), ["y", "x"]))
    for x in (named(a=2, c=5), named(a=2, c=-1)):
        (before,) = model.predict([x], probabilities=True)
        outcome = learn(model, (x, ["x"]), want_predictions=True, want_probabilities=True)
        assert isinstance(outcome.answer, UpdateOutcome)
        assert list(outcome.answer.predictions(model.labels.names) or ()) == [before]


Refused = tuple[dict[str, Any], list[tuple[Features, Sequence[str]]], str]
REFUSED: dict[str, Refused] = {
    "numbered after named": ({}, [(named(a=1), []), (dense(1.0), [])], "named features"),
    "named after numbered": ({}, [(sparse(3), []), (named(a=1), [])], "numbered features"),
    "another length": ({}, [(dense(1, 2), []), (dense(1, 2, 3), [])], "must have 2 numbers, has 3"),
    "shorter than an index": ({}, [(sparse(3), []), (dense(1, 2), [])], "at least 4 numbers, has 2"),
    "an index past a length": ({}, [(dense(1, 2), []), (sparse(2), [])], "indices must be below 2"),
    "an index past a declared number": ({"features": 3}, [(sparse(3), [])], "indices must be below 3"),
    "an empty list": ({}, [(dense(), [])], "at least 1 numbers, has 0"),
    "an undeclared feature": ({"features": ["a"]}, [(named(b=1), [])], "not one of the features"),
    "an undeclared label": ({"labels": ["x"]}, [(named(a=1), ["y"])], "not one of the labels"),
}


@for_each("case", REFUSED.values(), ids=REFUSED)
@for_each("together", [True, False], ids=["in one update", "one by one"])
def test_a_refused_entry_changes_only_the_position_and_what_was_not_learnt(case: Refused, together: bool) -> None:
    spec, given_examples, message = case
    model = new_model(**spec)
    *before, bad = given_examples
    if not together:
        for example in before:
            learn(model, example)
    state = _state_without_refusals(model)
    outcome = learn(model, *(given_examples if together else [bad]))
    assert isinstance(outcome.answer, InvalidExample)
    assert outcome.answer.index == (len(before) if together else 0)
    assert message in str(outcome.answer)
    assert _state_without_refusals(model) == state


def _state_without_refusals(model: OnlineModel) -> bytes:
    kept, model.position, model.corrections = (model.position, model.corrections), "", Corrections()
    state = model.to_bytes()
    model.position, model.corrections = kept
    return state


@pytest.mark.parametrize(
    "accepted",
    [
        [sparse(1), sparse(9), dense(*range(10)), sparse(9)],
        [named(a=1), named(b=1), Features((), None, np.zeros(0, dtype=np.float32))],
    ],
    ids=["sparse, then dense", "named"],
)
def test_compatible_forms_of_features_may_mix(accepted: list[Features]) -> None:
    model = new_model()
    for x in accepted:
        assert isinstance(learn(model, (x, ["y"])).answer, UpdateOutcome)


def test_a_declared_list_of_features_takes_every_form() -> None:
    states = []
    one = Features(None, np.array([1], dtype=np.int32), np.float32([2]))
    for x in (named(b=2.0), dense(np.nan, 2), one):
        model = new_model(features=["a", "b"])
        assert isinstance(learn(model, (x, ["y"])).answer, UpdateOutcome)
        states.append(model.to_bytes())
    assert states[0] == states[1] == states[2]


def test_unknown_features_have_no_weight_in_a_prediction() -> None:
    model = new_model(scaling="none")
    learn(model, (named(a=1), ["x"]))
    assert model.predict([named(a=1, new=7)]) == model.predict([named(a=1)])


def test_keys_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manylabel_service.online.state.idempotency_window.MAX_KEYS", 3)
    model = new_model()
    for i in range(5):
        learn(model, (named(a=1), ["x"]), key=IdempotencyKey(f"k{i}", b"d" * 16))
    assert [f"k{i}" in model.keys for i in range(5)] == [False, False, True, True, True]
