"""Limit of queued and running jobs, enforced over all servers."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from manylabel_service.errors import (
    JobsFull,
    RevisionConflict,
    ServiceError,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.storage import Store

KIND = "job-claims"
NAME = "queue"

CLAIM_SECONDS = 120.0
"""Age in seconds from which a claim counts as left by a dead process."""

_Claims = dict[str, tuple[float, int]]
"""Claims by job id: when the job was claimed (Unix time), and its revision then; 0 for a new one."""


class QueueLimit:
    """Admission control for jobs, which counts those that other servers are about to admit.

    A server first claims capacity in a document with optimistic concurrency. A claim counts until its job is visible.

    Parameters
    ----------
    store, job_store : where the claims and the jobs are.
    most : jobs that may wait or run.
    """

    def __init__(self, store: Store, job_store: JobStore, most: int) -> None:
        self._store, self._job_store, self._most = store, job_store, most
        self._turn = asyncio.Lock()  # concurrent claims of one process would only make each other fail

    async def check(self) -> None:
        """Raise `JobsFull` if the limit is reached."""
        await self._read("")

    @asynccontextmanager
    async def room_for(self, id: str, revision: int = 0) -> AsyncIterator[None]:
        """Reserve a slot for a job that is added, or changed from this revision, in this context; raises `JobsFull`."""
        async with self._turn:
            while True:
                claims, at = await self._read(id)
                value = json.dumps({**claims, id: (time.time(), revision)}).encode()
                with suppress(RevisionConflict):
                    await self._store.documents.put(KIND, NAME, value, revision=at)
                    break
        try:
            yield
        except ServiceError as error:
            if not isinstance(error, StorageUnavailable) or isinstance(error, StorageFull):  # it may still be made
                with suppress(StorageError):
                    await self._give_back(id)
            raise

    async def _read(self, id: str) -> tuple[_Claims, int | None]:
        """Return the claims for jobs that do not show yet, and their revision; raise `JobsFull`."""
        claims, revision = await self._claims()
        await self._job_store.refresh()  # tasks that are visible by now need no claim
        jobs, oldest = self._job_store.jobs, time.time() - CLAIM_SECONDS
        left = {
            other: (at, known)
            for other, (at, known) in claims.items()
            if at > oldest and not (other in jobs and jobs[other].revision > known)
        }
        held = left.keys() | {other for other, record in jobs.items() if not record.has_ended}
        if len(held - {id}) >= self._most:
            raise JobsFull(self._most)
        return left, revision

    async def _claims(self) -> tuple[_Claims, int | None]:
        for document in await self._store.documents.all(KIND):
            if document.name == NAME:
                return {} if document.damaged else json.loads(document.value), document.revision
        return {}, None

    async def _give_back(self, id: str) -> None:
        claims, revision = await self._claims()
        if claims.pop(id, None) is not None:
            await self._store.documents.put(KIND, NAME, json.dumps(claims).encode(), revision=revision)
