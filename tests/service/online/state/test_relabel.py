"""Labels that are renamed or retired by an entry of the log."""

import numpy as np
import pytest
from tests.service.online.folds import append, forged, learn, named, new_model, partial, taught, ulid
from tests.support.cases import for_each

from manylabel_core.metrics.measures import WITH_HISTORY
from manylabel_core.state import DamagedState, State
from manylabel_service.errors import InvalidExample, LabelExists, LabelNotFound, LabelsDeclared, LimitExceeded
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.state.controls import Describe, Relabel
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome

X = named(a=1)


def test_a_renamed_label_keeps_what_was_learnt() -> None:
    model = taught()
    before = model.predict([X])[0]
    measured = model.prequential.measures()
    outcome = append(model, Relabel("q", "r"))
    assert (outcome.label_changes, outcome.learnt, model.labels.names) == (
        (("r", "renamed", "q", None),),
        0,
        ("p", "r"),
    )
    after = model.predict([X])[0]
    assert (after.labels, list(after.scores.values())) == (["p", "r"], list(before.scores.values()))
    assert model.prequential.measures() == measured
    learn(model, (X, ["q"]))
    assert (model.labels.names, model.prequential.labels().relevant.tolist()) == (("p", "r"), [5, 6])
    append(model, Relabel("r", "q"))
    learn(model, (X, ["r"]))
    assert (model.labels.names, model.prequential.labels().relevant.tolist()) == (("p", "q"), [5, 7]), "renamed back"


def test_a_merged_label_is_retired_and_its_names_stand_for_the_other() -> None:
    model = taught()
    append(model, Relabel("q", "r"))
    outcome = append(model, Relabel("r", "p", merges=True))
    assert (outcome.label_changes, model.retired, model.predict([X])[0].labels) == (
        (("p", "merged", "r", None),),
        {"r"},
        ["p"],
    )
    for y in (["q"], ["r"], ["p", "q", "r"]):
        learn(model, (X, y))
    assert model.prequential.labels().relevant.tolist() == [8, 5]
    refused = append(model, Update((Example(X, partial(q=True, p=False)),))).answer
    assert isinstance(refused, InvalidExample)
    assert refused.path == ("y", "p"), "both are names of p"
    again = OnlineModel.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    learn(again, (X, ["q"]))
    assert again.prequential.labels().relevant.tolist() == [9, 5]
    seed = OnlineModel.from_bytes(model.seed("seed"))
    learn(seed, (X, ["r"]))
    assert seed.labels.names == ("p", "r"), "a model that begins from the state knows the old names too"


def test_a_model_that_refuses_old_names() -> None:
    model = taught(old_names="refuse")
    append(model, Relabel("q", "r"))
    refused = learn(model, (X, ["p", "q"])).answer
    assert isinstance(refused, InvalidExample)
    assert refused.path == ("y", 1)
    assert "'r'" in refused.detail, "the current name is said"
    assert isinstance(learn(model, (X, ["r"])).answer, UpdateOutcome)


def test_old_names_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manylabel_service.online.state.old_names.MAX_OLD_NAMES", 2)
    model = taught()
    for old, new in (("p", "a"), ("a", "b")):
        assert isinstance(append(model, Relabel(old, new)).answer, UpdateOutcome)
    for one_more in (Relabel("b", "c"), Relabel("q", "b", merges=True)):
        assert isinstance(append(model, one_more).answer, LimitExceeded)
    assert (model.labels.names, model.retired) == (("b", "q"), set())


