"""Weights of examples over HTTP: learnt as core learns them by every call, logged and measured."""

from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import new_model, ok, taught_by_every_call
from tests.support.cases import for_each

from manylabel_core import FALT
from manylabel_core.rows import as_rows, as_targets
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.state.log_entries import Update, decode, encode

LABELS = ["a", "b"]
SPEC: dict[str, Any] = {"features": 3, "labels": LABELS}

rng = np.random.default_rng(3)
X = rng.normal(size=(30, 3)).round(2).astype(np.float32)
Y = (X[:, :2] + rng.normal(size=(30, 2)) > 0).astype(int)
WEIGHTS = [float(w) for w in rng.choice([1.0, 0.25, 7.5, 1000.0], 30)]
ITEMS = [
    {"x": x, "y": [label for label, relevant in zip(LABELS, y, strict=True) if relevant], "weight": weight}
    for x, y, weight in zip(X.tolist(), Y, WEIGHTS, strict=True)
]


def facts(client: TestClient, address: str) -> Any:
    """Predictions and metrics, which are the same for models that have learnt the same."""
    asked = {"examples": [{"x": x} for x in X.tolist()], "probabilities": True}
    predicted = ok(client.post(f"{address}/predict", json=asked))["predictions"]
    metrics = ok(client.get(f"{address}/metrics"))
    return predicted, metrics["cumulative"], metrics["window"], ok(client.get(f"{address}/labels"))["labels"]


def test_every_call_learns_a_weight_as_core_does(client: TestClient) -> None:
    found = [facts(client, address) for address in taught_by_every_call(client, ITEMS, **SPEC)]
    for each in found[1:]:
        assert each == found[0]

    learner = FALT()
    learner.pipeline.grow(3, 2)
    learner.pipeline.learn(as_rows(X)[0], as_targets(Y)._replace(weights=np.array(WEIGHTS)))
    scores = [list(prediction["scores"].values()) for prediction in found[0][0]]
    assert scores == learner.decision_function(X).tolist()
    plain = new_model(client, **SPEC)
    ok(client.post(f"{plain}/update", json={"examples": [{**item, "weight": 1} for item in ITEMS]}))
    assert facts(client, plain)[0] != found[0][0]


def test_partial_labels_are_measured_with_the_weight_of_the_first_part(client: TestClient) -> None:
    parts, whole = new_model(client, **SPEC), new_model(client, **SPEC)
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
    return encode(Update((Example(x, Labels.all_of(["a"]), weight),)))


@for_each("wrong", [0.0, -1.0, 1001.0, float("nan"), float("inf"), 2, "2", None])
def test_a_log_entry_with_an_invalid_weight_is_damaged(wrong: Any) -> None:
    with pytest.raises(Exception, match="weight"):
        decode(entry(wrong))
