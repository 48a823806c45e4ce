"""Local runner, which runs tasks in this process, and the interface of all runners."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_record import JobDocument
from manylabel_service.jobs.supervision.supervisor import Supervision, supervise

Queued = Sequence[tuple[JobDocument, int]]


class Runner(Protocol):
    """Dispatcher of queued tasks. Other processes may run an offered task in the meantime: the lease decides."""

    async def offer(self, queued: Queued) -> None:
        """Dispatch queued tasks, or some of them; called repeatedly. Raises StorageUnavailable."""
        ...

    async def stop(self) -> None:
        """Release the running tasks of this process."""
        ...


class LocalRunner:
    """Runner of a limited number of tasks in this process, each under a supervisor of a given class."""

    def __init__(self, context: JobContext, slots: int, supervision: type[Supervision] = Supervision) -> None:
        self._context = context
        self._slots = slots
        self._supervision = supervision
        self._under_way: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def offer(self, queued: Queued) -> None:
        for record, number in queued:
            if len(self._under_way) >= self._slots:
                return
            key = (record.id, number)
            if key not in self._under_way:
                work = supervise(self._context, *key, self._supervision)
                task = asyncio.create_task(work, name=f"job {record.id}, task {number}")
                self._under_way[key] = task
                task.add_done_callback(lambda _, key=key: self._under_way.pop(key))  # type: ignore[misc]

    async def stop(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
