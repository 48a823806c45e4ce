"""Two servers with one Redis, over HTTP, have the same models."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, refused

NDJSON = {"Content-Type": "application/x-ndjson"}
ITEM = {"x": {"a": 1}, "y": ["p"]}
LINE = json.dumps(ITEM).encode() + b"\n"


@pytest.fixture
def both(redis_server: Any, serve: Callable[..., Any]) -> Iterator[tuple[TestClient, TestClient]]:
    """Clients of two applications with nothing in common but the store."""
    with serve(store=redis_server.url) as one, serve(store=redis_server.url) as other:
        yield one, other


@pytest.fixture
def address(both: tuple[TestClient, TestClient]) -> str:
    return create(both[0], "m")


def retried(client: TestClient, address: str, body: Any, headers: dict[str, str] | None = None) -> Any:
    """Repeat a request to a model that another server has replaced, as its 503 asks for."""
    while (answer := client.post(address, json=body, headers=headers)).status_code == 503:
        assert "was replaced meanwhile" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) == 1
    return answer


def test_without_the_store_predictions_continue_and_are_marked_stale(
    both: tuple[TestClient, TestClient], address: str, redis_server: Any
) -> None:
    one, other = both
    position = one.post(f"{address}/update", json=ITEM).json()["position"]
    other.post(f"{address}/predict?at_least={position}", json=ITEM).raise_for_status()
    redis_server.stop()
    for client in both:
        update = client.post(f"{address}/update", json=ITEM)
        refused(update, 503, "storage_unavailable")
        assert int(update.headers["retry-after"]) >= 1
        answer = client.post(f"{address}/predict", json=ITEM).json()
        assert (answer["labels"], answer["position"]) == (["p"], position)
        assert answer["stale_seconds"] >= 0
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        assert ready.json()["storage_gone_seconds"] >= 0
        refused(client.post(f"{address}/predict?keep=true", json=ITEM), 503, "storage_unavailable")
        (line,) = client.post(f"{address}/stream", content=LINE * 2, headers=NDJSON).text.splitlines()
        last = json.loads(line)
        assert (last["line"], last["error"]["code"], last["retry_after"]) == (1, "storage_unavailable", 5)
    redis_server.start()
    for updates, client in enumerate(both, 2):
        answer = client.post(f"{address}/update", json=ITEM)
        while answer.status_code == 503:
            answer = client.post(f"{address}/update", json=ITEM)
        assert answer.json()["updates"] == updates
        while "stale_seconds" in client.post(f"{address}/predict", json=ITEM).json():
            pass  # the follower of the log reconnects a moment later


def test_no_server_answers_for_a_model_that_was_recreated(both: tuple[TestClient, TestClient]) -> None:
    one, other = both
    for number in range(4):
        address = create(one, "m", labels=["p", f"old-{number}"])
        for client in both:
            retried(client, f"{address}/update", ITEM, {"Idempotency-Key": "k"}).raise_for_status()
        one.delete(address).raise_for_status()
        create(one, "m", labels=["p", f"new-{number}"])
        # The other replica may not know the new model yet. The key and the label are new to this model.
        first = retried(other, f"{address}/update", ITEM, {"Idempotency-Key": "k"})
        assert "idempotent-replayed" not in first.headers
        one.delete(address).raise_for_status()
        create(one, "m", labels=["p", f"newer-{number}"])
        update = retried(other, f"{address}/update", {"x": {"a": 1}, "y": [f"newer-{number}"]})
        assert (update.status_code, update.json()["updates"]) == (200, 1)
        one.delete(address).raise_for_status()
        create(one, "m")
        assert retried(other, f"{address}/predict?keep=true", ITEM).status_code == 200
        one.delete(address).raise_for_status()


def test_a_rollback_on_another_server_makes_room(both: tuple[TestClient, TestClient], address: str) -> None:
    one, other = both
    snapshot = one.post(f"{address}/snapshots").json()["position"]
    for number in range(4):
        position = other.post(f"{address}/update", json={"x": {f"f{number}": 1}, "y": [f"l{number}"]}).json()[
            "position"
        ]
        one.post(f"{address}/predict?at_least={position}", json=ITEM)
        one.post(f"{address}/rollback", json={"position": snapshot}).raise_for_status()
        assert other.post(f"{address}/update", json=ITEM).json()["updates"] == 1
        one.post(f"{address}/rollback", json={"position": snapshot}).raise_for_status()
