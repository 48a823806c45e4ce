"""Vectors of records in the state of a model: lengths, entries of the log, memory, rollback and snapshots."""

from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, fold, forged, learn, named, new_model
from tests.support.cases import for_each

from manylabel_core.rows import VECTOR_COLUMNS
from manylabel_core.state import DamagedState, State
from manylabel_service.errors import InvalidExample
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.dry_run import DryRun
from manylabel_service.online.state.feature_space import FeatureSpace
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel


def with_vectors(x: Features | None = None, **vectors: Any) -> Features:
    return (x or named(a=1))._replace(vectors={name: np.array(v, dtype=np.float32) for name, v in vectors.items()})


def example(i: int) -> tuple[Features, list[str]]:
    rng = np.random.default_rng(i)
    relevant = rng.random(2) < 0.5
    vector = rng.standard_normal(3) + relevant[0]
    return with_vectors(named(a=i % 3, b=1), v=vector), [name for name, is_ in zip("pq", relevant, strict=True) if is_]


def taught(n: int = 12, **spec: Any) -> OnlineModel:
    model = new_model(**spec)
    for i in range(n):
        learn(model, example(i))
    return model


def test_an_entry_stores_vectors_but_no_empty_ones() -> None:
    x = with_vectors(v=[0.1, -2.5e14], none=[])
    update = Update((Example(x, Labels.all_of(["p"])), Example(named(a=1), Labels.all_of([]), 2.0)))
    (first, second) = decode(encode(update)).examples  # type: ignore[union-attr]
    assert first.x.vectors is not None
    assert {name: v.tolist() for name, v in first.x.vectors.items()} == {"v": np.float32([0.1, -2.5e14]).tolist()}
    assert (first.weight, second.weight, second.x.vectors) == (1.0, 2.0, None)
    size = len(encode(Update((Example(with_vectors(v=np.zeros(384)), Labels.all_of(["p"])),))))
    assert size < 4 * 384 + 100


@pytest.mark.parametrize("value", [np.nan, np.inf, 2e15])
def test_an_entry_with_a_vector_that_is_not_finite_is_damaged(value: float) -> None:
    update = Update((Example(with_vectors(v=[1.0, value]), Labels.all_of(["p"])),))
    with pytest.raises(Exception, match="damaged"):
        decode(encode(update))


@for_each(
    ("x", "field", "detail"),
    [
        (with_vectors(v=[1, 2]), "v", "must have 3 numbers, as in the examples before; has 2"),
        (with_vectors(v=[]), "v", "must have 3 numbers, as in the examples before; has 0"),
        (with_vectors(**{f"w{i}": [1] for i in range(8)}), "w7", "exceeds the limit of 8 vector fields of a model"),
        (with_vectors(a=[1]), "a", "must be a number, as in the examples before, not a list of numbers: send 42 inste"),
    ],
)
def test_a_vector_of_another_form_is_refused_at_its_field(x: Features, field: str, detail: str) -> None:
    model = taught()
    before = model.to_bytes()
    for check in (
        lambda: model.features.check(0, x),
        lambda: DryRun(model).check(Example(x, Labels.all_of(["p"]))),
    ):
        with pytest.raises(InvalidExample) as caught:
            check()
        assert caught.value.path == ("x", field)
        assert caught.value.detail.startswith(detail)
    assert model.to_bytes() == before


@for_each("x", [named(v=1), named(**{"v=word": 1})])
def test_a_vector_field_takes_numbers_and_categories_again(x: Features) -> None:
    model = taught(2)
    for _ in range(12):
        learn(model, (x, ["p"]))
    assert model.features.names.get(x.names[0]) is not None  # type: ignore[index]
    with pytest.raises(InvalidExample, match=r"must be a (number|string)"):
        model.features.check(0, with_vectors(v=[1, 2, 3]))


def test_a_vector_field_that_is_settled_stays_one() -> None:
    model = taught(20)
    for _ in range(12):
        learn(model, (named(**{"v": 1, "v=word": 1}), ["p"]))
    learn(model, example(20))
    assert model.updates == 33


