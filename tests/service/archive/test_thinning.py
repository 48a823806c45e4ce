"""Old catalogues, and objects that no catalogue names, are deleted in time."""

import random
from typing import Any

import pytest
from tests.service.archive.origin import Make, opened, shipper, start_origin
from tests.service.fleet import Fleet

from manylabel_service.archive import layout
from manylabel_service.archive.archived import catalogue_keys
from manylabel_service.archive.restoring import restore
from manylabel_service.archive.shipping import Shipper
from manylabel_service.archive.thinning import DAY_MS, LOOK_MS, needed_catalogues
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.settings import Settings
from manylabel_service.storage import Store, pieces_of
from manylabel_service.storage.places.files import FilePlace

NOON_MS = 20_000 * DAY_MS + DAY_MS // 2


class Clock:
    """A clock that tests put forward."""

    def __init__(self) -> None:
        self.now_ms = NOON_MS

    def __call__(self) -> int:
        return self.now_ms

    def forward(self, days: float) -> None:
        self.now_ms += int(days * DAY_MS)


def test_old_catalogues_are_thinned_and_expire() -> None:
    ages = [0.1, 0.5, 1.9, 2.1, 2.3, 2.6, 3.6, 10.0, 10.2, 29.9, 30.6, 400.0]
    keys = [layout.catalogue_key("0" * 32, NOON_MS - int(age * DAY_MS), f"{age}") for age in sorted(ages)[::-1]]

    def kept(days: float, now_ms: int = NOON_MS) -> list[float]:
        return sorted(float(key.rpartition("-")[2]) for key in needed_catalogues(keys, now_ms, days))

    assert kept(30) == [0.1, 0.5, 1.9, 2.6, 3.6, 10.0, 29.9]
    assert kept(0) == [0.1, 0.5, 1.9, 2.6, 3.6, 10.0, 29.9, 30.6, 400.0]
    assert kept(1) == [0.1, 0.5, 1.9]
    assert kept(30, NOON_MS + 500 * DAY_MS) == [0.1], "the newest always"
    assert needed_catalogues([], NOON_MS, 30) == {}


async def blob_of(store: Store, name: str) -> None:
    await store.blobs.put(f"datasets/{name}/rows", pieces_of(name.encode()))
    await store.documents.put("datasets", name, b"{}", revision=None)


async def drop_blob(store: Store, name: str) -> None:
    revision = (await store.documents.revisions("datasets"))[name]
    await store.documents.delete("datasets", name, revision=revision)
    await store.blobs.delete(f"datasets/{name}/rows")


