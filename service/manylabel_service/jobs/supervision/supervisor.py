"""Doing one task, from the claim to its end: the same for every runner.

The claim decides. Whoever has it may work, and tells the job's document what came of it; who loses it stops at once
and leaves no trace. Training itself is done by a process of its own, which can be killed at any time.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from manylabel_service.errors import DatasetNotFound, JobNotFound, ServiceError, StorageFull, StorageGone
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_record import JobRecord, LeaseLost, NotClaimable, Task
from manylabel_service.jobs.supervision.checkpoints import CheckpointUploads
from manylabel_service.jobs.supervision.child_process import ChildProcess
from manylabel_service.jobs.supervision.inputs import FilesChanged, fetch_files
from manylabel_service.jobs.supervision.lease import Step, TaskLease
from manylabel_service.jobs.supervision.outputs import gather, publish_result
from manylabel_service.jobs.supervision.workdirs import own_place
from manylabel_service.jobs.training.__main__ import ORPHANED

RELEASE_SECONDS = 5.0
"""How long one who is told to stop tries to give a task back."""

log = structlog.get_logger()


class TaskFailed(Exception):
    """The task cannot be done, however often it is tried.

    Parameters
    ----------
    code, detail : as the job tells it.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class ProcessDied(Exception):
    """The training process ended without saying why; another attempt may do better."""


class ProcessOrphaned(Exception):
    """The training process ended because it was left alone for too long, and not for its own sake."""


async def supervise(office: JobContext, id: str, number: int) -> None:
    """Do a task if it is still to be done.

    Returns when it is done, has failed, was taken away, or somebody else does it. When cancelled, it gives the task
    back first, with its last checkpoint.
    """
    token = secrets.token_hex(8)

    def take(record: JobRecord, now: str) -> None:
        task = record.claim(number, token, now)
        how = f"goes on from iteration {task.checkpoint.iteration}" if task.checkpoint else "begins"
        where = f"{socket.gethostname()}, process {os.getpid()}"
        record.say(now, [f"{_named(record, number)} {how} on {where}, attempt {task.attempt}"], most_lines)

    made, most_lines = time.monotonic(), office.settings.max_job_log_lines
    try:
        record = await office.ledger.change(id, take)
    except (JobNotFound, NotClaimable, StorageGone):
        return  # a claim that was made though its answer got lost dies for want of signs of life
    await Supervision(office, record, TaskLease(office, id, number, token, made)).run()


