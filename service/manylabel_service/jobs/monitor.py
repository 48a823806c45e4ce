"""Monitor of all jobs of a store.

It detects dead workers: a running task sends heartbeats, and the monitor revokes the lease of a task that sent none for
`LEASE_SECONDS`. It does not use clocks of other machines, and counts only time during which it could read the store, so
no worker counts as dead because the store is unavailable. It offers queued tasks to the runner until they are claimed,
so a task that a queue loses is offered again.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

import structlog

from manylabel_service import ulid
from manylabel_service.environment import time
from manylabel_service.errors import JobNotFound, StorageUnavailable
from manylabel_service.jobs.context import LEASE_SECONDS, POLL_SECONDS, JobContext
from manylabel_service.jobs.job_record import JobDocument, Unchanged, queued
from manylabel_service.jobs.job_store import BLOBS, doubts_key
from manylabel_service.jobs.local_runner import Runner
from manylabel_service.jobs.supervision.child_process import remove_stale
from manylabel_service.models.garbage import GarbageCollector
from manylabel_service.storage import UNREADABLE

MAX_ENDED_JOBS = 1_000
"""Maximum number of stored finished jobs. Above it, the oldest are removed; the versions that they published stay."""
COLLECT_SECONDS = 60.0
"""Interval in seconds of removals of old jobs and of steps of garbage collection."""
MAX_PASSED_SECONDS = 2.0
"""Maximum seconds counted between two polls, in case this process was suspended."""

log = structlog.get_logger()


class JobMonitor:
    """Poller of the jobs for one server."""

    def __init__(self, context: JobContext, runner: Runner) -> None:
        self._context, self._runner = context, runner
        self._garbage = GarbageCollector(context.store)
        self._heartbeats: dict[tuple[str, int], _Heartbeat] = {}
        self._polled_at = self._collected_at = 0.0
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Poll now: something has changed."""
        self._wake.set()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                await self._poll()
            except StorageUnavailable as error:
                log.warning("store_unavailable", error=str(error))
                self._polled_at = 0.0
            except Exception:
                log.exception("job_monitor_failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def _poll(self) -> None:
        job_store = self._context.job_store
        await job_store.refresh()
        now = time.monotonic()
        passed = min(now - self._polled_at, MAX_PASSED_SECONDS) if self._polled_at else 0.0
        self._polled_at = now
        for id, number in self._expired(passed):
            await self._expire(id, number)
        await self._runner.offer(queued(job_store.jobs.values()))
        if now - self._collected_at >= COLLECT_SECONDS:
            self._collected_at = now
            await self._collect_garbage()

    def _expired(self, passed: float) -> list[tuple[str, int]]:
        """Return the tasks whose holders have timed out."""
        heartbeats = {}
        for record in self._context.job_store.jobs.values():
            for number, task in enumerate(() if record.has_ended else record.tasks):
                if task.state == "running":
                    key = (record.id, number)
                    known = self._heartbeats.get(key)
                    same = known is not None and (known.lease, known.number) == (task.lease, task.heartbeats)
                    age = known.age + passed if known is not None and same else 0.0
                    heartbeats[key] = _Heartbeat(task.lease, task.heartbeats, age)
        self._heartbeats = heartbeats
        return [key for key, heartbeat in heartbeats.items() if heartbeat.age >= LEASE_SECONDS]

    async def _expire(self, id: str, number: int) -> None:
        """Revoke the lease, unless its holder has sent a heartbeat in the meantime."""
        last, settings = self._heartbeats.pop((id, number)), self._context.settings

        def take_away(record: JobDocument, now: str) -> None:
            task = record.tasks[number]
            if task.state != "running" or (task.lease, task.heartbeats) != (last.lease, last.number):
                raise Unchanged
            reason = f"the worker of task {number} sent no heartbeat for {LEASE_SECONDS:g} s"
            record.add_log_lines(now, [reason])
            record.requeue_or_fail(task, reason, settings.limits.job_max_attempts, now)

        try:
            await self._context.job_store.change(id, take_away)
        except (JobNotFound, *UNREADABLE):
            return
        log.warning("lease_expired", job=id, task=number)
        await self._context.job_store.refresh()

    async def _collect_garbage(self) -> None:
        """Delete the oldest finished jobs, and blobs that no job needs."""
        await asyncio.to_thread(remove_stale, self._context.settings.data_dir / "jobs")
        job_store = self._context.job_store
        ended = [record for record in job_store.jobs.values() if record.has_ended]
        ended.sort(key=lambda record: record.ended or "")
        for record in ended[: max(0, len(ended) - MAX_ENDED_JOBS)]:
            await job_store.remove(record)
        for id in {key.split("/")[1] for key in await self._context.store.blobs.keys(BLOBS)}:
            if not ulid.valid(id.upper()):
                continue  # a later release may use other names
            needed: set[str] = set()
            try:
                record = await job_store.get(id)
                unneeded = record.state == "succeeded"
                if unneeded and await self._has_its_model(record):
                    needed.add(doubts_key(id))
            except JobNotFound:
                unneeded = True
            except UNREADABLE:  # `refresh` has reported it
                unneeded = False
            if unneeded:
                await job_store.remove_blobs(id, needed)
        await self._garbage.step()

    async def _has_its_model(self, record: JobDocument) -> bool:
        """Return whether the model of a search for doubts still exists, and was not replaced."""
        if record.incarnation is None:
            return False
        model = await self._context.store.models.find(record.spec.model)
        return model is not None and model.incarnation == record.incarnation


class _Heartbeat(NamedTuple):
    """Last heartbeat of a lease, and the seconds since it."""

    lease: str | None
    number: int
    age: float
