"""Eviction of models from memory: idle ones, and the least recently used when memory exceeds its limit."""

import asyncio
from collections.abc import Callable

import structlog

from manylabel_service.environment import time
from manylabel_service.errors import LimitExceeded, ModelNotFound, NotReady, StorageError
from manylabel_service.hosting.hosted_model import HostedModel
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
    replicas : returns the models in memory.
    evict : evicts a model that has no pending work.
    """

    def __init__(
        self, settings: Settings, replicas: Callable[[], list[HostedModel]], evict: Callable[[HostedModel], None]
    ) -> None:
        self._idle_seconds = settings.limits.evict_idle_seconds
        self._most_bytes = settings.max_resident_bytes
        self._replicas = replicas
        self._evict = evict
        self._sizes: dict[HostedModel, tuple[str, int]] = {}
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
        room_for : bytes about to be needed.
        spare : model that must not be evicted.
        """
        await self.resident_bytes()
        excess = self._staying_bytes() + room_for - self._most_bytes
        longest_idle_first = sorted(self._replicas(), key=lambda replica: replica.used_at)
        for replica in longest_idle_first:
            idle_seconds = time.monotonic() - replica.used_at
            due = bool(self._idle_seconds) and idle_seconds >= self._idle_seconds
            # Do not evict the most recently used model, however large it is: it would be loaded again at once.
            too_much = excess > 0 and replica is not longest_idle_first[-1]
            if replica is spare or replica in self._leaving or not (too_much or due):
                continue
            if await self._leaves(replica, "idle" if due else "memory"):
                excess = self._staying_bytes() + room_for - self._most_bytes

    async def _leaves(self, replica: HostedModel, reason: str) -> bool:
        """Start to evict a model; return False if it stays, True if it was evicted or its snapshot is taking long."""
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
        self._evict(replica)
        log.info("model_evicted", model=replica.record.name, position=replica.position, reason=reason)
        return True

    def _staying_bytes(self) -> int:
        """Return the bytes of the models in memory that are not being evicted, as last measured."""
        staying = (replica for replica in self._replicas() if replica not in self._leaving)
        return sum(self._sizes[replica][1] for replica in staying if replica in self._sizes)

    async def resident_bytes(self) -> int:
        """Return the memory of the models in bytes; each model is measured again only after a change."""
        replicas = self._replicas()
        sizes, pace = {}, Pace()
        for replica in replicas:
            position, nbytes = self._sizes.get(replica, (None, 0))
            if position != replica.weighed_at:
                nbytes = replica.nbytes
                await pace.rest()
            sizes[replica] = replica.weighed_at, nbytes
        self._sizes = sizes
        return sum(nbytes for _, nbytes in sizes.values())
