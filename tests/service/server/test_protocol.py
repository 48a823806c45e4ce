"""Limits of a client before the application sees its requests: bytes, connections and time."""

import contextlib
import http.client
import itertools
import json
import re
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import DEADLINE_SECONDS, eventually

SECONDS = DEADLINE_SECONDS
HEADER_SECONDS, BODY_SECONDS = 2.0, 1.0
PING = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
ITEM = b'{"x": {"a": 1}, "y": ["p"]}'
UPDATE = b"POST /v1/models/m/update HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CREATE = json.dumps({"name": "m", "algorithm": "falt"}).encode()


@pytest.fixture(scope="module")
def server(module_server_process: Callable[..., Any]) -> Any:
    """A server with a model m."""
    server = module_server_process().start()
    with_model(server)
    return server


@pytest.fixture(scope="module")
def impatient(module_server_process: Callable[..., Any]) -> Any:
    """A server with a model m and short timeouts for headers and bodies."""
    server = module_server_process(
        "--header-timeout-seconds", str(HEADER_SECONDS), "--body-timeout-seconds", str(BODY_SECONDS)
    ).start()
    with_model(server)
    return server


def with_model(server: Any) -> None:
    request = urllib.request.Request(f"{server.url}/v1/models", CREATE, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


@contextlib.contextmanager
def connected(server: Any, sent: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(sent)
        yield connection


def answer(connection: socket.socket) -> tuple[int, Any, http.client.HTTPMessage]:
    """Status, document and headers of the next answer."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    content = response.read()
    if response.status >= 400:
        assert response.headers["Content-Type"] == "application/problem+json"
        document = json.loads(content)
        assert document["request_id"] == response.headers["X-Request-ID"]
        assert document["status"] == response.status
    return response.status, json.loads(content), response.headers


def refusal(connection: socket.socket) -> tuple[int, str]:
    """Status and code of the answer, which is the last one."""
    status, document, headers = answer(connection)
    assert headers["Connection"] == "close"
    assert ended(connection)
    return status, document["code"]


def ended(connection: socket.socket) -> bool:
    """Whether the server sends nothing more, and ends the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def send_until_refused(connection: socket.socket, data: bytes, most: int) -> int:
    """Send again and again until the server does not take it any more; how many bytes went."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            connection.sendall(data)
            sent += len(data)
    return sent


def metric(server: Any, name: str) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics") as scraped:
        text = scraped.read().decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def refusals(server: Any, reason: str) -> float:
    return metric(server, f'manylabel_refusals_total{{reason="{reason}"}}')


def memory(server: Any) -> int:
    """Bytes of the server's memory."""
    text = Path(f"/proc/{server.pid}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", text)[1])  # type: ignore[index]


# -- heads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", b"a" * 1000),
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 1000),
        (b"GET / HTTP/1.1\r\n", b"X: a\r\n" * 200),
        (b"GET / HTTP/1.1\r\nX", b"a" * 1000),
    ],
    ids=["request line", "value", "headers", "name"],
)
def test_the_size_of_request_headers_is_limited(server: Any, begin: bytes, more: bytes) -> None:
    before = refusals(server, "headers")
    with connected(server, begin + more * 66) as connection:
        assert refusal(connection) == (431, "headers_too_large")
    assert refusals(server, "headers") == before + 1
    with connected(server, begin) as connection:
        assert send_until_refused(connection, more * 30, 500 * 2**20) < 20 * 2**20


def test_large_headers_within_the_limit_are_accepted(server: Any) -> None:
    head = PING[:-2] + b"X: " + b"a" * 60_000 + b"\r\n\r\n"
    with connected(server) as connection:
        for _ in range(3):
            connection.sendall(head[:40_000])
            connection.sendall(head[40_000:])
            assert answer(connection)[0] == 200


