"""Models that were used lately are restored after a start, and lists show them first."""

import asyncio
import time
from typing import Any

import pytest
from tests.service.models.test_registry_loading import models
from tests.support.waiting import eventually_async

from manylabel_service.clock import now_ms
from manylabel_service.errors import StorageFull
from manylabel_service.models.registry import Registry
from manylabel_service.models.uses import assigned_to


async def used_order(fleet: Any, registry: Registry) -> list[str]:
    """Names of the models in the store, latest recorded use first."""
    return [use.record.name for use in await fleet.store(registry).models.recent(None, 100)]


async def use_later(registry: Registry, name: str) -> None:
    """Use a model in a later millisecond than all before."""
    began_ms = now_ms()
    while now_ms() < began_ms + 2:
        pass
    await registry.get(name)


def names(registry: Registry) -> list[str]:
    return [replica.name for replica in registry.resident()]


async def test_a_start_is_ready_before_models_are_restored(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    states = await models(any_fleet, 4)
    registry = await any_fleet.start(preload=False)
    for name in ("m2", "m0"):
        await registry.get(name)
    await any_fleet.stop(registry)
    restored, may_go_on, load = list[str](), asyncio.Event(), Registry._load

    async def noted(self: Registry, name: str) -> Any:
        restored.append(name)
        await may_go_on.wait()
        return await load(self, name)

    monkeypatch.setattr(Registry, "_load", noted)
    registry = await any_fleet.begin()
    assert registry.ready
    assert names(registry) == []
    may_go_on.set()
    await eventually_async(lambda: len(names(registry)) == 4)
    assert restored == ["m0", "m2", "m3", "m1"]
    for replica in registry.resident():
        assert replica.model.to_bytes() == states[replica.name]


async def test_models_that_would_have_been_evicted_are_not_restored(lone_fleet: Any) -> None:
    await models(lone_fleet, 2)
    registry = await lone_fleet.start(preload=False, evict_idle_seconds=1e-6)
    await registry._preload()
    assert names(registry) == []
    assert (await registry.get("m0")).model.updates == 3


async def test_servers_divide_the_models_that_they_restore(fleet: Any) -> None:
    await models(fleet, 12)
    servers = await fleet.start_several(2, preload=False)
    for server in servers:
        await server.membership._beat()
    for server in servers:
        await server._preload()
    one, other = (set(names(server)) for server in servers)
    assert one | other == {f"m{i}" for i in range(12)}
    assert not one & other


def test_few_models_move_when_a_server_joins() -> None:
    three, four = ["a", "b", "c"], ["a", "b", "c", "d"]
    before = {name: assigned_to(name, three) for name in map(str, range(1_000))}
    after = {name: assigned_to(name, four) for name in before}
    assert all(after[name] in (before[name], "d") for name in before)
    for server in four:
        assert 150 < sum(each == server for each in after.values()) < 350


async def test_a_restored_model_is_as_old_as_its_last_use(lone_fleet: Any) -> None:
    await models(lone_fleet, 2)
    used_before = time.monotonic()
    registry = await lone_fleet.start(preload=False)
    loading = asyncio.create_task(registry._preload())
    first = await registry.get("m1")
    await loading
    assert sorted(names(registry)) == ["m0", "m1"]
    (other,) = (replica for replica in registry.resident() if replica is not first)
    assert other.used_at < used_before < first.used_at, "memory for a request does not go to a model without one"


async def test_uses_are_recorded_at_the_load_in_between_at_eviction_and_at_the_end(any_fleet: Any) -> None:
    await models(any_fleet, 3)
    registry = await any_fleet.start(preload=False)
    for name in ("m0", "m2"):
        await use_later(registry, name)
    assert await used_order(any_fleet, registry) == ["m2", "m0", "m1"], "before a server can die"
    await use_later(registry, "m0")
    await registry.uses.record()
    assert await used_order(any_fleet, registry) == ["m0", "m2", "m1"]
    async with registry.use("m2"):
        await use_later(registry, "m0")
        await registry.uses.record()
        assert (await used_order(any_fleet, registry))[0] == "m2", "a long stream uses its model all the time"
    await use_later(registry, "m0")
    replica = registry._replicas["m0"]
    assert await registry._eviction._leaves(replica, "idle")
    await registry.uses.record()
    assert (await used_order(any_fleet, registry))[0] == "m0"
    await use_later(registry, "m2")
    await any_fleet.stop(registry)
    registry = await any_fleet.start(preload=False)
    assert await used_order(any_fleet, registry) == ["m2", "m0", "m1"]


async def test_an_unused_model_is_not_recorded_again(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await models(lone_fleet, 2)
    registry = await lone_fleet.start(preload=False)
    await registry._preload()
    recorded, use = list[Any](), lone_fleet.store(registry).models.use

    async def noted(ages_ms: Any) -> None:
        recorded.append(sorted(ages_ms))
        await use(ages_ms)

    monkeypatch.setattr(lone_fleet.store(registry).models, "use", noted)
    await registry.uses.record()
    await registry.get("m1")
    for _ in range(3):
        await registry.uses.record()
    assert recorded == [["m1"]]


async def test_a_full_store_does_not_prevent_the_load_of_a_model(
    lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = await models(lone_fleet, 1)
    registry = await lone_fleet.start(preload=False)

    async def full(ages_ms: Any) -> None:
        raise StorageFull("the disk is full")

    monkeypatch.setattr(lone_fleet.store(registry).models, "use", full)
    assert (await registry.get("m0")).model.to_bytes() == states["m0"]
