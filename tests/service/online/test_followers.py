"""Followers: models that learn from another model's log, with a spec of their own."""

import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from tests.service.fleet import Fleet, each_learner
from tests.service.online.history.test_history import SMALL, change, example, lived, small_segments, started
from tests.service.online.state.test_promises import EASY, rows
from tests.support.waiting import eventually_async

from manylabel_core.state import State
from manylabel_service import ulid as prediction_ids
from manylabel_service.errors import (
    FollowerFailed,
    InvalidExample,
    InvalidField,
    LabelExists,
    LabelNotFound,
    LimitExceeded,
    ModelHasFollowers,
    ModelNotFound,
    PredictionLabelled,
)
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.models.registry import Registry
from manylabel_service.online.following import begin_follower
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.follow import MAX_FOLLOWERS
from manylabel_service.online.state.controls import Relabel, SetPromise
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import SEED, START, position_key

__all__ = ["small_segments"]


async def follow(
    registry: Registry,
    leader: Replica,
    name: str = "f",
    *,
    from_start: bool = True,
    until: str | int | None = None,
    **fields: Any,
) -> Replica:
    wanted = Fleet.spec(name, window=20, **fields).model_copy(update={"text": None})
    beginning = await begin_follower(leader, wanted, from_start=from_start, until=until)
    return await registry.create(*beginning)  # type: ignore[return-value]


async def caught_up(follower: Replica, position: str) -> Replica:
    """The follower, once it has come to a position."""
    await eventually_async(lambda: position_key(follower.position) >= position_key(position) and follower.serving)
    return follower


def learnt(model: OnlineModel) -> dict[str, Any]:
    """The learnt arrays and the names, as bytes, without the records of requests and the metrics."""
    arrays, _ = State.from_bytes(model.to_bytes(), 1 << 20)
    return {name: array.tobytes() for name, array in arrays.items() if name.startswith(("learner", "labels", "feat"))}


def state(model: OnlineModel) -> dict[str, Any]:
    """All of the state as bytes, but for the header."""
    arrays, header = State.from_bytes(model.to_bytes(), 1 << 20)
    return {name: array.tobytes() for name, array in arrays.items()} | {"position": header["position"]}


@each_learner
async def test_a_follower_with_the_spec_of_its_leader_has_the_same_weights(any_fleet: Any, algorithm: str) -> None:
    rng = random.Random(algorithm)
    registry, leader = await started(any_fleet, algorithm=algorithm, window=20)
    with_it = await follow(registry, leader, algorithm=algorithm)
    await lived(leader, rng, 40)
    later = await follow(registry, leader, "later", algorithm=algorithm)
    await lived(leader, rng, 40)
    for follower in (with_it, later):
        await caught_up(follower, leader.position)
        assert learnt(follower.model) == learnt(leader.model)
        assert follower.model.updates == leader.model.updates
    assert state(with_it.model) == state(later.model)


async def test_followers_do_not_change_their_leader(lone_fleet: Any) -> None:
    registry = await lone_fleet.start(**SMALL)
    digests: list[list[Any]] = []
    for name in ("alone", "followed"):
        leader, rng = await registry.create(lone_fleet.spec(name=name, window=20)), random.Random(3)
        followers = [
            await follow(registry, leader, f"f{n}", algorithm=algorithm)
            for n, algorithm in enumerate(("salt", "falt"))
            if name == "followed"
        ]
        states: list[Any] = []
        for n in range(60):
            with suppress(LabelExists, LabelNotFound, InvalidField, InvalidExample, PredictionLabelled):
                await change(leader, rng, [leader.position])
            states.append((learnt(leader.model), leader.measures()))
            if n % 8 == 7:
                await leader.take_snapshot()
        for follower in followers:
            await caught_up(follower, leader.position)
        digests.append(states)
    assert digests[0] == digests[1]


async def test_an_evicted_follower_catches_up_to_the_same_state(lone_fleet: Any) -> None:
    rng = random.Random(5)
    registry, leader = await started(lone_fleet, window=20)
    await lived(leader, rng, 30)
    for start in (True, False):
        stayed = await follow(registry, leader, f"stayed{start:d}", from_start=start, algorithm="salt")
        left = await follow(registry, leader, f"left{start:d}", from_start=start, algorithm="salt")
        for _ in range(3):
            await lived(leader, rng, 12)
            if (hosted := await registry.get(left.name)).log_position != leader.position:
                await caught_up(hosted, leader.position)
            await hosted.take_snapshot()
            await eventually_async(lambda hosted=hosted: hosted.evictable)  # type: ignore[misc]
            registry._evict(hosted)
            await lived(leader, rng, 12)
        again = await caught_up(await registry.get(left.name), leader.position)
        await caught_up(stayed, leader.position)
        assert again is not left
        assert state(again.model) == state(stayed.model)
        assert again.measures() == stayed.measures()


