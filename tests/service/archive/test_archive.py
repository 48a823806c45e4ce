"""Backup and restore: all that a store has, in a store of any kind, or an error that names what is not there."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.service.fleet import Fleet
from tests.service.stores import STORES

from manylabel_service.archive import shipping
from manylabel_service.archive.restoring import restore
from manylabel_service.archive.shipping import Shipper
from manylabel_service.hosting.examples import Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models import membership
from manylabel_service.models.registry import Registry
from manylabel_service.online.history import archiver as archivers
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.online.updates.past_states import PastStates
from manylabel_service.settings import Settings
from manylabel_service.storage import Store
from manylabel_service.storage.places.files import FilePlace

QUIET = {"snapshot_every_seconds": 1000.0, "snapshot_every_updates": 10_000, "snapshot_retention_count": 2}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts, segments and states so small that a test has several of each."""
    monkeypatch.setattr(shipping, "PART_BYTES", 400)
    monkeypatch.setattr(shipping, "STATE_ENTRIES", 12)
    monkeypatch.setattr(shipping, "JOINED_PARTS", 4)
    monkeypatch.setattr(archivers, "SEGMENT_BYTES", 500)
    monkeypatch.setattr(archivers, "STATE_EXAMPLES", 10)
    monkeypatch.setattr(archivers, "STATE_SHARE", 0)
    monkeypatch.setattr(membership, "EXPIRY_SECONDS", 0.1)


@pytest.fixture
def place(tmp_path: Path) -> FilePlace:
    return FilePlace(tmp_path / "archive")


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Callable[[], Store]]:
    """Makes a place for stores of a kind."""
    numbers = iter(range(100))

    def make(kind: str) -> Callable[[], Store]:
        directory = tmp_path / f"store-{next(numbers)}"
        directory.mkdir()
        return STORES[kind](request, directory).new

    return make


async def learn(replica: Replica, rng: random.Random, n: int, marker: str = "k") -> UpdateResult:
    for i in range(n):
        key = IdempotencyKey(f"{marker}-{replica.model.updates}", bytes(16))
        names = rng.sample(["x", "y", "z"], rng.randint(0, 2))
        result = await replica.update([Fleet.example(i)._replace(y=Labels.all_of(names))], key=key)
    return result


def same(one: OnlineModel, other: OnlineModel) -> bool:
    """Whether two states are the same bits, wherever they are in their logs."""
    one, other = (OnlineModel.from_bytes(each.to_bytes()) for each in (one, other))
    one.position = other.position
    return one.to_bytes() == other.to_bytes()


class Origin:
    """A store in use, and the states that its model had."""

    def __init__(self, fleet: Fleet, registry: Registry, place: FilePlace) -> None:
        self.fleet, self.registry = fleet, registry
        self.store = fleet.store(registry)
        self.shipper = Shipper(self.store, place)
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


async def begun(make: Callable[[], Store], place: FilePlace, **settings: Any) -> Origin:
    fleet = Fleet(make)
    registry = await fleet.start(**QUIET, **settings)
    return Origin(fleet, registry, place)


KINDS = [("sqlite", "sqlite"), ("sqlite", "redis"), ("redis", "sqlite"), ("redis", "redis")]


@pytest.mark.parametrize(("source", "target"), KINDS)
async def test_a_restored_model_goes_on_bit_for_bit(
    source: str, target: str, place: FilePlace, new_store: Callable[[str], Callable[[], Store]]
) -> None:
    origin = await begun(new_store(source), place)
    await origin.registry.create(Fleet.spec(algorithm="salt"))
    for _ in range(4):
        await origin.learn(9)
        await origin.shipper.ship()
        await origin.snapshot()
    replica = await origin.replica()
    await replica.rollback(list(origin.states)[20])
    origin.states[replica.position] = replica.model.to_bytes()
    await origin.learn(3)
    before, position = replica.model, replica.position
    await origin.fleet.kill(origin.registry)
    reopened = Fleet(origin.fleet._make_store)
    store = reopened._make_store()
    await store.open()
    await Shipper(store, place).ship()
    await store.close()

    make = new_store(target)
    store = make()
    await store.open()
    restored = await restore(place, store, Settings())
    await store.close()
    assert restored.models["m"][0] == position
    other = await begun(make, place)
    copy = await other.replica()
    assert same(copy.model, before)
    assert copy.position == restored.models["m"][1]
    await copy.reach(position, 0)
    again = await copy.update([Fleet.example(0)], key=IdempotencyKey("k-30", bytes(16)))
    assert same(copy.model, before), "a retry from before is recognised"
    assert again.position == list(origin.states)[30], "and has the response that it had"
    await learn(copy, random.Random(3), 5, "later")
    for old in [position, *origin.rng.sample(sorted(origin.states), 6)]:
        reader = HistoryReader(copy.record, other.store)
        entries = await reader.read(old, 3)
        assert entries
        past = await PastStates(copy.record, other.store).at(await reader.find(old))
        assert past.to_bytes() == origin.states[old]
    await other.fleet.end()
