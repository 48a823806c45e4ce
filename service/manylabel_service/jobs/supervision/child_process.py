"""Training process, from the view of its supervisor, and the directories of running tasks."""

import asyncio
import fcntl
import json
import shutil
import signal
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from manylabel_service import forking

LOCK = "lock"
NEW_SECONDS = 60.0
"""Age in seconds below which a directory may be about to be locked."""


@contextmanager
def task_directory(root: Path) -> Iterator[Path]:
    """Create a directory under a root, which is created if necessary; it is removed at the end."""
    root.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="task-", dir=root))
    try:
        with (directory / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases the lock in whatever way this process ends
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def remove_stale(root: Path) -> None:
    """Remove the directories of dead processes; other processes may do the same concurrently."""
    for directory in root.glob("task-*"):
        with suppress(OSError):
            _remove_if_stale(directory)


def _remove_if_stale(directory: Path) -> None:
    """Remove an unlocked directory; raises OSError if it is locked or does not exist."""
    if time.time() - directory.stat().st_mtime < NEW_SECONDS:
        return
    with (directory / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)


LAST_LINES = 20
"""Number of printed lines stored to explain why the process ended."""
LINE_BYTES = 2**20
"""Maximum bytes of a line of output; the metrics of a result have an entry per label."""


class ChildProcess:
    """Child process that trains for one task; `start` creates it.

    Attributes
    ----------
    last_lines : last lines of its output.
    """

    def __init__(self, process: forking.Child) -> None:
        self._process = process
        self._paused = False
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._printing = asyncio.create_task(self._read_printed(), name="printed by a training process")

    @classmethod
    async def start(cls, directory: Path, threads: int, until: float) -> Self:
        """Start a process for the request in a directory. It computes until a time of the monotonic clock, which
        `allow` extends."""
        arguments = (str(directory), f"{until:.3f}")
        module = "manylabel_service.jobs.training.child"
        return cls(await forking.start(module, *arguments, threads=threads, line_bytes=LINE_BYTES))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the reports of the process until it ends."""
        async for line in self._process.stdout:
            if line.endswith(b"\n"):  # the last line may be incomplete
                yield json.loads(line)

    def allow(self, until: float) -> None:
        """Allow the process to compute until a time of the monotonic clock."""
        if not self._process.stdin.is_closing():
            self._process.stdin.write(b"%.3f\n" % until)
        if self._paused:
            self._process.send_signal(signal.SIGCONT)
            self._paused = False

    def pause(self) -> None:
        """Pause the process until the next `allow`."""
        self._process.send_signal(signal.SIGSTOP)
        self._paused = True

    async def ended(self) -> int:
        """Wait until the process has ended, and return the exit status, negative for a signal."""
        status = await self._process.wait()
        with suppress(TimeoutError):  # a grandchild might keep the pipe open
            await asyncio.wait_for(self._printing, 1.0)
        return status

    async def kill(self) -> None:
        """Kill the process if it is running, and wait for its end."""
        await self._process.kill()
        self._printing.cancel()
        await asyncio.gather(self._printing, return_exceptions=True)

    async def _read_printed(self) -> None:
        while piece := await self._process.stderr.read(65536):
            self.last_lines.extend(line for line in piece.decode(errors="replace").splitlines() if line.strip())
