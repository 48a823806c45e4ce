"""A promise of precision: decisions, counts and states, with the same bits on all replicas."""

from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, fold, forged, named, new_model, partial, ulid
from tests.support.cases import for_each

from manylabel_core.label_structure import Group
from manylabel_core.promise import Target
from manylabel_core.state import DamagedState, State
from manylabel_service.errors import InvalidField, UnreadableEntry
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.prediction_store import StoredPrediction, decode_kept, encode_kept
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.controls import Regroup, Relabel, Rollback, SetPromise
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.promises import Promises

EASY = Target(0.8, 0.7, 0.05, 0.3)
LABELS = "pqrst"


def promise(model: OnlineModel, target: Target | None = EASY) -> Any:
    return append(model, SetPromise(target))


def rows(n: int, seed: int = 0) -> list[Example]:
    """Examples of five labels, each of which equals a feature, except for 2 % of them."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        told = rng.random(len(LABELS)) < 0.3
        truth = told ^ (rng.random(len(LABELS)) < 0.02)
        x = named(**{f"x{name}": float(on) for name, on in zip(LABELS, told, strict=True)})
        found.append(Example(x, Labels.all_of([name for name, on in zip(LABELS, truth, strict=True) if on])))
    return found


def promising(n: int = 400, **spec: Any) -> OnlineModel:
    """Return a model with an open gate, which has settled some examples."""
    model = new_model(**spec)
    promise(model)
    learn_rows(model, rows(n))
    memory = memory_of(model)
    assert n < 400 or memory.gates[:, 3].tolist() == [1, 1]
    return model


def memory_of(model: OnlineModel) -> Any:
    assert model.promises.promise is not None
    return model.promises.promise.memory


def applied(model: OnlineModel) -> tuple[float, float]:
    """How many labels were applied, and how many of them wrongly."""
    found: list[float] = memory_of(model).gates[0, 6:8].tolist()
    return found[0], found[1]


def learn_rows(model: OnlineModel, examples: list[Example], **kwargs: Any) -> Any:
    return append(model, Update(tuple(examples), **kwargs))


def test_predictions_say_what_may_be_applied_and_what_needs_review() -> None:
    model = promising()
    predictions = model.predict([example.x for example in rows(300, seed=1)])
    assert {one.review for one in predictions} == {True, False}
    assert all(set(one.auto or ()) <= set(one.labels) for one in predictions)
    right = [
        name in example.y.names
        for example, one in zip(rows(300, seed=1), predictions, strict=True)
        for name in one.auto or ()
    ]
    assert len(right) > 200
    assert np.mean(right) > 0.8
    assert promise(model, None).label_changes == ()
    (one,) = model.predict([rows(1)[0].x])
    assert (one.auto, one.review, one.decision) == (None, None, None)


def test_an_update_answers_the_decision_that_it_counts() -> None:
    model = promising()
    before = applied(model)
    twin = OnlineModel.from_bytes(model.to_bytes())
    examples = rows(50, seed=2)
    key = IdempotencyKey("k", b"d" * 16)
    outcome = learn_rows(model, examples, want_predictions=True, key=key)
    answered = outcome.answer.predictions(model.labels.names)
    assert any(one.auto for one in answered)
    n_applied = n_wrong = 0
    for example, one in zip(examples, answered, strict=True):
        (due,) = twin.predict([example.x])
        assert (one.auto, one.review, one.labels) == (due.auto, due.review, due.labels)
        learn_rows(twin, [example])
        n_applied, n_wrong = n_applied + len(one.auto), n_wrong + len(set(one.auto) - set(example.y.names))
    assert applied(model) == (before[0] + n_applied, before[1] + n_wrong)
    np.testing.assert_array_equal(model.promises.to_array(), twin.promises.to_array())
    again = learn_rows(OnlineModel.from_bytes(model.to_bytes()), examples, want_predictions=True, key=key)
    assert again.replayed
    replayed = again.answer.predictions(model.labels.names)
    assert [(one.auto, one.review) for one in replayed] == [(one.auto, one.review) for one in answered]


def test_delayed_labels_count_by_the_decision_that_was_served() -> None:
    model = promising()
    examples = rows(60, seed=3)
    served = model.predict([example.x for example in examples])
    kept = [StoredPrediction(e.x, one.margins, decision=one.decision) for e, one in zip(examples, served, strict=True)]
    stored = [decode_kept(encode_kept(one)) for one in kept]
    wrong = [example._replace(y=Labels.all_of([])) for example in rows(40, seed=4)]
    learn_rows(model, wrong)
    assert not any(one.auto for one in model.predict([example.x for example in examples]))
    before = applied(model)
    ids = tuple(ulid(n + 1) for n in range(60))
    late = {"prediction_ids": ids, "served": tuple(one.scores for one in stored)}
    entry = Update(tuple(examples), **late, decisions=tuple(one.decision for one in stored))  # type: ignore[arg-type]
    append(model, entry)
    n_applied = sum(len(one.auto or ()) for one in served)
    n_wrong = sum(len(set(one.auto or ()) - set(e.y.names)) for e, one in zip(examples, served, strict=True))
    assert n_applied > 20
    assert applied(model) == (before[0] + n_applied, before[1] + n_wrong)


def test_partial_labels_count_once_by_the_stored_decision_if_there_is_one() -> None:
    model = promising()
    (example,) = rows(1, seed=5)
    served = next(one for one in model.predict([e.x for e in rows(100, seed=6)]) if len(one.auto or ()) >= 2)
    before, numbers = applied(model), model.promises.to_array()

    def part(decision: Any, number: int, **truth: bool) -> Any:
        late: dict[str, Any] = {"prediction_ids": (ulid(number),), "served": (served.margins,)}
        return append(model, Update((Example(example.x, partial(**truth)),), **late, decisions=(decision,)))

    first, second = (served.auto or [])[:2]
    part(None, 1, **{first: False})
    np.testing.assert_array_equal(model.promises.to_array(), numbers)
    part(served.decision, 2, **{first: True})
    part(served.decision, 2, **{second: False})
    assert applied(model) == (before[0] + 2, before[1] + 1)


def test_paused_labels_are_not_applied_and_their_truth_is_not_counted() -> None:
    model = promising()
    append(model, Relabel("p", None, paused=True))
    before, examples = memory_of(model).labels[3].copy(), memory_of(model).counts[2]
    assert not any("p" in (one.auto or ()) for one in model.predict([e.x for e in rows(100, seed=7)]))
    learn_rows(model, rows(100, seed=7))
    after, column = memory_of(model).labels[3], model.labels.get("p")
    assert after[column] == before[column]
    assert (after > before).sum() == len(LABELS) - 1
    assert memory_of(model).counts[2] == examples + 100  # they are complete, but for that


def test_no_label_is_applied_without_its_parent_and_one_of_a_group() -> None:
    model = promising()
    append(model, Regroup((Group("g", ("r", "s"), "at_most_one"),), {"p": "q"}))
    found = [set(one.auto or ()) for one in model.predict([e.x for e in rows(400, seed=8)])]
    assert any("q" in auto for auto in found)
    assert all("q" in auto for auto in found if "p" in auto)
    assert not any({"r", "s"} <= auto for auto in found)


def log_of(n: int = 300) -> tuple[list[LogEntry], dict[str, bytes]]:
    """Return a log with a promise that changes, delayed labels, a pause and a rollback; and snapshots by position."""
    model, log, states = new_model(), list[LogEntry](), dict[str, bytes]()

    def add(change: Any) -> None:
        log.append(LogEntry(str(len(log) + 1), decode(encode(change))))
        fold(model, log[-1:], states=states)

    add(SetPromise(EASY))
    for number, example in enumerate(rows(n)):
        if number % 50 == 20:
            states[model.position] = model.to_bytes()
        served = model.predict([example.x])[0] if number else None
        if number % 3 == 2 and served is not None:
            late: dict[str, Any] = {"prediction_ids": (ulid(number),), "served": (served.margins,)}
            add(Update((example,), **late, decisions=(served.decision,)))
        else:
            add(Update((example,), want_predictions=number % 2 == 0))
        if number == n // 2:
            add(SetPromise(Target(0.7, None)))
            add(SetPromise(EASY))
            add(Relabel("r", None, paused=True))
        if number == 2 * n // 3:
            add(Rollback(max(states, key=int)))
    return log, states


def test_replay_gives_the_same_bits_in_any_blocks_and_after_restores() -> None:
    log, states = log_of()
    whole = new_model()
    fold(whole, log, states=states)
    assert whole.promises.promise is not None
    assert memory_of(whole).gates[0, 6] > 50
    for size in (1, 7):
        model = new_model()
        fold(model, log, max_examples=size, states=states)
        assert model.to_bytes() == whole.to_bytes()
    model = new_model()
    for number, entry in enumerate(log):
        fold(model, [entry], states=states)
        if number % 10 == 0:
            model = OnlineModel.from_bytes(model.to_bytes())
    assert model.to_bytes() == whole.to_bytes()
    seeded = OnlineModel.from_bytes(whole.seed("other"))
    np.testing.assert_array_equal(seeded.promises.to_array(), whole.promises.to_array())


def test_a_rollback_undoes_the_counts_of_a_promise_but_keeps_its_target() -> None:
    model = promising()
    state, numbers = model.to_bytes(), model.promises.to_array()
    learn_rows(model, [example._replace(y=Labels.all_of([])) for example in rows(30, seed=9)])
    append(model, Rollback("2"), {"2": state})
    np.testing.assert_array_equal(model.promises.to_array(), numbers)
    promise(model, Target(0.9, None))
    append(model, Rollback("2"), {"2": state})
    assert model.promises.promise is not None
    assert model.promises.promise.target == Target(0.9, None)
    assert applied(model) == (0, 0)
    promise(model, None)
    append(model, Rollback("2"), {"2": state})
    assert model.promises.promise is None


def test_the_model_learns_as_without_a_promise() -> None:
    model, plain = promising(), new_model()
    append(plain, Relabel("none", None))  # for the position
    learn_rows(plain, rows(400))
    arrays, other = (State.from_bytes(bytes(one.to_bytes()), 2**18)[0] for one in (model, plain))
    assert arrays.keys() == other.keys()
    for name in arrays.keys() - {"promise"}:
        np.testing.assert_array_equal(arrays[name], other[name])


@for_each(
    ("target", "path"),
    [
        (Target(1.0), ("precision",)),
        (Target(0.0), ("precision",)),
        (Target(float("nan")), ("precision",)),
        (Target(0.9, 1.0), ("settled",)),
        (Target(0.9, 0.9, 0.0), ("missed",)),
        (Target(0.9, 0.9, 0.02, 1.5), ("audit_rate",)),
    ],
)
def test_invalid_targets_are_refused(target: Target, path: tuple[str]) -> None:
    model = promising()
    before = model.to_bytes()
    with pytest.raises(InvalidField) as caught:
        model.set_promise(target)
    assert caught.value.path == path
    assert model.to_bytes() == before
    with pytest.raises(UnreadableEntry):
        decode(encode(SetPromise(target)))
    outcome = append(new_model(params={"calibrate": False}), SetPromise(EASY))
    assert isinstance(outcome.answer, InvalidField)


def test_a_decision_is_read_as_it_was_written_and_a_damaged_one_is_refused() -> None:
    model = promising()
    (example,) = rows(1)
    (served,) = model.predict([example.x])
    assert served.decision is not None
    late: dict[str, Any] = {"prediction_ids": (ulid(1),), "served": (served.margins,)}
    entry = Update((example,), **late, decisions=(served.decision,))
    read = decode(encode(entry))
    assert isinstance(read, Update)
    np.testing.assert_array_equal(read.decisions[0].values, served.decision.values)  # type: ignore[index, union-attr]
    served.decision.values[1] += 1
    with pytest.raises(UnreadableEntry):
        decode(encode(entry))


@for_each("packed", [7, [1], [-1, None, None], [1, [2.0, 0.9, 0.02, 0.05], b""], [1, [0.9], b""]])
def test_a_state_with_a_forged_promise_is_refused(packed: Any) -> None:
    with pytest.raises(DamagedState, match="promise"):
        OnlineModel.from_bytes(forged(promising(100), promise=packed))


def test_without_a_promise_there_is_nothing_to_keep() -> None:
    assert Promises().nbytes == 0
    assert len(new_model().promises.to_array()) == 4
