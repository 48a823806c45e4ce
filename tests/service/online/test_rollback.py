"""A rollback undoes what was learnt, on every replica at the same point, and nothing that is known of requests."""

import pytest
from tests.service.online.folds import States, append, dense, fold, learn, named, new_model, ulid

from manylabel_service.errors import KeyReused, PredictionLabelled
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.answer import Answer
from manylabel_service.online.state.dry_run import Checked, SizeDelta
from manylabel_service.online.state.fold import Fold, LogEntry
from manylabel_service.online.state.log_entries import Rollback, StreamPart, Update
from manylabel_service.online.state.model import OnlineModel

KEY = IdempotencyKey("k", b"d" * 16)
BACK = Rollback("1", "fsync", IdempotencyKey("back", b"b" * 16))


def learnt(model: OnlineModel) -> object:
    """What a rollback undoes."""
    seed = model.as_seed("seed")
    return seed.to_bytes(), seed.updates


def two_states() -> tuple[OnlineModel, States, object]:
    """A model at position 2, its snapshot at 1, and what it had learnt there."""
    model = new_model(scaling="standard")
    learn(model, (named(a=1, b=2), ["x"]), key=KEY, want_predictions=True)
    states, then = {"1": model.to_bytes()}, learnt(model)
    learn(model, (named(c=3, a=-1), ["y", "z"]))
    return model, states, then


def test_what_was_learnt_is_as_it_was_then() -> None:
    model, states, then = two_states()
    assert learnt(model) != then
    outcome = append(model, BACK, states)
    assert isinstance(outcome.answer, Answer)
    assert (outcome.kind, outcome.replayed, outcome.learnt) == ("rollback", False, 0)
    assert (outcome.answer.position, outcome.answer.updates, outcome.answer.durability) == ("3", 1, "fsync")
    assert outcome.answer.rolled_back_to == "1"
    assert learnt(model) == then
    assert (model.position, model.updates, model.rollbacks) == ("3", 1, [("3", "1")])


def test_what_is_learnt_afterwards_is_learnt_as_if_nothing_had_been_between() -> None:
    model, states, _ = two_states()
    append(model, BACK, states)
    straight = OnlineModel.from_bytes(states["1"])
    for one in (model, straight):
        learn(one, (named(d=1, b=1), ["w", "x"]))
    assert learnt(model) == learnt(straight)
    assert model.labels.names == ("x", "w")


def test_it_stops_in_front_and_goes_on_only_with_the_state_that_is_wanted() -> None:
    model, states, then = two_states()
    early, other = new_model(scaling="standard"), new_model(labels=["x"])
    other.position = "1"
    later = LogEntry("4", Update((Example(named(a=1), Labels.all_of(["x"])),), "log"))
    folding = Fold(model, [LogEntry("3", BACK), later])
    with pytest.raises(ValueError, match="no snapshot is wanted"):
        folding.give(OnlineModel.from_bytes(states["1"]))
    for _ in range(2):
        assert folding.step(100)
        assert (folding.wanted, folding.outcomes, model.position) == ("1", [], "2")
    for wrong in (early, other):
        with pytest.raises(ValueError, match="the state of 'm' at 1 is due"):
            folding.give(wrong)
        assert (model.position, model.updates) == ("2", 2)
    folding.give(OnlineModel.from_bytes(states["1"]))
    assert (folding.wanted, model.position, learnt(model)) == (None, "3", then)
    assert not folding.step(100)
    assert [outcome.kind for outcome in folding.outcomes] == ["rollback", "update"]


def test_the_same_request_rolls_back_once() -> None:
    model, states, _ = two_states()
    append(model, BACK, states)
    learn(model, (named(a=1), ["x"]))
    state = learnt(model)
    again = append(model, BACK)
    assert isinstance(again.answer, Answer)
    assert (again.replayed, again.kind, again.answer.position) == (True, "rollback", "3")
    other = append(model, Rollback("2", "log", IdempotencyKey("back", b"c" * 16)))
    assert isinstance(other.answer, KeyReused)
    assert (learnt(model), model.rollbacks, model.position) == (state, [("3", "1")], "6")


def test_what_is_known_of_requests_stays() -> None:
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


