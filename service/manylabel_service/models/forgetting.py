"""Forgetting of examples: a successor that never saw them replaces the model; receipts record the result."""

import asyncio

from manylabel_service import ulid
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.errors import ForgetRunning, ModelHasFollowers, ReceiptNotFound
from manylabel_service.models.build import build_id
from manylabel_service.models.successions import ReplayDiffers, Successions
from manylabel_service.online.history.lineage import Receipt
from manylabel_service.online.replica import Replica
from manylabel_service.online.successor.rewriter import Rewriter, Rewritten, Selection
from manylabel_service.storage import START, ModelMeta

KEPT = (
    "models that were forked from this one, and snapshots that were uploaded elsewhere, keep what they had",
    "datasets and versions made from the stream of this model keep their rows: delete them, and run the jobs again",
    "downloads of the log, of snapshots and of datasets are where they were sent",
    "stored predictions that were never labelled stay until they expire",
    "idempotency keys and keys of streams stay in the log, its history and the archive, so that a repeated request is "
    "recognised; this includes references in them",
)
"""Copies that are not deleted, as listed in a receipt."""

BEYOND_REACH = {
    False: ("copies of the data directory", "blocks that the file system or the disk has given up but not overwritten"),
    True: (
        "the append-only file of Redis, until BGREWRITEAOF has run, and RDB files, until the next is written",
        "replicas and backups of Redis",
        "a snapshot or segment that another server was storing at that moment: it is removed within a minute, or "
        "within an hour if that server has died",
        "blocks that the file system or the disk has given up but not overwritten",
    ),
}
"""Copies that no server can delete; the key says whether the store is shared."""

ARCHIVED = "copies of the archive: versions that its bucket keeps, replicas, snapshots of its file system"

ARCHIVED_BEFORE = "data in the archive from before `since`: manylabel restore --without removes them"


async def ended_receipt(
    receipt: Receipt, rewriter: Rewriter, rewritten: Rewritten, shared: bool, archived: bool
) -> Receipt:
    """Return a receipt with the result of a rewrite.

    Parameters
    ----------
    shared, archived : whether the store is shared, and whether there is an archive.
    """
    counted = rewriter.counted
    return receipt.model_copy(
        update={
            "entries": counted.entries,
            "examples": counted.examples,
            "predictions": len(counted.predictions),
            "position": rewritten.position,
            "checksum_before": rewritten.before,
            "checksum_after": rewritten.after,
            "metrics_before": rewritten.metrics_before,
            "metrics_after": rewritten.metrics_after,
            "build": await asyncio.to_thread(build_id),
            "kept": KEPT,
            "beyond_reach": (*BEYOND_REACH[shared], *([ARCHIVED] if archived else ())),
            "archive": "pending" if archived else None,
        }
    )


class Forgetter:
    """Forgets examples of the models of a store, and stores receipts."""

    def __init__(self, successions: Successions) -> None:
        self._successions = successions

    async def begin(self, replica: Replica, selection: Selection, key_id: str | None) -> Receipt:
        """Start to forget examples of a model; return the running receipt.

        Raises
        ------
        ForgetRunning
            The model is already being replaced.
        ModelHasFollowers
            Other models learn from its log, which would be deleted.
        StorageUnavailable, DocumentDamaged
        """
        name, record = replica.name, replica.record
        await self._check_alone(record)
        id = ulid.new()
        receipt = Receipt(id=id, created=rfc3339(now_ms()), key_id=key_id)
        await self._successions.begin(record, receipt, lambda id: ForgetRunning(name, id))
        self._successions.work(name, receipt, self._forget(replica, selection, receipt))
        return receipt

    async def receipts(self, name: str) -> tuple[Receipt, ...]:
        """Return the receipts of a model, oldest first; raise StorageUnavailable, DocumentDamaged."""
        return (await self._successions.lineages.find(name)).receipts

    async def receipt(self, name: str, id: str) -> Receipt:
        """Return a receipt; raise ReceiptNotFound or the errors of `receipts`."""
        for receipt in await self.receipts(name):
            if receipt.id == id:
                return receipt
        raise ReceiptNotFound(name, id)

    async def _forget(self, replica: Replica, selection: Selection, receipt: Receipt) -> None:
        name, record, store = replica.name, replica.record, self._successions.store
        ttl_seconds = self._successions.settings.prediction_ttl_seconds
        rewriter = Rewriter(record, store, self._successions.room, selection, ttl_seconds)
        findings = await rewriter.find()
        receipt = receipt.model_copy(update={"since": findings.begin, "first": findings.first})
        if findings.first is None:
            if self._successions.settings.archive is not None and findings.begin != START:
                receipt = receipt.model_copy(update={"beyond_reach": (ARCHIVED_BEFORE,)})
            await self._successions.erase()
            await self._successions.finish(name, receipt)
            return
        successor = await rewriter.stage()
        await self._successions.note(name, receipt, [(record, successor)])
        await rewriter.build()
        copied: set[str] = set()
        await rewriter.copy_predictions(copied)
        await rewriter.catch_up()
        await store.logs.seal(record, True)
        rewritten = await rewriter.finish(replica.snapshotter.log_bytes)
        if copied & rewriter.counted.predictions:
            raise ReplayDiffers(
                "more of these examples arrived meanwhile, as labels of stored predictions; repeat the request"
            )
        await rewriter.copy_last_predictions(copied)
        await self._successions.check_state(replica, rewritten.position, rewritten.before)
        await self._check_alone(record)
        archived = self._successions.settings.archive is not None
        receipt = await ended_receipt(receipt, rewriter, rewritten, store.shared, archived)
        await self._successions.replace(name, receipt, [(record, successor)])

    async def _check_alone(self, record: ModelMeta) -> None:
        if followers := await self._successions.store.models.followers(record):
            raise ModelHasFollowers(record.name, [each.name for each in followers])
