"""Records over HTTP: every call reads them as core does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.service.api.answers import new_model, ok, taught_by_every_call

from manylabel_core.records import RecordEncoder, RecordError, TextSettings
from manylabel_core.records.forms import input_kind
from manylabel_service.api.translation.from_json import to_example, to_features, to_inputs
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.problems import pointer as json_pointer
from manylabel_service.trained.inputs import Record

TEXT = {"fields": ["title", "author.bio"], "ngrams": 2, "stop_words": ["the"]}
RECORDS: list[Any] = [
    {"title": "The Quick fox", "section": "games", "size_kb": 124, "homepage": True, "tags": ["a", "b"], "none": None},
    {"title": "Ein Zug, ein Zug", "author": {"bio": "writes café", "age": 0.1}, "homepage": False},
    "a bare text about foxes",
    {"size_kb": 3, "homepage": 1},
    {"indices": ["red"], "values": ["low", "high"], "title": "fields like the sparse form"},
    {"section": "x" * 300, "emoji": "\U0001f44d\U0001f3fd", "title": "שלום हिन्दी"},
    {},
]
LABELS = [["role"], ["role", "kind"], ["kind"], [], ["role"], ["kind"], ["role"]]
ITEMS = [{"x": x, "y": y} for x, y in zip(RECORDS, LABELS, strict=True)]


def encoded(items: list[Any], text: dict[str, Any]) -> list[Any]:
    """Replace each record by the named numbers that core reads from it."""
    encoder = RecordEncoder(TextSettings.from_json(text))
    return [{**item, "x": encoder.encode(item["x"])} for item in items]


def state_of(client: TestClient, address: str) -> Any:
    status = client.get(address).json()
    return {part: status[part] for part in ("updates", "labels", "features", "metrics")}


def test_every_call_reads_a_record_as_core_does(client: TestClient) -> None:
    numbers, plain = encoded(ITEMS, TEXT), new_model(client, text=TEXT)
    ok(client.post(f"{plain}/update", json={"examples": numbers}))

    expected = state_of(client, plain)
    assert expected["updates"] == len(ITEMS)
    for address in taught_by_every_call(client, ITEMS, text=TEXT):
        assert state_of(client, address) == expected
        asked = [{"x": item["x"]} for item in ITEMS]
        assert (
            ok(client.post(f"{address}/predict", json={"examples": asked}))["predictions"]
            == (ok(client.post(f"{plain}/predict", json={"examples": numbers}))["predictions"])
        )
        single = ok(client.post(f"{address}/predict", json={"x": ITEMS[0]["x"]}))
        assert single["scores"] == ok(client.post(f"{plain}/predict", json={"x": numbers[0]["x"]}))["scores"]


def test_the_status_shows_all_text_settings(client: TestClient) -> None:
    plain, given = new_model(client), new_model(client, text=TEXT)
    assert ok(client.get(plain))["text"] == TextSettings().to_json()
    shown = ok(client.get(given))["text"]
    assert shown == TextSettings.from_json(TEXT).to_json()
    again = new_model(client, text=shown)  # the settings in the response are valid in a request
    assert ok(client.get(again))["text"] == shown


def test_records_have_limits(serve: Callable[..., Any]) -> None:
    with serve(max_record_characters=20, max_record_depth=2) as client:
        assert client.post("/v1/models", json={"name": "small", "algorithm": "falt"}).status_code == 201
        pairs = {"name": "pairs", "algorithm": "falt", "text": {"ngrams": 2}}
        assert client.post("/v1/models", json=pairs).status_code == 201
        for model, x, detail in (
            ("small", "x" * 21, "must have at most 20 characters in all its strings together"),
            ("pairs", "aa bb cc dd ee ff", "must have at most 10 tokens in all its texts together"),
            ("small", {"a": {"b": {}}}, "must be at most 2 objects deep, including the record"),
        ):
            response = client.post(f"/v1/models/{model}/predict", json={"x": x})
            assert [error["detail"] for error in response.json()["errors"]] == [detail]
        assert client.post("/v1/models/small/predict", json={"x": "aa bb cc dd ee ff"}).status_code == 200


KEYS = st.text(max_size=4) | st.sampled_from(["a", "b.c", "é" * 200])
TEXTS = st.text(max_size=20) | st.sampled_from(
    ["e\u0301 \u0915\u094d\u0937", "שלום مرحبا", "\U0001f44d \u200d", "\ud83d"]
)
VALUES = TEXTS | st.booleans() | st.none() | st.floats() | st.integers() | st.lists(TEXTS | st.integers(), max_size=3)
ANY_RECORD = TEXTS | st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=2), max_size=5)


@given(ANY_RECORD)
def test_any_record_is_translated_as_core_reads_it(x: Any) -> None:
    """Examples to learn, features to predict, and inputs of a trained model."""
    if input_kind(x) not in ("record", "text") or (isinstance(x, dict) and x.keys() == {"views"}):
        return
    encoder, at = RecordEncoder(TextSettings(fields=("a", "b.c"))), ("examples", 3)
    try:
        expected = encoder.encode(x)
    except RecordError as error:
        place = error.path
        for refuse in (to_features, to_inputs, to_example):
            with pytest.raises(Problem) as refused:
                refuse({"x": x, "y": []}, at, 1_000, encoder)
            assert refused.value.errors[0]["pointer"] == json_pointer((*at, "x", *place))
        return
    trained = to_inputs({"x": x}, at, 1_000, encoder)
    assert isinstance(trained, Record)
    learnt = to_example({"x": x, "y": []}, at, 1_000, encoder).x
    for features in (to_features({"x": x}, at, 1_000, encoder), learnt, trained.features):
        assert (features.names, features.indices) == (tuple(expected), None)
        assert np.array_equal(features.values, np.array(list(expected.values()), dtype=np.float32))
