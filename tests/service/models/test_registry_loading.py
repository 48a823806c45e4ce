"""Models are loaded at their first use, and evicted when they are idle or memory is short."""

import asyncio
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.errors import (
    LimitExceeded,
    ModelNotFound,
    NotReady,
    StorageUnavailable,
)
from manylabel_service.models import eviction
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import START


async def models(fleet: Any, number: int, n_updates: int = 3) -> dict[str, bytes]:
    """Leave that number of models behind; return their states."""
    registry = await fleet.start()
    states = {}
    for i in range(number):
        replica = await registry.create(fleet.spec(f"m{i}"))
        await replica.update([fleet.example(i + j) for j in range(n_updates)])
        states[f"m{i}"] = replica.model.to_bytes()
    await fleet.stop(registry)
    return states


def _slow_snapshots(replica: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Return whether the next snapshot of a replica may end, and whether it has begun."""
    model, may_go_on, begun = replica.model, threading.Event(), threading.Event()

    def slow() -> memoryview:
        begun.set()
        assert may_go_on.wait(DEADLINE_SECONDS)
        return OnlineModel.to_buffer(model)

    monkeypatch.setattr(model, "to_buffer", slow)
    return may_go_on, begun


class TestFirstUse:
    async def test_a_model_in_use_is_not_evicted(self, lone_fleet: Any) -> None:
        registry = await lone_fleet.start(evict_idle_seconds=1e-6)
        await registry.create(lone_fleet.spec())
        async with registry.use("m") as model, registry.use("m") as same:
            await registry._eviction.sweep()
            assert registry.resident() == [model] == [same]
        await registry._eviction.sweep()
        assert registry.resident() == []

    async def test_a_user_of_a_model_that_is_gone_learns_whether_the_name_is(self, fleet: Any) -> None:
        one, other = await fleet.start_several(2)

        async def use(names: list[str]) -> None:
            async with one.use("m") as model:
                await other.delete("m")
                for name in names:
                    await other.create(fleet.spec(name))
                await model.update([fleet.example(0)])

        for error, names in ((ModelNotFound, []), (NotReady, ["m"])):
            await other.create(fleet.spec())
            with pytest.raises(error, match=r"no model|was replaced meanwhile; retry in 1 s"):
                await use(names)

    async def test_a_model_that_is_replaced_while_it_is_loaded_is_found(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = await fleet.start_several(2)
        first = (await one.create(fleet.spec())).record
        models, listed = fleet.store(one).models, SnapshotReader.list

        async def list_replaced(reader: SnapshotReader) -> Any:
            if await models.find("m") == first:
                await models.replace([(first, await models.stage(first, START))])
            return await listed(reader)

        monkeypatch.setattr(SnapshotReader, "list", list_replaced)
        found = await other.get("m")
        assert found.record == await models.find("m") != first

    async def test_fifty_callers_share_one_load(self, fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        states = await models(fleet, 1)
        registry = await fleet.start(preload=False)
        assert registry.resident() == []
        restored, from_bytes = [], OnlineModel.from_bytes

        def counted(data: bytes) -> OnlineModel:
            restored.append(1)
            return from_bytes(data)

        monkeypatch.setattr(OnlineModel, "from_bytes", counted)
        replicas = await asyncio.gather(*(registry.get("m0") for _ in range(50)))
        assert len(set(map(id, replicas))) == 1
        assert replicas[0].model.to_bytes() == states["m0"]
        assert restored == [1]

    async def test_few_are_loaded_at_a_time(self, fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        states = await models(fleet, 8)
        registry = await fleet.start(preload=False)
        at_a_time, most = 0, 0
        restored, both = registry._restored, asyncio.Barrier(2)

        async def counted(record: Any) -> Any:
            nonlocal at_a_time, most
            at_a_time += 1
            most = max(most, at_a_time)
            try:
                await both.wait()  # eight models, two by two
                return await restored(record)
            finally:
                at_a_time -= 1

        monkeypatch.setattr(registry, "_restored", counted)
        replicas = await asyncio.gather(*(registry.get(name) for name in states))
        assert most == 2
        assert [replica.model.to_bytes() for replica in replicas] == list(states.values())

    async def test_a_caller_that_waits_too_long_is_refused_and_may_retry(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await models(fleet, 1)
        registry = await fleet.start(preload=False, load_timeout_seconds=0.05)
        may_go_on, restored = asyncio.Event(), registry._restored

        async def slow(record: Any) -> Any:
            await may_go_on.wait()
            return await restored(record)

        monkeypatch.setattr(registry, "_restored", slow)
        results = await asyncio.gather(*(registry.get("m0") for _ in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [NotReady] * 3
        may_go_on.set()
        await eventually_async(registry.resident)
        assert (await registry.get("m0")).model.updates == 3

    async def test_a_cancelled_caller_does_not_cancel_the_load_of_others(self, fleet: Any) -> None:
        await models(fleet, 1)
        registry = await fleet.start(preload=False)
        leaving, staying = (asyncio.create_task(registry.get("m0")) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).model.updates == 3

    async def test_an_unknown_model_is_not_found(self, fleet: Any) -> None:
        registry = await fleet.start()
        results = await asyncio.gather(*(registry.get("nobody") for _ in range(5)), return_exceptions=True)
        assert [type(result) for result in results] == [ModelNotFound] * 5
        fleet.server.kill()
        with pytest.raises(StorageUnavailable):
            await registry.get("nobody")
        fleet.server.start()

    async def test_many_names_are_read_outside_the_event_loop(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads, made = [], OnlineModel.__init__

        def noted(*arguments: Any, **options: Any) -> None:
            threads.append(threading.current_thread())
            made(*arguments, **options)

        one, other = await fleet.start_several(2)
        monkeypatch.setattr(OnlineModel, "__init__", noted)
        created = await one.create(fleet.spec(features=["a", "b1", *(f"f{i}" for i in range(20_000))]))
        await created.update([fleet.example(0)])
        assert (await other.get("m")).model.to_bytes() == created.model.to_bytes()
        assert threads
        assert threading.main_thread() not in threads

    async def test_the_limit_of_models_counts_those_of_all_processes(self, fleet: Any) -> None:
        one, other = await fleet.start_several(2, max_models=2)
        await one.create(fleet.spec("a"))
        await other.create(fleet.spec("b"))
        with pytest.raises(LimitExceeded):
            await one.create(fleet.spec("c"))

    async def test_memory_bounds_what_is_loaded_at_the_start(self, fleet: Any) -> None:
        states = await models(fleet, 5)
        one = await fleet.start()
        nbytes = sum(replica.model.nbytes for replica in one.resident()) / 5
        await fleet.stop(one)  # a second server would be assigned some of the models
        registry = await fleet.begin(max_resident_bytes=int(2.5 * nbytes))
        await registry._preload()
        assert 2 <= len(registry.resident()) <= 3
        for name, state in states.items():
            assert (await registry.get(name)).model.to_bytes() == state


class TestEviction:
    async def test_an_idle_model_is_evicted_and_restored_exactly(
        self, lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(eviction, "SWEEP_SECONDS", 0.02)
        registry = await lone_fleet.start()
        replica = await registry.create(lone_fleet.spec())
        await replica.update([lone_fleet.example(i) for i in range(5)])
        state, position = replica.model.to_bytes(), replica.model.position
        registry._eviction._idle_seconds = 0.1
        with capture_logs() as logs:
            await eventually_async(lambda: not registry.resident())
        assert [line["reason"] for line in logs if line["event"] == "model_evicted"] == ["idle"]
        (snapshot,) = await lone_fleet.store(registry).snapshots.all(replica.record)
        assert snapshot.position == position
        again = await registry.get("m")
        assert again is not replica
        assert again.model.to_bytes() == state

    async def test_the_least_recently_used_models_are_evicted(self, lone_fleet: Any) -> None:
        await models(lone_fleet, 4)
        registry = await lone_fleet.start(preload=False)
        nbytes = (await registry.get("m0")).model.nbytes
        await lone_fleet.kill(registry)
        registry = await lone_fleet.start(preload=False, max_resident_bytes=int(2.5 * nbytes))
        for name in ("m0", "m1", "m0", "m2"):
            await registry.get(name)
        assert [replica.spec.name for replica in registry.resident()] == ["m0", "m2"]

    async def test_the_most_recently_used_model_stays_whatever_its_size(self, lone_fleet: Any) -> None:
        registry = await lone_fleet.start(max_resident_bytes=1)
        for name in ("a", "b"):
            await registry.create(lone_fleet.spec(name))
        await registry._eviction.sweep()
        await registry._eviction.sweep()
        assert [replica.spec.name for replica in registry.resident()] == ["b"]

    async def test_evictions_under_load_lose_no_update(self, fleet: Any) -> None:
        names = [f"m{i}" for i in range(6)]
        registry = await fleet.start(max_resident_bytes=1)  # every model exceeds the limit
        for name in names:
            await registry.create(fleet.spec(name))

        seen = set()

        async def client(number: int) -> None:
            for i in range(60):
                async with registry.use(names[(number + i) % 6]) as replica:
                    seen.add(replica)
                    await asyncio.sleep(0)
                    await replica.update([fleet.example(i)])
                    await replica.predict([fleet.example(i).x])

        async def sweep() -> None:
            while True:
                await registry._eviction.sweep()
                await asyncio.sleep(0.005)  # its pace; the clients go on meanwhile

        sweeping = asyncio.create_task(sweep())
        await asyncio.gather(*map(client, range(2)))  # most models are idle at any time
        sweeping.cancel()
        assert len(seen) > 12, "models left the memory and came back"
        assert [(await registry.get(name)).model.updates for name in names] == [20] * 6

    @pytest.mark.parametrize("updates", [True, False], ids=["an update", "a prediction"])
    async def test_a_use_during_the_last_snapshot_keeps_the_model(
        self, lone_fleet: Any, monkeypatch: pytest.MonkeyPatch, updates: bool
    ) -> None:
        """An update waits until the state has been written down, and then the model stays."""
        registry = await lone_fleet.start(evict_idle_seconds=1e-6)
        registry._tasks[2].cancel()  # of eviction
        replica = await registry.create(lone_fleet.spec())
        await replica.update([lone_fleet.example(0)])
        may_go_on, begun = _slow_snapshots(replica, monkeypatch)
        sweeping = asyncio.create_task(registry._eviction.sweep())
        await eventually_async(begun.is_set)
        if updates:
            update = asyncio.create_task(replica.update([lone_fleet.example(1)]))
            await eventually_async(lambda: replica.queue.examples == 1)
            assert replica.model.updates == 1
            may_go_on.set()
            assert (await update).updates == 2
        else:
            async with registry.use("m") as model:
                await model.predict([lone_fleet.example(1).x])
            may_go_on.set()
        await sweeping
        assert registry.resident() == [replica]

    @pytest.mark.parametrize("short", [False, True], ids=["idle", "memory is short"])
    async def test_a_slow_snapshot_does_not_block_other_loads(
        self, lone_fleet: Any, monkeypatch: pytest.MonkeyPatch, short: bool
    ) -> None:
        await models(lone_fleet, 4)
        registry = await lone_fleet.start(preload=False, load_timeout_seconds=DEADLINE_SECONDS)
        slow = await registry.get("m0")
        await slow.update([lone_fleet.example(0)])
        if short:
            registry._eviction._most_bytes = int(1.5 * slow.model.nbytes)
        else:
            registry._eviction._idle_seconds = 1e-6
        snapshots = lone_fleet.store(registry).snapshots
        put, may_go_on, began = snapshots.put, asyncio.Event(), asyncio.Event()

        async def hangs(record: Any, *args: Any) -> None:
            if record.name == "m0":
                began.set()
                await may_go_on.wait()
            await put(record, *args)

        monkeypatch.setattr(snapshots, "put", hangs)
        monkeypatch.setattr(eviction, "PATIENCE_SECONDS", 0.05, raising=False)
        if not short:
            sweeping = asyncio.create_task(registry._eviction.sweep())
            await began.wait()
        for name in ("m1", "m2", "m3"):
            assert (await registry.get(name)).model.updates == 3
        assert began.is_set()
        assert registry._replicas["m0"] is slow, "it is in memory until its snapshot is stored"
        assert len(registry.resident()) <= (3 if short else 4), "what leaves is counted once"
        may_go_on.set()
        await eventually_async(lambda: slow not in registry.resident())
        if not short:
            await sweeping

    async def test_a_model_with_subscribers_or_waiting_calls_stays(self, fleet: Any) -> None:
        registry = await fleet.start(evict_idle_seconds=1e-6, position_wait_seconds=DEADLINE_SECONDS)
        replica = await registry.create(fleet.spec())
        watched = replica.events.subscribe()
        await registry._eviction.sweep()
        assert registry.resident() == [replica]
        await watched.aclose()
        waiting = asyncio.create_task(replica.predict([fleet.example(0).x], at_least="99999999999999-0"))
        await eventually_async(lambda: not replica.evictable)
        await registry._eviction.sweep()
        assert registry.resident() == [replica]
        waiting.cancel()
        await asyncio.wait([waiting])
        await eventually_async(lambda: replica.evictable)
        await registry._eviction.sweep()
        assert registry.resident() == []

    async def test_no_model_is_evicted_while_the_store_is_away(self, fleet: Any) -> None:
        registry = await fleet.start(evict_idle_seconds=1e-6)
        replica = await registry.create(fleet.spec())
        await replica.update([fleet.example(0)])
        fleet.server.kill()
        await registry._eviction.sweep()
        assert registry.resident() == [replica]
        assert len((await replica.predict([fleet.example(0).x])).predictions) == 1
        fleet.server.start()
