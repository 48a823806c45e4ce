"""A client that uses much memory or time gets a bounded share, and other clients are served meanwhile.

Each test has a real server process. How long others wait is the longest time that /livez took to answer, or what the
server did meanwhile, in seconds of a processor, if that is less: on a busy machine it waits for the system too.
"""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from tests.support.redis_server import RedisServer
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

LONG_SECONDS = 0.6
"""Maximum time that another client waits."""

PATIENCE_SECONDS = 600.0
"""Time for a response; large requests are handled by threads of low priority, which get little of a busy machine."""

BYTES = {"Content-Type": "application/octet-stream"}
JSON = {"Content-Type": "application/json"}


class Others:
    """Other clients, who ask /livez all the time.

    Attributes
    ----------
    longest_seconds : that one of them waited.
    gained_bytes : of the server's memory at its highest, since the beginning.
    """

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.longest_seconds = 0.0

    def __enter__(self) -> Self:
        Path(f"/proc/{self._server.pid}/clear_refs").write_text("5")  # the peak begins with the current value
        self._before = self._memory("VmRSS") + self._memory("VmSwap")  # memory that returns from the swap is no growth
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def gained_bytes(self) -> int:
        return self._memory("VmHWM") - self._before

    def _memory(self, name: str) -> int:
        lines = Path(f"/proc/{self._server.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))

    def _ask(self) -> None:
        with contextlib.closing(connect(self._server)) as connection:
            while not self._done.wait(0.005):
                started, worked = time.perf_counter(), self._processor_seconds()
                connection.request("GET", "/livez")
                connection.getresponse().read()
                seconds = min(time.perf_counter() - started, self._processor_seconds() - worked)
                self.longest_seconds = max(self.longest_seconds, seconds)

    def _processor_seconds(self) -> float:
        """In ticks of the system, of all threads of the server."""
        fields = Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connect(server: ServerProcess) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)


def ask(server: ServerProcess, method: str, path: str, body: Any = None, headers: dict[str, str] = JSON) -> Any:
    """Return the status, the headers, and the value that was answered."""
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with contextlib.closing(connect(server)) as connection:
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, answer.headers, json.loads(text) if text else None


@pytest.fixture(scope="module", params=["sqlite", pytest.param("redis", marks=pytest.mark.long)])
def server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_module_redis: Callable[..., RedisServer],
) -> Iterator[ServerProcess]:
    # Only the snapshots that a test asks for; no download ends while the others begin.
    flags = ("--snapshot-every-seconds", "86400", "--idle-timeout-seconds", "3600")
    flags += ("--store", new_module_redis().start().url) if request.param == "redis" else ()
    with ServerProcess(tmp_path_factory.mktemp("hostile") / "data", flags).start() as server:
        yield server
        assert server.process is not None
        assert server.process.poll() is None, server.log_tail()


@pytest.fixture(scope="module")
def large(server: ServerProcess) -> str:
    """The address of the snapshots of a model, of about 200 MB each."""
    assert ask(server, "POST", "/v1/models", {"name": "large", "algorithm": "passive_aggressive"})[0] == 201
    x = {f"feature {i}": 1.0 for i in range(5_000)}
    y = [f"label {i}" for i in range(10_000)]
    status, _, learnt = ask(server, "POST", "/v1/models/large/update", {"x": x, "y": y})
    assert (status, learnt["updates"]) == (200, 1)
    status, _, snapshot = ask(server, "POST", "/v1/models/large/snapshots")
    assert status == 201
    assert snapshot["bytes"] > 190 * 2**20
    return "/v1/models/large/snapshots"


def test_the_size_of_a_snapshot_header_is_limited(server: ServerProcess) -> None:
    text = b"[" + b"[]," * 20_000_000 + b"[]]"
    body = len(text).to_bytes(8, "little") + text
    with Others(server) as others:
        status, _, problem = ask(server, "PUT", "/v1/models/forged", body, BYTES)
        assert (status, problem["code"]) == (422, "invalid_request")
    assert others.longest_seconds < LONG_SECONDS
    assert others.gained_bytes < 600 * 2**20, "the parser would take 1.9 GB"


