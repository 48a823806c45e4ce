"""Optional numbers of records in the state of a model: the feature that says that an example has the number."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, fold, forged, learn, named, new_model
from tests.support.cases import for_each

from manylabel_core.records.number_fields import MAX_NUMBER_FIELDS, NumberFields
from manylabel_core.state import DamagedState, State
from manylabel_service.errors import InvalidExample
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.dry_run import DryRun
from manylabel_service.online.state.feature_space import FeatureSpace, Layout
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel

SPECS: list[dict[str, Any]] = [
    {},
    {"algorithm": "kernel_falt"},
    {"text": {"fields": ["title"], "min_length": 1}},
    {"limits": {"features": {"most": 4, "policy": "ignore"}}},
    {"limits": {"features": {"most": 4, "policy": "hash"}}},
    {"limits": {"features": {"most": 50, "policy": "reject"}}},
]


def record(i: int) -> Features:
    """Return an example of three fields; the price is optional from example 3 on, the size from its first."""
    price = {"price": 3.0 + i % 3} if i < 3 or i % 2 else {}
    size = {"size": 1.0 + i % 2} if i > 4 and i % 3 else {}
    return named(**{f"kind={i % 2}": 1, "age": i % 5, **price, **size})


def labels(i: int) -> list[str]:
    return [["p"], ["q"], []][i % 3]


def taught(n: int = 20, **spec: Any) -> OnlineModel:
    model = new_model(**spec)
    for i in range(n):
        learn(model, (record(i), labels(i)))
    return model


def test_an_optional_number_says_that_it_is_there() -> None:
    model = taught()
    # The price is in all examples before example 4; the size is not in the first.
    assert model.features.names.names == ("kind=0", "age", "price", "kind=1", "size", "price=given", "size=given")
    assert model.features.layout.numbers.always == {"age"}
    columns, values = model.features.find(named(**{"price": 4, "kind=0": 1}))
    assert (columns.tolist(), values.tolist()) == ([0, 2, 5], [1.0, 4.0, 1.0])
    assert model.features.complete(named(age=1, price=2)).names == ("age", "price", "price=given")
    assert model.features.complete(named(**{"price": 2, "price=given": 3})).names == ("price", "price=given")


def test_numbers_alone_are_sparse_features() -> None:
    model = new_model()
    for i in range(12):
        learn(model, (named(a=1) if i % 2 else named(b=1, c=2), ["p"]))
    assert model.features.names.names == ("b", "c", "a")


def test_the_first_category_makes_earlier_numbers_optional() -> None:
    model = new_model()
    for x in (named(a=1), named(b=1)):
        learn(model, (x, ["p"]))
    assert model.features.complete(named(**{"k=x": 1, "a": 1})).names == ("k=x", "a", "a=given")


def test_declared_features_have_no_others() -> None:
    space = FeatureSpace(["a", "b=x"])
    for x in (named(**{"a": 1, "b=x": 1}), named(**{"b=x": 1}), named(a=1)):
        space.add(x)
    assert space.names.names == ("a", "b=x")
    assert space.layout.numbers == NumberFields()


@for_each("spec", SPECS)
def test_a_prediction_has_the_columns_of_learning(spec: dict[str, Any]) -> None:
    model = new_model(**spec)
    for i in range(20):
        found = model.features.find(record(i))
        before = model.features.layout
        given = before.learning(record(i), before.numbers_of(record(i)))[1]
        assert model.features.complete(record(i)).names == (*(record(i).names or ()), *given)
        learn(model, (record(i), labels(i)))
        again = FeatureSpace(None, model.limits.features)
        for j in range(i):
            again.add(record(j))
        added = again.add(record(i))
        assert [each.tolist() for each in found] == [each.tolist() for each in added]


@for_each("spec", SPECS)
@pytest.mark.parametrize("size", [1, 3, 20])
def test_grouping_and_the_way_through_the_log_do_not_matter(spec: dict[str, Any], size: int) -> None:
    model, other = taught(**spec), new_model(**spec)
    log: list[LogEntry] = []
    for i in range(20):
        update = Update((Example(record(i), Labels.all_of(labels(i))),))
        assert decode(encode(update)).examples[0].x.names == record(i).names  # type: ignore[union-attr]
        dry_run = DryRun(other)
        dry_run.add(update.examples[0])
        log.append(LogEntry(str(i + 1), decode(encode(update)), dry_run.checked))
        if len(log) == size:
            fold(other, log, 7)
            log = []
    fold(other, log)
    assert other.to_bytes() == model.to_bytes()


@for_each("spec", SPECS)
def test_a_restored_model_continues_alike(spec: dict[str, Any]) -> None:
    for n in range(1, 15, 2):
        model = taught(n, **spec)
        restored = OnlineModel.from_bytes(model.to_bytes())
        for i in range(n, 16):
            for each in (model, restored):
                learn(each, (record(i), labels(i)))
        assert restored.to_bytes() == model.to_bytes()


@for_each("spec", SPECS)
def test_the_growth_counts_the_additional_features(spec: dict[str, Any]) -> None:
    for n in range(12):
        model = taught(n, **spec)
        dry_run = DryRun(model)
        for i in range(n, n + 4):
            dry_run.add(Example(record(i), Labels.all_of(labels(i))))
        growth, before = dry_run.checked.growth, model.features.n_columns
        n_values = sum(len(model.features.complete(record(i)).values) for i in range(n, n + 1))
        learn(model, *((record(i), labels(i)) for i in range(n, n + 4)))
        assert growth.columns + before == model.features.n_columns or not model.features.keeps_names
        assert growth.values >= n_values


def test_an_additional_feature_may_exceed_the_limit() -> None:
    model = new_model(limits={"features": {"most": 4, "policy": "reject"}})
    learn(model, (named(**{"k=x": 1, "price": 2}), ["p"]), (named(**{"k=x": 1, "b": 1}), ["p"]))
    update = Update((Example(named(price=3), Labels.all_of(["p"])),))
    with pytest.raises(InvalidExample, match="exceeds the limit of 4 features") as caught:
        DryRun(model).check(update.examples[0])
    assert caught.value.path == ("x", "price=given")
    before = model.to_bytes()
    assert isinstance(append(model, update).answer, InvalidExample)
    assert State.from_bytes(model.to_bytes()).arrays["features.bytes"].tolist() == (
        State.from_bytes(before).arrays["features.bytes"].tolist()
    )


def test_an_update_is_checked_again_if_a_number_became_optional_meanwhile() -> None:
    model = new_model(limits={"features": {"most": 2, "policy": "reject"}})
    for _ in range(12):
        learn(model, (named(**{"k=x": 1, "price": 2}), ["p"]))
    pair = tuple(Example(named(**x), Labels.all_of(["p"])) for x in ({"k=x": 1, "price": 2}, {"k=x": 1}))
    dry_run = DryRun(model)
    for example in pair:
        dry_run.add(example)
    assert dry_run.checked.growth.features == 0
    log = [LogEntry("13", Update(pair)), LogEntry("14", Update(pair), dry_run.checked)]
    (first, second) = fold(model, log)
    assert first.learnt == 2
    assert isinstance(second.answer, InvalidExample)


def test_settled_numbers_need_no_second_check() -> None:
    model = taught(40)
    dry_run = DryRun(model)
    dry_run.add(Example(record(41), Labels.all_of(["p"])))
    assert dry_run.checked.still_valid(model)


@for_each("spec", SPECS)
def test_a_rollback_undoes_that_a_number_is_optional(spec: dict[str, Any]) -> None:
    model = taught(3, **spec)
    states = {model.position: model.to_bytes()}
    xs = [record(i) for i in range(12)]
    expected = model.predict(xs)
    for i in range(3, 16):
        learn(model, (record(i), labels(i)))
    append(model, Rollback("3"), states)
    for one, other in zip(expected, model.predict(xs), strict=True):
        assert one.scores == other.scores
    restored = OnlineModel.from_bytes(model.to_bytes())
    for i in range(3, 16):
        for each in (model, restored):
            learn(each, (record(i), labels(i)))
    assert restored.to_bytes() == model.to_bytes()


@for_each("spec", [{}, {"limits": {"features": {"most": 50, "policy": "hash"}}}])
def test_an_explanation_names_it(spec: dict[str, Any]) -> None:
    model = new_model(**spec)
    for i in range(60):
        x = {"k=x": 1.0, **({"price": 1.0 + i % 7} if i % 2 else {})}
        learn(model, (named(**x), ["given"] if i % 2 else ["missing"]))
    explanation = model.explain(named(**{"k=x": 1, "price": 3}), ["given"], Explainer(5, 100))["given"]
    assert ("price=given", 1.0) in [part[:2] for part in explanation.parts]


def test_words_and_other_sparse_features_have_no_number_fields() -> None:
    model = new_model()
    learn(model, (named(**{"k=x": 1}), ["p"]))
    names = [f"w{i}" for i in range(MAX_NUMBER_FIELDS + 1)]
    for i in range(0, len(names), 2):
        learn(model, (named(**dict.fromkeys(names[i : i + 2], 1.0)), ["p"]))
    assert model.features.layout.numbers.seen is None
    n_names = len(model.features.names)
    restored = OnlineModel.from_bytes(model.to_bytes())
    for each in (model, restored):
        learn(each, (named(w0=1), ["p"]))
        assert len(each.features.names) == n_names
    assert restored.to_bytes() == model.to_bytes()


def _facts(**facts: object) -> dict[str, object]:
    return {"counted": True, "begun": True, "of_records": True} | facts


@for_each(
    ("facts", "arrays"),
    [
        (_facts(counted=False), {}),
        (_facts(begun=False), {}),
        (_facts(of_records=1), {}),
        ([], {}),
        (_facts(), {"features.numbers.seen": np.int8([1, 2, 11])}),
        (_facts(), {"features.numbers.seen": np.int8([1, -2, 1])}),
        (_facts(), {"features.numbers.seen": np.int64([1, 2, 1])}),
        (_facts(), {"features.numbers.seen": np.int8([1, 2])}),
        (_facts(), {"features.numbers.always": np.array([True])}),
        (_facts(), {"features.numbers.always": np.int8([1, 0, 0])}),
        (_facts(), {"features.categories.seen": np.int8([11])}),
        (_facts(), {"features.categories.seen": np.int8([-1])}),
        (_facts(), {"features.categories.seen": np.int8([1, 1])}),
    ],
)
def test_forged_fields_are_refused(facts: object, arrays: dict[str, object]) -> None:
    model = taught()
    layout = State.from_bytes(model.to_bytes()).header["layout"]
    assert layout["numbers"] == _facts()
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(forged(model, {"layout": {**layout, "numbers": facts}}, **arrays))


def test_a_layout_of_numbers_that_is_rolled_back_keeps_their_names() -> None:
    """So a known name without "=" is always one of the number fields."""

    def after(layout: Layout, xs: Sequence[Features]) -> Layout:
        for x in xs:
            layout = layout.after(x)
        return layout

    early = after(Layout(), [record(0)])
    late = after(early, [record(i) for i in range(1, 20)])
    numbers = late.rolled_back(early).numbers
    assert numbers.seen == {"age": 1, "price": 1, "size": 0}
    assert (numbers.always, numbers.of_records) == ({"age", "price"}, True)
