"""History of metrics: each point has the values that `metrics` had at that time."""

from typing import Any

import pytest
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


def history(client: TestClient, address: str, query: str = "") -> dict[str, Any]:
    return dict(ok(client.get(f"{address}/metrics/history{query}")))


def of_label(client: TestClient, address: str, name: str) -> dict[str, Any]:
    listed = client.get(f"{address}/labels").json()["labels"]
    (found,) = [{part: one[part] for part in ("cumulative", "window")} for one in listed if one["label"] == name]
    return found


def test_the_last_point_has_the_current_metrics(client: TestClient) -> None:
    address = create(client, "past-1", window=WINDOW)
    assert history(client, address)["examples"] == []
    client.post(f"{address}/update", json={"examples": ITEMS}).raise_for_status()
    past = history(client, address, "?label=q&label=r")
    now = client.get(f"{address}/metrics").json()
    assert (past["stride"], past["updates"], past["position"]) == (2, 300, now["position"])
    assert past["examples"] == list(range(2, 301, 2))
    assert past["window"]["size"] == WINDOW
    for part in ("cumulative", "window"):
        for found, told in ((past[part], now[part]), (past[part]["baseline"], now[part]["baseline"])):
            columns = {name: values[-1] for name, values in found.items() if name not in ("baseline", "size")}
            assert columns == {name: told[name] for name in columns}
    assert set(past["labels"]) == {"q", "r"}
    q = past["labels"]["q"]
    assert (q["stride"], q["examples"]) == (16, [*range(16, 301, 16), 300])
    for part in ("cumulative", "window"):
        assert {name: column[-1] for name, column in q[part].items()} == of_label(client, address, "q")[part]
    assert past["labels"]["r"]["cumulative"]["recall"][0] is None, "it did not exist yet"


def test_bad_requests_are_refused(client: TestClient) -> None:
    address = create(client, "past-8")
    client.post(f"{address}/update", json=ITEMS[5]).raise_for_status()
    path = f"{address}/metrics/history"
    refused(client.get(f"{path}?label=p&label=none"), 404, "label_not_found")
    refused(client.get("/v1/models/nobody/metrics/history"), 404, "model_not_found")
    refused(client.get(f"{path}?version=1"), 409, "model_is_online")
    refused(client.get(f"{path}?version=1&version=1"), 422, "invalid_request", "version")
    refused(client.get(f"{path}?labels=p"), 422, "invalid_request", "labels")
    refused(client.get(path + "?" + "&".join(["label=p"] * 17)), 422, "invalid_request", "label")
    assert history(client, address, "?" + "&".join(["label=p"] * 16))["labels"].keys() == {"p"}


@pytest.mark.parametrize("declared", [False, True])
def test_a_label_without_examples(client: TestClient, declared: bool) -> None:
    address = create(client, f"past-9-{declared}".lower(), **({"labels": ["p", "q", "r", "s"]} if declared else {}))
    if not declared:
        client.post(f"{address}/update", json={"x": {"a": 1}, "y": {"s": False}}).raise_for_status()
    past = history(client, address, "?label=s")["labels"]["s"]
    assert past["examples"] == ([] if declared else [1])
    assert past["window"]["f1"] == ([] if declared else [None])
