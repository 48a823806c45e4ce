"""The processes that the quick lane starts: servers, a Redis, and a browser where there is one."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.browser.watched import Watched, launched
from tests.support.lanes import allowed
from tests.support.redis_server import RedisServer
from tests.support.server_process import ServerProcess


@pytest.fixture
@allowed
def start_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start servers: ``start_server("--store", url)``; those that still run when the test ends are killed."""
    with contextlib.ExitStack() as stack:
        yield lambda *flags: stack.enter_context(_started(tmp_path, flags))


def _started(place: Path, flags: tuple[str, ...]) -> ServerProcess:
    server = ServerProcess(place / f"data-{len(list(place.iterdir()))}", flags)
    return server.start()


@pytest.fixture
@allowed
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server.start()


@pytest.fixture
@allowed
def watched_browser() -> Iterator[Watched]:
    """Make pages in a browser: ``watched_browser.new_page(server.url)``."""
    with launched() as browser:
        watched = Watched(browser)
        yield watched
        watched.close()
