"""How long ago this process last heard from the store: how old what it answers from memory may be."""

import time

SILENCE_SECONDS = 3.0
"""Seconds without a response after which the store counts as unavailable; it is polled every second. It does not matter
whether the store or this process was frozen."""


class StoreHealth:
    """The clock of the last answer."""

    def __init__(self) -> None:
        self._heard_at = time.monotonic()
        self._lost = False

    @property
    def stale_seconds(self) -> float | None:
        """The seconds for which others may have changed models unseen; None while the store answers."""
        silence = time.monotonic() - self._heard_at
        return silence if self._lost or silence > SILENCE_SECONDS else None

    def heard(self) -> bool:
        """Note that the store answered; return whether it had been lost, and what happened meanwhile has to be read."""
        was_lost = self.stale_seconds is not None
        self._heard_at, self._lost = time.monotonic(), False
        return was_lost

    def lost(self) -> None:
        """Note that the store did not do what it was asked."""
        self._lost = True
