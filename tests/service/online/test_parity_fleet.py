"""A promise of parity with several servers on one store: audits are logged before a client sees them."""

import asyncio
from typing import Any

import pytest
from tests.service.online.state.test_parity import TARGET, account_of
from tests.service.online.state.test_promises import rows

from manylabel_service import ulid
from manylabel_service.errors import InvalidExample, PredictionLabelled, PredictionNotDeferred, QueueFull
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.hosting.predictions import DrawnPredictions, Prediction
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online import replica as replica_module
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.controls import SetPromise


async def hosted(fleet: Any, number: int, **settings: Any) -> tuple[list[Any], list[Any]]:
    registries = await fleet.start_several(number, **settings)
    spec = ModelSpec.model_validate({"name": "m", "algorithm": "falt", "sources": {"machine": 1.0}})
    await registries[0].create(spec)
    replicas = [await registry.get("m") for registry in registries]
    receipt = await replicas[0].change(SetPromise(None, parity=TARGET))
    for replica in replicas:
        await replica.predict([], at_least=receipt.position)
    return registries, replicas


async def predicted(replica: Replica, examples: list[Example]) -> list[tuple[str, Prediction]]:
    """Predict and store examples, as a request does."""
    xs, ids = [example.x for example in examples], [ulid.new() for _ in examples]
    drawn = DrawnPredictions((await replica.predict(xs)).predictions, ids)
    found = list(zip(ids, drawn, strict=True))
    await replica.keep(ids, xs, drawn)
    return found


async def tell(replica: Replica, id: str, example: Example, **kwargs: Any) -> Any:
    """Submit the teacher's labels, as a request does."""
    labels: Labels = kwargs.pop("y", example.y)
    (kept,) = await replica.kept([id], [labels])
    one = Example(kept.x, labels, 1.0, kwargs.pop("source", "machine"))
    return await replica.update([one], prediction_ids=[id], served=[kept.scores], deferrals=[kept.deferral], **kwargs)


def asked(one: Prediction) -> bool:
    assert one.deferral is not None
    return one.deferral.ask


async def test_servers_share_one_account_with_the_same_bits(fleet: Any) -> None:
    _, replicas = await hosted(fleet, 3)
    n_alone = 0

    async def client(number: int) -> None:
        nonlocal n_alone
        for turn, example in enumerate(rows(60, seed=number)):
            ((id, one),) = await predicted(replicas[(number + turn) % 3], [example])
            if not asked(one):
                n_alone += 1
                continue
            await tell(replicas[(number + turn + 1) % 3], id, example)

    await asyncio.gather(*map(client, range(6)))
    await fleet.agreed()
    account = account_of(replicas[0].model)
    assert n_alone > 30
    assert account["audits"] > 10
    assert (account["audits_waiting"], account["audits_without_answer"]) == (0, 0)
    assert n_alone - 3 * 100 <= account["answered"] <= n_alone


async def test_audits_survive_a_kill_before_their_answers(any_fleet: Any) -> None:
    (registry, *_), (replica, *_) = await hosted(any_fleet, 1)
    waiting: dict[str, Example] = {}
    for seed in range(40):
        examples = rows(10, seed)
        for (id, one), example in zip(await predicted(replica, examples), examples, strict=True):
            assert one.deferral is not None
            if one.deferral.why == "audit":
                waiting[id] = example
            elif one.deferral.ask:
                await tell(replica, id, example)
    assert len(waiting) > 20
    assert {*replica.model.promises.waiting} == {*waiting}
    await any_fleet.kill(registry)
    again = await (await any_fleet.start()).get("m")
    assert {*again.model.promises.waiting} == {*waiting}
    before = account_of(again.model)["audits"]
    for id, example in waiting.items():
        await tell(again, id, example)
    account = account_of(again.model)
    assert (account["audits_waiting"], account["audits"]) == (0, before)
    assert account["state"] == "open"