async def test_objects_that_no_catalogue_names_are_deleted_later(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    clock = Clock()
    passes = shipper(origin.store, place, clock, archive_days=10)
    for name in ("stays", "goes"):
        await origin.registry.create(Fleet.spec(name))
        await origin.learn(4, name)
        await blob_of(origin.store, name)
    gone = (await origin.replica("goes")).record.incarnation
    await passes.ship()
    await origin.registry.delete("goes")
    await drop_blob(origin.store, "goes")
    clock.forward(0.1)
    await passes.ship()

    async def there() -> dict[str, Any]:
        keys = await place.keys("")
        return {
            "model": any(f"/models/{gone}/" in key for key in keys),
            "blob": any("/blobs/datasets/goes/" in key for key in keys),
            "catalogues": len(await catalogue_keys(place)),
            "notes": len(await place.keys(layout.NOTES)),
        }

    assert await there() == {"model": True, "blob": True, "catalogues": 2, "notes": 1}
    clock.forward(1.8)
    await passes.ship()
    store = await opened(new_store("sqlite"))
    assert (await restore(place, store, Settings(), model="goes")).models["goes"][0] == "4"
    await store.close()
    clock.forward(1.1)
    await passes.ship()
    assert await there() == {"model": True, "blob": True, "catalogues": 1, "notes": 1}
    clock.forward(0.2)
    await shipper(origin.store, place, clock, archive_days=10).ship()
    assert await there() == {"model": False, "blob": False, "catalogues": 1, "notes": 0}
    store = await opened(new_store("sqlite"))
    restored = await restore(place, store, Settings())
    assert list(restored.models) == ["stays"]
    assert await store.blobs.keys("datasets/") == ["datasets/stays/rows"]


async def test_a_deleted_model_is_kept_while_a_daily_catalogue_names_it(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    clock = Clock()
    passes = shipper(origin.store, place, clock, archive_days=10)
    await origin.registry.create(Fleet.spec())
    await origin.learn(4)
    await passes.ship()
    clock.forward(1.0)
    await origin.registry.delete("m")
    await passes.ship()
    for day in range(14):
        models = await place.keys(layout.models_prefix(passes._id))
        assert bool(models) == (day < 13), "ten days until the catalogue goes, and three more"
        if day < 9:
            store = await opened(new_store("sqlite"))
            assert (await restore(place, store, Settings(), model="m")).models["m"][0] == list(origin.states)[-1]
            await store.close()
        clock.forward(1.0)
        await passes.ship()


async def test_the_whole_log_of_an_existing_model_is_kept(place: FilePlace, new_store: Make) -> None:
    """Whatever `history_days` and `archive_days` are."""
    origin = await start_origin(new_store("sqlite"), place, history_days=1e-9)
    clock = Clock()
    passes = shipper(origin.store, place, clock, history_days=1e-9, archive_days=10)
    await origin.registry.create(Fleet.spec())
    for _ in range(4):
        await origin.learn(15)
        await passes.ship()
        await origin.snapshot()
        clock.forward(100)
    await passes.ship()
    record = (await origin.replica()).record
    assert int(await HistoryReader(record, origin.store).begin()) > 1, "the store does not have it"
    store = await opened(new_store("sqlite"))
    assert (await restore(place, store, Settings(), model="m", until="1")).models["m"][0] == "1"


@pytest.mark.usefixtures("shared_redis")
async def test_new_objects_of_another_server_are_kept(place: FilePlace, new_store: Make) -> None:
    """A pass writes objects before the catalogue that names them; another server thins in between."""
    origin = await start_origin(new_store("redis"), place)
    clock = Clock()
    await origin.registry.create(Fleet.spec())
    await shipper(origin.store, place, clock).ship()
    await origin.learn(5)
    await blob_of(origin.store, "new")
    slow = Slow(origin.store, place, Settings(), clock)
    await slow.ship()
    for _ in range(3):
        clock.forward(0.9)
        await thin(origin.store, place, clock)
    await slow.end()
    clock.forward(9.0)
    await thin(origin.store, place, clock)
    store = await opened(new_store("sqlite"))
    assert (await restore(place, store, Settings())).models["m"][0] == list(origin.states)[-1]
    assert await store.blobs.keys("datasets/") == ["datasets/new/rows"]


class Slow(Shipper):
    """Writes its catalogue when it is told to."""

    async def _put_catalogue(self) -> None:
        pass

    async def end(self) -> None:
        await super()._put_catalogue()


async def thin(store: Store, place: FilePlace, clock: Clock) -> None:
    """Thin as another server that has not seen what is new."""
    other = shipper(store, place, clock)
    await other._begin()
    await other._thinner.thin(clock())


async def test_an_unreadable_catalogue_keeps_all_objects(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    clock = Clock()
    await origin.registry.create(Fleet.spec())
    await origin.learn(4)
    passes = shipper(origin.store, place, clock)
    await passes.ship()
    (key,) = await catalogue_keys(place)
    await place.delete(key)
    await place.put(key, b"of a later release")
    await origin.registry.delete("m")
    for _ in range(10):
        clock.forward(1.0)
        await shipper(origin.store, place, clock).ship()
        assert await place.keys(layout.models_prefix(passes._id))
    clock.forward(30.0)
    for _ in range(2):
        await passes.ship()
        clock.forward(3.1)
    await passes.ship()
    assert not await place.keys(layout.models_prefix(passes._id))


async def test_unnamed_objects_are_looked_for_once_an_hour(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    clock = Clock()
    passes = shipper(origin.store, place, clock)
    await passes.ship()
    await place.put(layout.blob_key(passes._id, "datasets/unknown/rows"), random.Random(1).randbytes(8))
    clock.now_ms += LOOK_MS - 1
    await passes.ship()
    assert await place.keys(layout.NOTES) == []
    clock.now_ms += 1
    await passes.ship()
    assert len(await place.keys(layout.NOTES)) == 1
