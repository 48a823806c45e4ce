"""Circuit breaker for a Redis that does not respond."""

import random
import time

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 1.0


class CircuitBreaker:
    """Circuit breaker: after a failure, one call at a time is tried, with exponential backoff; other calls fail at
    once.

    This prevents calls from accumulating during an outage and from reaching Redis all at once afterwards.
    """

    def __init__(self) -> None:
        self.lost = 0
        """Number of times that contact was lost; a caller that sees it increase may have missed changes."""
        self._wait_seconds = 0.0
        self._try_at = 0.0
        self._failure: BaseException | None = None
        self._trying = False

    @property
    def is_open(self) -> bool:
        """True from a failure until a call gets a response."""
        return self._failure is not None

    def before_call(self) -> BaseException | None:
        """Return the last error if no call is allowed now; None if it is.

        While the breaker is open, the allowed call is a trial: no other call is allowed before `end_trial`.
        """
        if self._failure is None:
            return None
        if self._trying or time.monotonic() < self._try_at:
            return self._failure
        self._trying = True
        return None

    def end_trial(self) -> None:
        """Record the end of a trial."""
        self._trying = False

    def succeeded(self) -> None:
        """Record that a call got a response."""
        if self._failure is not None:
            self._failure = None
            self._wait_seconds = 0.0

    def failed(self, error: BaseException) -> None:
        """Record that a call got no response."""
        if self._failure is None:
            self.lost += 1
        self._failure = error
        self._wait_seconds = min(max(2 * self._wait_seconds, FIRST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
        self._try_at = time.monotonic() + self._wait_seconds * random.uniform(0.5, 1.0)
