"""Labels that get titles, descriptions and URIs by an entry of the log."""

from typing import Any

import msgpack
import numpy as np
import pytest
from tests.service.online.folds import append, facts, fold, learn, named, new_model, taught

from manylabel_core.state import DamagedState, State
from manylabel_service.errors import InvalidField, LabelExists, LabelNotFound, UnreadableEntry
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.label_details import LabelDetails
from manylabel_service.online.state.log_entries import Describe, Relabel, Rollback, Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome

X = named(a=1)


def described(model: OnlineModel, **edits: dict[str, str | None]) -> Any:
    return append(model, Describe(edits, "log"))


def details(model: OnlineModel) -> dict[str, tuple[str | None, ...]]:
    return {name: tuple(model.details[column]) for column, name in enumerate(model.labels.names)}


def test_fields_are_set_kept_and_removed() -> None:
    model = taught()
    before = model.predict([X], probabilities=True)
    outcome = described(model, q={"title": "Quails", "uri": "http://x/q"})
    assert (outcome.kind, outcome.learnt, outcome.described, outcome.new_labels) == ("describe", 0, ("q",), ())
    described(model, q={"description": "Small birds", "uri": None})
    assert details(model) == {"p": (None, None, None), "q": ("Quails", "Small birds", None)}
    assert model.predict([X], probabilities=True) == before
    described(model, q={"title": None, "description": None})
    assert (len(model.details), model.details.nbytes) == (0, 0)


def test_a_label_that_is_not_known_is_declared() -> None:
    model = taught()
    outcome = described(model, r={"title": "Ravens"}, p={})
    assert (outcome.new_labels, outcome.described) == (("r",), ("p",))
    assert list(model.predict([X])[0].scores) == ["p", "q", "r"]
    assert OnlineModel.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    learn(model, (X, ["r"]))
    assert model.prequential.labels().relevant.tolist() == [5, 5, 1]
    fresh = new_model()
    described(fresh, r={"title": "Ravens"})
    assert list(fresh.predict([X])[0].scores) == ["r"]
    assert OnlineModel.from_bytes(fresh.to_bytes()).to_bytes() == fresh.to_bytes()


def test_details_go_with_a_label_that_is_renamed_and_stay_with_one_that_others_are_merged_into() -> None:
    model = taught()
    described(model, p={"title": "Pigeons"}, q={"title": "Quails"})
    append(model, Relabel("q", "r", "log"))
    assert details(model)["r"][0] == "Quails"
    append(model, Relabel("p", "r", "log", merges=True))
    assert details(model)["r"][0] == "Quails"


def test_details_stay_in_a_state_in_a_seed_and_after_a_rollback() -> None:
    model = taught()
    states = {model.position: model.to_bytes()}
    described(model, p={"title": "Pigeons"}, r={"title": "Ravens"})
    again = OnlineModel.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    assert again.details.nbytes == model.details.nbytes > 0
    assert details(OnlineModel.from_bytes(model.seed("seed"), requests=False)) == details(model)
    assert isinstance(append(model, Rollback("5", "log"), states).answer, UpdateOutcome)
    assert details(model)["p"] == ("Pigeons", None, None)
    assert OnlineModel.from_bytes(model.to_bytes()).predict([X]) == model.predict([X])


