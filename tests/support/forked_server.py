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
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.support.limits import set_limits, split

from manylabel_service.forking import client
from manylabel_service.forking.client import ForkServer, Process
from manylabel_service.forking.server import serve
from manylabel_service.server import workers

_set_umask = os.umask  # tests replace it
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["tests.support.loaded_server"])
ADDRESS = ("_forkserver_address", "_forkserver_authkey")
"""Attributes with the address of multiprocessing's fork server; newer Pythons have a key too."""


class LoadedForkServer(ForkServer):
    """A fork server of the service that is forked from the process that has loaded everything."""

    def launch(self, control: socket.socket) -> Process:
        process = _FORKED.Process(target=_serve_forks, args=(control, _umask()), daemon=True)
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


def _serve_forks(control: socket.socket, umask: int) -> None:
    os.umask(umask)
    serve(control)


def _umask() -> int:
    """Return the umask of this process, which its children have."""
    _set_umask(umask := _set_umask(0))
    return umask


class ForkedProgram:
    """A running program of the service, with those methods of `subprocess.Popen` that tests need.

    It has the umask of this process, as a child has.

    Parameters
    ----------
    arguments : flags, as for ``python -m manylabel_service``, and limits in the same form.
    log : a file that it adds its output to.
    environment : all its variables.
    module : the program, as for ``python -m``.
    out : a file that it adds its standard output to, instead of the log.
    """

    def __init__(
        self,
        arguments: list[str],
        log: Path,
        environment: Mapping[str, str],
        module: str = "manylabel_service",
        out: Path | None = None,
    ) -> None:
        sys.audit("tests.forked_program", module)  # the quick lane has none (tests/support/lane_plugin.py)
        forkserver._forkserver.ensure_running()
        address = {name: getattr(forkserver._forkserver, name, None) for name in ADDRESS}
        files = out or log, log
        self._process = _FORKED.Process(
            target=_run, args=(module, arguments, files, _umask(), dict(environment), address)
        )
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


def finished(module: str, *arguments: str, seconds: float = 120.0) -> "subprocess.CompletedProcess[str]":
    """Run a program of the service, forked, to its end; as ``subprocess.run([sys.executable, "-m", module, ...])``."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MANYLABEL_")}
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder, "out"), Path(folder, "log")
        status = ForkedProgram([*arguments], log, environment, module, out).wait(seconds)
        return subprocess.CompletedProcess(arguments, status, out.read_text(), log.read_text())


def _work(work: Callable[..., None], *arguments: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # as in a new process, not as in its parent
        signal.signal(number, signal.SIG_DFL)
    work(*arguments)


def _run(
    module: str,
    arguments: list[str],
    files: tuple[Path, Path],
    umask: int,
    environment: dict[str, str],
    address: Mapping[str, object],
) -> None:
    # It forks from the process that it was forked from: multiprocessing would start, and load, another one.
    for name, value in address.items():
        setattr(forkserver._forkserver, name, value)
    forkserver._forkserver.ensure_running = lambda: None
    main = importlib.import_module(f"{module}.__main__").main
    flags, limits = split(arguments)
    set_limits(limits)

    for standard, path in enumerate(files, 1):
        with path.open("ab") as file:
            os.dup2(file.fileno(), standard)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    client.fork_server = LoadedForkServer()
    # The processes of `--workers`; this one has one thread.
    workers._PROCESSES = multiprocessing.get_context("fork")  # type: ignore[assignment]
    workers._work = partial(_work, workers._work)
    sys.argv = [module, *flags]
    sys.exit(main())
