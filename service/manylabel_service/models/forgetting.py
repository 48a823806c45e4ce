"""Forgetting of examples: rewrites a model next to the serving one, then replaces it.

The steps: the receipt is stored, which names the owner; the successor of the model is staged, and named in the receipt;
its history is written, up to about the end of the log; the log is sealed; the rest is folded, and the old state
compared with the one that serves; the successor takes the name, in one step of the store; what the old one had is
purged.
The process that finds the receipt of an owner that is gone looks whether the successor has the name. If so, only the
purge is left. If not, the successor is discarded, so that a process which was only paused cannot put it there any
more; then the log is opened again.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress

import structlog

from manylabel_service import ulid
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.errors import (
    ForgetRunning,
    ModelGone,
    ModelHasFollowers,
    ReceiptNotFound,
    ServiceError,
    StorageUnavailable,
)
from manylabel_service.models.build import build_id
from manylabel_service.models.membership import Membership
from manylabel_service.online.forgetting.rewriter import Rewriter, Selection
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.history.receipts import MAX_RECEIPTS, Forgetting, Receipt, ReceiptStore
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.follow import followers_of
from manylabel_service.online.spec.release import ClusterVersion
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelMeta, Store

POLL_SECONDS = 2.0
"""Seconds between two looks for receipts whose owners are gone."""

MAX_LINEAGE = 100
"""Incarnations of a model that are remembered."""

KEPT = (
    "models that were forked from this one, and snapshots that were uploaded elsewhere, keep what they had",
    "datasets and versions made from the stream of this model keep their rows: delete them, and run the jobs again",
    "downloads of the log, of snapshots and of datasets are where they were sent",
    "stored predictions that were never labelled stay until their time is over",
)
"""Copies that are not deleted, in the words of a receipt."""

BEYOND_REACH = {
    False: ("copies of the data directory", "blocks that the file system or the disk has given up but not overwritten"),
    True: (
        "the append-only file of Redis, until BGREWRITEAOF has run, and RDB files, until the next is written",
        "replicas and backups of Redis",
        "blocks that the file system or the disk has given up but not overwritten",
    ),
}
"""Copies that no server can delete, by whether the store is shared."""

ARCHIVED = "the archive, which keeps what was shipped of the old model: delete the model's older folder there"

log = structlog.get_logger()


class FoldDiffers(Exception):
    """The replayed history differs from the state of the model."""


class Forgetter:
    """Forgets examples of the models of one store, and stores the receipts.

    Parameters
    ----------
    store, settings, membership, in_use : of the registry.
    on_replaced : is told the record of a model that another has taken the place of.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        membership: Membership,
        in_use: ClusterVersion,
        on_replaced: Callable[[ModelMeta], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._membership = membership
        self._in_use = in_use
        self._on_replaced = on_replaced
        self._receipts = ReceiptStore(store)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, replica: Replica, selection: Selection, key_id: str | None) -> Receipt:
        """Begin to forget examples of a model; return the receipt, which is running.

        Raises
        ------
        ForgetRunning
            It forgets others already.
        ModelHasFollowers
            Others learn from its log, which would be gone.
        StorageUnavailable, DocumentDamaged
        """
        name, record = replica.name, replica.record
        await self._check_alone(record)
        id = ulid.make(now_ms(), secrets.token_bytes(ulid.N_RANDOM_BYTES))
        receipt = Receipt(id=id, created=rfc3339(now_ms()), key_id=key_id)
        while True:
            found = await self._receipts.find(name)
            if (running := found.forgetting.running) is not None:
                if self._is_owned(found.forgetting):
                    raise ForgetRunning(name, running.id)
                await self.recover(name)
                continue
            receipts = (*found.forgetting.receipts, receipt)[-MAX_RECEIPTS:]
            lineage = found.forgetting.lineage or (record.incarnation,)
            new = Forgetting(
                receipts=receipts, owner=self._membership.id, incarnation=record.incarnation, lineage=lineage
            )
            if await self._receipts.put(name, found, new):
                break
        task = asyncio.create_task(self._work(replica, selection, receipt), name=f"forget {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))
        return receipt

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]

    async def receipts(self, name: str) -> tuple[Receipt, ...]:
        """Return the receipts of a model, the latest last; raise StorageUnavailable, DocumentDamaged."""
        return (await self._receipts.find(name)).forgetting.receipts

    async def receipt(self, name: str, id: str) -> Receipt:
        """Return a receipt; raise ReceiptNotFound, or as `receipts`."""
        for receipt in await self.receipts(name):
            if receipt.id == id:
                return receipt
        raise ReceiptNotFound(name, id)

    async def is_same(self, name: str, one: int, other: int) -> bool:
        """Return whether two incarnations are of one model, which has forgotten in between."""
        return {one, other} <= {*(await self._receipts.find(name)).forgetting.lineage}

    async def delete(self, name: str) -> None:
        """Remove the receipts of a model that was deleted."""
        await self._receipts.delete(name)

    # -- the work ---------------------------------------------------------------------------------

    async def _work(self, replica: Replica, selection: Selection, receipt: Receipt) -> None:
        name = replica.name
        try:
            await self._forget(replica, selection, receipt)
        except asyncio.CancelledError:
            await asyncio.shield(self._recovered(name, "the server was stopped"))
            raise
        except Exception as error:
            known = isinstance(error, ServiceError | FoldDiffers)
            log.error("forget_failed", model=name, receipt=receipt.id, error=str(error), exc_info=not known)
            await self._recovered(name, error.answer() if isinstance(error, ServiceError) else str(error))

    async def _forget(self, replica: Replica, selection: Selection, receipt: Receipt) -> None:
        name, record, store = replica.name, replica.record, self._store
        versions, ttl_seconds = self._in_use.versions, self._settings.prediction_ttl_seconds
        rewriter = Rewriter(record, store, selection, versions.format, ttl_seconds)
        findings = await rewriter.find()
        receipt = receipt.model_copy(update={"since": findings.begin, "first": findings.first})
        if findings.first is None:
            await self._finish(name, receipt)
            return
        successor = await rewriter.stage()
        await self._note(name, receipt, successor.incarnation)
        await rewriter.build()
        await rewriter.carry()
        copied: set[str] = set()
        await rewriter.copy_predictions(copied)
        await rewriter.catch_up()
        await store.logs.seal(record, True)
        rewritten = await rewriter.finish(replica.snapshotter.log_bytes)
        if copied & rewriter.counted.predictions:
            raise FoldDiffers(
                "more of these examples came in meanwhile, as labels of stored predictions; request it again"
            )
        await rewriter.copy_predictions(copied)
        await self._compare(replica, rewritten.position, rewritten.before)
        await self._check_alone(record)
        counted = rewriter.counted
        receipt = receipt.model_copy(
            update={
                "entries": counted.entries,
                "examples": counted.examples,
                "predictions": len(counted.predictions),
                "position": rewritten.position,
                "checksum_before": rewritten.before,
                "checksum_after": rewritten.after,
                "build": await asyncio.to_thread(build_id),
                "replay_version": versions.replay_version,
                "kept": KEPT,
                "beyond_reach": (*BEYOND_REACH[store.shared], *([ARCHIVED] if self._settings.archive else ())),
            }
        )
        await self._note(name, receipt, successor.incarnation)
        await store.models.replace(record, successor)
        await self._purge(record, receipt)

    async def _check_alone(self, record: ModelMeta) -> None:
        if followers := followers_of(record, await self._store.models.all()):
            raise ModelHasFollowers(record.name, [each.name for each in followers])

    async def _compare(self, replica: Replica, position: str, checksum: str) -> None:
        """Raise FoldDiffers unless the serving model equals its replayed history."""
        await replica.sync()
        if not replica.serving:
            return  # it is not in memory any more
        found = await asyncio.to_thread(replica.model.checksum, self._in_use.versions.format)
        if (replica.position, found) != (position, checksum):
            raise FoldDiffers(f"the history does not give the state that the model has at position {position}")

    async def _note(self, name: str, receipt: Receipt, successor: int) -> None:
        """Store the current receipt; raises ModelGone if another process has taken it over."""

        def change(forgetting: Forgetting) -> Forgetting:
            if forgetting.owner != self._membership.id or forgetting.running is None:
                raise ModelGone(name, successor)
            lineage = forgetting.lineage
            if successor not in lineage:
                lineage = (*lineage, successor)[-MAX_LINEAGE:]
            return forgetting.with_last(receipt).model_copy(update={"successor": successor, "lineage": lineage})

        await self._receipts.change(name, change)

    async def _purge(self, record: ModelMeta, receipt: Receipt) -> None:
        """Delete the data of the replaced model, and complete the receipt."""
        log.info("model_replaced", model=record.name, receipt=receipt.id, position=receipt.position)
        self._on_replaced(record)
        await CatalogueStore(record, self._store).delete_all()
        await self._store.erased()
        await self._finish(record.name, receipt)

    async def _finish(self, name: str, receipt: Receipt, error: str | None = None) -> None:
        status = "done" if error is None else "failed"
        ended = receipt.model_copy(update={"status": status, "ended": rfc3339(now_ms()), "error": error})

        def change(forgetting: Forgetting) -> Forgetting:
            running = forgetting.running
            if running is None or running.id != receipt.id:
                return forgetting
            rest = {"owner": None, "incarnation": None, "successor": None}
            return forgetting.with_last(ended).model_copy(update=rest)

        await self._receipts.change(name, change)
        log.info("forget_ended", model=name, receipt=receipt.id, status=status, examples=receipt.examples)

    # -- when something is wrong ------------------------------------------------------------------

    async def run(self) -> None:
        """Complete the requests of dead owners, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_SECONDS)

    async def look(self) -> None:
        """Complete the requests of dead owners once."""
        with suppress(StorageUnavailable):
            for name, forgetting in (await self._receipts.all()).items():
                if forgetting.running is not None and not self._is_owned(forgetting):
                    try:
                        await self.recover(name)
                    except StorageUnavailable:
                        raise
                    except Exception:
                        log.exception("forget_recovery_failed", model=name)

    async def stop(self) -> None:
        """Abort the requests running here."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_owned(self, forgetting: Forgetting) -> bool:
        return forgetting.owner in {member.id for member in self._membership.members}

    async def _recovered(self, name: str, reason: str) -> None:
        """Complete the running request as soon as the store is reachable."""
        pause = 0.1
        while True:
            try:
                await self.recover(name, reason)
            except StorageUnavailable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, POLL_SECONDS)
            else:
                return

    async def recover(self, name: str, reason: str = "the server that worked on it has ended") -> None:
        """Complete a running request if the successor has the name; else mark it as failed.

        Raises
        ------
        StorageUnavailable, DocumentDamaged
        """
        forgetting = (await self._receipts.find(name)).forgetting
        if (receipt := forgetting.running) is None or forgetting.incarnation is None:
            return
        old = ModelMeta(name, forgetting.incarnation, b"")
        if forgetting.successor is not None:
            successor = ModelMeta(name, forgetting.successor, b"")
            await self._store.models.discard(successor)
            there = await self._store.models.find(name)
            if there is not None and there.incarnation == successor.incarnation:
                await self._purge(old, receipt)
                return
            await CatalogueStore(successor, self._store).delete_all()
        with suppress(ModelGone):
            await self._store.logs.seal(old, False)
        await self._finish(name, receipt, reason)
        log.warning("forget_failed", model=name, receipt=receipt.id, error=reason)
