"""RQ as transport of tasks to workers on any machine, with its queue, registry of workers and `rq info`.

The state of tasks is in the store, not in RQ.
"""

import asyncio

import redis
from rq import Queue
from rq.serializers import JSONSerializer

from manylabel_service.errors import StorageUnavailable
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.local_runner import Queued
from manylabel_service.settings import Settings
from manylabel_service.storage.opening import redis_address

QUEUE = "manylabel"
TASK = "manylabel_service.jobs.worker.rq_worker.do_task"
"""Function that a worker calls, with the id of a job and the number of a task."""
MAX_OFFERED = 64
"""Approximate maximum number of tasks in RQ's queue; more tasks are added as these are claimed."""
RESEND_SECONDS = 10
"""Seconds after which a queued task that RQ has lost is put into its queue again."""
FAILED_SECONDS = 3600
"""Seconds for which RQ stores the result of a failed task."""


def connect(settings: Settings) -> redis.Redis:
    """Return a connection to the Redis of the store, for RQ."""
    address = redis_address(settings)
    seconds = settings.redis_timeout_seconds
    return redis.Redis(
        host=address.host,
        db=address.database,
        ssl=address.tls,
        socket_connect_timeout=seconds,
        socket_timeout=seconds,
        **address.arguments(),
    )


def queue_of(connection: redis.Redis) -> Queue:
    """Return the queue on a connection."""
    return Queue(QUEUE, connection=connection, serializer=JSONSerializer)


class RQRunner:
    """Runner that puts queued tasks into RQ's queue, and repeats this if RQ has lost them.

    Each server has one. Two servers rarely queue the same task, and this is harmless.
    """

    def __init__(self, context: JobContext) -> None:
        self._connection = connect(context.settings)
        self._queue = queue_of(self._connection)

    async def offer(self, queued: Queued) -> None:
        offered = [(record.id, number, record.tasks[number].times_queued) for record, number in queued[:MAX_OFFERED]]
        if offered:
            try:
                await asyncio.to_thread(self._offer, offered)
            except redis.exceptions.RedisError as error:
                raise StorageUnavailable(f"RQ's queue cannot be reached ({error})", heals=True) from error

    async def stop(self) -> None:
        await asyncio.to_thread(self._connection.close)

    def _offer(self, offered: list[tuple[str, int, int]]) -> None:
        waiting = set(self._queue.get_job_ids())
        for id, number, turn in offered:
            name = f"{id}-{number}-{turn}"
            if name not in waiting and self._connection.set(f"ml:{QUEUE}:{name}", 1, nx=True, ex=RESEND_SECONDS):
                self._queue.enqueue_call(
                    TASK,
                    args=[id, number],
                    job_id=name,
                    timeout=-1,  # our own limit is job_timeout_seconds
                    result_ttl=0,
                    failure_ttl=FAILED_SECONDS,
                    description=f"task {number} of job {id}",
                )
