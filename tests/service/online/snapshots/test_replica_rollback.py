"""Snapshots and rollbacks of a model with several replicas."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.service.fleet import snapshot_bytes
from tests.support.waiting import eventually_async

from manylabel_service.errors import PositionNotFound, SnapshotNotFound, StorageUnavailable
from manylabel_service.online.snapshots import retention

HOUR_SECONDS = 3600.0


async def learn(fleet: Any, replica: Any, n: int, start: int = 0) -> None:
    for i in range(start, start + n):
        await replica.update([fleet.example(i, width=2 + i % 3)])


class TestRollback:
    async def test_all_replicas_go_back_at_the_same_point(self, fleet: Any) -> None:
        registries, replicas = await fleet.hosted(3)
        one, other, behind = replicas
        await learn(fleet, one, 5)
        target = await one.take_snapshot()
        at_target = one.model.predict([fleet.example(1).x])
        await learn(fleet, other, 5, start=5)
        for task in registries[2]._tasks:
            task.cancel()
        assert behind.model.updates <= 10
        rolled, *learnt = await asyncio.gather(
            one.rollback(target.position), *(r.update([fleet.example(20)]) for r in (one, other) for _ in range(3))
        )
        assert rolled.rolled_back_to == target.position
        assert 5 <= rolled.updates <= 5
        behind.poll()
        state = await fleet.agreed()
        late = await fleet.start()
        assert (await late.get("m")).model.to_bytes() == state
        # Updates before the rollback are undone, those after it are learnt.
        after = [answer for answer in learnt if answer.position > rolled.position]
        assert one.model.updates == 5 + len(after)
        again = await other.rollback(target.position)
        assert (again.updates, again.rolled_back_to) == (5, target.position)
        assert other.model.predict([fleet.example(1).x]) == at_target

    @pytest.mark.parametrize("position", ["77-7", "latest", ""])
    async def test_an_unknown_position_is_refused(self, fleet: Any, position: str) -> None:
        _, (one,) = await fleet.hosted(1)
        await learn(fleet, one, 2)
        before = one.model.to_bytes()
        with pytest.raises(PositionNotFound if position == "77-7" else SnapshotNotFound):
            await one.rollback(position)
        with pytest.raises(SnapshotNotFound):
            await snapshot_bytes(one, position)
        assert one.model.to_bytes() == before

    async def test_a_rollback_is_followed_by_a_snapshot(self, fleet: Any) -> None:
        _, (one, other) = await fleet.hosted(2)
        await learn(fleet, one, 2)
        await fleet.agreed()
        # The first replica does not know this snapshot yet; it is recent, but a rollback needs more.
        target = await other.take_snapshot()
        await learn(fleet, one, 2)
        rolled = await one.rollback(target.position)
        await eventually_async(lambda: one.snapshotter.covered == rolled.position)

    async def test_the_target_stays_until_the_log_no_longer_needs_it(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retention, "PIN_SECONDS", 0.0)
        _, (one,) = await fleet.hosted(1, snapshot_retention_count=3, history_bytes=0)
        await learn(fleet, one, 2)
        target = await one.take_snapshot()
        await one.rollback(target.position)
        await eventually_async(lambda: one.snapshotter.covered == one.model.position and not one.snapshotter.busy)
        await learn(fleet, one, 1)
        await one.take_snapshot()
        pinned = [snapshot.position for snapshot in await one.files.snapshots.list() if snapshot.pinned]
        assert pinned == [target.position], "the log still begins before the rollback"
        for _ in range(4):
            await learn(fleet, one, 1)
            await one.take_snapshot()
        snapshots = await one.files.snapshots.list()
        assert [snapshot.pinned for snapshot in snapshots] == [False] * 3
        assert target.position not in [snapshot.position for snapshot in snapshots]

    async def test_a_young_pin_stays_without_a_rollback(self, fleet: Any) -> None:
        (registry,), (one,) = await fleet.hosted(1, snapshot_retention_count=1, history_bytes=0)
        await learn(fleet, one, 1)
        target = await one.take_snapshot()
        assert await fleet.store(registry).snapshots.retain(one.record, target.position, add="pin")
        for _ in range(3):
            await learn(fleet, one, 1)
            await one.take_snapshot()
        assert target.position in [snapshot.position for snapshot in await one.files.snapshots.list()]
        assert (await one.rollback(target.position)).updates == 1

    async def test_an_old_pin_stays_for_a_rollback_that_another_server_appends(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 0.0
        monkeypatch.setattr(retention, "time", SimpleNamespace(monotonic=lambda: now))
        (registry,), (one,) = await fleet.hosted(1, snapshot_retention_count=1, history_bytes=0)
        await learn(fleet, one, 1)
        target = await one.take_snapshot()
        store = fleet.store(registry)

        async def pin() -> None:
            assert await store.snapshots.retain(one.record, target.position, add="pin")

        async def stays(seconds: float) -> bool:
            nonlocal now
            now += seconds
            await learn(fleet, one, 1)
            await one.take_snapshot()
            return target.position in [each.position for each in await one.files.snapshots.list() if each.pinned]

        await pin()  # of an earlier rollback, which the log no longer has
        assert await stays(0.0)  # the first snapshot after the pin
        assert await stays(0.9 * retention.PIN_SECONDS)
        await pin()  # of a rollback that will enter the log
        assert await stays(0.2 * retention.PIN_SECONDS)
        assert await stays(0.9 * retention.PIN_SECONDS)
        assert not await stays(0.2 * retention.PIN_SECONDS)

    async def test_a_damaged_target_is_restored_from_the_history(self, fleet: Any) -> None:
        (registry, _), (one, _) = await fleet.hosted(2)
        await learn(fleet, one, 2)
        before = one.model.to_bytes()
        target = await one.take_snapshot()
        await learn(fleet, one, 1)
        data = bytearray(await snapshot_bytes(one, target.position))
        data[len(data) // 2] ^= 1
        await fleet.store(registry).snapshots.put(one.record, target.position, bytes(data))
        assert (await one.state_at(target.position)).to_bytes() == before
        assert (await one.rollback(target.position)).updates == 2
        assert [snapshot.pinned for snapshot in await one.files.snapshots.list()] == [False]
        assert (await one.update([fleet.example(0)])).updates == 3
        await fleet.agreed()

    async def test_updates_after_a_rollback_wait_for_its_snapshot(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registries, (one, other) = await fleet.hosted(2)
        await learn(fleet, one, 2)
        target = await one.take_snapshot()
        await learn(fleet, one, 2)
        await fleet.agreed()
        registries[1]._tasks[0].cancel()
        await one.rollback(target.position)

        async def gone(*args: Any) -> Any:
            raise StorageUnavailable("the network is down", heals=True)

        monkeypatch.setattr(fleet.store(registries[1]).snapshots, "get", gone)
        results = await asyncio.gather(*(other.update([fleet.example(i)]) for i in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [StorageUnavailable] * 3
        assert other.model.updates == 4
        monkeypatch.undo()
        assert (await other.update([fleet.example(0)])).updates == 6  # the three were logged: they are learnt
        assert other.model.to_bytes() == await fleet.agreed()

    async def test_fetching_the_snapshot_is_tried_again(self, fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        (_, registry), (one, other) = await fleet.hosted(2)
        await learn(fleet, one, 2)
        target = await one.take_snapshot()
        await fleet.agreed()
        store, failures = fleet.store(registry), 3
        get_snapshot = store.snapshots.get

        async def failing(*args: Any) -> Any:
            nonlocal failures
            if failures:
                failures -= 1
                raise StorageUnavailable("the network is down", heals=True)
            return await get_snapshot(*args)

        monkeypatch.setattr(store.snapshots, "get", failing)
        await learn(fleet, one, 2)
        await one.rollback(target.position)
        await learn(fleet, one, 1)
        await fleet.agreed()
        assert failures == 0
        assert (other.model.updates, other.failed) == (3, False)


class TestSnapshots:
    async def test_many_snapshots_are_requested_during_updates(self, fleet: Any) -> None:
        _, (one,) = await fleet.hosted(1)
        *records, _ = await asyncio.gather(*(one.take_snapshot() for _ in range(10)), learn(fleet, one, 20))
        assert {record.position for record in records} <= {"0", *(r.position for r in records)}
        assert (await one.take_snapshot()).position == one.model.position

    async def test_replicas_that_stop_together_store_one_snapshot(
        self, fleet: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        registries, (one, *_) = await fleet.hosted(3)
        await learn(fleet, one, 5)
        state = await fleet.agreed()
        for registry in registries:
            await fleet.stop(registry)
        assert capsys.readouterr().out.count("] snapshot_stored ") == 1
        assert (await (await fleet.start()).get("m")).model.to_bytes() == state

    async def test_replicas_take_turns_to_store_snapshots(self, fleet: Any, capsys: pytest.CaptureFixture[str]) -> None:
        _, replicas = await fleet.hosted(3, snapshot_every_seconds=HOUR_SECONDS)
        for first in range(3):
            covered = replicas[first].snapshotter.covered
            for replica in (*replicas[first:], *replicas[:first]):
                replica.snapshotter.taken_at -= 2 * HOUR_SECONDS  # its snapshot is due
                await replica.update([fleet.example(first)])
                if replica is replicas[first]:  # this replica may have begun with an update of another replica
                    await eventually_async(lambda replica=replica, old=covered: replica.snapshotter.covered != old)
                    covered = replica.snapshotter.covered
                await eventually_async(lambda replica=replica, new=covered: replica.snapshotter.covered == new)
        assert capsys.readouterr().out.count("] snapshot_stored ") == 3, "each alone would have taken three"

    @pytest.mark.parametrize("how", ["updates", "a prediction", "the follower"])
    async def test_a_replica_behind_a_trimmed_log_restores_itself(self, fleet: Any, how: str) -> None:
        registries, (one, behind) = await fleet.hosted(2, snapshot_retention_count=1, history_bytes=0)
        registries[1]._tasks[0].cancel()
        await learn(fleet, behind, 1)
        watched = behind.events.subscribe()
        for start in range(0, 30, 10):
            await learn(fleet, one, 10, start)
            await one.take_snapshot()
        if how != "the follower":  # a follower notices the loss even if no entry follows the last snapshot
            await learn(fleet, one, 2)
        assert behind.model.updates == 1
        if how == "updates":
            answers = await asyncio.gather(*(behind.update([fleet.example(i)]) for i in range(5)))
            assert [answer.updates for answer in answers] == [34, 35, 36, 37, 38]
        elif how == "a prediction":
            predicted = await behind.predict([fleet.example(0).x], at_least=one.model.position)
            assert predicted.position == one.model.position
        else:
            registries[1]._tasks[0] = asyncio.create_task(registries[1]._log_watcher.run())
            await eventually_async(lambda: behind.model.updates == one.model.updates)
        state, updates = behind.model.to_bytes(), behind.model.updates
        await eventually_async(lambda: one.model.updates == updates)
        assert one.model.to_bytes() == state
        async with asyncio.timeout(120):
            while (event := await anext(watched)).kind == "metrics":
                pass
        assert event.kind == "dropped"
