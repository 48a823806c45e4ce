"""The predictions of a response have a maximum size; above it nothing is learnt or stored."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import ok

MOST = 6_000
LABELS = [f"label-{n:03d}-{'x' * 30}" for n in range(20)]
MANY = {"examples": [{"x": {"text": "a b"}}] * 10, "top": 20}


@pytest.fixture(scope="module")
def client(serve: Any) -> Iterator[TestClient]:
    with serve(max_response_bytes=MOST) as client:
        ok(client.post("/v1/models", json={"name": "m", "algorithm": "falt", "labels": LABELS}), 201)
        ok(client.post("/v1/models/m/update", json={"x": {"text": "a b"}, "y": LABELS[:2]}))
        yield client


def too_large(answer: Any, status: int = 413) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["error" if "error" in answer.json() else "detail"])


def test_a_batch_with_a_large_response_is_refused(client: TestClient) -> None:
    detail = too_large(client.post("/v1/models/m/predict", json=MANY))
    assert "more than 6,000 bytes" in detail
    assert "send fewer examples, or a smaller top" in detail
    few = {**MANY, "examples": MANY["examples"][:2]}
    assert len(ok(client.post("/v1/models/m/predict", json=few))["predictions"]) == 2
    assert len(ok(client.post("/v1/models/m/predict", json={**MANY, "top": 1}))["predictions"]) == 10


def test_a_refused_batch_is_not_stored(client: TestClient) -> None:
    too_large(client.post("/v1/models/m/predict?keep=true", json=MANY))
    assert ok(client.get("/v1/models/m/predictions"))["predictions"] == []


def test_a_batch_to_learn_is_refused_before_it_is_learnt(client: TestClient) -> None:
    before = ok(client.get("/v1/models/m"))["updates"]
    examples = [{**each, "y": []} for each in MANY["examples"]]  # type: ignore[attr-defined]
    assert "about 2 examples" in too_large(client.post("/v1/models/m/predict-update", json={"examples": examples}))
    assert ok(client.get("/v1/models/m"))["updates"] == before
    ok(client.post("/v1/models/m/predict-update", json={"examples": examples[:2]}))


def test_the_labels_of_the_batch_itself_count(client: TestClient) -> None:
    ok(client.post("/v1/models", json={"name": "new", "algorithm": "falt"}), 201)
    examples = [{"x": {"text": "a b"}, "y": [f"{n:0250d}"]} for n in range(20)]
    assert "about " in too_large(client.post("/v1/models/new/predict-update", json={"examples": examples}))
    assert ok(client.get("/v1/models/new"))["updates"] == 0
    found = client.post("/v1/models/new/predict-update", json={"examples": examples[:4]})
    assert ok(found)["updates"] == 4
    assert len(found.content) <= MOST


def test_a_large_list_of_stored_predictions_is_refused(client: TestClient) -> None:
    few = {**MANY, "top": 1, "examples": MANY["examples"][:9]}
    ok(client.post("/v1/models/m/predict?keep=true", json=few))
    for order in ("newest", "uncertainty"):
        assert "request fewer" in too_large(client.get(f"/v1/models/m/predictions?limit=9&order={order}"))
    assert len(ok(client.get("/v1/models/m/predictions?limit=1"))["predictions"]) == 1


@pytest.mark.parametrize("binary", [False, True])
def test_a_large_inference_is_refused(client: TestClient, binary: bool) -> None:
    def infer(n: int) -> Any:
        x = {"name": "x", "shape": [n], "datatype": "BYTES", "data": ["a b"] * n}
        parameters = {"binary_data_output": binary}
        return client.post("/v2/models/m/infer", json={"inputs": [x], "parameters": parameters})

    assert "ask for fewer outputs" in too_large(infer(200))
    assert infer(2).status_code == 200


def test_large_suggestions_are_refused(client: TestClient) -> None:
    documents = {"documents": [{"text": "a b", "document_id": str(n)} for n in range(32)]}
    call = "/annif/v1/projects/m/suggest-batch"
    assert "a smaller limit" in too_large(client.post(f"{call}?limit=20", json=documents))
    found = client.post(f"{call}?limit=1", json=documents).json()
    assert [each["document_id"] for each in found] == [str(n) for n in range(32)]
    assert all(len(each["results"]) == 1 for each in found)


def test_annif_gets_at_most_a_thousand_suggestions(client: TestClient) -> None:
    for limit, status in ((1_000, 200), (1_001, 400)):
        answer = client.post(f"/annif/v1/projects/m/suggest?limit={limit}", data={"text": "a"})
        assert answer.status_code == status, answer.text
    assert "limit" in answer.json()["detail"]


def test_a_new_model_with_too_many_fields_or_parents_is_refused_before_each_is_described(client: TestClient) -> None:
    for kind in ("labels", "groups"):
        refused_at = client.post("/v1/models", json={"name": "wide", kind: [dict.fromkeys(map(str, range(101)), 1)]})
        assert (refused_at.status_code, refused_at.json()["errors"][0]["pointer"]) == (422, f"/{kind}/0")
    parents = dict.fromkeys(map(str, range(10_001)), 1)
    refused_at = client.post("/v1/models", json={"name": "wide", "parents": parents})
    assert (refused_at.status_code, refused_at.json()["errors"][0]["pointer"]) == (422, "/parents")