@for_each(
    "change, returns",
    [
        (Relabel("petz", None), False),
        (Relabel("petz", "pets", merges=True), False),
        (Relabel("petz", None, paused=True), True),
    ],
    ids=["retired", "merged", "paused"],
)
def test_a_hidden_label_leaves_the_mean_over_labels(change: Relabel, returns: bool) -> None:
    """The typo is wrong twice; then everything is right, and macro F1 of the window must be 1."""
    model = new_model(window=40)
    learn(model, *[(X, ["pets"])] * 20)
    learn(model, (X, ["petz"]), (X, ["petz"]))
    append(model, change)
    learn(model, *[(X, ["pets"])] * 300)
    assert macro_f1(model)["window"] == 1.0
    assert macro_f1(model)["cumulative"] > 0.9, "the mean of one label"
    past = model.prequential.history().measures[..., WITH_HISTORY.index("macro_f1")]
    assert past[-2:, 0, 1].tolist() == [1.0, 1.0], "points of the history too"
    again, seed = OnlineModel.from_bytes(model.to_bytes()), OnlineModel.from_bytes(model.seed("seed"))
    assert macro_f1(again) == macro_f1(seed) == macro_f1(model), "a state that is restored"
    whole, parts = OnlineModel.from_bytes(model.to_bytes()), again
    learn(whole, *[(X, ["pets"])] * 100)
    for _ in range(100):
        learn(parts, (X, ["pets"]))
    assert whole.prequential.state()["points"].tobytes() == parts.prequential.state()["points"].tobytes(), "grouping"
    if returns:
        append(model, Relabel("petz", None, paused=False))
        assert macro_f1(model)["window"] == 0.5, "the label counts again, and nothing in the window is right about it"


def test_a_rollback_leaves_hidden_labels_out_of_the_mean() -> None:
    model = taught()
    target, to = OnlineModel.from_bytes(model.to_bytes()), model.position
    append(model, Relabel("q", None))
    model.roll_back(target, to, "99-0")
    assert model.prequential.hidden == [1], "a rollback does not undo changes of labels"


def macro_f1(model: OnlineModel) -> dict[str, float]:
    return {part: of["macro_f1"] for part, of in model.prequential.measures().items()}


def test_a_retired_label_is_predicted_and_learnt_no_more() -> None:
    model = taught()
    append(model, Relabel("q", None))
    (answered,) = model.predict([X], probabilities=True)
    assert answered.labels == ["p"]
    assert answered.scores.keys() == (answered.probabilities or {}).keys() == {"p"}
    refused = learn(model, (X, ["p"]), (X, ["p", "q"])).answer
    assert isinstance(refused, InvalidExample)
    assert (refused.index, refused.path) == (1, ("y", 1))
    counts = model.prequential.labels().cumulative.copy()
    told = learn(model, (X, ["p"]), want_predictions=True).answer
    assert isinstance(told, UpdateOutcome)
    (prediction,) = told.predictions(model.labels.names, model.retired) or ()
    assert prediction.labels == ["p"]
    change = model.prequential.labels().cumulative - counts
    assert change.tolist() == [[1, 0, 0], [0, 0, 0]], "what is not answered is not measured"


@for_each(
    ("relabel", "error"),
    [
        (Relabel("z", "y"), LabelNotFound),
        (Relabel("z", None), LabelNotFound),
        (Relabel("p", "q"), LabelExists),
        (Relabel("p", "p"), LabelExists),
        (Relabel("gone", "new"), LabelNotFound),
        (Relabel("gone", None), LabelNotFound),
        (Relabel("p", "gone"), LabelExists),
        (Relabel("p", "before"), LabelExists),
        (Relabel("p", "p", merges=True), LabelExists),
        (Relabel("p", "z", merges=True), LabelNotFound),
        (Relabel("p", "gone", merges=True), LabelNotFound),
        (Relabel("gone", "p", merges=True), LabelNotFound),
    ],
)
def test_a_refused_change_of_a_label_changes_nothing(relabel: Relabel, error: type[Exception]) -> None:
    model = taught()
    learn(model, (X, ["gone", "before"]))
    append(model, Relabel("gone", None))
    append(model, Relabel("before", "now"))
    names, retired = model.labels.names, set(model.retired)
    assert isinstance(append(model, relabel).answer, error)
    assert (model.labels.names, model.retired) == (names, retired)


def pause(model: OnlineModel, label: str, paused: bool = True) -> UpdateOutcome | Exception:
    return append(model, Relabel(label, None, paused=paused)).answer


