"""Reliability of probabilities: counts of what was predicted before each example was learnt."""

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused

N_BINS = 20
ITEMS = [
    {
        "x": {"a": n % 7 - 3, "b": n % 3, "c": 1},
        "y": [name for name, m in (("p", 2), ("q", 3), ("r", 50)) if n % m == 0],
    }
    for n in range(1, 121)
]


def reliability(client: TestClient, address: str) -> dict[str, Any]:
    return dict(ok(client.get(f"{address}/metrics/reliability")))


def learn(client: TestClient, address: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the probabilities of each example, predicted just before it was learnt."""
    given = client.post(f"{address}/predict-update", json={"examples": items, "probabilities": True})
    given.raise_for_status()
    return [one["probabilities"] for one in given.json()["predictions"]]


def counted(found: dict[str, Any]) -> float:
    return float(sum(each["count"] for each in found["bins"]))


def test_it_counts_the_probabilities_that_a_client_received(client: TestClient) -> None:
    address = create(client, "sure-1")
    empty = reliability(client, address)
    assert (empty["expected_calibration_error"], empty["brier_score"], empty["updates"]) == (None, None, 0)
    assert {(each["count"], each["mean_probability"], each["share_true"]) for each in empty["bins"]} == {
        (0, None, None)
    }
    assert [each["to"] for each in empty["bins"]] == [place / N_BINS for place in range(1, N_BINS + 1)]
    answered = learn(client, address, ITEMS[:12]) + learn(client, address, ITEMS[12:])
    found = reliability(client, address)
    assert (found["position"], found["updates"]) == (client.get(address).json()["position"], len(ITEMS))
    losses, known = [], set[str]()
    for item, probabilities in zip(ITEMS, answered, strict=True):
        known.update(item["y"])
        losses += [(probabilities.get(name, 0.0) - (name in item["y"])) ** 2 for name in known]
    assert counted(found) == len(losses)
    assert found["brier_score"] == pytest.approx(sum(losses) / len(losses))


def test_delayed_labels_count_with_the_stored_probabilities(client: TestClient) -> None:
    address = create(client, "sure-5")
    learn(client, address, ITEMS[:60])
    x = ITEMS[60]["x"]
    kept = [client.post(f"{address}/predict?keep=true", json={"x": x}).json()["id"] for _ in range(2)]
    learn(client, address, ITEMS[61:])
    truth = {"p": True, "q": False, "r": False}
    tellings = [(kept[0], ["p"], truth), *((kept[1], {name: truth[name]}, [name]) for name in truth)]
    for id, y, told in tellings:
        before = reliability(client, address)
        now = client.post(f"{address}/predict", json={"x": x, "probabilities": True}).json()["probabilities"]
        client.post(f"{address}/labels", json={"id": id, "y": y}).raise_for_status()
        after = reliability(client, address)
        assert counted(after) == counted(before) + len(told)
        added = after["brier_score"] * counted(after) - before["brier_score"] * counted(before)
        assert added == pytest.approx(sum((now[name] - truth[name]) ** 2 for name in told), abs=1e-12)


def test_bad_requests_are_refused(client: TestClient) -> None:
    refused(client.get("/v1/models/nobody/metrics/reliability"), 404, "model_not_found")
    known = create(client, "sure-10")
    refused(client.get(f"{known}/metrics/reliability?label=none"), 404, "label_not_found")
    refused(client.get(f"{known}/metrics/reliability?label=p&label=q"), 422, "invalid_request", "label")
    plain = create(client, "sure-9", params={"calibrate": False, "optimise": "none"})
    client.post(f"{plain}/update", json=ITEMS[5]).raise_for_status()
    problem = refused(client.get(f"{plain}/metrics/reliability"), 422, "invalid_request")
    assert "has no probabilities" in problem["detail"]
