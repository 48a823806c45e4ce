"""Limit of queued and running jobs, enforced over all servers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import structlog
from pydantic import Field

from manylabel_service.environment import time
from manylabel_service.errors import (
    DocumentDamaged,
    JobsFull,
    RevisionConflict,
    ServiceError,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.storage import Collection, Store, StoredModel

KIND = "job-claims"
NAME = "queue"

CLAIM_SECONDS = 120.0
"""Seconds after which a claim that this process has seen counts as abandoned by a dead process. The clock of the other
process is not used."""

log = structlog.get_logger()


class Claims(StoredModel):
    """Claims by job id: the Unix time of the claim, which identifies it, and the revision of the job at that time, 0
    for a new job."""

    jobs: dict[str, tuple[float, int]] = Field(default_factory=dict)

    def without(self, id: str) -> Self:
        """Return the claims without the claim of one job."""
        return self.model_copy(update={"jobs": {other: claim for other, claim in self.jobs.items() if other != id}})


class QueueLimit:
    """Admission control for jobs, including jobs that other servers are about to admit.

    A server first claims capacity in a document with optimistic concurrency. A claim counts until its job is visible.
    While this document is damaged, servers only count the visible jobs.
    """

    def __init__(self, store: Store, job_store: JobStore, most: int) -> None:
        self._documents = Collection(store.documents, KIND, Claims)
        self._job_store, self._most = job_store, most
        self._seen: dict[tuple[str, float], float] = {}
        """Time of this process's monotonic clock at which it first saw a claim."""
        self._turn = asyncio.Lock()  # concurrent claims of one process would only conflict

    async def check(self) -> None:
        """Raise `JobsFull` if the limit is reached."""
        await self._read("")

    @asynccontextmanager
    async def room_for(self, id: str, revision: int = 0) -> AsyncIterator[None]:
        """Reserve a slot for a job that is added, or changed from this revision, in this context; raises `JobsFull` or
        `DocumentNewer`."""
        async with self._turn:
            while (claims := await self._read(id)) is not None:
                claims.jobs[id] = (time.time(), revision)
                with suppress(RevisionConflict):
                    await self._documents.put(NAME, claims)
                    break
        try:
            yield
        except ServiceError as error:
            unknown = isinstance(error, StorageUnavailable) and not isinstance(error, StorageFull)  # it may be stored
            if claims is not None and not unknown:
                with suppress(StorageError):
                    await self._documents.change(NAME, lambda claims: claims and claims.without(id))
            raise

    async def _read(self, id: str) -> Claims | None:
        """Return the claims for jobs that are not visible yet; None if they are damaged. Raises `JobsFull` or
        `DocumentNewer`."""
        damaged = False
        try:
            claims = await self._documents.get(NAME) or Claims()
        except DocumentDamaged as error:
            log.error("job_claims_damaged", error=str(error), action="only visible jobs are counted")
            claims, damaged = Claims(), True
        await self._job_store.refresh()  # tasks that are visible by now need no claim
        jobs, now = self._job_store.jobs, time.monotonic()
        self._seen = {(other, at): self._seen.get((other, at), now) for other, (at, _) in claims.jobs.items()}
        claims.jobs = {
            other: (at, known)
            for other, (at, known) in claims.jobs.items()
            if now - self._seen[other, at] < CLAIM_SECONDS and not (other in jobs and jobs[other].revision > known)
        }
        held = claims.jobs.keys() | {other for other, record in jobs.items() if not record.has_ended}
        if len(held - {id}) >= self._most:
            raise JobsFull(self._most)
        return None if damaged else claims
