"""Eviction from memory of idle models, and of the least recently used models when memory exceeds its limit."""

import asyncio
from collections.abc import Callable

import structlog

from manylabel_service.environment import time
from manylabel_service.errors import LimitExceeded, ModelNotFound, NotReady, StorageError
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.models.resident import ResidentModels
from manylabel_service.settings import Settings
from manylabel_service.slices import Pace

SWEEP_SECONDS = 1.0
PATIENCE_SECONDS = 2.0
"""Maximum seconds to wait for the last snapshot of one model. A slower snapshot is completed in the background, and the
model is evicted afterwards.
"""

log = structlog.get_logger()


class Eviction:
    """Evictor of idle and least recently used models.

    Eviction loses nothing: the state is in the log, and a last snapshot keeps the replay short.

    Parameters
    ----------
    settings : limits of memory and idle time.
    resident : models in memory.
    evict : evicts a model that has no pending work.
    """

    def __init__(self, settings: Settings, resident: ResidentModels, evict: Callable[[HostedModel], None]) -> None:
        self._idle_seconds = settings.limits.evict_idle_seconds
        self._most_bytes = settings.max_resident_bytes
        self._resident = resident
        self._evict = evict
        self._leaving: dict[HostedModel, asyncio.Task[bool]] = {}

    async def run(self) -> None:
        """Sweep periodically until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
            except Exception:  # the next sweep may succeed; without sweeps, memory would grow
                log.exception("eviction_failed")

    async def sweep(self, room_for: int = 0, spare: HostedModel | None = None) -> None:
        """Evict idle models, and the least recently used ones while the memory limit is exceeded.

        Parameters
        ----------
        room_for : bytes that will be needed soon.
        spare : model that must not be evicted.
        """
        await self.resident_bytes()
        excess = self._staying_bytes() + room_for - self._most_bytes
        latest = next(self._resident.latest(), None)
        for replica in list(self._resident.values()):  # least recently used first
            idle_seconds = time.monotonic() - replica.used_at
            due = bool(self._idle_seconds) and idle_seconds >= self._idle_seconds
            if not due and excess <= 0:
                break
            # Do not evict the most recently used model, however large it is: it would be loaded again at once.
            if replica is spare or replica in self._leaving or (replica is latest and not due):
                continue
            if await self._leaves(replica, "idle" if due else "memory"):
                excess = self._staying_bytes() + room_for - self._most_bytes

    async def _leaves(self, replica: HostedModel, reason: str) -> bool:
        """Start to evict a model. Return True if it was evicted, or if its snapshot takes long; False if it stays."""
        task = self._leaving[replica] = asyncio.create_task(self._take_out(replica, reason))
        task.add_done_callback(lambda _: self._leaving.pop(replica))
        await asyncio.wait([task], timeout=PATIENCE_SECONDS)
        return not task.done() or (not task.cancelled() and task.result())

    async def _take_out(self, replica: HostedModel, reason: str) -> bool:
        if not replica.evictable:
            return False
        used_at = replica.used_at
        try:
            covered = await replica.cover()
        except (ModelNotFound, NotReady, LimitExceeded):
            return False  # the model is already being evicted
        except StorageError as error:
            log.warning("model_eviction_failed", model=replica.record.name, error=str(error))
            return False
        except Exception:  # the others may still be evicted
            log.exception("model_eviction_failed", model=replica.record.name)
            return False
        if not covered or not replica.evictable or replica.used_at != used_at:
            return False  # a request has used the model in the meantime
        log.info("model_evicted", model=replica.record.name, position=replica.position, reason=reason)
        self._evict(replica)
        return True

    def _staying_bytes(self) -> int:
        """Return the last measured bytes of the models in memory that are not being evicted."""
        return self._resident.nbytes - sum(map(self._resident.size, self._leaving))

    async def resident_bytes(self) -> int:
        """Return the memory of the models in bytes; only models that have changed are measured again."""
        pace = Pace()
        while self._resident.changed:
            self._resident.measure(next(iter(self._resident.changed)))
            await pace.rest()
        return self._resident.nbytes
