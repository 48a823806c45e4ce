"""Watcher for changes that other processes make to the models of this process."""

import asyncio

import structlog

from manylabel_service.backoff import pauses
from manylabel_service.errors import ModelGone, StorageUnavailable
from manylabel_service.hosting.hosted_model import HostedModel, StoreHealth
from manylabel_service.models.resident import ResidentModels
from manylabel_service.storage import SEED, START, DocumentFollower, Store, position_key
from manylabel_service.trained.version_store import KIND

WAIT_SECONDS = 1.0
"""Seconds that one call waits for a change; also the maximum delay before a newly loaded model is watched."""
LEAST_SECONDS = 0.02
"""Minimum seconds between two calls, which limits the number of calls during a stream of changes."""
POLL_SECONDS = 0.5
"""Poll interval in seconds for versions of trained models changed by other processes; the store sends no
notification."""
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

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff = pauses(*BACKOFF_SECONDS)
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
                log = replica.log_record
                leader = self._resident.get(log.name)
                there = leader is not None and leader.serving and leader.record.incarnation == log.incarnation
                position = leader.log_position if leader is not None and there else replica.log_position
                if replica.catching_up or (position != replica.log_position and not replica.log_ended):
                    replica.poll()

    async def _follow(self) -> None:
        # Only this process appends to a store that is not shared.
        replicas = [replica for replica in self._resident.values() if replica.serving] if self._store.shared else []
        positions = {replica.record: replica.log_position for replica in replicas if replica.leads}
        leading = {record.incarnation for record in positions}
        for replica in replicas:
            if replica.leads:
                continue
            positions[replica.record] = SEED  # the log of a follower stays empty, so only its deletion is watched
            log = replica.log_record
            if log.incarnation not in leading and not replica.log_ended:
                positions[log] = max(positions.get(log, START), replica.log_position, key=position_key)
        changed = set(await self._store.logs.changed(positions, WAIT_SECONDS))
        if self._store_health.responded():
            self._poll_everywhere()
            return
        for replica in replicas:
            if not replica.leads and replica.record in changed:
                await self._look_for(replica)
            # A model that has advanced, or is applying, is polled again next time: its own append is the usual cause.
            log = replica.log_record
            if log in changed and not replica.busy and (not replica.leads or replica.log_position == positions[log]):
                replica.poll()

    async def _look_for(self, replica: HostedModel) -> None:
        """End a follower that another process has deleted; no log shows this deletion."""
        record = replica.record
        if replica.serving and await self._store.models.find(record.name) != record:
            replica.handle_error(ModelGone(record.name, record.incarnation))

    def _poll_everywhere(self) -> None:
        """Poll all models after the store is back, including busy ones, to detect lost data."""
        if self._told:
            log.info("store_recovered")
        self._told = False
        for replica in self._resident.values():
            if replica.serving:
                replica.poll()
