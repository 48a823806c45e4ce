"""A change with an Idempotency-Key is done once, however often the request comes."""

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused, state_of

CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("post", "update", {"x": {"a": 1}, "y": ["p"]}),
    ("post", "predict-update", {"x": {"a": 1}, "y": ["p"]}),
    ("post", "labels", {"y": ["p"]}),
    ("patch", "labels", {"labels": {"p": {"title": "Pets"}, "new": {}}}),
    ("post", "labels/rename", {"label": "p", "to": "pets"}),
    ("post", "labels/merge", {"label": "p", "into": "q"}),
    ("post", "labels/retire", {"label": "p"}),
    ("post", "labels/pause", {"label": "p"}),
    ("post", "labels/resume", {"label": "p"}),
    ("put", "groups", {"groups": [{"name": "g", "labels": ["p", "q"], "choose": "one"}]}),
    ("put", "promise", {"precision": 0.99}),
    ("post", "correct", {"position": "1", "y": {"q": False}}),
    ("post", "health/dismiss", {"kind": "merge", "label": "p", "other": "q"}),
    ("post", "undo", {}),
    ("post", "rollback", {"position": "0"}),
]
"""Changes of a model that has learnt p and q: method, call and body. The test adds the id of a stored prediction, and
the position of a change to undo."""


@pytest.mark.parametrize(("method", "call", "body"), CHANGES, ids=[f"{method} {call}" for method, call, _ in CHANGES])
def test_a_change_with_a_key_is_done_once(client: TestClient, method: str, call: str, body: dict[str, Any]) -> None:
    address = create(client, f"keyed-{method}-{call.replace('/', '-')}")
    ok(client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["p", "q"]}))
    if (method, call) == ("post", "labels"):
        body = {**body, "id": ok(client.post(f"{address}/predict?keep=true", json={"x": {"a": 1}}))["id"]}
    if call == "undo":
        body = {"position": ok(client.post(f"{address}/labels/pause", json={"label": "p"}))["position"]}
    bad = client.request(method, f"{address}/{call}", json=body, headers={"Idempotency-Key": "a b"})
    refused(bad, 422, "invalid_request", "Idempotency-Key")

    key = {"Idempotency-Key": "order-66~!"}
    first = client.request(method, f"{address}/{call}", json=body, headers=key)
    state = state_of(client, address)
    again = client.request(method, f"{address}/{call}", json=body, headers=key)

    assert (first.status_code, again.status_code) == (200, 200), first.text
    assert again.content == first.content
    assert first.headers.get("idempotent-replayed") is None
    assert again.headers["idempotent-replayed"] == "true"
    other = client.post(f"{address}/update", json={"x": {"other": 1}, "y": []}, headers=key)
    refused(other, 422, "idempotency_key_reused")
    assert state_of(client, address) == state
