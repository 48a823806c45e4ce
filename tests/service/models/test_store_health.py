"""A replica's responses to a store that does not answer, and to its return."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.waiting import eventually_async

from manylabel_service.errors import LogLost, StorageUnavailable


async def _gone(*args: Any) -> Any:
    raise StorageUnavailable("the network is down", heals=True)


async def _rolled_back(registry: Any, fleet: Any) -> Any:
    """A model whose log ends with a rollback that no snapshot covers."""
    replica = await registry.create(fleet.spec())
    await replica.update([fleet.example(0)])
    target = await replica.take_snapshot()
    await replica.update([fleet.example(1)])
    replica.snapshotter.soon = lambda: None
    await replica.rollback(target.position)
    return replica


def _once(store: Any, method: str, error: Callable[[], Exception], patch: pytest.MonkeyPatch) -> list[int]:
    """Have a method fail the first time it is called; how often that was."""
    call, failures = getattr(store, method), list[int]()

    async def failing(*args: Any) -> Any:
        if not failures:
            failures.append(1)
            raise error()
        return await call(*args)

    patch.setattr(store, method, failing)
    return failures


class TestStoreGone:
    async def test_predictions_are_stale_after_a_refused_update(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registry = await fleet.start()
        replica = await registry.create(fleet.spec())
        registry._tasks[0].cancel()  # this task could reach the store in between
        monkeypatch.setattr(fleet.store(registry).logs, "append", _gone)
        with pytest.raises(StorageUnavailable):
            await replica.update([fleet.example(0)])
        assert (await replica.predict([fleet.example(0).x])).stale_seconds is not None
        assert registry.storage_gone_seconds is not None

    async def test_a_restore_that_lost_the_store_is_tried_again(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The target of a rollback cannot be fetched, and the next caller tries again."""
        registry = await fleet.start()
        replica = await _rolled_back(registry, fleet)
        other = await fleet.start(preload=False)
        get_snapshot = fleet.store(other).snapshots.get
        calls = 0

        async def failing(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            return await (_gone() if calls > 1 else get_snapshot(*args))

        monkeypatch.setattr(fleet.store(other).snapshots, "get", failing)
        with pytest.raises(StorageUnavailable):
            await other.get("m")
        assert calls > 1
        monkeypatch.undo()
        assert (await other.get("m")).model.to_bytes() == replica.model.to_bytes()
        assert other.failed == []

    async def test_an_entry_that_could_not_be_applied_is_applied_later(
        self, lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No further update brings the model up to date."""
        registry = await lone_fleet.start()
        replica = await registry.create(lone_fleet.spec())
        await replica.update([lone_fleet.example(0)])
        target = await replica.take_snapshot()
        await replica.update([lone_fleet.example(1)])
        snapshots, failures = replica._replayer._snapshot_reader, list[str]()
        load = snapshots.load

        async def failing(position: str) -> Any:
            if replica.busy and not failures:
                failures.append(position)
                raise StorageUnavailable("the network is down", heals=True)
            return await load(position)

        monkeypatch.setattr(snapshots, "load", failing)
        with pytest.raises(StorageUnavailable):
            await replica.rollback(target.position)
        assert failures
        await eventually_async(lambda: replica.model.updates == 1)


class TestStoreBack:
    async def test_a_busy_replica_checks_the_store_again(self, fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A call that began before the store was away does not show what the store lost; the next call does."""
        registry = await fleet.start()
        replica = await registry.create(fleet.spec())
        await replica.update([fleet.example(0)])
        store, release = fleet.store(registry), asyncio.Event()

        async def held(*args: Any) -> Any:
            await release.wait()
            await _gone()

        monkeypatch.setattr(store.logs, "append", held)
        update = asyncio.create_task(replica.update([fleet.example(1)]))
        await eventually_async(lambda: replica.busy)
        lost = _once(store.logs, "read", lambda: LogLost("m", replica.model.position), monkeypatch)
        registry._store_health.lost()
        await eventually_async(lambda: registry.storage_gone_seconds is None)
        registry._tasks[0].cancel()  # no further call reaches the store
        release.set()
        with pytest.raises(StorageUnavailable):
            await update
        await eventually_async(lambda: lost)

    async def test_a_failed_restore_after_a_lost_log_is_tried_again(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registry = await fleet.start()
        replica = await registry.create(fleet.spec())
        await replica.update([fleet.example(0)])
        store, before = fleet.store(registry), replica.model
        _once(store.logs, "read", lambda: LogLost("m", replica.model.position), monkeypatch)
        _once(store.snapshots, "all", lambda: StorageUnavailable("the network is down", heals=True), monkeypatch)
        replica.poll()
        await eventually_async(lambda: replica.model is not before)
        assert replica.model.to_bytes() == before.to_bytes()
