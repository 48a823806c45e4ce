"""Limits of a model are part of its state, so that every replica refuses, ignores and hashes alike."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.feature_extraction import FeatureHasher
from tests.service.online.folds import (
    Log,
    append,
    dense,
    fold,
    forged,
    learn,
    logs,
    named,
    new_model,
    partial,
    sparse,
)
from tests.support.cases import for_each

from manylabel_core.state import DamagedState, State
from manylabel_service.errors import InvalidExample
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.dry_run import DryRun
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome

FALT: dict[str, Any] = {"algorithm": "falt", "scaling": "unit"}
LEARNERS: list[dict[str, Any]] = [
    FALT,
    {"algorithm": "salt", "window": 3},
    {"algorithm": "kernel_falt", "params": {"budget": 4}},
]


def limits(features: str | None = None, labels: str | None = None, most: int = 2) -> dict[str, Any]:
    def limit(policy: str | None) -> dict[str, Any] | None:
        return None if policy is None else {"most": most, "policy": policy}

    return {"limits": {"features": limit(features), "labels": limit(labels)}}


def one_update(*examples: tuple[Features, Labels]) -> Update:
    return Update(tuple(Example(*each) for each in examples))


def learner_state(model: OnlineModel) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.learner.state().items()}


def answered(outcome: Any) -> UpdateOutcome:
    assert isinstance(outcome.answer, UpdateOutcome), outcome.answer
    return outcome.answer


# -- a function of the log ------------------------------------------------------------------------


def test_a_rollback_restores_the_count_of_ignored_names_but_frees_no_columns() -> None:
    model = new_model(**limits("ignore", "ignore"))
    learn(model, (named(a=1, b=1, c=1), ["x", "y", "z"]))
    states = {"0": new_model(**limits("ignore", "ignore")).to_bytes(), "1": model.to_bytes()}
    learn(model, (named(d=1, e=1), ["u"]))
    assert model.ignored == {"features": 3, "labels": 2}
    append(model, Rollback("1"), states)
    assert model.ignored == {"features": 1, "labels": 1}
    learn(model, (named(d=1, e=1, a=1), ["u"]))
    assert model.ignored == {"features": 3, "labels": 2}
    append(model, Rollback("0"), states)
    assert model.ignored == {"features": 0, "labels": 0}
    learn(model, (named(d=1, e=1, a=1), ["u"]))
    assert model.ignored == {"features": 1, "labels": 1}, "before any feature there is room for others"
    assert (model.features.names.names, model.labels.names) == (("d", "e"), ("x", "y"))


# -- reject ---------------------------------------------------------------------------------------

TOO_MANY: dict[str, tuple[Sequence[tuple[Features, Labels]], int, tuple[str | int, ...]]] = {
    "a name": ([(named(a=1, b=1, c=1), Labels.all_of([]))], 0, ("x", "c")),
    "a name whose value is 0": ([(named(a=1, b=1, c=0), Labels.all_of([]))], 0, ("x", "c")),
    "names of several examples": ([(named(a=1), Labels.all_of([])), (named(b=1, c=1), partial())], 1, ("x", "c")),
    "a label": ([(named(a=1), Labels.all_of(["x", "y", "z"]))], 0, ("y", 2)),
    "a label that is false": ([(named(a=1), partial(x=True, y=False)), (named(a=1), partial(z=False))], 1, ("y", "z")),
    "an index": ([(sparse(0, 1), Labels.all_of([])), (sparse(2), Labels.all_of([]))], 1, ("x",)),
    "a number": ([(dense(1, 0, 0), Labels.all_of([]))], 0, ("x",)),
}


@for_each("case", TOO_MANY.values(), ids=TOO_MANY)
def test_an_update_beyond_a_limit_is_refused_as_a_whole(case: Any) -> None:
    examples, index, path = case
    model = new_model(**limits("reject", "reject"))
    state = State.from_bytes(model.to_bytes())
    outcome = append(model, one_update(*examples))
    assert isinstance(outcome.answer, InvalidExample)
    assert (outcome.answer.index, outcome.answer.path) == (index, path)
    assert "2" in outcome.answer.detail
    arrays, header = State.from_bytes(model.to_bytes())
    assert header == {**state.header, "position": "1"}
    assert "corrections" not in state.arrays
    arrays.pop("corrections")  # the note that the update was not learnt
    assert {name: array.tolist() for name, array in arrays.items()} == {k: a.tolist() for k, a in state.arrays.items()}


def test_known_names_are_learnt_at_the_limit() -> None:
    model = new_model(**limits("reject", "reject"))
    answered(learn(model, (named(a=1, b=1), ["x", "y"])))
    assert not isinstance(learn(model, (named(c=1), [])).answer, UpdateOutcome)
    answered(learn(model, (named(b=1), ["y"])))
    assert model.updates == 2
    assert len(model.predict([named(a=1, c=1)])) == 1  # a prediction takes no column


def test_a_rollback_frees_no_columns() -> None:
    model = new_model(**limits("reject", most=2))
    learn(model, (named(a=1), ["x"]))
    states = {"1": model.to_bytes()}
    learn(model, (named(b=1), ["x"]))
    append(model, Rollback("1"), states)
    assert isinstance(learn(model, (named(c=1), ["x"])).answer, InvalidExample)
    answered(learn(model, (named(a=1, b=1), ["x"])))


def test_an_update_checked_before_a_rollback_is_checked_again() -> None:
    model = new_model(**limits("reject", most=2))
    states = {"0": model.to_bytes()}
    learn(model, (named(a=1), ["x"]))
    update = one_update((named(a=1, b=1), Labels.all_of([])))
    projection = DryRun(model)
    projection.add(update.examples[0])
    checked = projection.checked
    append(model, Rollback("0"), states)
    learn(model, (named(c=1), ["x"]))
    (outcome,) = fold(model, [LogEntry("4", update, checked)])
    assert isinstance(outcome.answer, InvalidExample)
    answered(learn(model, (named(a=1, c=1), ["x"])))


def test_an_update_that_certainly_fits_is_not_checked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    model = new_model(**limits("reject", "reject"))
    learn(model, (named(a=1), ["x"]))
    update = one_update((named(a=1, b=1), Labels.all_of(["y"])))
    projection = DryRun(model)
    projection.add(update.examples[0])
    monkeypatch.setattr("manylabel_service.online.state.apply._check_examples", None)
    (outcome,) = fold(model, [LogEntry("2", update, projection.checked)])
    answered(outcome)


def test_a_refused_example_takes_no_room_from_those_after_it() -> None:
    model = new_model(**limits("reject"))
    projection = DryRun(model)
    with pytest.raises(InvalidExample):
        projection.check(Example(named(a=1, b=1, c=1), Labels.all_of([])))
    projection.check(Example(named(d=1, e=1), Labels.all_of([])))


# -- ignore ---------------------------------------------------------------------------------------


def numbers_of(x: Features) -> Features:
    """Return the numbers of an example, without categories and vectors."""
    assert x.names is not None
    return named(**{name: value for name, value in zip(x.names, x.values.tolist(), strict=True) if "=" not in name})


class FirstCome:
    """The same work in a client: names beyond the first few are left out."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.features: list[str] = []
        self.labels: list[str] = []
        self.ignored = {"features": 0, "labels": 0}

    def __call__(self, example: Example) -> Example:
        x, y, *others = example
        assert x.names is not None
        values = dict(zip(x.names, x.values.tolist(), strict=True))
        kept = {name: value for name, value in values.items() if self._has(self.features, name)}
        truth = dict(zip(y.names, y.signs.tolist(), strict=True))
        told = {name: sign for name, sign in truth.items() if self._has(self.labels, name)}
        self.ignored["features"] += sum(value != 0 for name, value in values.items() if name not in kept)
        self.ignored["labels"] += len(truth) - len(told)
        signs = np.array(list(told.values()), dtype=np.int8)
        return Example(named(**kept), Labels(tuple(told), signs, y.complete), *others)

    def _has(self, names: list[str], name: str) -> bool:
        if name not in names and len(names) < self.most:
            names.append(name)
        return name in names


