"""Undoing changes of labels on several servers, after kills, and at the same time: all states are equal."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.service.online.folds import named
from tests.support.crashes import killed_after

from manylabel_core.label_structure import Group
from manylabel_service.errors import CannotUndo, ModelFollows
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.follow import Follow
from manylabel_service.online.state.controls import Dismiss, Regroup, Relabel
from manylabel_service.storage import START

CHANGES: dict[str, Any] = {
    "merge": Relabel("p", "q", merges=True),
    "rename": Relabel("p", "r"),
    "retire": Relabel("p", None),
    "pause": Relabel("p", None, paused=True),
    "groups": Regroup((Group("g", ("p", "q"), "at_most_one"),), {}),
    "dismiss": Dismiss("merge", "p", "q"),
}


def vocabulary(replica: Replica) -> Any:
    """Return the names, groups, hidden labels, old names and dismissals of a model."""
    model = replica.model
    hidden = sorted(model.retired), sorted(model.paused)
    return model.labels.names, model.groups.to_json(model.labels), hidden, *_packed(model)


def _packed(model: Any) -> Any:
    return model.old_names.by_column(), model.dismissals.to_array().tobytes()


async def learn(replica: Replica, *labels: str) -> None:
    await replica.update([Example(named(a=1, b=len(labels)), Labels.all_of(labels))])


async def taught(fleet: Any, n_registries: int = 1) -> Any:
    """Start registries; return them, and their replicas of a model that has learnt p and q."""
    registries, replicas = await fleet.hosted(n_registries)
    for n in range(6):
        await learn(replicas[0], *["p", "q"][n % 2 :])
    return registries, replicas


async def test_servers_agree(any_fleet: Any) -> None:
    n_registries = 1 if any_fleet.server is None else 2
    registries, (first, *others) = await taught(any_fleet, n_registries)
    last = others[-1] if others else first
    before = vocabulary(first)
    for change in CHANGES.values():
        applied = await last.change(change)
        await learn(last, "q")
        await first.undo(applied.position)
        await last.sync()
        state = await any_fleet.agreed()
        assert vocabulary(first) == vocabulary(last) == before
    assert (await first.verify()).equal
    for registry in registries:
        await any_fleet.stop(registry)
    restored = await (await any_fleet.start()).get("m")
    assert restored.model.to_bytes() == state


async def test_a_kill_after_each_append_loses_and_repeats_nothing(any_fleet: Any) -> None:
    (registry,), (replica,) = await taught(any_fleet)
    before = vocabulary(replica)
    for name, wanted in CHANGES.items():
        keys = [IdempotencyKey(f"{name} {n}", b"d" * 16) for n in range(2)]
        change = replace(wanted, key=keys[0])
        registry, replica, applied = await killed(any_fleet, registry, replica, "change", change)
        registry, replica, undone = await killed(any_fleet, registry, replica, "undo", applied.position, keys[1])
        assert vocabulary(replica) == before
        assert (undone.rolled_back_to is not None, undone.updates) == (True, 6)
        with pytest.raises(CannotUndo):
            await replica.undo(applied.position)
    assert (await replica.verify()).equal


async def killed(fleet: Any, registry: Any, replica: Any, action: str, *given: Any) -> tuple[Any, Replica, Any]:
    """Kill the server after an action is in the log, and before it is answered; retry it on another server."""
    async with killed_after(fleet, registry, fleet.store(registry).logs, "append"):
        lost = asyncio.create_task(getattr(replica, action)(*given))
    lost.cancel()
    await asyncio.gather(lost, return_exceptions=True)
    registry = await fleet.start()
    replica = await registry.get("m")
    answer = await getattr(replica, action)(*given)
    assert answer.replayed
    assert await getattr(replica, action)(*given) == answer
    return registry, replica, answer


async def test_of_two_at_once_one_is_done(any_fleet: Any) -> None:
    _, (replica,) = await taught(any_fleet)
    applied = await replica.change(CHANGES["merge"])
    results = await asyncio.gather(*[replica.undo(applied.position) for _ in range(3)], return_exceptions=True)
    assert sorted(type(each).__name__ for each in results) == ["CannotUndo", "CannotUndo", "UpdateResult"]
    assert (await replica.verify()).equal


async def test_a_follower_undoes_with_its_leader(any_fleet: Any) -> None:
    (registry,), (replica,) = await taught(any_fleet)
    follow = Follow(model="m", incarnation=replica.record.incarnation, begin=START)
    follower = await registry.create(any_fleet.spec("f"), follow=follow)
    before = vocabulary(replica)
    for change in CHANGES.values():
        applied = await replica.change(change)
        await learn(replica, "q")
        position = (await replica.undo(applied.position)).position
        await follower.wait_until(position)
        assert vocabulary(follower) == vocabulary(replica) == before
    with pytest.raises(ModelFollows):
        await follower.undo(position)
