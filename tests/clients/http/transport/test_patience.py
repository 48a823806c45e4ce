"""The patience bounds the attempts and the waits of a call together."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each

from manylabel_clients import AsyncClient, Client, ConnectionFailed, ManyLabelError, Retry, Unavailable

ANY_NUMBER = 200


class Clock:
    """A clock that only attempts and waits move."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.timeouts: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def sleep_in_loop(self, seconds: float) -> None:
        self.now += seconds

    def unavailable(self, request: httpx2.Request) -> httpx2.Response:
        """Answer 503 after half a second, and ask for 7 s."""
        self.timeouts.append(request.extensions["timeout"]["read"])
        self.now += 0.5
        problem = {"status": 503, "code": "storage_unavailable", "detail": "gone"}
        headers = {"Retry-After": "7", "Content-Type": "application/problem+json"}
        return httpx2.Response(503, json=problem, headers=headers)

    def hangs(self, request: httpx2.Request) -> httpx2.Response:
        """Answer never."""
        self.timeouts.append(request.extensions["timeout"]["read"])
        self.now += self.timeouts[-1]
        raise httpx2.ReadTimeout("slow", request=request)


@for_each("patience_seconds", [20, 60])
@for_each(("trouble", "error"), [(Clock.unavailable, Unavailable), (Clock.hangs, ConnectionFailed)])
@for_each("kind", [Client, AsyncClient])
async def test_a_call_ends_with_its_patience(
    kind: Any, trouble: Callable[..., Any], error: type[ManyLabelError], patience_seconds: int
) -> None:
    clock = Clock()
    sleep = clock.sleep if kind is Client else clock.sleep_in_loop
    retry = Retry(attempts=ANY_NUMBER, patience_seconds=patience_seconds, cap_seconds=5)
    transport = httpx2.MockTransport(lambda request: trouble(clock, request))
    client = kind(timeout=8, retry=retry, transport=transport, sleep=sleep, clock=clock)

    async def call() -> None:
        asked = client.models()
        if kind is AsyncClient:
            await asked

    with pytest.raises(error):
        await call()
    assert patience_seconds - 8 <= clock.now - 1_000 <= patience_seconds + 1
    assert len(clock.timeouts) > 1
    assert clock.timeouts[0] == 8, "the first attempt has the timeout of the client"


def test_each_wait_is_reported_with_its_reason() -> None:
    clock, waits = Clock(), []
    retry = Retry(attempts=3, jitter=0, on_retry=lambda error, seconds: waits.append((type(error), seconds)))
    transport = httpx2.MockTransport(clock.unavailable)
    with (
        Client(retry=retry, transport=transport, sleep=clock.sleep, clock=clock) as client,
        pytest.raises(Unavailable),
    ):
        client.models()
    assert waits == [(Unavailable, pytest.approx(7.1)), (Unavailable, pytest.approx(7.2))]


def test_events_without_a_connection_end_with_the_patience() -> None:
    clock, waits = Clock(), []
    retry = Retry(attempts=ANY_NUMBER, patience_seconds=30, on_retry=lambda *told: waits.append(told))
    transport = httpx2.MockTransport(clock.unavailable)
    with (
        Client(retry=retry, transport=transport, sleep=clock.sleep, clock=clock) as client,
        pytest.raises(Unavailable),
    ):
        list(client.model("m").events())
    assert 0 < len(waits) <= 4
    assert clock.now - 1_000 <= 31
