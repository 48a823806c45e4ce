"""Jobs in the store: a document each, changed by compare-and-set, and its blobs."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

import structlog

from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.errors import DocumentNewer, JobNotFound
from manylabel_service.jobs.job_record import JobDocument, Unchanged
from manylabel_service.storage import MAX_DOCUMENT_BYTES, UNREADABLE, Collection, Store

KIND = "jobs"
BLOBS = "jobs/"
"""Prefix of the keys of all blobs of jobs."""

log = structlog.get_logger()

JobChange = Callable[[JobDocument, str], None]
"""Function that changes a job at a time in RFC 3339. Raises `Unchanged`, or an error that is passed on."""


def now() -> str:
    """Return the time in RFC 3339."""
    return rfc3339(now_ms())


def blobs_of(id: str) -> str:
    """Return the prefix of the keys of a job's blobs."""
    return f"{BLOBS}{id}/"


def gathered_key(id: str) -> str:
    """Return the key of the examples sampled from a stream."""
    return f"{blobs_of(id)}gathered"


def doubts_key(id: str) -> str:
    """Return the key of the list that a search for doubts has made."""
    return f"{blobs_of(id)}doubts"


class JobStore:
    """Reads and changes the jobs of a store; has a cache from the last `refresh`.

    Attributes
    ----------
    jobs : jobs by id; only `refresh` changes them.
    damaged : ids of damaged jobs.
    newer : errors of jobs that a newer release wrote, by id.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._documents = Collection(store.documents, KIND, JobDocument)
        self._refreshing = asyncio.Lock()
        self._changed = asyncio.Condition()
        self.jobs: dict[str, JobDocument] = {}
        self.damaged: set[str] = set()
        self.newer: dict[str, DocumentNewer] = {}

    async def add(self, record: JobDocument) -> JobDocument:
        """Add a job; raise RevisionConflict if a job with this id exists."""
        return await self._documents.put(record.id, record)

    async def find(self, id: str) -> JobDocument | None:
        """Read the current state of a job; None if it does not exist."""
        return await self._documents.get(id) if 0 < len(id) <= 64 else None

    async def get(self, id: str) -> JobDocument:
        """Read the current state of a job; raise JobNotFound if it does not exist."""
        if (record := await self.find(id)) is None:
            raise JobNotFound(id)
        return record

    async def change(self, id: str, change: JobChange) -> JobDocument:
        """Apply a change to the latest state of a job, and return the job afterwards.

        If the response of the store is lost, `StorageUnavailable` is raised although the change may have been made.

        Raises
        ------
        JobNotFound, StorageUnavailable, and what the change raises.
        """

        def changed(record: JobDocument | None) -> JobDocument | None:
            if record is None:
                raise JobNotFound(id)
            try:
                change(record, now())
            except Unchanged:
                return None
            return _fitting(record)

        record = await self._documents.change(id, changed)
        assert record is not None, "else JobNotFound was raised"
        return record

    async def remove(self, record: JobDocument) -> None:
        """Delete a job and its blobs, unless it has changed in the meantime."""
        if await self._documents.delete(record.id, record.revision):
            self.jobs.pop(record.id, None)
            await self.remove_blobs(record.id)

    async def remove_blobs(self, id: str, keep: Iterable[str] = ()) -> None:
        """Remove the blobs of a job, except some keys."""
        for key in set(await self._store.blobs.keys(blobs_of(id))) - set(keep):
            await self._store.blobs.delete(key)

    async def refresh(self) -> None:
        """Read changed jobs, and wake their waiters."""
        async with self._refreshing, self._documents.changes() as (found, ids):
            if not found and ids is None:
                return
            if ids is not None:
                self.damaged &= ids
                self.newer = {id: error for id, error in self.newer.items() if id in ids}
                self.jobs = {id: record for id, record in self.jobs.items() if id in ids}
            for id, record in found.items():
                self.damaged.discard(id)
                self.newer.pop(id, None)
                if isinstance(record, UNREADABLE):
                    log.error("job_unreadable", job=id, error=str(record))
                    self.jobs.pop(id, None)
                    if isinstance(record, DocumentNewer):
                        self.newer[id] = record
                    else:
                        self.damaged.add(id)
                else:
                    self.jobs[id] = record
        async with self._changed:
            self._changed.notify_all()

    async def wait(self, seconds: float) -> None:
        """Wait until something has changed, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait()


def _fitting(record: JobDocument) -> JobDocument:
    """Return the job; if its document has grown too large, return it as failed, with the reason."""
    if len(record.to_bytes()) > MAX_DOCUMENT_BYTES:
        record.give_up("too_large", f"the stored record of the job exceeds {MAX_DOCUMENT_BYTES:,} bytes", now())
    return record
