"""Streams and events over real sockets: both directions at once, backpressure, idle clients, and how they end."""

import asyncio
import contextlib
import http.client
import json
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_service.access.grant import ANY, SCOPES, Access
from manylabel_service.api.routers import events
from manylabel_service.api.web import streaming
from manylabel_service.api.web.streaming import EventStream
from manylabel_service.hosting.events import MAX_SUBSCRIBERS, Events
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.model import OnlineModel

GOOD = b'{"x": {"a": 1, "b": 2}, "y": ["p"]}\n'
HEAD = b"POST /v1/models/%b/stream%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n%b\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.fixture(scope="module")
def server(module_server_process: Callable[..., Any]) -> Any:
    return module_server_process().start()


@pytest.fixture(scope="module")
def impatient(module_server_process: Callable[..., Any]) -> Any:
    return module_server_process("--idle-timeout-seconds", "2").start()


def call(server: Any, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_SECONDS)
    ) as connection:
        connection.request(
            method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else None


@pytest.fixture
def name(server: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    assert call(server, "POST", "/v1/models", {"name": "m", "algorithm": "falt"})[0] == 201
    yield "m"
    call(server, "DELETE", "/v1/models/m")


class Connection:
    """A request whose body is sent in pieces while the response is read."""

    def __init__(self, server: Any, head: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_SECONDS)
        self.socket.sendall(head)
        self._answer: http.client.HTTPResponse | None = None

    @property
    def answer(self) -> http.client.HTTPResponse:
        if self._answer is None:
            self._answer = http.client.HTTPResponse(self.socket)
            self._answer.begin()
        return self._answer

    def send(self, data: bytes) -> None:
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def send_until_stuck(self, data: bytes, seconds: float) -> int:
        """Send repeatedly until the connection takes nothing for that long; return the number of sends."""
        self.socket.settimeout(seconds)
        for times in range(2**30 // len(data)):
            try:
                self.send(data)
            except TimeoutError:
                self.socket.settimeout(600)
                return times
        raise AssertionError("the server takes a gigabyte without an answer being read")

    def send_until_cut_off(self, data: bytes) -> None:
        """Send repeatedly until the server closes the connection.

        A pause is no sign of that: a busy server may be slow for a while.
        """
        self.socket.settimeout(DEADLINE_SECONDS)
        for _ in range(2**30 // len(data)):
            try:
                self.send(data)
            except ConnectionError:
                return
        raise AssertionError("the server takes a gigabyte without an answer being read")

    def end(self) -> None:
        self.socket.sendall(b"0\r\n\r\n")

    def line(self) -> Any:
        return json.loads(self.answer.readline())

    def rest(self) -> list[Any]:
        return [json.loads(line) for line in self.answer.read().splitlines()]

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def stream(server: Any, name: str, query: bytes = b"", headers: bytes = CHUNKED) -> Connection:
    return Connection(server, HEAD % (name.encode(), query, headers))


# -- streams ------------------------------------------------------------------------------------------


def test_a_line_is_answered_before_the_next_is_sent(server: Any, name: str) -> None:
    with stream(server, name) as connection:
        assert connection.answer.status == 200  # before a line was sent
        for number in range(1, 30):
            connection.send(GOOD)
            assert connection.line()["line"] == number
            assert call(server, "GET", "/v1/models/m")[1]["updates"] == number
        connection.end()
        assert connection.rest() == []


def test_expect_100_continue_is_answered(server: Any, name: str) -> None:
    with stream(server, name, headers=b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(GOOD)) as connection:
        assert connection.socket.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.socket.sendall(GOOD)
        assert connection.answer.status == 200
        assert [one["updates"] for one in connection.rest()] == [1]


def test_a_server_stops_reading_from_a_client_that_does_not_read(server: Any, name: str) -> None:
    """Sending blocks soon: neither lines nor responses accumulate in the server."""
    item = json.dumps({"x": [0.5] * 100, "y": [f"a label with a rather long name {i}" for i in range(30)]}).encode()
    block = (item + b"\n") * 50
    with stream(server, name) as connection:
        sent = 50 * connection.send_until_stuck(block, seconds=1.0)
        learnt = call(server, "GET", "/v1/models/m")[1]["updates"]
        assert learnt <= sent
        assert call(server, "POST", "/v1/models/m/predict", {"x": [0.5] * 100})[0] == 200
        connection.socket.settimeout(600)
        assert [connection.line()["line"] for _ in range(learnt)] == list(range(1, learnt + 1))


def test_a_client_that_disconnects_leaves_no_error(server: Any, name: str) -> None:
    with stream(server, name) as connection:
        connection.send(GOOD + GOOD[:10])
        assert connection.line()["line"] == 1
    assert call(server, "GET", "/v1/models/m")[1]["updates"] == 1
    assert "Traceback" not in server.log_tail()


@pytest.mark.parametrize("recreated", [False, True])
def test_a_deleted_model_ends_its_streams_and_events(server: Any, name: str, recreated: bool) -> None:
    with stream(server, name) as connection, Watcher(server, name) as watcher:
        connection.send(GOOD)
        assert connection.line()["line"] == 1
        assert call(server, "DELETE", "/v1/models/m")[0] == 204
        if recreated:
            assert call(server, "POST", "/v1/models", {"name": "m", "algorithm": "falt"})[0] == 201
        watcher.until(None)
        connection.send(GOOD)
        last = connection.line()
        assert (last["line"], last["error"]["code"]) == (2, "model_not_found")
        assert connection.rest() == []
    if recreated:
        assert call(server, "GET", "/v1/models/m")[1]["updates"] == 0


def test_an_idle_client_is_disconnected(impatient: Any) -> None:
    call(impatient, "POST", "/v1/models", {"name": "m", "algorithm": "falt"})
    with stream(impatient, "m", b"?from=7") as connection:
        connection.send(GOOD + GOOD[:5])
        assert connection.line()["line"] == 7
        last = connection.line()
        assert (last["line"], last["error"]["status"], last["error"]["code"]) == (8, 408, "stream_idle")
        assert connection.rest() == []


def test_a_client_that_reads_nothing_is_disconnected(server_process: Callable[..., Any]) -> None:
    # The timeout is long, so that the server does not count this client as idle on a busy machine.
    impatient = server_process("--idle-timeout-seconds", "15").start()
    call(impatient, "POST", "/v1/models", {"name": "slow", "algorithm": "falt"})
    item = json.dumps({"x": [0.5] * 10, "y": [f"label {i}" for i in range(40)]}).encode()
    block = (item + b"\n") * 500
    with stream(impatient, "slow") as connection:
        connection.send_until_cut_off(block)
        eventually(lambda: "slow_client_disconnected" in impatient.log.read_text(), otherwise=impatient.log_tail)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            connection.answer.read()
    assert call(impatient, "POST", "/v1/models/slow/predict", {"x": [0.5] * 10})[0] == 200


def test_a_client_may_send_everything_before_it_reads(server: Any, name: str) -> None:
    item = json.dumps({"x": [0.5] * 10, "y": [f"label {i}" for i in range(40)]}).encode()
    blocks, lines = 10, 1_000  # some three times what the buffers hold if each line is answered
    with stream(server, name, b"?answers=errors") as connection:
        for _ in range(blocks):
            connection.send((item + b"\n") * (lines - 1) + b"not JSON\n")
        connection.end()
        *refused, summary = connection.rest()
    assert [one["line"] for one in refused] == [lines * block for block in range(1, blocks + 1)]
    assert (summary["learnt"], summary["refused"]) == (blocks * (lines - 1), blocks)


def test_a_server_that_stops_ends_streams_and_events_gracefully(server_process: Callable[..., Any]) -> None:
    server = server_process("--shutdown-timeout-seconds", "600").start()  # longer than `stop` waits
    call(server, "POST", "/v1/models", {"name": "m", "algorithm": "falt"})
    key = CHUNKED + b"Idempotency-Key: s\r\n"
    with stream(server, "m", headers=key) as connection, Watcher(server, "m") as watcher:
        connection.send(GOOD * 3)
        assert [connection.line()["line"] for _ in range(3)] == [1, 2, 3]
        server.process.send_signal(signal.SIGTERM)
        last = connection.line()
        assert (last["line"], last["error"]["code"], last["retry_after"]) == (4, "not_ready", 1)
        assert connection.rest() == []
        watcher.until(None)
    assert server.stop() == 0
    server.start()
    with stream(server, "m", b"?from=3", key) as connection:
        connection.send(GOOD * 2)
        connection.end()
        answers = connection.rest()
    assert [one.get("replayed", one.get("updates")) for one in answers] == [True, 4]


# -- uploads ------------------------------------------------------------------------------------------

PUT = (
    b"PUT /v1/models/%b HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
)


def status_of(connection: Connection) -> tuple[int, str | None]:
    document = json.loads(connection.answer.read())
    return connection.answer.status, document.get("code")


def snapshot_of(server: Any, name: str) -> bytes:
    position = call(server, "POST", f"/v1/models/{name}/snapshots")[1]["position"]
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_SECONDS)
    ) as connection:
        connection.request("GET", f"/v1/models/{name}/snapshots/{position}")
        return connection.getresponse().read()


def test_a_slow_upload_does_not_block_another(server: Any, name: str) -> None:
    data = snapshot_of(server, name)
    with Connection(server, PUT % (b"first", len(data))) as first:
        first.socket.sendall(data[:-1])
        assert call(server, "GET", "/livez")[0] == 200  # the server has read what was sent before
        with Connection(server, PUT % (b"second", len(data))) as second:
            second.socket.sendall(data)
            assert status_of(second) == (201, None)
        first.socket.sendall(data[-1:])
        assert status_of(first) == (201, None)
    for copy in ("first", "second"):
        assert call(server, "DELETE", f"/v1/models/{copy}")[0] == 204


# -- events -------------------------------------------------------------------------------------------


class Watcher:
    """A client of server-sent events."""

    def __init__(self, server: Any, name: str, last_event_id: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_SECONDS)
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        self._connection.request("GET", f"/v1/models/{name}/events", headers=headers)
        self.answer = self._connection.getresponse()

    def next(self) -> tuple[str | None, str | None, Any] | None:
        """Return kind, id and data of the next event; a comment is None, the end is (None, None, None)."""
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode():
            if line == "\n":
                if "data" not in fields:
                    return None
                return fields["event"], fields.get("id"), json.loads(fields["data"])
            field, _, value = line.rstrip("\n").partition(": ")
            fields[field] = value
        return None, None, None

    def until(self, kind: str | None) -> Any:
        """Return the next event of a kind."""
        while True:
            event = self.next()
            if event is not None and event[0] == kind:
                return event
            assert event is None or event[0] is not None, "the events have ended"

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.answer.close()
        self._connection.close()


def update(server: Any, n: int = 1) -> Any:
    item = {"x": {"a": 1}, "y": ["p"]}
    return call(server, "POST", "/v1/models/m/update", {"examples": [item] * n})[1]


def test_events_report_updates_metrics_and_rollbacks(server: Any, name: str) -> None:
    with Watcher(server, name) as watcher:
        assert watcher.answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert watcher.answer.headers["Cache-Control"] == "no-store"
        assert watcher.next() is None  # a comment at once: everything on the way knows that there is an answer
        first = update(server, 3)
        expected = {"position": first["position"], "updates": 3, "examples": 3}
        assert watcher.until("update") == ("update", first["position"], expected)
        _, at, measures = watcher.until("metrics")
        assert (at, measures["updates"], measures["cumulative"]["examples"]) == (first["position"], 3, 3)
        position = call(server, "POST", "/v1/models/m/snapshots")[1]["position"]
        update(server, 2)
        back = call(server, "POST", "/v1/models/m/rollback", {"position": position})[1]
        assert watcher.until("update")[2]["updates"] == 5
        expected = {"position": back["position"], "to": position, "updates": 3}
        assert watcher.until("rollback") == ("rollback", back["position"], expected)


def test_events_resume_after_the_last_one_seen(server: Any, name: str) -> None:
    with Watcher(server, name) as watcher:
        update(server)
        _, seen, _ = watcher.until("update")
    missed = [update(server)["position"] for _ in range(3)]
    with Watcher(server, name, seen) as watcher:
        assert [watcher.until("update")[1] for _ in range(3)] == missed
    with Watcher(server, name, missed[1]) as watcher:
        assert watcher.until("update")[1] == missed[2]


def test_watchers_that_disconnect_make_room_for_others(server: Any, name: str) -> None:
    """More clients watch one after the other than may watch at once."""

    def watches() -> bool:
        with Watcher(server, name) as watcher:
            assert watcher.answer.status in (200, 429)  # the server may still be closing the earlier watchers
            return watcher.answer.status == 200

    for _ in range(MAX_SUBSCRIBERS + 30):
        eventually(watches)
    assert "Traceback" not in server.log_tail()


@for_each("id", ["", "x", "-1", "1-", "9" * 65, "é"])
def test_a_wrong_last_event_id_is_refused(server: Any, name: str, id: str) -> None:
    with Watcher(server, name, id) as watcher:
        assert watcher.answer.status == 422
        assert json.loads(watcher.answer.read())["errors"][0]["header"] == "Last-Event-ID"


def test_comments_are_sent_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "COMMENT_SECONDS", 0.01)
    written: list[bytes] = []

    async def run() -> None:
        gone = asyncio.Event()
        model = OnlineModel(ModelSpec(name="m", algorithm="falt"))
        recent = Events("m", lambda: model)

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            written.append(message.get("body", b""))
            if len(written) > 5:
                gone.set()

        response = EventStream(
            recent.subscribe(), events._event_bytes, "events follow", asyncio.Event(), idle_seconds=60.0
        )
        await asyncio.wait_for(
            response({"type": "http", "path": "/", "access": Access(None, SCOPES, (ANY,))}, receive, send), 20
        )
        assert recent.subscribers == 0

    asyncio.run(run())
    assert [body for body in written if not body.startswith(b"event:")][2:5] == [b": still there\n\n"] * 3
