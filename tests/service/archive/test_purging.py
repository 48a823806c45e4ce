"""The archive of a model that has forgotten examples: it has no trace of them, and earlier times can be restored."""

import random
from pathlib import Path
from typing import Any

import pytest
from tests.service.archive.origin import (
    AWAY,
    Make,
    Origin,
    next_millisecond,
    opened,
    same_state,
    shipper,
    start_origin,
    state_of,
)
from tests.service.fleet import Fleet
from tests.service.online.forgetting import test_forgetting as forgettings
from tests.service.online.forgetting.test_forgetting import REF, forgotten, named, never_seen, some_named, traces
from tests.service.online.history.test_history import entries_of, lived
from tests.support.crashes import crash_at_every_step

from manylabel_service.archive.restoring import Without, restore
from manylabel_service.clock import now_ms
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.online.history.lineage import Receipt
from manylabel_service.online.history.segment import decode
from manylabel_service.online.replica import Replica
from manylabel_service.settings import Settings
from manylabel_service.storage.places.files import FilePlace

__all__ = ["some_named"]


async def in_archive(place: FilePlace) -> list[str]:
    """Objects that have the marker or the reference, uncompressed."""
    found = []
    for key in await place.keys(""):
        data = await place.get(key)
        if data.startswith(b"MLSEG1"):
            data += b"".join(entry.payload for entry in decode(data)[1])
        if traces(data):
            found.append(key)
    return found


def in_files(directory: Path) -> list[Path]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in files if traces(path.read_bytes())]


async def receipt_of(origin: Origin, name: str = "m") -> Receipt:
    return (await Forgetter(origin.registry.successions).receipts(name))[-1]


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_no_object_has_a_trace_of_forgotten_examples(
    kind: str, place: FilePlace, new_store: Make, tmp_path: Path
) -> None:
    origin = await start_origin(new_store(kind), place, archive=f"file://{place._root}")
    await forgettings.marked(origin.registry, origin.fleet)
    await origin.shipper.ship()
    await (await origin.replica()).update([named(a=1)] * 20_000)  # more bytes than a state has
    await origin.snapshot()
    await origin.shipper.ship()
    assert {key.split("/")[-2] for key in await in_archive(place)} == {"log", "state"}

    assert (await forgotten(origin.registry)).archive == "pending"
    assert await in_archive(place)
    await origin.shipper.ship()
    assert await in_archive(place) == []
    assert in_files(tmp_path) == []
    receipt = await receipt_of(origin)
    assert (receipt.archive, receipt.examples) == ("purged", 4)
    assert "copies of the archive" in str(receipt.beyond_reach)
    store = await opened(new_store(kind))
    restored = await restore(place, store, Settings())
    assert restored.models["m"][0] == (await origin.replica()).position


@pytest.mark.usefixtures("some_named")
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_an_earlier_time_is_restored_without_forgotten_examples(
    kind: str, place: FilePlace, new_store: Make
) -> None:
    """Also after the model has forgotten others."""
    origin = await start_origin(new_store(kind), place)
    replica = await origin.registry.create(Fleet.spec(window=20))
    await lived(replica, random.Random(3), 30)
    await origin.shipper.ship()
    before, position = await next_millisecond(), replica.position
    await lived(replica, random.Random(4), 30)
    await replica.update([named("second", a=1)])
    await origin.shipper.ship()
    expected = never_seen(replica.spec, await entries_of(replica))[position]
    for selection in (forgettings.REFS, forgettings.Selection(refs=frozenset(["second"]))):
        await forgotten(origin.registry, selection)
        await origin.shipper.ship()
        store = await opened(new_store(kind))
        restored = await restore(place, store, Settings(), until=before)
        assert restored.models["m"][0] == position
        assert same_state(await state_of(store), expected)
        await store.close()


async def taught(origin: Origin, *refs: str | None) -> Replica:
    replica = await origin.replica()
    for ref in refs:
        await replica.update([named(ref, a=1), named(b=1)])
    return replica


