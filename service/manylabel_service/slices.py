"""Time slices: work that takes long on the event loop lets other tasks run between two slices."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Generic, TypeVar

from manylabel_service.environment import time

T = TypeVar("T")

SLICE_SECONDS = 0.002
"""Target duration of a slice in seconds, which is the maximum delay of a prediction that arrives during a slice."""


class SliceSize:
    """Number of examples per slice, estimated from the time of earlier slices."""

    def __init__(self) -> None:
        self._seconds_per_example = SLICE_SECONDS / 16

    @property
    def examples(self) -> int:
        return max(1, int(SLICE_SECONDS / self._seconds_per_example))

    def observe(self, examples: int, seconds: float) -> None:
        """Update the estimate by a quarter of the difference to a measurement: `examples` took `seconds`."""
        self._seconds_per_example += 0.25 * (max(seconds / examples, 1e-7) - self._seconds_per_example)


class HalfPace:
    """Throttle of background work to half of the event loop: it pauses after each step for the duration of the step.

    All background work of a process shares one throttle.
    """

    def __init__(self) -> None:
        self._free_at = 0.0

    async def turn(self) -> None:
        """Wait until work may start; the caller must start it without another await."""
        await asyncio.sleep(0)
        while (seconds := self._free_at - time.perf_counter()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(seconds)

    def worked(self, seconds: float) -> None:
        """Count completed work."""
        self._free_at = max(self._free_at, time.perf_counter()) + seconds


class Pace:
    """Yields to the event loop during long work, once per time slice."""

    seconds = SLICE_SECONDS

    def __init__(self) -> None:
        self._ends = time.perf_counter() + self.seconds

    async def rest(self) -> None:
        """Let other tasks run if the slice has ended."""
        if time.perf_counter() >= self._ends:
            await asyncio.sleep(0)
            self._ends = time.perf_counter() + self.seconds


def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Return an iterator that yields items, and lets other tasks run once per slice of time."""
    return _Slices(items)


class _Slices(Pace, Generic[T]):
    def __init__(self, items: Iterable[T]) -> None:
        super().__init__()
        self._items = iter(items)

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        for item in self._items:
            if time.perf_counter() >= self._ends:  # a call for each item would take as long as the loop
                await self.rest()
            return item
        raise StopAsyncIteration


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread, and return the result. A cancelled caller waits until the thread has ended, and holds its
    locks until then."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