def test_endless_headers_do_not_delay_others(server: Any) -> None:
    with connected(server, b"GET / HTTP/1.1\r\nX: ") as connection:
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 40 * 2**20:
                connection.sendall(bytes(b"a" * 2**18))
                sent += 2**18
        with connected(server, PING) as other:
            assert answer(other)[0] == 200


def test_the_size_of_trailers_is_limited(server: Any) -> None:
    with connected(server, UPDATE + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: ") as connection:
        assert send_until_refused(connection, b"a" * 2**15, 100 * 2**20) < 10 * 2**20


@pytest.mark.parametrize("malformed", [b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n"])
def test_malformed_requests_are_refused(server: Any, malformed: bytes) -> None:
    with connected(server, malformed) as connection:
        assert refusal(connection) == (400, "malformed_request")


@pytest.mark.parametrize("path", [b"/v1/models/m/update", b"/v1/datasets?name=d&format=libsvm"])
def test_invalid_content_lengths_are_refused(server: Any, path: bytes) -> None:
    media_type = b"application/json" if b"models" in path else b"text/plain"
    head = (
        b"POST "
        + path
        + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        + media_type
        + b"\r\nContent-Length: %b\r\n\r\n"
    )
    with connected(server, head % (b"0" * 5_000 + b"1")) as connection:
        assert answer(connection)[:2][1]["code"] == "malformed_request"
    with connected(server, head % (b"9" * 5_000)) as connection:
        assert refusal(connection) == (400, "malformed_request")


# -- pipelines ----------------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(server: Any) -> None:
    paths = [b"/livez", b"/v1/models/m", b"/nowhere", b"/readyz", b"/livez"]
    with connected(
        server, b"".join(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in paths)
    ) as connection:
        received = b""
        while received.count(b"HTTP/1.1 ") < len(paths) or not received.endswith(b"}"):
            received += connection.recv(65_536)
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"200", b"404", b"200", b"200"]


def test_the_number_of_pipelined_requests_is_limited(server: Any) -> None:
    """A connection with more ends after those that were taken; none of the others takes memory."""
    before, refused_before = memory(server), refusals(server, "malformed")
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            connection = stack.enter_context(connected(server))
            send_until_refused(connection, PING * 1000, 2_000_000 * len(PING))
        eventually(lambda: refusals(server, "malformed") == refused_before + 4)
        assert memory(server) - before < len(PING) * 2_000_000, "a quarter of what was to be sent"


def test_a_client_that_disconnects_during_a_pipeline_is_no_error(server: Any) -> None:
    """The request that is being answered is not the last one that came, and must know that its client is gone."""
    ask = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(20):
        with connected(server, ask * 10) as connection:
            connection.recv(1)  # of the first answer: the second is being made
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed with a reset
    eventually(lambda: metric(server, "manylabel_connections") == 1)
    assert "request_failed" not in server.log_tail(1_000)


def test_requests_before_a_refused_one_are_answered(server: Any) -> None:
    with connected(server, PING * 100) as connection:
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65_536):
                received += chunk
    assert 1 <= received.count(b"HTTP/1.1 200") <= 17


# -- time ---------------------------------------------------------------------------------------------


def test_headers_that_do_not_end_in_time_are_refused(impatient: Any) -> None:
    with connected(impatient, PING[:-4]) as connection:
        assert refusal(connection) == (408, "request_timeout")
    with connected(impatient) as connection:
        connection.sendall(PING)
        assert answer(connection)[0] == 200
        connection.sendall(PING[:-4])
        assert refusal(connection) == (408, "request_timeout")


def test_single_bytes_do_not_extend_the_timeout_of_headers(impatient: Any) -> None:
    """A byte now and then does not buy time."""
    with connected(impatient) as connection:
        connection.settimeout(0.1)
        assert is_disconnected(connection, PING * 20)


def is_disconnected(connection: socket.socket, dribbled: bytes) -> bool:
    """Return whether the server answers or closes a connection before it has all of a head that comes byte by byte."""
    try:
        for byte in dribbled:
            connection.sendall(bytes([byte if byte not in b"\r\n" else 0x61]))
            with contextlib.suppress(TimeoutError):
                connection.recv(1)
                return True
    except ConnectionError:
        return True
    return False


def test_a_silent_connection_is_closed(impatient: Any) -> None:
    with connected(impatient) as connection:
        assert ended(connection)


@pytest.mark.parametrize("sent", [b"", b'{"x": {"a"'])
def test_a_body_that_does_not_arrive_in_time_is_refused(impatient: Any, sent: bytes) -> None:
    with connected(impatient, UPDATE + b"Content-Length: 27\r\n\r\n" + sent) as connection:
        assert refusal(connection) == (408, "request_timeout")


def test_an_endless_body_of_an_answered_request_is_cut_off(impatient: Any) -> None:
    """The request was answered long ago."""
    with connected(
        impatient, b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    ) as connection:
        assert answer(connection)[0] == 404
        connection.settimeout(0.05)
        assert is_disconnected(connection, b"a" * 2_000)


def test_each_request_of_a_connection_has_the_whole_time(impatient: Any) -> None:
    before = metric(impatient, 'manylabel_updates_total{model="m"}')
    request = UPDATE + b"Content-Length: %d\r\n\r\n" % len(ITEM) + ITEM
    with connected(impatient) as connection:
        for updates in until_both_have_passed():
            connection.sendall(request)
            assert answer(connection)[1]["updates"] == before + updates


def until_both_have_passed() -> Iterator[int]:
    """Count from one until the timeouts of headers and of bodies have both passed."""
    ends = time.monotonic() + HEADER_SECONDS + BODY_SECONDS
    return itertools.takewhile(lambda _: time.monotonic() < ends, itertools.count(1))


def test_a_stream_may_last_longer_than_the_timeouts(impatient: Any) -> None:
    head = UPDATE.replace(b"update", b"stream").replace(b"json", b"x-ndjson") + b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\n\r\n" % (len(ITEM) + 1, ITEM)
    with connected(impatient, head + chunk) as connection:
        response = http.client.HTTPResponse(connection)
        response.begin()
        for number in until_both_have_passed():
            assert json.loads(response.readline())["line"] == number
            connection.sendall(chunk)
        connection.sendall(b"0\r\n\r\n")
        assert response.read().count(b"\n") <= 1


# -- many ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_server(module_server_process: Callable[..., Any]) -> Any:
    """A server with few connections, little memory for bodies, and little patience with clients that do not read."""
    flags = ("--header-timeout-seconds", str(HEADER_SECONDS), "--idle-timeout-seconds", "2")
    server = module_server_process("--max-connections", "8", "--max-buffered-bytes", "1000000", *flags).start()
    with_model(server)
    return server


def test_a_client_that_reads_no_responses_is_cut_off(small_server: Any) -> None:
    """A client that asks and asks, and reads nothing, is cut off."""
    before = refusals(small_server, "unread")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(SECONDS)
        connection.connect(("127.0.0.1", small_server.port))
        for _ in range(10):
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
            assert pinged(small_server)
        eventually(lambda: metric(small_server, "manylabel_unsent_bytes") > 0)
        eventually(lambda: refusals(small_server, "unread") == before + 1)


def test_the_number_of_connections_is_limited(small_server: Any) -> None:
    """Connections in use stay, and one too many is refused; unused connections are closed."""
    request = UPDATE + b"Content-Length: 27\r\n\r\n"
    with contextlib.ExitStack() as stack:
        in_use = [stack.enter_context(connected(small_server, request)) for _ in range(8)]
        with connected(small_server, PING) as connection:
            status, document, headers = answer(connection)
            assert (status, document["code"], headers["Retry-After"]) == (503, "server_busy", "1")
            assert ended(connection)
        for connection in in_use:
            connection.sendall(ITEM)
            assert answer(connection)[0] == 200
        assert metric_over(in_use[0], 'manylabel_refusals_total{reason="connections"}') == 1
        assert metric_over(in_use[0], "manylabel_connections") == 8
        eventually(lambda: pinged(small_server))
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(small_server)) for _ in range(8)]
        eventually(lambda: pinged(small_server))
        assert sum(ended(connection) for connection in silent[:8]) == 8