@for_each(
    ("mistakes", "right"),
    [
        ([named(v=1)] * 9, with_vectors(v=[1, 2])),
        ([named(**{"v=word": 1, "v=other": 1})] * 9, with_vectors(v=[1, 2])),
        ([with_vectors(v=[1]), with_vectors(v=[1, 2, 3])], with_vectors(v=[1, 2])),
        ([with_vectors(v=[1])] * 9, with_vectors(v=[1, 2])),
        ([with_vectors(v=[1])] * 9, named(v=1)),
    ],
)
def test_no_mistake_in_the_first_examples_locks_a_field(mistakes: list[Features], right: Features) -> None:
    """Then 10 right examples make the field what it is, and the mistakes are refused if they are vectors."""
    model = new_model()
    for x in [*mistakes, *[right] * 10]:
        learn(model, (x, ["p"]))
    assert model.updates == len(mistakes) + 10
    restored = OnlineModel.from_bytes(model.to_bytes())
    for each in (model, restored):
        if mistakes[0].vectors is not None:
            with pytest.raises(InvalidExample):
                each.features.check(0, mistakes[0])
        learn(each, (right, ["p"]))
    assert restored.to_bytes() == model.to_bytes()


def test_vectors_of_each_length_have_their_own_columns() -> None:
    model = new_model()
    for v in ([1], [1, 2, 3]):
        learn(model, (with_vectors(v=v), ["p"]))
    for v, first in (([4], 0), ([5, 6, 7], 1)):
        columns, values = model.features.find(with_vectors(v=v))
        assert columns.tolist() == [0, *(VECTOR_COLUMNS + first + i for i in range(len(v)))]
        assert values.tolist() == [1, *v]


def test_lists_of_any_length_take_no_more_than_three_blocks() -> None:
    model = new_model()
    for length in (1, 2, 3):
        learn(model, (with_vectors(v=[1] * length), ["p"]))
    with pytest.raises(InvalidExample, match="must have 1 or 2 or 3 numbers, as in the examples before; has 4"):
        model.features.check(0, with_vectors(v=[1] * 4))
    for _ in range(10):
        learn(model, (with_vectors(v=[1, 2]), ["p"]))
    assert model.features.layout.vector_fields == {"v": 2}
    with pytest.raises(InvalidExample, match="must have 2 numbers"):
        model.features.check(0, with_vectors(v=[1]))


@for_each("first", [named(v=1), named(**{"v=word": 1})])
def test_ten_examples_of_the_same_request_settle_a_number(first: Features) -> None:
    """The category fields are those before the request."""
    model = new_model()
    xs = [first] * 10 + [with_vectors(v=[42])]
    update = Update(tuple(Example(x, Labels.all_of(["p"])) for x in xs))
    dry_run = DryRun(model)
    for each in update.examples[:10]:
        dry_run.add(each)
    outcome = append(model, update)
    if first.names == ("v",):
        with pytest.raises(InvalidExample, match="must be a number"):
            dry_run.add(update.examples[10])
        assert isinstance(outcome.answer, InvalidExample)
        assert (outcome.answer.index, outcome.answer.path, model.updates) == (10, ("x", "v"), 0)
    else:
        assert model.updates == 11


@for_each("between", [named(v=1), named(**{"v=word": 1}), with_vectors(v=[1, 2])])
def test_an_update_is_checked_again_if_the_field_was_settled_meanwhile(between: Features) -> None:
    """Every replica must reject it, whatever the server knew that checked it first."""
    model = new_model()
    for _ in range(9):
        learn(model, (between, ["p"]))
    learn(model, (with_vectors(v=[42]), ["p"]))
    update = Update((Example(with_vectors(v=[42]), Labels.all_of(["p"])),))
    dry_run = DryRun(model)
    dry_run.add(update.examples[0])
    log = [LogEntry("11", Update((Example(between, Labels.all_of(["p"])),)))]
    log.append(LogEntry("12", update, dry_run.checked))
    (_, outcome) = fold(model, log)
    assert isinstance(outcome.answer, InvalidExample)


