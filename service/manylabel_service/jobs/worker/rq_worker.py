"""Where an RQ worker does tasks: RQ in the main thread, an event loop beside it.

RQ takes tasks from its queue, one at a time. The event loop does them as a server would do its own; and it keeps, so
that nothing is forgotten while there is one worker.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

import redis.exceptions
import structlog
from rq import SimpleWorker
from rq.job import Job
from rq.queue import Queue
from rq.serializers import JSONSerializer

from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.errors import StorageGone
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.jobs.monitor import JobMonitor
from manylabel_service.jobs.runners.rq import RQRunner
from manylabel_service.jobs.runners.rq_queue import QUEUE, connect
from manylabel_service.jobs.supervision.supervisor import supervise
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store, store_address

HEARTBEAT_SECONDS = 60.0
"""Between two signs of life to RQ, which takes a worker for dead after seven minutes."""
PAUSES_SECONDS = (0.5, 10.0)
"""From, and up to: between two attempts when Redis is gone."""

log = structlog.get_logger()


class RQWorkerProcess:
    """Where one worker works: an event loop in a thread, with all that tasks need.

    Parameters
    ----------
    settings : as of the servers.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = open_store(settings)
        self._office = JobContext(self._store, settings, DatasetStore(self._store, settings), JobStore(self._store))
        self._runner = RQRunner(self._office)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tasks", daemon=True)
        self._keeping: Future[None] | None = None
        self._task: Future[None] | None = None
        self.stopping = False

    def open(self) -> None:
        """Reach the store, however long that takes; raises StoreUnusable."""
        self._thread.start()
        pause = PAUSES_SECONDS[0]
        while True:
            try:
                self._do(self._store.open()).result()
                break
            except StorageGone as error:
                if not error.heals:
                    raise
                log.warning("store_not_there", error=str(error), action=f"trying again in {pause:g} s")
            time.sleep(pause)
            pause = min(2 * pause, PAUSES_SECONDS[1])
        self._keeping = self._do(JobMonitor(self._office, self._runner).run())

    def work(self) -> None:
        """Take tasks, one after the other, until told to stop."""
        pause = PAUSES_SECONDS[0]
        while not self.stopping:
            begun = time.monotonic()
            try:
                worker = TaskWorker(self, connect(self._settings))
                log.info("working", queue=QUEUE, store=store_address(self._settings))
                # What RQ has to say is about its own records, which are not ours: a task that it was given twice
                # because Redis was away, say, is an error to it.
                worker.work(logging_level="CRITICAL")
            except redis.exceptions.RedisError as error:
                log.warning("queue_not_there", error=str(error), action=f"trying again in {pause:g} s")
            if not self.stopping:  # RQ gives up when Redis goes away; this worker does not
                pause = PAUSES_SECONDS[0] if time.monotonic() - begun > PAUSES_SECONDS[1] else pause
                time.sleep(pause)
                pause = min(2 * pause, PAUSES_SECONDS[1])

    def do(self, id: str, number: int, worker: TaskWorker, job: Job) -> None:
        """Do a task in the other thread; meanwhile tell RQ that this worker lives."""
        if self.stopping:
            return None
        self._task = self._do(supervise(self._office, id, number))
        try:
            while True:
                try:
                    return self._task.result(HEARTBEAT_SECONDS)
                except TimeoutError:
                    with suppress(redis.exceptions.RedisError):
                        worker.maintain_heartbeats(job)
        except CancelledError:
            log.info("task_given_back", job=id, task=number)
        finally:
            self._task = None

    def stop(self) -> None:
        """Give back what is under way and take nothing more."""
        self.stopping = True
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        """Let go of everything."""
        if self._keeping is not None:
            self._keeping.cancel()
        self._do(self._let_go()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _let_go(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._runner.stop()
        await self._store.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


class TaskWorker(SimpleWorker):
    """RQ's worker, without a process for each task: training has a process of its own anyway.

    Parameters
    ----------
    desk : does the tasks.
    connection : to Redis.
    """

    current: TaskWorker
    job: Job

    def __init__(self, desk: RQWorkerProcess, connection: redis.Redis) -> None:
        super().__init__([QUEUE], connection=connection, serializer=JSONSerializer)
        self.desk = desk

    def execute_job(self, job: Job, queue: Queue) -> None:
        TaskWorker.current, self.job = self, job
        super().execute_job(job, queue)

    def handle_warm_shutdown_request(self) -> None:
        self.desk.stop()


def do_task(id: str, number: int) -> None:
    """What RQ calls."""
    worker = TaskWorker.current
    worker.desk.do(id, number, worker, worker.job)
