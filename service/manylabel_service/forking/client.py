"""Child processes for tasks. The fork server of this process starts them; it is started on first use."""

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Protocol, Self

import structlog

from manylabel_service.forking import server

ANSWER_SECONDS = 120.0
"""Timeout in seconds for a response of the fork server, including its start; afterwards it is killed and replaced."""
END_SECONDS = 5.0
"""Maximum seconds to wait for the end of a killed fork server when the process ends."""

_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR", "NUMBA")

log = structlog.get_logger()


class CannotStart(Exception):
    """No child process could be started."""


class _Unanswered(Exception):
    """The fork server has ended, or hangs."""


class Process(Protocol):
    """Methods of `subprocess.Popen` used to end a fork server."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None: ...

    def wait(self) -> int: ...


class ForkServer:
    """Fork server of this process, which is replaced when it has ended or hangs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[Process, socket.socket] | None = None

    @property
    def pid(self) -> int | None:
        """Process id; None before the first use."""
        return None if self._running is None else self._running[0].pid

    def start(self) -> Process:
        """Start the fork server unless it runs. It ends with the thread that started it, or when `end` is called."""
        with self._lock:
            if self._running is None:
                control, its = socket.socketpair()
                control.setblocking(False)
                with its:
                    self._running = self.launch(its), control
                atexit.register(self.end)
            return self._running[0]

    def launch(self, control: socket.socket) -> Process:
        """Start the process, which serves on a socket."""
        return subprocess.Popen(
            [sys.executable, "-m", "manylabel_service.forking", str(control.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[control.fileno()],
            env={**os.environ, **{f"{library}_NUM_THREADS": "1" for library in _THREADS}},
        )

    def end(self, process: Process | None = None) -> None:
        """Kill the fork server with its children.

        If a process is passed, kill only this process, without waiting for its end, because a process that hangs in the
        kernel does not end.
        """
        with self._lock:
            if self._running is None or process not in (None, self._running[0]):
                return
            running, control = self._running
            self._running = None
        atexit.unregister(self.end)
        control.close()
        running.kill()
        waiting = threading.Thread(target=running.wait, name="manylabel-forks-end", daemon=True)
        waiting.start()
        if process is None:
            waiting.join(END_SECONDS)

    def send(self, process: Process, request: bytes, fds: Sequence[int]) -> None:
        """Send a request to a process that `start` returned; raises OSError if it has ended or does not read."""
        with self._lock:
            if self._running is None or self._running[0] is not process:
                raise ConnectionResetError("it was replaced")
            if fds:
                socket.send_fds(self._running[1], [request], fds)
            else:
                self._running[1].send(request)


fork_server = ForkServer()
"""Fork server of this process."""


class Child:
    """Running child process, created by `start`, with the streams of `asyncio.subprocess.Process`.

    Attributes
    ----------
    pid : process id.
    returncode : exit status, negative for a signal; None until `wait` has returned.
    stdin, stdout, stderr : standard streams.
    """

    def __init__(self, owner: ForkServer, process: Process) -> None:
        self._owner, self._process = owner, process
        self._streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.pid = 0
        self.returncode: int | None = None

    @property
    def stdin(self) -> asyncio.StreamWriter:
        return self._streams[0][1]

    @property
    def stdout(self) -> asyncio.StreamReader:
        return self._streams[1][0]

    @property
    def stderr(self) -> asyncio.StreamReader:
        return self._streams[2][0]

    @property
    def _report(self) -> asyncio.StreamReader:
        return self._streams[server.STANDARD][0]

    @classmethod
    async def start(cls, owner: ForkServer, request: bytes, files: Sequence[int], line_bytes: int) -> Self:
        """Send the request and wait for the process id; raises _Unanswered, CannotStart."""
        child = cls(owner, owner.start())
        try:
            with ExitStack() as its_ends:
                its = [its_ends.enter_context(await child._connect(line_bytes)) for _ in range(server.STANDARD + 1)]
                child._send(request, [*(end.fileno() for end in its), *files])
            try:
                await child._await_pid()
            except asyncio.CancelledError:  # the child may have been forked
                with suppress(_Unanswered, CannotStart):
                    await child._await_pid()
                    await child.kill()
                raise
        except BaseException:
            await child._close()
            raise
        return child

    async def communicate(self, data: bytes) -> tuple[bytes, bytes]:
        """Send the input of the child, and return its output and error output after it has ended."""
        self.stdin.write(data)
        self.stdin.write_eof()
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err

    async def wait(self) -> int:
        """Wait until the child has ended, and return its exit status; call this after its output has ended or it was
        killed."""
        if self.returncode is None:
            facts: dict[str, Any] = {}
            for _ in range(2):
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        facts = json.loads(await self._report.readline() or "{}")
                    break
                except TimeoutError:
                    log.warning("fork_server_hangs", pid=self._process.pid)
                    self._owner.end(self._process)
            self.returncode = facts.get("status", -signal.SIGKILL)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the child has ended.

        The fork server sends it, because only it knows whether the child was reaped, so that another process may have
        its id.
        """
        if self.returncode is None:
            request = json.dumps({"pid": self.pid, "signal": number}).encode() + b"\n"
            with suppress(OSError):  # the fork server has ended with its children, or hangs, which `wait` notices
                self._owner.send(self._process, request, ())

    async def kill(self) -> None:
        """Kill the child if it has not ended, wait until it has, and close its streams."""
        self.send_signal(signal.SIGKILL)
        await self.wait()
        await self._close()

    async def _connect(self, line_bytes: int) -> socket.socket:
        """Open another stream, and return its end for the child."""
        # Sockets are used instead of pipes, because asyncio has public streams for sockets. Each is used in one
        # direction.
        ours, its = socket.socketpair()
        try:
            self._streams.append(await asyncio.open_unix_connection(sock=ours, limit=line_bytes))
        except BaseException:
            ours.close()
            its.close()
            raise
        return its

    def _send(self, request: bytes, fds: Sequence[int]) -> None:
        """Send the request; raises _Unanswered."""
        try:
            self._owner.send(self._process, request, fds)
        except OSError as error:
            raise self._unanswered(repr(error)) from error

    async def _await_pid(self) -> None:
        """Read the first report, which has the process id; raises _Unanswered, CannotStart."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                line = await self._report.readline()
        except OSError as error:  # includes TimeoutError
            raise self._unanswered(repr(error)) from error
        if not line:
            raise self._unanswered("it has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise CannotStart(f"the fork server cannot start a process: {answer['error']}")
        self.pid = answer["pid"]

    def _unanswered(self, reason: str) -> _Unanswered:
        """Stop the fork server, and return the error to raise."""
        self._owner.end(self._process)
        return _Unanswered(reason)

    async def _close(self) -> None:
        for _, writer in self._streams:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in self._streams), return_exceptions=True)


async def start(
    module: str, *arguments: str, threads: int, files: Sequence[int] = (), line_bytes: int = 2**16
) -> Child:
    """Start a child that calls ``main(arguments, files)`` of a module and ends with the exit status that it returns.
    Raises CannotStart.

    Parameters
    ----------
    module : str
        Name of the module.
    *arguments : str
        Argument of its ``main``.
    threads : int
        Number of threads of each numerical library in the child.
    files : sequence of int
        Open file descriptors. The child gets copies of them, and no others.
    line_bytes : int
        Maximum bytes of a line of its output.
    """
    request = json.dumps({"module": module, "arguments": arguments, "threads": threads}).encode() + b"\n"
    reason = ""
    for _ in range(2):
        try:
            return await Child.start(fork_server, request, files, line_bytes)
        except _Unanswered as error:
            reason = str(error)
            log.warning("fork_server_lost", reason=reason, action="starting another")
    raise CannotStart(f"the fork server does not respond: {reason}")
