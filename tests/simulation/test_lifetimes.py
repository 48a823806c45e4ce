"""The simulator itself, and a fixed number of lifetimes."""

import asyncio
import random
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.simulation.loop import PROCESS, SimulatedLoop, Stuck
from tests.support.lanes import allowed

LIFETIMES = 120
"""Half a minute of one core that does nothing else; `make test-long` runs many more."""


@pytest.fixture
@allowed
def simulate() -> Callable[..., str]:
    """Run lifetimes in a process whose sets have a fixed order; return what it prints."""

    def run(*arguments: object) -> str:
        command = [sys.executable, "-m", "tests.simulation", *map(str, arguments)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run


@pytest.mark.parametrize("seed", [0, LIFETIMES // 2])
def test_no_lifetime_breaks_a_promise(seed: int, simulate: Callable[..., str]) -> None:
    """The report of crashes has calls of the store and awaits of the product."""
    printed = simulate("--seed", seed, "--count", LIFETIMES // 2, "--coverage")
    assert f"'lifetimes': {LIFETIMES // 2}," in printed
    assert re.search(r"(Logs|Documents|Blobs)\.\w+: .*crash before the (effect|reply) [1-9]", printed)
    assert re.search(r"online/updates/applier\.py: [1-9]\d* of \d+; never at lines \d", printed)


def test_servers_crash_at_calls_of_the_store(simulate: Callable[..., str]) -> None:
    plain, at_calls = [simulate("--seed", 500, "--count", 2, *more) for more in ([], ["--at-calls"])]
    assert "'crash at a call'" not in plain
    assert "'crash at a call'" in at_calls
    assert "'lifetimes': 2," in simulate("--seed", 500, "--count", 1, "--twice", "--at-calls")


def test_a_seed_repeats(simulate: Callable[..., str]) -> None:
    assert "'lifetimes': 4," in simulate("--seed", 1_000, "--count", 2, "--twice")


async def _count(done: list[str], n: int) -> None:
    for _ in range(n):
        await asyncio.sleep(0)
        done.append(PROCESS.get())


def interleaved(seed: int) -> list[str]:
    loop, done = SimulatedLoop(random.Random(seed)), list[str]()
    tasks = [loop.spawn(name, _count(done, 10)) for name in "ab"]
    loop.run_until_complete(asyncio.wait(tasks))
    loop.dispose()
    return done


def test_the_seed_chooses_the_order_of_processes() -> None:
    assert interleaved(1) == interleaved(1) != interleaved(2)


def test_callbacks_of_a_process_keep_their_order() -> None:
    loop, done = SimulatedLoop(random.Random(0)), list[int]()
    for n in range(20):
        loop.call_soon(done.append, n)
    loop.run_until_complete(asyncio.sleep(0))
    loop.dispose()
    assert done == list(range(20))


def test_time_jumps_to_the_next_timer() -> None:
    loop = SimulatedLoop(random.Random(0))
    began = loop.time()
    loop.run_until_complete(asyncio.sleep(3_600))
    assert 3_600 <= loop.time() - began < 3_601
    loop.dispose()


def test_a_crashed_process_never_runs_again() -> None:
    loop, done = SimulatedLoop(random.Random(0)), list[str]()

    async def clean_up() -> None:
        try:
            await _count(done, 1_000)
        finally:
            done.append("cleaned up")

    task = loop.spawn("a", clean_up())
    loop.spawn("a", asyncio.sleep(1)).add_done_callback(lambda _: done.append("timer"))
    loop.crash_after("a", 10, lambda: done.append("crash"))
    loop.run_until_complete(asyncio.sleep(5))
    assert done[-1] == "crash"
    assert not task.done()
    task.get_coro().close()  # type: ignore[union-attr]
    loop.dispose()


def test_a_deadlock_ends_the_simulation() -> None:
    loop = SimulatedLoop(random.Random(0))
    with pytest.raises(Stuck, match="deadlock"):
        loop.run_until_complete(asyncio.Event().wait())
    loop.dispose()


def test_a_thread_ends_later() -> None:
    loop = SimulatedLoop(random.Random(0))

    async def work() -> tuple[float, int]:
        began = loop.time()
        result = await asyncio.to_thread(int, "7")
        return loop.time() - began, result

    seconds, result = loop.run_until_complete(work())
    assert (seconds > 0, result) == (True, 7)
    loop.dispose()
