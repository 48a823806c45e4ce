"""Snapshots over HTTP: take, list, download, upload, and roll back to one."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.types import Message
from tests.service.api.answers import create, ok, refused
from tests.support.cases import for_each

from manylabel_core.state import State
from manylabel_service.api.translation import uploads
from manylabel_service.api.web import bodies
from manylabel_service.api.web.problems import Problem
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.settings import Settings
from manylabel_service.storage import SQLiteStore

BYTES = {"Content-Type": "application/octet-stream"}
PROBE = {"examples": [{"x": {f"w{i}": 1}} for i in range(6)]}


def teach(client: TestClient, address: str, n: int, label: str = "p") -> dict[str, Any]:
    items = [{"x": {f"w{i % 6}": 1 + i}, "y": [label, f"t{i % 3}"]} for i in range(n)]
    return dict(ok(client.post(f"{address}/update", json={"examples": items})))


def take(client: TestClient, address: str) -> dict[str, Any]:
    answer = client.post(f"{address}/snapshots")
    snapshot = dict(ok(answer, 201))
    assert answer.headers["location"] == f"{address}/snapshots/{snapshot['position']}"
    return snapshot


def predictions(client: TestClient, address: str) -> Any:
    return client.post(f"{address}/predict", json=PROBE).json()["predictions"]


def test_a_snapshot_is_taken_listed_and_downloaded(client: TestClient, model: str) -> None:
    assert client.get(f"{model}/snapshots").json() == {"snapshots": []}
    position = teach(client, model, 5)["position"]
    first = take(client, model)
    assert (first["position"], first["pinned"]) == (position, False)
    assert abs(datetime.fromisoformat(first["created"]) - datetime.now(UTC)) < timedelta(minutes=1)
    teach(client, model, 2)
    second = take(client, model)
    assert client.get(f"{model}/snapshots").json()["snapshots"] == [second, first]
    data = client.get(f"{model}/snapshots/{position}")
    assert data.headers["content-type"] == "application/octet-stream"
    assert len(data.content) == int(data.headers["content-length"]) == first["bytes"]
    assert State.from_bytes(data.content).header["updates"] == 5


def test_a_state_has_one_snapshot(client: TestClient, model: str) -> None:
    teach(client, model, 5)
    assert take(client, model)["position"] == take(client, model)["position"]
    assert len(client.get(f"{model}/snapshots").json()["snapshots"]) == 1


# -- into a new model ---------------------------------------------------------------------------------


def test_an_uploaded_snapshot_is_a_model_that_continues(
    serve: Callable[..., Any], client: TestClient, model: str, tmp_path: Path
) -> None:
    teach(client, model, 20)
    data = client.get(f"{model}/snapshots/{take(client, model)['position']}").content
    with serve(data_dir=tmp_path) as elsewhere:
        created = elsewhere.put("/v1/models/copy", content=data, headers=BYTES)
        assert (created.status_code, created.headers["location"]) == (201, "/v1/models/copy")
        status, old = created.json(), client.get(model).json()
        told = ("algorithm", "params", "updates", "labels", "features", "metrics")
        assert [status[part] for part in told] == [old[part] for part in told]
        assert status["name"] == "copy"
        assert predictions(elsewhere, "/v1/models/copy") == predictions(client, model)
        assert teach(elsewhere, "/v1/models/copy", 5, "q")["updates"] == 25
        teach(client, model, 5, "q")
    with serve(data_dir=tmp_path) as again:
        assert predictions(again, "/v1/models/copy") == predictions(client, model)
        assert again.get("/v1/models/copy").json()["updates"] == 25


@pytest.fixture(scope="module")
def snapshot(client: TestClient) -> bytes:
    address = create(client, "original")
    teach(client, address, 100)  # the past of the measures grows; now a few examples more make little of a difference
    return client.get(f"{address}/snapshots/{take(client, address)['position']}").content


def test_damaged_bytes_are_refused(client: TestClient, snapshot: bytes) -> None:
    arrays, header = State.from_bytes(snapshot)
    for bad in (b"", snapshot[:-1], State(arrays, {**header, "updates": -1}).to_bytes()):
        refused(client.put("/v1/models/bad", content=bad, headers=BYTES), 422, "invalid_request", "")
    assert client.get("/v1/models/bad").status_code == 404
    client.put("/v1/models/bad", content=snapshot, headers=BYTES).raise_for_status()
    client.delete("/v1/models/bad").raise_for_status()


def test_an_upload_does_not_replace_a_model(client: TestClient, model: str, snapshot: bytes) -> None:
    teach(client, model, 1)
    refused(client.put(model, content=snapshot, headers=BYTES), 409, "model_exists")
    assert client.get(model).json()["updates"] == 1


@for_each("name", ["Tags", "-a", "a" * 65, "a b", "%C3%A9", "a_"])
def test_a_bad_name_of_an_upload_is_refused(client: TestClient, snapshot: bytes, name: str) -> None:
    answer = client.put(f"/v1/models/{name}", content=snapshot, headers=BYTES)
    assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (422, "name")


def test_an_upload_has_limits(serve: Callable[..., Any], snapshot: bytes) -> None:
    with serve(max_labels=2) as small:
        refused(small.put("/v1/models/m", content=snapshot, headers=BYTES), 507, "limit_exceeded")
        assert small.get("/v1/models").json() == {"models": []}
    with serve(max_model_bytes=len(snapshot) - 1) as small:
        problem = refused(small.put("/v1/models/m", content=snapshot, headers=BYTES), 413, "body_too_large")
        assert "the setting max_model_bytes has this limit" in problem["detail"]
        assert small.get("/v1/models").json() == {"models": []}
    with serve(max_models=1) as small:
        small.put("/v1/models/m", content=snapshot, headers=BYTES).raise_for_status()
        refused(small.put("/v1/models/n", content=snapshot, headers=BYTES), 507, "limit_exceeded")


def test_the_bytes_of_all_snapshots_are_limited(serve: Callable[..., Any], snapshot: bytes) -> None:
    with serve(max_snapshot_bytes=5 * len(snapshot) // 2, snapshot_retention_count=2) as small:
        small.put("/v1/models/m", content=snapshot, headers=BYTES).raise_for_status()
        small.put("/v1/models/n", content=snapshot, headers=BYTES).raise_for_status()
        assert f"\nmanylabel_stored_snapshot_bytes {sum_of(small, 'm', 'n'):.1f}\n" in small.get("/metrics").text
        teach(small, "/v1/models/m", 3)
        refused(small.post("/v1/models/m/snapshots"), 507, "limit_exceeded")
        refused(small.put("/v1/models/o", content=snapshot, headers=BYTES), 507, "limit_exceeded")
        assert teach(small, "/v1/models/m", 3)["updates"] == 106, "updates continue"
        small.delete("/v1/models/n").raise_for_status()
        position = take(small, "/v1/models/m")["position"]
        for _ in range(3):  # in place of older ones
            teach(small, "/v1/models/m", 1)
            position, before = take(small, "/v1/models/m")["position"], position
            assert position != before


def sum_of(client: TestClient, *models: str) -> int:
    """The bytes of all snapshots of some models."""
    listed = [client.get(f"/v1/models/{model}/snapshots").json()["snapshots"] for model in models]
    return sum(snapshot["bytes"] for snapshots in listed for snapshot in snapshots)


def test_an_upload_must_have_the_media_type_of_bytes(client: TestClient, snapshot: bytes) -> None:
    for headers in ({}, {"Content-Type": "application/json"}, {**BYTES, "Content-Encoding": "br"}):
        refused(client.put("/v1/models/m", content=snapshot, headers=headers), 415, "unsupported_media_type")


# -- rollback ---------------------------------------------------------------------------------------------


def test_a_rollback_to_a_snapshot_is_done_once(client: TestClient, model: str) -> None:
    teach(client, model, 10)
    position = take(client, model)["position"]
    later = teach(client, model, 10, "q")
    body, key = {"position": position}, {"Idempotency-Key": "back"}
    back = ok(client.post(f"{model}/rollback", json=body, headers=key))
    assert (back["rolled_back_to"], back["updates"]) == (position, 10)
    assert int(back["position"]) > int(later["position"]), "the rollback is an entry of the log itself"
    teach(client, model, 4)
    ok(client.post(f"{model}/rollback", json=body, headers=key))
    assert client.get(model).json()["updates"] == 14, "a retry does not forget later updates"


@for_each(
    ("body", "status", "code", "places"),
    [
        ({"position": "999999"}, 404, "position_not_found", []),
        ({"position": "0", "time": "2026-11-27T10:00:00Z"}, 422, "invalid_request", ["/time"]),
        ({"time": "2026-11-27T10:00:00"}, 422, "invalid_request", ["/time"]),
        ({"time": "3"}, 422, "invalid_request", ["/time"]),
        ({"time": "1999-11-27T10:00:00Z"}, 410, "before_history", []),
        ({"position": "x"}, 422, "invalid_request", ["/position"]),
        ({"position": "9" * 65}, 422, "invalid_request", ["/position"]),
        ({"position": 1}, 422, "invalid_request", ["/position"]),
        ({"position": None}, 422, "invalid_request", ["/position"]),
        ({}, 422, "invalid_request", ["/position"]),
        ([], 422, "invalid_request", [""]),
        ({"position": "1", "to": "1"}, 422, "invalid_request", ["/to"]),
    ],
)
def test_a_bad_rollback_changes_nothing(
    client: TestClient, model: str, body: Any, status: int, code: str, places: list[str]
) -> None:
    before = client.get(model).json()
    refused(client.post(f"{model}/rollback", json=body), status, code, *places)
    assert client.get(model).json() == before


@for_each("position", ["999", "x", "1-", "9" * 100, "%00"])
def test_a_missing_snapshot_is_not_found(client: TestClient, model: str, position: str) -> None:
    answer = client.get(f"{model}/snapshots/{position}")
    assert (answer.status_code, answer.json()["code"]) == (404, "snapshot_not_found")


async def test_an_upload_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def receive() -> Message:
        await asyncio.sleep(0.01)  # never idle, never done
        return {"type": "http.request", "body": b"x", "more_body": True}

    monkeypatch.setattr(uploads, "UPLOAD_SECONDS", 0.1)
    request = Request({"type": "http", "headers": [(b"content-type", b"application/octet-stream")]}, receive)
    datasets = DatasetStore(SQLiteStore(tmp_path), Settings(data_dir=tmp_path))
    with pytest.raises(Problem) as raised, ExitStack() as stack:
        await uploads.receive_file(request, bodies.BYTES, 1_000, "max_model_bytes", 60.0, datasets, stack)
    assert (raised.value.status, raised.value.code) == (408, "stream_idle")