async def test_a_follower_from_now_begins_within_a_segment(lone_fleet: Any) -> None:
    rng = random.Random(7)
    registry, leader = await started(lone_fleet, window=20)
    await lived(leader, rng, 33)
    begin, updates, names = leader.position, leader.model.updates, leader.model.labels.names
    follower = await follow(registry, leader, from_start=False, algorithm="salt")
    assert (follower.position, follower.model.updates) == (begin, 0)
    assert follower.model.labels.names == names
    for _ in range(50):
        await leader.update([example(rng)._replace(y=Labels.all_of([rng.choice("pq")]))])  # others may be retired
        if rng.random() < 0.2:
            await leader.take_snapshot()
    shown = next(name for name in leader.model.labels.names if name not in leader.model.hidden)
    await leader.change(Relabel(shown, "renamed"))
    await caught_up(follower, leader.position)
    assert follower.model.updates == leader.model.updates - updates == 50
    assert follower.model.labels.names == leader.model.labels.names
    segments = (await HistoryReader(leader.record, lone_fleet.store(registry)).catalogue()).segments
    assert any(position_key(s.after) < position_key(begin) < position_key(s.through) for s in segments)
    # A follower that reads the segments later comes to the same state.
    await lone_fleet.stop(registry)
    again = await (await lone_fleet.start(**SMALL)).get("f")
    assert state(again.model) == state(follower.model)
    assert (await again.state_at(begin)).updates == 0


async def test_a_rollback_of_the_leader_to_before_a_follower_empties_the_follower(lone_fleet: Any) -> None:
    rng = random.Random(9)
    registry, leader = await started(lone_fleet, window=20)
    for _ in range(10):
        await leader.update([example(rng)])
    early = leader.position
    await leader.update([example(rng)])
    follower = await follow(registry, leader, from_start=False, algorithm="salt")
    await leader.update([example(rng)])
    await leader.update([example(rng)])
    later = leader.position
    await leader.update([example(rng)])
    await leader.rollback(later)
    await caught_up(follower, leader.position)
    assert follower.model.updates == 2
    await leader.rollback(early)
    await caught_up(follower, leader.position)
    assert follower.model.updates == 0
    await leader.update([example(rng)])
    await caught_up(follower, leader.position)
    assert (follower.model.updates, leader.model.updates) == (1, 11)
    await lone_fleet.stop(registry)
    again = await (await lone_fleet.start(**SMALL)).get("f")
    assert state(again.model) == state(follower.model)