def test_an_update_is_checked_again_after_a_rollback_to_before_its_vectors() -> None:
    model = new_model()
    for _ in range(9):
        learn(model, (named(v=1), ["p"]))
    learn(model, (with_vectors(v=[42]), ["p"]))
    states = {model.position: model.to_bytes()}
    for _ in range(9):
        learn(model, (with_vectors(v=[42]), ["p"]))
    update = Update((Example(with_vectors(v=[42]), Labels.all_of(["p"])),))
    dry_run = DryRun(model)
    dry_run.add(update.examples[0])
    assert dry_run.checked.still_valid(model)
    append(model, Rollback("10"), states)
    learn(model, (named(v=1), ["p"]))
    (outcome,) = fold(model, [LogEntry("21", update, dry_run.checked)])
    assert isinstance(outcome.answer, InvalidExample)


def test_the_first_vectors_of_a_request_count_as_growth() -> None:
    model = new_model()
    dry_run = DryRun(model)
    dry_run.add(Example(with_vectors(v=[1, 2], w=[1]), Labels.all_of(["p"])))
    dry_run.add(Example(with_vectors(v=[1, 2, 3]), Labels.all_of(["p"])))
    growth = dry_run.checked.growth
    assert (growth.vectors, growth.columns, growth.values) == (6, 1, 8)


def test_an_empty_list_declares_no_vector_field() -> None:
    model = new_model()
    learn(model, (with_vectors(tags=[]), ["p"]))
    assert model.features.layout.vectors == ()
    learn(model, (named(a=1), ["p"]))
    assert model.learner.pipeline.vectors == ()  # type: ignore[union-attr]


def test_declared_features_take_no_vector() -> None:
    features = FeatureSpace(["a"])
    with pytest.raises(InvalidExample, match="is not one of the features declared"):
        features.check(0, with_vectors(v=[1, 2]))


@pytest.mark.parametrize("algorithm", ["falt", "salt", "kernel_falt"])
def test_a_rollback_to_before_the_vectors_keeps_their_fields(algorithm: str) -> None:
    model = new_model(algorithm=algorithm)
    learn(model, (named(a=1, b=1), ["p"]))
    states = {model.position: model.to_bytes()}
    for i in range(6):
        learn(model, example(i))
    append(model, Rollback("1"), states)
    assert model.features.layout.vectors == (("v", 3),)
    restored = OnlineModel.from_bytes(model.to_bytes())
    for each in (model, restored):
        for i in range(6, 12):
            learn(each, example(i))
    assert restored.to_bytes() == model.to_bytes()
    model.features.check(0, with_vectors(v=[1]))  # 6 examples since the rollback


def test_a_rollback_settles_a_field_again() -> None:
    model = taught(3)
    states = {model.position: model.to_bytes()}
    for x in [named(v=1)] * 10 + [with_vectors(v=[1, 2, 3])] * 7:
        learn(model, (x, ["p"]))
    assert model.updates == 13, "after 10 numbers, vectors are refused"
    append(model, Rollback("3"), states)
    for i in range(3, 12):
        learn(model, example(i))
    with pytest.raises(InvalidExample, match="must have 3 numbers"):
        model.features.check(0, with_vectors(v=[1]))


@pytest.mark.parametrize("titles", [False, True])
def test_a_restored_model_predicts_from_vectors_alike(titles: bool) -> None:
    spec: dict[str, Any] = {"text": {"min_length": 1}} if titles else {}
    model = taught(60, **spec)
    restored = OnlineModel.from_bytes(model.to_bytes())
    xs = [example(100)[0], named(a=1), with_vectors(named(new=1), v=[1, 2, 3], unknown=[4])]
    for x in xs:
        (expected,), (found,) = model.predict([x]), restored.predict([x])
        assert expected.scores == found.scores
    (one,), (other,) = model.predict([with_vectors(v=[1, 1, 1])]), model.predict([with_vectors(v=[-1, -1, -1])])
    assert one.scores["p"] > other.scores["p"]


@for_each(
    "vectors",
    [
        [["v", 4, 9]],
        [["w", 3, 9], ["v", 3, 9]],
        [["v", 0, 9]],
        [["", 3, 9]],
        [[3, "v", 9]],
        [["v", 3, 9], ["v", 3, 9]],
        [["v", 3, 11]],
        [["v", 3, -1]],
        [["v", 3, True]],
        "no",
        [1],
    ],
)
def test_a_forged_layout_is_refused(vectors: Any) -> None:
    model = taught()
    layout = State.from_bytes(model.to_bytes()).header["layout"]
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(forged(model, {"layout": {**layout, "vectors": vectors}}))
