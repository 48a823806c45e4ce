"""Webhooks in the client and in the command, against a real server."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx2
import pytest
from tests.clients.http.fake_server import FakeServer, ok, unsent
from tests.support.http_server import http_server
from tests.support.waiting import eventually

from manylabel_clients import Client, ConnectionFailed, Invalid, NewWebhook, NotFound, Retry
from manylabel_clients.http.resources.webhooks import WebhookCalls

SECRET = "whsec_" + "c2VjcmV0" * 4


class Receiver(BaseHTTPRequestHandler):
    """Handler that records events and responds with a status."""

    status = 204
    bodies: list[Any] = []  # noqa: RUF012

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture(scope="module")
def receiver() -> Iterator[str]:
    with http_server(Receiver) as address:
        yield f"{address}/hook"


@pytest.fixture(scope="module")
def url(receiver: str, module_server_process: Callable[..., Any]) -> Iterator[str]:
    process = module_server_process("--webhook-urls", receiver.removesuffix("/hook")).start()
    yield process.url
    process.stop()


@pytest.fixture(autouse=True)
def _accepting() -> None:
    Receiver.status = 204
    Receiver.bodies.clear()


def test_secrets_are_not_shown_and_errors_are_raised(url: str, receiver: str) -> None:
    """The test of the command calls everything else."""
    with Client(url) as client:
        made = client.webhooks.create(receiver, events=["label"], models=["client-*"], secret=SECRET)
        assert (made.secret, made.events, made.models, made.state) == (SECRET, ["label"], ["client-*"], "active")
        assert SECRET not in repr(made)
        assert receiver not in repr(made)
        (listed,) = client.webhooks.list()
        assert (listed.id, listed.deliveries, isinstance(listed, NewWebhook)) == (made.id, [], False)
        client.webhooks.delete(made.id)
        with pytest.raises(NotFound):
            client.webhooks.get(made.id)
        with pytest.raises(Invalid, match="webhook_urls"):
            client.webhooks.create("http://127.0.0.1:1/", events=["label"])
        with pytest.raises(TypeError, match="lists"):
            client.webhooks.create(receiver, events="label")


def test_a_webhook_is_not_created_twice_when_a_response_is_lost() -> None:
    server = FakeServer(httpx2.ReadError("lost"), ok({}))
    with pytest.raises(ConnectionFailed) as failed:
        server(unsent(WebhookCalls, retry=Retry()).create("http://h", events=["label"]))
    assert failed.value.maybe_done
    assert len(server.requests) == 1


def test_the_command_creates_tests_enables_and_deletes_webhooks(
    url: str, receiver: str, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYLABEL_URL", url)
    assert command("webhooks").out == "no webhooks\n"
    made = command(
        "webhooks", "create", receiver, "--event", "label", "--event", "drift", "--model", "tags-*"
    ).checked()
    secret, id = made.out.strip(), made.err.split()[3].rstrip(";")
    assert secret.startswith("whsec_")
    listed = command("webhooks", "list").out
    assert "label drift" in listed
    assert id in listed
    assert secret not in listed + command("webhooks", "show", id).out + command("webhooks", "show", id, "--json").out
    assert command("webhooks", "test", id).out.startswith("delivered: status 204, ")
    Receiver.status = 503
    failed = command("webhooks", "test", id)
    assert (failed.status, failed.err) == (1, "manylabel: not delivered: status 503\n")
    assert json.loads(command("webhooks", "test", id, "--json").out)["error"] == "status"
    Receiver.status = 410
    with Client(url) as client:
        client.create_model("tags-a").update({"a": 1.0}, ["x"])
    eventually(lambda: "disabled (gone)" in command("webhooks").out)
    shown = command("webhooks", "show", id).out
    assert "status 410" in shown
    assert command("webhooks", "enable", id).out == f"enabled {id}\n"
    assert command("webhooks", "delete", id, "--yes").out == f"deleted {id}\n"
    monkeypatch.setenv("MANYLABEL_WEBHOOK_SECRET", SECRET)
    chosen = command("webhooks", "create", receiver, "--event", "job", "--json")
    assert json.loads(chosen.out)["secret"] == SECRET
    assert command("webhooks", "delete", json.loads(chosen.out)["id"], "--yes").status == 0
