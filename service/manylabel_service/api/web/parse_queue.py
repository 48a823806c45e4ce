"""FIFO queue for parsing large bodies one at a time, because parsed values need many times the memory of the bytes."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from manylabel_service.api.web.held_bodies import BodyBuffer
from manylabel_service.api.web.problems import Problem
from manylabel_service.work_rate import GRACE_SHARE, WorkRate

LARGE_BYTES = 2**16
"""Bytes below which a body is parsed at once."""

_AT_ONCE: AbstractAsyncContextManager[None] = nullcontext()


class ParseQueue:
    """FIFO queue of the large bodies of all requests of an application.

    Parsed concurrently, in time slices, all of them would finish last.

    Parameters
    ----------
    held : where those that wait are counted.
    max_seconds : longest that one may have to wait, by how fast others were converted lately.
    clock : seconds.
    """

    def __init__(self, held: BodyBuffer, max_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._held = held
        self._max_seconds = max_seconds
        self._clock = clock
        self._rate = WorkRate(LARGE_BYTES, clock)
        self._n_bytes = 0
        self._converting = asyncio.Lock()

    def turn(self, raw: bytes, deadline: float = math.inf) -> AbstractAsyncContextManager[None]:
        """Return a context to hold while a body is converted; entering it raises a Problem queue_full or server_busy.

        Parameters
        ----------
        raw : the body.
        deadline : seconds of the clock (time.monotonic) by which it has to be its turn.
        """
        return self._turn(len(raw), deadline) if len(raw) >= LARGE_BYTES else _AT_ONCE

    @asynccontextmanager
    async def _turn(self, n_bytes: int, deadline: float) -> AsyncIterator[None]:
        now = self._clock()
        deadline = min(max(deadline, now + GRACE_SHARE * self._max_seconds), now + self._max_seconds)
        self._check_wait(deadline, self._rate.seconds(self._n_bytes))
        self._held.add(n_bytes, n_bytes)
        self._n_bytes += n_bytes
        try:
            async with self._converting:
                self._check_wait(deadline, 0.0)
                self._rate.begin(n_bytes)
                done = 0
                try:
                    yield
                    done = n_bytes
                finally:
                    self._rate.end(done)
        finally:
            self._n_bytes -= n_bytes
            self._held.n_bytes -= n_bytes

    def _check_wait(self, deadline: float, seconds: float) -> None:
        """Raise a Problem queue_full if fewer than `seconds` are left until the deadline."""
        late = self._clock() + seconds - deadline
        if late > 0:
            after = max(1, round(late))
            detail = f"large bodies wait {self._max_seconds:g} s to be read, the limit: retry in {after} s"
            raise Problem("queue_full", detail, headers={"Retry-After": str(after)})
