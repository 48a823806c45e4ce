"""Labels that get titles, descriptions and URIs by an entry of the log."""

from typing import Any

import msgpack
import pytest
from tests.service.online.folds import append, forged, learn, named, new_model, taught
from tests.support.cases import for_each

from manylabel_core.state import DamagedState
from manylabel_service.errors import InvalidField, LabelExists, LabelNotFound, UnreadableEntry
from manylabel_service.online.state.controls import Describe, Relabel
from manylabel_service.online.state.label_table import label_page
from manylabel_service.online.state.log_entries import decode, encode
from manylabel_service.online.state.model import OnlineModel

X = named(a=1)


def described(model: OnlineModel, **edits: dict[str, str | None]) -> Any:
    return append(model, Describe(edits))


def details(model: OnlineModel) -> dict[str, tuple[str | None, ...]]:
    return {name: tuple(model.details[column]) for column, name in enumerate(model.labels.names)}


def test_fields_are_set_kept_and_removed() -> None:
    model = taught()
    before = model.predict([X], probabilities=True)
    outcome = described(model, q={"title": "Quails", "uri": "http://x/q"})
    assert (outcome.learnt, outcome.label_changes) == (0, (("q", "described", None, None),))
    described(model, q={"description": "Small birds", "uri": None})
    assert details(model) == {"p": (None, None, None), "q": ("Quails", "Small birds", None)}
    assert model.predict([X], probabilities=True) == before
    described(model, q={"title": None, "description": None})
    assert (len(model.details), model.details.nbytes) == (0, 0)


def test_a_label_that_is_not_known_is_declared() -> None:
    model = taught()
    outcome = described(model, r={"title": "Ravens"}, p={})
    assert outcome.label_changes == (("r", "new", None, None), ("p", "described", None, None))
    assert list(model.predict([X])[0].scores) == ["p", "q", "r"]
    assert OnlineModel.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    learn(model, (X, ["r"]))
    assert model.prequential.labels().relevant.tolist() == [5, 5, 1]
    fresh = new_model()
    described(fresh, r={"title": "Ravens"})
    assert list(fresh.predict([X])[0].scores) == ["r"]
    assert OnlineModel.from_bytes(fresh.to_bytes()).to_bytes() == fresh.to_bytes()


@for_each("params", [{}, {"drift": "adwin"}])
def test_labels_are_listed_before_the_learner_has_them(params: dict[str, str]) -> None:
    """Requests read the labels while a thread declares some, or learns examples with new ones."""
    model = taught(params=params)
    model.describe({"new": {"title": "New"}})
    (row,) = label_page(model.label_facts, "name", descending=False, offset=0, limit=1).labels
    assert (row["label"], row["title"], row["threshold"], row["calibration"]) == ("new", "New", None, None)
    assert row["drift"] == ({"alarms": 0, "last": None} if params else None)


def test_details_follow_a_renamed_label_and_survive_a_merge() -> None:
    model = taught()
    described(model, p={"title": "Pigeons"}, q={"title": "Quails"})
    append(model, Relabel("q", "r"))
    assert details(model)["r"][0] == "Quails"
    append(model, Relabel("p", "r", merges=True))
    assert details(model)["r"][0] == "Quails"


@for_each(
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
    append(model, Relabel("gone", None))
    if not spec.get("labels"):
        learn(model, (X, ["before"]))
        append(model, Relabel("before", "now"))
    names = model.labels.names
    answer = described(model, **edits).answer
    assert isinstance(answer, error)
    assert path is None or (isinstance(answer, InvalidField) and answer.path == path)
    assert (model.labels.names, len(model.details)) == (names, 0)


@for_each(
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
def test_a_damaged_entry_is_refused(edits: object) -> None:
    form, kind, key, digest, _ = msgpack.unpackb(encode(Describe({})), strict_map_key=False)
    with pytest.raises(UnreadableEntry):
        decode(msgpack.packb((form, kind, key, digest, edits)))


@for_each(
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
def test_a_state_with_forged_details_is_refused(rows: object) -> None:
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(forged(taught(), details=rows))
