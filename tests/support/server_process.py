"""The service in a separate process, on a separate port."""

import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.support.forked_server import ForkedProgram
from tests.support.limits import PROGRAM, split
from tests.support.waiting import eventually

ANSWER_SECONDS = 120.0
"""Timeout of requests: a first upload waits until a fork server has loaded all libraries."""

START_SECONDS = 300.0
"""A first start compiles every kernel; on a busy machine that takes a while."""
STOP_SECONDS = 300.0
PATIENT = (
    *("--job-niceness", "0"),  # tests that wait for training run at the same time as others
    *("--header-timeout-seconds", "120"),
    *("--load-timeout-seconds", "120"),
    *("--redis-timeout-seconds", "120"),
)
"""Flags of servers unless a test is about them, and gives them again: on a busy machine all takes its time."""


class ServerProcess:
    """A server in a process of its own, on a port of its own, that can be stopped, killed and started again.

    Parameters
    ----------
    data_dir : its data directory, kept between starts; the log of all its lives is ``<data_dir>.log``.
    flags : further flags, as for ``manylabel serve``, and limits in the same form.
    port : None takes a free one, and keeps it over restarts.
    release : a directory with another release of the package, to run instead of this one.
    tls : what a client has that trusts the server, where it speaks https.
    environment : variables that the process has beside those of this one; the interpreter starts with them.
    fresh : whether to start a new interpreter, as the command does, instead of a fork that has loaded everything.
    """

    def __init__(
        self,
        data_dir: Path,
        flags: tuple[str, ...] = (),
        port: int | None = None,
        release: Path | None = None,
        tls: ssl.SSLContext | None = None,
        environment: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> None:
        self.fresh = fresh
        self.tls = tls
        self.data_dir = data_dir
        self.flags = flags
        self.release = release
        self.environment = dict(environment or {})
        self.port = port or free_port()
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self.log = data_dir.with_name(f"{data_dir.name}.log")
        self.process: subprocess.Popen[bytes] | ForkedProgram | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server is not running"
        return self.process.pid

    def start(self, wait: bool = True) -> Self:
        """Start the process; with `wait`, until it is ready."""
        assert self.process is None, "the server is running"
        arguments = [*PATIENT, "--port", str(self.port), "--data-dir", str(self.data_dir), *self.flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MANYLABEL_")}
        environment |= self.environment
        if self.release is not None:
            environment["PYTHONPATH"] = str(self.release)
        if self.fresh or self.release is not None or self.environment:
            flags, limits = split(arguments)
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", PROGRAM, json.dumps(limits), *flags],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                )
        else:
            self.process = ForkedProgram(arguments, self.log, environment)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"the server ended at its start:\n{self.log_tail()}"
            return self.is_ready()

        eventually(ready, timeout_seconds, otherwise=self.log_tail)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5, context=self.tls) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    def stop(self) -> int:
        """SIGTERM; the exit status of the clean shutdown."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL: nothing is finished, nothing flushed."""
        return self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> int:
        assert self.process is not None, "the server is not running"
        self.process.send_signal(by)
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process = None

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of the log, over all its lives, about an event."""
        text = self.log.read_text() if self.log.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if line["event"] == event]

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()


PORTS = range(10_000, 20_000)
"""Below those that systems give to outgoing connections, so that a killed server finds its own free again; the nodes
of a Redis cluster also talk 10,000 above theirs."""
_ports_given: set[int] = set()


def open_scratch_files(server: ServerProcess) -> int:
    """Files without a name that the server has open in its data directory."""
    links = [
        os.readlink(link) for link in Path(f"/proc/{server.pid}/fd").iterdir() if link.exists() or link.is_symlink()
    ]
    return sum(link.startswith(str(server.data_dir)) and link.endswith("(deleted)") for link in links)


def free_port() -> int:
    """A port for a server; never the same one twice, nor in two processes of pytest-xdist."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    mine = PORTS[number :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    while True:
        port = random.SystemRandom().choice(mine)  # hypothesis seeds the ordinary one
        if port not in _ports_given and _is_free(port):
            _ports_given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
