"""A job of one server is cancelled and retried, its process killed, the server killed: the truth is in the store."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.faults.orders import Service, assert_never_back, checkpoint, child_of, children, gone, order, until


@pytest.fixture
def server(training_server: Any) -> Iterator[Any]:
    """Nothing trains there when a test begins, and none of its processes are left."""
    until(lambda: not children(training_server.data_dir))
    yield training_server
    if training_server.process is None:
        training_server.start()


@pytest.fixture
def service(server: Any) -> Iterator[Service]:
    with Service(server.url) as service:
        yield service


def test_a_job_that_is_disturbed_again_and_again_gives_what_an_undisturbed_one_gives(
    server: Any, service: Service, undisturbed: bytes
) -> None:
    body = order("disturbed")
    id = service.submit(body, key="disturbed")

    service.checkpointed(id)
    child = child_of(server.data_dir)
    assert service.call("DELETE", f"/v1/jobs/{id}").json()["state"] == "cancelled"
    until(lambda: gone(child))
    assert service.job(id)["state"] == "cancelled"
    assert service.call("POST", f"/v1/jobs/{id}/retry").json()["state"] == "queued"

    service.checkpointed(id)
    os.kill(child_of(server.data_dir), signal.SIGKILL)
    service.until(id, lambda job: job["attempt"] == 2)

    reached = service.checkpointed(id)
    orphan = child_of(server.data_dir)
    server.kill()
    until(lambda: gone(orphan))
    server.start()
    assert service.submit(body, key="disturbed") == id
    back = service.until(id, lambda job: job["attempt"] == 3)
    assert checkpoint(back) >= checkpoint(reached) > 0

    service.checkpointed(id)
    child = child_of(server.data_dir)
    assert server.stop() == 0
    assert gone(child), "a server that ends in good order takes its processes with it"
    server.start()
    job = service.ended(id)

    assert job["attempt"] == 3, "a restart in good order counts as none"
    assert_never_back(service, id)
    assert [version["job"] for version in service.versions("disturbed")] == [id]
    assert service.version("disturbed") == undisturbed
    assert service.log(id).count("goes on from iteration") == 4
