"""List of the models of a store, whether they are in the memory of this process or not."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from manylabel_service.access.grant import ANY, Patterns
from manylabel_service.errors import ReleaseTooOld, StorageUnavailable
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.names import valid
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
MAX_PAGE_MODELS = 1_000
"""Maximum number of models of a page."""
MAX_SCANNED = 10_000
"""Number of scanned models, in the order of their use, after which a page ends, because few of them may match."""


class ListPage(NamedTuple):
    """Page of a list of models, with the names of damaged models, and the position of the next page; None after the
    last page."""

    models: list[dict[str, Any]]
    damaged: list[str]
    next: str | None


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

    async def page(self, patterns: Sequence[str], after: str | None = None, limit: int = MAX_PAGE_MODELS) -> ListPage:
        """Return a page of the models whose names match patterns, by name. Raises StorageUnavailable.

        Parameters
        ----------
        patterns : sorted patterns, such as ``"tags-*"``; a name must match at most one of them.
        after : name after which the page begins.
        limit : maximum number of models.
        """
        found: list[ModelMeta] = []
        for pattern in patterns:
            wanted = limit + 1 - len(found)
            if pattern.endswith(ANY):
                found += await self._store.models.page(pattern[:-1], after or "", wanted)
            elif pattern > (after or "") and (record := await self._store.models.find(pattern)) is not None:
                found.append(record)
            if len(found) > limit:
                return await self._page(found[:limit], found[limit - 1].name)
        return await self._page(found)

    async def records(self, prefix: str) -> list[ModelMeta]:
        """Return the metadata of all models whose names begin with a prefix, by name. Raises StorageUnavailable."""
        records: list[ModelMeta] = []
        while page := await self._store.models.page(prefix, records[-1].name if records else "", MAX_PAGE_MODELS):
            records += page
        return records

    async def recent(self, patterns: Sequence[str], after: str | None = None, limit: int = MAX_PAGE_MODELS) -> ListPage:
        """Return a page of the models whose names match patterns, latest use first.

        A page that is not the last one may have fewer models than `limit`. Raises StorageUnavailable, and ValueError
        unless `after` is the `next` of an earlier page.
        """
        names, before, found, scanned = Patterns(patterns), None if after is None else _use_of(after), [], 0
        while scanned < MAX_SCANNED:
            uses = await self._store.models.recent(before, limit)
            for record, unix_ms, _ in uses:
                before = unix_ms, record.name
                if names.match(record.name):
                    found.append(record)
                    if len(found) == limit:
                        return await self._page(found, f"{unix_ms}.{record.name}")
            if len(uses) < limit:
                return await self._page(found)
            scanned += len(uses)
        assert before is not None
        return await self._page(found, f"{before[0]}.{before[1]}")

    async def family(self, leader: str, of_interest: Callable[[str], bool]) -> ListPage:
        """Return a model and its followers, without models that are not of interest. Raises StorageUnavailable."""
        record = await self._store.models.find(leader)
        records = [] if record is None else [record, *await self._store.models.followers(record)]
        return await self._page(
            sorted((each for each in records if of_interest(each.name)), key=lambda each: each.name)
        )

    async def _page(self, records: Sequence[ModelMeta], next: str | None = None) -> ListPage:
        """Return the entries of models: the status of those in memory, and the spec of the others."""
        statuses, damaged = [], []
        async for record in in_slices(records):
            hosted = self._resident.get(record.name)
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
                    pass  # another release can read the spec
                except MemoryError:
                    raise
                except Exception:  # a spec that cannot be read must not hide the other models
                    damaged.append(record.name)
        return ListPage(statuses, damaged, next)

    async def existing(self, names: Set[str]) -> set[str]:
        """Return the names that belong to existing models; all names if the store does not respond soon."""
        elsewhere = sorted(name for name in names if not self._is_serving(name))
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                found = await asyncio.gather(*map(self._store.models.find, elsewhere))
        except (StorageUnavailable, TimeoutError):
            return set(names)
        gone = {name for name, record in zip(elsewhere, found, strict=True) if record is None}
        return {name for name in names if name not in gone or self._is_serving(name)}

    async def log_lags(self, models: Iterable[HostedModel]) -> dict[str, int]:
        """Return, for each model in memory, the number of log entries that are not applied here, up to about
        `COUNTED_ENTRIES`.

        The result is empty if the store does not respond in time.
        """
        serving = [hosted for hosted in models if hosted.serving]
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

    def _is_serving(self, name: str) -> bool:
        hosted = self._resident.get(name)
        return hosted is not None and hosted.serving

    def described(self, record: ModelMeta) -> dict[str, Any]:
        """Return the list entry of a model that is not in memory. Raises the errors of `read_spec`."""
        spec, follow = read_spec(record.spec), follow_of(record.spec)
        if isinstance(spec, TrainedSpec):
            return {"name": spec.name, "algorithm": spec.algorithm, "loaded": False}
        return {
            **spec.described(),
            **({} if follow is None else {"follow": follow.to_json()}),
            "loaded": False,
        }


def _use_of(text: str) -> tuple[int, str]:
    unix_ms, _, name = text.partition(".")
    if not re.fullmatch("[0-9]{1,15}", unix_ms) or not valid(name):
        raise ValueError("must be the field next of an earlier page")
    return int(unix_ms), name
