"""Requests to an application in this process, and checks of its responses."""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from starlette.testclient import TestClient

from manylabel_service.api.routers.stream import LineLearnt, LineRefused, LineReplayed
from manylabel_service.api.translation.line_learner import StreamSummary

NDJSON = {"Content-Type": "application/x-ndjson"}

_NUMBERS = itertools.count()
_LINES = {
    "learnt": StreamSummary,
    "labels": LineLearnt,
    "replayed": LineReplayed,
    "error": LineRefused,
}
"""Schemas of the lines of a response, by a field that they have."""


def create(client: TestClient, name: str, **spec: Any) -> str:
    """Create a model; return its address."""
    answer = client.post("/v1/models", json={"name": name, "algorithm": "falt", **spec})
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


def new_model(client: TestClient, **spec: Any) -> str:
    """Create a model with an unused name; return its address."""
    return create(client, f"model-{next(_NUMBERS)}", **spec)


def lines_of(answer: Any) -> list[dict[str, Any]]:
    """Return the lines of the response to a stream, which must fit the documented schemas."""
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer.text
    assert answer.content.endswith(b"\n") or not answer.content
    lines = [json.loads(line) for line in answer.content.splitlines()]
    for line in lines:
        schema = next(_LINES[field] for field in _LINES if field in line)
        schema.model_validate_json(json.dumps(line), strict=True)
    return lines


def stream(client: TestClient, address: str, items: Iterable[Any], query: str = "", **headers: str) -> list[Any]:
    """Send items as lines of a stream; return the lines of the response. Bytes are sent as they are."""
    content = b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items)
    return lines_of(client.post(f"{address}/stream{query}", content=content, headers={**NDJSON, **headers}))


def taught_by_every_call(client: TestClient, items: Sequence[dict[str, Any]], **spec: Any) -> list[str]:
    """Create a model for each call that learns, and teach each model the items; return the addresses."""
    single, batch, answered, streamed, delayed = addresses = [new_model(client, **spec) for _ in range(5)]
    for item in items:
        ok(client.post(f"{single}/update", json=item))
        stored = ok(client.post(f"{delayed}/predict?keep=true", json=item))
        labels = {field: value for field, value in item.items() if field != "x"}
        ok(client.post(f"{delayed}/labels", json={"id": stored["id"], **labels}))
    ok(client.post(f"{batch}/update", json={"examples": items}))
    ok(client.post(f"{answered}/predict-update", json={"examples": items}))
    assert [line for line in stream(client, streamed, items) if "error" in line] == []
    return addresses


def state_of(client: TestClient, address: str) -> bytes:
    """Return the whole state of a model, as in a snapshot."""
    app: Any = client.app
    models = {replica.spec.name: replica.model for replica in app.state.context.registry.resident()}
    return models[address.rsplit("/", 1)[1]].to_bytes()


def ok(answer: Any, status: int = 200) -> Any:
    """Return the document of a response with this status."""
    assert answer.status_code == status, answer.text
    return answer.json()


def pointer(answer: Any) -> str:
    """Return the first place that a 422 response names."""
    found: str = ok(answer, 422)["errors"][0]["pointer"]
    assert answer.json()["code"] == "invalid_request"
    return found


def refused(answer: Any, status: int, code: str, *places: str) -> dict[str, Any]:
    """Check that a response is a problem document with this status, code and places; return the document."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code), problem
    named = [error.get("pointer", error.get("header", error.get("parameter"))) for error in problem["errors"]]
    assert named == list(places)
    assert all(error["detail"] for error in problem["errors"])
    assert problem["type"] == "about:blank"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == answer.request.url.path
    assert problem["request_id"] == answer.headers["x-request-id"]
    return problem