def test_a_large_index_does_not_allocate_columns_up_to_it(server: ServerProcess) -> None:
    for algorithm in ("falt", "salt", "kernel_falt"):
        model = f"/v1/models/far-{algorithm.replace('_', '-')}"
        assert ask(server, "POST", "/v1/models", {"name": model.split("/")[-1], "algorithm": algorithm})[0] == 201
        example = {"x": {"indices": [16_777_215], "values": [1]}, "y": ["a"]}
        with Others(server) as others:
            assert ask(server, "POST", f"{model}/update", example)[0] == 200
            assert ask(server, "POST", f"{model}/predict", {"x": example["x"]})[0] == 200
        assert ask(server, "GET", model)[2]["bytes"] < 100_000
        assert ask(server, "POST", f"{model}/snapshots")[2]["bytes"] < 100_000
        assert others.gained_bytes < 400 * 2**20, "it took 805 MB, and its snapshot as much again"
        assert ask(server, "DELETE", model)[0] == 204


def test_a_large_first_update_does_not_delay_others(server: ServerProcess) -> None:
    assert ask(server, "POST", "/v1/models", {"name": "wide", "algorithm": "falt"})[0] == 201
    x = {"indices": [*range(20_000)], "values": [1.0] * 20_000}
    with Others(server) as others:
        started = time.perf_counter()
        status = ask(server, "POST", "/v1/models/wide/update", {"x": x, "y": [f"label {i}" for i in range(3_000)]})[0]
        seconds = time.perf_counter() - started
    assert status == 200
    assert ask(server, "GET", "/v1/models/wide")[2]["bytes"] > 200 * 2**20
    # One pass over the weights is left. If the system provides memory at once, there was nothing to wait for.
    assert others.longest_seconds < max(LONG_SECONDS, seconds / 2)
    assert ask(server, "DELETE", "/v1/models/wide")[0] == 204


def test_a_snapshot_of_a_large_model_does_not_delay_others(server: ServerProcess, large: str) -> None:
    gained = []
    for n in range(2):
        with Others(server) as others:
            assert ask(server, "POST", "/v1/models/large/update", {"x": {"feature 1": n}, "y": []})[0] == 200
            assert ask(server, "POST", large)[0] == 201
        assert others.longest_seconds < LONG_SECONDS
        gained.append(others.gained_bytes)
    # The server may do something else during one of them, but not during both.
    assert min(gained) < 1.6 * 200 * 2**20, f"more than one copy, and pieces: {gained}"


def test_unread_downloads_take_no_memory_and_are_limited(server: ServerProcess, large: str) -> None:
    address = f"{large}/{ask(server, 'GET', large)[2]['snapshots'][0]['position']}"
    with contextlib.ExitStack() as stack, Others(server) as others:

        def begin() -> tuple[int, socket.socket]:
            unread = stack.enter_context(socket.socket())
            unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            unread.connect(("127.0.0.1", server.port))
            unread.sendall(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            return int(unread.recv(12).split()[1]), unread

        begun = [begin() for _ in range(12)]
        assert sorted(status for status, _ in begun) == [200] * 8 + [503] * 4
        status, headers, problem = ask(server, "GET", address)
        assert (status, problem["code"], headers["Retry-After"]) == (503, "not_ready", "1")
        assert others.gained_bytes < 4 * 200 * 2**20, "each of the eight would have a copy"
        for _, unread in begun:
            unread.close()

        def ends() -> bool:
            with contextlib.closing(connect(server)) as connection:
                connection.request("GET", "/metrics")
                return b"\nmanylabel_downloads 0.0\n" in connection.getresponse().read()

        eventually(ends)
    with contextlib.closing(connect(server)) as connection:
        connection.request("GET", address)
        data = connection.getresponse().read()
    assert ask(server, "PUT", "/v1/models/copy", data, BYTES)[0] == 201
    assert ask(server, "GET", "/v1/models/copy")[2]["updates"] >= 1
    assert others.longest_seconds < LONG_SECONDS
