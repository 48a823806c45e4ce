"""Models that wait for functions: entries of other servers, while other models are served."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
from tests.service.fleet import Fleet
from tests.service.online.folds import append, dense, learn, new_model, taught
from tests.support.compiling import closed
from tests.support.exercises import named
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_core.label_structure import Group
from manylabel_core.online.models.linear import sparse_table
from manylabel_core.promise import Target
from manylabel_core.state import State
from manylabel_service.errors import NotReady
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.kernels import GATE, NotCompiled
from manylabel_service.online.following import begin_follower
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.tiers import tiers_of_arrays
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Regroup, SetPromise
from manylabel_service.online.state.log_entries import Change, Update, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.tiers import tiers_of_entries

VECTOR = named(a=1)._replace(vectors={"v": np.ones(2, dtype=np.float32)})
WIDE = Features(None, np.arange(2**14, dtype=np.int32), np.ones(2**14, dtype=np.float32))

CHANGES: dict[str, Change] = {
    "vectors": Update((Example(VECTOR, Labels.all_of(["c"])),)),
    "groups": Regroup((Group("g", ("c", "d"), "one"),), {}),
    "promise": SetPromise(Target(0.9)),
    "sparse": Update((Example(WIDE, Labels.all_of([f"label {n}" for n in range(2**10)])),)),
}
"""A change for each tier, in an entry of another server."""


@pytest.mark.parametrize(("tier", "change"), CHANGES.items())
async def test_entries_of_others_wait_for_their_functions(lone_fleet: Fleet, tier: str, change: Change) -> None:
    registry = await lone_fleet.start()
    waiting, other = [await registry.create(Fleet.spec(name)) for name in ("m", "other")]
    assert isinstance(waiting, Replica)
    start = waiting.position
    with closed(tier):
        store = lone_fleet.store(registry)
        (entry,) = await store.logs.append(waiting.record, [encode(change)], start)
        waiting.poll()
        await eventually_async(lambda: waiting.busy and GATE.waits)
        await other.update([Example(named(a=1), Labels.all_of(["c"]))])
        await other.predict([named(a=1)])
        await waiting.predict([named(a=1)])
        assert waiting.position == start
        GATE.open((tier,))
        assert await waiting.reach(entry.position, DEADLINE_SECONDS)
    expected = OnlineModel(waiting.spec)
    ApplyBatch(expected, [LogEntry(entry.position, change)]).step(max_examples=1)
    assert waiting.model.to_bytes() == expected.to_bytes()


async def test_a_server_stops_although_a_model_waits(lone_fleet: Fleet) -> None:
    registry = await lone_fleet.start()
    waiting = await registry.create(Fleet.spec("m"))
    assert isinstance(waiting, Replica)
    with closed("promise"):
        store = lone_fleet.store(registry)
        payload = encode(CHANGES["promise"])
        await store.logs.append(waiting.record, [payload], waiting.position)
        waiting.poll()
        await eventually_async(lambda: waiting.busy and GATE.waits)
        await lone_fleet.stop(registry)


async def test_an_update_that_is_stored_when_the_server_stops_is_not_answered_as_if_it_were_not(
    lone_fleet: Fleet,
) -> None:
    """It is appended after an entry of another server, for which the model waits."""
    registry = await lone_fleet.start()
    replica = await registry.create(Fleet.spec("m"))
    assert isinstance(replica, Replica)
    with closed("promise"):
        payload = encode(CHANGES["promise"])
        logs = lone_fleet.store(registry).logs
        await logs.append(replica.record, [payload], replica.position)
        update = asyncio.create_task(replica.update([Example(named(a=1), Labels.all_of(["c"]))]))
        await eventually_async(lambda: GATE.waits)
        await lone_fleet.stop(registry)
        with pytest.raises(NotReady, match="the change, which is stored") as refused:
            await update
    assert not isinstance(refused.value, NotCompiled)
    restored = await (await lone_fleet.start()).get("m")
    assert isinstance(restored, Replica)
    assert restored.model.updates == 1


async def test_a_replay_by_a_request_does_not_wait(lone_fleet: Fleet) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(Fleet.spec("m"))
    assert isinstance(replica, Replica)
    position = (await replica.change(CHANGES["promise"])).position  # type: ignore[arg-type]
    with closed("promise"), pytest.raises(NotCompiled, match="promised precision"):
        await replica.state_at(position)
    assert (await replica.state_at(position)).position == position


STATES: dict[str, Callable[[OnlineModel], object]] = {
    "vectors": lambda model: learn(model, (VECTOR, ["c"])),
    "groups": lambda model: append(model, CHANGES["groups"]),
    "promise": lambda model: append(model, CHANGES["promise"]),
}
"""Changes of a state that then needs a tier."""


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize(("tier", "change"), STATES.items(), ids=STATES)
async def test_a_model_with_a_state_that_must_wait_is_not_stored(
    lone_fleet: Fleet, tier: str, change: Callable[[OnlineModel], object], follows: bool
) -> None:
    registry = await lone_fleet.start()
    leader = await registry.create(Fleet.spec("leader"))
    assert isinstance(leader, Replica)
    spec, _, follow = await begin_follower(leader, Fleet.spec("m"), from_start=False, until=None)
    state = OnlineModel(spec)
    change(state)
    state.position = leader.position
    with closed(tier):
        with pytest.raises(NotCompiled):
            await registry.create(spec, state, follow if follows else None)
        assert await lone_fleet.store(registry).models.find("m") is None
    assert (await registry.create(spec, state, follow if follows else None)).serving


def tiers_of_bytes(state: bytes) -> tuple[str, ...]:
    return tiers_of_arrays(State.from_bytes(state)[0])


@pytest.mark.parametrize("algorithm", ["falt", "salt"])
def test_a_stored_state_needs_functions_of_sparse_tables_if_it_has_or_gets_one(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = taught(algorithm=algorithm).to_bytes()
    assert tiers_of_bytes(dense) == ()
    with monkeypatch.context() as patch:
        patch.setattr(sparse_table, "MIN_SPARSE_BLOCKS", 1)
        patch.setattr(sparse_table, "DENSE_BYTES", 0)
        assert tiers_of_bytes(dense) == ("sparse",)
        sparse = taught(algorithm=algorithm).to_bytes()
    assert tiers_of_bytes(sparse) == ("sparse",)


def batch(*examples: tuple[Features, list[str]]) -> list[LogEntry]:
    """Entries of another server, one for each example."""
    updates = [Update((Example(x, Labels.all_of(y)),)) for x, y in examples]
    return [LogEntry(str(n), update) for n, update in enumerate(updates)]


def test_entries_need_functions_of_sparse_tables_if_new_columns_make_the_table_sparse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, new = (named(a=1), ["p"]), (named(a=1, b=1), ["p"])
    model = taught()  # a table of one feature, and the columns of the threshold and two labels
    numbered, numbers = new_model(), (dense(1, 2), ["p", "q"])
    learn(numbered, numbers)
    monkeypatch.setattr(sparse_table, "MIN_SPARSE_BLOCKS", 1)
    monkeypatch.setattr(sparse_table, "DENSE_BYTES", 4 * 2 * 3)
    assert tiers_of_entries(model, batch(*[known] * 9)) == ()
    assert tiers_of_entries(model, batch(*[new] * 9)) == ()
    assert tiers_of_entries(model, batch(new, (named(c=1), ["p"]))) == ("sparse",)
    assert tiers_of_entries(model, batch(new, (named(a=1), ["r"]))) == ("sparse",)
    assert tiers_of_entries(numbered, batch(*[numbers] * 9)) == ()
    assert tiers_of_entries(new_model(), batch((dense(1, 2, 3), ["p", "q"]))) == ("sparse",)


def test_a_model_without_a_table_that_can_be_sparse_needs_no_functions_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_table, "MIN_SPARSE_BLOCKS", 1)
    monkeypatch.setattr(sparse_table, "DENSE_BYTES", 0)
    model = new_model(algorithm="kernel_passive_aggressive")
    assert tiers_of_entries(model, batch((named(a=1), ["p"]))) == ()
