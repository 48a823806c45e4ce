"""Middleware: request ids, failures without a traceback, and clients that disconnect."""

import errno
import json
from typing import Any

import pytest
import structlog
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from tests.service.api.answers import create, refused
from tests.support.cases import for_each

from manylabel_service.api.web.middleware import RequestMiddleware
from manylabel_service.telemetry.metrics import Telemetry


@pytest.mark.parametrize("path", ["/v1/models/tags", "/v1/models"])
def test_an_internal_error_is_reported_without_details(serve: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    with serve() as client, structlog.testing.capture_logs() as logs:
        registry = client.app.state.context.registry

        def fail(*_: object) -> None:
            raise ZeroDivisionError("secret inside")

        monkeypatch.setattr(registry, "get", fail)
        monkeypatch.setattr(registry.listing, "page", fail)
        answer = client.get(path)
        problem = refused(answer, 500, "internal_error")
        alive = client.get("/livez")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert alive.status_code == 200, "the server goes on"
    [logged] = [line for line in logs if line["event"] == "request_failed"]
    assert (logged["request_id"], logged["path"]) == (problem["request_id"], path)
    assert logged["exc_info"]


@for_each("sane", ["a", "4bf92f3577b34da6a3ce929d0e0e4736", "x" * 128, "a-b_c.d:e/f+g=h@i"])
def test_a_valid_request_id_is_kept(client: TestClient, sane: str) -> None:
    answer = client.get("/v1/models/nobody", headers={"X-Request-ID": sane})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == sane


@for_each("insane", ["", "x" * 129, "a b", "a,b", "<b>", "\xe9"])
def test_an_invalid_request_id_is_replaced(client: TestClient, insane: str) -> None:
    first, second = (client.get("/livez", headers=[(b"x-request-id", insane.encode("latin-1"))]) for _ in range(2))
    assert insane != first.headers["x-request-id"] != second.headers["x-request-id"]
    assert len(first.headers["x-request-id"]) == 16


def scope_of(path: str) -> Scope:
    return {"type": "http", "method": "POST", "path": path, "headers": []}


async def nothing_more() -> Message:
    return {"type": "http.disconnect"}


async def test_an_error_after_the_start_ends_the_response() -> None:
    sent: list[Message] = []

    async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    async def send(message: Message) -> None:
        sent.append(message)

    middleware = RequestMiddleware(breaks, Telemetry(), log_requests=False)
    with pytest.raises(ZeroDivisionError):
        await middleware(scope_of("/"), nothing_more, send)
    assert [message["type"] for message in sent] == ["http.response.start"], "no second answer after the first"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_server_without_descriptors_is_busy(number: int) -> None:
    sent: list[Message] = []

    async def opens(scope: Scope, receive: Receive, send: Send) -> None:
        raise OSError(number, "Too many open files")

    async def send(message: Message) -> None:
        sent.append(message)

    await RequestMiddleware(opens, Telemetry(), log_requests=False)(scope_of("/"), nothing_more, send)
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"1") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["code"] == "server_busy"


async def test_a_disconnected_client_is_sent_nothing(serve: Any) -> None:
    with serve() as client:
        address = create(client, "left")
        sent: list[Message] = []
        incoming = iter(
            [
                {"type": "http.request", "body": b'{"x": {"a": 1},', "more_body": True},
                {"type": "http.disconnect"},
            ]
        )

        async def receive() -> Message:
            return next(incoming)

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            **scope_of(f"{address}/update"),
            "headers": [(b"content-type", b"application/json")],
            "query_string": b"",
            "root_path": "",
        }
        await client.app(scope, receive, send)
        assert sent == []
        assert client.get(address).json()["updates"] == 0
        counted = 'http_requests_total{handler="/v1/models/{name}/update",method="POST",status="499"} 1.0'
        assert counted in client.get("/metrics").text
