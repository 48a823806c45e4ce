"""Looks after all jobs of a store, as every process does that has to do with them.

It notices who has died: a task that runs gives signs of life, and of one that gave none for `LEASE_SECONDS` the claim
is taken away. No clock of another machine is asked. Only the time counts during which this keeper could read
the store: nobody is dead because the store was gone.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import structlog

from manylabel_service.errors import JobNotFound, StorageError
from manylabel_service.jobs.context import LEASE_SECONDS, LOOK_SECONDS, JobContext
from manylabel_service.jobs.job_record import JobRecord, Unchanged, queued
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.jobs.runners.local import Runner
from manylabel_service.jobs.supervision.workdirs import sweep_places

SWEEP_SECONDS = 60.0
"""Between two looks at what is left over."""
STEP_SECONDS = 2.0
"""Most that counts between two looks: this process itself may have stood still."""

log = structlog.get_logger()


class JobMonitor:
    """The keeper of one process.

    Parameters
    ----------
    office : of this process.
    runner : is offered what is queued.
    """

    def __init__(self, office: JobContext, runner: Runner) -> None:
        self._office, self._runner = office, runner
        self._signs: dict[tuple[str, int], _Sign] = {}
        self._looked = self._swept = 0.0
        self._lost_sight = True
        """Whether the store was gone: what it has now may be older than what is known here."""
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look now: something has changed."""
        self._wake.set()

    async def run(self) -> None:
        """Look after the jobs, without an end."""
        while True:
            try:
                await self._look()
            except StorageError as error:
                log.warning("jobs_not_seen", error=str(error))
                self._looked, self._lost_sight = 0.0, True
            except Exception:
                log.exception("jobs_not_kept")
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def _look(self) -> None:
        ledger = self._office.ledger
        now = time.monotonic()
        await ledger.refresh(whole=self._lost_sight or now - self._swept >= SWEEP_SECONDS)
        self._lost_sight = False
        now = time.monotonic()
        passed = min(now - self._looked, STEP_SECONDS) if self._looked else 0.0
        self._looked = now
        for id, number in self._silent(ledger, passed):
            await self._bury(id, number)
        await self._runner.offer(queued(ledger.jobs.values()))
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            await self._sweep()

    def _silent(self, ledger: JobStore, passed: float) -> list[tuple[str, int]]:
        """The tasks whose holders have given no sign of life for too long."""
        signs = {}
        for record in ledger.jobs.values():
            for number, task in enumerate(() if record.has_ended else record.tasks):
                if task.state == "running":
                    key = (record.id, number)
                    known = self._signs.get(key)
                    same = known is not None and (known.claim, known.beat) == (task.claim, task.beat)
                    age = known.age + passed if known is not None and same else 0.0
                    signs[key] = _Sign(task.claim, task.beat, age)
        self._signs = signs
        return [key for key, sign in signs.items() if sign.age >= LEASE_SECONDS]

    async def _bury(self, id: str, number: int) -> None:
        """Take the claim away, unless its holder has given a sign of life after all."""
        sign, settings = self._signs.pop((id, number)), self._office.settings

        def take(record: JobRecord, now: str) -> None:
            task = record.tasks[number]
            if task.state != "running" or (task.claim, task.beat) != (sign.claim, sign.beat):
                raise Unchanged
            reason = f"the worker of task {number} gave no sign of life for {LEASE_SECONDS:g} s"
            record.say(now, [reason], settings.max_job_log_lines)
            record.lose(task, reason, settings.job_attempts, now)

        try:
            await self._office.ledger.change(id, take)
        except JobNotFound:
            return
        log.warning("worker_died", job=id, task=number)
        await self._office.ledger.refresh()

    async def _sweep(self) -> None:
        """Forget jobs that ended long ago, and remove what no job needs."""
        await asyncio.to_thread(sweep_places, self._office.settings.data_dir / "jobs")
        ledger = self._office.ledger
        ended = [record for record in ledger.jobs.values() if record.has_ended]
        ended.sort(key=lambda record: record.ended or "")
        for record in ended[: max(0, len(ended) - self._office.settings.max_jobs)]:
            await ledger.remove(record)
        for id in {key.split("/")[1] for key in await self._office.store.blobs.keys("jobs/")}:
            try:
                unneeded = (await ledger.get(id)).state == "succeeded"
            except JobNotFound:
                unneeded = True
            if unneeded:
                await ledger.remove_blobs(id)


class _Sign:
    """The last sign of life of a claim, and for how long there was no other."""

    __slots__ = ("age", "beat", "claim")

    def __init__(self, claim: str | None, beat: int, age: float) -> None:
        self.claim, self.beat, self.age = claim, beat, age
