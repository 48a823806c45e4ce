"""JobService as the rest of the service sees them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Any, get_args

from manylabel_service import ulid as prediction_ids
from manylabel_service.errors import DatasetNotFound, DocumentChanged, InvalidJob, JobsFull, KeyReused
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.jobs.context import BEAT_SECONDS, JobContext
from manylabel_service.jobs.job_record import JobRecord
from manylabel_service.jobs.job_store import KIND, now
from manylabel_service.jobs.monitor import JobMonitor
from manylabel_service.jobs.plan import plan
from manylabel_service.jobs.runners.local import Runner
from manylabel_service.jobs.spec.schemas import Job, JobSpec, LogLine, State
from manylabel_service.jobs.validation import check

MAX_BYTES = 2**19
"""Of a new job in the store. It grows by what comes of its trials."""

Event = tuple[int, str, dict[str, Any]]
"""The revision of the job, ``state``, ``progress`` or ``log``, and what it says."""


class JobService:
    """All jobs of a store; every method raises StorageGone.

    Parameters
    ----------
    office : of this process.
    runner : does them.
    """

    def __init__(self, office: JobContext, runner: Runner) -> None:
        self._office, self._ledger, self._runner = office, office.ledger, runner
        self._keeper = JobMonitor(office, runner)
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look after jobs from now on; the store is open."""
        self._keeping = asyncio.create_task(self._keeper.run(), name="keeper of jobs")

    async def stop(self) -> None:
        """Give back what is under way in this process, with its last checkpoints; its processes are killed."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._runner.stop()

    async def submit(self, spec: JobSpec, key: IdempotencyKey | None) -> tuple[Job, bool]:
        """Queue a job; the job, and whether it is one that an earlier request with the same key made.

        Raises
        ------
        InvalidJob, DatasetNotFound, ModelNotFound, ModelIsOnline, LimitExceeded
        JobsFull
        KeyReused
        """
        id = _id_of(key) if key else prediction_ids.make(_now_ms(), secrets.token_bytes(10)).lower()
        if key and (earlier := await self._earlier(id, key)):
            return earlier, True
        record = await self._made(id, spec, key)
        try:
            record = await self._ledger.add(record)
        except DocumentChanged:
            assert key is not None, "ids are drawn once"
            earlier = await self._earlier(id, key)
            assert earlier is not None
            return earlier, True
        await self._look_again(record)
        self._keeper.wake()
        return record.told(), False

    async def _earlier(self, id: str, key: IdempotencyKey) -> Job | None:
        """The job that the key has made; raises KeyReused if that was ordered otherwise."""
        document = await self._office.store.documents.get(KIND, id)
        if document is None:
            return None
        record = JobRecord.read(document)
        if record.digest != key.digest.hex():
            raise KeyReused(key.key)
        return record.told()

    async def _made(self, id: str, spec: JobSpec, key: IdempotencyKey | None) -> JobRecord:
        """A job that can be done, as far as can be known."""
        await self._check_room()
        checksums = await check(self._office, spec)
        settings = self._office.settings
        record = JobRecord(
            id=id,
            spec=spec,
            digest=key.digest.hex() if key else None,
            checksums=checksums,
            threads=settings.job_threads,
            segment_work=settings.job_checkpoint_work,
            created=now(),
            tasks=plan(spec),
        )
        record.queue_next()
        if len(record.written()) > MAX_BYTES:
            raise InvalidJob(("search" if spec.search else "params",), f"must take at most {MAX_BYTES:,} bytes")
        return record

    async def _check_room(self) -> None:
        await self._ledger.refresh()
        most = self._office.settings.max_queued_jobs
        if sum(not record.has_ended for record in self._ledger.jobs.values()) >= most:
            raise JobsFull(most)

    async def _look_again(self, record: JobRecord) -> None:
        """Take a job back whose data set was deleted while it was written; from now on its data sets stay."""
        for name in record.checksums:
            try:
                await self._office.datasets.get(name)
            except DatasetNotFound:
                await self._ledger.remove(record)
                raise

    async def get(self, id: str) -> Job:
        """A job; raises JobNotFound."""
        return (await self._ledger.get(id)).told()

    async def log(self, id: str) -> list[LogLine]:
        """What is left of a job's log; raises JobNotFound."""
        return (await self._ledger.get(id)).log()

    async def cancel(self, id: str) -> Job:
        """End a job; raises JobNotFound, and JobEnded."""
        record = await self._ledger.change(id, lambda record, now: record.cancel(now))
        self._keeper.wake()
        return record.told()

    async def retry(self, id: str) -> Job:
        """Queue a job again that failed or was cancelled; it goes on from its checkpoints.

        Raises
        ------
        JobNotFound, JobNotRetryable, JobsFull
        DatasetNotFound
        """
        await self._check_room()
        for name in (await self._ledger.get(id)).checksums:
            await self._office.datasets.get(name)
        record = await self._ledger.change(id, lambda record, _: record.retry())
        self._keeper.wake()
        return record.told()

    async def uses_dataset(self, name: str) -> bool:
        """Whether a job that has not ended needs a data set."""
        await self._ledger.refresh()
        return any(name in record.checksums for record in self._ledger.jobs.values() if not record.has_ended)

    async def watch(self, id: str, after: int | None = None) -> AsyncIterator[Event]:
        """What happens to a job from now on, or from after a revision, until it has ended.

        At first its state as it is. Raises JobNotFound.
        """
        record = await self._ledger.get(id)
        state: str | None = None
        said: Any = None
        seen = 0 if after is None else after
        while True:
            for line in record.log(seen):
                yield record.revision, "log", line.model_dump()
            job = record.told()
            if job.progress is not None and job.progress != said and job.state == state:
                yield record.revision, "progress", job.progress.model_dump()
            if job.state != state:
                yield record.revision, "state", job.model_dump()
            if record.has_ended:
                return
            state, said, seen = job.state, job.progress, record.revision
            record = await self._later(id, seen)

    async def _later(self, id: str, revision: int) -> JobRecord:
        """The job once it has changed."""
        while (known := self._ledger.jobs.get(id)) is None or known.revision <= revision:
            await self._ledger.wait(BEAT_SECONDS)
        return known

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state, as far as this process has seen."""
        counts: dict[str, int] = dict.fromkeys(get_args(State), 0)
        for record in self._ledger.jobs.values():
            counts[record.state] += 1
        return counts

    async def list(self, state: str | None = None, limit: int = 100) -> list[Job]:
        """The newest jobs first, those in one state if it is given."""
        await self._ledger.refresh()
        records = [record for record in self._ledger.jobs.values() if state in (None, record.state)]
        records.sort(key=lambda record: (record.created, record.id), reverse=True)
        return [record.told() for record in records[:limit]]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _id_of(key: IdempotencyKey) -> str:
    """The id of the job that a key makes: so the store itself sees to it that there is one."""
    digest = blake2b(key.key.encode(), digest_size=16, person=b"jobs").digest()
    return prediction_ids.make(int.from_bytes(digest[:6]), digest[6:]).lower()
