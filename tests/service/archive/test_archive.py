"""Backup and restore of a whole store, into any kind of store; errors name what is missing."""

import asyncio
import random
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.service.archive.origin import (
    AWAY,
    KINDS,
    Make,
    directory_of,
    learn,
    next_millisecond,
    opened,
    same_state,
    shipper,
    start_origin,
    stored_state,
)
from tests.service.fleet import Fleet
from tests.service.online.forgetting.test_forgetting import forgotten
from tests.service.online.history.test_history import entries_of
from tests.service.storage.test_storage_damage import client_of
from tests.support.crashes import crash_at_every_step

from manylabel_service import ulid
from manylabel_service.access.key import KeyStore, new_key
from manylabel_service.archive import restoring, shipping
from manylabel_service.archive.layout import NoCatalogue
from manylabel_service.archive.restoring import RestoreRefused, restore
from manylabel_service.archive.shipping import OtherStore
from manylabel_service.archive.store_documents import RESTORE, check_complete
from manylabel_service.clock import now_ms
from manylabel_service.errors import DocumentNewer, ModelExists, PositionNotFound, StoreUnusable
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models.promoting import Promoter
from manylabel_service.online.following import begin_follower
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.replica import Replica
from manylabel_service.online.successor.rewriter import Selection
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.settings import Settings
from manylabel_service.storage import SQLiteStore, Store, pieces_of
from manylabel_service.storage.places.files import FilePlace
from manylabel_service.storage.places.place import ArchiveError
from manylabel_service.storage.redis.keys import MODELS


@pytest.mark.parametrize(("source", "target"), KINDS)
async def test_a_restored_model_continues_with_the_same_bits(
    source: str, target: str, place: FilePlace, new_store: Callable[[str], Callable[[], Store]]
) -> None:
    origin = await start_origin(new_store(source), place)
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
    await shipper(store, place).ship()
    await store.close()

    make = new_store(target)
    store = make()
    await store.open()
    restored = await restore(place, store, Settings())
    await store.close()
    assert restored.models["m"][0] == position
    other = await start_origin(make, place)
    copy = await other.replica()
    assert same_state(copy.model, before)
    assert copy.position == restored.models["m"][1]
    assert await copy.reach(position, 0)
    again = await copy.update([Fleet.example(0)], key=IdempotencyKey("k-30", bytes(16)))
    assert same_state(copy.model, before), "a retry from before is recognised"
    assert again.position == list(origin.states)[30], "and has the response that it had"
    await learn(copy, random.Random(3), 5, "later")
    for old in [position, *origin.rng.sample(sorted(origin.states), 6)]:
        reader = HistoryReader(copy.record, other.store)
        entries = await reader.read(old, 3)
        assert entries
        past = await ModelFiles(copy.record, other.store).state_at(await reader.find(old))
        assert past.to_bytes() == origin.states[old]