def test_answers_remembered_keep_the_names_of_their_labels() -> None:
    model, states, _ = two_states()
    late = {"key": IdempotencyKey("late", b"l" * 16), "want_predictions": True}
    first = learn(model, (named(a=1, c=1), ["x"]), **late)
    assert isinstance(first.answer, Answer)
    told = list(first.answer.predictions(model.labels.names) or ())
    assert list(told[0].scores) == ["x", "y", "z"]
    append(model, BACK, states)
    learn(model, (named(c=1), ["z", "q"]))  # takes the columns that y and z had
    states["5"] = model.to_bytes()
    model = OnlineModel.from_bytes(model.to_bytes())
    append(model, Rollback("1", "log"), states)
    model = OnlineModel.from_bytes(model.to_bytes())
    again = learn(model, (named(a=1, c=1), ["x"]), **late)
    assert isinstance(again.answer, Answer)
    assert list(again.answer.predictions(model.labels.names) or ()) == told


def test_names_are_kept_when_it_goes_over_to_another_branch() -> None:
    model, states, _ = two_states()
    states["2"] = model.to_bytes()
    append(model, BACK, states)
    learn(model, (named(c=1), ["q"]))
    key = IdempotencyKey("branch", b"l" * 16)
    first = learn(model, (named(c=1), []), key=key, want_predictions=True)
    assert isinstance(first.answer, Answer)
    told = list(first.answer.predictions(model.labels.names) or ())
    append(model, Rollback("2", "log"), states)
    assert model.labels.names == ("x", "y", "z")
    again = learn(model, (named(c=1), []), key=key, want_predictions=True)
    assert isinstance(again.answer, Answer)
    assert list(again.answer.predictions(model.labels.names) or ()) == told
    assert list(told[0].scores) == ["x", "q"]


def test_answers_whose_names_last_need_none() -> None:
    model, states, _ = two_states()
    append(model, BACK, states)
    found = model.keys.find("k")
    assert found is not None
    assert found[1].label_names is None


def test_back_to_a_state_that_an_earlier_rollback_left() -> None:
    model, states, then = two_states()
    states["2"], forward = model.to_bytes(), learnt(model)
    append(model, BACK, states)
    append(model, Rollback("2", "log"), states)
    assert (learnt(model), model.updates) == (forward, 2)
    append(model, Rollback("1", "log"), states)
    assert learnt(model) == then
    assert model.rollbacks == [("3", "1"), ("4", "2"), ("5", "1")]
    assert OnlineModel.from_bytes(model.to_bytes()).rollbacks == model.rollbacks


def test_the_form_of_features_goes_back_too() -> None:
    model = new_model()
    states = {"0": model.to_bytes()}
    learn(model, (named(a=1), ["x"]))
    append(model, Rollback("0", "log"), states)
    assert isinstance(learn(model, (dense(1, 2), ["y"])).answer, Answer)
    assert model.labels.names == ("y",)


def test_an_update_checked_before_a_rollback_is_checked_again() -> None:
    model = new_model()
    states = {"0": model.to_bytes()}
    learn(model, (named(a=1), ["x"]))
    checked = Checked(model.features, model.features.layout, SizeDelta(labels=1))
    append(model, Rollback("0", "log"), states)
    learn(model, (dense(1, 2), ["y"]))
    update = Update((Example(named(a=1), Labels.all_of(["x"])),), "log")
    (outcome,) = fold(model, [LogEntry("4", update, checked)])
    assert not isinstance(outcome.answer, Answer)


def test_rollbacks_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manylabel_service.online.state.model.MAX_ROLLBACKS", 2)
    model, states, _ = two_states()
    for _ in range(3):
        append(model, Rollback("1", "log"), states)
    assert model.rollbacks == [("4", "1"), ("5", "1")]


def test_names_kept_count_once_and_push_old_keys_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model, labels = new_model(), [f"label {i}" for i in range(50)]
    states = {"0": model.to_bytes()}
    learn(model, (named(a=1), labels))
    for i in range(4):
        learn(model, (named(a=1), []), key=IdempotencyKey(f"k{i}", b"d" * 16), want_predictions=True)
    without = model.keys.nbytes
    append(model, Rollback("0", "log"), states)
    kept = model.keys.nbytes
    assert without + 50 * 64 < kept < without + 2 * 50 * 64 + 1000
    assert OnlineModel.from_bytes(model.to_bytes()).keys.nbytes == kept

    monkeypatch.setattr("manylabel_service.online.state.idempotency_window.MAX_ANSWER_BYTES", 51 * 8)
    append(model, Rollback("0", "log"), states)
    assert len(model.keys) == 1
    learn(model, (named(a=1), []), key=IdempotencyKey("k4", b"d" * 16), want_predictions=True)
    assert len(model.keys) == 1
    assert model.keys.nbytes == 400 + 8  # one threshold: nothing of the names is left
