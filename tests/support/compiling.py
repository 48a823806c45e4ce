"""Tiers of compiled functions that are closed, as if they were being compiled."""

import contextlib
from collections.abc import Iterator

from manylabel_core.kernels import Counts
from manylabel_service.hosting.kernels import GATE, Kernels


class NeverDone(Kernels):
    """Compilation that never ends by itself."""

    async def start(self) -> None:
        """Leave open and closed what is."""


@contextlib.contextmanager
def closed(*tiers: str) -> Iterator[None]:
    """Close tiers in this process; a function takes a second, and 12 of each tier are left."""
    GATE.loaded -= set(tiers)
    GATE.close(tiers)
    GATE.note({tier: Counts(25, 37) for tier in tiers}, 1.0)
    try:
        yield
    finally:
        GATE.open(tiers)
