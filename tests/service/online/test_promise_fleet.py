"""A promise on several replicas: kills, retries, delayed labels, a rollback, a new model."""

from typing import Any

import numpy as np
from tests.service.online.state.test_promises import EASY, rows
from tests.service.online.test_followers import caught_up, follow

from manylabel_core.promise import Target
from manylabel_service import ulid as prediction_ids
from manylabel_service.hosting.examples import Example
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.controls import SetPromise
from manylabel_service.online.state.model import OnlineModel


async def label(replica: Any, ids: list[str], examples: list[Example], **kwargs: Any) -> Any:
    """Submit the labels of stored predictions, as the endpoint does."""
    kept = await replica.kept(ids, [example.y for example in examples])
    return await replica.update(
        [Example(one.x, example.y) for one, example in zip(kept, examples, strict=True)],
        prediction_ids=ids,
        served=[one.scores for one in kept],
        decisions=[one.decision for one in kept],
        **kwargs,
    )


async def test_replicas_agree_on_a_promise_to_the_bit(fleet: Any) -> None:
    registries, (one, other) = await fleet.hosted(2, snapshot_every_updates=60)
    await one.change(SetPromise(EASY, "log"))
    examples = rows(420)
    for start in range(0, 300, 10):
        part = examples[start : start + 10]
        key = IdempotencyKey(str(start), b"d" * 16)
        await (one if start % 20 else other).update(part, want_predictions=True, key=key)
    ids = [prediction_ids.make(n + 1, n.to_bytes(10)) for n in range(60)]
    late = examples[300:360]
    predicted = await other.predict([example.x for example in late], at_least=one.position)
    assert sum(len(prediction.auto) for prediction in predicted.predictions) > 20
    await other.keep(ids, [example.x for example in late], predicted.predictions)
    await one.update(examples[360:400])
    before = one.model.promises.promise.memory.gates[0, 6]
    key = IdempotencyKey("labels", b"e" * 16)
    first = await label(one, ids, late, key=key)
    again = await other.update([late[0]], key=key)
    assert (again.position, again.replayed) == (first.position, True)
    applied = sum(len(prediction.auto) for prediction in predicted.predictions)
    assert one.model.promises.promise.memory.gates[0, 6] == before + applied
    taken = await one.take_snapshot()
    await other.change(SetPromise(Target(0.9, None), "log"))
    await other.update(examples[400:])
    await one.rollback(taken.position)
    receipt = await one.update(examples[400:])
    await other.predict([], at_least=receipt.position)
    state = one.model.to_bytes()
    assert other.model.to_bytes() == state
    assert one.model.promises.promise.target == Target(0.9, None)

    for registry in registries:
        await fleet.kill(registry)
    restarted = await fleet.start()
    assert (await restarted.get("m")).model.to_bytes() == state
    seeded = OnlineModel.from_bytes(OnlineModel.from_bytes(state).seed("n"))
    await restarted.create(seeded.online_spec, seeded)
    new = (await restarted.get("n")).model
    np.testing.assert_array_equal(new.promises.to_array(), OnlineModel.from_bytes(state).promises.to_array())


async def test_a_follower_counts_late_labels_by_its_own_decisions(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    leader = await registry.create(lone_fleet.spec())
    await leader.change(SetPromise(EASY, "log"))
    follower = await follow(registry, leader)
    examples = rows(80)
    await leader.update(examples[:20])
    ids = [prediction_ids.make(n + 1, n.to_bytes(10)) for n in range(60)]
    predicted = await leader.predict([example.x for example in examples[20:]])
    await leader.keep(ids, [example.x for example in examples[20:]], predicted.predictions)
    await label(leader, ids, examples[20:])
    await caught_up(follower, leader.position)
    totals = [
        model.promises.to_metrics(model.labels.names)["promise"]["total"] for model in (leader.model, follower.model)
    ]
    assert [total["examples"] for total in totals] == [80, 80]
