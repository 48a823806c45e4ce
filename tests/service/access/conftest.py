"""An application that has keys. Tests of keys in a shared store are in test_servers.py."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.service.access.keyed import Keyed


@pytest.fixture(scope="module")
def keyed(serve: Callable[..., Any]) -> Iterator[Keyed]:
    """An application with keys of every kind, which the tests of one file share."""
    with serve(job_slots=0) as client:  # jobs stay queued
        yield Keyed(client)
