"""A server for commands that have no extra."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def server(server_process: Callable[..., Any]) -> Iterator[Any]:
    """A running, ready server."""
    process = server_process().start()
    yield process
    process.stop()
