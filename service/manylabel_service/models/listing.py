"""Which models there are: those in the memory of this process, and those that only the store has."""

import asyncio
from collections.abc import Callable, Mapping, Set
from typing import Any

from manylabel_service.errors import ReleaseTooOld, StorageUnavailable
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.online.spec.trained import TrainedSpec, read_spec
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelMeta, Store

LOOK_UP_SECONDS = 1.0
"""Timeout in seconds of `existing` and `log_lags`."""
COUNTED_ENTRIES = 1_000
"""Maximum number of entries counted in a log."""


class Listing:
    """Lists the models.

    Parameters
    ----------
    resident : those in memory, by name; another class changes it.
    """

    def __init__(self, store: Store, settings: Settings, resident: Mapping[str, HostedModel]) -> None:
        self._store = store
        self._settings = settings
        self._resident = resident

    async def statuses(self, of_interest: Callable[[str], bool]) -> tuple[list[dict[str, Any]], list[str]]:
        """List the models of interest by name, with what there is to know; of those not in memory, what they are.

        Returns the names of damaged ones too.

        Raises
        ------
        StorageUnavailable
        """
        statuses, damaged = [], []
        for record in sorted(await self._store.models.all(), key=lambda record: record.name):
            hosted = self._resident.get(record.name)
            if not of_interest(record.name):
                continue
            if hosted is not None and hosted.record == record and hosted.serving:
                statuses.append({**hosted.status(), "loaded": True})
            elif record.damaged or (hosted is not None and hosted.failed):
                damaged.append(record.name)
            else:
                try:
                    statuses.append(self._described(record))
                except ReleaseTooOld:
                    pass  # another release can read it
                except Exception:  # a spec that cannot be read must not hide the other models
                    damaged.append(record.name)
            await asyncio.sleep(0)  # let other requests run between two models
        return statuses, damaged

    async def existing(self, names: Set[str]) -> set[str]:
        """Return those of these names that models have; where the store does not answer soon, all of them."""
        if names <= self._serving():
            return set(names)
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                there = {record.name for record in await self._store.models.all()}
        except (StorageUnavailable, TimeoutError):
            return set(names)
        return there.union(self._serving()).intersection(names)

    async def log_lags(self) -> dict[str, int]:
        """Return, by model, the number of log entries not applied here; about `COUNTED_ENTRIES` stands for more.

        Empty if the store does not respond in time.
        """
        following = {hosted.record: hosted.log_position for hosted in self._resident.values() if hosted.serving}
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                counts = await self._store.logs.entries_after(following, COUNTED_ENTRIES) if following else {}
        except (StorageUnavailable, TimeoutError):
            return {}
        return {record.name: count for record, count in counts.items()}

    def _serving(self) -> set[str]:
        return {name for name, hosted in self._resident.items() if hosted.serving}

    def _described(self, record: ModelMeta) -> dict[str, Any]:
        spec = read_spec(record.spec)
        if isinstance(spec, TrainedSpec):
            return {"name": spec.name, "algorithm": spec.algorithm, "loaded": False}
        return {
            **spec.described(),
            "durability": spec.durability or self._settings.durability,
            "loaded": False,
        }