@pytest.mark.parametrize(
    ("spec", "edits", "error", "path"),
    [
        ({}, {"p": {"title": "P"}, "gone": {}}, LabelNotFound, None),
        ({}, {"p": {"title": "P"}, "before": {}}, LabelExists, None),
        ({"labels": ["p", "q", "gone"]}, {"p": {"title": "P"}, "z": {}}, InvalidField, ("labels", "z")),
        (
            {"limits": {"labels": {"most": 5, "policy": "ignore"}}},
            {"p": {"title": "P"}, "y": {}, "z": {}},
            InvalidField,
            ("labels", "z"),
        ),
    ],
)
def test_a_description_that_is_refused_changes_nothing(
    spec: dict[str, Any], edits: dict[str, dict[str, str | None]], error: type[Exception], path: tuple[str, ...] | None
) -> None:
    model = taught(**spec)
    learn(model, (X, ["gone"]))
    append(model, Relabel("gone", None, "log"))
    if not spec.get("labels"):
        learn(model, (X, ["before"]))
        append(model, Relabel("before", "now", "log"))
    names = model.labels.names
    answer = described(model, **edits).answer
    assert isinstance(answer, error)
    assert path is None or (isinstance(answer, InvalidField) and answer.path == path)
    assert (model.labels.names, len(model.details)) == (names, 0)


def test_a_retry_is_answered_and_done_once() -> None:
    model = taught()
    describe = Describe({"p": {"title": "P"}}, "log", IdempotencyKey("k", b"d" * 16))
    first = append(model, describe)
    described(model, p={"title": "Pigeons"})
    again = append(model, describe)
    assert (first.replayed, again.replayed, again.answer) == (False, True, first.answer)
    assert details(model)["p"][0] == "Pigeons"


def test_however_entries_are_grouped() -> None:
    def update(*truths: list[str]) -> Update:
        return Update(tuple(Example(X, Labels.all_of(y)) for y in truths), "log", want_predictions=True)

    changes = [
        Describe({"r": {"title": "R"}}, "log"),
        update(["p"], ["q"]),
        Describe({"q": {"title": "Q"}, "s": {"uri": "u"}}, "log"),
        update(["p", "s"]),
        Relabel("q", "t", "log"),
        Describe({"t": {"title": None}, "v": {}}, "log"),
        Describe({"v": {"title": "V"}}, "log"),
        update(["q"], ["w"]),
    ]
    log = [LogEntry(str(at), change) for at, change in enumerate(changes, 1)]
    models = [new_model() for _ in range(3)]
    told = [facts(fold(model, log, size)) for model, size in zip(models[:2], (1, 100), strict=True)]
    for entry in log:
        fold(models[2], [entry])
        models[2] = OnlineModel.from_bytes(models[2].to_bytes())
    assert told[0] == told[1]
    assert models[0].to_bytes() == models[1].to_bytes() == models[2].to_bytes()
    assert models[0].details[0] == LabelDetails("R")


def test_an_entry_is_read_as_it_was_written() -> None:
    describe = Describe({"p": {"title": "P", "uri": None}, "é": {}}, "log", IdempotencyKey("k", b"d" * 16))
    assert decode(encode(describe)) == describe


@pytest.mark.parametrize(
    "edits",
    [
        [],
        {1: {}},
        {"p": []},
        {"p": {"name": "x"}},
        {"p": {"title": 1}},
        {"p": {"title": ""}},
        {"p": {"title": "x" * 501}},
    ],
)
def test_an_entry_that_encode_did_not_write_is_refused(edits: object) -> None:
    form, kind, durability, key, digest, _ = msgpack.unpackb(encode(Describe({}, "log")), strict_map_key=False)
    with pytest.raises(UnreadableEntry):
        decode(msgpack.packb((form, kind, durability, key, digest, edits)))


@pytest.mark.parametrize(
    "rows",
    [
        0,
        [0],
        [[0, "x"]],
        [[2, "x", None, None]],
        [[-1, "x", None, None]],
        [[1, "x", None, None], [0, "x", None, None]],
        [[0, "", None, None]],
        [[0, 1, None, None]],
        [["p", "x", None, None]],
        [[0, "x" * 501, None, None]],
    ],
)
def test_a_state_that_to_bytes_did_not_write_is_refused(rows: object) -> None:
    arrays, header = State.from_bytes(taught().to_bytes())
    forged = np.frombuffer(msgpack.packb(rows), dtype=np.uint8)
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(State({**arrays, "details": forged}, header).to_bytes())
