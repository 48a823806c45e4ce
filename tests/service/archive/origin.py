"""A store in use with an archive, and helpers of the tests of archives."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.service.fleet import Fleet
from tests.support.waiting import eventually_async

from manylabel_service.archive.shipping import Shipper
from manylabel_service.clock import now_ms
from manylabel_service.hosting.examples import Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models.registry import Registry
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.settings import Settings
from manylabel_service.storage import SQLiteStore, Store
from manylabel_service.storage.places.files import FilePlace
from manylabel_service.storage.places.place import Place, PlaceUnavailable

QUIET = {"snapshot_every_seconds": 1000.0, "snapshot_every_updates": 10_000, "snapshot_retention_count": 2}


Make = Callable[[str], Callable[[], Store]]


KINDS = [("sqlite", "sqlite"), ("sqlite", "redis"), ("redis", "sqlite"), ("redis", "redis")]


def shipper(store: Store, place: Place, clock: Callable[[], int] = now_ms, **settings: Any) -> Shipper:
    return Shipper(store, place, Settings(**settings), clock)


async def learn(replica: Replica, rng: random.Random, n: int, marker: str = "k") -> UpdateResult:
    for i in range(n):
        key = IdempotencyKey(f"{marker}-{replica.model.updates}", bytes(16))
        names = rng.sample(["x", "y", "z"], rng.randint(0, 2))
        result = await replica.update([Fleet.example(i)._replace(y=Labels.all_of(names))], key=key)
    return result


async def next_millisecond() -> int:
    """Return the time in milliseconds once it has passed: what happens next is later."""
    now = now_ms()
    await eventually_async(lambda: now_ms() > now)
    return now


def same_state(one: OnlineModel, other: OnlineModel) -> bool:
    """Whether two states are the same bits, wherever they are in their logs."""
    one, other = (OnlineModel.from_bytes(each.to_bytes()) for each in (one, other))
    one.position = other.position
    return one.to_bytes() == other.to_bytes()


class Origin:
    """A store in use, and the states that its model had."""

    def __init__(self, fleet: Fleet, registry: Registry, place: FilePlace) -> None:
        self.fleet, self.registry = fleet, registry
        self.store = fleet.store(registry)
        self.shipper = shipper(self.store, place)
        self.states: dict[str, bytes] = {}
        self.rng = random.Random(7)

    async def replica(self, name: str = "m") -> Replica:
        found = await self.registry.get(name)
        assert isinstance(found, Replica)
        return found

    async def learn(self, n: int, name: str = "m") -> None:
        replica = await self.replica(name)
        for _ in range(n):
            await learn(replica, self.rng, 1)
            self.states[replica.position] = replica.model.to_bytes()

    async def snapshot(self, name: str = "m") -> None:
        await (await self.replica(name)).take_snapshot()


def directory_of(store: Store) -> Path:
    assert isinstance(store, SQLiteStore)
    return store.engine.directory


FLEETS: list[Fleet] = []
STORES: list[Store] = []
"""Fleets and stores of the test that runs; a fixture ends and closes them."""


async def start_origin(make: Callable[[], Store], place: FilePlace, **settings: Any) -> Origin:
    fleet = Fleet(make)
    FLEETS.append(fleet)
    registry = await fleet.start(**QUIET, **settings)
    return Origin(fleet, registry, place)


async def opened(make: Callable[[], Store]) -> Store:
    store = make()
    STORES.append(store)
    await store.open()
    return store


async def stored_state(store: Store, name: str = "m") -> bytes:
    """The newest snapshot of a model."""
    record = await store.models.find(name)
    assert record is not None
    newest = (await store.snapshots.all(record))[0]
    data = await store.snapshots.get(record, newest.position)
    assert data is not None
    return bytes(data)


async def state_of(store: Store, name: str = "m") -> OnlineModel:
    return OnlineModel.from_bytes(await stored_state(store, name))


AWAY = PlaceUnavailable("the archive is away")
