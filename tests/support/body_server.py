"""A watched server, a client that predicts all the time, and the bounds of every request."""

import http.client
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.server_process import free_port
from tests.support.watched_server import shared

MOST_STALL_SECONDS = 0.1
MOST_TIMES_ITS_SIZE = 40
SLACK_BYTES = 32 * 2**20
"""Bytes allowed beyond those of the body: for a small body, and for other work of the server."""


class Worst(NamedTuple):
    """Effects of the worst body of a call."""

    amount: float
    shape: str
    status: int


class Server:
    """A monitored server, with a client for each thread."""

    def __init__(self, directory: Path, *flags: str) -> None:
        file = directory / "worst"
        file.write_bytes(bytes(8))
        self.worst = shared(file)
        self.port = free_port()
        arguments = [str(file), "--port", str(self.port), "--data-dir", str(directory / "data"), *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MANYLABEL_")}
        self._log = (directory / "log").open("wb")
        command = [sys.executable, "-m", "tests.support.watched_server", *arguments]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        self.key = ""
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def ask(
        self, method: str, path: str, content: bytes = b"", media_type: str = "application/json"
    ) -> tuple[int, bytes]:
        headers = {"Content-Type": media_type, **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            self._connections.append(connection)
        try:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            self._connections.remove(connection)
            self._local.connection = None
            raise

    def memory(self, field: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition(f"{field}:")[2].split()[0]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def is_ready(self) -> bool:
        assert self.process.poll() is None
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def end(self) -> None:
        for connection in self._connections:
            connection.close()
        self.process.kill()
        self.process.wait()
        self._log.close()


class Beside(threading.Thread):
    """Thread that predicts with another model all the time.

    Attributes
    ----------
    longest : seconds that one of these took since it was set to 0.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self.longest = 0.0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.003):
            begun = time.perf_counter()
            status, text = self._server.ask("POST", "/v1/models/beside/predict", b'{"x":{"a":1}}')
            assert status == 200, text
            self.longest = max(self.longest, time.perf_counter() - begun)


HEAD = """
| call | bodies | longest stall | by | longest wait | most memory / size | by |
|---|---|---|---|---|---|---|"""


def row(call: str, count: int, stall: Worst, wait: Worst, peak: Worst) -> str:
    """Return a row of the table."""
    return (
        f"| {call} | {count} | {stall.amount * 1000:.0f} ms | {stall.shape} ({stall.status}) "
        f"| {wait.amount * 1000:.0f} ms | {peak.amount:.1f} | {peak.shape} ({peak.status}) |"
    )


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  the table is what the suite is for
