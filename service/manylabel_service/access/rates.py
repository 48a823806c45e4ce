"""Rate limits of keys; each process enforces them separately."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Annotated

from pydantic import ConfigDict, Field

from manylabel_service.documented import Documented
from manylabel_service.errors import RateLimited

MAX_HOLD_SECONDS = 10.0
"""Maximum seconds of backpressure on a stream before it is ended."""
BUSY_SECONDS = 1.0
"""Value in seconds of Retry-After if too many requests are in progress."""


Rate = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]


class RateLimits(Documented):
    """Rate limits of a key; null for no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_second: Rate | None = None
    """Maximum average rate of requests, with a burst of one second."""
    examples_per_second: Rate | None = None
    """Maximum average rate of predicted or learnt examples, with a burst of one second."""
    max_concurrent_requests: Annotated[int, Field(strict=True, ge=1, le=10**6)] | None = None
    """Maximum number of concurrent requests."""


NO_RATES = RateLimits()


class TokenBucket:
    """Token bucket with a capacity of the tokens of one second, at least 1; full at first.

    A request larger than the capacity waits for a full bucket and leaves a deficit, so that the average rate is kept.

    Parameters
    ----------
    rate : tokens per second.
    clock : clock in seconds.
    """

    __slots__ = ("_at", "_clock", "_level", "_rate", "size")

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self.size = max(1.0, rate)
        self._level, self._at = self.size, clock()

    def take(self, n: float) -> float:
        """Take n tokens and return 0. If n tokens are not available, take none and return the seconds until they
        are."""
        now = self._clock()
        self._level = min(self.size, self._level + (now - self._at) * self._rate)
        self._at = now
        lacking = min(n, self.size) - self._level
        if lacking > 0:
            return lacking / self._rate
        self._level -= n
        return 0.0


class RateLimiter:
    """Rate limiter of the requests with one key.

    Each request is made inside ``with limits``, which raises RateLimited on entering.
    """

    def __init__(
        self,
        rates: RateLimits,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.rates, self._sleep = rates, sleep
        self._requests = rates.requests_per_second and TokenBucket(rates.requests_per_second, clock=clock)
        self._examples = rates.examples_per_second and TokenBucket(rates.examples_per_second, clock=clock)
        self._under_way = 0

    def __enter__(self) -> None:
        most = self.rates.max_concurrent_requests
        if most is not None and self._under_way >= most:
            raise RateLimited(
                f"your key has {most:,} requests in progress, the limit of its concurrent requests", BUSY_SECONDS
            )
        if self._requests and (seconds := self._requests.take(1)):
            rate = self.rates.requests_per_second
            raise RateLimited(f"your key allows {rate:,g} requests per second", seconds)
        self._under_way += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._under_way -= 1

    @property
    def most_at_once(self) -> int | None:
        """Maximum number of examples per request; None for no limit."""
        return int(self._examples.size) if self._examples else None

    def charge(self, n_examples: int) -> None:
        """Count examples to predict or learn; raise RateLimited above the rate."""
        if self._examples and (seconds := self._examples.take(n_examples)):
            raise self._too_many(seconds)

    async def hold(self, n_examples: int) -> None:
        """Wait until the rate allows the examples, and count them; raise RateLimited if the wait would be too long."""
        while self._examples and (seconds := self._examples.take(n_examples)):
            if seconds > MAX_HOLD_SECONDS:
                raise self._too_many(seconds)
            await self._sleep(seconds)

    def _too_many(self, seconds: float) -> RateLimited:
        return RateLimited(f"your key allows {self.rates.examples_per_second:,g} examples per second", seconds)
