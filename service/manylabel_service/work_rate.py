"""Rate of recent work, and the expected waiting time of new work."""

from collections.abc import Callable

from manylabel_service.environment import time

SLOWER = 0.8
"""Minimum factor by which one slow measurement lowers the rate, because a disk may be busy briefly."""


GRACE_SHARE = 0.1
"""Share of the maximum wait that every request gets, even if it has already waited or was sent slowly."""


class WorkRate:
    """Rate of sequential work.

    Parameters
    ----------
    timed : minimum work of a step that is measured; shorter steps consist mostly of overhead.
    clock : clock in seconds.
    """

    def __init__(self, timed: int, clock: Callable[[], float] | None = None) -> None:
        self._timed = timed
        self._clock = clock or time.monotonic
        self._rate = 0.0
        """Recent amount of work per second; 0 while it is unknown."""
        self._under_way, self._began = 0, 0.0

    def amount(self, seconds: float) -> float:
        """Return the amount of work done in `seconds`; 0 while the rate is unknown."""
        return self._rate * seconds

    def begin(self, amount: int) -> None:
        """Start a step of `amount` work."""
        self._under_way, self._began = amount, self._clock()

    def end(self, done: int) -> None:
        """End the step after `done` work."""
        self._under_way = 0
        seconds = self._clock() - self._began
        if done >= self._timed and seconds > 0:
            self._rate = max(done / seconds, SLOWER * self._rate)

    def seconds(self, amount: int) -> float:
        """Return the seconds for `amount` after the running step; 0 if the rate is unknown."""
        if not self._rate:
            return 0.0
        under_way = self._under_way / self._rate - (self._clock() - self._began) if self._under_way else 0.0
        return (amount - self._under_way) / self._rate + max(0.0, under_way)
