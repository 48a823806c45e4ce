"""Retry rule of calls."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from manylabel_clients.http.errors import ManyLabelError


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry rule: exponential backoff with jitter.

    A call is retried if there is no response (refused, reset, timed out), or after 429, 502, 503 and 504. It is also
    retried after 409 while the first request with the same idempotency key is in progress. A client waits
    `base_seconds` before the second attempt, then twice as long each time, at most `cap_seconds`. A random share of up
    to `jitter` is subtracted, so that many clients do not retry at the same time. The delay in Retry-After is added.

    Raises
    ------
    ValueError
        For a parameter out of range.
    """

    attempts: int = 7
    """Maximum attempts of one call, including the first; 1 never retries."""
    base_seconds: float = 0.1
    """Seconds before the second attempt."""
    cap_seconds: float = 5.0
    """Maximum seconds of a wait, without Retry-After."""
    jitter: float = 0.5
    """Random share of a wait, 0 to 1."""
    patience_seconds: float = 60.0
    """Maximum seconds of a call with all attempts and waits; only the first attempt may take longer. If Retry-After
    ends later, the error is raised at once.
    """
    wait_compiling: bool = False
    """Whether attempts do not count while a server compiles functions, and patience starts again at each function."""
    on_retry: Callable[[ManyLabelError, float], object] | None = field(default=None, repr=False, compare=False)
    """Callback before each wait, with the error of the last attempt and the seconds until the next one."""
    chance: Callable[[], float] = field(default=random.random, repr=False, compare=False)
    """Source of random numbers in [0, 1)."""
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    """Clock in seconds for `patience_seconds`; set by the client."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")
        if min(self.base_seconds, self.cap_seconds, self.patience_seconds) < 0:
            raise ValueError("base_seconds, cap_seconds and patience_seconds must not be negative")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be in [0, 1], not {self.jitter}")

    def wait_seconds(
        self, failures: int, retry_after_seconds: float | None = None, spent_seconds: float = 0.0
    ) -> float | None:
        """Return the seconds to wait after a number of failed attempts that took a total time; None to give up."""
        asked, left_seconds = retry_after_seconds or 0.0, self.patience_seconds - spent_seconds
        if failures >= self.attempts or asked > left_seconds or left_seconds <= 0:
            return None
        # The cap applies far below 2**63; limiting the exponent keeps the power finite.
        backoff = min(self.cap_seconds, self.base_seconds * 2.0 ** min(failures - 1, 63))
        return min(left_seconds, asked + backoff * (1 - self.jitter * self.chance()))

    def report(self, error: ManyLabelError, seconds: float) -> None:
        """Call `on_retry`, if there is one."""
        if self.on_retry is not None:
            self.on_retry(error, seconds)
