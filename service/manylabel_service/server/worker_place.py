"""Slot of a worker among the workers of its server."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """Slot of a server process among the processes of its server.

    Attributes
    ----------
    number : number from 0; a replacement has the number of the replaced process.
    count : number of processes.
    directory : private directory of this server with the sockets of the processes.
    held : whether to accept connections only after all models are restored, because other processes are ready.
    """

    number: int
    count: int
    directory: Path
    held: bool
