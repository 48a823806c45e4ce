"""Promotion: a follower takes the place of its leader at one position, and the leader follows it."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest
from tests.service.fleet import linear_and_kernel, on_both_stores
from tests.service.online.forgetting.test_forgetting import ended
from tests.service.online.history.test_history import SMALL, entries_of, example, lived, small_segments, started
from tests.service.online.test_followers import caught_up, follow, learnt, state
from tests.support.crashes import killed_after
from tests.support.waiting import eventually_async

from manylabel_service import ulid
from manylabel_service.clock import now_ms
from manylabel_service.errors import (
    BeforeHistory,
    KeyReused,
    LimitExceeded,
    ModelFailed,
    ModelIsOnline,
    NotPromotable,
    NotReady,
    PredictionLabelled,
)
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models import membership
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.models.promoting import Promoter
from manylabel_service.online.history.lineage import Receipt
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.online.successor.promotion import PromotionWriter
from manylabel_service.online.successor.rewriter import Selection
from manylabel_service.storage import START

__all__ = ["small_segments"]


async def hosted(registry: Any, name: str) -> Replica:
    replica = await registry.get(name)
    assert isinstance(replica, Replica)
    return replica


async def promoted(registry: Any, name: str = "f", key: IdempotencyKey | None = None) -> tuple[Replica, Replica]:
    """Promote a follower; return the leader and the follower afterwards."""
    leader = (await hosted(registry, name)).log_record.name
    await Promoter(registry).promote(name, key, None)
    new = await hosted(registry, leader)
    return new, await caught_up(await hosted(registry, name), new.position)


async def late(replica: Replica, rng: random.Random, *labels: str) -> None:
    """A label of a stored prediction, which was served by the model."""
    id = ulid.make(now_ms(), rng.randbytes(ulid.N_RANDOM_BYTES))
    x = example(rng).x
    await replica.keep([id], [x], (await replica.predict([x])).predictions)
    await labelled(replica, id, x, *labels)


async def labelled(replica: Replica, id: str, x: Features, *labels: str) -> None:
    y = Labels.all_of(labels)
    (kept,) = await replica.kept([id], [y])
    await replica.update([Example(x, y)], prediction_ids=[id], served=[kept.scores])


@pytest.mark.parametrize("change", ["forget", "promote"])
async def test_copies_of_snapshots_count_towards_their_limit(lone_fleet: Any, change: str) -> None:
    registry, leader = await started(lone_fleet)
    await lived(leader, random.Random(3), 20)
    await leader.update([Example(example(random.Random(3)).x, Labels.all_of(["new"]))])
    await leader.take_snapshot()
    if change == "promote":
        follower = await caught_up(await follow(registry, leader, algorithm="salt"), leader.position)
        await follower.take_snapshot()
    total = await lone_fleet.store(registry).snapshots.total_bytes()
    await lone_fleet.stop(registry)
    registry = await lone_fleet.start(**SMALL, max_snapshot_bytes=total + total // 2)
    snapshots = lone_fleet.store(registry).snapshots
    leader = await hosted(registry, "m")
    if change == "promote":
        await caught_up(await hosted(registry, "f"), leader.position)
        with pytest.raises(LimitExceeded, match="bytes of all snapshots"):
            await Promoter(registry).promote("f", None, None)
    else:
        selection = Selection(positions=frozenset([leader.position]))
        receipt = await ended(registry, (await Forgetter(registry.successions).begin(leader, selection, None)).id)
        assert (receipt.status, "bytes of all snapshots" in str(receipt.error)) == ("failed", True)
    assert await snapshots.total_bytes() == total
    await lived(leader, random.Random(4), 1)


@linear_and_kernel
async def test_leader_and_follower_swap_places_bit_for_bit(any_fleet: Any, algorithm: str) -> None:
    rng = random.Random(algorithm)
    registry, leader = await started(any_fleet, algorithm="falt", window=20)
    await follow(registry, leader, algorithm=algorithm)
    twin = await follow(registry, leader, "twin", algorithm=algorithm)
    for n in range(3):
        await lived(leader, rng, 20)
        await late(leader, rng, f"late{n}")
    follower = await caught_up(await hosted(registry, "f"), leader.position)
    states = {"new": state(follower.model), "old": state(leader.model)}
    past = {entry.position: state(await follower.state_at(entry.position)) for entry in (await entries_of(leader))[::9]}
    before = await entries_of(leader)
    new, old = await promoted(registry)
    assert (new.follow, new.spec.algorithm, new.model.spec.name) == (None, algorithm, "m")
    assert old.follow is not None
    assert (old.follow.model, old.spec.algorithm, old.model.spec.name) == ("m", "falt", "f")
    assert state(new.model) == states["new"]
    assert state(old.model) == states["old"]
    assert await entries_of(new) == before
    # The past of the two is theirs as well.
    for position, expected in past.items():
        assert state(await new.state_at(position)) == expected
    assert (await new.verify()).equal
    # Both models continue, and so does the other follower. It has the same updates, but its own scores for late labels.
    for n in range(2):
        await lived(new, rng, 20)
        await late(new, rng, f"later{n}")
    await caught_up(old, new.position)
    other = await caught_up(await hosted(registry, "twin"), new.position)
    assert other is not twin
    assert learnt(other.model) == learnt(new.model)
    assert (await new.verify()).equal
    ends = state(new.model), state(old.model)
    # Another process restores the same states.
    await any_fleet.stop(registry)
    registry = await any_fleet.start(**SMALL)
    again = await hosted(registry, "m")
    assert state(again.model) == ends[0]
    assert state((await caught_up(await hosted(registry, "f"), again.position)).model) == ends[1]
    # Promoted again, they have their first places.
    back, forth = await promoted(registry)
    assert (back.spec.algorithm, forth.spec.algorithm) == ("falt", algorithm)
    assert (state(back.model), state(forth.model)) == (ends[1], ends[0])
    await lived(back, rng, 20)
    assert (await back.verify()).equal
    assert [record.name for record in await any_fleet.store(registry).models.all()] == ["twin", "m", "f"]


async def test_no_acknowledged_update_is_lost_or_learnt_twice(fleet: Any) -> None:
    """Keys, lines of streams and stored predictions of before; updates that come in meanwhile."""
    rng = random.Random(3)
    registry, other = await fleet.start_several(2, **SMALL)
    leader = await registry.create(fleet.spec(window=20))
    await follow(registry, leader, algorithm="salt")
    await other.get("m")
    key = IdempotencyKey("k", bytes(16))
    first = await leader.update([example(rng)], key=key, want_predictions=True)
    await leader.update([example(rng)], stream=StreamPart("s", (1,)))
    id, x = ulid.make(now_ms(), rng.randbytes(ulid.N_RANDOM_BYTES)), example(rng).x
    await leader.keep([id], [x], (await leader.predict([x])).predictions)
    sent, stop = 0, asyncio.Event()

    async def load(registry: Any) -> None:
        nonlocal sent
        while not stop.is_set():
            made = example(rng)
            with suppress(NotReady):  # the model was replaced meanwhile
                async with registry.use("m") as model:
                    await model.update([made])
                sent += 1
            await asyncio.sleep(0.01)  # the log grows more slowly than the promotion copies it

    tasks = [asyncio.create_task(load(each)) for each in (registry, other) for _ in range(2)]
    await eventually_async(lambda: sent > 20)
    new, _ = await promoted(registry)
    at_end = sent
    await eventually_async(lambda: sent > at_end + 20)
    stop.set()
    await asyncio.gather(*tasks)
    again = await new.update([example(rng)], key=key, want_predictions=True)
    assert (again.replayed, again.position, len(again.predictions)) == (True, first.position, 1)
    assert (await new.update([example(rng)], stream=StreamPart("s", (1,)))).skipped == 1
    assert new.model.updates == 2 + sent
    await labelled(new, id, x, "late")
    with pytest.raises(PredictionLabelled):
        await new.kept([id], [Labels.all_of(["other"])])
    assert new.model.updates == 3 + sent
    assert len(await entries_of(new)) == 4 + sent
    (await hosted(other, "m")).poll()
    assert len(await fleet.agreed()) > 0
    assert (await new.verify()).equal


async def test_a_server_that_has_just_joined_is_not_considered_dead(
    fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "HEARTBEAT_SECONDS", 3600.0)
    old, new = await fleet.start_several(2, **SMALL)
    leader = await old.create(fleet.spec())
    await follow(old, leader, algorithm="salt")
    build = PromotionWriter.build

    async def looked_at(writer: PromotionWriter) -> None:
        await old.successions.look()
        await build(writer)

    monkeypatch.setattr(PromotionWriter, "build", looked_at)
    await Promoter(new).promote("f", None, None)


async def test_two_servers_promote_in_turn(fleet: Any) -> None:
    registries = await fleet.start_several(2, **SMALL)
    leader = await registries[0].create(fleet.spec())
    await follow(registries[0], leader, algorithm="salt")
    for n in range(4):
        registry = registries[n % 2]
        await Promoter(registry).promote("f", None, None)
        new = await hosted(registry, "m")
        assert new.spec.algorithm == ("salt", "falt")[n % 2]
        await new.update([fleet.example(n)])
        assert new.model.updates == n + 1


async def test_the_history_begins_where_the_promoted_follower_began(lone_fleet: Any) -> None:
    rng = random.Random(5)
    registry, leader = await started(lone_fleet, window=20)
    for _ in range(30):
        await leader.update([example(rng)])
        if rng.random() < 0.2:
            await leader.take_snapshot()
    await leader.take_snapshot()
    begin = leader.position
    await follow(registry, leader, from_start=False, algorithm="salt")
    for _ in range(30):
        await leader.update([example(rng)])
        if rng.random() < 0.2:
            await leader.take_snapshot()
    follower = await caught_up(await hosted(registry, "f"), leader.position)
    middle = (await entries_of(leader))[45].position
    expected = state(follower.model), state(leader.model), state(await follower.state_at(middle))
    led = state(await leader.state_at(middle))
    new, old = await promoted(registry)
    assert (state(new.model), state(old.model), state(await new.state_at(middle))) == expected
    assert state(await old.state_at(middle)) == led
    assert (await new.state_at(begin)).updates == 0
    assert (await HistoryReader(new.record, lone_fleet.store(registry)).begin()) == begin
    with pytest.raises(BeforeHistory):
        await new.state_at(START)
    assert (await new.verify()).equal
    # After the second promotion, the first leader also has what it had learnt before this history.
    back, _ = await promoted(registry)
    assert state(back.model) == expected[1]
    assert state(await back.state_at(middle)) == led
    assert (await back.verify()).equal
    await back.rollback(middle)
    assert {name: led[name] for name in learnt(back.model)} == learnt(back.model)


async def test_followers_begin_and_are_promoted_at_the_only_state(lone_fleet: Any) -> None:
    """The log of the leader begins before its only snapshot."""
    registry = await lone_fleet.start(**SMALL | {"snapshot_retention_count": 1}, history_bytes=0)
    leader = await registry.create(lone_fleet.spec())
    for n in range(3):
        await leader.update([lone_fleet.example(n)])
        only = await leader.take_snapshot()
    await leader.update([lone_fleet.example(4)])
    follower = await follow(registry, leader)
    assert follower.follow is not None
    assert follower.follow.begin == only.position
    new, _ = await promoted(registry)
    assert new.model.updates == 1


async def test_the_history_begins_after_rollbacks_to_before_the_follower(fleet: Any) -> None:
    rng = random.Random(7)
    registry, leader = await started(fleet, window=20)
    for _ in range(10):
        await leader.update([example(rng)])
    early = leader.position
    await leader.update([example(rng)])
    follower = await follow(registry, leader, from_start=False, algorithm="salt")
    await leader.update([example(rng)])
    await leader.rollback(early)
    await leader.update([example(rng)])
    rolled_back = leader.position
    await caught_up(follower, leader.position)
    await follower.take_snapshot()
    await leader.update([example(rng)])
    await caught_up(follower, leader.position)
    expected = state(follower.model), state(leader.model)
    new, old = await promoted(registry)
    assert (state(new.model), state(old.model)) == expected
    assert await HistoryReader(new.record, fleet.store(registry)).begin() == rolled_back
    assert (await new.verify()).equal


async def test_an_empty_model_is_promoted(lone_fleet: Any) -> None:
    registry, leader = await started(lone_fleet)
    await follow(registry, leader, algorithm="salt")
    new, old = await promoted(registry)
    assert (new.position, new.spec.algorithm, old.spec.algorithm) == (START, "salt", "falt")
    assert (new.spec.window, old.spec.window) == (20, 1000)
    await new.update([lone_fleet.example(1)])
    assert (await caught_up(old, new.position)).model.updates == new.model.updates == 1


async def test_a_follower_of_a_fork_is_promoted(lone_fleet: Any) -> None:
    """Its log begins with a state."""
    registry, leader = await started(lone_fleet)
    for n in range(5):
        await leader.update([lone_fleet.example(n)])
    fork = await leader.state_at(leader.position)
    forked = await registry.create(fork.online_spec.model_copy(update={"name": "fork"}), fork)
    await follow(registry, forked, algorithm="salt")
    await forked.update([lone_fleet.example(7)])
    await caught_up(await hosted(registry, "f"), forked.position)
    expected = state(forked.model)
    new, old = await promoted(registry)
    assert (new.name, new.model.updates, state(old.model)) == ("fork", 1, expected)
    assert (await new.verify()).equal
    back, _ = await promoted(registry)
    assert state(back.model) == expected
    assert (await back.verify()).equal


async def test_stored_predictions_get_the_columns_of_the_promoted_follower(lone_fleet: Any) -> None:
    registry, leader = await started(lone_fleet)
    for label in ("l0", "l1", "l2", "l3"):
        x = lone_fleet.example(1).x
        await leader.update([Example(x, Labels.all_of([label]))])
    await follow(registry, leader, algorithm="salt", limits={"labels": {"most": 2, "policy": "ignore"}})
    id = ulid.make(now_ms(), bytes(ulid.N_RANDOM_BYTES))
    await leader.keep([id], [x], (await leader.predict([x])).predictions)
    (before,) = await leader.kept([id], [Labels.all_of(["l1"])])
    assert len(before.scores) == 4
    new, _ = await promoted(registry)
    assert new.model.labels.names == ("l0", "l1")
    (after,) = await new.kept([id], [Labels.all_of(["l1"])])
    assert after.scores.tolist() == before.scores[:2].tolist()
    await labelled(new, id, x, "l1")
    assert new.model.updates == 5


async def test_models_that_cannot_be_promoted(lone_fleet: Any) -> None:
    rng = random.Random(9)
    registry, leader = await started(lone_fleet)
    await leader.update([example(rng)])
    with pytest.raises(ModelIsOnline):
        await Promoter(registry).promote("m", None, None)
    await follow(registry, leader, "ends", until=leader.position)
    with pytest.raises(NotPromotable, match="up to a position"):
        await Promoter(registry).promote("ends", None, None)
    failed = await follow(registry, leader, "failed")
    failed.fail(lambda: ModelFailed("it has failed"))
    with pytest.raises(NotPromotable, match="it has failed"):
        await Promoter(registry).promote("failed", None, None)
    await follow(registry, leader)
    receipt = Receipt(id="01k", created="now")
    await registry.successions.begin(leader.record, receipt, lambda id: AssertionError(id))
    with pytest.raises(NotPromotable, match="already being replaced"):
        await Promoter(registry).promote("f", None, None)
    await registry.successions.finish("m", receipt)
    await lone_fleet.stop(registry)
    registry = await lone_fleet.start(**SMALL, preload=False)
    await lone_fleet.store(registry).models.delete(leader.record)
    with pytest.raises(NotPromotable, match="deleted"):
        await Promoter(registry).promote("f", None, None)


async def test_a_request_with_a_key_promotes_once(lone_fleet: Any) -> None:
    registry, leader = await started(lone_fleet)
    await follow(registry, leader, algorithm="salt")
    await follow(registry, leader, "g", algorithm="salt")
    key = IdempotencyKey("k", bytes(16))
    first, replayed = await Promoter(registry).promote("f", key, None)
    assert not replayed
    assert await Promoter(registry).promote("f", key, None) == (first, True)
    assert (await hosted(registry, "m")).spec.algorithm == "salt"
    for other in (("g", key), ("f", IdempotencyKey("k", bytes(15) + b"1"))):
        with pytest.raises(KeyReused):
            await Promoter(registry).promote(*other, None)


@pytest.mark.usefixtures("quick_expiry")
@on_both_stores
async def test_a_kill_after_the_step_that_swaps_the_models(any_fleet: Any) -> None:
    """The next process ends the request. Lifetimes of `tests/simulation` crash at the other steps."""
    rng = random.Random(0)
    registry, leader = await started(any_fleet, window=20)
    await follow(registry, leader, algorithm="salt")
    await follow(registry, leader, "other", algorithm="falt")
    await lived(leader, rng, 40)
    follower = await caught_up(await hosted(registry, "f"), leader.position)
    states = state(leader.model), state(follower.model)
    async with killed_after(any_fleet, registry, any_fleet.store(registry).models, "replace"):
        promoting = asyncio.create_task(Promoter(registry).promote("f", None, None))
    promoting.cancel()
    again = await any_fleet.start(**SMALL)
    lineages = again.successions.lineages

    async def ended() -> bool:
        return (await lineages.find("m")).running is None

    await eventually_async(ended)
    (promotion,) = (await lineages.find("m")).promotions
    assert promotion.status == "done"
    new = await hosted(again, "m")
    old = await caught_up(await hosted(again, "f"), new.position)
    assert (state(new.model), state(old.model)) == states[::-1]
    await new.update([example(rng)])
    for name in ("f", "other"):
        await caught_up(await hosted(again, name), new.position)
    store = any_fleet.store(again)
    records = await store.models.all()
    assert sorted(record.name for record in records) == ["f", "m", "other"]
    followed = [found for record in records if (found := follow_of(record.spec))]
    assert {found.incarnation for found in followed} == {new.record.incarnation}
    blobs = {key.split("/")[1] for key in await store.blobs.keys("history/")}
    assert blobs <= {str(record.incarnation) for record in records}