async def test_a_client_sees_no_audit_that_is_not_in_the_log(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, (replica,) = await hosted(any_fleet, 1)
    await replica.update([example._replace(source="machine") for example in rows(300)])
    for example in rows(100, 1):  # the plan learns that the model is right
        ((id, one),) = await predicted(replica, [example])
        if asked(one):
            await tell(replica, id, example)

    async def full(_: Any) -> Any:
        raise QueueFull("m", "1 example", 1.0)

    monkeypatch.setattr(replica, "_appended", full)
    n_refused = n_served = 0
    for example in rows(300, 2):
        try:
            ((_, one),) = await predicted(replica, [example])
        except QueueFull:
            n_refused += 1
        else:
            n_served += 1
            assert one.deferral is not None
            assert one.deferral.why != "audit"
    assert n_refused > 5
    assert n_served > 5


async def test_counts_are_logged_when_many_or_after_a_while(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "SERVED_AT_ONCE", 20)
    monkeypatch.setattr(replica_module, "SERVED_SECONDS", 1e9)
    _, (replica,) = await hosted(any_fleet, 1)
    (example,) = rows(1)
    await predicted(replica, [example] * 19)  # unsure: the model has learnt nothing
    assert account_of(replica.model)["asked"] == 0
    await predicted(replica, [example])
    assert account_of(replica.model)["asked"] == 20
    monkeypatch.setattr(replica_module, "SERVED_SECONDS", 0.0)
    await predicted(replica, [example])
    assert account_of(replica.model)["asked"] == 21


async def test_an_audit_expires_with_its_prediction(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, (replica,) = await hosted(any_fleet, 1, prediction_ttl_seconds=100.0)
    now = 1_700_000_000_000
    monkeypatch.setattr(replica_module, "now_ms", lambda: now)
    (first, *_) = [each async for each in _audits(replica, 1)]
    assert first in replica.model.promises.waiting
    now += 99_999
    (second,) = [each async for each in _audits(replica, 1)]
    assert account_of(replica.model)["audits_without_answer"] == 0
    now += 1
    (third,) = [each async for each in _audits(replica, 1)]
    assert account_of(replica.model)["audits_without_answer"] == 1
    assert [*replica.model.promises.waiting] == [second, third]


async def _audits(replica: Replica, n: int) -> Any:
    """Serve examples until some are audits that wait; yield their ids."""
    for seed in range(1000):
        for example in rows(20, seed):
            ((id, one),) = await predicted(replica, [example])
            assert one.deferral is not None
            if one.deferral.why == "audit":
                yield id
                n -= 1
                if n == 0:
                    return
            elif one.deferral.ask:
                await tell(replica, id, example)


async def test_labels_of_the_teacher_that_the_promise_refuses(any_fleet: Any) -> None:
    _, (replica,) = await hosted(any_fleet, 1)
    alone = None
    for example in rows(400):
        ((id, one),) = await predicted(replica, [example])
        if not asked(one):
            alone = id, example
            break
        await tell(replica, id, example)
    assert alone is not None
    before = replica.model.to_bytes()
    with pytest.raises(PredictionNotDeferred):
        await tell(replica, *alone)
    ((id, one),) = [pair for pair in await predicted(replica, rows(50, 1)) if asked(pair[1])][:1]
    before = replica.model.promises.to_array().tobytes()
    with pytest.raises(InvalidExample):
        await tell(replica, id, rows(1)[0], y=Labels(("p",), rows(1)[0].y.signs[:1], complete=False))
    assert replica.model.promises.to_array().tobytes() == before
    await tell(replica, *alone, source="human")


async def _waiting(replica: Replica, n: int) -> dict[str, Example]:
    """Serve examples until this number of audits waits for the teacher; return the examples by id."""
    waiting: dict[str, Example] = {}
    for seed in range(1000):
        for example in rows(10, seed):
            ((id, one),) = await predicted(replica, [example])
            assert one.deferral is not None
            if one.deferral.why == "audit":
                waiting[id] = example
            elif one.deferral.ask:
                await tell(replica, id, example)
            if len(waiting) == n:
                return waiting
    raise AssertionError("too few audits")


async def test_an_answer_acknowledged_before_a_kill_counts_once(any_fleet: Any) -> None:
    (registry, *_), (replica, *_) = await hosted(any_fleet, 1)
    waiting = await _waiting(replica, 10)
    told = [*waiting][:5]
    for id in told:
        await tell(replica, id, waiting[id], key=IdempotencyKey(id, b"digest"))
    served = await predicted(replica, rows(200, 5))
    id, example = next((id, each) for (id, one), each in zip(served, rows(200, 5), strict=True) if not asked(one))
    await tell(replica, id, example, source="human", key=IdempotencyKey(id, b"digest"))
    before, updates = replica.model.promises.to_array().tobytes(), replica.model.updates
    assert account_of(replica.model)["audits_waiting"] >= 5
    assert account_of(replica.model)["people"]["model_right"] == 1
    await any_fleet.kill(registry)
    again = await (await any_fleet.start()).get("m")
    assert again.model.promises.to_array().tobytes() == before
    for each in (*told, id):  # a client that did not see the response sends the labels again
        repeated = await again.replayed(IdempotencyKey(each, b"digest"))
        assert repeated is not None
        with pytest.raises(PredictionLabelled):
            await tell(again, each, example)
    assert (again.model.promises.to_array().tobytes(), again.model.updates) == (before, updates)


async def test_each_of_several_servers_sees_an_audit_expire_and_it_counts_once(
    fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registries, replicas = await hosted(fleet, 2, prediction_ttl_seconds=100.0)
    now = 1_700_000_000_000
    monkeypatch.setattr(replica_module, "now_ms", lambda: now)
    waiting = await _waiting(replicas[0], 6)
    now += 100_000
    later = await asyncio.gather(*(_waiting(replica, 1) for replica in replicas))
    await fleet.agreed()
    (account,) = {str(account_of(replica.model)) for replica in replicas}
    assert account_of(replicas[1].model)["audits_without_answer"] == 6
    assert {*replicas[0].model.promises.waiting} == {id for each in later for id in each}
    await fleet.kill(registries[0])
    again = await (await fleet.start(prediction_ttl_seconds=100.0)).get("m")
    assert str(account_of(again.model)) == account
    for id, example in waiting.items():
        await tell(again, id, example)  # too late to count
    late = account_of(again.model)
    assert late["audits_without_answer"] == 6
    assert late["estimated_wrong"] == account_of(replicas[1].model)["estimated_wrong"]
