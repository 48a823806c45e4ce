"""The past of the measures: each point is what `metrics` answered then, whatever happened since."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from manylabel_service.api import schemas

WINDOW = 20
ITEMS = [
    {
        "x": {"a": n % 7 - 3, "b": n % 3, "c": 1},
        "y": [name for name, m in (("p", 2), ("q", 3), ("r", 50)) if n % m == 0],
    }
    for n in range(1, 301)
]


def history(client: TestClient, address: str, query: str = "") -> dict[str, Any]:
    answer = client.get(f"{address}/metrics/history{query}")
    assert answer.status_code == 200, answer.text
    schemas.MetricsHistory.model_validate_json(answer.content, strict=True)
    found: dict[str, Any] = answer.json()
    return found


def at(past: dict[str, Any], part: str, place: int) -> dict[str, Any]:
    """What `metrics` has in one of its parts, of a point."""
    columns = {name: values for name, values in past[part].items() if name not in ("baseline", "size")}
    row = {name: values[place] for name, values in columns.items()}
    baseline = {name: values[place] for name, values in past[part]["baseline"].items()}
    return {**row, "baseline": baseline, **({"size": WINDOW} if part == "window" else {})}


def with_history(measures: dict[str, Any]) -> dict[str, Any]:
    """What `metrics` has in one of its parts, without the measures at a depth, which have no history."""
    own = {name: value for name, value in measures.items() if "_at_" not in name}
    return {**own, "baseline": {name: value for name, value in own["baseline"].items() if "_at_" not in name}}


def of_label(client: TestClient, address: str, name: str) -> dict[str, Any]:
    listed = client.get(f"{address}/labels").json()["labels"]
    (found,) = [{part: one[part] for part in ("cumulative", "window")} for one in listed if one["label"] == name]
    return found


def test_each_point_is_what_was_answered_then(client: TestClient, create: Callable[..., str]) -> None:
    address = create(client, "past-1", window=WINDOW)
    assert history(client, address)["examples"] == []
    measured, labels = {}, {}
    for number, item in enumerate(ITEMS, 1):
        client.post(f"{address}/update", json=item).raise_for_status()
        if number < 3 or number % 16 == 0:
            measured[number] = client.get(f"{address}/metrics").json()
            labels[number] = of_label(client, address, "q") if number >= 3 else None
    past = history(client, address, "?label=q&label=r")
    now = client.get(f"{address}/metrics").json()
    assert (past["stride"], past["updates"], past["position"]) == (2, 300, now["position"])
    assert past["examples"] == list(range(2, 301, 2))
    for place, number in enumerate(past["examples"]):
        if number in measured:
            for part in ("cumulative", "window"):
                assert at(past, part, place) == with_history(measured[number][part])
    for part in ("cumulative", "window"):
        assert at(past, part, -1) == with_history(now[part])
    assert set(past["labels"]) == {"q", "r"}
    q = past["labels"]["q"]
    assert (q["stride"], q["examples"]) == (16, [*range(16, 301, 16), 300])
    for place, number in enumerate(q["examples"][:-1]):
        for part in ("cumulative", "window"):
            assert {name: column[place] for name, column in q[part].items()} == labels[number][part]
    for part in ("cumulative", "window"):
        assert {name: column[-1] for name, column in q[part].items()} == of_label(client, address, "q")[part]
    assert past["labels"]["r"]["cumulative"]["recall"][0] is None, "it did not exist yet"


def test_what_is_refused(client: TestClient, create: Callable[..., str], refused: Callable[..., Any]) -> None:
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
def test_a_label_without_examples(client: TestClient, create: Callable[..., str], declared: bool) -> None:
    address = create(client, f"past-9-{declared}".lower(), **({"labels": ["p", "q", "r", "s"]} if declared else {}))
    if not declared:
        client.post(f"{address}/update", json={"x": {"a": 1}, "y": {"s": False}}).raise_for_status()
    past = history(client, address, "?label=s")["labels"]["s"]
    assert past["examples"] == ([] if declared else [1])
    assert past["window"]["f1"] == ([] if declared else [None])
