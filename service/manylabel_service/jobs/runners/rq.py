"""The runner whose work is done by RQ workers, on this machine or on others."""

from __future__ import annotations

import asyncio

import redis.exceptions

from manylabel_service.errors import StorageGone
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.runners.local import Queued
from manylabel_service.jobs.runners.rq_queue import QUEUE, TASK, connect, queue_of

MAX_OFFERED = 64
"""Tasks in RQ's queue at a time, roughly; further ones follow as these are taken."""
AGAIN_SECONDS = 10
"""A task that is still queued so long after it was put into RQ's queue, and not there any more, is put there again."""
FAILED_SECONDS = 3600
"""How long RQ keeps what it knows of a task that broke."""


class RQRunner:
    """Puts queued tasks into RQ's queue, and again whatever RQ has lost.

    Each process with a keeper does so; that two put the same task there is rare, and does no harm.

    Parameters
    ----------
    office : of this process.
    """

    def __init__(self, office: JobContext) -> None:
        self._connection = connect(office.settings)
        self._queue = queue_of(self._connection)

    async def offer(self, queued: Queued) -> None:
        offered = [(record.id, number, record.tasks[number].turn) for record, number in queued[:MAX_OFFERED]]
        if offered:
            try:
                await asyncio.to_thread(self._offer, offered)
            except redis.exceptions.RedisError as error:
                raise StorageGone(f"RQ's queue cannot be reached ({error})", heals=True) from error

    async def stop(self) -> None:
        await asyncio.to_thread(self._connection.close)

    def _offer(self, offered: list[tuple[str, int, int]]) -> None:
        waiting = set(self._queue.get_job_ids())
        for id, number, turn in offered:
            name = f"{id}-{number}-{turn}"
            if name not in waiting and self._connection.set(f"ml:{QUEUE}:{name}", 1, nx=True, ex=AGAIN_SECONDS):
                self._queue.enqueue_call(
                    TASK,
                    args=[id, number],
                    job_id=name,
                    timeout=-1,  # ours is job_seconds
                    result_ttl=0,
                    failure_ttl=FAILED_SECONDS,
                    description=f"task {number} of job {id}",
                )
