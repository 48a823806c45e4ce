"""Times of the last use of models: a server restores recently used models after a start, and lists can be sorted by
them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from hashlib import blake2b

import structlog

from manylabel_service.environment import time
from manylabel_service.errors import StorageError
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.models.resident import ResidentModels
from manylabel_service.storage import Store
from manylabel_service.storage.models import Use

RECORD_SECONDS = 10.0
"""Interval in seconds between two recordings of uses; a killed process loses the uses since the last one."""

PAGE_MODELS = 100
"""Number of models read at a time."""

log = structlog.get_logger()


class Uses:
    """Recorder and reader of the last uses of models.

    Parameters
    ----------
    store : store of the models.
    resident : models in memory.
    """

    def __init__(self, store: Store, resident: ResidentModels) -> None:
        self._store = store
        self._resident = resident
        self._evicted: dict[str, float] = {}
        """Times of the last use of models that have left the memory since the last record."""

    async def run(self) -> None:
        """Record uses periodically until cancelled."""
        while True:
            await asyncio.sleep(RECORD_SECONDS)
            try:
                await self.record()
            except StorageError:
                pass  # the uses are recorded later
            except Exception:
                log.exception("uses_not_recorded")

    async def record(self) -> None:
        """Record the models used since the last call; raises StorageError."""
        at, used = time.monotonic(), list(self._resident.used)
        uses = {**self._evicted, **{model.name: at if model.users else model.used_at for model in used}}
        if uses:
            await self._store.models.use({name: round(1_000 * (at - used_at)) for name, used_at in uses.items()})
        # A model with users, such as a long stream, is used all the time.
        self._resident.used.difference_update(each for each in used if not each.users and each.used_at <= at)
        self._evicted = {name: used_at for name, used_at in self._evicted.items() if used_at > at}

    def note_evicted(self, model: HostedModel) -> None:
        """Note that a model leaves the memory."""
        if model in self._resident.used:
            self._evicted[model.name] = model.used_at

    async def recent(self, seconds: float = 0.0) -> AsyncIterator[tuple[Use, float]]:
        """Yield the models used within a number of seconds (0: all), latest use first; raises StorageError.

        Each model has the time.monotonic() of its last use, or an earlier time.
        """
        before = None
        while True:
            asked_at = time.monotonic()
            page = await self._store.models.recent(before, PAGE_MODELS)
            for use in page:
                if seconds and use.age_ms > 1_000 * seconds:
                    return
                yield use, asked_at - use.age_ms / 1_000
            if len(page) < PAGE_MODELS:
                return
            before = page[-1].unix_ms, page[-1].record.name


def assigned_to(name: str, members: Iterable[str]) -> str:
    """Return the member to which a model is assigned. By rendezvous hashing, few models move when members change."""
    return max(members, key=lambda member: blake2b(f"{member} {name}".encode(), digest_size=8).digest())
