"""Groups and parents of labels: predictions, implied labels, metrics and states."""

from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, fold, forged, learn, named, new_model, partial, taught, ulid
from tests.support.cases import for_each

from manylabel_core.label_structure import Group
from manylabel_core.state import DamagedState
from manylabel_service.errors import InvalidExample, InvalidField, PredictionLabelled, UnreadableEntry
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.state import groups as bounds
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.controls import Regroup, Relabel
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome

X = named(a=1)
PRIORITY = Group("priority", ("low", "mid", "high"), "one")


def regrouped(model: OnlineModel, *groups: Group, **parents: str) -> Any:
    return append(model, Regroup(groups, parents))


def grouped(**spec: Any) -> OnlineModel:
    """Return a model with a group that chooses one, and a parent with a child, which has learnt some examples."""
    model = new_model(**spec)
    regrouped(model, PRIORITY, refund="billing")
    for _ in range(4):
        learn(model, (named(a=1, b=1), ["low", "refund"]), (named(b=1), ["high"]), (named(c=1), ["mid", "billing"]))
    return model


def told(model: OnlineModel, **truth: bool) -> Any:
    return append(model, Update((Example(X, partial(**truth)),)))


def examples_with(model: OnlineModel) -> dict[str, float]:
    return dict(zip(model.labels.names, model.prequential.labels().relevant.tolist(), strict=False))


def test_predictions_satisfy_groups_and_parents() -> None:
    model = grouped()
    rng = np.random.default_rng(0)
    for x in [named(**dict(zip("abc", rng.normal(size=3), strict=True))) for _ in range(200)]:
        (one,) = model.predict([x], probabilities=True)
        assert len({"low", "mid", "high"} & set(one.labels)) == 1
        assert "refund" not in one.labels or "billing" in one.labels
        assert one.labels == [label for label, score in one.scores.items() if score > 0]
        assert one.probabilities is not None
        assert sum(one.probabilities[label] for label in PRIORITY.labels) == pytest.approx(1)
        assert one.probabilities["refund"] <= one.probabilities["billing"]


def test_an_update_answers_and_measures_the_prediction_of_the_model() -> None:
    model = grouped()
    before = [model.predict([x], probabilities=True)[0] for x in (named(a=1), named(d=1))]
    examples = tuple(Example(x, Labels.all_of(["low"])) for x in (named(a=1), named(d=1)))
    alone = OnlineModel.from_bytes(model.to_bytes())
    outcome = append(alone, Update(examples[:1], want_predictions=True, want_probabilities=True))
    assert outcome.answer.predictions(alone.labels.names)[0] == before[0]
    counts = model.prequential.labels().cumulative.sum()
    for example in examples:
        (predicted,) = model.predict([example.x])
        append(model, Update((example,)))
        counted = model.prequential.labels().cumulative.sum()
        assert counted - counts == len({"low"} | set(predicted.labels))
        counts = counted


def test_labels_imply_those_of_their_groups_and_parents() -> None:
    model = grouped()
    before = examples_with(model)
    assert (before["billing"], before["refund"]) == (8, 4)  # of complete truths too
    told(model, refund=True, low=True)
    after = examples_with(model)
    assert after["billing"] == before["billing"] + 1
    seen = model.prequential.labels()
    by_name = dict(zip(model.labels.names, seen.told.tolist(), strict=True))
    assert set(by_name.values()) == {13}
    told(model, billing=False)
    by_name = dict(zip(model.labels.names, model.prequential.labels().told.tolist(), strict=True))
    assert (by_name["refund"], by_name["low"]) == (14, 13)


@for_each(
    ("y", "path"),
    [
        (Labels.all_of(["low", "mid"]), ("y", 1)),
        (Labels.all_of(["billing"]), ("y",)),
        (partial(refund=True, billing=False), ("y", "refund")),
        (partial(low=False, mid=False, high=False), ("y", "high")),
    ],
)
def test_labels_that_contradict_the_groups_are_refused_and_nothing_is_learnt(
    y: Labels, path: tuple[str | int, ...]
) -> None:
    model = grouped()
    before, updates = model.predict([X]), model.updates
    outcome = append(model, Update((Example(X, Labels.all_of(["low"])), Example(X, y))))
    assert isinstance(outcome.answer, InvalidExample)
    assert (outcome.answer.index, outcome.answer.path) == (1, path)
    assert (model.predict([X]), model.updates) == (before, updates)


