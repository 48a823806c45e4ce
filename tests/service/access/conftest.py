"""Applications that have keys, over both stores."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.service.access.keyed import Keyed

STORES = ("sqlite", "redis")


@pytest.fixture(params=STORES, scope="module")
def keyed(request: pytest.FixtureRequest, serve: Callable[..., Any]) -> Iterator[Keyed]:
    """An application with keys of every kind, which the tests of one file share."""
    store = {"store": request.getfixturevalue("shared_redis")()} if request.param == "redis" else {}
    with serve(**store, job_slots=0) as client:  # jobs stay queued
        yield Keyed(client)
