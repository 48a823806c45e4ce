"""The audit has a line for every call that changes or exports anything."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create
from tests.support.audited import audited

from manylabel_service.api.web.routes import GuardedRoute
from manylabel_service.settings import Settings

ITEM = {"x": {"a": 1}, "y": ["p"]}


@pytest.fixture
def client(serve: Callable[..., Any]) -> Iterator[TestClient]:
    """A client of a new application."""
    with serve() as client:
        yield client


def test_calls_that_change_or_export_are_audited(client: TestClient) -> None:
    address = create(client, "tags")
    begun = datetime.now(UTC)
    client.post("/v1/models", json={"name": "tags", "algorithm": "falt"})
    updated = client.post(f"{address}/update", json=ITEM, headers={"X-Request-ID": "mine"})
    kept = client.post(f"{address}/predict?keep=true", json={"x": {"a": 1}})
    labelled = client.post(f"{address}/labels", json={"id": kept.json()["id"], "y": ["p"]})
    for path in (address, "/v1/models", f"{address}/metrics", f"{address}/snapshots", "/readyz", "/metrics"):
        client.get(path)
    snapshot = client.post(f"{address}/snapshots").json()["position"]
    client.get(f"{address}/snapshots/{snapshot}")
    client.post(f"{address}/update", json={"x": 1})
    client.delete("/v1/models/nobody")
    client.delete(address)
    found = audited(client)

    assert [(each["method"], each["route"], each["status"], each["code"]) for each in found] == [
        ("POST", "/v1/models", 201, None),
        ("POST", "/v1/models", 409, "model_exists"),
        ("POST", "/v1/models/{name}/update", 200, None),
        ("POST", "/v1/models/{name}/labels", 200, None),
        ("POST", "/v1/models/{name}/snapshots", 201, None),
        ("GET", "/v1/models/{name}/snapshots/{position}", 200, None),
        ("POST", "/v1/models/{name}/update", 422, "invalid_request"),
        ("DELETE", "/v1/models/{name}", 404, "model_not_found"),
        ("DELETE", "/v1/models/{name}", 204, None),
    ]
    assert [each["model"] for each in found] == ["tags"] * 7 + ["nobody", "tags"], "also the one that was created"
    assert [each["target"] for each in found[4:6]] == [snapshot, snapshot]
    positions = [None, None, updated.json()["position"], labelled.json()["position"], *[None] * 5]
    assert [each["position"] for each in found] == positions
    assert found[2]["request_id"] == "mine"
    assert found[2]["address"] == "testclient"
    assert found[2]["key_id"] is None, "the server has no keys"
    ended = datetime.fromisoformat(found[2]["time"])
    assert begun - timedelta(seconds=1) < ended <= datetime.now(UTC)


def test_a_stream_has_one_line(client: TestClient) -> None:
    address = create(client, "tags")
    lines = [ITEM, {"x": 1, "y": []}, ITEM, ITEM]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "s"}
    answers = [
        json.loads(line) for line in client.post(f"{address}/stream", content=body, headers=headers).iter_lines()
    ]
    again = client.post(f"{address}/stream", content=body, headers=headers)
    assert again.status_code == 200
    first, second = audited(client)[-2:]
    assert (first["route"], first["lines"]) == ("/v1/models/{name}/stream", 3)
    assert first["position"] == answers[-1]["position"]
    assert second["lines"] is None, "it has learnt nothing"


def test_names_from_the_body_are_audited(serve: Callable[..., Any]) -> None:
    csv = "tempo,rock,jazz\n" + "120,1,0\n80,0,1\n" * 10
    options = {"name": "rows", "format": "csv", "label_columns": "2"}
    with serve(job_slots=0) as client:
        uploaded = client.post("/v1/datasets", params=options, content=csv, headers={"Content-Type": "text/csv"})
        job = client.post("/v1/jobs", json={"trainer": "m3l", "data": {"dataset": "rows"}, "model": "trained"})
        client.delete(f"/v1/jobs/{job.json().get('id')}")
        made, ordered, cancelled = audited(client)
    assert (made["dataset"], made["status"]) == ("rows", 201), uploaded.text
    assert (ordered["model"], ordered["target"], ordered["status"]) == ("trained", job.json()["id"], 202)
    assert (cancelled["method"], cancelled["target"]) == ("DELETE", job.json()["id"])


def test_without_an_audit_file_nothing_is_written(serve: Callable[..., Any], tmp_path: Path) -> None:
    with serve(data_dir=tmp_path, audit_file="none") as client:
        create(client, "tags")
    assert not list(tmp_path.glob("audit*"))


def test_the_place_of_the_file() -> None:
    assert Settings(data_dir=Path("/d")).audit_place == Path("/d/audit.jsonl")
    assert Settings(store="redis://localhost").audit_place is None
    assert Settings(store="redis://localhost", audit_file="/a").audit_place == Path("/a")
    assert Settings(audit_file="none").audit_place is None
    assert Settings(audit_file="stdout").audit_place == "stdout"


def test_all_scopes_are_known_to_the_audit(client: TestClient) -> None:
    """A new scope must be added here, after a decision whether its calls are audited."""
    app: Any = client.app
    scopes = {scope for route in app.routes if isinstance(route, GuardedRoute) for scope in route.scopes}
    assert scopes <= {"predict", "read", "learn", "train", "export", "admin"}