@pytest.mark.parametrize("spec", LEARNERS, ids=lambda spec: spec["algorithm"])
@settings(max_examples=settings.default.max_examples // 3)
@given(log=logs())
def test_ignoring_equals_learning_without_the_ignored_names(spec: dict[str, Any], log: Log) -> None:
    changes = [entry.change for entry in log]
    # Vectors are neither ignored nor limited, and may be refused for their length. Labels of machines are not learnt.
    # All names of a record, including ignored names, determine which numbers are optional.
    updates = [
        Update(tuple(each._replace(x=numbers_of(each.x), source="human") for each in change.examples))
        for change in changes
        if isinstance(change, Update)
    ]
    model, plain, first_come = new_model(**spec, **limits("ignore", "ignore")), new_model(**spec), FirstCome(2)
    for update in updates:
        answered(append(model, update))
        answered(append(plain, Update(tuple(map(first_come, update.examples)))))
    assert learner_state(model) == learner_state(plain)
    assert model.measures() == plain.measures()
    assert (model.features.names, model.labels) == (plain.features.names, plain.labels)
    assert model.ignored == first_come.ignored
    x = named(a=1, b=-2, c=3, d=1, e=1, f=2)
    assert model.predict([x]) == plain.predict([first_come(Example(x, Labels.all_of([]))).x])


def test_numbered_features_are_ignored_too() -> None:
    model = new_model(**FALT, **limits("ignore", most=3))
    answered(learn(model, (sparse(0, 2, 7), ["x"]), (sparse(9), ["x"])))
    assert (len(model.features), model.learner.n_features_, model.ignored["features"]) == (3, 2, 2)
    plain = new_model(**FALT)
    learn(plain, (sparse(0, 2), ["x"]), (sparse(), ["x"]))
    assert learner_state(model) == learner_state(plain)
    assert model.predict([sparse(1, 8)]) == plain.predict([sparse(1)])
    answered(learn(model, (dense(1, 0, 2, 5, 0, 5), ["x"])))  # the two zeros above the limit are no features
    assert (len(model.features), model.ignored["features"]) == (3, 4)
    assert "must have 6 numbers" in str(learn(model, (dense(1, 2, 3), ["x"])).answer)
    assert OnlineModel.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


# -- hash -----------------------------------------------------------------------------------------

names = st.text(st.characters(exclude_characters="=", exclude_categories=["Cs"]), min_size=1, max_size=6)
# scikit-learn does not fix the order of sums. Sums of twelve of these values are exact in any order; two of the largest
# exceed 1e15.
values = st.sampled_from([1.0, -1.0, 5.0, 3.0, 2.0**49, -(2.0**49), -2.0])
bags = st.dictionaries(names, values, max_size=12)


@given(examples=st.lists(bags, min_size=1, max_size=5), most=st.integers(1, 9))
def test_hashing_is_that_of_feature_hasher(examples: list[dict[str, float]], most: int) -> None:
    """scikit-learn hashes for a model of dense rows, in which a feature's place is its column."""
    hasher = FeatureHasher(most, input_type="dict", dtype=np.float64)
    model, plain = new_model(**FALT, **limits("hash", most=most)), new_model(**FALT, features=most)
    for bag in examples:
        row = hasher.transform([{name: float(np.float32(value)) for name, value in bag.items()}]).tocsr()
        row.sort_indices()
        sums = np.clip(row.data, -1e15, 1e15).astype(np.float32)
        row.data = sums.astype(np.float64)
        columns = Features(None, None, row.toarray()[0].astype(np.float32))
        x = Features(tuple(bag), None, np.array(list(bag.values()), dtype=np.float32))
        assert model.predict([x]) == plain.predict([columns])
        answered(learn(model, (x, ["x"])))
        answered(learn(plain, (columns, ["x"])))
    assert len(model.features.names) == 0
    assert learner_state(model) == learner_state(plain)


@given(bag=st.dictionaries(names, st.sampled_from([1.0, 0.5, 1e15, -1e15, 2e-3, 0.3]), max_size=12), data=st.data())
def test_the_order_of_hashed_features_changes_no_bit(bag: dict[str, float], data: st.DataObject) -> None:
    space = new_model(**limits("hash", most=2)).features
    shuffled = data.draw(st.permutations(list(bag)))
    rows = [
        space.find(Features(tuple(order), None, np.array([bag[name] for name in order], dtype=np.float32)))
        for order in (list(bag), shuffled)
    ]
    assert [part.tobytes() for part in rows[0]] == [part.tobytes() for part in rows[1]]


def test_colliding_values_are_bounded_and_may_cancel() -> None:
    model = new_model(**limits("hash", most=1))
    space = model.features
    hashed = {name: space.find(named(**{name: 1.0}))[1][0] for name in "abcdefgh"}
    plus = [name for name, sign in hashed.items() if sign > 0]
    minus = [name for name, sign in hashed.items() if sign < 0]
    assert plus
    assert minus
    _, (value,) = space.find(named(**dict.fromkeys(plus, 1e15)))
    assert value == np.float32(1e15)
    columns, none = space.find(named(**{plus[0]: 2.5, minus[0]: 2.5}))
    assert (columns.tolist(), none.tolist()) == ([0], [0.0])
    answered(learn(model, *[(named(**dict.fromkeys(plus, 1e15)), ["x"])] * 3))
    assert all(np.isfinite(array).all() for array in model.learner.state().values())


def test_only_numbers_beyond_the_limit_are_hashed() -> None:
    space = new_model(**limits("hash", most=4)).features
    columns, values = space.find(sparse(0, 3))
    assert (columns.tolist(), values.tolist()) == ([0, 3], [1.0, 1.0])
    many = [space.find(sparse(number)) for number in range(4, 400)]
    assert {int(columns[0]) for columns, _ in many} == {0, 1, 2, 3}
    assert abs(sum(float(values[0]) for _, values in many)) < 80  # signs cancel; 4 standard deviations
    wide = dense(*([1.0] * 400))
    expected = np.ones(4)
    for columns, values in many:
        expected[columns] += values
    columns, values = space.find(wide)
    assert dict(zip(columns.tolist(), values.tolist(), strict=True)) == {
        column: value for column, value in enumerate(expected) if value
    }


def test_a_hashing_model_has_all_its_columns_from_the_first_example_on() -> None:
    model = new_model(**limits("hash", most=50))
    assert (len(model.features), model.learner.n_features_) == (50, 0)
    learn(model, (named(a=1), ["x"]))
    assert model.learner.n_features_ == 50
    seed = OnlineModel.from_bytes(model.seed("seed"))
    assert seed.predict([named(a=1, b=3)]) == model.predict([named(a=1, b=3)])
    assert learner_state(seed) == learner_state(model)
    assert "named features" in str(learn(model, (sparse(1), ["x"])).answer)


# -- specs and states -----------------------------------------------------------------------------


@for_each(
    ("spec", "place"),
    [
        (limits(labels="hash"), ("limits", "labels", "policy")),
        (limits("drop"), ("limits", "features", "policy")),
        (limits("ignore", most=0), ("limits", "features", "most")),
        ({**limits("ignore"), "features": ["a"]}, ("limits", "features")),
        ({**limits("ignore"), "features": 3}, ("limits", "features")),
        ({**limits(labels="reject"), "labels": ["a"]}, ("limits", "labels")),
        ({"limits": {"examples": None}}, ("limits", "examples")),
    ],
    ids=str,
)
def test_invalid_limits_are_refused(spec: dict[str, Any], place: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        new_model(**spec)
    assert [error["loc"] for error in refused.value.errors()] == [place]


def test_one_kind_may_be_declared_and_the_other_limited() -> None:
    model = new_model(features=["a"], **limits(labels="ignore", most=1))
    learn(model, (named(a=1), ["x", "y"]))
    assert (model.labels.names, model.ignored) == (("x",), {"features": 0, "labels": 1})


def spec_of(model: OnlineModel, **changed: Any) -> dict[str, Any]:
    return {**model.spec.model_dump(mode="json"), **changed}


@pytest.mark.parametrize("policy", ["reject", "ignore"])
def test_a_state_beyond_its_limits_is_refused(policy: str) -> None:
    for kind in ("features", "labels"):
        model = new_model(**limits(**{kind: policy}, most=3))
        learn(model, (named(a=1, b=1, c=1), ["x", "y", "z"]))
        with pytest.raises(DamagedState, match="limit"):
            OnlineModel.from_bytes(forged(model, {"spec": spec_of(model, **limits(**{kind: policy}, most=2))}))


def test_a_state_with_forged_facts_about_limits_is_refused() -> None:
    model = new_model(**limits("ignore", "ignore"))
    learn(model, (named(a=1), ["x"]))
    layout = State.from_bytes(model.to_bytes()).header["layout"]
    for wrong in (-1, 2**63, True, 1.0, None, "1", 1):  # 1: nothing is ignored while there is room
        for header in ({"layout": {**layout, "ignored": wrong}}, {"ignored_labels": wrong}):
            with pytest.raises(DamagedState, match="ignored"):
                OnlineModel.from_bytes(forged(model, header))
    unlimited = new_model()
    learn(unlimited, (named(a=1), ["x"]))
    others: list[dict[str, Any]] = [
        {"layout": {**layout, "ignored": 0}},
        {"layout": {**layout, "most": 3}},
        {"ignored_labels": 0},
        {"layout": {"kind": "numbered", "size": 1, "fixed": False}},
    ]
    for other in others:
        with pytest.raises(DamagedState):
            OnlineModel.from_bytes(forged(unlimited, other))
    hashing = new_model(**limits("hash", most=1))
    learn(hashing, (named(a=1), ["x"]))
    with pytest.raises(DamagedState, match="hashed features must have no names"):
        OnlineModel.from_bytes(forged(unlimited, {"spec": spec_of(hashing)}))
    numbered = new_model(**limits("ignore"))
    learn(numbered, (sparse(1), ["x"]))
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(forged(numbered, {"layout": {**layout, "kind": "numbered", "size": 9}}))
