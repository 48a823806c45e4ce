"""Workers are killed, frozen and stopped, and Redis restarts: jobs end once, with the result of undisturbed jobs."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.faults.training import FLAGS, JobClient, assert_never_back, checkpoint, child_of, children, job_request
from tests.support.forked_server import ForkedProgram
from tests.support.processes import has_ended
from tests.support.waiting import DEADLINE_SECONDS, eventually


@pytest.fixture
def redis(new_redis: Callable[..., Any]) -> Iterator[Any]:
    with new_redis(options={"appendfsync": "always"}) as server:
        yield server.start()


@pytest.fixture
def client(server_process: Callable[..., Any], redis: Any) -> Iterator[JobClient]:
    """A server that trains nothing itself."""
    server = server_process("--store", redis.url, "--job-runner", "rq", *FLAGS).start()
    with server, JobClient(server.url) as client:
        client.upload()
        yield client


class Worker:
    """A worker in a process of its own.

    Parameters
    ----------
    redis : its address.
    directory : its data directory.
    """

    def __init__(self, redis: str, directory: Path) -> None:
        self.data_dir = directory
        arguments, log = ["--store", redis, "--data-dir", str(directory), *FLAGS], f"{directory.name}.log"
        program = "manylabel_service.jobs.worker"
        self.process = ForkedProgram(arguments, directory.with_name(log), os.environ, program)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def new_worker(redis: Any, tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """Starts workers; all are killed in the end."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(Worker(redis.url, tmp_path / name))


@contextmanager
def most_at_once(root: Path, most: int) -> Iterator[None]:
    """Looks again and again: there are never more training processes than jobs."""
    seen, stop = [], threading.Event()

    def look() -> None:
        while not stop.wait(0.1):
            seen.append(len(children(root)))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        stop.set()
        looking.join()
    assert max(seen) == most


@pytest.mark.long
def test_jobs_survive_killed_frozen_and_stopped_workers_and_a_restart_of_redis(
    redis: Any, client: JobClient, new_worker: Callable[[str], Worker], tmp_path: Path, undisturbed: bytes
) -> None:
    with most_at_once(tmp_path, 2):
        killed, frozen = new_worker("killed"), new_worker("frozen")
        jobs = [client.submit(job_request(f"disturbed-{number}")) for number in range(2)]
        reached = [checkpoint(client.checkpointed(id)) for id in jobs]
        lost = child_of(killed.data_dir), child_of(frozen.data_dir)
        killed.signal(signal.SIGKILL)
        frozen.signal(signal.SIGSTOP)
        eventually(lambda: all(map(has_ended, lost)))

        heir, _ = new_worker("heir"), new_worker("other-heir")
        for id, at in zip(jobs, reached, strict=True):
            back = client.until(id, lambda job: job["attempt"] == 2 and job["state"] == "running")
            assert checkpoint(back) >= at > 0

        # The frozen worker has lost its job, and takes the released one.
        frozen.signal(signal.SIGCONT)
        child = child_of(heir.data_dir)
        for id in jobs:
            client.checkpointed(id)  # their processes compute
        heir.signal(signal.SIGTERM)
        assert heir.process.wait(DEADLINE_SECONDS) == 0
        assert has_ended(child)
        child_of(frozen.data_dir)

        redis.kill()
        redis.start()
        ended = [client.ended(id) for id in jobs]

    assert [job["attempt"] for job in ended] == [2, 2], (
        "neither Redis that was away nor a worker that was stopped costs one"
    )
    for number, id in enumerate(jobs):
        assert_never_back(client, id)
        assert [version["job"] for version in client.versions(f"disturbed-{number}")] == [id]
        assert client.version(f"disturbed-{number}") == undisturbed
