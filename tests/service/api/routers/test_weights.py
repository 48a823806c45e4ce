"""Weights over HTTP: learnt as core learns them, on every path, logged, measured, and refused where they are none."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import ok
from tests.support.cases import for_each

from manylabel_core import FALT
from manylabel_core.rows import as_rows, as_targets
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.state.log_entries import Update, decode, encode

NUMBERS = itertools.count()
LABELS = ["a", "b"]
SPEC: dict[str, Any] = {"features": 3, "labels": LABELS}
NDJSON = {"Content-Type": "application/x-ndjson"}

rng = np.random.default_rng(3)
X = rng.normal(size=(30, 3)).round(2).astype(np.float32)
Y = (X[:, :2] + rng.normal(size=(30, 2)) > 0).astype(int)
WEIGHTS = [float(w) for w in rng.choice([1.0, 0.25, 7.5, 1000.0], 30)]
ITEMS = [
    {"x": x, "y": [label for label, relevant in zip(LABELS, y, strict=True) if relevant], "weight": weight}
    for x, y, weight in zip(X.tolist(), Y, WEIGHTS, strict=True)
]


@pytest.fixture
def made(client: TestClient, create: Callable[..., str]) -> Callable[..., str]:
    return lambda **spec: create(client, f"weighted-{next(NUMBERS)}", **SPEC, **spec)


def facts(client: TestClient, address: str) -> Any:
    """All that is the same of models that have learnt the same."""
    asked = {"examples": [{"x": x} for x in X.tolist()], "probabilities": True}
    predicted = ok(client.post(f"{address}/predict", json=asked))["predictions"]
    metrics = ok(client.get(f"{address}/metrics"))
    return predicted, metrics["cumulative"], metrics["window"], ok(client.get(f"{address}/labels"))["labels"]


def test_every_path_learns_what_core_learns(client: TestClient, made: Callable[..., str]) -> None:
    one, batch, lines, both, late = (made() for _ in range(5))
    for item in ITEMS:
        ok(client.post(f"{one}/update", json=item))
        ok(client.post(f"{both}/predict-update", json=item))
        kept = ok(client.post(f"{late}/predict?keep=true", json={"x": item["x"], "y": item["y"], "weight": 5}))
        truth = {"id": kept["id"], "y": item["y"], "weight": item["weight"]}
        ok(client.post(f"{late}/labels", json=truth))
    ok(client.post(f"{batch}/update", json={"examples": ITEMS}))
    body = b"\n".join(json.dumps(item).encode() for item in ITEMS)
    assert client.post(f"{lines}/stream", content=body, headers=NDJSON).status_code == 200
    found = [facts(client, address) for address in (one, batch, lines, both, late)]
    for each in found[1:]:
        assert each == found[0]

    learner = FALT()
    learner.pipeline.grow(3, 2)
    learner.pipeline.learn(as_rows(X)[0], as_targets(Y)._replace(weights=np.array(WEIGHTS)))
    scores = [list(prediction["scores"].values()) for prediction in found[0][0]]
    assert scores == learner.decision_function(X).tolist()
    plain = made()
    ok(client.post(f"{plain}/update", json={"examples": [{**item, "weight": 1} for item in ITEMS]}))
    assert facts(client, plain)[0] != found[0][0]


@for_each(
    ("wrong", "detail"),
    [
        (0, "must be > 0.0"),
        (-1.5, "must be > 0.0"),
        (1000.01, "must be <= 1000.0"),
        ("2", "must be a number"),
        (True, "must be a number"),
        (None, "must be a number, not null: omit it if it is unknown"),
        ([1], "must be a number"),
    ],
)
@for_each("x", [[1.0, 0.0, 0.0], {"a": "b"}])
def test_what_is_no_weight_is_refused(
    client: TestClient, create: Callable[..., str], wrong: Any, detail: str, x: Any
) -> None:
    address = create(client, f"weighted-{next(NUMBERS)}")
    refused = client.post(f"{address}/update", json={"x": x, "y": [], "weight": wrong})
    assert refused.status_code == 422
    assert refused.json()["errors"] == [{"pointer": "/weight", "detail": detail}]
    batch = {"examples": [{"x": x, "y": []}, {"x": x, "y": [], "weight": wrong}]}
    refused = client.post(f"{address}/predict-update", json=batch)
    assert refused.json()["errors"][0]["pointer"] == "/examples/1/weight"
    for text in ("NaN", "1e999"):
        body = b'{"x": [1], "y": [], "weight": %b}' % text.encode()
        answer = client.post(f"{address}/update", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422)
    assert ok(client.get(address))["updates"] == 0


def test_truth_in_parts_is_measured_by_the_weight_of_the_first(client: TestClient, made: Callable[..., str]) -> None:
    parts, whole = made(), made()
    for address, truths in ((parts, [({"a": True}, 4.0), ({"b": False}, 9.0)]), (whole, [(["a"], 4.0)])):
        ok(client.post(f"{address}/update", json={"examples": ITEMS[:5]}))
        id = ok(client.post(f"{address}/predict?keep=true", json={"x": [1.0, 2.0, 3.0]}))["id"]
        for y, weight in truths:
            ok(client.post(f"{address}/labels", json={"id": id, "y": y, "weight": weight}))
    found, expected = (ok(client.get(f"{address}/metrics"))["cumulative"] for address in (parts, whole))
    for name in ("micro_f1", "hamming_loss", "subset_accuracy"):
        assert found[name] == pytest.approx(expected[name], rel=1e-12)


def entry(weight: float) -> bytes:
    x = Features(None, None, np.array([1.0], dtype=np.float32))
    return encode(Update((Example(x, Labels.all_of(["a"]), weight),), "log"))


@for_each("wrong", [0.0, -1.0, 1001.0, float("nan"), float("inf"), 2, "2", None])
def test_a_log_with_no_weight_is_damaged(wrong: Any) -> None:
    with pytest.raises(Exception, match="weight"):
        decode(entry(wrong))
