"""The watcher for changes by other processes asks for what has changed, and misses nothing."""

import asyncio
import time
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.service.stores import opened_redis
from tests.simulation.disk import KEPT_CHANGES, Disk
from tests.simulation.store import SimulatedStore, new_disk
from tests.support.waiting import eventually_async

from manylabel_service.errors import StorageUnavailable
from manylabel_service.hosting.hosted_model import StoreHealth
from manylabel_service.models import log_watcher
from manylabel_service.models.log_watcher import LogWatcher
from manylabel_service.models.resident import ResidentModels
from manylabel_service.storage import START, ModelMeta, Store
from manylabel_service.storage.protocol import LogChanges


class Model:
    """Model that counts how often it is polled, and does not read by itself."""

    serving, busy, catching_up, log_ended, impaired, incompatible = True, False, False, False, False, None

    def __init__(self, record: ModelMeta, log_position: str = START, follows: ModelMeta | None = None) -> None:
        self.record, self.name, self.log_position = record, record.name, log_position
        self.log_record = follows or record
        self.polls = 0
        self.errors: list[Exception] = []

    @property
    def leads(self) -> bool:
        return self.log_record == self.record

    def poll(self) -> None:
        self.polls += 1

    def handle_error(self, error: Exception) -> None:
        self.errors.append(error)