@for_each("late", [False, True])
@for_each("algorithm", ["falt", "salt", "passive_aggressive", "kernel_falt"])
def test_a_paused_label_is_not_learnt_and_resumes_where_it_was(algorithm: str, late: bool) -> None:
    model, other = taught(algorithm=algorithm), taught(algorithm=algorithm)
    served, measured = model.predict([X])[0].margins, model.prequential.labels()
    before = measured.relevant[1], measured.told[1], measured.cumulative[1].tolist()
    assert isinstance(pause(model, "q"), UpdateOutcome)
    (answered,) = model.predict([X], probabilities=True)
    assert answered.scores.keys() == (answered.probabilities or {}).keys() == {"p"}
    told = (
        Labels.all_of(["q", "p"]),
        Labels.all_of(["q"]),
        Labels.all_of(["r", "q"]),
        partial(q=True),
        partial(q=False, p=True),
    )
    unknown = partial(p=True), partial(p=False), partial(p=False, r=True), partial(), partial(p=True)
    ids = tuple(map(ulid, range(1, 1 + len(told)))) if late else None
    for one, ys in ((model, told), (other, unknown)):
        examples = tuple(Example(named(a=1, b=at), y) for at, y in enumerate(ys))
        append(one, Update(examples, prediction_ids=ids, served=(served,) * len(ys) if late else None))
    measured = model.prequential.labels()
    assert (measured.relevant[1], measured.told[1], measured.cumulative[1].tolist()) == before
    assert measured.relevant.tolist() == [7, 5, 1]
    assert model.updates == other.updates == 10
    again = OnlineModel.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    for one in (model, again):
        pause(one, "q", paused=False)
    for _ in range(2):
        assert model.predict([X]) == again.predict([X]) == other.predict([X]), "as if the label had been unknown"
        for one in (model, again, other):
            learn(one, (X, ["q"]))
    assert again.to_bytes() == model.to_bytes()
    assert model.prequential.labels().relevant.tolist() == [7, 7, 1]


def test_a_paused_label_can_be_renamed_merged_retired_and_described() -> None:
    model = taught()
    learn(model, (X, ["r", "s"]))
    for label in ("q", "r", "s"):
        pause(model, label)
        pause(model, label)
    append(model, Relabel("q", "renamed"))
    append(model, Relabel("r", "p", merges=True))
    append(model, Relabel("s", None))
    assert (model.paused, model.retired) == ({"renamed"}, {"r", "s"})
    append(model, Describe({"renamed": {"title": "Renamed"}}))
    seed = OnlineModel.from_bytes(model.seed("seed"))
    assert (seed.paused, seed.retired, seed.details[1].title) == ({"renamed"}, {"r", "s"}, "Renamed")
    for label in ("r", "s", "z"):
        assert isinstance(pause(model, label), LabelNotFound)
        assert isinstance(pause(model, label, paused=False), LabelNotFound)
    pause(model, "renamed", paused=False)
    assert model.predict([X])[0].scores.keys() == {"p", "renamed"}


def test_a_state_with_a_label_both_retired_and_paused_is_refused() -> None:
    model = taught()
    append(model, Relabel("q", None))
    retired = State.from_bytes(model.to_bytes()).arrays["retired"]
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(forged(model, paused=retired))


def test_declared_labels_keep_their_names_and_can_be_retired() -> None:
    model = taught(labels=["p", "q"])
    assert isinstance(append(model, Relabel("p", "r")).answer, LabelsDeclared)
    assert isinstance(append(model, Relabel("p", None)).answer, UpdateOutcome)
    assert model.predict([X])[0].labels == ["q"]
    assert OnlineModel.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_a_late_label_is_measured_by_what_was_answered_under_the_old_name() -> None:
    model = taught()
    served = model.predict([X])[0].margins
    append(model, Relabel("p", "r"))
    append(model, Relabel("q", None))
    append(model, Update((Example(X, partial(r=True)),), prediction_ids=(ulid(1),), served=(served,)))
    counts = model.prequential.labels()
    assert (counts.cumulative[0, 0], counts.told[0]) == (5, 6), "the first of five was answered without labels"


@for_each("name", ["retired", "paused", "renamed"])
@for_each("columns", [[2], [-1], [1, 0], [0, 0], [[0]], [0.0]])
def test_a_state_with_forged_columns_is_refused(name: str, columns: list[object]) -> None:
    array = np.array(columns, dtype=np.float32 if columns == [0.0] else np.int32)
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(forged(taught(), **{name: array}))
