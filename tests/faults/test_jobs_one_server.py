"""A job of one server is cancelled and retried, its process killed, the server killed: the truth is in the store."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.faults.training import JobClient, assert_never_back, checkpoint, child_of, children, job_request
from tests.support.processes import has_ended
from tests.support.waiting import eventually


@pytest.fixture
def server(training_server: Any) -> Iterator[Any]:
    """Nothing trains there when a test begins, and none of its processes are left."""
    eventually(lambda: not children(training_server.data_dir))
    yield training_server
    if training_server.process is None:
        training_server.start()


@pytest.fixture
def client(server: Any) -> Iterator[JobClient]:
    with JobClient(server.url) as client:
        yield client


@pytest.mark.long
def test_a_job_that_is_disturbed_again_and_again_gives_what_an_undisturbed_one_gives(
    server: Any, client: JobClient, undisturbed: bytes
) -> None:
    body = job_request("disturbed")
    id = client.submit(body, key="disturbed")

    client.checkpointed(id)
    child = child_of(server.data_dir)
    assert client.call("DELETE", f"/v1/jobs/{id}").json()["state"] == "cancelled"
    eventually(lambda: has_ended(child))
    assert client.job(id)["state"] == "cancelled"
    assert client.call("POST", f"/v1/jobs/{id}/retry").json()["state"] == "queued"

    client.checkpointed(id)
    os.kill(child_of(server.data_dir), signal.SIGKILL)
    client.until(id, lambda job: job["attempt"] == 2)

    reached = client.checkpointed(id)
    orphan = child_of(server.data_dir)
    server.kill()
    eventually(lambda: has_ended(orphan))
    server.start()
    assert client.submit(body, key="disturbed") == id
    back = client.until(id, lambda job: job["attempt"] == 3)
    assert checkpoint(back) >= checkpoint(reached) > 0

    client.checkpointed(id)
    child = child_of(server.data_dir)
    assert server.stop() == 0
    assert has_ended(child), "a server that ends in good order takes its processes with it"
    server.start()
    job = client.ended(id)

    assert job["attempt"] == 3, "a restart in good order counts as none"
    assert_never_back(client, id)
    assert [version["job"] for version in client.versions("disturbed")] == [id]
    assert client.version("disturbed") == undisturbed
    assert client.log(id).count("resumes from iteration") == 4