class Supervision:
    """One claimed task.

    Parameters
    ----------
    office : of this process.
    record : the job when the task was claimed.
    claim : on it.
    """

    def __init__(self, office: JobContext, record: JobRecord, claim: TaskLease) -> None:
        self._office, self._record, self._claim = office, record, claim
        self._task = record.tasks[claim.number]
        self._log = log.bind(job=record.id, task=claim.number, stage=self._task.stage)

    async def run(self) -> None:
        """Do the task, to an end of any kind."""
        self._log.info("task_begun", attempt=self._task.attempt)
        try:
            await _while_kept(self._claim.keep(), self._work())
            self._log.info("task_done")
        except LeaseLost as error:
            self._log.info("task_taken_away", reason=str(error))
        except ProcessOrphaned:
            await self._end(lambda record, *_: record.release(self._claim.number, self._claim.token))
        except asyncio.CancelledError:
            await self._give_back()
            raise
        except ProcessDied as error:
            reason, most = str(error), self._office.settings.job_attempts
            self._log.warning("task_died", error=reason)
            await self._end(lambda record, task, now: record.lose(task, reason, most, now))
        except Exception as error:
            code, detail = _failure(error)
            self._log.warning("task_failed", code=code, error=detail, exc_info=code == "internal_error")
            await self._end(lambda record, _, now: record.fail(code, detail, now))

    async def _end(self, step: Step) -> None:
        """Say how it ended; nothing if the task was taken away meanwhile."""
        with suppress(LeaseLost):
            await self._claim.settle(step)

    async def _give_back(self) -> None:
        self._claim.say(f"{_named(self._record, self._claim.number)} is given back: its worker stops")
        number, token = self._claim.number, self._claim.token
        with suppress(TimeoutError, ServiceError):
            await self._claim.step(lambda record, *_: record.release(number, token), most_seconds=RELEASE_SECONDS)

    async def _work(self) -> None:
        with own_place(self._office.settings.data_dir / "jobs") as place:
            if self._task.stage == "gather":
                await self._finish(await self._gathered(place))
            elif self._task.stage == "trial":
                await self._finish(await self._trained(place))
            else:
                await self._publish(place, await self._trained(place))

    async def _gathered(self, place: Path) -> dict[str, Any]:
        try:
            outcome = await self._claim.insist(lambda: gather(self._office, self._record, place))
        except StorageFull as error:
            raise TaskFailed("storage_full", str(error)) from error
        except ServiceError as error:
            raise TaskFailed("stream_unavailable", str(error)) from error
        self._claim.say(f"took {outcome['rows']:,} examples from the stream of model {outcome['stream']}")
        return outcome

    async def _finish(self, outcome: dict[str, Any]) -> None:
        number, token, old = self._claim.number, self._claim.token, self._task.checkpoint
        await self._claim.settle(lambda record, *_: record.finish(number, token, outcome))
        if old is not None:
            with suppress(StorageGone):  # else it goes when the job does
                await self._office.store.blobs.delete(old.key)

    async def _publish(self, place: Path, result: dict[str, Any]) -> None:
        def announce(_: JobRecord, task: Task, __: str) -> None:
            task.publishing = True

        record = await self._claim.settle(announce)
        try:
            made = await self._claim.insist(lambda: publish_result(self._office, record, place, result))
        except StorageFull as error:
            raise TaskFailed("storage_full", str(error)) from error
        except ServiceError as error:
            raise TaskFailed("not_publishable", str(error)) from error
        self._office.published(made.model)
        self._claim.say(f"published as version {made.version} of model {made.model}")
        number, token = self._claim.number, self._claim.token
        await self._claim.settle(lambda job, _, now: job.succeed(number, token, made, now))
        with suppress(StorageGone):  # else the keeper does it
            await self._office.ledger.remove_blobs(record.id)

    async def _trained(self, place: Path) -> dict[str, Any]:
        """Let a process do what is to be computed; what it gives."""
        try:
            await self._claim.insist(lambda: fetch_files(self._office, self._record, self._claim.number, place))
        except (DatasetNotFound, FilesChanged) as error:
            raise TaskFailed("dataset_changed", str(error)) from error
        await self._claim.certain()
        process = await ChildProcess.start(place, self._record.threads, self._claim.certain_until)
        self._claim.process = process
        checkpoints = CheckpointUploads(self._office, self._claim, self._task.checkpoint)
        storing = asyncio.create_task(checkpoints.store(), name=f"checkpoints of {self._record.id}")
        seconds = self._office.settings.job_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._listen(process, place, checkpoints)
        except TimeoutError:
            raise TaskFailed("timed_out", f"it was not done in job_seconds = {seconds:g} s without a break") from None
        finally:
            self._claim.process = None
            storing.cancel()
            await process.kill()
            await asyncio.gather(storing, return_exceptions=True)
            self._task.checkpoint = checkpoints.kept

    async def _listen(self, process: ChildProcess, place: Path, checkpoints: CheckpointUploads) -> dict[str, Any]:
        result = None
        async for said in process.events():
            match said.pop("event"):
                case "progress":
                    self._claim.progress = said
                case "log":
                    self._claim.say(said["text"])
                case "checkpoint":
                    checkpoints.add(place / said["file"], said["iteration"])
                case "result":
                    result = said
                case "failed":
                    raise TaskFailed(said["code"], said["detail"])
        status = await process.ended()
        if status == 0 and result is not None:
            return result
        for line in process.last_lines:
            self._claim.say(line)
        raise _ended(status, list(process.last_lines))


async def _while_kept(keeping: Coroutine[Any, Any, None], working: Coroutine[Any, Any, None]) -> None:
    """Work while the claim is kept: when that ends, with an error, so does the work."""
    keeper, worker = asyncio.create_task(keeping), asyncio.create_task(working)
    try:
        await asyncio.wait((keeper, worker), return_when=asyncio.FIRST_COMPLETED)
    finally:
        keeper.cancel()
        worker.cancel()
        await asyncio.gather(keeper, worker, return_exceptions=True)
    (keeper if worker.cancelled() else worker).result()


def _failure(error: Exception) -> tuple[str, str]:
    """Code and detail, as the job tells them."""
    if isinstance(error, TaskFailed):
        return error.code, error.detail
    return ("disk_error", str(error)) if isinstance(error, OSError) else ("internal_error", repr(error))


def _ended(status: int, lines: list[str]) -> Exception:
    """The error for a process that ended like this."""
    last = f"; its last line: {lines[-1]}" if lines else ""
    if status < 0:
        hint = ", perhaps for want of memory" if status == -9 else ""
        return ProcessDied(f"the training process was killed by signal {-status}{hint}{last}")
    if status == ORPHANED:
        return ProcessOrphaned()
    if status == 0:
        return ProcessDied(f"the training process ended without a result{last}")
    return TaskFailed("training_failed", f"the training process ended with status {status}{last}")


def _named(record: JobRecord, number: int) -> str:
    """A task, for people to read."""
    stage = record.tasks[number].stage
    trials = [n for n, task in enumerate(record.tasks) if task.stage == "trial"]
    return f"trial {trials.index(number) + 1} of {len(trials)}" if stage == "trial" else f"the {stage}"
