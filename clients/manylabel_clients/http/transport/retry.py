"""The rule of when a call is tried again, as a small value."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry rule is exponential backoff with jitter.

    Tried again are calls that got no answer (refused, reset, timed out), 429, 502, 503, 504, and 409 while
    the first request with the same idempotency key is still under way. Nothing else: a wrong request stays
    wrong.

    Before the second attempt a client waits `base_seconds`, then twice as long each time, at most
    `cap_seconds`; a random share of up to `jitter` is taken off, so that many clients do not come back
    together. What the server asks for by Retry-After comes on top.

    Raises
    ------
    ValueError
        For a parameter out of range.
    """

    attempts: int = 7
    """Most attempts of one call, the first included; 1 never retries."""
    base_seconds: float = 0.1
    """Wait before the second attempt."""
    cap_seconds: float = 5.0
    """Longest wait of the client's own choosing."""
    jitter: float = 0.5
    """Share of a wait, 0 to 1, that is up to chance."""
    patience_seconds: float = 60.0
    """A Retry-After longer than this is not waited for: the error is raised at once."""
    chance: Callable[[], float] = field(default=random.random, repr=False, compare=False)
    """Where chance comes from: a number in [0, 1) at each call."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")
        if min(self.base_seconds, self.cap_seconds, self.patience_seconds) < 0:
            raise ValueError("base_seconds, cap_seconds and patience_seconds must not be negative")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be in [0, 1], not {self.jitter}")

    def wait_seconds(self, failures: int, retry_after_seconds: float | None = None) -> float | None:
        """Return how long to wait after so many failed attempts; None to give up."""
        asked = retry_after_seconds or 0.0
        if failures >= self.attempts or asked > self.patience_seconds:
            return None
        # Far below 2**63 the cap has decided; the bound keeps the power finite.
        backoff = min(self.cap_seconds, self.base_seconds * 2.0 ** min(failures - 1, 63))
        return asked + backoff * (1 - self.jitter * self.chance())
