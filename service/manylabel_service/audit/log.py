"""Audit log of one process: calls are collected on the event loop and written in batches by a thread."""

import asyncio
import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from manylabel_service.audit.call import Call

WRITE_SECONDS = 0.1
"""Maximum delay in seconds before waiting calls are written; a killed process loses them."""
RETRY_SECONDS = 1.0
"""Seconds until the next attempt after a failed one."""
MAX_WAITING = 50_000
"""Maximum number of calls waiting to be written; above it, new calls are lost and counted."""
log = structlog.get_logger()


class AuditFile:
    """File to which several processes append lines. It may be moved at any time, for example by logrotate."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, text: bytes) -> None:
        """Append either all lines or none; raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, text)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)


class AuditOutput:
    """Output of audit lines to standard output."""

    def append(self, text: bytes) -> None:
        """Write whole lines one by one, so that short lines of several processes do not mix.

        Raises OSError.
        """
        for line in text.splitlines(keepends=True):
            _write_all(STDOUT, line)


class AuditLog:
    """Audit log that accepts calls without blocking them.

    If the file cannot be written, requests continue: up to `MAX_WAITING` calls wait for free disk space, and further
    calls are lost and counted by `on_lost`.
    """

    def __init__(self, place: AuditFile | AuditOutput, on_lost: Callable[[int], None]) -> None:
        self._place = place
        self._on_lost = on_lost
        self._waiting: list[Call] = []
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        # A separate thread, because threads of `asyncio.to_thread` have a low priority even while they hold the
        # interpreter lock.
        self._thread = ThreadPoolExecutor(1, "manylabel-audit")
        self._failing = False

    def add(self, call: Call) -> None:
        """Queue a call for writing."""
        if len(self._waiting) >= MAX_WAITING:
            self._on_lost(1)
            return
        self._waiting.append(call)
        if self._timer is None:
            self._schedule(WRITE_SECONDS)

    async def check(self) -> None:
        """Raise OSError if the file is not writable."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._place.append, b"")

    async def flush(self) -> None:
        """Write all waiting calls, even if the caller is cancelled; calls that cannot be written keep waiting."""
        await asyncio.shield(asyncio.create_task(self._flush()))

    async def _flush(self) -> None:
        async with self._writing:
            calls, self._waiting = self._waiting, []
            if calls and not await self._written(calls):
                self._waiting = calls + self._waiting
                self._on_lost(max(0, len(self._waiting) - MAX_WAITING))
                del self._waiting[MAX_WAITING:]

    async def close(self) -> None:
        """Write all waiting calls, and stop."""
        if self._timer is not None:
            self._timer.cancel()
        await self.flush()
        self._thread.shutdown()

    def _schedule(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self.flush()
        async with self._writing:  # a concurrent flush that failed may put its calls back
            self._timer = None
            if self._waiting:
                self._schedule(RETRY_SECONDS if self._failing else WRITE_SECONDS)

    async def _written(self, calls: list[Call]) -> bool:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write, calls)
        except Exception as error:
            if not self._failing:
                unexpected = not isinstance(error, OSError)
                action = "requests continue; retried until the calls are written"
                log.error("audit_failed", error=str(error), action=action, exc_info=unexpected)
            self._failing = True
            return False
        if self._failing:
            log.info("audit_recovered")
        self._failing = False
        return True

    def _write(self, calls: list[Call]) -> None:
        """Write calls; remove from the list, and count as lost, those that cannot be serialised."""
        lines = []
        for call in list(calls):
            try:
                lines.append(call.to_json())
            except Exception:
                log.exception("audit_failed", request_id=call.request_id, action="this call is lost")
                calls.remove(call)
                self._on_lost(1)
        self._place.append(b"".join(lines))


STDOUT = 1


def _write_all(descriptor: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
