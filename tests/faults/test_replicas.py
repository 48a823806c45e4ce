"""Replicas and their Redis are killed under load: no acknowledged update is lost or repeated, and replicas agree."""

import asyncio
import contextlib
import functools
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from tests.faults.history import History
from tests.faults.log_oracle import LogReader, ReplayedLog, replay
from tests.faults.traffic import TrafficClient
from tests.support.stores import opened
from tests.support.waiting import eventually_async

from manylabel_service.storage import ModelMeta, Store

REPLICAS = 3
CLIENTS = 8
MODELS = {
    "falt": {"algorithm": "falt", "scaling": "unit"},
    "salt": {"algorithm": "salt", "scaling": "none", "params": {"passes": 2}},
}
REDIS_TIMEOUT_SECONDS = 0.5
FLAGS = (
    *("--redis-timeout-seconds", str(REDIS_TIMEOUT_SECONDS)),
    # The log is trimmed, but behind the reader of the test, which takes a second or two to notice that Redis is back.
    *("--snapshot-every-updates", "150", "--snapshot-retention-count", "20", "--history-bytes", "0"),
)
CALM_EXAMPLES = 100
"""Acknowledged examples after which the clients stop, once the last fault is over."""
SETTLED_SECONDS = 120.0
"""After the last fault, all replicas stand at the end of the log within this time."""

Start = Callable[..., Any]
"""Makes a `ServerProcess`, or a `RedisServer` (tests/conftest.py)."""


@dataclass(frozen=True)
class Faults:
    """Faults of replicas and Redis, for at least `seconds` and `kills` of a replica."""

    seconds: float
    kills: int = 1
    redis_kills: int = 2
    frozen_seconds: float = 0.0


@dataclass
class Disturbed:
    """Faults that were really injected."""

    killed: Counter[int] = field(default_factory=Counter)
    redis_kills: int = 0
    frozen: int = 0


SHORT = [
    pytest.param(Faults(12.0), id="killed"),
    pytest.param(Faults(8.0, redis_kills=1, frozen_seconds=3.0), id="frozen"),
]
LONG = [
    pytest.param(Faults(300.0, kills=100, redis_kills=8), id="killed", marks=pytest.mark.long),
    pytest.param(Faults(60.0, frozen_seconds=10.0), id="frozen", marks=pytest.mark.long),
]


@pytest.mark.parametrize("faults", SHORT + LONG)
async def test_no_acknowledged_update_is_lost_or_counts_twice(
    faults: Faults, server_process: Start, new_redis: Start
) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or random.randrange(10**6))
    redis = new_redis(options={"appendfsync": "always"}).start()
    *servers, fresh = [server_process("--store", redis.url, *FLAGS) for _ in range(REPLICAS + 1)]
    history, disturbed = History(), Disturbed()
    try:
        await _start(servers)
        await _create_models(servers[0].url)
        async with opened(redis.url) as store:
            readers = [LogReader(store, record) for record in await store.models.all()]
            async with asyncio.TaskGroup() as following:
                followers = [following.create_task(reader.follow()) for reader in readers]
                await _disturb(servers, redis, faults, seed, history, disturbed)
                for task in followers:
                    task.cancel()
            await _start([fresh])
            for reader in readers:
                await _check(store, reader, [*servers, fresh], history)
        _check_all_was_tried(faults, disturbed, history)
    finally:
        # pytest shows it when the test fails; FAULTS_SEED=... has the clients and the faults do the same again.
        for server in (*servers, fresh):
            if server.process is not None:
                print(f"-- {server.url}\n{server.log_tail(60)}")  # noqa: T201
                server.kill()
        if redis.process is not None:
            redis.kill()
        print(f"FAULTS_SEED={seed}\n{disturbed}\n{history}")  # noqa: T201


# -- life under faults ----------------------------------------------------------------------------


async def _disturb(
    servers: Sequence[Any], redis: Any, faults: Faults, seed: int, history: History, disturbed: Disturbed
) -> None:
    """Clients do what they do, replicas and Redis die and come back; at the end all are there."""
    urls = [server.url for server in servers]
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            client = TrafficClient(number, urls, list(MODELS), history, seed, rolls_back=number == 0)
            group.create_task(client.run(stop))
        async with asyncio.TaskGroup() as harm:
            untouched = {servers[-1]} if faults.frozen_seconds else set()
            victims = [server for server in servers if server not in untouched]
            harm.create_task(_kill_replicas(victims, faults, random.Random(f"{seed}/replicas"), disturbed))
            harm.create_task(_disturb_redis(redis, faults, random.Random(f"{seed}/redis"), disturbed))
            if faults.frozen_seconds:
                harm.create_task(_freeze(servers[-1], faults, disturbed))
        await asyncio.gather(*(asyncio.to_thread(server.wait_ready) for server in servers))
        await _go_on(history)
        stop.set()


