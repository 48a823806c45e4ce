"""Models that wait for functions: entries of other servers, while other models are served."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.service.fleet import Fleet
from tests.service.online.folds import append, learn, taught
from tests.support.compiling import closed
from tests.support.exercises import named
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_core.label_structure import Group
from manylabel_core.online.models.linear import sparse_table
from manylabel_core.promise import Target
from manylabel_core.state import State
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.kernels import GATE, NotCompiled
from manylabel_service.online.following import begin_follower
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.release import FORMAT_VERSIONS
from manylabel_service.online.spec.tiers import tiers_of_arrays
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Regroup, SetPromise
from manylabel_service.online.state.log_entries import Change, Update, encode
from manylabel_service.online.state.model import OnlineModel

VECTOR = named(a=1)._replace(vectors={"v": np.ones(2, dtype=np.float32)})
WIDE = Features(None, np.arange(2**14, dtype=np.int32), np.ones(2**14, dtype=np.float32))

CHANGES: dict[str, Change] = {
    "vectors": Update((Example(VECTOR, Labels.all_of(["c"])),), "log"),
    "groups": Regroup((Group("g", ("c", "d"), "one"),), {}, "log"),
    "promise": SetPromise(Target(0.9), "log"),
    "sparse": Update((Example(WIDE, Labels.all_of([f"label {n}" for n in range(512)])),), "log"),
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
        (entry,) = await store.logs.append(waiting.record, [encode(change, FORMAT_VERSIONS[-1])], start, "log")
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
        payload = encode(CHANGES["promise"], FORMAT_VERSIONS[-1])
        await store.logs.append(waiting.record, [payload], waiting.position, "log")
        waiting.poll()
        await eventually_async(lambda: waiting.busy and GATE.waits)
        await lone_fleet.stop(registry)


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
