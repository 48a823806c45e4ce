"""A client that gets no answer and repeats its request, with its key, at another replica: it counts once."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from tests.support.waiting import eventually

UPDATE = {"x": {"a": 1.0}, "y": ["p"]}
KEY = {"Idempotency-Key": "only-once"}
PATIENCE_SECONDS = 0.3


@dataclass(frozen=True)
class Replica:
    """One of two replicas, and a client at the model of this test there."""

    server: Any
    http: httpx2.Client

    def update(self, timeout: float = 20.0) -> httpx2.Response:
        return self.http.post("/update", json=UPDATE, headers=KEY, timeout=timeout)

    def status(self) -> dict[str, Any]:
        return dict(self.http.get(str(self.http.base_url).rstrip("/")).raise_for_status().json())

    def answered_updates(self) -> int:
        """Requests to update this process has gone through with, whether or not anybody still listened."""
        text = httpx2.get(f"{self.server.url}/metrics").text
        lines = [line for line in text.splitlines() if line.startswith("http_requests_total") and "/update" in line]
        return sum(int(float(line.rpartition(" ")[2])) for line in lines)


@pytest.fixture(scope="module")
def redis(new_redis: Callable[..., Any]) -> Any:
    return new_redis(options={"appendfsync": "always"}).start()


@pytest.fixture(scope="module")
def servers(server_process: Callable[..., Any], redis: Any) -> Iterator[list[Any]]:
    pair = [server_process("--store", redis.url).start(wait=False) for _ in range(2)]
    for server in pair:
        server.wait_ready()
    yield pair
    for server in pair:
        server.kill()


@pytest.fixture
def replicas(servers: list[Any], request: pytest.FixtureRequest) -> Iterator[tuple[Replica, Replica]]:
    name = request.node.name.replace("_", "-")[:60]
    httpx2.post(f"{servers[0].url}/v1/models", json={"name": name, "algorithm": "falt"}).raise_for_status()
    with contextlib.ExitStack() as stack:
        urls = [f"{server.url}/v1/models/{name}" for server in servers]
        clients = [stack.enter_context(httpx2.Client(base_url=url, timeout=120)) for url in urls]
        first, second = (Replica(server, http) for server, http in zip(servers, clients, strict=True))
        assert first.status()["updates"] == second.status()["updates"] == 0  # both have the model
        yield first, second


def test_a_frozen_replica_wakes_up_with_a_request_that_another_has_answered(replicas: tuple[Replica, Replica]) -> None:
    frozen, awake = replicas
    answered = frozen.answered_updates()
    os.kill(frozen.server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(httpx2.ReadTimeout):
            frozen.update(timeout=PATIENCE_SECONDS)
        answer = awake.update().raise_for_status()
    finally:
        os.kill(frozen.server.pid, signal.SIGCONT)
    eventually(lambda: frozen.answered_updates() > answered)
    _assert_counted_once(frozen, awake, answer.json()["position"])


def test_two_replicas_append_the_same_update(replicas: tuple[Replica, Replica], redis: Any) -> None:
    first, second = replicas
    redis.pause()
    try:
        for replica in replicas:
            with pytest.raises(httpx2.ReadTimeout):
                replica.update(timeout=PATIENCE_SECONDS)
    finally:
        redis.resume()
    answer = _answered(first)
    assert _answered(second).json() == answer.json()
    _assert_counted_once(first, second, answer.json()["position"])


def test_an_answer_is_lost_and_asked_for_again_elsewhere(replicas: tuple[Replica, Replica]) -> None:
    first, second = replicas
    answer = first.update().raise_for_status()
    again = second.update().raise_for_status()
    assert again.json() == answer.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in answer.headers
    _assert_counted_once(first, second, answer.json()["position"])


def test_the_replica_dies_with_the_request(replicas: tuple[Replica, Replica], redis: Any) -> None:
    """It dies after its append was sent and before it is answered: nobody knows, until the key is used again."""
    dying, other = replicas
    redis.pause()
    try:
        with pytest.raises(httpx2.ReadTimeout):
            dying.update(timeout=PATIENCE_SECONDS)
        dying.server.kill()
    finally:
        redis.resume()
    answer = _answered(other)
    dying.server.start()
    _assert_counted_once(dying, other, answer.json()["position"])


def _answered(replica: Replica) -> httpx2.Response:
    """The update, repeated while it is refused because of what was just done to Redis."""

    def answered() -> httpx2.Response | None:
        response = replica.update()
        return None if response.status_code in {409, 503} else response.raise_for_status()

    return eventually(answered)


def _assert_counted_once(first: Replica, second: Replica, position: str) -> None:
    """At both replicas, also after an update that comes behind whatever else is in the log."""
    for replica in (first, second):
        again = replica.update().raise_for_status()
        assert again.headers["idempotent-replayed"] == "true"
        assert (again.json()["position"], again.json()["updates"]) == (position, 1)
    last = first.http.post("/update", json=UPDATE).raise_for_status().json()
    assert last["updates"] == 2
    eventually(lambda: second.status()["position"] == last["position"])
    assert second.status()["updates"] == first.status()["updates"] == 2
