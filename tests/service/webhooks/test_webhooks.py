"""Webhooks from the outside: created, shown, delivered, signed, retried, disabled."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.webhooks.receiver import SECRET, Receiver, receiving

from manylabel_service.settings import origin_of

Serve = Callable[..., Any]
Refused = Callable[..., dict[str, Any]]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def client(serve: Serve, receiver: Receiver) -> Iterator[TestClient]:
    with serve(webhook_urls=origin_of(receiver.url)) as client:
        yield client


def make(client: TestClient, receiver: Receiver, **fields: Any) -> dict[str, Any]:
    wanted = {"url": receiver.url, "events": ["label", "drift"], "secret": SECRET, **fields}
    answer = client.post("/v1/webhooks", json=wanted)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/webhooks/{made['id']}"
    return made


def update(client: TestClient, model: str, *labels: str, **fields: Any) -> None:
    answer = client.post(f"/v1/models/{model}/update", json={"x": {"a": 1}, "y": list(labels), **fields})
    assert answer.status_code == 200, answer.text


def test_a_new_label_is_posted_once_and_signed(client: TestClient, receiver: Receiver, create: Any) -> None:
    create(client, "tags")
    update(client, "tags", "old")
    made = make(client, receiver)
    update(client, "tags", "old", "new", "newer")
    update(client, "tags", "old", "new")
    update(client, "tags", "last")
    first, second = receiver.waits_for("label", 2)
    assert (first["model"], first["labels"], first["count"]) == ("tags", ["new", "newer"], 2)
    assert second["labels"] == ["last"]
    assert len(set(receiver.ids)) == 2
    shown = client.get(f"/v1/webhooks/{made['id']}").json()
    assert (shown["state"], shown["reason"], shown["failures"], shown["dropped"]) == ("active", None, 0, 0)
