"""How often probabilities came true: counted by what was answered before each example was learnt."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from manylabel_service.api import schemas

N_BINS = 20
ITEMS = [
    {
        "x": {"a": n % 7 - 3, "b": n % 3, "c": 1},
        "y": [name for name, m in (("p", 2), ("q", 3), ("r", 50)) if n % m == 0],
    }
    for n in range(1, 121)
]
MIXED = [
    {"x": item["x"], "y": {"p": "p" in item["y"]}, "weight": 2.5} if n % 4 == 0 else item
    for n, item in enumerate(ITEMS)
]


def reliability(client: TestClient, address: str) -> dict[str, Any]:
    answer = client.get(f"{address}/metrics/reliability")
    assert answer.status_code == 200, answer.text
    schemas.Reliability.model_validate_json(answer.content, strict=True)
    found: dict[str, Any] = answer.json()
    return found


def learn(client: TestClient, address: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The probabilities answered for each, just before it was learnt."""
    given = client.post(f"{address}/predict-update", json={"examples": items, "probabilities": True})
    given.raise_for_status()
    return [one["probabilities"] for one in given.json()["predictions"]]


def counted(found: dict[str, Any]) -> float:
    return float(sum(each["count"] for each in found["bins"]))


def due(items: list[dict[str, Any]], answered: list[dict[str, float]]) -> dict[str, Any]:
    """What the bins have to say, by probabilities as a client gets them."""
    sums = [[0.0, 0.0, 0.0, 0.0] for _ in range(N_BINS)]
    names: set[str] = set()
    for item, probabilities in zip(items, answered, strict=True):
        y = item["y"]
        names.update(y)
        truth = y if isinstance(y, dict) else {name: name in y for name in names}
        for name, true in truth.items():
            likely = probabilities.get(name, 0.0)
            own = sums[min(int(likely * N_BINS), N_BINS - 1)]
            for place, value in enumerate((1, true, likely, (likely - true) ** 2)):
                own[place] += item.get("weight", 1) * value
    total = sum(own[0] for own in sums)
    return {
        "bins": [
            {
                "from": place / N_BINS,
                "to": (place + 1) / N_BINS,
                "count": number,
                "mean_probability": pytest.approx(likely / number) if number else None,
                "share_true": pytest.approx(true / number) if number else None,
            }
            for place, (number, true, likely, _) in enumerate(sums)
        ],
        "expected_calibration_error": pytest.approx(sum(abs(own[1] - own[2]) for own in sums) / total),
        "brier_score": pytest.approx(sum(own[3] for own in sums) / total),
    }


@pytest.mark.parametrize("params", [{}, {"optimise": "none"}, {"optimise": "macro_f1", "drift": "adwin"}])
def test_it_counts_what_a_client_was_answered(
    client: TestClient, create: Callable[..., str], params: dict[str, Any]
) -> None:
    address = create(client, f"sure-1-{params.get('optimise', 'default')}".replace("_", "-"), params=params)
    empty = reliability(client, address)
    assert (empty["expected_calibration_error"], empty["brier_score"], empty["updates"]) == (None, None, 0)
    assert {(each["count"], each["mean_probability"], each["share_true"]) for each in empty["bins"]} == {
        (0, None, None)
    }
    answered: list[dict[str, float]] = []
    for begin in range(0, len(MIXED), 7):
        answered += learn(client, address, MIXED[begin : begin + 7])
    found = reliability(client, address)
    now = client.get(f"{address}/metrics").json()
    assert found == {**due(MIXED, answered), "position": now["position"], "updates": len(MIXED)}


def test_late_labels_count_by_the_probabilities_of_then(client: TestClient, create: Callable[..., str]) -> None:
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


def test_what_is_refused(client: TestClient, create: Callable[..., str], refused: Callable[..., Any]) -> None:
    refused(client.get("/v1/models/nobody/metrics/reliability"), 404, "model_not_found")
    known = create(client, "sure-10")
    refused(client.get(f"{known}/metrics/reliability?label=none"), 404, "label_not_found")
    refused(client.get(f"{known}/metrics/reliability?label=p&label=q"), 422, "invalid_request", "label")
    plain = create(client, "sure-9", params={"calibrate": False, "optimise": "none"})
    client.post(f"{plain}/update", json=ITEMS[5]).raise_for_status()
    problem = refused(client.get(f"{plain}/metrics/reliability"), 422, "invalid_request")
    assert "has no probabilities" in problem["detail"]
