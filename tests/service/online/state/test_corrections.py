"""Corrections of learnt examples in the state of a model: what is learnt, counted, remembered, and undone."""

from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, forged, learn, named, partial, taught
from tests.support.cases import for_each

from manylabel_core.label_structure import Group
from manylabel_core.state import DamagedState
from manylabel_service.errors import ExampleNotFound, InvalidExample, KeyReused, LabelNotFound
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state import corrections as module
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.controls import Regroup, Relabel, Rollback
from manylabel_service.online.state.corrections import Checked, Corrections, Corrects
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.online.state.stream_offsets import StreamPart

X = named(a=2)
KEY = IdempotencyKey("k", b"d" * 16)


def correct(model: OnlineModel, *y: str, at: str = "3", labels: Any = ("p",), key: Any = None) -> ApplyResult:
    return append(model, Update((Example(X, Labels.all_of(y)),), key, corrects=Corrects(at, 0, labels)))


def confirm(model: OnlineModel, *labels: str, at: str = "3") -> ApplyResult:
    return append(model, Update((), corrects=Corrects(at, 0, labels)))


def restored(model: OnlineModel) -> OnlineModel:
    return OnlineModel.from_bytes(model.to_bytes())


@for_each(
    "change",
    [
        Update((Example(X, Labels.all_of(["p"]), 0.5, ref="r"),), KEY, corrects=Corrects("3", 7, ("p", "q"))),
        Update((Example(X, partial(p=False)),), corrects=Corrects("1700-2", 0, None)),
        Update((), corrects=Corrects("3", 0, ("p",))),
        Update((), corrects=Corrects("3", 0, ("p",), "machine")),
    ],
    ids=["correction", "of all labels", "confirmation", "of a machine"],
)
def test_an_entry_is_read_as_it_was_written(change: Update) -> None:
    read = decode(encode(change))
    assert isinstance(read, Update)
    assert read.corrects == change.corrects
    assert encode(read) == encode(change)


def test_a_corrected_example_is_learnt_like_any_other_but_not_counted() -> None:
    model, other = taught(), taught()
    result = correct(model, "q")
    learn(other, (X, ["q"]))
    assert isinstance(result.answer, UpdateOutcome)
    assert (result.learnt, model.updates) == (1, other.updates)
    for name, array in other.learner.pipeline.arrays().items():
        np.testing.assert_array_equal(model.learner.pipeline.arrays()[name], array)
    assert model.prequential.given == other.prequential.given - 1
    assert model.measures()["cumulative"] == taught().measures()["cumulative"]
    assert model.measures()["corrections"] == 1
    assert "corrections" not in other.measures()


def test_an_example_that_was_not_learnt_cannot_be_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    model = taught()
    learn(model, (X, ["q"]), key=KEY)
    rejected = learn(model, (X, ["p"]), key=KEY._replace(digest=b"e" * 16))
    assert isinstance(rejected.answer, KeyReused)
    assert learn(model, (X, ["q"]), key=KEY).replayed
    lines = ((X, ["q"]), (X, ["p"]))
    learn(model, *lines, stream=StreamPart("s", (1, 2)))
    learn(model, *lines, stream=StreamPart("s", (2, 3)))
    for each in (model, restored(model)):
        assert each.to_bytes() == restored(each).to_bytes()
        for at in ("7", "8"):
            before = each.updates
            assert isinstance(correct(each, "q", at=at).answer, ExampleNotFound)
            assert each.updates == before
        assert isinstance(correct(each, "q", at="10").answer, ExampleNotFound)  # the line was learnt before
        second = Update((Example(X, Labels.all_of(["q"])),), corrects=Corrects("10", 1, ("p",)))
        assert isinstance(append(each, second).answer, UpdateOutcome)
        assert isinstance(correct(each, "q", at="9").answer, UpdateOutcome)
    monkeypatch.setattr(module, "MAX_UNLEARNT", 2)
    learn(model, (X, ["q"]), key=KEY)
    assert isinstance(correct(model, "q", at="7").answer, UpdateOutcome)  # the oldest is dropped


def test_a_confirmation_changes_no_weights() -> None:
    model = taught()
    confirm(model, "q")
    assert model.updates == taught().updates
    for name, array in taught().learner.pipeline.arrays().items():
        np.testing.assert_array_equal(model.learner.pipeline.arrays()[name], array)
    assert model.corrections.find(("3", 0)) == Checked(None, frozenset([1]))
    assert "corrections" not in model.measures()


def test_checks_of_an_example_add_up() -> None:
    model = taught()
    confirm(model, "q")
    correct(model, "q")
    assert model.corrections.find(("3", 0)) == Checked("7", frozenset([0, 1]))
    correct(model, "p", labels=None)
    confirm(model, "q")
    assert model.corrections.find(("3", 0)) == Checked("8", None)
    assert model.corrections.find(("4", 0)) == Checked(None, frozenset())
    assert restored(model).corrections.find(("3", 0)) == Checked("8", None)
    assert restored(model).to_bytes() == model.to_bytes()
    assert model.nbytes > taught().nbytes


