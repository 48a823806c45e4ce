"""The store of many processes: Redis has the logs and the snapshots, each process a connection.

A log is acknowledged by one server, the master, in one order; so there is nothing to agree about between processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from manylabel_service.errors import DurabilityUnavailable, StorageGone, StoreUnusable
from manylabel_service.storage.address import Address
from manylabel_service.storage.document_pages import check_document, check_key
from manylabel_service.storage.gate import Gate
from manylabel_service.storage.protocol import Document, Durability, Entry, ModelRecord, SnapshotRecord
from manylabel_service.storage.redis.blobs import Blobs
from manylabel_service.storage.redis.client.capabilities import Capabilities, inspect
from manylabel_service.storage.redis.client.connection import Connection
from manylabel_service.storage.redis.client.errors import unusable
from manylabel_service.storage.redis.documents import Documents
from manylabel_service.storage.redis.logs import Logs, check_durability
from manylabel_service.storage.redis.models import Models
from manylabel_service.storage.redis.predictions import Predictions
from manylabel_service.storage.redis.snapshots import Snapshots
from manylabel_service.storage.redis.watcher import Watcher

T = TypeVar("T")

UPKEEP_SECONDS = 60.0
"""Between two searches for what processes that died have left half created or half deleted."""

log = structlog.get_logger()


class RedisStore:
    """Implements `manylabel_service.storage.Store`, whose comments are the contract.

    Any number of processes may have the same Redis open.

    Parameters
    ----------
    address : of the server, or of any node of a cluster.
    timeout_seconds : for a connection, and for an answer.
    """

    durabilities: frozenset[Durability] = frozenset(("log",))

    def __init__(self, address: Address, timeout_seconds: float = 5.0) -> None:
        self.address = address
        self._timeout_seconds = timeout_seconds
        self._gate = Gate()
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- life -------------------------------------------------------------------------------------

    async def open(self) -> None:
        connection = Connection(self.address, self._timeout_seconds)
        try:
            await self._open(connection)
        except BaseException as error:
            await connection.close()
            if isinstance(error, StorageGone) and (final := unusable(error, str(self.address))):
                raise final from error.__cause__
            raise

    async def _open(self, connection: Connection) -> None:
        verdict = await inspect(connection)
        if verdict.is_cluster:
            await connection.use_cluster()
        self._connection = connection
        self._logs = Logs(connection)
        self._snapshots = Snapshots(connection)
        self._predictions = Predictions(connection)
        self._models = Models(connection, self._snapshots)
        self._changes = Watcher(connection, self._models)
        self._documents = Documents(connection)
        self._blobs = Blobs(connection, self._gate, self._finish)
        await self._changes.begin()
        self._take(verdict)
        self._checked = connection.contact.lost
        self._gate.open()
        self._upkeep = asyncio.create_task(self._keep_up())

    def _take(self, verdict: Capabilities) -> None:
        self.durabilities = verdict.durabilities
        self._waits_for_disk = verdict.waits_for_disk
        log.info("redis_found", address=str(self.address), cluster=verdict.is_cluster, **verdict.facts)
        for warning in verdict.warnings:
            log.warning("redis_check", address=str(self.address), warning=warning)

    async def close(self) -> None:
        if not self._gate.is_open:
            return
        self._upkeep.cancel()
        await asyncio.gather(self._upkeep, return_exceptions=True)
        await self._gate.close()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    async def cleaned(self) -> None:
        """Wait until what has been deleted so far has left Redis as well."""
        with self._gate:
            while self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- models -----------------------------------------------------------------------------------

    async def create_model(self, name: str, spec: bytes, state: bytes | None = None) -> ModelRecord:
        with self._gate:
            return await self._finish(self._models.create(name, spec, state))

    async def find_model(self, name: str) -> ModelRecord | None:
        with self._gate:
            return await self._models.find(name)

    async def models(self) -> list[ModelRecord]:
        with self._gate:
            return await self._models.all()

    async def delete_model(self, record: ModelRecord) -> None:
        with self._gate:
            await self._finish(self._models.delete(record))
            self._begin(self._attempt(self._models.bury(record.name, record.incarnation)))

    # -- logs -------------------------------------------------------------------------------------

    async def append(
        self, record: ModelRecord, payloads: Sequence[bytes], after: str, durability: Durability
    ) -> list[Entry]:
        with self._gate:
            check_durability(durability)
            if not payloads:
                raise ValueError("an append needs at least one payload")
            if durability not in self.durabilities:
                raise DurabilityUnavailable(durability, self.durabilities)
            sync = durability == "fsync" and self._waits_for_disk
            return await self._logs.append(record, payloads, after, sync)

    async def read(self, record: ModelRecord, after: str, limit: int) -> list[Entry]:
        with self._gate:
            if limit < 1:
                raise ValueError(f"limit must be at least 1, not {limit}")
            return await self._logs.read(record, after, limit)

    async def changed(self, positions: Mapping[ModelRecord, str], seconds: float) -> list[ModelRecord]:
        return await self._gate.until_closed(self._changes.wait(positions, seconds))

    async def trim(self, record: ModelRecord, through: str) -> None:
        with self._gate:
            await self._logs.trim(record, through)

    # -- snapshots --------------------------------------------------------------------------------

    async def put_snapshot(self, record: ModelRecord, position: str, data: bytes) -> None:
        with self._gate:
            await self._snapshots.put(record, position, data)

    async def snapshots(self, record: ModelRecord) -> list[SnapshotRecord]:
        with self._gate:
            return await self._snapshots.listed(record)

    async def get_snapshot(self, record: ModelRecord, position: str) -> bytes | None:
        with self._gate:
            return await self._snapshots.get(record, position)

    async def delete_snapshot(self, record: ModelRecord, position: str) -> None:
        with self._gate:
            await self._snapshots.delete(record, position)

    async def pin_snapshot(self, record: ModelRecord, position: str, pinned: bool) -> bool:
        with self._gate:
            return await self._snapshots.pin(record, position, pinned)

    # -- predictions ------------------------------------------------------------------------------

    async def put_predictions(
        self, record: ModelRecord, predictions: Mapping[str, bytes], seconds: float, most: int
    ) -> None:
        with self._gate:
            await self._predictions.put(record, predictions, seconds, most)

    async def get_predictions(self, record: ModelRecord, ids: Sequence[str]) -> list[bytes | None]:
        with self._gate:
            return await self._predictions.get(record, ids)

    # -- documents --------------------------------------------------------------------------------

    async def put_document(self, kind: str, name: str, value: bytes, *, revision: int | None) -> int:
        check_document(kind, name, value)
        with self._gate:
            return await self._documents.put(kind, name, value, revision)

    async def get_document(self, kind: str, name: str) -> Document | None:
        check_document(kind, name)
        with self._gate:
            return await self._documents.get(kind, name)

    async def list_documents(self, kind: str, after: int = 0) -> list[Document]:
        check_document(kind)
        with self._gate:
            return await self._documents.listed(kind, after)

    async def delete_document(self, kind: str, name: str, *, revision: int) -> None:
        check_document(kind, name)
        with self._gate:
            await self._documents.delete(kind, name, revision)

    # -- blobs ------------------------------------------------------------------------------------

    async def put_blob(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        check_key(key)
        return await self._blobs.put(key, pieces)

    def read_blob(self, key: str) -> AsyncGenerator[bytes, None]:
        check_key(key)
        return self._blobs.read(key)

    async def delete_blob(self, key: str) -> None:
        check_key(key)
        with self._gate:
            await self._blobs.delete(key)

    async def list_blobs(self, prefix: str = "") -> list[str]:
        with self._gate:
            return await self._blobs.keys(prefix)

    # -- background -------------------------------------------------------------------------------

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work of several steps to its end, also where the caller gives up."""
        return await asyncio.shield(self._begin(work))

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen, also where the caller has gone

    async def _keep_up(self) -> None:
        while True:
            await self._attempt(self._models.bury_all())
            await asyncio.sleep(UPKEEP_SECONDS)
            await self._attempt(self._check_again())

    async def _check_again(self) -> None:
        """If it was away, it may be another server now, or be set up otherwise."""
        lost = self._connection.contact.lost
        if self._checked == lost or self._connection.is_cluster:
            return
        try:
            self._take(await inspect(self._connection))
        except StoreUnusable as error:
            log.error("redis_check", address=str(self.address), error=str(error))
        self._checked = lost

    async def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except StorageGone as error:
            log.warning("storage_upkeep_failed", error=str(error), action="nothing is lost; it is tried again later")
