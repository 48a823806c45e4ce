"""A model's own limits where several servers, and several updates at once, would go beyond them."""

import asyncio
from typing import Any

import numpy as np
import pytest

from manylabel_service.errors import InvalidExample
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.state.answer import Updated


def example(features: list[str], labels: list[str]) -> Example:
    return Example(Features(tuple(features), None, np.ones(len(features), dtype=np.float32)), Labels.all_of(labels))


def limits(most: int, policy: str) -> dict[str, Any]:
    limit = {"most": most, "policy": policy}
    return {"features": limit, "labels": limit}


@pytest.mark.parametrize("kind", ["features", "labels"])
async def test_where_two_servers_let_in_the_last_one_the_log_decides(fleet: Any, kind: str) -> None:
    registries = await fleet.start_several(2)
    await registries[0].create(fleet.spec(limits=limits(3, "reject")))
    replicas = [await registry.get("m") for registry in registries]
    await replicas[0].update([example(["a", "b"], ["x", "y"])])
    await fleet.agreed()

    def one(number: int) -> Example:
        return example(["a", f"f{number}"], ["x"]) if kind == "features" else example(["a"], ["x", f"l{number}"])

    updates = (replica.update([one(number)]) for number, replica in enumerate(replicas))
    results = await asyncio.gather(*updates, return_exceptions=True)
    assert {type(result) for result in results} == {Updated, InvalidExample}
    state = await fleet.agreed()
    assert replicas[0].model.updates == 2
    late = await fleet.start()
    assert (await late.get("m")).model.to_bytes() == state


@pytest.mark.parametrize(("policy", "n_learnt"), [("reject", 3), ("ignore", 20)])
async def test_updates_that_wait_together_keep_to_it(fleet: Any, policy: str, n_learnt: int) -> None:
    """They are let in one by one, and are learnt as one group; the server's limits are just as high."""
    registry = await fleet.start(max_features=3, max_labels=3)
    replica = await registry.create(fleet.spec(limits=limits(3, policy)))
    updates = (replica.update([example([f"f{i}"], [f"l{i}"])]) for i in range(20))
    results = await asyncio.gather(*updates, return_exceptions=True)
    assert [type(result) for result in results].count(Updated) == n_learnt
    assert {type(result) for result in results} <= {Updated, InvalidExample}
    assert (len(replica.model.features), len(replica.model.labels)) == (3, 3)
    assert replica.model.ignored == dict.fromkeys(("features", "labels"), n_learnt - 3)
    await fleet.agreed()