def test_partial_labels_of_a_stored_prediction_are_learnt_once_with_those_they_imply() -> None:
    model = grouped()
    served = (model.predict([X])[0].margins,)

    def part(**truth: bool) -> Any:
        late: dict[str, Any] = {"prediction_ids": (ulid(1),), "served": served}
        return append(model, Update((Example(X, partial(**truth)),), **late)).answer

    before = examples_with(model)
    assert isinstance(part(refund=True), UpdateOutcome)
    assert isinstance(part(billing=False), PredictionLabelled)  # implied by the label before
    assert isinstance(part(mid=True), UpdateOutcome)
    assert isinstance(part(low=True), PredictionLabelled)
    after = examples_with(model)
    assert {label: after[label] - before[label] for label in after} == {
        **dict.fromkeys(after, 0),
        **dict.fromkeys(("refund", "billing", "mid"), 1),
    }
    assert OnlineModel.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@for_each(
    ("spec", "groups", "parents", "path"),
    [
        ({}, [PRIORITY, Group("other", ("p", "low"), "one")], {}, ("groups", 1, "labels", 1)),
        ({}, [Group("g", ("p", "gone"), "one")], {}, ("groups", 0, "labels", 1)),
        ({}, [], {"p": "q", "q": "p"}, ("parents", "p")),
        ({"labels": ["p", "q", "gone"]}, [], {"p": "r"}, ("parents", "p")),
        ({"limits": {"labels": {"most": 4, "policy": "ignore"}}}, [PRIORITY], {}, ("groups", 0, "labels", 1)),
    ],
)
def test_groups_that_do_not_fit_change_nothing(
    spec: dict[str, Any], groups: list[Group], parents: dict[str, str], path: tuple[str | int, ...]
) -> None:
    model = taught(**spec)
    if "labels" not in spec:
        learn(model, (X, ["gone"]))
    append(model, Relabel("gone", None))
    regrouped(model, p="q")
    before = OnlineModel.from_bytes(model.to_bytes())
    with pytest.raises(InvalidField) as caught:
        model.regroup(groups, parents)
    assert caught.value.path == path
    assert before.to_bytes() == model.to_bytes()


def test_groups_follow_a_name_and_keep_their_labels() -> None:
    model = grouped()
    append(model, Relabel("low", "minor"))
    assert model.groups.to_json(model.labels)["groups"][0]["labels"] == ["minor", "mid", "high"]
    learn(model, (X, ["other"]))
    assert isinstance(learn(model, (X, ["other", "low"])).answer, UpdateOutcome)  # the old name
    for change in (Relabel("mid", None), Relabel("mid", "other", merges=True)):
        outcome = append(model, change)
        assert isinstance(outcome.answer, InvalidField)
        assert outcome.answer.path == ("label",)
    append(model, Relabel("other", "mid", merges=True))
    assert "other" in model.retired
    regrouped(model)
    assert isinstance(append(model, Relabel("mid", None)).answer, UpdateOutcome)


def test_the_children_of_a_paused_label_are_predicted_without_it() -> None:
    model = grouped()
    append(model, Relabel("billing", None, paused=True))
    append(model, Relabel("low", None, paused=True))
    for x in (named(a=1, b=1), named(c=1), named(d=1)):
        (one,) = model.predict([x])
        assert len({"mid", "high"} & set(one.labels)) == 1
    assert "refund" in model.predict([named(a=1, b=1)])[0].labels
    told(model, refund=True)
    assert examples_with(model)["billing"] == 8  # its truth is not learnt while it is paused


def test_an_update_that_was_checked_before_groups_changed_is_checked_again() -> None:
    model = taught()
    both = Update((Example(X, Labels.all_of(["p", "q"])),))
    log = [
        LogEntry("6", Regroup((Group("g", ("p", "q"), "at_most_one"),), {})),
        LogEntry("7", both),
    ]
    outcomes = fold(model, log)
    assert [type(outcome.answer) for outcome in outcomes] == [UpdateOutcome, InvalidExample]


def test_a_damaged_entry_is_refused() -> None:
    wrong = [
        Regroup((Group("g", ("p", "q"), "two"),), {}),  # type: ignore[arg-type]
        Regroup((), {"p": "p"}),
        Regroup((), {"p": 1}),  # type: ignore[dict-item]
        Regroup((Group("g", ("p", "q"), "one"),) * (bounds.MAX_GROUPS + 1), {}),
    ]
    for change in wrong:
        with pytest.raises(UnreadableEntry):
            decode(encode(change))


@for_each(
    "groups",
    [[[], [[0, 9]]], [[], [[0, 0]]], [[], [[0, -1]]], [[["g", "two", [0, 1]]], []], [[["g", "one", "x"]], []], 7],
)
def test_a_state_with_forged_groups_is_refused(groups: Any) -> None:
    with pytest.raises(DamagedState, match="groups"):
        OnlineModel.from_bytes(forged(taught(), groups=groups))


def test_a_state_with_a_retired_label_in_a_group_is_refused() -> None:
    model, groups = taught(), [[["g", "one", [0, 1]]], []]
    assert OnlineModel.from_bytes(forged(model, groups=groups)).groups
    append(model, Relabel(model.labels.names[1], None))
    with pytest.raises(DamagedState, match="groups"):
        OnlineModel.from_bytes(forged(model, groups=groups))
