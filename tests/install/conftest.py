"""A server for commands that have no extra."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def server(module_server_process: Callable[..., Any]) -> Iterator[Any]:
    """A running, ready server."""
    process = module_server_process().start()
    yield process
    process.stop()
