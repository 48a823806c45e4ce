"""The stores that the contract suite runs through: a new one needs an entry in STORES, and its way to trace calls."""

import itertools
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import eventually

from manylabel_service.storage import Address, SQLiteStore, Store
from manylabel_service.storage.redis import RedisStore

StoreFactory = Callable[[], Store]
"""Makes unopened stores over one place that outlives them."""

SLOTS = 16_384


def tell_redis(port: int, *words: object) -> bytes:
    """Send one command; the beginning of what is answered. For what a test has to do behind the store's back."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        request = b"*%d\r\n" % len(words)
        for word in words:
            raw = word if isinstance(word, bytes) else str(word).encode()
            request += b"$%d\r\n%b\r\n" % (len(raw), raw)
        connection.sendall(request)
        return connection.recv(1 << 20)


@pytest.fixture(scope="session")
def ask_redis() -> Callable[..., bytes]:
    return tell_redis


@pytest.fixture(scope="session")
def shared_redis(new_redis: Callable[..., Any]) -> Callable[[], str]:
    """Addresses of empty databases of one server."""
    server = new_redis(options={"databases": "10000", "appendfsync": "always"}).start()
    numbers = itertools.count()
    return lambda: f"redis://127.0.0.1:{server.port}/{next(numbers)}"


@pytest.fixture(scope="session")
def redis_cluster(new_redis: Callable[..., Any]) -> Iterator[list[Any]]:
    """The servers of a cluster, which have half of the slots each."""
    options = {"cluster-enabled": "yes", "appendfsync": "always"}
    servers = [new_redis(options=options).start() for _ in range(2)]
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


def in_directory(request: pytest.FixtureRequest, place: Path) -> StoreFactory:
    return lambda: SQLiteStore(place / "data")


def on_redis(request: pytest.FixtureRequest, place: Path) -> StoreFactory:
    address = Address.parse(request.getfixturevalue("shared_redis")())
    return lambda: RedisStore(address)


def on_a_cluster(request: pytest.FixtureRequest, place: Path) -> StoreFactory:
    servers = request.getfixturevalue("redis_cluster")
    for server in servers:  # which has one database only
        tell_redis(server.port, "FLUSHALL")
    address = Address.parse(servers[0].url)
    return lambda: RedisStore(address)


STORES: dict[str, Callable[[pytest.FixtureRequest, Path], StoreFactory]] = {
    "sqlite": in_directory,
    "redis": on_redis,
    "cluster": on_a_cluster,
}


@pytest.fixture(params=STORES)
def stores_in(request: pytest.FixtureRequest) -> Callable[[Path], StoreFactory]:
    """From a fresh directory to a factory of stores that has all it keeps there, or under its name."""
    return lambda place: STORES[request.param](request, place)


@pytest.fixture
def new_store(stores_in: Callable[[Path], StoreFactory], tmp_path: Path) -> StoreFactory:
    """Makes stores over the place that belongs to the test; of the embedded one, one is open at a time."""
    return stores_in(tmp_path)


@pytest.fixture
async def store(new_store: StoreFactory) -> AsyncIterator[Store]:
    store = new_store()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def traces(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> Callable[[], int]:
    """How many files or keys there are of blobs, finished and unfinished."""
    if isinstance(store, SQLiteStore):
        return lambda: len(list((tmp_path / "data" / "blobs").iterdir()))
    assert isinstance(store, RedisStore)
    address = store.address
    return lambda: redis_keys(address, "ml:{blobs}:*")


def redis_keys(address: Address, pattern: str) -> int:
    """How many keys of a database, or of a cluster's node and its neighbour, match a pattern."""
    import redis

    with redis.Redis(port=address.port, db=address.database) as client:
        if client.info("cluster")["cluster_enabled"]:
            with redis.RedisCluster(port=address.port, host="127.0.0.1") as cluster:
                return len(cluster.keys(pattern, target_nodes="primaries"))
        return len(client.keys(pattern))
