"""Predict, update and predict-update: what they answer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel
from starlette.testclient import TestClient

from manylabel_service.api import schemas

DENSE = [0.5, 0.0, -2.0]
SPARSE = {"indices": [2, 0], "values": [-2, 0.5]}


def examples(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Named features, with labels that can be learnt from them."""
    rng = np.random.default_rng(seed)
    items = []
    for _ in range(n):
        words = rng.choice(20, size=5, replace=False).tolist()
        items.append({"x": {f"word={w}": 1 for w in words}, "y": sorted({f"topic {w // 4}" for w in words})})
    return items


def ok(answer: Any, model: type[BaseModel]) -> dict[str, Any]:
    """The JSON of an answer, which has the form that is documented."""
    assert answer.status_code in (200, 201), answer.text
    assert answer.headers["content-type"] == "application/json"
    model.model_validate_json(answer.content, strict=True)
    document: dict[str, Any] = answer.json()
    return document


def test_an_update_is_learnt_when_it_is_answered(client: TestClient, model: str) -> None:
    item = {"x": {"word=cat": 1}, "y": ["pets"]}
    first = ok(client.post(f"{model}/update", json=item), schemas.UpdateResponse)
    assert first["updates"] == 1
    assert first["durability"] == "log"

    predicted = ok(client.post(f"{model}/predict", json={"x": {"word=cat": 1}}), schemas.PredictResponse)
    assert predicted["labels"] == ["pets"]
    assert predicted["scores"]["pets"] > 0
    assert predicted["position"] == first["position"]


def test_predict_ignores_labels_and_learns_nothing(
    client: TestClient, model: str, state_of: Callable[..., bytes]
) -> None:
    client.post(f"{model}/update", json={"x": {"a": 1}, "y": ["p"]})
    state = state_of(client, model)
    for y in (["new"], {"new": True}, None, 3, [1]):
        with_y = client.post(f"{model}/predict", json={"x": {"a": 1, "new": 2}, "y": y}).json()
        assert with_y == client.post(f"{model}/predict", json={"x": {"a": 1, "new": 2}}).json()
    assert state_of(client, model) == state


def test_a_batch_is_the_same_as_its_items_one_by_one(
    client: TestClient, create: Callable[..., str], state_of: Callable[..., bytes]
) -> None:
    together, apart = create(client, "together"), create(client, "apart")
    items = examples(30)

    batch = ok(client.post(f"{together}/predict-update", json={"examples": items}), schemas.PredictUpdateBatchResponse)
    single = [ok(client.post(f"{apart}/predict-update", json=item), schemas.PredictUpdateResponse) for item in items]

    facts = ("position", "updates", "durability")
    assert batch["predictions"] == [{k: v for k, v in one.items() if k not in facts} for one in single]
    assert (batch["updates"], single[-1]["updates"]) == (30, 30)
    both = [
        ok(client.post(f"{address}/predict", json={"examples": items}), schemas.PredictBatchResponse)["predictions"]
        for address in (together, apart)
    ]
    assert both[0] == both[1]
    assert client.get(together).json()["metrics"] == client.get(apart).json()["metrics"]


def test_a_batch_of_one_is_answered_as_a_batch(client: TestClient, model: str) -> None:
    body = {"examples": [{"x": {"a": 1}, "y": ["p"]}]}
    assert len(ok(client.post(f"{model}/predict", json=body), schemas.PredictBatchResponse)["predictions"]) == 1
    ok(client.post(f"{model}/update", json=body), schemas.UpdateResponse)


@pytest.mark.parametrize("algorithm", ["falt", "salt", "kernel_falt"])
def test_dense_and_sparse_are_two_ways_to_say_the_same(
    client: TestClient, create: Callable[..., str], algorithm: str
) -> None:
    name = algorithm.replace("_", "-")
    dense = create(client, f"{name}.dense", algorithm=algorithm, features=3)
    sparse = create(client, f"{name}.sparse", algorithm=algorithm, features=3)
    for y in (["p"], ["q"], {"p": False}):
        client.post(f"{dense}/update", json={"x": DENSE, "y": y}).raise_for_status()
        client.post(f"{sparse}/update", json={"x": SPARSE, "y": y}).raise_for_status()
    answers = [client.post(f"{m}/predict", json={"x": x}).json() for m in (dense, sparse) for x in (DENSE, SPARSE)]
    assert all(answer == answers[0] for answer in answers)


def test_a_retry_with_its_key_is_answered_alike_and_counts_once(
    client: TestClient, model: str, state_of: Callable[..., bytes], refused: Callable[..., Any]
) -> None:
    body, key = {"examples": examples(3)}, {"Idempotency-Key": "order-66~!"}
    first = client.post(f"{model}/predict-update", json=body, headers=key)
    assert "idempotent-replayed" not in first.headers
    state = state_of(client, model)

    again = client.post(f"{model}/predict-update", json=body, headers=key)

    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    other_body = client.post(f"{model}/predict-update", json={"examples": examples(2)}, headers=key)
    refused(other_body, 422, "idempotency_key_reused")
    other_operation = client.post(f"{model}/update", json=body, headers=key)
    refused(other_operation, 422, "idempotency_key_reused")
    assert state_of(client, model) == state


def test_a_model_of_its_own_durability_says_so(client: TestClient, create: Callable[..., str]) -> None:
    for durability in ("log", "fsync"):
        address = create(client, f"durable.{durability}", durability=durability)
        answer = client.post(f"{address}/update", json={"x": {"a": 1}, "y": []}).json()
        assert answer["durability"] == client.get(address).json()["durability"] == durability
