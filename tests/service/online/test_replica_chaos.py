"""Replicas that are killed, evicted, restored and cut off from the log at random, under load."""

import asyncio
import contextlib
import random
from typing import Any

from tests.support.waiting import eventually_async

from manylabel_service.errors import ModelNotFound, NotReady, StorageError
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.model import OnlineModel

REFUSALS = (NotReady, StorageError, ModelNotFound)
"""What a client may be told when a process goes away under it; it comes back with the same key."""


async def test_every_acknowledged_update_counts_once_whatever_becomes_of_the_replicas(fleet: Any) -> None:
    """Three processes; each is killed now and then, models are evicted all the time, the log is trimmed behind them."""
    rng = random.Random(20)
    settings = {"snapshot_every_updates": 15, "snapshot_retention_count": 1, "evict_idle_seconds": 1e-6}
    registries = await fleet.start_several(3, **settings)
    await registries[0].create(fleet.spec())
    acknowledged: dict[str, int] = {}
    over = asyncio.Event()

    async def client(number: int) -> None:
        for i in range(40):
            key = IdempotencyKey(f"{number}-{i}", number.to_bytes(8, "big") + i.to_bytes(8, "big"))
            while key.key not in acknowledged:
                registry = registries[rng.randrange(3)]
                with contextlib.suppress(*REFUSALS):
                    replica = await registry.get("m")
                    answer = await replica.update([fleet.example(40 * number + i)], key=key)
                    predicted = await (await registry.get("m")).predict([fleet.example(0).x], at_least=answer.position)
                    assert len(predicted.predictions) == 1
                    acknowledged[key.key] = answer.updates
                await asyncio.sleep(0)

    async def trouble() -> None:
        while not over.is_set():
            before = len(acknowledged)
            await eventually_async(lambda before=before: len(acknowledged) >= before + 10 or over.is_set())
            place = rng.randrange(3)
            await fleet.kill(registries[place])
            registries[place] = await fleet.start(**settings)

    async def sweep() -> None:
        while not over.is_set():
            await asyncio.sleep(0.01)  # its pace; the clients go on meanwhile
            await registries[rng.randrange(3)]._eviction.sweep()

    async def clients() -> None:
        await asyncio.gather(*map(client, range(8)))
        over.set()

    await asyncio.gather(clients(), trouble(), sweep())
    for registry in registries:
        registry._tasks[2].cancel()  # of eviction: they may stay in memory now
    await fleet.agreed()
    assert [(await registry.get("m")).model.updates for registry in registries] == [320] * 3
    assert sorted(acknowledged.values()) == list(range(1, 321))


async def test_rollbacks_among_updates_leave_the_same_bits_as_one_fold_of_the_log(fleet: Any) -> None:
    """Updates, snapshots and rollbacks from three processes at once, then the log folded by itself, one by one."""
    rng = random.Random(21)
    registries = await fleet.start_several(3, snapshot_retention_count=1000)
    await registries[0].create(fleet.spec())
    replicas = [await registry.get("m") for registry in registries]
    targets: list[str] = []
    n_rollbacks = 0

    async def client(number: int) -> None:
        nonlocal n_rollbacks
        for i in range(30):
            replica = rng.choice(replicas)
            if i % 10 == 5:
                targets.append((await replica.take_snapshot()).position)
            elif i % 10 == 9 and targets:
                await replica.rollback(rng.choice(targets))
                n_rollbacks += 1
            else:
                await replica.update([fleet.example(30 * number + i, width=2 + i % 3)])

    await asyncio.gather(*map(client, range(6)))
    assert n_rollbacks == 18
    state = await fleet.agreed()
    model = OnlineModel(replicas[0].spec)
    shelf, store, record = replicas[0]._snapshot_reader, fleet.store(registries[0]), replicas[0].record
    while entries := await store.logs.read(record, model.position, 1000):
        changes: list[LogEntry] = await replicas[0]._applier._replayer.decoded(entries)
        for change in changes:
            folding, more = ApplyBatch(model, [change]), True
            while more:
                if folding.needed_snapshot is not None:
                    folding.roll_back(await shelf.load(folding.needed_snapshot))
                more = folding.step(1)
    assert model.to_bytes() == state
