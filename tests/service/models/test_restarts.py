"""A model that meets an unexpected error is restored from the store, without a restart of the server."""

import asyncio
import random
from typing import Any

import pytest
from tests.service.online.history.test_history import entries_of
from tests.support.waiting import eventually_async

from manylabel_service.errors import ModelNotFound, NotReady
from manylabel_service.models import restarts
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.follow import Follow
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.log_entries import decode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.replay import LogReplayer
from manylabel_service.storage import START, ModelMeta

LEAST, MOST = 0.05, 0.4


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "PAUSES_SECONDS", (LEAST, MOST))


class Faults:
    """Errors of `ApplyBatch.learn`: the next `left` calls fail for the model, once `begin` is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str = "m") -> None:
        self.left = 0
        learn = ApplyBatch.learn

        def failing(batch: ApplyBatch) -> None:
            if self.left and batch.collected is not None and batch._model.spec.name == name:
                self.left -= 1
                batch._model.learner.pipeline.grow(50, 50)  # a part of the operation was done
                raise MemoryError
            learn(batch)

        monkeypatch.setattr(ApplyBatch, "learn", failing)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pause after each error."""
    noted: list[float] = []
    note = restarts.Restarts.note

    def noting(self: restarts.Restarts, *args: Any) -> float:
        noted.append(note(self, *args))
        return noted[-1]

    monkeypatch.setattr(restarts.Restarts, "note", noting)
    return noted


async def restored(registry: Any, name: str = "m") -> Any:
    return await eventually_async(lambda: registry.get(name), ignore=NotReady)


async def replayed(replica: Replica) -> bytes:
    """The state that the log gives."""
    model = OnlineModel(replica.spec)
    batch = ApplyBatch(model, [LogEntry(entry.position, decode(entry.payload)) for entry in await entries_of(replica)])
    while batch.step(100):
        pass
    return model.to_bytes()


async def test_acknowledged_updates_survive_errors(any_fleet: Any, faults: Faults) -> None:
    registry = await any_fleet.start(snapshot_every_updates=7)
    for name in ("m", "other"):
        await registry.create(any_fleet.spec(name))
    rng, acknowledged = random.Random(0), 0
    waits: list[float | None] = []

    async def learn(i: int) -> None:
        nonlocal acknowledged
        while True:
            try:
                async with registry.use("m") as model:
                    await model.update([any_fleet.example(i)])
            except NotReady as error:
                waits.append(error.retry_after)
                await asyncio.sleep(LEAST / 4)  # as a client that retries
            else:
                acknowledged += 1
                return

    for i in range(60):
        if rng.random() < 0.15:
            faults.left += 1
        await asyncio.gather(learn(i), learn(i + 1))
        await (await registry.get("other")).update([any_fleet.example(i)])
    faults.left = 0
    model = await restored(registry)
    assert waits
    assert None not in waits
    assert model.model.updates >= acknowledged == 120
    assert model.model.to_bytes() == await replayed(model)
    assert registry.failed == []
    assert (await registry.get("other")).model.updates == 60
    await any_fleet.stop(registry)
    again = await (await any_fleet.start()).get("m")
    assert again.model.to_bytes() == model.model.to_bytes()


async def test_a_model_is_restored_without_a_request(lone_fleet: Any, faults: Faults) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    faults.left = 1
    with pytest.raises(NotReady, match="is being restored after an error"):
        await replica.update([lone_fleet.example(0)])
    assert registry.failed == ["m"]
    with pytest.raises(NotReady):
        await replica.predict([lone_fleet.example(0).x])
    await eventually_async(registry.resident)
    assert registry.failed == []
    assert (await registry.get("m")).model.updates == 1


async def test_the_pause_doubles_while_a_model_fails_at_the_same_position(
    lone_fleet: Any, faults: Faults, pauses: list[float]
) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    await replica.update([lone_fleet.example(0)])
    faults.left = 6
    with pytest.raises(NotReady):
        await replica.update([lone_fleet.example(1)])
    await eventually_async(registry.resident)
    assert pauses == [LEAST, 2 * LEAST, 4 * LEAST, MOST, MOST, MOST]
    replica = await registry.get("m")
    assert replica.model.updates == 2
    for n in (3, 4):  # it has learnt more in between
        pauses.clear()
        faults.left = 1
        with pytest.raises(NotReady):
            await replica.update([lone_fleet.example(2)])
        replica = await restored(registry)
        assert (pauses, replica.model.updates) == ([LEAST], n)


async def test_an_error_during_the_start_is_not_final(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await any_fleet.start()
    await (await registry.create(any_fleet.spec())).update([any_fleet.example(0)])
    await registry.create(any_fleet.spec("other"))
    await any_fleet.stop(registry)
    snapshot, failures = LogReplayer._snapshot, iter(range(2))

    async def failing(self: LogReplayer, *args: Any) -> OnlineModel:
        if self._record.name == "m" and next(failures, None) is not None:
            raise MemoryError
        return await snapshot(self, *args)

    monkeypatch.setattr(LogReplayer, "_snapshot", failing)
    registry = await any_fleet.start()
    assert (registry.ready, [model.name for model in registry.resident()]) == (True, ["other"])
    assert registry.failed == ["m"]
    assert (await restored(registry)).model.updates == 1
    assert registry.failed == []


async def test_a_model_that_waits_can_be_deleted_and_created_again(
    fleet: Any, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "PAUSES_SECONDS", (3600.0, 3600.0))
    registry, other = await fleet.start_several(2)
    for deleting in (registry, other):
        replica = await registry.create(fleet.spec())
        faults.left = 1
        with pytest.raises(NotReady):
            await replica.update([fleet.example(0)])
        await deleting.delete("m")
        with pytest.raises(ModelNotFound):
            await registry.get("m")
        assert registry.failed == []
        await deleting.create(fleet.spec())
        assert (await registry.get("m")).model.updates == 0
        await registry.delete("m")


async def test_a_follower_is_restored(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await lone_fleet.start()
    leader = await registry.create(lone_fleet.spec())
    await leader.update([lone_fleet.example(i) for i in range(5)])
    follow = Follow(model="m", incarnation=leader.record.incarnation, begin=START)
    await registry.create(lone_fleet.spec("f"), follow=follow)
    faults = Faults(monkeypatch, "f")
    faults.left = 1
    await leader.update([lone_fleet.example(6)])
    await eventually_async(lambda: not faults.left)

    async def has_learnt() -> bool:
        found = await registry.get("f")
        return found.serving and found.model.updates == 6

    await eventually_async(has_learnt, ignore=NotReady)
    assert leader.model.updates == 6


async def test_a_model_that_another_load_has_restored_does_not_wait() -> None:
    async def restart(name: str) -> None:
        """The model is in memory already."""

    models = restarts.Restarts(restart)
    models.note(ModelMeta("m", 1, b""), START)
    running = asyncio.create_task(models.run())
    await eventually_async(lambda: not models.waiting)
    running.cancel()
