"""Operations on jobs: submit, list, watch, cancel, retry."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, get_args

from manylabel_service import ulid
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.errors import (
    BlobDamaged,
    BlobNotFound,
    DatasetNotFound,
    DocumentNewer,
    InvalidJob,
    JobEnded,
    JobNotFound,
    KeyReused,
    ModelNotFound,
    RevisionConflict,
)
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.jobs.context import HEARTBEAT_SECONDS, JobContext
from manylabel_service.jobs.job_record import JobDocument
from manylabel_service.jobs.job_store import JobStore, doubts_key, now
from manylabel_service.jobs.local_runner import LocalRunner, Runner
from manylabel_service.jobs.monitor import JobMonitor
from manylabel_service.jobs.plan import check, plan, with_split
from manylabel_service.jobs.queue_limit import QueueLimit
from manylabel_service.jobs.spec.schemas import DoubtsSpec, Job, JobSpec, LogLine, SearchSpec, State
from manylabel_service.settings import Settings
from manylabel_service.storage import Store, blob_bytes

MAX_BYTES = 2**19
"""Maximum bytes of a new job in the store; later, the results of its trials are added."""

Event = tuple[int, str, dict[str, Any]]
"""Revision of the job, the event (``state``, ``progress`` or ``log``), and its data."""


class JobService:
    """Operations on the jobs of a store; every method raises StorageUnavailable."""

    def __init__(self, context: JobContext, runner: Runner) -> None:
        self._context, self._job_store, self._runner = context, context.job_store, runner
        self._monitor = JobMonitor(context, runner)
        self._limit = QueueLimit(context.store, context.job_store, context.settings.limits.max_queued_jobs)
        self._monitoring: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start monitoring jobs; the store is open."""
        self._monitoring = asyncio.create_task(self._monitor.run(), name="monitor of jobs")

    async def stop(self) -> None:
        """Release the running tasks of this process, with their last checkpoints; training processes are killed."""
        if self._monitoring is not None:
            self._monitoring.cancel()
            await asyncio.gather(self._monitoring, return_exceptions=True)
        await self._runner.stop()

    async def submit(self, spec: JobSpec, key: IdempotencyKey | None) -> tuple[Job, bool]:
        """Queue a job; return the job, and whether an earlier request with the same key created it. Raises InvalidJob,
        DatasetNotFound, ModelNotFound, ModelIsOnline, LimitExceeded, JobsFull or KeyReused."""
        id = _id_of(key) if key else ulid.new().lower()
        if key and (earlier := await self._earlier(id, key)):
            return earlier, True
        record = await self._made(id, spec, key)
        async with self._limit.room_for(id):
            try:
                record = await self._job_store.add(record)
            except RevisionConflict:
                assert key is not None, "ids are drawn once"
                earlier = await self._earlier(id, key)
                assert earlier is not None
                return earlier, True
            await self._check_datasets_again(record)
        self._monitor.wake()
        return record.to_job(), False

    async def _earlier(self, id: str, key: IdempotencyKey) -> Job | None:
        """Return the job created with the key; raises KeyReused if the request differs."""
        record = await self._job_store.find(id)
        if record is None:
            return None
        if record.digest != key.digest.hex():
            raise KeyReused(key.key)
        return record.to_job()

    async def _made(self, id: str, spec: JobSpec, key: IdempotencyKey | None) -> JobDocument:
        """Validate a request, and return the document of the job."""
        await self._limit.check()
        spec = await with_split(self._context, spec)
        checksums = await check(self._context, spec)
        settings = self._context.settings
        record = JobDocument(
            id=id,
            spec=spec,
            digest=key.digest.hex() if key else None,
            checksums=checksums,
            threads=settings.job_threads,
            segment_work=settings.limits.job_checkpoint_work,
            created=now(),
            incarnation=await self._incarnation_of(spec),
            tasks=plan(spec),
        )
        record.queue_next()
        if len(record.to_bytes()) > MAX_BYTES:
            raise InvalidJob(("search" if spec.search else "params",), f"must have at most {MAX_BYTES:,} bytes")
        return record

    async def _incarnation_of(self, spec: JobSpec) -> int | None:
        if not isinstance(spec, SearchSpec):
            return None
        if (model := await self._context.store.models.find(spec.model)) is None:
            raise ModelNotFound(spec.model)
        return model.incarnation

    async def begin_search(self, spec: SearchSpec, incarnation: int, position: str) -> tuple[Job, bool]:
        """Queue a search or a dry run. If there is already a job that is unfinished, or whose result is for the same
        position, return it instead. Returns the job, and whether it existed.

        Parameters
        ----------
        spec : the search or dry run.
        incarnation, position : of the model.

        Raises
        ------
        JobsFull, ModelNotFound
        """
        for record in await self._searches(incarnation):
            if record.spec != spec:
                continue
            sampled = record.sampled()
            listed = record.state == "succeeded" and sampled is not None and sampled.position == position
            if listed or not record.has_ended:
                return record.to_job(), True
        return await self.submit(spec, None)

    async def doubts(self, incarnation: int, label: str | None) -> tuple[str, dict[str, Any]] | None:
        """Return the newest finished list of doubts of a model, about one label or about all labels, after the id of
        its job; None if no list is finished."""
        return await self._found([record for record in await self._searches(incarnation) if _judges(record, label)])

    async def health(self, incarnation: int) -> tuple[str, dict[str, Any]] | None:
        """Return the result of the newest finished search for doubts of a model, which has suggestions for all labels,
        and the id of its job; None if there is no search."""
        return await self._found(
            [record for record in await self._searches(incarnation) if isinstance(record.spec, DoubtsSpec)]
        )

    async def _found(self, records: Sequence[JobDocument]) -> tuple[str, dict[str, Any]] | None:
        """Return the result of the first finished search, and the id of its job."""
        for record in records:
            if record.state == "succeeded":
                with suppress(BlobNotFound, BlobDamaged):
                    data = await blob_bytes(self._context.store.blobs, doubts_key(record.id))
                    return record.id, await asyncio.to_thread(json.loads, data)
        return None

    async def remove_doubts(self, incarnation: int) -> None:
        """Delete the lists of doubts of a model, and end the searches and dry runs."""
        for record in await self._searches(incarnation):
            with suppress(JobEnded, JobNotFound):
                if not record.has_ended:
                    await self.cancel(record.id)
            await self._job_store.remove_blobs(record.id)

    async def _searches(self, incarnation: int) -> Sequence[JobDocument]:
        """Return the searches and dry runs of a model, the newest first."""
        await self._job_store.refresh()
        found = [record for record in self._job_store.jobs.values() if record.incarnation == incarnation]
        return sorted(found, key=lambda record: (record.created, record.id), reverse=True)

    async def _check_datasets_again(self, record: JobDocument) -> None:
        """Withdraw a job if its dataset was deleted while the job was written. After this check, its datasets cannot be
        deleted."""
        for name in record.checksums:
            try:
                await self._context.datasets.get(name)
            except DatasetNotFound:
                await self._job_store.remove(record)
                raise

    async def get(self, id: str) -> Job:
        """Return a job; raises JobNotFound."""
        return (await self._job_store.get(id)).to_job()

    async def log(self, id: str) -> list[LogLine]:
        """Return the stored lines of a job's log; raises JobNotFound."""
        return (await self._job_store.get(id)).log()

    async def cancel(self, id: str) -> Job:
        """End a job; raises JobNotFound, and JobEnded."""
        record = await self._job_store.change(id, lambda record, now: record.cancel(now))
        self._monitor.wake()
        return record.to_job()

    async def retry(self, id: str) -> Job:
        """Queue a failed or cancelled job again; it resumes from its checkpoints. Raises JobNotFound, JobNotRetryable,
        JobsFull or DatasetNotFound."""
        await self._limit.check()
        record = await self._job_store.get(id)
        for name in record.checksums:
            await self._context.datasets.get(name)
        async with self._limit.room_for(id, record.revision):
            record = await self._job_store.change(id, lambda record, _: record.retry())
        self._monitor.wake()
        return record.to_job()

    async def uses_dataset(self, name: str) -> bool:
        """Return whether an unfinished job needs a dataset; raise DocumentNewer if there is a job that cannot be read
        and may need it."""
        await self._job_store.refresh()
        if (newer := next(iter(self._job_store.newer.values()), None)) is not None:
            raise DocumentNewer(newer.detail)
        return any(name in record.checksums for record in self._job_store.jobs.values() if not record.has_ended)

    async def watch(self, id: str, after: int | None = None) -> AsyncIterator[Event]:
        """Yield the events of a job from now on, or after a revision, until it ends or is deleted.

        The lines of its log after the revision come first, then its state. Raises JobNotFound.
        """
        record = await self._job_store.get(id)
        state: str | None = None
        reported: Any = None
        seen = 0 if after is None else after
        while True:
            for line in record.log(seen):
                yield record.revision, "log", line.model_dump()
            job = record.to_job()
            if job.progress is not None and job.progress != reported and job.state == state:
                yield record.revision, "progress", job.progress.model_dump()
            if state == "queued" and record.has_ended and job.started is not None:  # the task ran between two polls
                running = job.model_copy(update={"state": "running", "ended": None, "result": None, "error": None})
                yield record.revision, "state", running.model_dump()
            if job.state != state:
                yield record.revision, "state", job.model_dump()
            if record.has_ended:
                return
            state, reported, seen = job.state, job.progress, record.revision
            later = await self._later(id, seen)
            if later is None:
                return
            record = later

    async def _later(self, id: str, revision: int) -> JobDocument | None:
        """Return the job after its next change; None if it was deleted."""
        while True:
            known = self._job_store.jobs.get(id)
            if known is None:  # deleted or created since the last refresh
                try:
                    known = await self._job_store.get(id)
                except JobNotFound:
                    return None
            if known.revision > revision:
                return known
            await self._job_store.wait(HEARTBEAT_SECONDS)

    def changed_since(self, revision: int) -> list[JobDocument]:
        """Return the known jobs that changed after a revision, ordered by revision."""
        changed = (job for job in self._job_store.jobs.values() if job.revision > revision)
        return sorted(changed, key=lambda job: job.revision)

    @property
    def damaged(self) -> list[str]:
        """The ids of jobs that cannot be read."""
        return sorted(self._job_store.damaged)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs in each state, as far as this process knows."""
        counts: dict[str, int] = dict.fromkeys(get_args(State), 0)
        for record in self._job_store.jobs.values():
            counts[record.state] += 1
        return counts

    async def list(
        self, state: str | None = None, limit: int = 100, of_interest: Callable[[str], bool] = lambda _: True
    ) -> list[Job]:
        """Return the jobs, newest first.

        Parameters
        ----------
        state : state of the listed jobs; None for any.
        limit : maximum number of listed jobs.
        of_interest : returns whether to list jobs for a model of this name.
        """
        await self._job_store.refresh()
        records = [
            record
            for record in self._job_store.jobs.values()
            if state in (None, record.state) and of_interest(record.spec.model)
        ]
        records.sort(key=lambda record: (record.created, record.id), reverse=True)
        return [record.to_job() for record in records[:limit]]


def open_jobs(store: Store, settings: Settings, datasets: DatasetStore, published: Callable[[str], None]) -> JobService:
    """Return the jobs of a store, not started yet.

    Parameters
    ----------
    store, settings, datasets : of the server.
    published : callback with the name of a model that got a version from this process.
    """
    context = JobContext(store, settings, datasets, JobStore(store), published)
    if settings.job_runner == "local":
        return JobService(context, LocalRunner(context, settings.job_slots))
    from manylabel_service.jobs.worker.rq_runner import RQRunner  # imported here, because importing RQ takes long

    return JobService(context, RQRunner(context))


def _id_of(key: IdempotencyKey) -> str:
    """Return the job id derived from an idempotency key, so that the store prevents duplicates."""
    digest = blake2b(key.key.encode(), digest_size=16, person=b"jobs").digest()
    return ulid.make(int.from_bytes(digest[:6]), digest[6:]).lower()


def _judges(record: JobDocument, label: str | None) -> bool:
    """Return whether a job is a search for doubts that judges a label, or all labels for None."""
    return isinstance(record.spec, DoubtsSpec) and record.spec.label in (None, label)
