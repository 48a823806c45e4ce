"""Rows of Prodigy: what was accepted is true, what was rejected false, and nothing is learnt about the rest."""

import io
import json
from typing import Any

import pytest
from tests.support.cases import for_each

from manylabel_core.datasets.formats.example_rows import ExampleRow, RowParts
from manylabel_core.datasets.formats.ndjson import JsonLines, read_ndjson
from manylabel_core.datasets.limits import BadDataset

PRIVATE = {"_input_hash": 1, "_task_hash": -2, "_session_id": None, "_view_id": "classification"}
OPTIONS = [{"id": "SPORT", "text": "Sport"}, {"id": "NEWS", "text": "News"}]


def row(answer: str, **more: Any) -> dict[str, Any]:
    return {"text": "a match", "meta": {"source": "x"}, "answer": answer, **PRIVATE, **more}


def read(*items: dict[str, Any], field: str = "label") -> list[ExampleRow]:
    return list(JsonLines(io.BytesIO("\n".join(map(json.dumps, items)).encode()), RowParts(tags=field)))


@for_each(
    ("answer", "field", "more", "y"),
    [
        ("accept", "label", {"label": "SPORT"}, {"SPORT": True}),
        ("reject", "label", {"label": "SPORT"}, {"SPORT": False}),
        ("ignore", "label", {"label": "SPORT"}, None),
        ("accept", "accept", {"options": OPTIONS, "accept": ["NEWS"], "config": {}}, {"SPORT": False, "NEWS": True}),
        ("accept", "accept", {"options": OPTIONS, "accept": []}, {"SPORT": False, "NEWS": False}),
        ("reject", "accept", {"options": OPTIONS, "accept": ["NEWS"]}, None),
        ("ignore", "accept", {"options": OPTIONS, "accept": ["NEWS"]}, None),
    ],
)
def test_the_answer_says_what_is_true(answer: str, field: str, more: dict[str, Any], y: Any) -> None:
    (found,) = read(row(answer, **more), field=field)
    assert (found.x, found.y) == ({"text": "a match", "meta": {"source": "x"}}, y)


@for_each("answer", ["reject", "ignore"])
def test_labels_elsewhere_are_not_learnt_as_true(answer: str) -> None:
    with pytest.raises(BadDataset, match=f"line 2: a row of Prodigy with the answer '{answer}'"):
        read(row("accept", tags=["SPORT"]), row(answer, tags=["SPORT"]), field="tags")


def test_other_records_with_an_answer_stay_as_they_are() -> None:
    for item in ({"text": "t", "label": "a", "answer": "yes"}, {"text": "t", "label": ["a"], "answer": "reject"}):
        (found,) = read(item)
        assert (found.x, found.y) == ({"text": "t", "answer": item["answer"]}, ["a"])
    with pytest.raises(BadDataset, match="strings as ids, not 3"):
        read(row("accept", options=[{"id": 3}], accept=[]), field="accept")


def test_a_dataset_has_the_truth_of_all_labels() -> None:
    def dataset(*items: dict[str, Any], field: str) -> Any:
        return read_ndjson(io.BytesIO("\n".join(map(json.dumps, items)).encode()), tags=field)

    rows = [row(answer, label="SPORT") for answer in ("accept", "reject", "ignore")]
    found = dataset(*rows, field="label")
    assert (found.label_names, found.Y.toarray().tolist()) == (("SPORT",), [[1], [0], [0]])
    assert (found.labelled.tolist(), found.report.unlabelled) == ([True, True, False], 1)
    with pytest.raises(BadDataset, match="only online models learn partial labels"):
        dataset(*rows, row("reject", label="NEWS"), field="label")
    chosen = dataset(row("accept", options=OPTIONS, accept=["NEWS"]), field="accept")
    assert chosen.Y.toarray().tolist() == [[0, 1]]
