"""Stores, and applications in this process without a socket, on the embedded store by default."""

import contextlib
import itertools
import os
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, refused
from tests.service.fleet import Fleet
from tests.service.stores import STORES, StoreUnderTest, with_blobs_at
from tests.support.described_client import DescribedClient
from tests.support.forked_server import LoadedForkServer
from tests.support.lanes import in_rest
from tests.support.limits import settings_of

from manylabel_service.app import create_app
from manylabel_service.forking import client as client_of_forks
from manylabel_service.hosting.kernels import SERVED, Kernels, load
from manylabel_service.models import log_watcher, membership, successions
from manylabel_service.storage import Address, SQLiteStore, Store, open_store
from manylabel_service.storage.redis import RedisStore

Serve = Callable[..., contextlib.AbstractContextManager[TestClient]]
READY_SECONDS = 120.0


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MANYLABEL_")]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def _loaded_fork_server() -> Iterator[None]:
    """Children of this process are forked from one that was loaded for servers; tests/service/forking has the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_of_forks, "fork_server", server := LoadedForkServer())
        yield
        server.end()


@pytest.fixture(scope="session", autouse=True)
def _loaded_functions() -> None:
    """An application that stops before it has loaded all functions would leave some closed in this process."""
    load(SERVED)


@pytest.fixture(scope="session")
def shared_redis(new_session_redis: Callable[..., Any]) -> Callable[[], str]:
    """Addresses of empty databases of one server."""
    server = new_session_redis(options={"databases": "10000", "appendfsync": "always"}).start()
    numbers = itertools.count()
    return lambda: f"redis://127.0.0.1:{server.port}/{next(numbers)}"


@pytest.fixture(params=[name for name in STORES if name != "cluster"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open store with nothing in it; what is particular to a cluster is tested with the stores themselves."""
    store = STORES[request.param](request, tmp_path).new()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[Store]:
    store = SQLiteStore(tmp_path / "data")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 24 MB, outside of pytest's directories: pytest cannot remove one that a killed run has left."""
    with tempfile.TemporaryDirectory() as place:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24m", "none", place], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.decode().strip()}")
        yield Path(place)
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registries look ten times as often at what others have done."""
    monkeypatch.setattr(log_watcher, "WAIT_SECONDS", log_watcher.WAIT_SECONDS / 10)
    monkeypatch.setattr(log_watcher, "POLL_SECONDS", log_watcher.POLL_SECONDS / 10)


@pytest.fixture
def quick_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that was killed is found dead after a second, instead of ten."""
    monkeypatch.setattr(membership, "EXPIRY_SECONDS", 1.0)
    monkeypatch.setattr(membership, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(successions, "POLL_SECONDS", 0.2)


@pytest.fixture
@in_rest
async def fleet(redis_server: Any, quick: None) -> AsyncIterator[Fleet]:
    """A fleet on a Redis of this test's own."""
    fleet = Fleet(lambda: RedisStore(Address.parse(redis_server.url), fleet.redis_timeout_seconds), redis_server)
    yield fleet
    await fleet.end()


@pytest.fixture
@in_rest
async def lone_fleet(tmp_path: Path, quick: None) -> AsyncIterator[Fleet]:
    """A fleet of one: the embedded store has room for no more."""
    fleet = Fleet(lambda: SQLiteStore(tmp_path / "data"))
    yield fleet
    await fleet.end()


@pytest.fixture
@in_rest
async def outside_fleet(redis_server: Any, quick: None, tmp_path: Path) -> AsyncIterator[Fleet]:
    """A fleet on a Redis of this test's own, with its blobs in a directory outside."""

    def redis_store() -> Store:
        return RedisStore(Address.parse(redis_server.url), fleet.redis_timeout_seconds)

    stores = with_blobs_at(
        f"file://{tmp_path}/outside", StoreUnderTest(redis_store, int, is_shared=True, announces=True), int
    )
    fleet = Fleet(stores.new, redis_server)
    yield fleet
    await fleet.end()


FLEETS = {"redis": "fleet", "sqlite": "lone_fleet", "outside": "outside_fleet"}
"""Names of the fixtures of fleets."""


@pytest.fixture(params=FLEETS)
@in_rest
def any_fleet(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(FLEETS[request.param])


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Make clients of applications of their own: ``with serve(max_body_bytes=100) as client``.

    Their descriptions are equal. The first that is asked for one makes it, which takes a second.
    """
    described: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def make(data_dir: Path | None = None, kernels: Kernels | None = None, **settings: Any) -> Iterator[TestClient]:
        directory = data_dir or tmp_path_factory.mktemp("app") / "data"
        ready, failed = threading.Event(), threading.Event()
        all_settings = settings_of(data_dir=directory, **{"job_niceness": 0, **settings})  # as `ServerProcess`
        app = create_app(
            all_settings,
            open_store(all_settings),
            kernels=kernels,
            on_ready=ready.set,
            on_failure=failed.set,
        )
        app.openapi_schema = described[0] if described else None
        with DescribedClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
            assert ready.wait(READY_SECONDS)
            assert not failed.is_set()
            yield client
        if app.openapi_schema is not None and not described:
            described.append(app.openapi_schema)

    return make


@pytest.fixture(scope="module")
def client(serve: Serve) -> Iterator[TestClient]:
    """A client of an application that the tests of one file share."""
    with serve() as client:
        yield client


@pytest.fixture
def model(client: TestClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a new FALT model, which is deleted after the test."""
    yield create(client, "test")
    client.delete("/v1/models/test")


@pytest.fixture(scope="session", name="create")
def create_() -> Callable[..., str]:
    return create


@pytest.fixture(scope="session", name="refused")
def refused_() -> Callable[..., dict[str, Any]]:
    return refused
