"""Corrections on several servers, after restarts, and at the same time: all states are equal, bit for bit."""

import asyncio
from typing import Any

from tests.service.online.folds import named, partial

from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.replica import Replica


async def test_servers_agree_after_corrections_rollbacks_and_a_restart(any_fleet: Any) -> None:
    n_registries = 1 if any_fleet.server is None else 2
    registry, *others = await any_fleet.start_several(n_registries)
    replica = await registry.create(any_fleet.spec())
    assert isinstance(replica, Replica)
    replicas = [replica, *[await other.get("m") for other in others]]
    positions = []
    for n in range(12):
        made = await replicas[n % len(replicas)].update(
            [Example(named(a=n % 3, b=1.0), Labels.all_of(["p", "q"][: n % 3]))]
        )
        positions.append(made.position)
    await replica.update([Example(named(a=1.0), Labels.all_of(["q"])), Example(named(b=2.0), Labels.all_of([]))])
    corrections = [each.correct(positions[n], None, partial(q=n % 2 == 0)) for n, each in enumerate(replicas * 4)]
    await asyncio.gather(*corrections)
    before = (await replicas[-1].correct(positions[3], None, Labels.all_of(["q", "p"]))).position
    await replica.correct(positions[9], None, partial(p=False))
    await replica.rollback(before)
    for each in replicas:
        await each.sync()
    state = await any_fleet.agreed()
    assert replica.model.corrections.find((positions[3], 0)).corrected_at == before
    assert replica.model.corrections.find((positions[9], 0)).corrected_at is None
    assert (await replica.verify()).equal
    await any_fleet.stop(registry)
    again = await any_fleet.start()
    restored = await again.get("m")
    assert isinstance(restored, Replica)
    assert restored.model.to_bytes() == state
