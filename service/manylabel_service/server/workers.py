"""Several processes behind one port: ``--workers N``.

The parent reserves the port and starts N server processes. Each listens on the port with its own socket, and the
kernel distributes connections among them. Each server process is a replica of the shared log. The parent handles
neither HTTP nor models: it restarts processes that died, forwards signals, and ends when all have ended.

uvicorn also has a parent process. This one adds the needs of a stateful service: a replacement accepts no connection
before it is ready, restarts have a backoff, and the exit status reports a failed start. A server process ends when the
parent is killed. Its replacement has the same number, which labels its metrics.
"""

import gc
import multiprocessing
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import structlog

from manylabel_service.server.sockets import reserve, share, url_of, warn_if_open
from manylabel_service.server.worker_place import WorkerSlot
from manylabel_service.settings import Settings
from manylabel_service.telemetry.logs import configure_logging

log = structlog.get_logger()

STABLE_SECONDS = 60.0
"""Seconds of readiness after which a server process that dies is restarted at once, without backoff."""
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
"""Maximum seconds before a restart; the wait starts at `FIRST_WAIT_SECONDS` and doubles."""
LAST_SNAPSHOTS_SECONDS = 60.0
"""Seconds after `shutdown_timeout_seconds` in which a stopping server process takes its last snapshots, before it is
killed."""

_PROCESSES = multiprocessing.get_context("spawn")
"""Server processes are spawned: a fork would share the parent's threads and locks in an unknown state."""


def supervise(settings: Settings) -> int:
    """Serve with `settings.workers` processes until SIGTERM or SIGINT.

    Returns
    -------
    int
        The exit status: 0 after a clean stop of all; 1 if the port is not available, if a process could not start at
        the first start of the server, or if one had to be killed at the end.
    """
    try:
        reserved = reserve(settings)
    except OSError as error:
        log.error("cannot_start", error=f"cannot listen on {settings.host} port {settings.port}: {error}")
        return 1
    with reserved, tempfile.TemporaryDirectory(prefix="manylabel-") as directory:
        settings = settings.model_copy(update={"port": reserved.getsockname()[1]})  # port 0 is now assigned
        return Supervisor(settings, url_of(settings, reserved), Path(directory)).run()


