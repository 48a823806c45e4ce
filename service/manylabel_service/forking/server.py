"""Fork server: ``python -m manylabel_service.forking FD``, started by `manylabel_service.forking.client`.

It has one thread, and has imported the trainers and the readers of uploads, which takes seconds; forked children have
them at once. The socket FD receives requests: one line of JSON each, with open files. The first four files are the
child's standard input, output and error, and the socket for reports; the others belong to the task. A report is a line
of JSON too: the process id, then the exit status. A request without files is a signal for a child.

`multiprocessing` has a fork server as well. Its client waits for the response without a timeout, so a server that hangs
would stop the event loop. It reads requests with pickle. It does not pass on standard streams, and reports an exit
status only to a process that waits for it.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

import numba

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_service import processes

PRELOADED = (
    "manylabel_service.datasets.export_log",
    "manylabel_service.datasets.read_upload",
    "manylabel_service.jobs.training.child",
    "manylabel_service.jobs.training.fitting",
)
"""Modules imported before the first child starts; a child imports other modules itself."""

MOST_FILES = 32
"""Maximum number of files of a request."""
REQUEST_BYTES = 2**16
STANDARD = 3
"""Files of a request that become the child's standard input, output and error."""


def preload() -> None:
    """Import the modules that children need. The garbage collector never walks their objects, so children share
    them."""
    for module in PRELOADED:
        importlib.import_module(module)
    for trainer in TRAINERS.values():
        trainer.estimator_class()
    # This call makes numba load its reader of compiled functions on disk, which takes 0.6 s.
    numba.njit(lambda: 0)()  # type: ignore[call-arg]
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> None:
    """Fork a child per request until the other end of the socket is closed, then kill the remaining children."""
    processes.name("manylabel-forks")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches all processes; the parent decides
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # signals are written to `wake`
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(reports)
        if control.fileno() in ready:
            line, fds, _, _ = socket.recv_fds(control, REQUEST_BYTES, MOST_FILES)
            if not line:
                break
            for request in map(json.loads, line.splitlines()):  # signals may arrive together, before a task
                if "signal" in request:
                    _signal(request["pid"], request["signal"], reports)
                else:
                    _fork(request, fds, reports)
    for pid in reports:
        os.kill(pid, signal.SIGKILL)


def _signal(pid: int, number: int, reports: dict[int, int]) -> None:
    """Send a signal to a child that was not reaped, so that no other process can have its process id."""
    if pid in reports:
        os.kill(pid, number)


def _fork(request: dict[str, Any], fds: list[int], reports: dict[int, int]) -> None:
    report = fds[STANDARD]
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        _send(report, {"error": str(error)})
        os.close(report)
    else:
        if not pid:
            _run(request, fds, parent)
        _send(report, {"pid": pid})
        reports[pid] = report
    for fd in fds:
        if fd != report:
            os.close(fd)


def _reap(reports: dict[int, int]) -> None:
    """Report the exit status of each child that has ended."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        report = reports.pop(pid)
        _send(report, {"status": os.waitstatus_to_exitcode(status)})
        os.close(report)


def _send(report: int, facts: dict[str, Any]) -> None:
    with suppress(OSError):  # the task may have been cancelled
        os.write(report, json.dumps(facts).encode() + b"\n")


def _run(request: dict[str, Any], fds: list[int], parent: int) -> NoReturn:
    """Run the task in the child, and exit."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        processes.die_with_parent()
        if os.getppid() != parent:  # the process died before
            os._exit(status)
        for standard, fd in enumerate(fds[:STANDARD]):
            os.dup2(fd, standard)
        # The report socket stays open, so that its reader notices the end of both processes.
        _close_all_but([0, 1, 2, *fds[STANDARD:]])
        _limit_threads(request["threads"])
        module = importlib.import_module(request["module"])
        status = module.main(request["arguments"], fds[STANDARD + 1 :])
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _close_all_but(kept: list[int]) -> None:
    following = sorted(kept)
    for low, high in zip(following, [*following[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)


def _limit_threads(number: int) -> None:
    """Set the threads of each numerical library; the fork server itself has one."""
    if number > 1:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        threadpool_limits(number)
