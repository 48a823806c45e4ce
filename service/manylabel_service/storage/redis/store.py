"""Store for many processes: Redis stores logs and snapshots, and each process has a connection.

One server, the primary, orders and acknowledges the entries of a log, so processes need no consensus.
"""

import asyncio
from typing import TypeVar

import structlog

from manylabel_service.errors import StorageUnavailable, StoreTooNew, StoreUnusable
from manylabel_service.release import FORMAT
from manylabel_service.storage.address import Address
from manylabel_service.storage.background import attempt
from manylabel_service.storage.gate import gated
from manylabel_service.storage.protocol import Durability
from manylabel_service.storage.redis.blobs import RedisBlobs
from manylabel_service.storage.redis.client.capabilities import Capabilities, inspect
from manylabel_service.storage.redis.client.connection import Connection
from manylabel_service.storage.redis.client.errors import unusable
from manylabel_service.storage.redis.documents import RedisDocuments
from manylabel_service.storage.redis.engine import Engine
from manylabel_service.storage.redis.keys import FORMAT_NUMBER
from manylabel_service.storage.redis.logs import RedisLogs
from manylabel_service.storage.redis.models import RedisModels
from manylabel_service.storage.redis.predictions import RedisPredictions
from manylabel_service.storage.redis.watcher import Watcher
from manylabel_service.storage.snapshots import Snapshots

T = TypeVar("T")

UPKEEP_SECONDS = 60.0
"""Interval in seconds of searches for models that a dead process left partly created or partly deleted."""

log = structlog.get_logger()


class RedisStore:
    """Implements `manylabel_service.storage.Store`, whose docstrings are the contract.

    Any number of processes can use the same Redis.

    Parameters
    ----------
    address : address of the server, or of any node of a cluster.
    timeout_seconds : timeout in seconds for a connection, and for a response.
    durability : durability of appends.
    """

    shared = True

    def __init__(self, address: Address, timeout_seconds: float = 5.0, durability: Durability = "log") -> None:
        self.address = address
        self._durability = durability
        self._timeout_seconds = timeout_seconds
        self.engine = Engine()
        self.gate = self.engine.gate
        self._watcher = Watcher(self.engine)
        self.logs = RedisLogs(self.engine, self._watcher)
        self.predictions = RedisPredictions(self.engine)
        self.documents = RedisDocuments(self.engine)
        self.blobs = RedisBlobs(self.engine, self.documents)
        self.snapshots = Snapshots(self.gate, self.logs, self.documents, self.blobs)
        self.models = RedisModels(self.engine, self.logs, self.snapshots)

    async def open(self) -> None:
        connection = Connection(self.address, self._timeout_seconds)
        try:
            await self._open(connection)
        except BaseException as error:
            await connection.close()
            if isinstance(error, StoreTooNew):
                raise
            if isinstance(error, StorageUnavailable) and (final := unusable(error, str(self.address))):
                raise final from error.__cause__
            raise

    async def _open(self, connection: Connection) -> None:
        found = await inspect(connection)
        if found.is_cluster:
            await connection.use_cluster()
        self.engine.connection = connection
        await connection.command("SETNX", FORMAT_NUMBER, FORMAT)
        await self._format()
        await self._watcher.wait("", 0.0)  # a user who may not run scripts is refused at once
        self._take(found)
        if self.logs.unusable is not None:
            raise StoreUnusable(self.logs.unusable.detail)
        self._checked = connection.breaker.lost
        self.gate.open()
        self._upkeep = asyncio.create_task(self._keep_up())

    def _take(self, found: Capabilities) -> None:
        fsync = self._durability == "fsync"
        self.logs.waits_for_disk = fsync and found.waits_for_disk
        self.logs.unusable = None
        log.info("redis_connected", address=str(self.address), cluster=found.is_cluster, **found.facts)
        for warning in found.warnings:
            log.warning("redis_configuration", address=str(self.address), warning=warning)
        if fsync and not found.syncs:
            detail = (
                f"Redis at {self.address} cannot guarantee the durability fsync: set appendonly yes and appendfsync "
                "always, or use Redis 7.2 or later"
            )
            log.error("redis_configuration", address=str(self.address), error=detail)
            self.logs.unusable = StorageUnavailable(detail, heals=True)

    @gated
    async def format(self) -> int:
        return await self._format()

    async def _format(self) -> int:
        found = await self.engine.connection.command("GET", FORMAT_NUMBER)
        place = f"the store at {self.address}"
        if found is not None and (not found.isdigit() or int(found) < 1):
            raise StoreUnusable(f"{place} has the damaged format number {found!r}: restore it from a backup")
        return self.gate.supported(place, FORMAT if found is None else int(found))

    @gated
    async def raise_format(self, number: int) -> None:
        await self.engine.connection.command("SET", FORMAT_NUMBER, number)

    async def close(self) -> None:
        if not self.gate.is_open:
            return
        self._upkeep.cancel()
        await asyncio.gather(self._upkeep, return_exceptions=True)
        await self.gate.close()
        await self.engine.background.done()
        await self.engine.connection.close()

    @gated
    async def cleaned(self) -> None:
        """Wait until all data deleted so far has been removed from Redis."""
        await self.engine.background.done()

    @gated
    async def erased(self) -> None:
        await self.models.purge_all()
        await self.engine.background.done()
        await self.blobs.drop_loose(deleted=True)

    async def _keep_up(self) -> None:
        while self.gate.too_new is None:
            await attempt(self.models.purge_all())
            await attempt(self.blobs.drop_loose())
            await attempt(self.predictions.drop_expired())
            await asyncio.sleep(UPKEEP_SECONDS)
            await attempt(self._check_again())

    async def _check_again(self) -> None:
        """Inspect Redis again after an outage, because it may be another server or have other settings."""
        lost = self.engine.connection.breaker.lost
        if self._checked == lost or self.engine.connection.is_cluster:
            return
        try:
            self._take(await inspect(self.engine.connection))
        except StoreUnusable as error:
            log.error("redis_configuration", address=str(self.address), error=str(error))
        self._checked = lost
