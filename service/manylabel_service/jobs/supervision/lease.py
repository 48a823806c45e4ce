"""A claim on a task: kept alive by signs of life, and noticed when it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from manylabel_service.errors import JobNotFound, StorageFull, StorageGone
from manylabel_service.jobs.context import (
    BEAT_SECONDS,
    HOLD_SECONDS,
    LOOK_SECONDS,
    RETRY_SECONDS,
    TELL_SECONDS,
    JobContext,
)
from manylabel_service.jobs.job_record import JobRecord, LeaseLost, Task
from manylabel_service.jobs.supervision.child_process import ChildProcess

Done = TypeVar("Done")
Step = Callable[[JobRecord, Task, str], None]
"""Changes a job and its claimed task, at a time in RFC 3339."""

MARGIN_SECONDS = 1.0
"""Before the time of a process is over: to pause it before it ends itself."""


class TaskLease:
    """A claim on one task.

    Parameters
    ----------
    office : of this process.
    id, number : the job and its task.
    token : of the claim, in the document.
    made : when it was about to be made, on the monotonic clock.

    Attributes
    ----------
    process : the training process; it computes only while the claim is certain.
    progress : to be told with the next sign of life.
    certain_until : nobody takes this claim for dead before (monotonic seconds).
    """

    def __init__(self, office: JobContext, id: str, number: int, token: str, made: float) -> None:
        self._office, self.id, self.number, self.token = office, id, number, token
        self._lines: list[str] = []
        self.certain_until = made + HOLD_SECONDS
        self.process: ChildProcess | None = None
        self.progress: dict[str, Any] | None = None

    def say(self, text: str) -> None:
        """Add a line to the job's log, with the next sign of life."""
        self._lines.append(text)

    async def step(self, step: Step, *, most_seconds: float | None = None) -> JobRecord:
        """Change the job, if this claim on it still holds. It is a sign of life too.

        Raises
        ------
        LeaseLost
        StorageGone
            The step may have been made.
        TimeoutError
            The same, after `most_seconds`.
        """
        begun = time.monotonic()
        lines, self._lines = self._lines, []

        def make(record: JobRecord, now: str) -> None:
            task = record.held(self.number, self.token)
            task.beat += 1
            task.progress = self.progress or task.progress
            record.say(now, lines, self._office.settings.max_job_log_lines)
            step(record, task, now)

        try:
            async with asyncio.timeout(most_seconds):
                record = await self._office.ledger.change(self.id, make)
        except JobNotFound as error:
            raise LeaseLost(str(error)) from error
        except (StorageGone, TimeoutError):
            self._lines = [*lines, *self._lines]
            raise
        self.certain_until = begun + HOLD_SECONDS
        return record

    async def insist(self, do: Callable[[], Awaitable[Done]]) -> Done:
        """Do something, again and again until the store is there; `StorageFull` and other errors are raised."""
        while True:
            try:
                return await do()
            except StorageGone as error:
                if not error.heals or isinstance(error, StorageFull):
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def settle(self, step: Step) -> JobRecord:
        """Make a step, however long the store is gone or full; raises LeaseLost."""
        while True:
            try:
                return await self.step(step)
            except StorageGone as error:
                if not error.heals:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def keep(self) -> None:
        """Give signs of life, and let the process compute while they arrive; raises LeaseLost in the end."""
        told, beaten = self.progress, time.monotonic()
        while True:
            try:
                age = time.monotonic() - beaten
                news = self.progress is not told or bool(self._lines)
                if age >= (TELL_SECONDS if news else BEAT_SECONDS):
                    telling, begun = self.progress, time.monotonic()
                    await self.step(_nothing_else, most_seconds=self._patience())
                    told, beaten = telling, begun
                else:
                    await self._look()
            except (StorageGone, TimeoutError):
                pass
            self._steer()
            await asyncio.sleep(LOOK_SECONDS)

    async def certain(self) -> None:
        """Wait until a process may be started."""
        while self._certain_seconds() <= MARGIN_SECONDS:  # noqa: ASYNC110  time passes until a sign of life arrives
            await asyncio.sleep(LOOK_SECONDS)

    def _certain_seconds(self) -> float:
        return self.certain_until - time.monotonic()

    async def _look(self) -> None:
        """Raise LeaseLost if the task was taken away."""
        try:
            async with asyncio.timeout(self._patience()):
                (await self._office.ledger.get(self.id)).held(self.number, self.token)
        except JobNotFound as error:
            raise LeaseLost(str(error)) from error

    def _patience(self) -> float:
        """How long to wait for the store before the process has to be paused."""
        return max(LOOK_SECONDS, self._certain_seconds() - MARGIN_SECONDS)

    def _steer(self) -> None:
        """Let the process compute as long as the claim is certain; then it stands still, with all that it has."""
        if self.process is None:
            return
        if self._certain_seconds() > MARGIN_SECONDS:
            self.process.allow(self.certain_until)
        else:
            self.process.pause()


def _nothing_else(record: JobRecord, task: Task, now: str) -> None:
    """A sign of life and no more."""