class Server:
    """Watcher of one server, and a store by which others append."""

    def __init__(self, store: Store, other: Store) -> None:
        self.store, self.other = store, other
        self.resident: Any = ResidentModels()
        self.health = StoreHealth()
        self.watcher = LogWatcher(store, self.health, self.resident)

    async def model(self, name: str, **fields: Any) -> Any:
        """Create a model, and load it."""
        model = Model(await self.store.models.create(name, b""), **fields)
        self.resident.add(model)
        return model

    async def append(self, model: Any, times: int = 1) -> str:
        """Append to the log of a model elsewhere; return the new end."""
        after = (await self.other.logs.ends([model.log_record]))[model.log_record.incarnation]
        assert after is not None
        for _ in range(times):
            after = (await self.other.logs.append(model.log_record, [b"x"], after))[-1].position
        return after

    async def follow(self, *models: Any) -> list[int]:
        """Let the watcher look once; return how often the models were polled since the last time."""
        for model in models:
            model.polls = 0
        await self.watcher._follow()
        return [model.polls for model in models]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits, and nothing is found by looking at models in turn."""
    monkeypatch.setattr(log_watcher, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(log_watcher, "RESTING", 0)
    monkeypatch.setattr(log_watcher, "CHECKED_AT_ONCE", 2)
    monkeypatch.setattr(log_watcher, "CHECK_SECONDS", 1e9)


@pytest.fixture
def disk() -> Disk:
    return new_disk(lambda: time.time_ns() // 1_000_000)


@pytest.fixture
async def server(disk: Disk) -> Any:
    store, other = SimulatedStore(disk), SimulatedStore(disk)
    await store.open()
    await other.open()
    server = Server(store, other)
    await server.follow()  # the first look has no cursor, and begins the first turn
    yield server
    await store.close()
    await other.close()


async def test_a_busy_log_hides_no_change_of_another_one(server: Server) -> None:
    busy, quiet = await server.model("busy"), await server.model("quiet")
    assert await server.follow(busy, quiet) == [0, 0]
    busy.busy = True
    await server.append(busy, 5)
    await server.append(quiet)
    end = await server.append(busy, 5)
    assert await server.follow(busy, quiet) == [0, 1]
    assert await server.follow(busy, quiet) == [0, 0]
    busy.busy = False
    assert await server.follow(busy, quiet) == [1, 0], "nothing has come since, but it was not polled"
    await server.append(busy)
    busy.busy = True
    assert await server.follow(busy) == [0]
    busy.busy, busy.log_position = False, await server.append(busy)
    assert await server.follow(busy) == [0], "its own append has reached the end"
    assert busy.log_position > end


async def test_a_model_that_arrives_after_its_change_was_announced_is_polled(server: Server) -> None:
    there = await server.model("there")
    late = Model(await server.store.models.create("late", b""))
    await server.append(late)
    assert await server.follow(there) == [0]
    server.resident.add(late)
    assert await server.follow(there, late) == [0, 1]
    late.log_position = await server.append(late)
    assert await server.follow(late) == [0]


async def test_all_models_are_checked_after_a_gap(server: Server) -> None:
    models = [await server.model(f"m{n}") for n in range(5)]
    assert await server.follow(*models) == [0] * 5
    await server.append(models[1])
    await server.append(models[4])
    await server.append(Model(await server.store.models.create("other", b"")), KEPT_CHANGES)
    assert await server.follow(*models) == [0, 1, 0, 0, 1]
    await server.append(models[0])
    assert await server.follow(*models) == [1, 0, 0, 0, 0]


async def test_a_store_that_lost_its_latest_entries_is_noticed(server: Server, disk: Disk) -> None:
    models = [await server.model(f"m{n}") for n in range(5)]
    await server.follow()
    earlier = disk.copy()
    models[3].log_position = await server.append(models[3])
    models[3].busy = True
    assert await server.follow(*models) == [0] * 5
    disk.go_back(earlier)
    assert await server.follow(*models) == [0, 0, 0, 1, 0], "also while it is busy"


async def test_models_are_checked_in_turn(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [await server.model(f"m{n}") for n in range(5)]
    await server.follow()
    for model in models:
        model.log_position = f"{10**15}-1"  # the store has lost this position, and nothing has shown it
    assert await server.follow(*models) == [0] * 5
    monkeypatch.setattr(log_watcher, "CHECK_SECONDS", 0.0)
    server.watcher._turn_at = 0.0
    polls = [await server.follow(*models) for _ in range(3)]
    assert [sum(each) for each in polls] == [2, 1, 2], "the rest of the first turn, and the next one"
    assert [sum(each) for each in zip(*polls, strict=True)] == [1] * 5


async def test_after_an_error_all_models_are_checked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [await server.model(f"m{n}") for n in range(5)]
    await server.follow()
    monkeypatch.setattr(log_watcher, "BACKOFF_SECONDS", (0.0, 0.0))
    ends, calls = server.store.logs.ends, 0

    async def fails_at_first(records: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (2, 3):
            raise StorageUnavailable("pulled out", heals=True) if calls == 2 else RuntimeError
        return await ends(records)

    monkeypatch.setattr(server.store.logs, "ends", fails_at_first)
    for model in models:
        await server.append(model)
    running = asyncio.create_task(server.watcher.run())
    await eventually_async(lambda: all(model.polls for model in models))
    running.cancel()
    assert calls > 3


async def test_a_loss_of_contact_during_a_check_is_followed_by_another_check(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ends = await server.model("m"), server.store.logs.ends

    async def loses(records: Any) -> Any:
        found = await ends(records)
        server.health.lost()  # by a call of another model
        model.log_position = f"{10**15}-1"
        return found

    with monkeypatch.context() as patch:
        patch.setattr(server.store.logs, "ends", loses)
        assert await server.follow(model) == [0]
    assert await server.follow(model) == [1]


async def test_a_store_that_answers_in_part_counts_as_lost(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes of a cluster may be unreachable one by one."""
    model = await server.model("m")
    await server.append(model)
    monkeypatch.setattr(log_watcher, "BACKOFF_SECONDS", (0.0, 0.0))
    ends, lost = server.store.logs.ends, list[bool]()

    async def fails(records: Any) -> Any:
        lost.append(server.health.stale_seconds is not None)
        if len(lost) < 5:
            raise StorageUnavailable("pulled out", heals=True)
        return await ends(records)

    monkeypatch.setattr(server.store.logs, "ends", fails)
    with capture_logs() as logged:
        running = asyncio.create_task(server.watcher.run())
        await eventually_async(lambda: model.polls > 0)
        running.cancel()
    assert lost[:5] == [False, True, True, True, True]
    assert [each["event"] for each in logged] == ["store_unavailable", "store_recovered"]
    assert server.health.stale_seconds is None


