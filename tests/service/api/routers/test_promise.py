"""A promise of precision over HTTP: set with a model and later, shown with predictions, and refused at its place."""

from typing import Any

import numpy as np
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, pointer, stream
from tests.support.cases import for_each

EASY = {"precision": 0.8, "settled": 0.7, "missed": 0.05, "audit_rate": 0.0}
LABELS = "pqr"
JSON = {"Content-Type": "application/json"}


def items(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Examples of three labels that a feature each tells."""
    told = np.random.default_rng(seed).random((n, len(LABELS))) < 0.3
    return [
        {
            "x": {f"x{name}": float(on) for name, on in zip(LABELS, row, strict=True)},
            "y": [name for name, on in zip(LABELS, row, strict=True) if on],
        }
        for row in told
    ]


def teach(client: TestClient, address: str, n: int = 300) -> None:
    client.post(f"{address}/update", json={"examples": items(n)}).raise_for_status()


def test_a_promise_is_set_with_a_model_and_changed_later(client: TestClient) -> None:
    address = create(client, "promising", promise=EASY)
    assert client.get(address).json()["promise"] == EASY
    teach(client, address)
    batch = {"examples": [{"x": item["x"]} for item in items(50, seed=1)]}
    predictions = client.post(f"{address}/predict", json=batch).json()["predictions"]
    assert sum(len(one["auto"]) for one in predictions) > 20
    assert False in [one["review"] for one in predictions]
    assert all(set(one["auto"]) <= set(one["labels"]) for one in predictions)
    x = next(item["x"] for item, one in zip(batch["examples"], predictions, strict=True) if one["auto"] == ["q"])
    for wanted, auto in ({"only": ["q"]}, ["q"]), ({"except": ["q"]}, []):
        assert client.post(f"{address}/predict", json={"x": x, **wanted}).json()["auto"] == auto
    assert client.post(f"{address}/predict-update", json=items(1, seed=3)[0]).json().keys() >= {"auto", "review"}
    (line,) = stream(client, address, [{"x": {"xp": 1}, "y": ["p"]}])
    assert "auto" in line

    account = client.get(f"{address}/metrics").json()["promise"]
    assert account["gate"]["state"] == "open"
    assert account["total"]["applied"] == sum(one["applied"] for one in account["labels"]) > 50
    assert account["total"]["examples"] == 302

    ok(client.put(f"{address}/promise", json={"precision": 0.99}))
    full = {"precision": 0.99, "settled": 0.9, "missed": 0.02, "audit_rate": 0.05}
    assert client.get(address).json()["promise"] == full
    assert client.put(f"{address}/promise", content="null", headers=JSON).status_code == 200
    assert client.get(address).json()["promise"] is None
    assert "auto" not in client.post(f"{address}/predict", json={"x": {"xp": 1.0}}).json()


def test_delayed_labels_count_what_was_served(client: TestClient) -> None:
    address = create(client, "promising-late", promise=EASY)
    teach(client, address)
    kept = client.post(f"{address}/predict?keep=true", json={"x": {"xp": 1.0, "xq": 0.0, "xr": 0.0}}).json()
    assert kept["auto"] == ["p"]
    before = client.get(f"{address}/metrics").json()["promise"]["total"]
    for y in ({"p": False}, {"q": True}):
        client.post(f"{address}/labels", json={"id": kept["id"], "y": y}).raise_for_status()
    after = client.get(f"{address}/metrics").json()["promise"]["total"]
    assert [after[field] - before[field] for field in ("applied", "wrong", "true")] == [1, 1, 1]


@for_each(
    ("body", "place"),
    [
        ({"precision": 1}, "/precision"),
        ({"precision": "high"}, "/precision"),
        ({}, "/precision"),
        ({**EASY, "settled": 1.0}, "/settled"),
        ({**EASY, "missed": 0.0}, "/missed"),
        ({**EASY, "audit_rate": -0.1}, "/audit_rate"),
        ({**EASY, "recall": 0.5}, "/recall"),
        ([], ""),
    ],
)
def test_a_bad_promise_is_refused_at_its_place(client: TestClient, model: str, body: Any, place: str) -> None:
    before = client.get(model).json()
    assert pointer(client.put(f"{model}/promise", json=body)) == place
    assert client.get(model).json() == before
    created = client.post("/v1/models", json={"name": "never-made", "algorithm": "falt", "promise": body})
    assert pointer(created) == f"/promise{place}"
    assert client.get("/v1/models/never-made").status_code == 404


def test_a_model_without_probabilities_cannot_have_a_promise(client: TestClient) -> None:
    spec = {"name": "uncalibrated", "algorithm": "falt", "params": {"calibrate": False}}
    assert pointer(client.post("/v1/models", json={**spec, "promise": EASY})) == "/promise"
    address = create(client, "uncalibrated", params={"calibrate": False})
    assert pointer(client.put(f"{address}/promise", json=EASY)) == ""
    assert client.put(f"{address}/promise", content="null", headers=JSON).status_code == 200


def test_the_review_queue_lists_predictions_that_need_review(client: TestClient) -> None:
    address = create(client, "promising-queue")
    xs = [{"x": {k: v + n / 1000 for k, v in item["x"].items()}} for n, item in enumerate(items(40, seed=2))]
    client.post(f"{address}/predict?keep=true", json=xs[0]).raise_for_status()
    client.put(f"{address}/promise", json={**EASY, "audit_rate": 0.4}).raise_for_status()
    teach(client, address)
    kept = client.post(f"{address}/predict?keep=true", json={"examples": xs}).json()["predictions"]
    due = {one["id"]: one["auto"] for one in kept if one["review"]}
    assert 0 < len(due) < 40
    listed = client.get(f"{address}/predictions", params={"order": "review", "limit": 100}).json()["predictions"]
    assert {one["id"]: one["auto"] for one in listed if "auto" in one} == due
    assert len(listed) == len(due) + 1
    assert all(one.get("review", True) for one in listed)
    uncertain = [one["uncertainty"] for one in listed]
    assert uncertain == sorted(uncertain, reverse=True)
    everything = client.get(f"{address}/predictions", params={"limit": 100}).json()
    assert len(everything["predictions"]) == 41
