"""Replacement of models by their successors, and recovery after a crash.

The change and its owner are first written to the lineage document, then the staged successors. The data of the
successors is written almost up to the end of the log; then the log is sealed, and the rest is written. The successors
get the names atomically, and the old models are purged. A process that finds a change whose owner is dead checks
whether the successor has the name. If so, it purges the old models. If not, it discards the successors, which prevents
an owner that was only paused from completing the change, and unseals the log.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import structlog

from manylabel_service.backoff import pauses
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.errors import DocumentDamaged, ModelGone, RevisionConflict, ServiceError, StorageUnavailable
from manylabel_service.models.garbage import GarbageCollector
from manylabel_service.models.membership import Membership
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.history.lineage import (
    MAX_INCARNATIONS,
    Lineage,
    LineageStore,
    Promotion,
    Receipt,
    Succession,
)
from manylabel_service.online.replica import Replica
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.online.spec.follow import moved
from manylabel_service.settings import Settings
from manylabel_service.storage import UNREADABLE, ModelMeta, Store

POLL_SECONDS = 2.0
"""Poll interval in seconds for changes whose owners are gone."""

Change = Receipt | Promotion
Pairs = Sequence[tuple[ModelMeta, ModelMeta]]
"""Models and their successors; the first pair is that of the changed model."""

_Work = asyncio.Task[Exception | None]

log = structlog.get_logger()


class ReplayDiffers(Exception):
    """The replay of the history, or of the successor, gives an unexpected state."""


class Successions:
    """Replaces models of a store by successors, one change per model at a time.

    Parameters
    ----------
    store, settings, room, membership : components of the server.

    Attributes
    ----------
    on_replaced : called with the metadata of a replaced model.
    lineages : lineages of the models.
    """

    def __init__(self, store: Store, settings: Settings, room: SnapshotQuota, membership: Membership) -> None:
        self.store, self.settings, self.room = store, settings, room
        self._membership = membership
        self.on_replaced: Callable[[ModelMeta], object] = lambda _: None
        self.lineages = LineageStore(store)
        self._tasks: dict[str, _Work] = {}
        self._changes: set[str] = set()
        """Ids of the changes on which this process works."""
        self._running: dict[str, Lineage] = {}
        """Lineages with a running change, as `look` has found them."""

    async def is_same(self, name: str, one: int, other: int) -> bool:
        """Return whether two incarnations are the same model, which was replaced in between."""
        return {one, other} <= {*(await self.lineages.find(name)).incarnations}

    async def delete(self, name: str) -> None:
        """Remove the lineage of a model that was deleted."""
        await self.lineages.delete(name)

    async def clear(self, name: str) -> None:
        """Remove the lineage of a deleted model, before another model of this name is created.

        Raises DocumentNewer.
        """
        try:
            left = await self.lineages.get(name)
        except DocumentDamaged as error:  # the lineage belongs to no model
            await self.lineages.delete(name, error.revision)
        else:
            # Another process may have created the model before the lineage was read.
            if left is not None and await self.store.models.find(name) is None:
                await self.lineages.delete(name, left.revision)

    # -- the work ---------------------------------------------------------------------------------

    async def begin(self, record: ModelMeta, change: Change, busy: Callable[[str], ServiceError]) -> None:
        """Record that this process begins a change.

        Parameters
        ----------
        busy : creates the error to raise while another change, with this id, is running.
        """
        self._changes.add(change.id)
        try:
            await self._begin(record, change, busy)
        except BaseException:
            self._changes.discard(change.id)
            raise

    async def _begin(self, record: ModelMeta, change: Change, busy: Callable[[str], ServiceError]) -> None:
        while True:
            found = await self.lineages.find(record.name)
            if (running := found.running) is not None:
                if await self._is_owned(found, running):
                    raise busy(running.id)
                await self.recover(record.name, running.id)
                continue
            owned = {"owner": self._membership.id, "incarnation": record.incarnation, "successions": ()}
            incarnations = found.incarnations or (record.incarnation,)
            lineage = found.with_change(change).model_copy(update={**owned, "incarnations": incarnations})
            with suppress(RevisionConflict):
                await self.lineages.put(record.name, lineage, urgent=True)
                return

    def work(self, name: str, change: Change, working: Coroutine[Any, Any, None]) -> _Work:
        """Start the work on a change of a model. If it fails, the change is undone, or completed if the names were
        already replaced.

        The task returns the error that ended it.
        """
        task = asyncio.create_task(self._work(name, change, working), name=f"replace {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._ended(name, change, done))
        return task

    def _ended(self, name: str, change: Change, task: _Work) -> None:
        self._changes.discard(change.id)
        if self._tasks.get(name) is task:
            del self._tasks[name]

    async def _work(self, name: str, change: Change, working: Coroutine[Any, Any, None]) -> Exception | None:
        try:
            await working
        except asyncio.CancelledError:
            with suppress(StorageUnavailable):  # this process or another completes it after a start
                await asyncio.shield(self.recover(name, change.id, "the server was stopped"))
            raise
        except Exception as error:
            known = isinstance(error, ServiceError | ReplayDiffers)
            log.error("replacement_failed", model=name, change=change.id, error=str(error), exc_info=not known)
            await self._recovered(name, change.id, error.answer() if isinstance(error, ServiceError) else str(error))
            return error
        return None

    async def note(self, name: str, change: Change, successions: Pairs) -> None:
        """Store the progress of a change; raise ModelGone if another process has taken it over."""
        noted = tuple(Succession(old.name, old.incarnation, new.incarnation) for old, new in successions)

        def noting(lineage: Lineage) -> Lineage:
            if lineage.owner != self._membership.id or lineage.running is None:
                raise ModelGone(name, noted[0].successor)
            incarnations = lineage.incarnations
            if noted[0].successor not in incarnations:
                incarnations = (*incarnations, noted[0].successor)[-MAX_INCARNATIONS:]
            fields = {"successions": noted, "incarnations": incarnations}
            return lineage.with_change(change).model_copy(update=fields)

        await self.lineages.update(name, noting)

    async def check_state(self, replica: Replica, position: str, checksum: str) -> None:
        """Raise ReplayDiffers unless a replay of the history gives the state of the serving model."""
        await replica.sync()
        if not replica.serving:
            return  # the model is no longer in memory
        found = await asyncio.to_thread(replica.model.checksum)
        if (replica.position, found) != (position, checksum):
            raise ReplayDiffers(
                f"replay of the history gives another state than {replica.name} has at position {position}"
            )

    async def replace(self, name: str, change: Change, successions: Pairs) -> None:
        """Give complete successors their names, and end the change."""
        await self.note(name, change, successions)
        await self.store.models.replace(successions)
        await self._purge(
            name, change, [Succession(old.name, old.incarnation, new.incarnation) for old, new in successions]
        )

    async def _purge(self, name: str, change: Change, successions: Sequence[Succession]) -> None:
        """Delete the data of the replaced models, and end the change."""
        log.info("model_replaced", model=name, change=change.id, position=change.position)
        await self._move_followers(successions[0])
        for old in (ModelMeta(each.name, each.incarnation, b"") for each in successions):
            self.on_replaced(old)
            await self.room.settled(old.incarnation)
            await CatalogueStore(old, self.store).delete_all()
            await self.store.snapshots.forget(old.incarnation)  # this may have failed before
        if isinstance(change, Receipt):
            await self.erase()
        await self.finish(name, change)

    async def erase(self) -> None:
        """Delete the remains of deleted models, such as followers, if servers died before they deleted them."""
        await GarbageCollector(self.store).delete_remains()
        await self.store.erased()

    async def _move_followers(self, leader: Succession) -> None:
        """Make the other followers of a model follow its successor."""
        for old in await self.store.models.followers(ModelMeta(leader.name, leader.incarnation, b"")):
            new = ModelMeta(old.name, old.incarnation, moved(old.spec, leader.successor))
            with suppress(ModelGone):  # the follower was deleted meanwhile
                await self.store.models.replace([(old, new)])
            self.on_replaced(old)

    async def finish(self, name: str, change: Change, error: str | None = None) -> None:
        """Record that a change has ended."""
        status = "done" if error is None else "failed"
        ended = change.model_copy(update={"status": status, "ended": rfc3339(now_ms()), "error": error})

        def ending(lineage: Lineage) -> Lineage:
            running = lineage.running
            if running is None or running.id != change.id:
                return lineage
            rest = {"owner": None, "incarnation": None, "successions": ()}
            return lineage.with_change(ended).model_copy(update=rest)

        await self.lineages.update(name, ending)
        log.info("replacement_ended", model=name, change=change.id, status=status)

    # -- recovery ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Complete the changes of dead owners, and those that this process failed to complete, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_SECONDS)

    async def look(self) -> None:
        """Complete unfinished changes once."""
        with suppress(StorageUnavailable):
            async with self.lineages.changes() as (found, names):
                for name, lineage in found.items():
                    if isinstance(lineage, UNREADABLE) or lineage.running is None:
                        self._running.pop(name, None)
                    else:
                        self._running[name] = lineage
                for name in () if names is None else self._running.keys() - names:
                    del self._running[name]
            for name, lineage in list(self._running.items()):
                if lineage.running is not None and not await self._is_owned(lineage, lineage.running):
                    try:
                        await self.recover(name, lineage.running.id)
                    except StorageUnavailable:
                        raise
                    except Exception:
                        log.exception("recovery_failed", model=name)

    async def stop(self) -> None:
        """Abort the changes that this process is running."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _is_owned(self, lineage: Lineage, running: Change) -> bool:
        """Return whether this process, or a known member, works on a change; a process that has just joined is not
        known yet."""
        if lineage.owner == self._membership.id:
            return running.id in self._changes
        if lineage.owner not in self._members():
            await self._membership.look()
        return lineage.owner in self._members()

    def _members(self) -> set[str]:
        return {member.id for member in self._membership.members}

    async def _recovered(self, name: str, id: str, reason: str) -> None:
        """Complete a change as soon as the store is reachable."""
        for pause in pauses(0.1, POLL_SECONDS):
            try:
                await self.recover(name, id, reason)
                return
            except StorageUnavailable:
                await asyncio.sleep(pause)

    async def recover(self, name: str, id: str, reason: str = "the server that worked on it has ended") -> None:
        """Complete a change if the successor has the name; else mark it as failed.

        Nothing happens if it has ended: another change may run, perhaps in another process.

        Raises
        ------
        StorageUnavailable, DocumentDamaged
        """
        lineage = await self.lineages.find(name)
        if (change := lineage.running) is None or change.id != id or lineage.incarnation is None:
            return
        staged = [ModelMeta(each.name, each.successor, b"") for each in lineage.successions]
        for successor in staged:
            await self.store.models.discard(successor)
        there = await self.store.models.find(name)
        if staged and there is not None and there.incarnation == staged[0].incarnation:
            await self._purge(name, change, lineage.successions)
            return
        for successor in staged:
            await CatalogueStore(successor, self.store).delete_all()
            await self.store.snapshots.forget(successor.incarnation)  # the store may have failed before this was done
        with suppress(ModelGone):
            await self.store.logs.seal(ModelMeta(name, lineage.incarnation, b""), False)
        await self.finish(name, change, reason)
        log.warning("replacement_undone", model=name, change=change.id, error=reason)
