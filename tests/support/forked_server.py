"""Servers and workers forked from a process that has loaded everything: ready in a fraction of a second.

Such a server is a process like any other: with its own memory, threads, sockets and end. It shares with its siblings
the seed of Python's hashes; servers and logs are therefore compared with what the tests' own process computes, and
`manylabel_service` itself, as a command, is started by tests/service/server and by `manylabel demo`.
"""

import importlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from manylabel_service.forking import client
from manylabel_service.forking.client import ForkServer, Process
from manylabel_service.forking.server import serve
from manylabel_service.server import workers

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["tests.support.loaded_server"])
ADDRESS = ("_forkserver_address", "_forkserver_authkey")
"""Where multiprocessing's fork server is reached; newer Pythons have a key too."""


class LoadedForkServer(ForkServer):
    """A fork server of the service that is forked from the process that has loaded everything."""

    def launch(self, control: socket.socket) -> Process:
        process = _FORKED.Process(target=_serve_forks, args=(control,), daemon=True)
        process.start()
        return _Ended(process)


class _Ended:
    """A process of multiprocessing, with those methods of `subprocess.Popen` that end it."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self.pid = int(process.pid or 0)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        self._process.join()
        return int(self._process.exitcode or 0)


def _serve_forks(control: socket.socket) -> None:
    serve(control)


class ForkedProgram:
    """A running program of the service, with those methods of `subprocess.Popen` that tests need.

    Parameters
    ----------
    arguments : flags, as for ``python -m manylabel_service``.
    log : a file that it adds its output to.
    environment : all its variables.
    module : the program, as for ``python -m``.
    """

    def __init__(
        self, arguments: list[str], log: Path, environment: Mapping[str, str], module: str = "manylabel_service"
    ) -> None:
        forkserver._forkserver.ensure_running()
        address = {name: getattr(forkserver._forkserver, name, None) for name in ADDRESS}
        self._process = _FORKED.Process(target=_run, args=(module, arguments, log, dict(environment), address))
        self._process.start()
        self.pid = int(self._process.pid or 0)

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired("a forked program", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _work(work: Callable[..., None], *arguments: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # as in a process that starts anew, not as in its parent
        signal.signal(number, signal.SIG_DFL)
    work(*arguments)


def _run(
    module: str, arguments: list[str], log: Path, environment: dict[str, str], address: Mapping[str, object]
) -> None:
    # It forks from the process that it was forked from: multiprocessing would start, and load, another one.
    for name, value in address.items():
        setattr(forkserver._forkserver, name, value)
    forkserver._forkserver.ensure_running = lambda: None
    main = importlib.import_module(f"{module}.__main__").main

    with log.open("ab") as file:
        for standard in (1, 2):
            os.dup2(file.fileno(), standard)
    os.environ.clear()
    os.environ.update(environment)
    client.fork_server = LoadedForkServer()
    # The processes of `--workers`; this one has one thread.
    workers._PROCESSES = multiprocessing.get_context("fork")  # type: ignore[assignment]
    workers._work = partial(_work, workers._work)
    sys.argv = [module, *arguments]
    sys.exit(main())
