"""A model's own limits where several servers, and several updates at once, would go beyond them."""

import asyncio
from typing import Any

import numpy as np
import pytest

from manylabel_service.errors import InvalidExample, LimitExceeded
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.online.state.stream_offsets import StreamPart


def example(features: list[str], labels: list[str]) -> Example:
    return Example(Features(tuple(features), None, np.ones(len(features), dtype=np.float32)), Labels.all_of(labels))


def limits(most: int, policy: str) -> dict[str, Any]:
    limit = {"most": most, "policy": policy}
    return {"features": limit, "labels": limit}


@pytest.mark.parametrize("kind", ["features", "labels"])
async def test_the_log_decides_between_two_servers_that_admit_the_last_column(fleet: Any, kind: str) -> None:
    registries = await fleet.start_several(2)
    await registries[0].create(fleet.spec(limits=limits(3, "reject")))
    replicas = [await registry.get("m") for registry in registries]
    await replicas[0].update([example(["a", "b"], ["x", "y"])])
    await fleet.agreed()

    def one(number: int) -> Example:
        return example(["a", f"f{number}"], ["x"]) if kind == "features" else example(["a"], ["x", f"l{number}"])

    updates = (replica.update([one(number)]) for number, replica in enumerate(replicas))
    results = await asyncio.gather(*updates, return_exceptions=True)
    assert {type(result) for result in results} == {UpdateResult, InvalidExample}
    state = await fleet.agreed()
    assert replicas[0].model.updates == 2
    late = await fleet.start()
    assert (await late.get("m")).model.to_bytes() == state


@pytest.mark.parametrize(("policy", "n_learnt"), [("reject", 3), ("ignore", 20)])
async def test_updates_that_wait_together_keep_to_the_limit(fleet: Any, policy: str, n_learnt: int) -> None:
    """They are let in one by one, and are learnt as one group; the server's limits are just as high."""
    registry = await fleet.start(max_features=3, max_labels=3)
    replica = await registry.create(fleet.spec(limits=limits(3, policy)))
    updates = (replica.update([example([f"f{i}"], [f"l{i}"])]) for i in range(20))
    results = await asyncio.gather(*updates, return_exceptions=True)
    assert [type(result) for result in results].count(UpdateResult) == n_learnt
    assert {type(result) for result in results} <= {UpdateResult, InvalidExample}
    assert (len(replica.model.features), len(replica.model.labels)) == (3, 3)
    assert replica.model.ignored == dict.fromkeys(("features", "labels"), n_learnt - 3)
    await fleet.agreed()


async def test_examples_are_refused_one_by_one_after_an_update_of_another_server(fleet: Any) -> None:
    registries = await fleet.start_several(2)
    await registries[0].create(fleet.spec(limits=limits(3, "reject")))
    replicas = [await registry.get("m") for registry in registries]
    await replicas[0].update([example(["a", "b"], ["x"])])
    await fleet.agreed()
    answers = await asyncio.gather(
        *(
            replica.update(
                [example(["a"], ["x"]), example(["a", f"f{number}"], ["x"]), example(["b"], ["y"])],
                want_predictions=True,
                stream=StreamPart(f"s{number}", (1, 2, 3)),
                refuse_each=True,
            )
            for number, replica in enumerate(replicas)
        )
    )
    assert sorted((list(answer.refused), len(answer.predictions)) for answer in answers) == [([], 3), ([1], 2)]
    assert all(isinstance(error, InvalidExample) for answer in answers for error in answer.refused.values())
    await fleet.agreed()
    assert replicas[0].model.updates == 1 + 3 + 2
    assert [replicas[0].model.streams.last(f"s{number}") for number in range(2)] == [3, 3]


async def test_only_examples_beyond_the_limits_of_the_server_are_refused(lone_fleet: Any) -> None:
    registry = await lone_fleet.start(max_features=3)
    replica = await registry.create(lone_fleet.spec())
    beyond = [example(["a", "b"], ["x"]), example(["c", "d"], ["y"]), example(["c"], ["x"]), example(["d"], [])]
    answer = await replica.update(beyond, want_predictions=True, refuse_each=True)
    assert {index: type(error) for index, error in answer.refused.items()} == {1: LimitExceeded, 3: LimitExceeded}
    assert (answer.updates, len(answer.predictions)) == (2, 2)
    assert replica.model.features.names.names == ("a", "b", "c")
    assert replica.model.labels.names == ("x",), "a refused example brings no label"
    again = await replica.update(beyond[3:], want_predictions=True, stream=StreamPart("s", (1,)), refuse_each=True)
    assert (list(again.refused), again.position, again.predictions) == ([0], answer.position, ())
    with pytest.raises(LimitExceeded):
        await replica.update(beyond)
    assert replica.model.updates == 2
    await lone_fleet.kill(registry)
    restored = await (await lone_fleet.start()).get("m")
    assert restored.model.to_bytes() == replica.model.to_bytes(), "the log has the examples that were not refused"
