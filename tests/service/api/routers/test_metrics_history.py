"""History of metrics: each point has the values that `metrics` had at that time."""

from typing import Any

from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused

WINDOW = 20
ITEMS = [
    {
        "x": {"a": n % 7 - 3, "b": n % 3, "c": 1},
        "y": [name for name, m in (("p", 2), ("q", 3), ("r", 50)) if n % m == 0],
    }
    for n in range(1, 301)
]


def history(client: TestClient, address: str) -> dict[str, Any]:
    return dict(ok(client.get(f"{address}/metrics/history")))


def test_the_last_point_has_the_current_metrics(client: TestClient) -> None:
    address = create(client, "past-1", window=WINDOW)
    assert history(client, address)["examples"] == []
    client.post(f"{address}/update", json={"examples": ITEMS}).raise_for_status()
    past = history(client, address)
    now = client.get(f"{address}/metrics").json()
    assert (past["stride"], past["updates"], past["position"]) == (2, 300, now["position"])
    assert past["examples"] == list(range(2, 301, 2))
    assert past["window"]["size"] == WINDOW
    for part in ("cumulative", "window"):
        for found, told in ((past[part], now[part]), (past[part]["baseline"], now[part]["baseline"])):
            columns = {name: values[-1] for name, values in found.items() if name not in ("baseline", "size")}
            assert columns == {name: told[name] for name in columns}


def test_bad_requests_are_refused(client: TestClient) -> None:
    address = create(client, "past-8")
    client.post(f"{address}/update", json=ITEMS[5]).raise_for_status()
    path = f"{address}/metrics/history"
    refused(client.get("/v1/models/nobody/metrics/history"), 404, "model_not_found")
    refused(client.get(f"{path}?version=1"), 409, "model_is_online")
    refused(client.get(f"{path}?version=1&version=1"), 422, "invalid_request", "version")
    refused(client.get(f"{path}?label=p"), 422, "invalid_request", "label")
