"""Lease on a task, which is renewed by heartbeats and counts as lost when they fail."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from manylabel_service.environment import time
from manylabel_service.errors import JobNotFound, StorageFull, StorageUnavailable
from manylabel_service.jobs.context import (
    HEARTBEAT_SECONDS,
    POLL_SECONDS,
    PROGRESS_SECONDS,
    RETRY_SECONDS,
    VALID_SECONDS,
    JobContext,
)
from manylabel_service.jobs.job_record import JobDocument, LeaseLost, Task
from manylabel_service.jobs.supervision.child_process import ChildProcess
from manylabel_service.storage import UNREADABLE

Done = TypeVar("Done")
TaskChange = Callable[[JobDocument, Task, str], None]
"""Function that changes a job and its leased task at a time in RFC 3339."""

MARGIN_SECONDS = 1.0
"""Seconds before the end of a lease at which the training process is paused."""


class TaskLease:
    """Exclusive right of this process to run one task.

    Parameters
    ----------
    token : token of the lease in the document.
    taken_at : monotonic time just before the lease was acquired.

    Attributes
    ----------
    process : training process, which computes only while the lease is valid.
    progress : progress to send with the next heartbeat.
    valid_until : monotonic time before which no monitor revokes the lease.
    """

    def __init__(self, context: JobContext, id: str, number: int, token: str, taken_at: float) -> None:
        self._context, self.id, self.number, self.token = context, id, number, token
        self._log_lines: list[str] = []
        self.valid_until = taken_at + VALID_SECONDS
        self.process: ChildProcess | None = None
        self.progress: dict[str, Any] | None = None

    def add_log_line(self, text: str) -> None:
        """Add a line to the job's log; the next heartbeat stores it."""
        self._log_lines.append(text)

    async def change(self, change: TaskChange, *, most_seconds: float | None = None) -> JobDocument:
        """Change the job if the lease is still valid; also counts as a heartbeat. Raises LeaseLost, StorageUnavailable
        or TimeoutError."""
        begun = time.monotonic()
        lines, self._log_lines = self._log_lines, []

        def with_heartbeat(record: JobDocument, now: str) -> None:
            task = record.leased(self.number, self.token)
            task.heartbeats += 1
            task.progress = self.progress or task.progress
            record.add_log_lines(now, lines)
            change(record, task, now)

        try:
            async with asyncio.timeout(most_seconds):
                record = await self._context.job_store.change(self.id, with_heartbeat)
        except (JobNotFound, *UNREADABLE) as error:
            raise LeaseLost(str(error)) from error
        except (StorageUnavailable, TimeoutError):
            self._log_lines = [*lines, *self._log_lines]
            raise
        self.valid_until = begun + VALID_SECONDS
        return record

    async def heartbeat(self) -> None:
        """Renew the lease, before the process must be paused; raises the errors of `change`."""
        await self.change(_unchanged, most_seconds=self._store_seconds())

    async def retry_until_stored(self, do: Callable[[], Awaitable[Done]], *, even_if_full: bool = False) -> Done:
        """Retry an operation until the store is available; `StorageFull` and other errors are raised."""
        while True:
            try:
                return await do()
            except StorageUnavailable as error:
                if not error.heals or (isinstance(error, StorageFull) and not even_if_full):
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def commit(self, change: TaskChange) -> JobDocument:
        """Make a change, retrying while the store is unavailable or full; raises LeaseLost."""
        return await self.retry_until_stored(lambda: self.change(change), even_if_full=True)

    async def renew_forever(self) -> None:
        """Send heartbeats, and extend the deadline of the training process while they succeed; raises LeaseLost."""
        sent, sent_at = self.progress, time.monotonic()
        while True:
            try:
                age = time.monotonic() - sent_at
                news = self.progress is not sent or bool(self._log_lines)
                if age >= (PROGRESS_SECONDS if news else HEARTBEAT_SECONDS):
                    sending, begun = self.progress, time.monotonic()
                    await self.heartbeat()
                    sent, sent_at = sending, begun
                else:
                    await self._poll()
            except (StorageUnavailable, TimeoutError):
                pass
            self._allow_or_pause()
            await asyncio.sleep(POLL_SECONDS)

    async def wait_until_valid(self) -> None:
        """Wait until a process may be started."""
        while self._valid_seconds() <= MARGIN_SECONDS:  # noqa: ASYNC110  time passes until a heartbeat arrives
            await asyncio.sleep(POLL_SECONDS)

    def _valid_seconds(self) -> float:
        return self.valid_until - time.monotonic()

    async def _poll(self) -> None:
        """Raise LeaseLost if the lease was revoked."""
        try:
            async with asyncio.timeout(self._store_seconds()):
                (await self._context.job_store.get(self.id)).leased(self.number, self.token)
        except (JobNotFound, *UNREADABLE) as error:
            raise LeaseLost(str(error)) from error

    def _store_seconds(self) -> float:
        """Return the seconds to wait for the store before the process must be paused."""
        return max(POLL_SECONDS, self._valid_seconds() - MARGIN_SECONDS)

    def _allow_or_pause(self) -> None:
        """Allow the process to compute while the lease is valid, then pause it (self-fencing)."""
        if self.process is None:
            return
        if self._valid_seconds() > MARGIN_SECONDS:
            self.process.allow(self.valid_until)
        else:
            self.process.pause()


def _unchanged(record: JobDocument, task: Task, now: str) -> None:
    """Change nothing, so that only the heartbeat is sent."""
