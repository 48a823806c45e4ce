"""Probabilities over HTTP: those of core, bit for bit, if a request asks for them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import NDJSON, create, refused, stream

import manylabel_core as core
from manylabel_core.rows import as_rows, as_targets

LABELS = ["rock", "jazz", "folk"]
ASKED = {"probabilities": True}
SPEC: dict[str, Any] = {"features": 4, "labels": LABELS}

rng = np.random.default_rng(7)
X = rng.normal(size=(20, 4)).round(3).astype(np.float32)
Y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(20, 3)) > 0).astype(np.uint8)
ITEMS = [
    {"x": x, "y": [label for label, relevant in zip(LABELS, y, strict=True) if relevant]}
    for x, y in zip(X.tolist(), Y, strict=True)
]


def shown(answer: Any) -> list[dict[str, float]]:
    assert answer.status_code == 200, answer.text
    document = answer.json()
    return [one["probabilities"] for one in document.get("predictions", [document])]


@pytest.fixture
def model(client: TestClient) -> Iterator[str]:
    address = create(client, "declared", **SPEC)
    yield address
    client.delete(address)


def test_every_call_responds_with_the_probabilities_of_core(client: TestClient, model: str) -> None:
    learner = core.FALT()
    learner.pipeline.grow(4, 3)
    learnt = learner.pipeline.learn(as_rows(X, "float32")[0], as_targets(Y, None), probabilities=True)
    before = [dict(zip(LABELS, row, strict=True)) for row in learnt.probabilities.tolist()]
    after = [dict(zip(LABELS, row, strict=True)) for row in learner.predict_proba(X).tolist()]

    assert shown(client.post(f"{model}/predict-update", json={"examples": ITEMS, **ASKED})) == before
    many = client.post(f"{model}/predict", json={"examples": [{"x": item["x"]} for item in ITEMS], **ASKED})
    one = client.post(f"{model}/predict", json={"x": ITEMS[3]["x"], **ASKED})
    assert (shown(many), shown(one)) == (after, [after[3]])

    singly = create(client, "singly", **SPEC)
    single = [client.post(f"{singly}/predict-update", json={**item, **ASKED}) for item in ITEMS]
    assert [shown(answer)[0] for answer in single] == before

    streamed = create(client, "streamed", **SPEC)
    lines = stream(client, streamed, ITEMS, "?probabilities=true&from=3")
    assert [line["probabilities"] for line in lines] == before
    assert [line["line"] for line in lines] == list(range(3, 23))


def test_a_request_that_asks_for_none_gets_none(client: TestClient, model: str) -> None:
    without = create(client, "uncalibrated", params={"calibrate": False})
    for address in (model, without):
        for call in ("predict", "predict-update"):
            for body in (ITEMS[0], {"examples": ITEMS}):
                for flag in ({}, {"probabilities": False}):
                    answer = client.post(f"{address}/{call}", json={**body, **flag})
                    assert answer.status_code == 200, answer.text
                    assert b"probabilities" not in answer.content
        for query in ("", "?probabilities=false"):
            (line,) = stream(client, address, ITEMS[:1], query)
            assert "probabilities" not in line
    client.delete(without)


def test_a_model_without_probabilities_refuses_to_respond_with_them(client: TestClient) -> None:
    address = create(client, "uncalibrated", params={"calibrate": False})
    for call in ("predict", "predict-update"):
        for body in (ITEMS[0], {"examples": ITEMS}):
            answer = client.post(f"{address}/{call}", json={**body, **ASKED})
            refused(answer, 422, "invalid_request", "/probabilities")
    answer = client.post(f"{address}/stream?probabilities=true", content=b"", headers=NDJSON)
    refused(answer, 422, "invalid_request", "probabilities")
    assert client.get(address).json()["updates"] == 0
    client.delete(address)


def test_probabilities_count_for_the_limit_of_a_response(serve: Callable[..., Any]) -> None:
    with serve(max_response_scores=30) as client:
        address = create(client, "m", **SPEC)
        client.post(f"{address}/predict", json={"examples": ITEMS[:10]}).raise_for_status()
        client.post(f"{address}/predict", json={"examples": ITEMS[:5], **ASKED}).raise_for_status()
        for call in ("predict", "predict-update"):
            answer = client.post(f"{address}/{call}", json={"examples": ITEMS[:6], **ASKED})
            refused(answer, 413, "batch_too_large")
