"""A server that trains, and the result of an undisturbed job."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.faults.training import FLAGS, JobClient, job_request


@pytest.fixture(scope="session")
def training_server(session_server_process: Callable[..., Any]) -> Iterator[Any]:
    """A server with its own store, and the dataset that jobs learn from."""
    with session_server_process(*FLAGS).start() as server:
        with JobClient(server.url) as client:
            client.upload()
        yield server


@pytest.fixture(scope="session")
def undisturbed(training_server: Any) -> bytes:
    """The version that the job of the other tests makes without faults."""
    with JobClient(training_server.url) as client:
        job = client.ended(client.submit(job_request("undisturbed")))
        assert job["attempt"] == 1
        return client.version("undisturbed")