async def test_a_store_that_cannot_tell_has_its_models_checked_each_time(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster of Redis is such a store."""

    async def unknown(after: str, seconds: float) -> LogChanges:
        return LogChanges("", {}, complete=False)

    monkeypatch.setattr(server.store.logs, "changed", unknown)
    models = [await server.model(f"m{n}") for n in range(5)]
    for model in models:
        await server.append(model)
        assert sum(await server.follow(*models)) == model.polls == 1
        model.log_position = await server.append(model)
    await server.other.models.delete(models[2].record)
    assert await server.follow(*models) == [0, 0, 1, 0, 0]
    monkeypatch.setattr(log_watcher, "RESTING", 1e9)
    server.watcher._rests_until = 0.0
    await server.follow()
    await server.append(models[0])
    assert await server.follow(*models) == [0] * 5, "the last check has just ended"


async def test_a_follower_is_polled_for_its_leader_and_ends_with_its_own_deletion(server: Server) -> None:
    leader = await server.store.models.create("leader", b"")
    follower = await server.model("follower", follows=leader)
    await server.follow()
    await server.append(follower)
    assert await server.follow(follower) == [1]
    follower.log_position = await server.append(follower)
    follower.catching_up, follower.serving = True, False
    await server.append(follower)
    assert await server.follow(follower) == [0], "it is reading"
    follower.catching_up, follower.serving = False, True
    assert await server.follow(follower) == [1]

    here = Model(leader, await server.append(follower))
    server.resident.add(here)
    assert await server.follow(here, follower) == [0, 0], "it is polled beside its leader"
    server.resident.remove(here)
    assert await server.follow(follower) == [1]
    follower.log_position = await server.append(follower)
    assert await server.follow(follower) == [0]

    await server.other.models.delete(leader)
    assert await server.follow(follower) == [1]
    follower.log_ended = True
    await server.other.models.delete(follower.record)
    assert await server.follow(follower) == [0]
    assert [type(error).__name__ for error in follower.errors] == ["ModelGone"]


async def test_a_wait_costs_the_same_for_any_number_of_models(shared_redis: Any) -> None:
    url = str(shared_redis())
    async with opened_redis(url) as store, opened_redis(url) as other:
        server = Server(store, other)
        costs = list[list[tuple[int, int]]]()
        connection, sent = store.engine.connection, list[int]()
        execute, wait = connection._execute, connection.wait

        async def noted(*words: Any) -> Any:
            sent.append(sum(len(str(word)) for word in words))
            return await execute(*words)

        async def noted_wait(*words: Any) -> Any:
            sent.append(sum(len(str(word)) for word in words))
            return await wait(*words)

        model = await server.model("m")
        while len(costs) < 2:
            await server.follow()
            await server.append(model)
            await server.follow()  # the model is known to be behind, and the scripts are loaded
            connection._execute, connection.wait = noted, noted_wait  # type: ignore[method-assign]
            costs.append([])
            for change in (False, True):
                if change:
                    model.log_position = await server.append(model)
                    await server.append(model)
                sent.clear()
                assert await server.follow(model) == [int(change)]
                costs[-1].append((len(sent), sum(sent)))
            connection._execute, connection.wait = execute, wait  # type: ignore[method-assign]
            for n in range(0 if len(costs) == 2 else 200):
                server.resident.add(Model(ModelMeta(f"n{n}", 10**12 + n, b"")))  # type: ignore[arg-type]
        (few_idle, few), (many_idle, many) = costs
        assert few_idle[0] == many_idle[0] == few[0] == many[0] == 1
        assert max(few_idle[1], many_idle[1], few[1], many[1]) < 200
