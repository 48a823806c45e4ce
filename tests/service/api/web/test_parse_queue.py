"""Large bodies are parsed one at a time, and refused if they would wait too long."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from manylabel_service.api.web.bodies import BodyBuffer
from manylabel_service.api.web.large_json import LARGE_BYTES, ParseQueue
from manylabel_service.api.web.problems import Problem

LARGE = bytes(LARGE_BYTES)


class Turned:
    """ParseQueue on a clock of a test's own."""

    def __init__(self, max_bytes: int = 100 * LARGE_BYTES) -> None:
        self.now = 0.0
        self.held = BodyBuffer(max_bytes, lambda: None)
        self.turns = ParseQueue(self.held, 2.0, lambda: self.now)

    @contextlib.asynccontextmanager
    async def waiting(self, n: int) -> AsyncIterator[asyncio.Event]:
        """Queue that number of large bodies; they get their turn when the event is set."""
        go = asyncio.Event()

        async def convert() -> None:
            async with self.turns.turn(LARGE):
                await go.wait()

        tasks = [asyncio.create_task(convert()) for _ in range(n)]
        await asyncio.sleep(0)
        yield go
        go.set()
        await asyncio.gather(*tasks)

    async def convert(self, seconds: float, raw: bytes = LARGE) -> None:
        async with self.turns.turn(raw):
            self.now += seconds


async def test_bodies_are_parsed_one_at_a_time_in_order() -> None:
    turned, order = Turned(), []

    async def convert(number: int) -> None:
        async with turned.turns.turn(LARGE):
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*map(convert, range(3)))
    assert order == [0, 0, 1, 1, 2, 2]
    assert turned.held.n_bytes == 0


async def test_a_small_body_does_not_wait() -> None:
    turned = Turned()
    async with turned.waiting(3):
        small = asyncio.create_task(turned.convert(1.0, LARGE[1:]))
        large = asyncio.create_task(turned.convert(0.0))
        for _ in range(10):
            await asyncio.sleep(0)
        assert (small.done(), large.done(), turned.now) == (True, False, 1.0)
    await large


async def test_a_body_that_would_wait_too_long_is_refused() -> None:
    turned = Turned()
    await turned.convert(0.5)
    async with turned.waiting(5):  # the last of them waits 2 s, which is allowed
        with pytest.raises(Problem) as refused:
            await turned.convert(0.5)
    assert (refused.value.status, refused.value.code, refused.value.headers) == (
        429,
        "queue_full",
        {"Retry-After": "1"},
    )
    await turned.convert(0.5)


async def test_a_bad_body_does_not_count_for_the_rate() -> None:
    turned = Turned()
    for _ in range(3):
        with contextlib.suppress(ValueError):
            async with turned.turns.turn(LARGE):
                turned.now += 60.0
                raise ValueError("wrong")
    async with turned.waiting(3):
        pass
    await turned.convert(60.0)
    with pytest.raises(Problem):
        async with turned.waiting(3):
            pass


async def test_waiting_bodies_count_for_the_buffer() -> None:
    turned = Turned(max_bytes=3 * LARGE_BYTES)
    async with turned.waiting(3):
        assert turned.held.n_bytes == 3 * LARGE_BYTES
        with pytest.raises(Problem, match="fill the buffer"):
            await turned.convert(0.1)
    assert turned.held.n_bytes == 0
