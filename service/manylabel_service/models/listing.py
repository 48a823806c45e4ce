"""List of models: those in the memory of this process, and those only in the store."""

import asyncio
from collections.abc import Callable, Mapping, Set
from typing import Any

from manylabel_service.errors import ReleaseTooOld, StorageUnavailable
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.online.spec.follow import follow_of
from manylabel_service.online.spec.trained import TrainedSpec, read_spec
from manylabel_service.settings import Settings
from manylabel_service.slices import in_slices
from manylabel_service.storage import ModelMeta, Store

LOOK_UP_SECONDS = 1.0
"""Timeout in seconds of `existing` and `log_lags`."""
SMALL_SPEC_BYTES = 2**16
"""Maximum bytes of a spec parsed on the event loop; a larger one, with thousands of names, is parsed in a thread."""
COUNTED_ENTRIES = 1_000
"""Maximum number of entries counted in a log."""


class Listing:
    """List of the models of a store.

    Parameters
    ----------
    resident : models in memory by name; the caller updates the mapping.
    """

    def __init__(self, store: Store, settings: Settings, resident: Mapping[str, HostedModel]) -> None:
        self._store = store
        self._settings = settings
        self._resident = resident

    async def statuses(
        self, of_interest: Callable[[str], bool], leader: str | None = None
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """List the selected models by name with their status; for models not in memory, with their spec.

        With a `leader`, only that model and its followers. Also returns the names of damaged models. Raises
        StorageUnavailable.
        """
        statuses, damaged = [], []
        async for record in in_slices(sorted(await self._store.models.all(), key=lambda record: record.name)):
            hosted = self._resident.get(record.name)
            if not of_interest(record.name) or (leader not in (None, record.name, _leader_of(record))):
                continue
            if hosted is not None and hosted.record == record and hosted.serving:
                statuses.append({**hosted.status(), "loaded": True})
            elif record.damaged or (hosted is not None and hosted.failed):
                damaged.append(record.name)
            else:
                try:
                    large = len(record.spec) > SMALL_SPEC_BYTES
                    found = await asyncio.to_thread(self.described, record) if large else self.described(record)
                    statuses.append(found)
                except ReleaseTooOld:
                    pass  # another release can read it
                except MemoryError:
                    raise
                except Exception:  # a spec that cannot be read must not hide the other models
                    damaged.append(record.name)
        return statuses, damaged

    async def existing(self, names: Set[str]) -> set[str]:
        """Return the names that belong to existing models; all names if the store does not respond soon."""
        if names <= self._serving():
            return set(names)
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                there = {record.name for record in await self._store.models.all()}
        except (StorageUnavailable, TimeoutError):
            return set(names)
        return there.union(self._serving()).intersection(names)

    async def log_lags(self) -> dict[str, int]:
        """Return, by model, the number of log entries not applied here, up to about `COUNTED_ENTRIES`.

        Empty if the store does not respond in time.
        """
        serving = [hosted for hosted in self._resident.values() if hosted.serving]
        # The same log may be read by several models.
        leading = {hosted.record: hosted.log_position for hosted in serving if hosted.leads}
        following = [hosted for hosted in serving if not hosted.leads]
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                found = await self._store.logs.entries_after(leading, COUNTED_ENTRIES) if leading else {}
                counts = {record.name: count for record, count in found.items()}
                for hosted in following:
                    positions = {hosted.log_record: hosted.log_position}
                    found = await self._store.logs.entries_after(positions, COUNTED_ENTRIES)
                    counts[hosted.name] = sum(found.values())
        except (StorageUnavailable, TimeoutError):
            return {}
        return counts

    def _serving(self) -> set[str]:
        return {name for name, hosted in self._resident.items() if hosted.serving}

    def described(self, record: ModelMeta) -> dict[str, Any]:
        """Return the list entry of a model that is not in memory; raises like `read_spec`."""
        spec, follow = read_spec(record.spec), follow_of(record.spec)
        if isinstance(spec, TrainedSpec):
            return {"name": spec.name, "algorithm": spec.algorithm, "loaded": False}
        return {
            **spec.described(),
            **({} if follow is None else {"follow": follow.to_json()}),
            "loaded": False,
        }


def _leader_of(record: ModelMeta) -> str | None:
    """Return the name of the leader of a model."""
    follow = None if record.damaged else follow_of(record.spec)
    return None if follow is None else follow.model
