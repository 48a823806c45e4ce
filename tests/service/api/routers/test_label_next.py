"""Stored predictions that wait for labels: their order, their contents and their limits."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, new_model, ok
from tests.support.cases import for_each

from manylabel_service.online.state.uncertainty import counting

RECORD = {"title": "A \U0001f44d title", "tags": ["a", "b"], "size": 3, "none": None, "in": {"deep": True}}


@pytest.fixture
def model(client: TestClient) -> str:
    """A model that is sure of a and of b, and knows nothing of other features."""
    address = new_model(client)
    examples = [{"x": {"a": 1}, "y": ["p"]}, {"x": {"b": 1}, "y": ["q"]}] * 40
    client.post(f"{address}/update", json={"examples": examples}).raise_for_status()
    return address


def keep(client: TestClient, address: str, *xs: Any, how: str = "true") -> list[str]:
    stored = ok(client.post(f"{address}/predict?keep={how}", json={"examples": [{"x": x} for x in xs]}))
    return [one["id"] for one in stored["predictions"]]


def listed(client: TestClient, address: str, **query: Any) -> Any:
    return ok(client.get(f"{address}/predictions", params=query))


def ids(page: Any) -> list[str]:
    return [one["id"] for one in page["predictions"]]


def test_uncertain_predictions_come_first(client: TestClient, model: str) -> None:
    sure, torn, unsure = keep(client, model, {"a": 1}, {"a": 1, "b": 1}, {"c": 1})
    page = listed(client, model, order="uncertainty")
    assert set(ids(page)) == {sure, torn, unsure}
    assert ids(page)[-1] == sure
    uncertainties = [one["uncertainty"] for one in page["predictions"]]
    assert uncertainties == sorted(uncertainties, reverse=True)
    assert 0 <= uncertainties[-1] < uncertainties[0] <= 1
    assert (page["candidates"], page["updates"]) == (3, 80)
    assert page == listed(client, model, order="uncertainty")


def test_the_list_has_the_current_predictions(client: TestClient, model: str) -> None:
    (id,) = keep(client, model, {"a": 1, "b": 0.5})
    client.post(f"{model}/update", json={"x": {"a": 1, "b": 0.5}, "y": ["new"]}).raise_for_status()
    now = client.post(f"{model}/predict", json={"x": {"a": 1, "b": 0.5}, "probabilities": True}).json()
    (one,) = listed(client, model)["predictions"]
    assert (one["id"], one["labels"], one["probabilities"]) == (id, now["labels"], now["probabilities"])
    assert "record" not in one


def test_labelled_predictions_are_not_listed(client: TestClient, model: str) -> None:
    first, second, third = keep(client, model, {"a": 1}, {"b": 1}, {"c": 1})
    client.post(f"{model}/labels", json={"id": first, "y": ["p"]}).raise_for_status()
    client.post(f"{model}/labels", json={"id": second, "y": {"p": False}}).raise_for_status()
    for order in ("newest", "uncertainty"):
        assert ids(listed(client, model, order=order)) == [third]
    client.post(f"{model}/labels", json={"id": third, "y": []}).raise_for_status()
    for order in ("newest", "uncertainty"):
        page = listed(client, model, order=order)
        assert (page["predictions"], page["candidates"]) == ([], 0)


def test_the_newest_predictions_come_first_by_default(client: TestClient, model: str) -> None:
    made = [keep(client, model, {"a": number})[0] for number in range(1, 6)]
    # Ids made within the same millisecond are in no particular order.
    assert ids(listed(client, model, limit=3)) == sorted(made, reverse=True)[:3]
    assert listed(client, model, limit=3)["candidates"] == 3


def test_similar_predictions_are_not_listed_together(client: TestClient, model: str) -> None:
    alike = [{"a": 1, "b": 1, "noise": 0.001 * number} for number in range(30)]
    others = [{"a": 1, f"other{number}": 1} for number in range(10)]
    same, different = keep(client, model, *alike), keep(client, model, *others)
    first = ids(listed(client, model, order="uncertainty", limit=11))
    assert len(set(first) & set(same)) == 1
    assert set(different) < set(first)
    everything = ids(listed(client, model, order="uncertainty", limit=40))
    assert set(everything) == {*same, *different}
    assert everything[:11] == first


def test_a_new_model_lists_different_predictions_first(client: TestClient) -> None:
    address = new_model(client)
    kept = keep(client, address, *[{"x": 1}] * 5, {"y": 1}, {})
    page = listed(client, address, order="uncertainty", limit=3)
    assert {kept[5], kept[6]} < set(ids(page))
    assert [one["uncertainty"] for one in page["predictions"]] == [1.0] * 3


@for_each("x", [RECORD, "a bare text", {"indices": [1, 5], "values": [0.5, 2]}, [1.0, 0.5, None], {"n": 1}])
def test_records_are_returned_as_they_were_sent(client: TestClient, x: Any) -> None:
    address = new_model(client)
    client.post(f"{address}/predict?keep=record", json={"x": x}).raise_for_status()
    keep(client, address, x, x, how="record")
    keep(client, address, x)
    records = [one.get("record", "not kept") for one in listed(client, address)["predictions"]]
    assert sorted(map(json.dumps, records)) == sorted(map(json.dumps, [x, x, x, "not kept"]))


def test_records_count_for_the_limit_of_bytes(serve: Callable[..., Any]) -> None:
    with serve(max_stored_prediction_bytes=3_000) as client:
        address = create(client, "small")
        long = {"title": "word " * 1_000}
        assert client.post(f"{address}/predict?keep=true", json={"x": long}).status_code == 200
        answer = client.post(f"{address}/predict?keep=record", json={"x": long})
        assert (answer.status_code, answer.json()["code"]) == (429, "predictions_full")


def test_the_number_of_ranked_predictions_is_limited(serve: Callable[..., Any]) -> None:
    with serve(max_ranked_predictions=700) as client:
        address = create(client, "many")
        old = keep(client, address, *({"a": 1, f"b{number}": 1} for number in range(300)))
        new = keep(client, address, *({"a": 1, f"c{number}": 1} for number in range(700)))
        page = listed(client, address, order="uncertainty", limit=100)
        assert page["candidates"] == 700
        assert set(ids(page)) <= {*new, *old}
        assert len(set(ids(page))) == 100
        client.post(f"{address}/labels", json={"examples": [{"id": id, "y": []} for id in new]}).raise_for_status()
        assert set(ids(listed(client, address, order="uncertainty", limit=100))) <= set(old)


def test_a_model_without_probabilities_lists_none(client: TestClient) -> None:
    address = new_model(client, params={"calibrate": False})
    client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["p"]}).raise_for_status()
    keep(client, address, {"a": 1}, {"b": 1})
    page = listed(client, address, order="uncertainty")
    assert [one["probabilities"] for one in page["predictions"]] == [None, None]


@pytest.mark.parametrize("change", ["retire", "pause"])
def test_retired_and_paused_labels_do_not_count_as_uncertain(client: TestClient, model: str, change: str) -> None:
    keep(client, model, {"a": 1})
    before = listed(client, model)["predictions"][0]
    examples = [{"x": {"a": 1}, "y": {"torn": number % 2 == 0}} for number in range(20)]
    client.post(f"{model}/update", json={"examples": examples}).raise_for_status()
    torn = listed(client, model)["predictions"][0]
    client.post(f"{model}/labels/{change}", json={"label": "torn"}).raise_for_status()
    after = listed(client, model)["predictions"][0]
    assert torn["uncertainty"] > after["uncertainty"]
    assert set(after["probabilities"]) == set(before["probabilities"])


def test_rare_labels_do_not_count_if_others_exist() -> None:
    assert counting(np.array([0, 3, 2, 5, 9]), [3]).tolist() == [1, 4]
    assert counting(np.array([0, 2, 1]), [1]).tolist() == [0, 2]
    assert counting(np.array([4]), [0]).tolist() == []


@for_each("query", ["order=best", "limit=0", "limit=101", "limit=x", "limit=1&limit=2", "offset=1"])
def test_wrong_parameters_are_refused(client: TestClient, model: str, query: str) -> None:
    answer = client.get(f"{model}/predictions?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_the_scores_of_a_list_are_limited(serve: Callable[..., Any]) -> None:
    with serve(max_response_scores=100) as client:
        address = create(client, "bounded", labels=[f"l{number}" for number in range(10)])
        assert client.get(f"{address}/predictions?limit=5").status_code == 200
        answer = client.get(f"{address}/predictions?limit=6")
        assert (answer.status_code, answer.json()["code"]) == (413, "batch_too_large")
