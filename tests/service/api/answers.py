"""Requests to an application in this process, and checks of its responses."""

import itertools
from typing import Any

from starlette.testclient import TestClient

_NUMBERS = itertools.count()


def create(client: TestClient, name: str, **spec: Any) -> str:
    """Create a model; return its address."""
    answer = client.post("/v1/models", json={"name": name, "algorithm": "falt", **spec})
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


def new_model(client: TestClient, **spec: Any) -> str:
    """Create a model with an unused name; return its address."""
    return create(client, f"model-{next(_NUMBERS)}", **spec)


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
