"""Replicas of one model in several processes on one Redis: the same bits everywhere, whatever happens between."""

import asyncio
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import eventually_async

from manylabel_service.errors import LogSealed, ModelExists, ModelGone, ModelNotFound, StorageUnavailable
from manylabel_service.models import log_watcher
from manylabel_service.online.state.controls import Describe
from manylabel_service.online.updates import applier


class TestOneLog:
    async def test_interleaved_updates_give_the_same_bits_on_all_replicas(self, fleet: Any) -> None:
        _, replicas = await fleet.hosted(3, snapshot_every_updates=40)

        async def client(number: int) -> list[str]:
            positions = []
            for i in range(25):
                replica = replicas[(number + i) % 3]
                positions.append((await replica.update([fleet.example(31 * number + i)])).position)
            return positions

        positions = [position for part in await asyncio.gather(*map(client, range(8))) for position in part]
        assert len(set(positions)) == 200
        state = await fleet.agreed()
        assert replicas[0].model.updates == 200
        late = await fleet.start()
        assert (await late.get("m")).model.to_bytes() == state

    async def test_a_sync_that_comes_with_a_change_ends_while_the_log_is_sealed(self, fleet: Any) -> None:
        """The process that has sealed the log may wait for it, before it replaces the model."""
        (registry,), (replica,) = await fleet.hosted(1)
        logs = fleet.store(registry).logs
        await logs.seal(replica.record, True)
        described = asyncio.ensure_future(replica.change(Describe({"l0": {"title": "one"}})))
        assert await replica.sync() is None
        assert not described.done()
        await logs.seal(replica.record, False)
        await described
        assert replica.model.updates == 0

    async def test_a_server_stops_while_the_log_is_sealed(self, fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """The process that has sealed it may have died, and all other servers may be stopping."""
        monkeypatch.setattr(applier, "SEALED_SECONDS", math.inf)
        (stopping, other), (replica, _) = await fleet.hosted(2)
        position = (await replica.update([fleet.example(0)])).position
        logs = fleet.store(other).logs
        await logs.seal(replica.record, True)
        described = asyncio.ensure_future(replica.change(Describe({"l0": {"title": "one"}})))
        assert await replica.sync() is None
        assert not described.done()
        await asyncio.wait_for(stopping.stop(), 120)
        with pytest.raises(LogSealed):
            await described
        assert await fleet.store(other).snapshots.get(replica.record, position) is not None

    async def test_concurrent_snapshots_of_one_position_all_succeed(self, fleet: Any) -> None:
        registries, replicas = await fleet.hosted(3)
        for turn in range(20):
            receipt = await replicas[turn % 3].update([fleet.example(turn)])
            for replica in replicas:
                await replica.predict([], at_least=receipt.position)
            taken = await asyncio.gather(*(replica.take_snapshot() for replica in replicas))
            assert {snapshot.position for snapshot in taken} == {receipt.position}
            stored = await fleet.store(registries[0]).snapshots.get(replicas[0].record, receipt.position)
            assert stored == replicas[0].model.to_bytes()

    async def test_an_idle_replica_learns_the_updates_of_others(self, fleet: Any) -> None:
        _, (one, other) = await fleet.hosted(2)
        await one.update([fleet.example(0)])
        await eventually_async(lambda: other.model.updates == 1)
        assert other.model.to_bytes() == one.model.to_bytes()
        predicted = await other.predict([fleet.example(0).x])
        assert (predicted.position, predicted.stale_seconds) == (one.model.position, None)

    async def test_the_lag_of_a_replica_is_the_entries_it_has_not_applied(self, fleet: Any) -> None:
        registries, replicas = await fleet.hosted(2)
        async with replicas[1].learning:  # meanwhile it applies nothing
            for i in range(3):
                await replicas[0].update([fleet.example(i)])
            assert await registries[0].listing.log_lags(registries[0].resident()) == {"m": 0}
            assert await registries[1].listing.log_lags(registries[1].resident()) == {"m": 3}
        await fleet.agreed()
        assert await registries[1].listing.log_lags(registries[1].resident()) == {"m": 0}
        fleet.server.kill()
        assert await registries[1].listing.log_lags(registries[1].resident()) == {}, "nobody knows"

    async def test_an_idle_process_polls_seldom_and_a_busy_one_in_bounds(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (registry, _), (one, _) = await fleet.hosted(2)
        store = fleet.store(registry)
        changed, read = store.logs.changed, store.logs.read
        waits: list[float] = []
        reads: list[None] = []

        async def watched_changed(*args: Any) -> Any:
            waits.append(args[-1])
            return await changed(*args)

        async def watched_read(*args: Any) -> Any:
            reads.append(None)
            return await read(*args)

        monkeypatch.setattr(store.logs, "changed", watched_changed)
        monkeypatch.setattr(store.logs, "read", watched_read)
        await one.update([fleet.example(0)])  # the first loads the kernels
        while len(waits) < 6:
            await one.update([fleet.example(0)])
        assert len(reads) <= 2 * len(waits)
        monkeypatch.setattr(log_watcher, "WAIT_SECONDS", 0.4)
        waits.clear()
        await eventually_async(lambda: len(waits) == 6)
        assert set(waits[1:]) == {0.4}, "each call may wait that long for a change"


class TestAtLeast:
    async def test_a_prediction_waits_for_a_position_acknowledged_elsewhere(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registries, (one, other) = await fleet.hosted(2)
        registries[1]._tasks[0].cancel()  # without a follower
        for i in range(20):
            position = (await one.update([fleet.example(i)])).position
            predicted = await other.predict([fleet.example(0).x], at_least=position)
            assert predicted.position == position
        assert (await other.predict([fleet.example(0).x], at_least="0")).position == position

    async def test_a_prediction_waits_for_a_later_position(self, fleet: Any) -> None:
        _, (one, other) = await fleet.hosted(2)
        first = (await one.update([fleet.example(0)])).position
        ms = int(first.split("-")[0])
        soon = asyncio.create_task(other.predict([fleet.example(0).x], at_least=f"{ms + 50}-0"))
        while not soon.done():
            await one.update([fleet.example(1)])
        assert int((await soon).position.split("-")[0]) >= ms + 50


class TestDeletedElsewhere:
    async def test_other_replicas_of_a_deleted_model_are_dropped(self, fleet: Any) -> None:
        (one, other), (_, held) = await fleet.hosted(2)
        await one.delete("m")
        await eventually_async(lambda: not other.resident())
        with pytest.raises(ModelNotFound):
            await other.get("m")
        with pytest.raises(ModelGone):
            await held.update([fleet.example(0)])
        with pytest.raises(ModelGone):
            await held.predict([fleet.example(0).x])

    async def test_an_update_of_the_deleted_model_does_not_reach_its_successor(self, fleet: Any) -> None:
        registries, (_, held) = await fleet.hosted(2)
        for task in registries[1]._tasks:
            task.cancel()
        await registries[0].delete("m")
        created = await registries[0].create(fleet.spec())
        results = await asyncio.gather(*(held.update([fleet.example(i)]) for i in range(5)), return_exceptions=True)
        assert [type(result) for result in results] == [ModelGone] * 5
        assert created.model.updates == 0
        found = await registries[1].get("m")
        assert found.record == created.record
        assert (await found.update([fleet.example(0)])).updates == 1

    async def test_a_model_is_created_while_its_predecessor_is_still_loaded(self, fleet: Any) -> None:
        registries, (_, held) = await fleet.hosted(2)
        registries[1]._tasks[0].cancel()
        await held.update([fleet.example(0)])
        await registries[0].delete("m")
        new = await registries[1].create(fleet.spec())
        assert await registries[1].get("m") is new
        assert new.model.updates == 0
        with pytest.raises(ModelExists):
            await registries[0].create(fleet.spec())

    async def test_all_models_are_listed_whether_loaded_or_not(self, fleet: Any) -> None:
        one, other = await fleet.start_several(2)
        replica = await one.create(fleet.spec("a"))
        await replica.update([fleet.example(0)])
        listed = {status["name"]: status for status in (await other.list())[0]}
        known = ("name", "algorithm", "params", "scaling", "missing", "text", "limits", "sources")
        assert listed == {"a": {**{name: replica.status()[name] for name in known}, "loaded": False}}
        await other.get("a")
        memory = {"bytes": 0}  # room for growth is not part of the state
        expected = {**replica.status(), "loaded": True, **memory}
        for registry in (one, other):
            ((status,), _) = await registry.list()
            assert {**status, **memory} == expected


class TestStoreGone:
    async def test_a_frozen_replica_reports_staleness_and_catches_up(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registries, (one, other) = await fleet.hosted(2)
        registries[1]._tasks[0].cancel()  # as frozen as a task can be
        other._store_health._heard_at -= 10.0
        for i in range(50):
            await one.update([fleet.example(i)])
        predicted = await other.predict([fleet.example(0).x])
        assert predicted.stale_seconds is not None
        assert predicted.stale_seconds >= 10
        assert (await other.update([fleet.example(0)])).updates == 51
        assert other.model.to_bytes() == one.model.to_bytes() or await fleet.agreed()

    async def test_replicas_go_back_with_a_store_that_lost_its_end(self, fleet: Any, tmp_path: Path) -> None:
        """Redis is back as it was some updates ago: the replicas go back with it, and on from there."""
        _, (one, other) = await fleet.hosted(2)
        await other.update([fleet.example(i) for i in range(5)])
        kept = await fleet.agreed()
        fleet.server.stop()
        shutil.copytree(fleet.server.directory, tmp_path / "copy")
        fleet.server.start()
        await _until_stored(one, fleet.example(9))
        await eventually_async(lambda: other.model.updates == 6)
        watched = other.events.subscribe()
        fleet.server.kill()
        fleet.server.wipe()
        shutil.copytree(tmp_path / "copy", fleet.server.directory, dirs_exist_ok=True)
        fleet.server.start()
        await eventually_async(lambda: one.model.to_bytes() == other.model.to_bytes() == kept)
        assert (await other.update([fleet.example(7)])).updates == 6
        state = await fleet.agreed()
        assert (await (await fleet.start()).get("m")).model.to_bytes() == state != kept
        async with asyncio.timeout(120):
            events = [await anext(watched) for _ in range(3)]
        assert next(event.kind for event in events if event.kind != "metrics") == "dropped"

    async def test_models_are_gone_with_the_data_of_the_store(self, fleet: Any) -> None:
        registries, (one, other) = await fleet.hosted(2)
        await one.update([fleet.example(0)])
        await fleet.agreed()
        fleet.server.kill()
        fleet.server.wipe()
        fleet.server.start()
        await eventually_async(lambda: not any(registry.resident() for registry in registries))
        for held in (one, other):
            with pytest.raises(ModelGone):
                await held.update([fleet.example(1)])
        new = await registries[0].create(fleet.spec())
        assert new.model.updates == 0
        assert (await (await registries[1].get("m")).update([fleet.example(0)])).updates == 1


async def _until_stored(replica: Any, example: Any) -> Any:
    return await eventually_async(lambda: replica.update([example]), ignore=StorageUnavailable)
