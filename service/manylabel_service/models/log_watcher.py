"""Watcher for changes that other processes make to the models of this process."""

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from manylabel_service.backoff import pauses
from manylabel_service.errors import ModelGone, StorageUnavailable
from manylabel_service.hosting.hosted_model import HostedModel, StoreHealth
from manylabel_service.models.resident import ResidentModels
from manylabel_service.storage import DocumentFollower, Store, is_after
from manylabel_service.trained.model import END
from manylabel_service.trained.version_store import KIND

WAIT_SECONDS = 1.0
"""Seconds that one call waits for a change; also the maximum delay before a newly loaded model is watched."""
LEAST_SECONDS = 0.02
"""Minimum seconds between two calls, which limits the number of calls during a stream of changes."""
POLL_SECONDS = 0.5
"""Poll interval in seconds for versions of trained models changed by other processes; the store sends no
notification."""
CHECK_SECONDS = 5.0
"""Seconds between two checks of some models in turn, which find what the store has lost or did not announce."""
CHECKED_AT_ONCE = 100
"""Number of models that are compared with their logs at a time."""
RESTING = 5
"""Minimum pause between two checks of all models, as a multiple of the time that a check takes."""
FOLLOW_SECONDS = 0.25
"""Poll interval in seconds for models that follow a model of this process."""
BACKOFF_SECONDS = (0.1, 2.0)
"""Minimum and maximum seconds between two attempts while the store is unavailable."""

log = structlog.get_logger()


