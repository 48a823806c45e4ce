"""Stores for the contract suite, which runs through every kind in tests/service/stores.py."""

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.stores import (
    OUTSIDE,
    STORES,
    StoreUnderTest,
    tell_redis,
    with_blobs_at,
    with_blobs_in_directory,
)
from tests.support.s3_server import S3Server
from tests.support.waiting import eventually

from manylabel_service.storage import Store

SLOTS = 16_384


@pytest.fixture(scope="session")
def ask_redis() -> Callable[..., bytes]:
    return tell_redis


@pytest.fixture(scope="session")
def redis_cluster(new_session_redis: Callable[..., Any]) -> Iterator[list[Any]]:
    """The servers of a cluster, which have half of the slots each."""
    options = {"cluster-enabled": "yes", "appendfsync": "always"}
    servers = [new_session_redis(options=options).start() for _ in range(2)]
    for server, begin in zip(servers, (0, SLOTS // 2), strict=True):
        tell_redis(server.port, "CLUSTER", "ADDSLOTS", *range(begin, begin + SLOTS // 2))
    tell_redis(servers[0].port, "CLUSTER", "SET-CONFIG-EPOCH", 1)
    tell_redis(servers[0].port, "CLUSTER", "MEET", "127.0.0.1", servers[1].port)
    eventually(lambda: all(_is_whole(server.port) for server in servers), otherwise=lambda: "the cluster does not form")
    yield servers
    for server in servers:
        server.kill()


def _is_whole(port: int) -> bool:
    info = tell_redis(port, "CLUSTER", "INFO")
    return b"cluster_state:ok" in info and b"cluster_known_nodes:2" in info


@pytest.fixture(params=[*STORES, *OUTSIDE, pytest.param("s3", marks=pytest.mark.archive)])
def stores_in(request: pytest.FixtureRequest) -> Callable[[Path], StoreUnderTest]:
    """From a fresh directory to stores that have all they keep there, or under its name."""
    if request.param == "s3":
        return lambda place: _with_blobs_at_s3(request, place)
    if request.param in OUTSIDE:
        return lambda place: with_blobs_in_directory(OUTSIDE[request.param], request, place)
    return lambda place: STORES[request.param](request, place)


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server, with its credentials in the environment."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.start().environment.items():
            patch.setenv(name, value)
        yield server


def _with_blobs_at_s3(request: pytest.FixtureRequest, place: Path) -> StoreUnderTest:
    server: S3Server = request.getfixturevalue("bucket")
    address = f"{server.address}/{secrets.token_hex(4)}"
    return with_blobs_at(
        address, STORES["redis"](request, place), lambda: sum("." in key for key in server.keys(address))
    )


@pytest.fixture
def under_test(stores_in: Callable[[Path], StoreUnderTest], tmp_path: Path) -> StoreUnderTest:
    return stores_in(tmp_path)


@pytest.fixture
def new_store(under_test: StoreUnderTest) -> Callable[[], Store]:
    """Makes stores over the place that belongs to the test; of the embedded one, one is open at a time."""
    return under_test.new


@pytest.fixture
async def stores(under_test: StoreUnderTest) -> AsyncIterator[list[Store]]:
    """Open stores of two processes over one place, or the only store of an embedded one."""
    stores = [under_test.new() for _ in range(2 if under_test.is_shared else 1)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


@pytest.fixture
async def store(new_store: Callable[[], Store]) -> AsyncIterator[Store]:
    store = new_store()
    await store.open()
    yield store
    await store.close()