def test_a_model_without_corrections_has_the_state_that_it_always_had() -> None:
    assert b"corrections" not in taught().to_bytes()


def test_a_key_is_learnt_once() -> None:
    model = taught()
    first = correct(model, "q", key=KEY)
    again = correct(model, "q", key=KEY)
    assert (again.replayed, again.learnt, again.answer) == (True, 0, first.answer)
    assert model.corrections.count == 1


def test_a_rollback_undoes_a_correction() -> None:
    model = taught()
    states = {model.position: model.to_bytes()}
    before = bytes(model.seed("copy"))
    correct(model, "q")
    confirm(model, "p", at="4")
    append(model, Rollback("5"), states)
    assert bytes(model.seed("copy")) == before
    assert not model.corrections
    states[model.position] = model.to_bytes()
    correct(model, "q")
    assert model.corrections.count == 1


@for_each(
    "change, error",
    [
        (Update((), corrects=Corrects("9", 0, ("p",))), ExampleNotFound),
        (Update((), corrects=Corrects("6", 0, ("p",))), ExampleNotFound),
        (Update((), corrects=Corrects("3", 0, ("new",))), LabelNotFound),
        (Update((Example(X, Labels.all_of(["p", "q"])),), corrects=Corrects("3", 0, ("p",))), InvalidExample),
    ],
    ids=["later", "itself", "unknown label", "contradiction"],
)
def test_a_correction_that_does_not_fit_is_refused(change: Update, error: type[Exception]) -> None:
    model = taught()
    if error is InvalidExample:
        append(model, Regroup((Group("g", ("p", "q"), "one"),), {}))
    before = bytes(model.seed("copy"))
    assert isinstance(append(model, change).answer, error)
    assert bytes(model.seed("copy")) == before
    assert not model.corrections


def test_an_example_that_was_undone_cannot_be_corrected() -> None:
    model = taught()
    states = {model.position: model.to_bytes()}
    learn(model, (X, ["p"]))
    append(model, Rollback("5"), states)
    assert isinstance(confirm(model, "p", at="6").answer, ExampleNotFound)
    assert isinstance(confirm(model, "p", at="5").answer, UpdateOutcome)


def test_labels_have_their_current_names() -> None:
    model = taught()
    append(model, Relabel("q", "r"))
    assert isinstance(confirm(model, "q").answer, UpdateOutcome)
    assert model.corrections.find(("3", 0)).columns == frozenset([1])
    append(model, Relabel("p", None))
    assert isinstance(confirm(model, "p").answer, LabelNotFound)


def test_the_oldest_checks_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHECKED", 2)
    corrections = Corrections()
    for n in (1, 2, 1, 3):
        corrections.add((str(n), 0), None, [0])
    assert [bool(corrections.find((str(n), 0)).columns) for n in (1, 2, 3)] == [True, False, True]


def test_corrected_labels() -> None:
    model = taught()
    learn(model, (X, ["s"]))
    complete, some = Example(X, Labels.all_of(["p", "s"]), 0.5, "machine", "ref"), Example(X, partial(p=True, q=False))
    corrected = model.corrected(complete, partial(p=False, q=True))
    assert corrected is not None
    assert (set(corrected.y.names), corrected.y.complete) == ({"q", "s"}, True)
    assert (corrected.weight, corrected.source, corrected.ref) == (0.5, "human", "ref")
    assert model.corrected(complete, partial(p=True, q=False)) is None
    assert model.corrected(complete, Labels.all_of(["s", "p"])) is None
    other = model.corrected(some, partial(s=True, q=True))
    assert other is not None
    assert (dict(zip(other.y.names, other.y.signs.tolist(), strict=True)), other.y.complete) == (
        {"p": 1, "q": 1, "s": 1},
        False,
    )
    append(model, Relabel("s", None))
    left = model.corrected(complete, partial(q=True))
    assert left is not None
    assert set(left.y.names) == {"p", "q"}


@for_each(
    "packed",
    [
        [1],
        [-1, []],
        ["1", []],
        [0, [["3", 0, None, [7]]]],
        [0, [["3", -1, None, [0]]]],
        [0, [["x", 0, None, [0]]]],
        [0, [["3", 0, 4, [0]]]],
        [0, 3],
        [0, [], [["x", 1]]],
        [0, [], [["3", 0]]],
        [0, [], 3],
    ],
)
def test_damaged_corrections_are_not_restored(packed: object) -> None:
    model = taught()
    confirm(model, "p")
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(forged(model, corrections=packed))


def test_the_count_must_match_the_metrics() -> None:
    model = taught()
    correct(model, "q")
    with pytest.raises(DamagedState, match="metrics"):
        OnlineModel.from_bytes(forged(model, corrections=[2, []]))
