"""A server that trains, and what a job gives that nobody disturbs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.faults.orders import FLAGS, Service, order


@pytest.fixture(scope="session")
def training_server(server_process: Callable[..., Any]) -> Iterator[Any]:
    """With its own store, and the data set that jobs learn from."""
    with server_process(*FLAGS).start() as server:
        with Service(server.url) as service:
            service.upload()
        yield server


@pytest.fixture(scope="session")
def undisturbed(training_server: Any) -> bytes:
    """The version that comes of the order that the others are disturbed at."""
    with Service(training_server.url) as service:
        job = service.ended(service.submit(order("undisturbed")))
        assert job["attempt"] == 1
        return service.version("undisturbed")
