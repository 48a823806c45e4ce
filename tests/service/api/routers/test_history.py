"""GET /v1/models/{name}/log, forks, and rollbacks to any position or time."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.service.api.answers import create, ok, refused
from tests.support.audited import audited

from manylabel_service.api.routers.history import HistoryEntry


def update(client: TestClient, model: str, *examples: Any, **headers: str) -> dict[str, Any]:
    return dict(ok(client.post(f"{model}/update", json={"examples": examples}, headers=headers)))


def log(client: TestClient, model: str, **query: Any) -> list[dict[str, Any]]:
    answer = client.get(f"{model}/log", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = answer.text.splitlines()
    for line in lines:
        HistoryEntry.model_validate_json(line)
    return [json.loads(line) for line in lines]


def names(client: TestClient) -> list[str]:
    return [model["name"] for model in client.get("/v1/models").json()["models"]]


def filled(client: TestClient, model: str) -> list[str]:
    """Make log entries of each kind; return their positions."""
    group = {"name": "g", "labels": ["p", "r"], "choose": "at_most_one"}
    two = [{"x": {"a": 1, "b": 0.5}, "y": ["p", "q"]}, {"x": {"a": 2}, "y": {"p": False}, "weight": 2.0}]
    answers = [update(client, model, *two, **{"Idempotency-Key": "k-1"})]
    for method, path, body in (
        ("PATCH", "labels", {"labels": {"q": {"title": "Queue"}}}),
        ("POST", "labels/rename", {"label": "q", "to": "r"}),
        ("PUT", "groups", {"groups": [group], "parents": {"s": "p"}}),
        ("POST", "update", {"x": {"c": 3}, "y": ["p"]}),
        ("POST", "rollback", {"position": answers[0]["position"]}),
    ):
        answers.append(ok(client.request(method, f"{model}/{path}", json=body)))
    return [answer["position"] for answer in answers]


def test_the_log_has_a_line_for_each_entry(client: TestClient, model: str) -> None:
    positions = filled(client, model)
    lines = log(client, model)
    assert [line["position"] for line in lines] == positions
    times = [datetime.fromisoformat(line.pop("time")) for line in lines]
    assert times == sorted(times)
    group = {"name": "g", "labels": ["p", "r"], "choose": "at_most_one"}
    two = [{"x": {"a": 1.0, "b": 0.5}, "y": ["p", "q"]}, {"x": {"a": 2.0}, "y": {"p": False}, "weight": 2.0}]
    assert lines[1]["labels"]["q"]["title"] == "Queue"
    lines[1].pop("labels")
    assert [{name: value for name, value in line.items() if name != "position"} for line in lines] == [
        {"kind": "update", "examples": two, "idempotency_key": "k-1"},
        {"kind": "describe"},
        {"kind": "label", "label": "q", "change": "renamed", "to": "r"},
        {"kind": "groups", "groups": [group], "parents": {"s": "p"}},
        {"kind": "update", "examples": [{"x": {"c": 3.0}, "y": ["p"]}]},
        {"kind": "rollback", "to": positions[0]},
    ]


def test_the_log_teaches_another_model_the_same(client: TestClient, model: str) -> None:
    for i in range(20):
        update(client, model, {"x": {f"w{i % 3}": 0.1 * i, "v": -1.5}, "y": [f"t{i % 2}"]})
    other = create(client, "other")
    for line in log(client, model):
        update(client, other, *line["examples"])
    wanted = {"examples": [{"x": {"w1": 1, "v": 2}}]}
    one, two = (client.post(f"{address}/predict", json=wanted).json()["predictions"] for address in (model, other))
    assert one == two
    client.delete(other)


def test_a_part_of_the_log_is_read(client: TestClient, model: str) -> None:
    positions = filled(client, model)

    def found(**query: Any) -> list[str]:
        return [line["position"] for line in log(client, model, **query)]

    assert found(limit=2) == positions[:2]
    assert found(limit=2, **{"from": positions[1]}) == positions[2:4]
    assert found(**{"from": positions[-1]}) == []
    assert found(to=positions[2]) == positions[:3]
    assert found(to=positions[2], **{"from": positions[2]}) == []
    times = {line["position"]: line["time"] for line in log(client, model)}
    since, until = times[positions[1]], times[positions[4]]
    assert found(to=until, **{"from": since}) == [p for p in positions if since <= times[p] <= until]
    assert found(**{"from": "2020-01-01T00:00:00Z"}) == positions, "nothing is missing before the first"


@pytest.mark.parametrize(
    ("query", "status", "code", "place"),
    [
        ({"from": "x"}, 422, "invalid_request", "from"),
        ({"from": "2026-11-27T10:00:00"}, 422, "invalid_request", "from"),
        ({"to": ""}, 422, "invalid_request", "to"),
        ({"limit": "0"}, 422, "invalid_request", "limit"),
        ({"limit": "10001"}, 422, "invalid_request", "limit"),
        ({"after": "1"}, 422, "invalid_request", "after"),
        ({"from": "999999"}, 404, "position_not_found", None),
        ({"to": "1-2-3"}, 404, "position_not_found", None),
        ({"to": "1999-01-01T00:00:00Z"}, 410, "before_history", None),
    ],
)
def test_bad_parameters_of_the_log_are_refused(
    client: TestClient, model: str, query: dict[str, str], status: int, code: str, place: str | None
) -> None:
    update(client, model, {"x": {"a": 1}, "y": ["p"]})
    refused(client.get(f"{model}/log", params=query), status, code, *([] if place is None else [place]))


def test_reading_the_log_is_audited(serve: Callable[..., Any]) -> None:
    with serve() as client:
        address = create(client, "tags")
        position = update(client, address, {"x": {"a": 1}, "y": ["p"]})["position"]
        log(client, address)
        newest = audited(client)[-1]
        assert (newest["method"], newest["route"], newest["position"]) == ("GET", "/v1/models/{name}/log", position)


def test_a_rollback_goes_to_a_position_or_a_time(client: TestClient, model: str) -> None:
    positions = [update(client, model, {"x": {"a": i, "b": 1}, "y": [f"l{i % 3}"]})["position"] for i in range(6)]
    answer = client.post(f"{model}/rollback", json={"position": positions[4]})
    assert (answer.status_code, answer.json()["rolled_back_to"]) == (200, positions[4])
    assert answer.json()["updates"] == 5
    times = {line["position"]: line["time"] for line in log(client, model)}
    moment = times[positions[3]]
    assert times[ok(client.post(f"{model}/rollback", json={"time": moment}))["rolled_back_to"]] == moment
    client.post(f"{model}/rollback", json={"position": "0"}).raise_for_status()
    assert client.get(model).json()["updates"] == 0


def test_a_fork_has_the_state_of_the_other_model(client: TestClient, model: str) -> None:
    wanted = {"examples": [{"x": {"a": 1, "b": 1}}]}
    then = []
    for i in range(5):
        position = update(client, model, {"x": {"a": i, "b": 1}, "y": [f"l{i % 3}"]})["position"]
        then.append((position, client.post(f"{model}/predict", json=wanted).json()["predictions"]))
    time = log(client, model)[-1]["time"]
    for at, place in ((then[2][0], 2), (time, 4), (None, 4)):
        answer = client.post("/v1/models", json={"name": "fork", "fork": {"model": "test", "at": at}})
        assert answer.status_code == 201, answer.text
        assert answer.headers["location"] == "/v1/models/fork"
        assert (answer.json()["name"], answer.json()["updates"]) == ("fork", place + 1)
        assert client.post("/v1/models/fork/predict", json=wanted).json()["predictions"] == then[place][1]
        update(client, "/v1/models/fork", {"x": {"z": 1}, "y": ["new"]})
        assert "new" not in str(client.post(f"{model}/predict", json=wanted).json())
        client.delete("/v1/models/fork").raise_for_status()


@pytest.mark.parametrize(
    ("body", "status", "code", "place"),
    [
        ({"fork": {"model": "test", "at": "x"}}, 422, "invalid_request", "/fork/at"),
        ({"fork": {"model": "test", "at": 3}}, 422, "invalid_request", "/fork/at"),
        ({"fork": {"at": "1"}}, 422, "invalid_request", "/fork/model"),
        ({"fork": {"model": "test", "from": "1"}}, 422, "invalid_request", "/fork/from"),
        ({"fork": {"model": "test"}, "algorithm": "falt"}, 422, "invalid_request", "/algorithm"),
        ({"fork": {"model": "nobody"}}, 404, "model_not_found", None),
        ({"fork": {"model": "test", "at": "999999"}}, 404, "position_not_found", None),
        ({"fork": {"model": "test", "at": "1999-01-01T00:00:00Z"}}, 410, "before_history", None),
        ({"fork": {"model": "test"}, "name": "test"}, 409, "model_exists", None),
    ],
)
def test_a_bad_fork_is_refused(
    client: TestClient, model: str, body: dict[str, Any], status: int, code: str, place: str | None
) -> None:
    update(client, model, {"x": {"a": 1}, "y": ["p"]})
    before = names(client)
    answer = client.post("/v1/models", json={"name": "fork", **body})
    refused(answer, status, code, *([] if place is None else [place]))
    assert names(client) == before


def test_positions_before_the_history_are_refused(serve: Callable[..., Any]) -> None:
    with serve(history_bytes=0, snapshot_retention_count=1) as client:
        address = create(client, "tags")
        first = update(client, address, {"x": {"a": 1}, "y": ["p"]})["position"]
        for _ in range(3):
            update(client, address, {"x": {"a": 1}, "y": ["p"]})
            client.post(f"{address}/snapshots").raise_for_status()
        told = refused(client.get(f"{address}/log", params={"from": first}), 410, "before_history")
        assert "begins after position" in told["detail"]
        snapshots = client.get(f"{address}/snapshots").json()["snapshots"]
        oldest = min(int(line["position"]) for line in log(client, address))
        assert oldest > int(first)
        assert len(snapshots) == 1
        refused(client.post(f"{address}/rollback", json={"position": "0"}), 410, "before_history")
        fork = {"name": "f", "fork": {"model": "tags", "at": first}}
        refused(client.post("/v1/models", json=fork), 410, "before_history")