async def test_a_follower_ends_at_a_position_or_a_time(lone_fleet: Any) -> None:
    rng = random.Random(11)
    registry, leader = await started(lone_fleet, window=20)
    await lived(leader, rng, 40)
    entries = await leader.read_log(None, None, 1_000, 1 << 20)
    middle = entries[len(entries) // 2]
    for name, until in (("position", middle.position), ("time", middle.time_ms)):
        follower = await follow(registry, leader, name, until=until, algorithm="salt")
        last = [e for e in entries if e.position == until or (isinstance(until, int) and e.time_ms <= until)][-1]
        await leader.update([example(rng)])
        assert await follower.sync() is None
        assert follower.position == last.position
        assert follower.log_ended


async def test_two_servers_have_the_same_follower(fleet: Fleet) -> None:
    rng = random.Random(13)
    one, other = await fleet.start_several(2, **SMALL)
    leader = await one.create(fleet.spec(window=20))
    await lived(leader, rng, 30)
    follower = await follow(one, leader, algorithm="salt")
    elsewhere: Any = await other.get("f")
    await lived(leader, rng, 30)
    for replica in (follower, elsewhere):
        await caught_up(replica, leader.position)
    assert state(follower.model) == state(elsewhere.model)
    # The other server has not loaded the leader, but notices its new entries and its deletion.
    assert [replica.name for replica in other.resident()] == ["f"]
    await one.delete("m", with_followers=True)
    await eventually_async(lambda: not other.resident())
    for name in ("m", "f"):
        with pytest.raises(ModelNotFound):
            await other.get(name)


async def test_requests_to_follow_that_are_refused(lone_fleet: Any) -> None:
    registry, leader = await started(lone_fleet)
    for n in range(3):
        await leader.update([lone_fleet.example(n)])
    await follow(registry, leader, from_start=False)
    first = (await leader.read_log(None, None, 1, 1 << 20))[0]
    for until in (first.position, first.time_ms - 1, 0):
        with pytest.raises(InvalidField):
            await follow(registry, leader, "g", from_start=False, until=until)
    with pytest.raises(InvalidField):
        await follow(registry, leader, "g", from_start=False, limits={"labels": {"most": 1, "policy": "ignore"}})
    for n in range(1, MAX_FOLLOWERS):
        await follow(registry, leader, f"f{n}")
    with pytest.raises(LimitExceeded):
        await follow(registry, leader, "g")
    with pytest.raises(ModelHasFollowers):
        await registry.delete("m")
    assert len(registry.resident()) == MAX_FOLLOWERS + 1
    await registry.delete("f")
    await follow(registry, leader, "g")
    await registry.delete("m", with_followers=True)
    assert registry.resident() == []
    assert await lone_fleet.store(registry).models.all() == []


async def test_a_follower_that_lost_its_position_in_the_history_fails(lone_fleet: Any) -> None:
    rng = random.Random(15)
    settings = {**SMALL, "history_bytes": 1_000}
    registry = await lone_fleet.start(**settings)
    leader = await registry.create(lone_fleet.spec(window=20))
    await leader.update([example(rng)])
    follower = await follow(registry, leader)
    await caught_up(follower, leader.position)
    await eventually_async(lambda: follower.evictable)
    registry._evict(follower)
    for _ in range(12):
        for _ in range(8):
            await leader.update([example(rng)])
        await leader.take_snapshot()
    assert await HistoryReader(leader.record, lone_fleet.store(registry)).begin() not in (START, SEED)
    with pytest.raises(FollowerFailed, match="history"):
        (await registry.get("f")).check_serving()
    await registry.delete("f")
    again = await caught_up(await follow(registry, leader), leader.position)
    assert 0 < again.model.updates < leader.model.updates


async def test_a_follower_of_a_deleted_leader_fails(lone_fleet: Any) -> None:
    registry, leader = await started(lone_fleet)
    await follow(registry, leader)
    await lone_fleet.stop(registry)
    registry = await lone_fleet.start(**SMALL, preload=False)
    store = lone_fleet.store(registry)
    await store.models.delete(leader.record)  # by a server that was killed before it deleted the follower
    await registry.create(lone_fleet.spec())
    with pytest.raises(FollowerFailed, match="deleted"):
        (await registry.get("f")).check_serving()
    assert await registry.followers("m") == []
    await registry.delete("f")


async def test_a_leader_that_is_deleted_while_a_follower_is_created_has_none(
    lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, leader = await started(lone_fleet)
    models = lone_fleet.store(registry).models

    async def create(*of_follower: Any) -> Any:
        await models.delete(leader.record)  # by another server
        return await type(models).create(models, *of_follower)

    monkeypatch.setattr(models, "create", create)
    with pytest.raises(ModelNotFound, match="'m'"):
        await follow(registry, leader)
    assert await models.all() == []


async def test_a_fork_of_a_follower_learns(lone_fleet: Any) -> None:
    registry, leader = await started(lone_fleet)
    for n in range(6):
        await leader.update([lone_fleet.example(n)])
    follower = await caught_up(await follow(registry, leader, algorithm="salt"), leader.position)
    state = await follower.state_at(follower.position)
    fork = await registry.create(state.online_spec.model_copy(update={"name": "fork"}), state)
    assert (fork.spec.algorithm, fork.follow, fork.model.updates) == ("salt", None, 6)
    await fork.update([lone_fleet.example(7)])
    assert (fork.model.updates, follower.model.updates) == (7, 6)


async def test_a_follower_that_grows_beyond_the_limit_fails(lone_fleet: Any) -> None:
    registry = await lone_fleet.start(**SMALL, max_model_bytes=300_000)
    leader = await registry.create(lone_fleet.spec())
    follower = await follow(registry, leader, algorithm="salt")
    with suppress(LimitExceeded):
        for n in range(2_000):
            await leader.update([Example(Features((f"n{n}",), None, np.ones(1, np.float32)), Labels.all_of([f"l{n}"]))])
    await eventually_async(lambda: follower.failed or follower.position == leader.position)
    assert follower.failed == (follower.nbytes > 300_000)
    if follower.failed:
        with pytest.raises(FollowerFailed, match="has ended"):
            follower.check_serving()
    assert leader.serving


async def test_a_follower_counts_late_labels_by_its_own_decisions(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    leader = await registry.create(lone_fleet.spec())
    await leader.change(SetPromise(EASY))
    follower = await follow(registry, leader)
    examples, late = rows(80)[:20], rows(80)[20:]
    await leader.update(examples)
    ids = [prediction_ids.make(n + 1, n.to_bytes(10)) for n in range(60)]
    xs = [example.x for example in late]
    await leader.keep(ids, xs, (await leader.predict(xs)).predictions)
    kept = await leader.kept(ids, [example.y for example in late])
    await leader.update(
        [Example(one.x, example.y) for one, example in zip(kept, late, strict=True)],
        prediction_ids=ids,
        served=[one.scores for one in kept],
        decisions=[one.decision for one in kept],
    )
    await caught_up(follower, leader.position)
    totals = [
        model.promises.to_metrics(model.labels.names)["promise"]["total"] for model in (leader.model, follower.model)
    ]
    assert [total["examples"] for total in totals] == [80, 80]
