"""The jobs of a store: each a document, changed by compare-and-set, and the blobs that belong to it."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import structlog
from pydantic import ValidationError

from manylabel_service.clock import rfc3339
from manylabel_service.errors import JobNotFound, RevisionConflict
from manylabel_service.jobs.job_record import JobDocument, Unchanged
from manylabel_service.storage import MAX_DOCUMENT_BYTES, Document, DocumentFollower, Store

KIND = "jobs"
BLOBS = "jobs/"
"""Prefix of the keys of all blobs of jobs."""
MAX_INLINE = 8
"""More documents than this are parsed in a thread."""

log = structlog.get_logger()

JobChange = Callable[[JobDocument, str], None]
"""Changes a job, at a time in RFC 3339. Raises `Unchanged`, or an error that the caller gets."""


def now() -> str:
    """Return the time in RFC 3339."""
    return rfc3339(time.time_ns() // 1_000_000)


def blobs_of(id: str) -> str:
    """Return the prefix of the keys of a job's blobs."""
    return f"{BLOBS}{id}/"


def gathered_key(id: str) -> str:
    """Return the key of the examples sampled from a stream."""
    return f"{blobs_of(id)}gathered"


class JobStore:
    """Reads and changes the jobs of a store, with a cache as of the last `refresh`.

    Attributes
    ----------
    jobs : by id. Only `refresh` changes it.
    damaged : ids of jobs that cannot be read, likewise.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._follower = DocumentFollower(store.documents, KIND)
        self._refreshing = asyncio.Lock()
        self._changed = asyncio.Condition()
        self.jobs: dict[str, JobDocument] = {}
        self.damaged: set[str] = set()

    async def add(self, record: JobDocument) -> JobDocument:
        """Add a job; raises RevisionConflict if there is one with its id."""
        revision = await self._store.documents.put(KIND, record.id, record.to_bytes(), revision=None)
        return JobDocument.from_document(Document(record.id, revision, record.to_bytes()))

    async def get(self, id: str) -> JobDocument:
        """Return a job as it is now; raises JobNotFound."""
        document = await self._store.documents.get(KIND, id) if 0 < len(id) <= 64 else None
        if document is None:
            raise JobNotFound(id)
        return JobDocument.from_document(document)

    async def change(self, id: str, change: JobChange) -> JobDocument:
        """Apply a change to the latest state of a job, and return the job afterwards.

        If the response of the store is lost, `StorageUnavailable` is raised although the change may have been made.

        Raises
        ------
        JobNotFound, StorageUnavailable, and what the change raises.
        """
        while True:
            record = await self.get(id)
            try:
                change(record, now())
            except Unchanged:
                return record
            value = _fitting(record)
            try:
                revision = await self._store.documents.put(KIND, id, value, revision=record.revision)
            except RevisionConflict:
                continue
            return JobDocument.from_document(Document(id, revision, value))

    async def remove(self, record: JobDocument) -> None:
        """Delete a job and its blobs, unless it has changed in the meantime."""
        try:
            await self._store.documents.delete(KIND, record.id, revision=record.revision)
        except RevisionConflict as error:
            if error.found is not None:
                return
        self.jobs.pop(record.id, None)
        await self.remove_blobs(record.id)

    async def remove_blobs(self, id: str, keep: Iterable[str] = ()) -> None:
        """Remove the blobs of a job, except some keys."""
        for key in set(await self._store.blobs.keys(blobs_of(id))) - set(keep):
            await self._store.blobs.delete(key)

    async def refresh(self) -> None:
        """Read changed jobs, and wake their waiters."""
        async with self._refreshing:
            documents, ids = await self._follower.poll()
            if not documents and ids is None:
                return
            new = [document for document in documents if not self._knows(document)]
            try:
                records = _readable(new) if len(new) <= MAX_INLINE else await asyncio.to_thread(_readable, new)
            except BaseException:
                self._follower.restart()
                raise
            if ids is not None:
                self.damaged &= ids
                self.jobs = {id: record for id, record in self.jobs.items() if id in ids}
            self.jobs.update((record.id, record) for record in records)
            self.damaged |= {document.name for document in new}
            self.damaged -= {record.id for record in records}
        async with self._changed:
            self._changed.notify_all()

    def _knows(self, document: Document) -> bool:
        known = self.jobs.get(document.name)
        return known is not None and known.revision == document.revision

    async def wait(self, seconds: float) -> None:
        """Wait until something has changed, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait()


def _fitting(record: JobDocument) -> bytes:
    """Return the job as a document; a job that has grown too large fails with a reason."""
    value = record.to_bytes()
    if len(value) > MAX_DOCUMENT_BYTES:
        record.give_up("too_large", f"the stored record of the job exceeds {MAX_DOCUMENT_BYTES:,} bytes", now())
        value = record.to_bytes()
    return value


def _readable(documents: list[Document]) -> list[JobDocument]:
    """Return the documents that this release can read; a newer release may have written others."""
    records = []
    for document in documents:
        try:
            records.append(JobDocument.from_document(document))
        except ValidationError as error:
            log.error("job_unreadable", job=document.name, error=str(error))
    return records
