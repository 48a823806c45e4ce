"""A process of another build serves a model only after it has replayed the log to the same bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import structlog

from manylabel_service.errors import NotReady, ReplayMismatch
from manylabel_service.models import membership
from manylabel_service.models.registry import Registry
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.controls import Relabel

Build = Callable[[str], None]


@pytest.fixture(autouse=True)
def _quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "HEARTBEAT_SECONDS", 0.1)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    """Have processes that start from now on be of a build."""
    return lambda name: monkeypatch.setattr(membership, "build_id", lambda: name)


@pytest.fixture
async def old(fleet: Any, build: Build) -> Registry:
    """A process of the old build, with a model that has learnt."""
    build("old")
    registry: Registry = await fleet.start()
    await registry.create(fleet.spec())
    await learn(fleet, registry, 0, 30)
    return registry


async def learn(fleet: Any, registry: Registry, begin: int, end: int) -> Replica:
    replica: Any = await registry.get("m")
    for i in range(begin, end, 5):
        await replica.update([fleet.example(j) for j in range(i, i + 5)])
    return replica


async def differ(replica: Replica) -> None:
    """Change the last bit of one weight, the smallest possible difference of a replay."""
    weights = replica.model.learner.pipeline.arrays()["weights"]
    weights[-1, -1] = np.nextafter(weights[-1, -1], np.float32(9.0))


def told(logs: list[Any], event: str) -> list[Any]:
    return [line for line in logs if line["event"] == event]


async def test_a_new_build_replays_the_log_and_serves(fleet: Any, old: Registry, build: Build) -> None:
    replica: Any = await old.get("m")
    first = await replica.take_snapshot()
    await learn(fleet, old, 30, 60)
    second = await replica.take_snapshot()
    await learn(fleet, old, 60, 70)
    build("new")
    with structlog.testing.capture_logs() as logs:
        new = await fleet.start()
    (agreed,) = told(logs, "replay_agrees")
    assert (agreed["begin"], agreed["position"]) == ("0", second.position), "as far back as the log goes"
    assert await fleet.agreed() == replica.model.to_bytes()
    assert first.position != second.position
    new.check_compatible()
    with structlog.testing.capture_logs() as logs:
        build("old")
        await fleet.start()
    assert told(logs, "replay_agrees"), "the other way round, too: there is one of another build"


async def test_a_damaged_snapshot_is_skipped(fleet: Any, old: Registry, build: Build) -> None:
    replica: Any = await old.get("m")
    positions = [(await replica.take_snapshot()).position]
    for begin in (30, 40):
        await learn(fleet, old, begin, begin + 10)
        positions.append((await replica.take_snapshot()).position)
    store = fleet.store(old)
    for position in (positions[0], positions[2]):
        await store.snapshots.put(replica.record, position, b"no snapshot")
    build("new")
    with structlog.testing.capture_logs() as logs:
        await fleet.start()
    (agreed,) = told(logs, "replay_agrees")
    assert (agreed["begin"], agreed["position"]) == ("0", positions[1])
    assert await fleet.agreed() == replica.model.to_bytes()


async def test_the_same_build_replays_nothing(fleet: Any, old: Registry) -> None:
    await (await old.get("m")).take_snapshot()  # type: ignore[attr-defined]
    with structlog.testing.capture_logs() as logs:
        await fleet.start()
    assert not told(logs, "replay_agrees")


async def test_a_model_that_replays_differently_is_not_served(fleet: Any, old: Registry, build: Build) -> None:
    replica: Any = await old.get("m")
    await differ(replica)
    await replica.take_snapshot()
    await old.create(fleet.spec("other"))
    build("new")
    with structlog.testing.capture_logs() as logs:
        new = await fleet.start()
    assert [line["code"] for line in told(logs, "model_withheld")] == ["replay_mismatch"]
    with pytest.raises(ReplayMismatch, match="another release must serve 1 of the models"):
        new.check_compatible()
    for use in ((await new.get("m")).predict([fleet.example(0).x]), learn(fleet, new, 0, 5)):
        with pytest.raises(NotReady) as refused:
            await use
        assert refused.value.code == "replay_mismatch"
    assert new.membership.members[-1].withheld == {"m": "replay_mismatch"}
    assert (await new.get("other")).serving, "what it learns alike, it serves"
    snapshots = await fleet.store(old).snapshots.all(replica.record)
    await fleet.stop(new)
    assert await fleet.store(old).snapshots.all(replica.record) == snapshots, "it stores nothing of it"
    await learn(fleet, old, 30, 40)


async def test_without_a_snapshot_nothing_is_compared(fleet: Any, old: Registry, build: Build) -> None:
    build("new")
    with structlog.testing.capture_logs() as logs:
        new = await fleet.start()
    assert not told(logs, "replay_agrees")
    assert (await new.get("m")).serving


async def test_rollbacks_are_replayed_alike(fleet: Any, old: Registry, build: Build) -> None:
    replica: Any = await old.get("m")
    first = await replica.take_snapshot()
    await learn(fleet, old, 30, 40)
    await replica.rollback(first.position)
    await replica.change(Relabel("l1", "other"))
    await replica.take_snapshot()
    build("new")
    with structlog.testing.capture_logs() as logs:
        await fleet.start()
    assert told(logs, "replay_agrees")
