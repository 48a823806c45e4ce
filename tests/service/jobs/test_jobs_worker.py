"""Workers in separate processes, over a real Redis and RQ."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.service.jobs.conftest import (
    LONG,
    SHORT,
    WAIT_SECONDS,
    add_songs,
    estimator_of,
    spec,
    wait_for_checkpoint,
    wait_until_ended,
)
from tests.support.forked_server import ForkedProgram, finished
from tests.support.processes import TRAINER, processes
from tests.support.waiting import eventually_async

from manylabel_service.jobs.job_service import JobService
from manylabel_service.jobs.runners.rq import RQRunner, connect, queue_of
from manylabel_service.models.membership import KIND
from manylabel_service.release import FORMAT
from manylabel_service.storage import Address
from manylabel_service.storage.redis import RedisStore


class Workers:
    """Worker processes, each with a directory of its own; those left are killed in the end."""

    def __init__(self, url: str, place: Path) -> None:
        self.url, self.place = url, place
        self.started: list[ForkedProgram] = []

    def start(self, *flags: str) -> ForkedProgram:
        own = self.place / f"worker-{len(self.started)}"
        options = ["--store", self.url, "--data-dir", str(own), "--job-niceness", "0", *flags]
        worker = ForkedProgram(options, self.place / "workers.log", os.environ, "manylabel_service.jobs.worker")
        self.started.append(worker)
        return worker

    def log(self) -> str:
        return (self.place / "workers.log").read_text()


@pytest.fixture
def workers(redis_server, tmp_path):
    workers = Workers(redis_server.url, tmp_path)
    yield workers
    for worker in workers.started:
        if worker.poll() is None:
            worker.kill()
            worker.wait()


@pytest.fixture
async def jobs(redis_server, context_of):
    """JobService as a server has them that leaves the work to workers."""
    store = RedisStore(Address.parse(redis_server.url))
    await store.open()
    context = context_of(store, store=redis_server.url, job_runner="rq")
    jobs = JobService(context, RQRunner(context))
    await jobs.start()
    yield jobs
    await jobs.stop()
    await store.close()


@pytest.mark.usefixtures("programs")
async def test_a_job_that_a_stopped_worker_releases_is_finished_by_another(jobs, workers, undisturbed_estimator):
    await add_songs(jobs._context)
    job, _ = await jobs.submit(spec(LONG), None)
    first = workers.start()
    await wait_for_checkpoint(jobs, job.id)
    assert len(processes(TRAINER, directory=workers.place / "worker-0")) == 1
    first.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait, WAIT_SECONDS) == 0
    assert processes(TRAINER, directory=workers.place) == set()
    left = await jobs.get(job.id)
    assert (left.state, left.attempt) == ("queued", 1)
    second = workers.start()
    done = await wait_until_ended(jobs, job.id)
    assert (done.state, done.attempt) == ("succeeded", 1), workers.log()
    assert await estimator_of(jobs._context, "songs-long") == undisturbed_estimator
    lines = [line.text for line in await jobs.log(job.id)]
    (back,) = [i for i, line in enumerate(lines) if "is released: its worker stops" in line]
    assert f"process {first.pid}" in lines[back - 1]
    assert f"process {second.pid}" in lines[back + 1]


async def test_a_task_that_rq_has_lost_is_queued_again_once(jobs, context_of):
    await add_songs(jobs._context)
    job, _ = await jobs.submit(spec(SHORT), None)
    connection = connect(jobs._context.settings)
    queue = queue_of(connection)

    async def waiting():
        return queue.get_job_ids()

    assert await eventually_async(waiting) == [f"{job.id}-0-1"]
    connection.delete(*connection.keys("rq:*"))
    connection.delete(*connection.keys("ml:manylabel:*"))  # as if ten seconds had passed
    assert await eventually_async(waiting) == [f"{job.id}-0-1"]
    for runner in (RQRunner(jobs._context), RQRunner(jobs._context)):
        await runner.offer([(await jobs._job_store.get(job.id), 0)])
        await runner.stop()
    assert queue.get_job_ids() == [f"{job.id}-0-1"]
    connection.close()


SIGNALLED = """
import asyncio, signal, sys, threading, time
from manylabel_service.jobs.worker.rq_worker import RQWorkerProcess
from manylabel_service.settings import Settings

class SignalledProcess(RQWorkerProcess):
    async def _supervised(self, id, number):
        self._task = asyncio.current_task()
        while sys._current_frames()[threading.main_thread().ident].f_code.co_name != "wait":
            await asyncio.sleep(0.01)
        self.signalled_at = time.monotonic()
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        await asyncio.sleep(3600)

worker = SignalledProcess(Settings(data_dir=sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: worker.stop())
worker.open()
worker.do("a job", 0, None, None)
print(time.monotonic() - worker.signalled_at)
worker.close()
"""


@pytest.mark.usefixtures("programs")
def test_a_worker_stops_at_a_signal_to_another_thread(tmp_path):
    """The system may choose any thread; the main one, which alone runs handlers, sleeps on and is not woken."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, str(tmp_path)], capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) < 10


@pytest.mark.usefixtures("programs")
def test_a_worker_needs_a_shared_store(tmp_path):
    done = finished("manylabel_service.jobs.worker", "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert "store: must be the redis:// address" in done.stderr


@pytest.mark.usefixtures("programs")
@pytest.mark.long
async def test_a_worker_ends_when_its_release_is_too_old(jobs, workers):
    """The format number of the store is raised while it runs."""
    documents = jobs._context.store.documents
    worker = workers.start()

    async def told():
        return [one for one in await documents.all(KIND) if json.loads(one.value)["role"] == "worker"]

    await eventually_async(told)
    await jobs._context.store.raise_format(FORMAT + 1)
    assert await asyncio.to_thread(worker.wait, WAIT_SECONDS) == 0
    assert "release_too_old" in workers.log()
    refused = workers.start()
    assert await asyncio.to_thread(refused.wait, WAIT_SECONDS) == 1
    assert "run the newer release" in workers.log()
