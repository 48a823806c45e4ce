"""The kinds of store that tests run through: a new one needs an entry in STORES.

Servers that share one are made by the fixture `any_fleet`.
"""

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.simulation.store import SimulatedStore, new_disk
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service.storage import START, Address, Durability, Entry, ModelMeta, SQLiteStore, Store
from manylabel_service.storage.blob_places import agree_on_blobs, is_outside
from manylabel_service.storage.redis import RedisStore


@dataclass(frozen=True)
class StoreUnderTest:
    """A kind of store, over one place that outlives its stores.

    Attributes
    ----------
    new : makes an unopened store.
    n_blobs : counts the files or keys of blobs, finished and unfinished.
    is_shared : whether several can be open at once, and be left open by processes that died.
    announces : whether changes of logs are reported.
    """

    new: Callable[[], Store]
    n_blobs: Callable[[], int]
    is_shared: bool
    announces: bool


def in_directory(request: pytest.FixtureRequest, place: Path) -> StoreUnderTest:
    directory = place / "data"
    return StoreUnderTest(
        lambda: SQLiteStore(directory),
        lambda: len(list((directory / "blobs").iterdir())),
        is_shared=False,
        announces=False,
    )


def on_redis(request: pytest.FixtureRequest, place: Path) -> StoreUnderTest:
    return _at(request.getfixturevalue("shared_redis")(), announces=True)


def on_a_cluster(request: pytest.FixtureRequest, place: Path) -> StoreUnderTest:
    servers = request.getfixturevalue("redis_cluster")
    for server in servers:  # which has one database only
        tell_redis(server.port, "FLUSHALL")
    return _at(servers[0].url, announces=False)


def _at(url: str, announces: bool) -> StoreUnderTest:
    address = Address.parse(url)
    return StoreUnderTest(
        lambda: RedisStore(address, timeout_seconds=DEADLINE_SECONDS),
        lambda: _n_keys(address, "ml:{blob*"),
        is_shared=True,
        announces=announces,
    )


def simulated(request: pytest.FixtureRequest, place: Path) -> StoreUnderTest:
    disk = new_disk(lambda: time.time_ns() // 1_000_000)

    def n_blobs() -> int:
        return len(disk.unfinished) + sum(not is_outside(blob.manifest.token) for blob in disk.blobs.values())

    return StoreUnderTest(lambda: SimulatedStore(disk), n_blobs, is_shared=True, announces=True)


STORES: dict[str, Callable[[pytest.FixtureRequest, Path], StoreUnderTest]] = {
    "sqlite": in_directory,
    "redis": on_redis,
    "cluster": on_a_cluster,
    "simulated": simulated,
}
"""By name, from the test that asks and an empty directory."""
OUTSIDE = {"sqlite-outside": "sqlite", "redis-outside": "redis", "simulated-outside": "simulated"}
"""Stores with their blobs in a directory outside, by name, with the kind of the store."""
REAL = [kind for kind in STORES if kind != "simulated"]
"""Stores with bytes of their own, which can be damaged."""


def with_blobs_at(address: str, stores: StoreUnderTest, n_objects: Callable[[], int]) -> StoreUnderTest:
    """Put the blobs of stores at a place; `n_objects` counts the objects of blobs there."""

    def new() -> Store:
        store = stores.new()
        opened = store.open

        async def open_both() -> None:
            await opened()
            try:
                await agree_on_blobs(store, address)
            except BaseException:
                await store.close()
                raise

        store.open = open_both  # type: ignore[method-assign]
        return store

    return replace(stores, new=new, n_blobs=lambda: stores.n_blobs() + n_objects())


def with_blobs_in_directory(kind: str, request: pytest.FixtureRequest, place: Path) -> StoreUnderTest:
    return with_blobs_at(f"file://{place}/outside", STORES[kind](request, place), lambda: len(pieces_in(place)))


def pieces_in(place: Path) -> list[Path]:
    """The pieces of blobs in the directory outside."""
    return [file for file in (place / "outside").glob("*/*/*") if file.is_file()]


async def read_all(store: Store, record: ModelMeta, after: str = START, limit: int = 1_000) -> list[Entry]:
    """All entries of a log after a position, read in pages."""
    entries: list[Entry] = []
    while page := await store.logs.read(record, after, limit):
        assert len(page) <= limit
        entries += page
        after = page[-1].position
    return entries


def payloads_of(entries: list[Entry]) -> list[bytes]:
    return [entry.payload for entry in entries]


@contextlib.asynccontextmanager
async def opened_redis(
    url: str, timeout_seconds: float = DEADLINE_SECONDS, durability: Durability = "log"
) -> AsyncIterator[RedisStore]:
    """An open store on Redis."""
    store = RedisStore(Address.parse(url), timeout_seconds, durability)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def tell_redis(port: int, *words: object) -> bytes:
    """Send one command; the beginning of what is answered. For what a test has to do behind the store's back."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        request = b"*%d\r\n" % len(words)
        for word in words:
            raw = word if isinstance(word, bytes) else str(word).encode()
            request += b"$%d\r\n%b\r\n" % (len(raw), raw)
        connection.sendall(request)
        return connection.recv(1 << 20)


def _n_keys(address: Address, pattern: str) -> int:
    """How many keys of a database, or of a cluster's node and its neighbour, match a pattern."""
    import redis

    with redis.Redis(port=address.port, db=address.database) as client:
        if client.info("cluster")["cluster_enabled"]:
            with redis.RedisCluster(port=address.port, host="127.0.0.1") as cluster:
                return len(cluster.keys(pattern, target_nodes="primaries"))
        return len(client.keys(pattern))