def pinged(server: Any) -> bool:
    with connected(server, PING) as connection:
        return answer(connection)[0] == 200


def metric_over(connection: socket.socket, name: str) -> float:
    connection.sendall(PING.replace(b"livez", b"metrics"))
    response = http.client.HTTPResponse(connection)
    response.begin()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", response.read().decode(), re.MULTILINE)[1])  # type: ignore[index]


def test_bodies_have_a_limit_together(small_server: Any) -> None:
    head = UPDATE + b"Content-Length: 600000\r\n\r\n"
    with connected(small_server, head + b" " * 500_000) as first:
        eventually(lambda: metric(small_server, "manylabel_body_bytes") == 500_000)
        with connected(small_server, head + b" " * 599_000) as second:
            status, document, headers = answer(second)
            assert (status, document["code"], headers["Retry-After"]) == (503, "server_busy", "1")
        with connected(small_server, head + b" " * 450_000):
            eventually(lambda: metric(small_server, "manylabel_body_bytes") == 950_000)
            with connected(small_server, UPDATE + b"Content-Length: 65535\r\n\r\n") as small:  # it takes several reads
                for _ in range(4):
                    small.sendall(b" " * 15_000)
                    assert pinged(small_server)
                small.sendall(b" " * (5_535 - len(ITEM)) + ITEM)
                assert answer(small)[0] == 200
        eventually(lambda: metric(small_server, "manylabel_body_bytes") == 500_000)
        first.sendall(b" " * (100_000 - len(ITEM)) + ITEM)
        assert answer(first)[0] == 200
    assert metric(small_server, "manylabel_body_bytes") == 0
    assert refusals(small_server, "memory") == 1