class Supervisor:
    """Parent process that starts, restarts and stops the workers.

    Parameters
    ----------
    settings : settings of the server; the port is reserved and not 0.
    url : address of the server.
    directory : directory of the private sockets of the processes.
    """

    def __init__(self, settings: Settings, url: str, directory: Path) -> None:
        self._url = url
        self._settings = settings
        self._workers = [_Worker(number, settings, directory) for number in range(settings.workers)]
        self._wake, self._wake_sender = _PROCESSES.Pipe(duplex=False)
        self._served = False
        self._status = 0
        self._kill_at: float | None = None
        """Time at which the remaining processes are killed; None until the server stops."""

    def run(self) -> int:
        """Start and supervise the workers until all have ended; return the exit status."""
        log.info("starting", url=self._url, workers=len(self._workers))
        warn_if_open(self._settings)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._wake_sender.send_bytes(b"stop"))
        while self._kill_at is None or any(worker.process for worker in self._workers):
            self._start_workers()
            self._wait()
            self._poll()
        log.info("stopped")
        return self._status

    def _start_workers(self) -> None:
        if self._kill_at is not None:
            return
        for worker in self._workers:
            if worker.process is None and worker.starts_at <= time.monotonic():
                worker.start(held=any(other.ready for other in self._workers))

    def _wait(self) -> None:
        """Wait until a worker is ready, has ended or is due to start, or until a signal arrives."""
        due = [worker.starts_at for worker in self._workers if worker.process is None]
        times = due if self._kill_at is None else [self._kill_at]
        events = [event for worker in self._workers for event in worker.events()]
        wait([self._wake, *events], max(0.0, min(times) - time.monotonic()) if times else None)

    def _poll(self) -> None:
        while self._wake.poll():
            self._wake.recv_bytes()
            self._stop()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill()
        for worker in self._workers:
            if worker.became_ready():
                self._handle_ready(worker)
            status = worker.ended()
            if status is not None:
                self._handle_exit(worker, status)

    def _handle_ready(self, worker: "_Worker") -> None:
        log.info("worker_ready", worker=worker.number, pid=worker.pid)
        if not self._served and all(worker.ready for worker in self._workers):
            self._served = True
            log.info("serving", url=self._url, docs=f"{self._url}/docs", workers=len(self._workers))

    def _handle_exit(self, worker: "_Worker", status: int) -> None:
        if self._kill_at is not None:
            # SIGTERM kills a worker that does not handle signals yet; this is not a failure.
            self._status = self._status if status in (0, -signal.SIGTERM) else 1
        elif status > 0 and not self._served:
            self._status = 1  # the worker has logged the reason; a restart would fail in the same way
            self._stop()
        else:
            wait_seconds = worker.schedule_restart()
            log.warning("worker_ended", worker=worker.number, status=status, restart_in_seconds=wait_seconds)

    def _stop(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._settings.limits.shutdown_timeout_seconds + LAST_SNAPSHOTS_SECONDS
        for worker in self._workers:
            if worker.process is not None:
                worker.process.terminate()

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.process is not None:
                log.error("worker_killed", worker=worker.number, error="it did not stop in time")
                worker.process.kill()
        self._kill_at = time.monotonic() + LAST_SNAPSHOTS_SECONDS


class _Worker:
    """Worker slot in the parent process, over successive processes."""

    def __init__(self, number: int, settings: Settings, directory: Path) -> None:
        self.number = number
        self.process: BaseProcess | None = None
        self.starts_at = 0.0
        """Earliest time of the next start (monotonic seconds)."""
        self._settings, self._directory = settings, directory
        self._ready_pipe: Connection | None = None
        self._ready_at: float | None = None
        self._deaths = 0

    @property
    def ready(self) -> bool:
        return self._ready_at is not None

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    def start(self, held: bool) -> None:
        place = WorkerSlot(self.number, self._settings.workers, self._directory, held)
        self._ready_pipe, ready = _PROCESSES.Pipe(duplex=False)
        name = f"worker {self.number}"
        self.process = _PROCESSES.Process(target=_work, args=(self._settings, place, ready), name=name)
        with _without_interrupts():
            self.process.start()
        ready.close()  # this process must not keep the child's end open

    def events(self) -> list[Connection | int]:
        """Return the objects to wait for."""
        if self.process is None:
            return []
        return [self.process.sentinel] if self._ready_pipe is None else [self.process.sentinel, self._ready_pipe]

    def became_ready(self) -> bool:
        if self._ready_pipe is None or not self._ready_pipe.poll():
            return False
        with self._ready_pipe, suppress(EOFError):  # the worker ended instead
            self._ready_pipe.recv_bytes()
            self._ready_at = time.monotonic()
        self._ready_pipe = None
        return self.ready

    def ended(self) -> int | None:
        """Return the exit status, once, when the process has ended: negative for a signal."""
        if self.process is None or self.process.exitcode is None:
            return None
        status = self.process.exitcode
        self.process.close()
        self.process = None
        return status

    def schedule_restart(self) -> float:
        """Schedule the next start; return the seconds until then."""
        if self._ready_at is not None and time.monotonic() - self._ready_at > STABLE_SECONDS:
            self._deaths = 0
        # Count deaths only while the delay still grows.
        wait_seconds = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (self._deaths - 1)) if self._deaths else 0.0
        self._deaths = min(self._deaths + 1, 16)
        self._ready_at = None
        self.starts_at = time.monotonic() + wait_seconds
        return wait_seconds


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Protect children created in this context from Ctrl+C, which reaches all processes; the parent stops them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(settings: Settings, place: WorkerSlot, ready: Connection) -> None:
    """Run in the worker's process."""
    gc.disable()  # as in `manylabel_service.__main__`
    configure_logging(settings, worker=place.number)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    from manylabel_service.server.process import run  # slow to import, and not needed in the parent

    sys.exit(run(settings, share(settings), place=place, on_ready=lambda: ready.send_bytes(b"ready")))


def _end_with_parent() -> None:
    """Shut down gracefully when the parent was killed, because an orphan would block the port."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