class LogWatcher:
    """Watcher that wakes the models whose log has grown."""

    def __init__(self, store: Store, store_health: StoreHealth, resident: ResidentModels) -> None:
        self._store = store
        self._store_health = store_health
        self._resident = resident
        self._told = False  # whether the unavailable store has been logged
        self._cursor = ""
        self._missed = False  # whether there may be changes that the cursor does not show
        self._ahead: dict[HostedModel, str | None] = {}
        """Models that have not reached the end of their log, with its position; None if it is deleted."""
        self._arrived = set[HostedModel]()
        resident.arrivals.append(self._arrived)
        self._turn: list[str] = []  # names
        self._turn_at = self._rests_until = 0.0

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff = pauses(*BACKOFF_SECONDS)
        self._missed = True  # an earlier run may have ended between a change and its effect
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._follow()
            except StorageUnavailable as error:
                self._store_health.lost()
                if not self._told:
                    log.warning("store_unavailable", error=str(error), action="predictions continue; retrying")
                self._told = True
                await asyncio.sleep(next(backoff))
                continue
            except Exception:  # otherwise this process would never see a change again
                self._missed = True
                log.exception("follower_failed")
                await asyncio.sleep(BACKOFF_SECONDS[1])
                continue
            backoff = pauses(*BACKOFF_SECONDS)
            elapsed = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(LEAST_SECONDS - elapsed, 0))

    async def poll_versions(self) -> None:
        """Wake the trained models whose versions have changed, until cancelled."""
        follower = DocumentFollower(self._store.documents, KIND)
        revisions: dict[str, int] = {}
        while True:
            await asyncio.sleep(POLL_SECONDS)
            models = [each for each in self._resident.trained if each.serving]
            if not models:
                continue
            try:
                documents, names = await follower.poll()
            except StorageUnavailable:
                continue
            except Exception:
                log.exception("follower_failed")
                continue
            if names is not None:
                revisions = {name: revision for name, revision in revisions.items() if name in names}
            before = dict(revisions)
            revisions.update((document.name, document.revision) for document in documents)
            for model in models:
                name = str(model.record.incarnation)
                revision = revisions.get(name, 0)
                if revision > int(model.position) or revision < before.get(name, 0):  # lower if the store lost changes
                    model.poll()

    async def poll_followers(self) -> None:
        """Wake the followers whose leader in this process has learnt more, until cancelled."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            for replica in self._resident.followers:
                if replica.busy or replica.failed:
                    continue
                leader = self._leader(replica)
                position = replica.log_position if leader is None else leader.log_position
                if replica.catching_up or (position != replica.log_position and not replica.log_ended):
                    replica.poll()

    def _leader(self, replica: HostedModel) -> HostedModel | None:
        """Return the model that a follower follows, if it is serving in this process."""
        log = replica.log_record
        leader = self._resident.get(log.name)
        there = leader is not None and leader.serving and leader.record.incarnation == log.incarnation
        return leader if there else None

    async def _follow(self) -> None:
        changes = await self._store.logs.changed(self._cursor, 0.0 if self._ahead else WAIT_SECONDS)
        self._cursor = changes.cursor
        self._missed |= not changes.complete or self._store_health.stale_seconds is not None
        await self._compare(changes.ends, {})
        now = asyncio.get_running_loop().time()
        if self._missed and now >= self._rests_until:
            self._missed = False
            await self._check(list(self._resident.values()))
            ended = asyncio.get_running_loop().time()
            self._rests_until = ended + RESTING * (ended - now)
        elif self._store.shared:  # only this process appends to another store
            await self._check(self._due(now))
        if self._store_health.responded():
            self._missed = True  # a model may have lost contact while others were checked
            if self._told:
                log.info("store_recovered")
            self._told = False
            # Versions of trained models are not in the log; a failed call may not have reached the end of the log.
            for model in self._store_health.take_failed() | self._resident.trained:
                if _is_followed(model):
                    model.poll()
        self._poll_ahead()

    def _due(self, now: float) -> list[HostedModel]:
        """Return the models that are new in memory, and from time to time the next ones in turn."""
        due = list(self._arrived)
        if now >= self._turn_at:
            self._turn_at = now + CHECK_SECONDS
            self._turn = self._turn or list(self._resident)
            due += [self._resident[name] for name in self._turn[-CHECKED_AT_ONCE:] if name in self._resident]
            del self._turn[-CHECKED_AT_ONCE:]
        return due

    async def _check(self, models: Sequence[HostedModel]) -> None:
        """Compare models with the ends of their logs."""
        for begin in range(0, len(models), CHECKED_AT_ONCE):
            some = models[begin : begin + CHECKED_AT_ONCE]
            known = {model: model.log_position for model in some if _is_followed(model)}
            records = {record for model in known for record in (model.record, model.log_record)}
            ends = await self._store.logs.ends(records)
            self._arrived.difference_update(some)
            await self._compare(ends, known)

    async def _compare(self, ends: Mapping[int, str | None], known: Mapping[HostedModel, str]) -> None:
        """Note the models that are behind the ends of logs.

        Poll the ones whose logs end before a position that was known when the store was asked: it has lost entries.
        """
        for incarnation, end in ends.items():
            for model in list(self._resident.readers(incarnation)):
                if model.log_record.incarnation != incarnation:  # nothing appends to the log of a follower
                    if end is None:
                        await self._look_for(model)
                elif end is None or is_after(end, model.log_position):
                    self._ahead[model] = end
                elif (position := known.get(model, END)) != END and is_after(position, end):
                    model.poll()

    def _poll_ahead(self) -> None:
        """Poll the models that are behind their logs, except busy ones: their own appends are the usual cause."""
        for model, end in list(self._ahead.items()):
            reached = end is not None and not is_after(end, model.log_position)
            if not self._resident.has(model) or not _is_followed(model) or reached or model.log_ended:
                del self._ahead[model]
            elif not model.busy and not model.catching_up and (model.leads or self._leader(model) is None):
                del self._ahead[model]
                model.poll()

    async def _look_for(self, replica: HostedModel) -> None:
        """End a follower that another process has deleted; no log shows this deletion."""
        record = replica.record
        if replica.serving and await self._store.models.find(record.name) != record:
            replica.handle_error(ModelGone(record.name, record.incarnation))


def _is_followed(model: HostedModel) -> bool:
    return model.serving or model.catching_up
