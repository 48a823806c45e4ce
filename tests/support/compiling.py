"""Tiers of compiled functions that are closed, as if they were being compiled or loaded."""

import contextlib
from collections.abc import Iterator

from manylabel_core.kernels import Counts
from manylabel_service.hosting.kernels import GATE, Kernels


class NeverDone(Kernels):
    """Compilation that never ends by itself."""

    async def start(self) -> None:
        """Leave open and closed what is."""


@contextlib.contextmanager
def closed(*tiers: str, stored: int = 25) -> Iterator[None]:
    """Close tiers in this process, of whose 37 functions some are on disk; each of the others takes a second."""
    GATE.loaded -= set(tiers)
    GATE.close(tiers)
    GATE.note({tier: Counts(stored, 37) for tier in tiers}, 1.0)
    try:
        yield
    finally:
        GATE.open(tiers)