async def _go_on(history: History) -> None:
    """Wait until clients have learnt that all is well again."""
    enough = len(history.acknowledged) + CALM_EXAMPLES
    await eventually_async(lambda: len(history.acknowledged) >= enough)


async def _random_moment(rng: random.Random, low: float, high: float) -> None:
    """Let a random time pass, in seconds: faults come at any moment, so nothing is waited for."""
    await asyncio.sleep(rng.uniform(low, high))  # see above


async def _kill_replicas(servers: Sequence[Any], faults: Faults, rng: random.Random, disturbed: Disturbed) -> None:
    """SIGKILL at random moments, of one that serves or of one that restores."""
    end = asyncio.get_running_loop().time() + faults.seconds
    last = None
    while asyncio.get_running_loop().time() < end or disturbed.killed.total() < faults.kills:
        await _random_moment(rng, 0.0, 2.5)
        server = last = rng.choice([one for one in servers if one is not last])
        server.kill()
        disturbed.killed[server.port] += 1
        await _random_moment(rng, 0.0, 0.3)
        server.start(wait=False)
        if rng.random() < 0.6:  # some servers are still restoring models when the next server is killed
            await _ready_within(server, 4.0)


async def _ready_within(server: Any, seconds: float) -> None:
    """Wait until it is ready, but no longer than that."""
    with contextlib.suppress(AssertionError):
        await eventually_async(lambda: asyncio.to_thread(server.is_ready), seconds)


async def _disturb_redis(redis: Any, faults: Faults, rng: random.Random, disturbed: Disturbed) -> None:
    """It stops answering for longer than replicas wait for it, and some time later it is killed; again and again."""
    pause = faults.seconds / (2 * faults.redis_kills + 1)
    for _ in range(faults.redis_kills):
        await _random_moment(rng, 0.5 * pause, pause)
        redis.pause()
        await _random_moment(rng, 1.2 * REDIS_TIMEOUT_SECONDS, 3.0 * REDIS_TIMEOUT_SECONDS)
        redis.resume()
        await _random_moment(rng, 0.5 * pause, pause)
        await asyncio.to_thread(redis.kill)
        disturbed.redis_kills += 1
        await _random_moment(rng, 0.0, 1.5)
        await asyncio.to_thread(redis.start)


async def _freeze(server: Any, faults: Faults, disturbed: Disturbed) -> None:
    await asyncio.sleep(faults.seconds / 8)  # the moment of the fault
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(faults.frozen_seconds)  # the process is frozen for this time, and the others keep running
    finally:
        os.kill(server.pid, signal.SIGCONT)
    disturbed.frozen += 1


async def _start(servers: Sequence[Any]) -> None:
    for server in servers:
        server.start(wait=False)
    await asyncio.gather(*(asyncio.to_thread(server.wait_ready) for server in servers))


async def _create_models(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=SETTLED_SECONDS) as http:
        for name, spec in MODELS.items():
            (await http.post("/v1/models", json={"name": name, **spec})).raise_for_status()


# -- what must hold afterwards --------------------------------------------------------------------


async def _check(store: Store, reader: LogReader, servers: Sequence[Any], history: History) -> None:
    await reader.read_to_end()
    await _compare(servers, reader)
    taken = {server.url: await _snapshot_of(server.url, reader, history) for server in servers}
    await reader.read_to_end()
    replayed = await _replay(store, reader, [position for position, _ in taken.values()])
    for url, (position, data) in taken.items():
        assert data == replayed.states[position], f"{url} differs from the replayed log"
    _check_told(replayed, history.of(reader.record.name))


def _check_told(replayed: ReplayedLog, history: History) -> None:
    """The log of a model confirms every answer that clients were given."""
    assert not history.acknowledged.keys() - replayed.learnt.keys(), "acknowledged, and not in the log"
    assert {name: n for name, n in replayed.learnt.items() if n != 1} == {}, "learnt more than once, or never"
    assert replayed.learnt.keys() <= history.sent
    told = {name: position for name, position in history.acknowledged.items() if position is not None}
    assert {name: replayed.positions[name] for name in told} == told
    assert history.rollbacks.items() <= replayed.rollbacks.items()
    assert set(replayed.rolled_back.values()) <= {1}


