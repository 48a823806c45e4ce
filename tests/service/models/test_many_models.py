"""Work that does not grow with the number of models."""

import gc
import weakref
from functools import partial
from typing import Any

import pytest
from tests.service.webhooks.test_sources import Reader, labelled

from manylabel_core.online.learner import OnlineLearner
from manylabel_service import ulid
from manylabel_service.errors import StorageUnavailable
from manylabel_service.hosting.hosted_model import SILENCE_SECONDS
from manylabel_service.models import garbage
from manylabel_service.models import registry as registry_module
from manylabel_service.models.garbage import GarbageCollector
from manylabel_service.online.replica import Replica
from manylabel_service.storage import pieces_of


async def test_nothing_reads_all_models(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await any_fleet.start()
    store = any_fleet.store(registry)

    async def never(*args: Any) -> Any:
        raise AssertionError("all models are read")

    monkeypatch.setattr(store.models, "all", never)
    for name in ("a", "b"):
        await (await registry.create(any_fleet.spec(name))).update([labelled("p")])
    reader = Reader(any_fleet, registry)
    for _ in range(2):
        await reader.poll()
        await reader.look()
        await GarbageCollector(store).step()
        await registry.membership._beat()
        await registry.successions.look()
        await registry.uses.record()
        assert [status["name"] for status in (await registry.list())[0]] == ["a", "b"]
        assert await registry.listing.existing({"a", "nobody"}) == {"a"}
    await registry.delete("a")
    await any_fleet.stop(registry)
    registry = await any_fleet.begin()
    monkeypatch.setattr(any_fleet.store(registry).models, "all", never)
    await registry._preload()
    assert [replica.name for replica in registry.resident()] == ["b"]


async def test_work_in_memory_reaches_only_models_that_were_used(
    lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await lone_fleet.start()
    for n in range(20):
        await registry.create(lone_fleet.spec(f"m{n:02}"))
    reader = Reader(lone_fleet, registry)

    async def by_the_clock() -> None:
        await registry._eviction.sweep()
        await registry._log_watcher._follow()
        await registry.uses.record()
        await reader.poll()
        assert registry.membership.leads
        registry.check_compatible()
        assert registry.failed == []

    await by_the_clock()
    assert await registry._eviction._leaves(registry._replicas["m11"], "idle")
    reached = set[str]()

    def noted(model: Replica, attribute: str) -> Any:
        reached.add(object.__getattribute__(model, "record").name)
        return object.__getattribute__(model, attribute)

    monkeypatch.setattr(registry_module, "MAX_MODELS", 1)
    monkeypatch.setattr(Replica, "__getattribute__", noted)
    await by_the_clock()
    await (await registry.get("m07")).update([labelled("p")])
    await registry.get("m11")
    await registry.create(lone_fleet.spec("new"))
    for _ in range(2):
        await by_the_clock()
    least_recently_used, before = "m00", "m19"
    assert reached <= {"m07", "m11", "new", least_recently_used, before}
    assert {"m07", "m11", "new"} <= reached


async def test_a_creation_makes_one_learner_and_writes_once(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await lone_fleet.start()
    spec, made, calls = lone_fleet.spec(), list[Any](), list[str]()
    threads, make_pipeline = lone_fleet.store(registry).models._engine.threads, OnlineLearner._make_pipeline

    async def noted(call: Any, *args: Any) -> Any:
        calls.append(call.args[0].__class__.__name__ if isinstance(call, partial) else "other")
        return await write(call, *args)

    def counted(learner: OnlineLearner) -> Any:
        made.append(learner)
        return make_pipeline(learner)

    write = threads.write
    monkeypatch.setattr(threads, "write", noted)
    monkeypatch.setattr(OnlineLearner, "_make_pipeline", counted)
    await registry.create(spec)
    assert calls.count("SQLiteModels") == 2, "is the name free, and the new model"
    assert len(made) == 1


async def test_a_long_stop_stores_the_state_of_each_model(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await lone_fleet.start()
    for name in "abc":
        await (await registry.create(lone_fleet.spec(name))).update([labelled("p")])
    snapshots = lone_fleet.store(registry).snapshots
    put, health = snapshots.put, registry._store_health

    async def long(*args: Any) -> None:
        health._heard_at -= 2 * SILENCE_SECONDS
        await put(*args)

    monkeypatch.setattr(snapshots, "put", long)
    await lone_fleet.stop(registry)
    store = lone_fleet.store(await lone_fleet.begin(preload=False))
    stored = [await store.snapshots.all(record) for record in await store.models.all()]
    assert [[each.position for each in some] for some in stored] == [["1"]] * 3


async def test_the_memory_of_an_evicted_model_is_free_at_once(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    await replica.update([labelled("p")])
    state = weakref.ref(replica.model)
    gc.disable()
    try:
        assert await registry._eviction._leaves(replica, "idle")
        assert state() is None
    finally:
        gc.enable()


async def test_garbage_is_collected_step_by_step(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "KEYS_AT_ONCE", 2)
    registry = await any_fleet.start()
    store = any_fleet.store(registry)
    replica = await registry.create(any_fleet.spec())
    await replica.update([any_fleet.example(0)])
    await replica.take_snapshot()
    stay = [*await store.blobs.keys(), "a/1", "versions/newer/1"]
    incarnation = replica.record.incarnation
    young, old = ulid.new(), ulid.make(1, bytes(10))
    stay.append(f"snapshots/{incarnation}/9/{young}")
    orphans = [f"history/{incarnation}/{old}", f"snapshots/{incarnation}/9/{old}"]
    of_the_dead = [f"{kind}/{incarnation + 7}/{young}" for kind in ("history", "versions")]
    of_the_dead.append(f"snapshots/{incarnation + 7}/9/{young}")
    stay.append(f"snapshots/{incarnation + 7}/9/other")  # a later release may use such names for its snapshots
    for key in (*stay[-4:], *orphans, *of_the_dead):
        await store.blobs.put(key, pieces_of(b"x"))
    listed, keys = list[int](), store.blobs.keys

    async def noted(*args: Any, **options: Any) -> list[str]:
        found: list[str] = await keys(*args, **options)
        listed.append(len(found))
        return found

    monkeypatch.setattr(store.blobs, "keys", noted)
    collector = GarbageCollector(store)
    n_steps = 1
    while not await collector.step():
        n_steps += 1
    assert n_steps > 3
    assert max(listed) <= 2
    assert await keys() == sorted(stay)


async def test_an_interrupted_deletion_says_what_is_gone_and_can_be_repeated(
    any_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await any_fleet.start()
    store = any_fleet.store(registry)
    for name in ("a-1", "a-2", "a-3", "b"):
        await registry.create(any_fleet.spec(name))
    delete, left = store.models.delete, ["a-1"]

    async def fails(record: Any) -> None:
        if record.name not in left:
            raise StorageUnavailable("pulled out", heals=True)
        await delete(record)

    monkeypatch.setattr(store.models, "delete", fails)
    deleted = list[str]()
    with pytest.raises(StorageUnavailable):
        await registry.delete_all(await registry.listing.records("a-"), deleted)
    assert deleted == ["a-1"]
    records = await registry.listing.records("a-")
    await delete(records[0])  # by another server, after this one has listed the models
    monkeypatch.setattr(store.models, "delete", delete)
    deleted.clear()
    await registry.delete_all(records, deleted)
    assert deleted == ["a-3"]
    assert [status["name"] for status in (await registry.list())[0]] == ["b"]
