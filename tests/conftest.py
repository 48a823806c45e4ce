"""Real servers, ours and Redis, for every test that needs one."""

import contextlib
import gc
import os
import re
import shutil
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.support.lanes import in_rest
from tests.support.redis_server import RedisServer
from tests.support.server_process import ServerProcess

pytest_plugins = ["tests.support.lane_plugin", "pytester"]

# The duration of an example is not checked: the first may compile a kernel, and the machine may be busy.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("manylabel", _COMMON, max_examples=25, derandomize=True)  # each run is like the one before
settings.register_profile("quick", settings.get_profile("manylabel"), max_examples=8)  # the quick lane
settings.register_profile("long", _COMMON, max_examples=200, print_blob=True)  # `make test-long`
settings.load_profile("manylabel")

LONG = (
    *("tests/browser", "tests/faults", "tests/clients/command", "tests/clients/export"),
    *("tests/test_documentation.py", "tests/test_examples.py", "tests/service/jobs"),
)

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 12 * 2**30
"""Minimum free memory for pytest's directories in memory; a run of all tests takes up to 6 GiB, and 3 for these."""


def pytest_configure(config: pytest.Config) -> None:
    """Put pytest's directories in memory if there is enough, because each acknowledged update would wait for the disk.

    Tests kill processes, never the machine, so files in memory survive a kill as files on disk do.
    """
    if config.getoption("--lane") == "quick":
        settings.load_profile("quick")
    if os.access(MEMORY, os.W_OK) and min(shutil.disk_usage(MEMORY).free, _available_bytes()) > MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _available_bytes() -> int:
    found = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from traversing the thousands of collected tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the long tests first, so that no process waits for a long test of another at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture
def n_examples() -> int:
    """Return the number of examples for a test that lets Hypothesis run by itself."""
    return settings.default.max_examples


@in_rest
def _server_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ServerProcess]]:
    """Make server processes: ``server_process("--durability", "fsync", data_dir=..., port=...)``.

    Not started yet; whatever still runs when the test, module or session ends is killed: each idle server takes 1 % of
    a processor.
    """
    with contextlib.ExitStack() as stack:

        def make(
            *flags: str,
            data_dir: Path | None = None,
            port: int | None = None,
            release: Path | None = None,
            tls: ssl.SSLContext | None = None,
            environment: Mapping[str, str] | None = None,
            fresh: bool = False,
        ) -> ServerProcess:
            directory = data_dir or tmp_path_factory.mktemp("server") / "data"
            return stack.enter_context(ServerProcess(directory, flags, port, release, tls, environment, fresh))

        yield make


server_process = pytest.fixture(_server_processes, name="server_process")
module_server_process = pytest.fixture(_server_processes, scope="module", name="module_server_process")
session_server_process = pytest.fixture(_server_processes, scope="session", name="session_server_process")


@in_rest
def _redis_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RedisServer]]:
    """Make Redis servers: ``new_redis(options={"appendfsync": "always"}).start()``.

    Not started yet; whatever still runs when the test, module or session ends is killed.
    """
    with contextlib.ExitStack() as stack:

        def make(directory: Path | None = None, **parameters: Any) -> RedisServer:
            return stack.enter_context(RedisServer(directory or tmp_path_factory.mktemp("redis"), **parameters))

        yield make


new_redis = pytest.fixture(_redis_servers, name="new_redis")
new_module_redis = pytest.fixture(_redis_servers, scope="module", name="new_module_redis")
new_session_redis = pytest.fixture(_redis_servers, scope="session", name="new_session_redis")


@pytest.fixture
def redis_server(new_redis: Callable[..., RedisServer]) -> Iterator[RedisServer]:
    """A running Redis server for one test: append-only file on, synced every second."""
    with new_redis() as server:
        yield server.start()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the number of skipped browser tests and the reason, which thousands of dots would hide."""
    left_out = [
        report.longrepr[2]
        for report in terminalreporter.stats.get("skipped", [])
        if report.nodeid.startswith(("tests/browser/", "tests/smoke/"))
    ]
    if left_out:
        terminalreporter.section("left out")
        terminalreporter.line(f"{len(left_out)} tests in a browser: {left_out[0]}")
