"""Redis stops and returns: predictions continue and have an age, updates are refused, and replicas recover."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.support.waiting import eventually

UPDATE = {"x": {"a": 1.0}, "y": ["p"]}
FLAGS = ("--redis-timeout-seconds", "0.5", "--position-wait-seconds", "1")


@pytest.fixture(scope="module")
def redis(new_module_redis: Callable[..., Any]) -> Any:
    return new_module_redis(options={"appendfsync": "always"}).start()


@pytest.fixture(scope="module")
def replicas(module_server_process: Callable[..., Any], redis: Any) -> Iterator[list[Any]]:
    """Two replicas that have learnt one example."""
    servers = [module_server_process("--store", redis.url, *FLAGS).start(wait=False) for _ in range(2)]
    for server in servers:
        server.wait_ready()
    created = httpx2.post(f"{servers[0].url}/v1/models", json={"name": "m", "algorithm": "falt"}, timeout=120)
    created.raise_for_status()
    assert _update(servers[0], timeout=120).status_code == 200
    yield servers
    for server in servers:
        server.kill()


@pytest.fixture(params=["killed", "stopped", "frozen"])
def outage(request: pytest.FixtureRequest, redis: Any, replicas: list[Any]) -> Iterator[Callable[[], None]]:
    """Redis is gone, in one of three ways; call what is given to bring it back."""
    for server in replicas:
        eventually(lambda server=server: "stale_seconds" not in _predict(server).json())
    away = True
    {"killed": redis.kill, "stopped": redis.stop, "frozen": redis.pause}[request.param]()

    def back() -> None:
        nonlocal away
        if away:
            away = False
            (redis.resume if request.param == "frozen" else redis.start)()

    yield back
    back()


def test_predictions_continue_and_updates_are_refused_without_redis(
    outage: Callable[[], None], replicas: list[Any]
) -> None:
    before = [_predict(server).json()["scores"] for server in replicas]
    learnt = _updates(replicas[0])
    for server in replicas:  # which notice by themselves
        eventually(lambda server=server: "stale_seconds" in _predict(server).json())
    _check_positions(replicas[0])
    for server, scores in zip(replicas, before, strict=True):
        refused = _update(server, timeout=120)
        assert refused.status_code == 503, refused.text
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["code"] == "storage_unavailable"
        first, second = _stale_seconds(server), _stale_seconds(server)
        assert 0 <= first < second
        assert _predict(server).json()["scores"] == scores
        assert httpx2.get(f"{server.url}/readyz", timeout=120).status_code == 200
    outage()
    for server in replicas:
        eventually(lambda server=server: _update(server, timeout=120).status_code == 200)
        eventually(lambda server=server: "stale_seconds" not in _predict(server).json())
    eventually(lambda: _updates(replicas[0]) == _updates(replicas[1]))
    # Two updates were acknowledged. A refused update may also be in the log, because only its response was lost.
    assert learnt + 2 <= _updates(replicas[0]) <= learnt + 4 + 2 * 10
    assert _predict(replicas[0]).json() == _predict(replicas[1]).json()


def _check_positions(server: Any) -> None:
    """A prediction waits for an unknown position only for a while."""
    position = _predict(server).json()["position"]
    predict = f"{server.url}/v1/models/m/predict?at_least="
    assert httpx2.post(f"{predict}{position}", json=UPDATE, timeout=120).status_code == 200
    milliseconds, _, serial = position.partition("-")
    unknown = httpx2.post(f"{predict}{int(milliseconds) + 10**6}-{serial or 0}", json=UPDATE, timeout=120)
    assert unknown.status_code == 503
    assert int(unknown.headers["retry-after"]) >= 1


def _predict(server: Any) -> httpx2.Response:
    return httpx2.post(f"{server.url}/v1/models/m/predict", json=UPDATE, timeout=120).raise_for_status()


def _stale_seconds(server: Any) -> float:
    return float(_predict(server).json()["stale_seconds"])


def _update(server: Any, timeout: float) -> httpx2.Response:
    return httpx2.post(f"{server.url}/v1/models/m/update", json=UPDATE, timeout=timeout)


def _updates(server: Any) -> int:
    return int(httpx2.get(f"{server.url}/v1/models/m", timeout=120).raise_for_status().json()["updates"])