def _check_all_was_tried(faults: Faults, disturbed: Disturbed, history: History) -> None:
    assert disturbed.redis_kills == faults.redis_kills
    assert disturbed.frozen == bool(faults.frozen_seconds)
    assert disturbed.killed.total() >= max(faults.kills, faults.seconds / 6)
    rare = ("snapshots", "snapshot", "rollback") if faults.seconds >= 60 else ()
    for operation in ("update", "predict-update", "predict", "labels", "stream", *rare):
        assert history.statuses[operation, 200] + history.statuses[operation, 201], f"no {operation} succeeded"
    assert {status for _, status in history.statuses if status >= 500} <= {503}
    assert len(history.acknowledged) > 10 * faults.seconds


async def _compare(servers: Sequence[Any], reader: LogReader) -> None:
    """All replicas come to the end of the log, and answer the same to the last digit."""
    name, position = reader.record.name, reader.position
    faces = {}
    for server in servers:
        async with httpx2.AsyncClient(base_url=f"{server.url}/v1/models/{name}", timeout=SETTLED_SECONDS) as http:
            faces[server.url] = await _status_at(http, position), await _all_weights(http, reader)
    (_, first), *others = faces.items()
    for url, face in others:
        assert face == first, f"{url} differs"


async def _status_at(http: httpx2.AsyncClient, position: str) -> dict[str, Any]:
    """The status once the replica is there by itself."""

    async def there() -> dict[str, Any] | None:
        status = dict((await http.get(str(http.base_url).rstrip("/"))).raise_for_status().json())
        del status["bytes"]  # bytes of memory, which differ in a process that restored the model
        return status if status["position"] == position else None

    return await eventually_async(there, SETTLED_SECONDS)


async def _all_weights(http: httpx2.AsyncClient, reader: LogReader) -> list[Any]:
    """The scores of each feature alone, which are the weights."""
    names = reader.feature_names()
    answers = []
    for begin in range(0, len(names), 2_000):
        examples = [{"x": {name: 1.0}} for name in names[begin : begin + 2_000]]
        answers.append(await eventually_async(functools.partial(_fresh_answer, http, examples), SETTLED_SECONDS))
    return answers


async def _fresh_answer(http: httpx2.AsyncClient, examples: Sequence[Any]) -> Any:
    """Predictions; None while the replica has not found Redis again."""
    answer = (await http.post("/predict", json={"examples": examples})).raise_for_status().json()
    return None if "stale_seconds" in answer else answer


async def _snapshot_of(url: str, reader: LogReader, history: History) -> tuple[str, bytes]:
    """The state of one replica, at a position that no other has taken: it has just appended it."""
    async with httpx2.AsyncClient(base_url=f"{url}/v1/models/{reader.record.name}", timeout=120) as http:
        own = f"{reader.record.name}/last of {url}"
        history.sent.add(own)
        update = {"json": {"x": {own: 1.0}, "y": ["last"]}, "headers": {"Idempotency-Key": own.replace(" ", "-")}}
        answer = await _answered(http, "POST", "/update", **update)
        history.acknowledge([own], answer.json()["position"])
        position = (await _answered(http, "POST", "/snapshots")).json()["position"]
        data = (await _answered(http, "GET", f"/snapshots/{position}")).content
    return position, data


async def _answered(http: httpx2.AsyncClient, method: str, path: str, **how: Any) -> httpx2.Response:
    """The answer, asked for again while a Redis that syncs to a busy disk does not answer in time."""

    async def answer() -> httpx2.Response | None:
        response = await http.request(method, path, **how)
        return None if response.status_code == 503 else response.raise_for_status()

    return await eventually_async(answer, SETTLED_SECONDS)


async def _replay(store: Store, reader: LogReader, positions: Sequence[str]) -> ReplayedLog:
    """Fold the log; every snapshot in the store is one of its states."""
    record: ModelMeta = reader.record
    kept = [snapshot.position for snapshot in await store.snapshots.all(record)]
    replayed = await asyncio.to_thread(replay, record, reader.entries, {*positions, *kept})
    for position in kept:
        assert await store.snapshots.get(record, position) == replayed.states[position], f"snapshot {position}"
    return replayed
