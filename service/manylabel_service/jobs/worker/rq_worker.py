"""Worker that runs the tasks delivered by RQ. RQ runs in the main thread, and an event loop in another thread.

RQ takes tasks from its queue, one at a time. The event loop runs them like a server. The monitors of the servers queue
tasks and detect dead workers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
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

from manylabel_service import compile_functions
from manylabel_service.backoff import pauses
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.jobs.supervision.child_process import remove_stale
from manylabel_service.jobs.supervision.supervisor import supervise
from manylabel_service.jobs.worker.rq_runner import QUEUE, connect
from manylabel_service.models.membership import Membership
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store, open_when_available, store_address
from manylabel_service.storage.blob_places import agree_on_blobs

RQ_HEARTBEAT_SECONDS = 60.0
"""Seconds between two heartbeats to RQ, which considers a worker dead after seven minutes."""
SIGNAL_SECONDS = 0.5
"""Maximum seconds for which a signal may stay unhandled, because the system may deliver it to another thread, which
does not wake the main thread."""
BACKOFF_SECONDS = (0.5, 10.0)
"""Minimum and maximum seconds between two attempts while Redis is unavailable."""
NICENESS = 19
"""Niceness of the process that compiles the functions of trainers."""

log = structlog.get_logger()


class RQWorkerProcess:
    """Event loop in a thread, with the dependencies of tasks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = open_store(settings)
        self._context = JobContext(self._store, settings, DatasetStore(self._store, settings), JobStore(self._store))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tasks", daemon=True)
        self._task: asyncio.Task[None] | None = None
        self._membership = Membership(self._store, "worker")
        self._membership.describe = lambda: {"ready": not self.stopping}
        self._taking_part: Future[None] | None = None
        self._compiling: subprocess.Popen[bytes] | None = None
        self.stopping = False

    def open(self) -> None:
        """Wait until the store is reachable; raises StoreUnusable or StoreTooNew."""
        self._thread.start()
        self._run(open_when_available(self._store, self._join, BACKOFF_SECONDS)).result()
        self._taking_part = self._run(self._take_part())

    def work(self) -> None:
        """Run tasks, in turn, until stopped; compile the functions of trainers in the background."""
        program = [sys.executable, "-P", "-m", compile_functions.__name__, f"--niceness={NICENESS}"]
        self._compiling = subprocess.Popen([*program, "trainers"], stdin=subprocess.DEVNULL)
        backoff = pauses(*BACKOFF_SECONDS)
        while not self.stopping:
            begun, failure = time.monotonic(), None
            try:
                worker = TaskWorker(self, connect(self._settings))
                log.info("worker_started", queue=QUEUE, store=store_address(self._settings))
                # RQ's log lines are omitted, because they concern only its own records: for example, RQ reports an
                # error for a task that it got twice because Redis was unavailable.
                worker.work(logging_level="CRITICAL")
            except redis.exceptions.RedisError as error:
                failure = str(error)
            if time.monotonic() - begun > BACKOFF_SECONDS[1]:
                backoff = pauses(*BACKOFF_SECONDS)
            pause = next(backoff)
            if failure is not None:
                log.warning("queue_unavailable", error=failure, action=f"trying again in {pause:g} s")
            if not self.stopping:  # RQ exits when Redis is unavailable; this worker keeps running
                time.sleep(pause)

    def do(self, id: str, number: int, worker: TaskWorker, job: Job) -> None:
        """Run a task in the other thread, with heartbeats to RQ."""
        task, told_at = self._run(self._supervised(id, number)), time.monotonic()
        while True:
            try:
                return task.result(SIGNAL_SECONDS)
            except CancelledError:
                log.info("task_released", job=id, task=number)
                return None
            except TimeoutError:
                if time.monotonic() - told_at >= RQ_HEARTBEAT_SECONDS:
                    told_at = time.monotonic()
                    with suppress(redis.exceptions.RedisError):
                        worker.maintain_heartbeats(job)

    async def _join(self) -> None:
        await agree_on_blobs(self._store, self._settings.blobs)
        await self._membership.join()

    async def _take_part(self) -> None:
        await self._membership.run()
        if self._membership.refusal is not None:  # the store has a newer format: exit as after a signal
            os.kill(os.getpid(), signal.SIGTERM)

    async def _supervised(self, id: str, number: int) -> None:
        self._task = asyncio.current_task()
        if not self.stopping:
            await supervise(self._context, id, number)
        self._task = None

    def remove_stale(self) -> None:
        """Remove the files that dead workers left on this disk."""
        remove_stale(self._settings.data_dir / "jobs")

    def stop(self) -> None:
        """Release the running task and accept no other."""
        self.stopping = True
        if (task := self._task) is not None:
            self._loop.call_soon_threadsafe(task.cancel)

    def close(self) -> None:
        """Close the store and end the thread, and the process that compiles."""
        if self._compiling is not None:
            self._compiling.kill()
            self._compiling.wait()
        if self._taking_part is not None:
            self._taking_part.cancel()
        self._run(self._membership.leave()).result()
        self._run(self._store.close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


class TaskWorker(SimpleWorker):
    """RQ worker without a process per task, because training has its own process."""

    current: TaskWorker
    job: Job

    def __init__(self, process: RQWorkerProcess, connection: redis.Redis) -> None:
        super().__init__([QUEUE], connection=connection, serializer=JSONSerializer)
        self.process = process

    def execute_job(self, job: Job, queue: Queue) -> None:
        TaskWorker.current, self.job = self, job
        super().execute_job(job, queue)

    def run_maintenance_tasks(self) -> None:
        """Run RQ's maintenance at the start, and every ten minutes."""
        super().run_maintenance_tasks()  # type: ignore[no-untyped-call]
        self.process.remove_stale()

    def handle_warm_shutdown_request(self) -> None:
        self.process.stop()


def do_task(id: str, number: int) -> None:
    """Run a task; called by RQ."""
    worker = TaskWorker.current
    worker.process.do(id, number, worker, worker.job)