@pytest.mark.parametrize("lost", [False, True], ids=["not made", "answer lost"])
async def test_an_interrupted_purge_is_completed_by_the_next_pass(
    lost: bool, new_store: Make, tmp_path: Path, n_examples: int
) -> None:
    origin = await start_origin(new_store("sqlite"), FilePlace(tmp_path / "unused"))
    await origin.registry.create(Fleet.spec())

    def archive(calls: int) -> FilePlace:
        """Each step has an archive of its own, because an archive that grew needs more calls."""
        return FilePlace(tmp_path / f"archive-{calls}")

    async def purged(failing: Any, calls: int) -> None:
        await taught(origin, REF, None)
        await shipper(origin.store, archive(calls)).ship()
        assert (await forgotten(origin.registry)).examples == 1
        await shipper(origin.store, failing.of(archive(calls))).ship()

    async def check(calls: int) -> None:
        place = archive(calls)
        store = await opened(new_store("sqlite"))
        restored = await restore(place, store, Settings())  # the whole old timeline, or the whole new one
        assert restored.models["m"][0] == (await origin.replica()).position
        await store.close()
        await shipper(origin.store, place).ship()
        assert await in_archive(place) == []
        assert (await receipt_of(origin)).archive == "purged"

    # A lost call leaves what the next one leaves that is not made, so with steps of two every state is met; the quick
    # lane meets fewer.
    every = 2 if n_examples > 8 else 7
    crashes = await crash_at_every_step(None, purged, check, done=lost, error=AWAY, every=every)
    assert 15 < every * crashes < 60


@pytest.mark.usefixtures("shared_redis")
async def test_a_restored_model_also_purges_its_origin(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await taught(origin, REF, None)
    await origin.shipper.ship()
    before = now_ms()
    expected = never_seen(Fleet.spec(), await entries_of(await origin.replica()))
    for kind in ("redis", "sqlite"):  # restored twice
        make = new_store(kind)
        store = await opened(make)
        await restore(place, store, Settings())
        await store.close()
        await origin.fleet.end()
        origin = await start_origin(make, place)
        await taught(origin, REF)
        await origin.shipper.ship()
    stores = {key.partition("/")[0] for key in await in_archive(place)}
    assert len(stores) == 3
    await forgotten(origin.registry)
    await origin.shipper.ship()
    assert await in_archive(place) == []
    assert (await receipt_of(origin)).archive == "purged"
    store = await opened(new_store("sqlite"))
    await restore(place, store, Settings(), until=before)
    assert same_state(await state_of(store), list(expected.values())[-1])


async def test_a_deleted_model_that_is_restored_without_examples_purges_its_origin(
    place: FilePlace, new_store: Make
) -> None:
    make = new_store("sqlite")
    origin = await start_origin(make, place)
    await origin.registry.create(Fleet.spec())
    await origin.registry.create(Fleet.spec("other"))
    replica = await taught(origin, REF, None)
    expected = never_seen(replica.spec, await entries_of(replica))[replica.position]
    await origin.shipper.ship()
    await origin.registry.delete("m")
    await origin.shipper.ship()
    await origin.fleet.end()
    store = await opened(make)
    await restore(place, store, Settings(), model="m", without=Without(refs=frozenset([REF])))
    await store.close()
    origin = await start_origin(make, place)
    assert same_state((await origin.replica()).model, expected)
    assert await in_archive(place)
    await origin.shipper.ship()
    assert await in_archive(place) == []
    assert (await receipt_of(origin)).archive == "purged"


async def test_an_archive_elsewhere_is_reported_as_pending(place: FilePlace, new_store: Make, tmp_path: Path) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await taught(origin, REF)
    await origin.shipper.ship()
    await origin.fleet.end()
    make, elsewhere = new_store("sqlite"), FilePlace(tmp_path / "elsewhere")
    store = await opened(make)
    await restore(place, store, Settings())
    await store.close()
    origin = await start_origin(make, elsewhere, archive=f"file://{elsewhere._root}")
    await origin.shipper.ship()
    await forgotten(origin.registry)
    await origin.shipper.ship()
    assert await in_archive(elsewhere) == []
    assert await in_archive(place)
    assert (await receipt_of(origin)).archive == "pending"