@pytest.mark.parametrize(("source", "target"), [("sqlite", "redis"), ("redis", "sqlite")])
async def test_a_restored_model_forgets_examples_from_before_a_rollback(
    source: str, target: str, place: FilePlace, new_store: Callable[[str], Callable[[], Store]]
) -> None:
    """The state that the rollback went back to is not restored, and has to be computed from the new history."""
    origin = await start_origin(new_store(source), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(12)
    replica = await origin.replica()
    await replica.rollback(list(origin.states)[5])
    for n in range(3):
        await learn(replica, origin.rng, 20, f"later-{n}")
        await origin.shipper.ship()
    await origin.fleet.end()
    make = new_store(target)
    store = await opened(make)
    await restore(place, store, Settings())
    await store.close()
    other = await start_origin(make, place)
    assert len((await HistoryReader((await other.replica()).record, other.store).catalogue()).segments) > 1
    for old in list(origin.states)[2:4]:
        entries = await entries_of(await other.replica())
        receipt = await forgotten(other.registry, Selection(positions=frozenset([old])))
        assert receipt.examples == 1
        left = await entries_of(await other.replica())
        assert [entry.position for entry in left] == [entry.position for entry in entries]
        await learn(await other.replica(), origin.rng, 3, f"after-{old}")


@pytest.mark.parametrize("lost", [False, True], ids=["not made", "answer lost"])
async def test_an_interrupted_pass_is_completed_by_the_next_one(lost: bool, place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())

    async def shipped(failing: Any, calls: int) -> None:
        await origin.learn(2)
        if calls == 8:
            await origin.snapshot()
        await shipper(origin.store, failing).ship()

    assert await crash_at_every_step(place, shipped, done=lost, error=AWAY) > 4
    replica = await origin.replica()
    store = await opened(new_store("sqlite"))
    await restore(place, store, Settings())
    record = await store.models.find("m")
    assert record is not None
    reader = HistoryReader(record, store)
    positions: list[str] = []
    while page := await reader.read(positions[-1] if positions else "0", 7):
        positions += [entry.position for entry in page]
    assert positions == list(origin.states), "each entry once, in order"
    assert len(await store.snapshots.all(record)) == 1
    assert await stored_state(store) == replica.model.to_bytes()


async def test_a_truncated_object_is_written_again(
    place: FilePlace, new_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    passes, put, wanted = shipper(origin.store, place), place.put, True

    async def truncated(key: str, data: Any) -> bool:
        nonlocal wanted
        raw = data if isinstance(data, bytes) else data.read_bytes()
        size, wanted = len(raw) // 2 if wanted else len(raw), False
        return await put(key, raw[:size])

    monkeypatch.setattr(place, "put", truncated)
    for _ in range(3):
        await origin.learn(2)
        wanted = True
        await passes.ship()
    store = await opened(new_store("sqlite"))
    restored = await restore(place, store, Settings())
    assert restored.models["m"][0] == list(origin.states)[-1]


async def test_unchanged_models_are_not_archived_again(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    for name in ("a", "b", "c"):
        await origin.registry.create(Fleet.spec(name))
        await origin.learn(2, name)
    await origin.shipper.ship()
    assert await origin.shipper.ship() == (0, 0)
    assert await shipper(origin.store, place).ship() == (0, 0), "nor after a restart"
    await origin.learn(1, "b")
    assert (await origin.shipper.ship()).objects == 1


async def test_the_time_of_a_restore_is_that_of_the_latest_entry(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.shipper.ship()
    between = await next_millisecond()
    await origin.learn(2)
    await origin.shipper.ship()  # the catalogue is the same, so it stays
    for until, reached in ((None, True), (between, False)):
        restored = await restore(place, await opened(new_store("sqlite")), Settings(), until=until)
        assert restored.unix_ms <= between
        assert (restored.state_ms > between) == reached
        assert restored.times == ({"m": restored.state_ms} if reached else {})


async def test_a_clock_that_is_set_back_hides_no_model(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.shipper.ship()
    await origin.registry.create(Fleet.spec("later"))
    await shipper(origin.store, place, lambda: now_ms() - 3_600_000).ship()
    restored = await restore(place, await opened(new_store("sqlite")), Settings())
    assert restored.models.keys() == {"m", "later"}


@pytest.mark.usefixtures("shared_redis")
async def test_two_servers_archive_the_same_log_concurrently(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("redis"), place)
    await origin.registry.create(Fleet.spec())
    other = shipper(origin.store, place)
    for n in range(12):
        await origin.learn(1 + n % 3)
        await (other if n % 3 else origin.shipper).ship()
        await asyncio.gather(origin.shipper.ship(), other.ship())
    store = await opened(new_store("redis"))
    restored = await restore(place, store, Settings())
    assert restored.models["m"][0] == list(origin.states)[-1]


async def test_a_model_is_restored_as_of_a_time_or_a_position(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(5)
    await origin.shipper.ship()
    before = await next_millisecond()
    await origin.learn(5)
    await origin.registry.create(Fleet.spec("later"))
    await origin.shipper.ship()
    positions = list(origin.states)

    async def state(until: Any, model: str | None) -> bytes:
        store = await opened(new_store("sqlite"))
        try:
            await restore(place, store, Settings(), until=until, model=model)
            assert [record.name for record in await store.models.all()] == ["m"]
            return await stored_state(store)
        finally:
            await store.close()

    assert await state(before, None) == origin.states[positions[4]]
    assert await state(positions[7], "m") == origin.states[positions[7]]
    with pytest.raises(PositionNotFound):
        await state("999", "m")
    with pytest.raises(ArchiveError, match="begins at"):
        await state(5, None)
    with pytest.raises(RestoreRefused):
        await state(None, "unknown")


@pytest.mark.parametrize("target", ["sqlite", "redis"])
async def test_damaged_or_missing_objects_are_named_and_the_rest_is_restored(
    target: str, place: FilePlace, new_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "PART_BYTES", 1 << 20)
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.registry.create(Fleet.spec("other"))
    leader = await origin.replica()
    await origin.registry.create(*await begin_follower(leader, Fleet.spec("f"), from_start=True, until=None))
    await origin.learn(5, "other")
    for _ in range(3):
        await origin.learn(4)
        await origin.shipper.ship()
    prefix = f"/models/{leader.record.incarnation}/"
    keys = [key for key in await place.keys("") if (prefix in key and "/log/" in key) or "/catalogue/" in key]
    assert len(keys) == 4
    late = next(key for key in keys if key.endswith("/8_12")).replace("log/8_12", "state/8")
    # The restore then meets earlier damage only after it has created the model.
    await place.put(late, origin.states["8"])
    for key in keys:
        whole, name = await place.get(key), key.rpartition("/")[2]
        for damaged in (b"", whole[: len(whole) // 2], None):
            await place.delete(key)
            if damaged is not None:
                await place.put(key, damaged)
            store = await opened(new_store(target))
            if "/catalogue/" in key:
                with pytest.raises(ArchiveError) as told:
                    await restore(place, store, Settings())
                assert isinstance(told.value, NoCatalogue) or name in str(told.value)
                assert not await store.models.all()
            elif (name, damaged) == ("8_12", None):  # nothing tells that there was more
                assert (await restore(place, store, Settings())).models["m"][0] == "8"
            else:
                restored = await restore(place, store, Settings())
                (record,) = await store.models.all()
                assert [*restored.models] == [record.name] == ["other"]
                assert name.split("_")[0] in restored.refused["m"]
                assert "'m'" in restored.refused["f"]
                assert [*await store.documents.revisions("history")] == [str(record.incarnation)]
                assert [*await store.documents.revisions("lineages")] == ["other"]
                assert {key.split("/")[1] for key in await store.blobs.keys()} == {str(record.incarnation)}
            await check_complete(store)
            await store.close()
        await place.put(key, whole)
    await place.delete(next(key for key in keys if key.endswith("/4_8")))
    store = await opened(new_store(target))
    await restore(place, store, Settings())
    restored = await restore(place, store, Settings(), until="3", model="m")
    assert restored.models["m"][0] == "3", "what is before the gap can be restored"


async def test_an_interrupted_restore_is_not_served_and_can_be_completed(
    place: FilePlace, new_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    for name in ("a", "b"):
        await origin.registry.create(Fleet.spec(name))
        await origin.learn(3, name)
    key, _ = new_key("first", ("admin",))
    await KeyStore(origin.store.documents, 10).add(key)
    await origin.shipper.ship()
    make = new_store("sqlite")
    monkeypatch.setattr(restoring._Restoring, "undo", _nothing)  # as if the process had died

    async def restored(failing: Any, calls: int) -> None:
        store = await opened(make)
        try:
            await restore(failing, store, Settings())
        finally:
            await store.close()

    async def check(calls: int) -> None:
        store = await opened(make)
        if await store.documents.revisions(RESTORE):
            with pytest.raises(StoreUnusable):
                await check_complete(store)
        await store.close()

    assert await crash_at_every_step(place, restored, check, done=False, error=AWAY) > 4
    store = await opened(make)
    await check_complete(store)
    assert [record.name for record in await store.models.all()] == ["a", "b"]
    assert list(await KeyStore(store.documents, 10).all()) == [key.id]
    with pytest.raises(RestoreRefused):
        await restore(place, store, Settings())
    with pytest.raises(ModelExists):
        await restore(place, store, Settings(), model="a")


async def _nothing(*arguments: object) -> None:
    pass


async def test_a_store_with_api_keys_is_restored_with_them(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    key, _ = new_key("first", ("admin",))
    await KeyStore(origin.store.documents, 10).add(key)
    await origin.shipper.ship()
    store = await opened(new_store("sqlite"))
    with pytest.raises(RestoreRefused):
        await restore(place, store, Settings(), model="m")
    assert (await restore(place, store, Settings())).keys == 1


async def test_an_archive_belongs_to_one_store_and_those_restored_from_it(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(3)
    await origin.shipper.ship()
    with pytest.raises(OtherStore):
        await shipper(await opened(new_store("sqlite")), place).ship()
    store = await opened(new_store("sqlite"))
    await restore(place, store, Settings())
    await shipper(store, place).ship()
    with pytest.raises(OtherStore):
        await shipper(origin.store, place).ship()
    again = await opened(new_store("sqlite"))
    assert (await restore(place, again, Settings())).models["m"][0] == list(origin.states)[-1]


@pytest.mark.parametrize("n_updates", [1, 6], ids=["shorter than the archive", "longer than the archive"])
async def test_a_log_that_lost_its_end_continues_in_a_new_timeline(
    n_updates: int, place: FilePlace, new_store: Make
) -> None:
    """Positions that the archive has are missing in the log, as in a Redis with older data, or have other entries."""
    make = new_store("sqlite")
    origin = await start_origin(make, place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(4)
    await origin.shipper.ship()
    await origin.fleet.kill(origin.registry)
    copy = place._root.parent / "copy"
    shutil.copytree(directory_of(origin.store), copy)
    reopened = await start_origin(make, place)
    await reopened.learn(4)
    await reopened.shipper.ship()
    lost = now_ms()
    await reopened.fleet.kill(reopened.registry)
    older = await start_origin(lambda: SQLiteStore(copy), place)
    older.rng = random.Random(8)
    await older.learn(n_updates)
    await next_millisecond()
    await older.shipper.ship()
    for until, states in ((lost, reopened.states), (None, older.states)):
        store = await opened(new_store("sqlite"))
        await restore(place, store, Settings(), until=until)
        assert await stored_state(store) == list(states.values())[-1]
        await store.close()


@pytest.mark.usefixtures("shared_redis")
@pytest.mark.parametrize("begin", ["start", "now"])
async def test_a_promoted_follower_is_restored_with_its_past(begin: str, place: FilePlace, new_store: Make) -> None:
    """Also as of before it was promoted: what it learns from there on is measured as a leader does."""
    origin = await start_origin(new_store("redis"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(6)
    spec = Fleet.spec("f", algorithm="salt")
    given = await begin_follower(await origin.replica(), spec, from_start=begin == "start", until=None)
    await origin.registry.create(*given)
    await origin.learn(5)
    early = (await origin.replica()).position
    await origin.learn(5)
    await Promoter(origin.registry).promote("f", None, None)
    await origin.learn(5)
    leader, follower = await origin.replica(), await origin.replica("f")
    assert await follower.reach(leader.position, 60)
    past = await leader.state_at(early)
    await origin.shipper.ship()
    for until, expected in ((None, leader.model), (early, past)):
        make = new_store("sqlite")
        store = await opened(make)
        await restore(place, store, Settings(), until=until)
        await store.close()
        other = await start_origin(make, place)
        restored, led = await other.replica(), await other.replica("f")
        assert same_state(restored.model, expected)
        assert (restored.spec.algorithm, led.spec.algorithm) == ("salt", "falt")
        assert await led.reach(restored.position, 60)
        if until is None:
            assert same_state(led.model, follower.model)
        id, x = ulid.make(now_ms(), bytes(ulid.N_RANDOM_BYTES)), Fleet.example(1).x
        await restored.keep([id], [x], (await restored.predict([x])).predictions)
        await restored.update([Example(x, Labels.all_of(["late"]))], prediction_ids=[id], served=[np.full(1, 3.0)])
        await other.learn(3)
        assert await led.reach(restored.position, 60)
        state = restored.model.to_bytes()
        await other.fleet.end()
        other = await start_origin(make, place)  # from what is stored
        assert (await other.replica()).model.to_bytes() == state
        assert same_state((await (await other.replica()).state_at(restored.position)), restored.model)
        await other.fleet.end()


@pytest.mark.usefixtures("shared_redis")
@pytest.mark.parametrize("begin", ["start", "now"])
async def test_a_follower_follows_the_restored_leader(begin: str, place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("redis"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(6)
    leader = await origin.replica()
    spec = Fleet.spec("f", algorithm="salt")
    given = await begin_follower(leader, spec, from_start=begin == "start", until=None)
    follower = await origin.registry.create(*given)
    await origin.learn(5)
    assert await follower.reach(leader.position, 60)
    await origin.shipper.ship()
    make = new_store("sqlite")
    store = await opened(make)
    with pytest.raises(RestoreRefused):
        await restore(place, store, Settings(), model="f")
    await restore(place, store, Settings())
    await store.close()
    other = await start_origin(make, place)
    restored = await other.replica("f")
    assert await restored.reach((await other.replica()).position, 60)
    assert isinstance(follower, Replica)
    assert same_state(restored.model, follower.model)
    await Promoter(other.registry).promote("f", None, None)
    await learn(await other.replica(), other.rng, 2, "later")
    assert (await other.replica()).model.updates == follower.model.updates + 2
    assert await (await other.replica("f")).reach((await other.replica()).position, 60)


NEWER = b'{"format": 2, "release": "9.9"}'


async def test_the_archive_keeps_its_copy_of_a_document_that_is_damaged_later(
    place: FilePlace, new_store: Make
) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    key, _ = new_key("first", ("admin",))
    await KeyStore(origin.store.documents, 10).add(key)
    await origin.shipper.ship()
    connection = connection_of(origin.store)
    connection.execute("UPDATE documents SET value = x'00' || value WHERE kind = 'key'")
    await origin.store.documents.put("webhooks", "other", b"{}", revision=None)  # so that documents are archived again
    for each in (origin.shipper, shipper(origin.store, place)):
        await each.ship()
    store = await opened(new_store("sqlite"))
    assert (await restore(place, store, Settings())).keys == 1
    assert await KeyStore(store.documents, 10).get(key.id) is not None


def connection_of(store: Any) -> Any:
    """The writer's connection, for what a test does behind the store's back."""
    return store.engine.tables.connection


@pytest.mark.parametrize("value", [b"???", NEWER], ids=["damaged", "newer"])
async def test_a_restore_is_not_repeated_over_a_mark_that_cannot_be_read(
    place: FilePlace, new_store: Make, value: bytes
) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.shipper.ship()
    store = await opened(new_store("sqlite"))
    other = await store.models.create("other", b"{}")
    await store.documents.put(RESTORE, RESTORE, value, revision=None)
    with pytest.raises(RestoreRefused, match="restore into an empty store"):
        await restore(place, store, Settings())
    assert await store.models.all() == [other]
    assert [each.value for each in await store.documents.all(RESTORE)] == [value]


@pytest.mark.usefixtures("shared_redis")
async def test_a_failed_restore_of_one_model_leaves_what_it_cannot_read(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.shipper.ship()
    store = await opened(new_store("redis"))
    other = await store.models.create("other", b"{}")
    names = str(other.incarnation), "later"
    for kind in ("history", "versions"):
        for name in names:
            await store.documents.put(kind, name, NEWER, revision=None)
            await store.blobs.put(f"{kind}/{name}/x", pieces_of(b"some bytes"))
    blobs = await store.blobs.keys()
    for damaged in (False, True):
        if damaged:
            with client_of(store) as client:
                client.hset(MODELS, "other", b"???")
        with pytest.raises(PositionNotFound):
            await restore(place, store, Settings(), model="m", until="99-0")
        assert [record.name for record in await store.models.all()] == ["other"]
        assert await store.blobs.keys() == blobs
        for kind in ("history", "versions"):
            assert set(await store.documents.revisions(kind)) == set(names)


async def test_receipts_of_a_later_release_are_not_dropped_by_a_restore(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(3)
    await origin.store.documents.put("lineages", "m", NEWER, revision=None)
    await origin.shipper.ship()
    restored = await restore(place, await opened(new_store("sqlite")), Settings())
    assert "written by release 9.9" in restored.refused["m"]


async def test_an_archive_of_a_later_release_is_refused(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.shipper.ship()
    (name,) = (place._root / "stores").iterdir()
    name.write_bytes(NEWER)
    with pytest.raises(DocumentNewer, match=r"release 9\.9"):
        await restore(place, await opened(new_store("sqlite")), Settings())