def test_connections_leave_descriptors_for_files(tmp_path: Path, server_process: Callable[..., Any]) -> None:
    """More connections than there are descriptors: an update, and a snapshot, still find theirs."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); "
    (tmp_path / "sitecustomize.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        server = server_process(fresh=True).start()
    with_model(server)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(connected(server, UPDATE + b"Content-Length: 27\r\n\r\n" + ITEM))
        assert answer(client)[0] == 200
        client.sendall(UPDATE + b"Content-Length: 27\r\n\r\n")
        request = UPDATE + b"Content-Length: 27\r\n\r\n"
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                stack.enter_context(connected(server, request))
        client.sendall(ITEM)
        assert answer(client)[0] == 200
        client.sendall(b"POST /v1/models/m/snapshots HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert answer(client)[0] in (200, 201)
    assert "few_descriptors" in server.log.read_text()


def test_each_worker_has_its_limits(server_process: Callable[..., Any], redis_server: Any) -> None:
    flags = ("--workers", "2", "--store", redis_server.url, "--header-timeout-seconds", "1")
    with server_process(*flags) as server:
        server.start()
        with contextlib.ExitStack() as stack:
            unfinished = [stack.enter_context(connected(server, PING[:-4])) for _ in range(8)]
            for _ in unfinished:
                with connected(server, b"GET /" + b"a" * 70_000) as connection:
                    assert refusal(connection) == (431, "headers_too_large")
                assert pinged(server)
            assert {refusal(connection) for connection in unfinished} == {(408, "request_timeout")}


def test_the_delay_of_the_event_loop_is_measured(server: Any) -> None:
    count = metric(server, "manylabel_event_loop_delay_seconds_count")
    eventually(lambda: metric(server, "manylabel_event_loop_delay_seconds_count") > count)
    assert metric(server, 'manylabel_event_loop_delay_seconds_bucket{le="+Inf"}') > count
