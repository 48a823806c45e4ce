"""Probabilities over HTTP: those of core, bit for bit, wherever and however often they are asked for."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.support.cases import for_each

import manylabel_core as core
from manylabel_core.rows import as_rows, as_targets
from manylabel_service.api import schemas

LABELS = ["rock", "jazz", "folk"]
KEY = {"Idempotency-Key": "k"}
NDJSON = {"Content-Type": "application/x-ndjson"}
ASKED = {"probabilities": True}
SPEC: dict[str, Any] = {"features": 4, "labels": LABELS}

rng = np.random.default_rng(7)
X = rng.normal(size=(60, 4)).round(3).astype(np.float32)
Y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 3)) > 0).astype(np.uint8)
ITEMS = [
    {"x": x, "y": [label for label, relevant in zip(LABELS, y, strict=True) if relevant]}
    for x, y in zip(X.tolist(), Y, strict=True)
]


def in_core(learner: Any) -> list[dict[str, float]]:
    """The probabilities of each row before it is learnt."""
    learner.pipeline.grow(4, 3)
    learnt = learner.pipeline.learn(as_rows(X, "float32")[0], as_targets(Y, None), probabilities=True)
    return [dict(zip(LABELS, row, strict=True)) for row in learnt.probabilities.tolist()]


def shown(answer: Any) -> list[dict[str, float]]:
    assert answer.status_code == 200, answer.text
    document = answer.json()
    return [one["probabilities"] for one in document.get("predictions", [document])]


def told(answer: Any) -> dict[str, Any]:
    """An answer but for how long a busy machine had kept the store waiting."""
    assert answer.status_code == 200, answer.text
    return {part: value for part, value in answer.json().items() if part != "stale_seconds"}


@pytest.fixture
def model(client: TestClient, create: Callable[..., str]) -> Iterator[str]:
    address = create(client, "declared", **SPEC)
    yield address
    client.delete(address)


class TestSameAsCore:
    def test_before_learning_and_after(self, client: TestClient, model: str) -> None:
        address, learner = model, core.FALT()
        due = in_core(learner)
        assert shown(client.post(f"{address}/predict-update", json={"examples": ITEMS, **ASKED})) == due
        now = learner.predict_proba(X)
        asked = client.post(f"{address}/predict", json={"examples": [{"x": item["x"]} for item in ITEMS], **ASKED})
        assert [list(one.values()) for one in shown(asked)] == now.tolist()
        single = client.post(f"{address}/predict", json={"x": ITEMS[3]["x"], **ASKED})
        assert list(shown(single)[0].values()) == now[3].tolist()
        schemas.PredictBatchResponse.model_validate_json(asked.content, strict=True)
        schemas.PredictResponse.model_validate_json(single.content, strict=True)

    def test_one_by_one_and_as_a_stream(self, client: TestClient, model: str, create: Callable[..., str]) -> None:
        due = in_core(core.FALT())
        single = [client.post(f"{model}/predict-update", json={**item, **ASKED}) for item in ITEMS]
        assert [shown(answer)[0] for answer in single] == due
        schemas.PredictUpdateResponse.model_validate_json(single[-1].content, strict=True)

        streamed = create(client, "streamed", **SPEC)
        lines = b"\n".join(json.dumps(item).encode() for item in ITEMS)
        answer = client.post(f"{streamed}/stream?probabilities=true&from=3", content=lines, headers=NDJSON)
        documents = [json.loads(line) for line in answer.content.splitlines()]
        assert [document["probabilities"] for document in documents] == due
        assert [document["line"] for document in documents] == list(range(3, 63))
        schemas.LineLearnt.model_validate(documents[0])


class TestNotAsked:
    @pytest.mark.parametrize("call", ["predict", "predict-update"])
    def test_not_a_byte_more(self, client: TestClient, create: Callable[..., str], call: str) -> None:
        plain, denied = create(client, "plain", **SPEC), create(client, "denied", **SPEC)
        for body in (ITEMS[0], ITEMS[1], {"examples": ITEMS}):
            first, second = (
                client.post(f"{address}/{call}", json={**body, **flag})
                for address, flag in ((plain, {}), (denied, {"probabilities": False}))
            )
            assert list(told(first).items()) == list(told(second).items())
            assert b"probabilities" not in first.content
            assert b"probabilities" not in second.content
        lines = json.dumps(ITEMS[0]).encode()
        streams = [
            client.post(f"{address}/stream{query}", content=lines, headers=NDJSON).content
            for address, query in ((plain, ""), (denied, "?probabilities=false"))
        ]
        assert streams[0] == streams[1]
        for address in (plain, denied):
            client.delete(address)

    def test_a_model_that_has_none_can_say_no(self, client: TestClient, create: Callable[..., str]) -> None:
        address = create(client, "uncalibrated", params={"calibrate": False})
        for call in ("predict", "predict-update"):
            item = {"x": {"a": 1}, "y": ["p"], "probabilities": False}
            assert client.post(f"{address}/{call}", json=item).status_code == 200
        client.delete(address)


class TestRefused:
    @for_each("call", ["predict", "predict-update"])
    @for_each("value", ["true", 1, None, {}])
    def test_what_is_neither_true_nor_false(
        self, client: TestClient, model: str, refused: Callable[..., Any], call: str, value: Any
    ) -> None:
        for body in (ITEMS[0], {"examples": ITEMS}):
            answer = client.post(f"{model}/{call}", json={**body, "probabilities": value})
            problem = refused(answer, 422, "invalid_request", "/probabilities")
            assert "true or false" in problem["detail"]
        assert client.get(model).json()["updates"] == 0

    def test_where_it_does_not_stand(self, client: TestClient, model: str, refused: Callable[..., Any]) -> None:
        refused(client.post(f"{model}/update", json={**ITEMS[0], **ASKED}), 422, "invalid_request", "/probabilities")
        for call in ("predict", "predict-update"):
            answer = client.post(f"{model}/{call}", json={"examples": [{**ITEMS[0], **ASKED}]})
            refused(answer, 422, "invalid_request", "/examples/0/probabilities")
        answer = client.post(f"{model}/predict?probabilities=true", json=ITEMS[0])
        refused(answer, 422, "invalid_request", "probabilities")
        for query in ("probabilities=1", "probabilities=true&probabilities=true"):
            answer = client.post(f"{model}/stream?{query}", content=b"", headers=NDJSON)
            refused(answer, 422, "invalid_request", "probabilities")

    def test_of_a_model_that_has_none(
        self, client: TestClient, create: Callable[..., str], refused: Callable[..., Any]
    ) -> None:
        address = create(client, "uncalibrated", params={"calibrate": False})
        for call in ("predict", "predict-update"):
            for body in (ITEMS[0], {"examples": ITEMS}):
                answer = client.post(f"{address}/{call}", json={**body, **ASKED}, headers=KEY)
                problem = refused(answer, 422, "invalid_request", "/probabilities")
                assert "this model has no probabilities" in problem["detail"]
        answer = client.post(f"{address}/stream?probabilities=true", content=b"", headers=NDJSON)
        refused(answer, 422, "invalid_request", "probabilities")
        assert client.get(address).json()["updates"] == 0
        client.delete(address)

    def test_too_large_an_answer(
        self, serve: Callable[..., Any], create: Callable[..., str], refused: Callable[..., Any]
    ) -> None:
        """A probability is as large as a score."""
        with serve(max_response_scores=30) as client:
            address = create(client, "m", **SPEC)
            client.post(f"{address}/predict", json={"examples": ITEMS[:10]}).raise_for_status()
            client.post(f"{address}/predict", json={"examples": ITEMS[:5], **ASKED}).raise_for_status()
            for call in ("predict", "predict-update"):
                answer = client.post(f"{address}/{call}", json={"examples": ITEMS[:6], **ASKED})
                assert "a batch can have at most about 5 examples" in refused(answer, 413, "batch_too_large")["detail"]
