"""Two servers whose C libraries are for different processors have the same models bit for bit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.faults.log_oracle import LogReader, replay
from tests.support.hosts import WITHOUT_FMA
from tests.support.stores import opened

from manylabel_clients import AsyncClient
from manylabel_core.state import State
from manylabel_service.storage import ModelMeta, Store

SPECS: dict[str, dict[str, Any]] = {
    "falt": {"algorithm": "falt", "params": {"drift": "adwin"}},
    "kernel": {"algorithm": "kernel_falt", "params": {"drift": "adwin"}},
    **{
        f"kernel-{strategy}": {"algorithm": "kernel_falt", "params": {"strategy": strategy, "budget": 40}}
        for strategy in ("project", "nystroem")
    },
    "salt": {"algorithm": "salt"},
    "kernel-salt": {"algorithm": "kernel_salt", "params": {"budget": 40}},
    "passive-aggressive": {"algorithm": "passive_aggressive"},
    "kernel-passive-aggressive": {
        "algorithm": "kernel_passive_aggressive",
        "params": {"budget": 40},
    },
}
ESSENTIAL = ("falt", "kernel-project", "kernel-nystroem")
BATCH = 20
"""Examples in a request; the requests go to the two servers by turns."""

FLAGS = ("--snapshot-retention-count", "10000")


@pytest.mark.parametrize(
    ("names", "n_examples"),
    [(ESSENTIAL, 400), pytest.param(tuple(SPECS), 20_000, marks=pytest.mark.long)],
    ids=["some", "all"],
)
async def test_different_processors_compute_the_same_bits(
    redis_server: Any, server_process: Callable[..., Any], names: tuple[str, ...], n_examples: int
) -> None:
    flags = ("--store", redis_server.url, *FLAGS)
    plain, older = server_process(*flags), server_process(*flags, environment=WITHOUT_FMA)
    await asyncio.to_thread(plain.start)
    await asyncio.to_thread(older.start)
    stored: dict[str, dict[str, bytes]] = {name: {} for name in names}
    async with AsyncClient(plain.url) as one, AsyncClient(older.url) as other:
        for name in names:
            await one.create_model(name, **SPECS[name])
        await _learn((one, other), names, n_examples, 0)
        for client in (one, other):
            await _store(client, names, stored)
        await asyncio.to_thread(plain.kill)
        await _learn((other,), names, 2 * BATCH, 1)
        await _store(other, names, stored)
    await asyncio.to_thread(plain.start)
    async with AsyncClient(plain.url) as one, AsyncClient(older.url) as other:
        await _learn((one, other), names, 2 * BATCH, 2)
        await _store(one, names, stored)
    async with opened(redis_server.url) as store:
        for record in await store.models.all():
            await _check(store, record, stored[record.name])


async def _learn(clients: tuple[AsyncClient, ...], names: tuple[str, ...], n_examples: int, seed: int) -> None:
    """Have the clients learn a stream by turns; each example is learnt when the next request begins."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_examples, 8)).round(3)
    signs = rng.normal(size=(8, 4))
    for turn, first in enumerate(range(0, n_examples, BATCH)):
        rows = X[first : first + BATCH]
        examples = [(_named(x), [f"l{label}" for label in np.flatnonzero(x @ signs > 1)]) for x in rows]
        client = clients[turn % len(clients)]
        for name in names:
            await client.model(name).update_many(examples)


def _named(x: NDArray[np.float64]) -> dict[str, float]:
    return {f"f{number}": value for number, value in enumerate(x.tolist())}


async def _store(client: AsyncClient, names: tuple[str, ...], stored: dict[str, dict[str, bytes]]) -> None:
    """Have one server store its states, each at a position at which no other has stored one."""
    for name in names:
        model = client.model(name)
        await model.update(_named(np.ones(8)), ["l0"])
        position = (await model.take_snapshot()).position
        assert position not in stored[name]
        stored[name][position] = await model.download_snapshot(position)


async def _check(store: Store, record: ModelMeta, stored: dict[str, bytes]) -> None:
    """Hold what each server had at its position against the log, as this process learns it."""
    reader = LogReader(store, record)
    await reader.read_to_end()
    replayed = await asyncio.to_thread(replay, record, reader.entries, list(stored))
    assert len(stored) == 4
    for position, data in stored.items():
        assert _parts(data) == _parts(replayed.states[position]), f"{record.name} at {position}"


def _parts(state: bytes) -> tuple[dict[str, bytes], dict[str, Any]]:
    arrays, header = State.from_bytes(state)
    return {name: array.tobytes() for name, array in arrays.items()}, header
