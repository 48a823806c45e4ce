"""Quotas of snapshots: in memory while they are stored, and in the store."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from manylabel_service.environment import time
from manylabel_service.errors import LimitExceeded
from manylabel_service.storage import LogExtent, ModelMeta, Store
from manylabel_service.storage.protocol import Bytes, Reason

MAX_BYTES_IN_MEMORY = 2**28
"""Maximum bytes of snapshots stored concurrently; a larger snapshot is stored alone."""

MEASURE_SECONDS = 10.0
"""Seconds between two measurements of the bytes in the store; in between, the bytes stored by this process are
added."""


class SnapshotQuota:
    """Quota of the snapshots of all models of a process.

    Parameters
    ----------
    store : store of the snapshots.
    max_stored_bytes : maximum bytes of snapshots in the store.

    Attributes
    ----------
    bytes_in_memory : bytes of the snapshots that are being stored.
    """

    def __init__(self, store: Store, max_stored_bytes: int) -> None:
        self._store = store
        self._max_stored_bytes = max_stored_bytes
        self._stored_bytes = 0
        self._measured_at: float | None = None
        self._waiting: list[Callable[[], None]] = []
        self._storing: dict[asyncio.Event, int] = {}
        """Incarnations for which blobs are being stored, and events that tell the end."""
        self.bytes_in_memory = 0

    def reserve(self, n_bytes: int, on_free: Callable[[], None]) -> ExitStack | None:
        """Reserve memory, which is released when the returned stack is closed.

        If there is not enough memory, return None, and call `on_free` once when another attempt may succeed.
        """
        if self.bytes_in_memory and self.bytes_in_memory + n_bytes > MAX_BYTES_IN_MEMORY:
            self._waiting.append(on_free)
            return None
        self.bytes_in_memory += n_bytes
        reservation = ExitStack()
        reservation.callback(self._give_back, n_bytes)
        return reservation

    def _give_back(self, n_bytes: int) -> None:
        self.bytes_in_memory -= n_bytes
        waiting, self._waiting = self._waiting, []
        for on_free in waiting:
            on_free()

    @contextmanager
    def storing(self, incarnation: int) -> Iterator[None]:
        """Note that blobs of an incarnation are being stored, until the context ends."""
        ended = asyncio.Event()
        self._storing[ended] = incarnation
        try:
            yield
        finally:
            del self._storing[ended]
            ended.set()

    async def settled(self, incarnation: int) -> None:
        """Wait until no blobs of a deleted incarnation are being stored."""
        for ended in [ended for ended, of in self._storing.items() if of == incarnation]:
            await ended.wait()

    async def add_stored(self, n_bytes: int) -> None:
        """Count bytes to store, minus the bytes that they replace. Raises LimitExceeded or StorageError."""
        total = await self.stored_bytes() + n_bytes
        if total > self._max_stored_bytes:  # snapshots may have been deleted
            total = await self._measure(exact=True) + n_bytes
        if n_bytes > 0 and total > self._max_stored_bytes:
            raise LimitExceeded("the bytes of all snapshots", total, self._max_stored_bytes)
        self._stored_bytes = total

    async def put(
        self,
        successor: ModelMeta,
        position: str,
        data: Bytes,
        extent: LogExtent,
        reasons: Sequence[Reason] = ("recent",),
    ) -> None:
        """Store a snapshot of a successor, which replaces no other snapshot. Raises LimitExceeded or StorageError."""
        if tuple(reasons) != ("history",):
            await self.add_stored(len(data))
        await self._store.snapshots.put(successor, position, data, extent, foreign=True, reasons=reasons)

    async def stored_bytes(self) -> int:
        """Return the bytes of all snapshots in the store, up to `MEASURE_SECONDS` old; raise StorageError."""
        if self._measured_at is None or time.monotonic() - self._measured_at > MEASURE_SECONDS:
            await self._measure(exact=False)
        return self._stored_bytes

    async def _measure(self, exact: bool) -> int:
        self._stored_bytes = await self._store.snapshots.total_bytes(exact)
        self._measured_at = time.monotonic()
        return self._stored_bytes
