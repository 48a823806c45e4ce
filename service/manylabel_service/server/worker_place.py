"""Slot of a worker among the workers of its server."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """Slot of a worker among the workers of its server.

    Attributes
    ----------
    number : 0 for the first; a replacement has that of the worker it replaces.
    count : how many there are.
    directory : private to this server; the workers' own sockets are there.
    held : to accept nothing before everything is restored, because others are ready meanwhile.
    """

    number: int
    count: int
    directory: Path
    held: bool
