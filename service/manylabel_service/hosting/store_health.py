"""Time since this process last reached the store: the maximum age of predictions from memory."""

from manylabel_service.environment import time

SILENCE_SECONDS = 3.0
"""Seconds without a response after which the store counts as unavailable; it is polled every second. It does not matter
whether the store or this process was frozen."""


class StoreHealth:
    """Clock at the last response of the store."""

    def __init__(self) -> None:
        self._heard_at = time.monotonic()
        self._lost = False

    @property
    def stale_seconds(self) -> float | None:
        """Seconds for which changes by other processes may be missing; None while the store responds."""
        silence = time.monotonic() - self._heard_at
        return silence if self._lost or silence > SILENCE_SECONDS else None

    def responded(self) -> bool:
        """Note a response of the store; return whether it was unavailable, so that changes may be missing."""
        was_lost = self.stale_seconds is not None
        self._heard_at, self._lost = time.monotonic(), False
        return was_lost

    def lost(self) -> None:
        """Note that a store call failed."""
        self._lost = True
