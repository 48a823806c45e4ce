"""Supervision of one task from its lease to its end, the same for every runner.

Only the holder of the lease may work on the task and write the result to the job's document. A holder that loses the
lease stops at once and writes nothing. Training runs in a separate process, which can be killed at any time.
"""

import asyncio
import os
import socket
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from manylabel_service.environment import secrets, time
from manylabel_service.errors import (
    BlobDamaged,
    DatasetNotFound,
    JobNotFound,
    ServiceError,
    StorageFull,
    StorageUnavailable,
)
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_record import JobDocument, LeaseLost, NotClaimable, Task
from manylabel_service.jobs.job_store import doubts_key
from manylabel_service.jobs.spec.schemas import DataOfStream, DoubtsSpec, DryRunResult, DryRunSpec, Result
from manylabel_service.jobs.supervision.child_process import ChildProcess, task_directory
from manylabel_service.jobs.supervision.files import (
    CheckpointUploads,
    FilesChanged,
    InputFiles,
    TooFewExamples,
    gather,
    publish_result,
    store_doubts,
)
from manylabel_service.jobs.supervision.lease import TaskChange, TaskLease
from manylabel_service.jobs.training.child import ORPHANED
from manylabel_service.jobs.training.request import FitResult
from manylabel_service.storage import UNREADABLE

RELEASE_SECONDS = 5.0
"""Seconds for which a stopping supervisor tries to release its task."""

log = structlog.get_logger()


class TaskFailed(Exception):
    """The task cannot succeed, even if it is retried."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class ProcessDied(Exception):
    """The training process ended without a reason; another attempt may succeed."""


class ProcessOrphaned(Exception):
    """The training process ended because its supervisor did not renew its deadline."""


async def supervise(context: JobContext, id: str, number: int, supervision: "type[Supervision] | None" = None) -> None:
    """Run a task if it is still queued.

    Returns when the task is done, has failed or was revoked, or if another worker runs it. If cancelled, it first
    releases the task with its last checkpoint.
    """
    token = secrets.token_hex(8)

    def take(record: JobDocument, now: str) -> None:
        task = record.claim(number, token, now)
        how = f"resumes from iteration {task.checkpoint.iteration}" if task.checkpoint else "begins"
        where = f"{socket.gethostname()}, process {os.getpid()}"
        record.add_log_lines(now, [f"{_named(record, number)} {how} on {where}, attempt {task.attempt}"])

    taken_at = time.monotonic()
    try:
        record = await context.job_store.change(id, take)
    except (JobNotFound, NotClaimable, StorageUnavailable, *UNREADABLE):
        return  # if the lease was acquired but the response lost, it expires, because no heartbeats are sent
    await (supervision or Supervision)(context, record, TaskLease(context, id, number, token, taken_at)).run()


class Supervision:
    """Supervision of one leased task."""

    def __init__(self, context: JobContext, record: JobDocument, lease: TaskLease) -> None:
        self._context, self._record, self._lease = context, record, lease
        self._task = record.tasks[lease.number]
        self._log = log.bind(job=record.id, task=lease.number, stage=self._task.stage)

    async def run(self) -> None:
        """Run the task to its end."""
        self._log.info("task_started", attempt=self._task.attempt)
        try:
            end = await _while_leased(self._lease.renew_forever(), self._work())
            # no more heartbeats, because they would mistake the end of the task for a lost lease
            await self._lease.commit(end)
            self._log.info("task_finished")
            with suppress(StorageUnavailable):  # otherwise the monitor or the deletion of the job deletes the blobs
                await self._delete_blobs()
        except LeaseLost as error:
            self._log.info("lease_lost", reason=str(error))
        except ProcessOrphaned:
            await self._end(lambda record, *_: record.requeue(self._lease.number, self._lease.token))
        except asyncio.CancelledError:
            await self._release()
            raise
        except ProcessDied as error:
            reason, most = str(error), self._context.settings.limits.job_max_attempts
            self._log.warning("training_process_died", error=reason)
            await self._end(lambda record, task, now: record.requeue_or_fail(task, reason, most, now))
        except Exception as error:
            code, detail = _failure(error)
            self._log.warning("task_failed", code=code, error=detail, exc_info=code == "internal_error")
            await self._end(lambda record, _, now: record.fail(code, detail, now))

    async def _end(self, change: TaskChange) -> None:
        """Store the outcome, unless the lease was lost in the meantime."""
        with suppress(LeaseLost):
            await self._lease.commit(change)

    async def _release(self) -> None:
        self._lease.add_log_line(f"{_named(self._record, self._lease.number)} is released: its worker stops")
        number, token = self._lease.number, self._lease.token
        with suppress(TimeoutError, LeaseLost, ServiceError):
            await self._lease.change(lambda record, *_: record.requeue(number, token), most_seconds=RELEASE_SECONDS)

    async def _delete_blobs(self) -> None:
        """Delete the blobs that are not needed after the end of the task."""
        if self._task.stage == "fit":
            await self._context.job_store.remove_blobs(self._record.id, keep=(doubts_key(self._record.id),))
        elif self._task.checkpoint is not None:
            await self._context.store.blobs.delete(self._task.checkpoint.key)

    async def _work(self) -> TaskChange:
        """Return the change of the job that ends the task."""
        number, token = self._lease.number, self._lease.token
        with task_directory(self._context.settings.data_dir / "jobs") as directory:
            if isinstance(self._record.spec, DoubtsSpec) and self._task.stage == "fit":
                outcome = await self._trained(directory)
                await self._store_doubts(directory)
                return lambda job, _, now: job.succeed(number, token, None, now, outcome)
            if isinstance(self._record.spec, DryRunSpec) and self._task.stage == "fit":
                tried = DryRunResult.model_validate(await self._trained(directory))
                return lambda job, _, now: job.succeed(number, token, tried, now)
            if self._task.stage == "fit":
                fit = FitResult.model_validate(await self._trained(directory))
                result = await self._publish(directory, fit)
                return lambda job, _, now: job.succeed(number, token, result, now)
            gathers = self._task.stage == "gather"
            outcome = await (self._gathered(directory) if gathers else self._trained(directory))
            return lambda job, *_: job.finish(number, token, outcome)

    async def _gathered(self, directory: Path) -> dict[str, Any]:
        try:
            taken = await self._lease.retry_until_stored(lambda: gather(self._context, self._record, directory))
        except TooFewExamples as error:
            self._lease.add_log_line(str(error))
            raise TaskFailed("too_few_examples", str(error)) from error
        except StorageFull as error:
            raise TaskFailed("storage_full", error.answer()) from error
        except ServiceError as error:
            raise TaskFailed("stream_unavailable", error.answer()) from error
        data = self._record.spec.data
        assert isinstance(data, DataOfStream)
        self._lease.add_log_line(f"took examples from the stream of model {data.stream}: {taken.text}")
        return taken.model_dump()

    async def _store_doubts(self, directory: Path) -> None:
        try:
            await self._lease.retry_until_stored(lambda: store_doubts(self._context, self._record, directory))
        except StorageFull as error:
            raise TaskFailed("storage_full", error.answer()) from error
        except ServiceError as error:
            raise TaskFailed("stream_unavailable", error.answer()) from error

    async def _publish(self, directory: Path, fit: FitResult) -> Result:
        def announce(_: JobDocument, task: Task, __: str) -> None:
            task.publishing = True

        record = await self._lease.commit(announce)
        try:
            made = await self._lease.retry_until_stored(lambda: publish_result(self._context, record, directory, fit))
        except StorageFull as error:
            raise TaskFailed("storage_full", error.answer()) from error
        except ServiceError as error:
            raise TaskFailed("not_publishable", error.answer()) from error
        self._context.published(made.model)
        self._lease.add_log_line(f"published as version {made.version} of model {made.model}")
        if made.not_promoted_because is not None:
            self._lease.add_log_line(f"version {made.version} is not served: {made.not_promoted_because}")
        if made.worse is not None:
            self._lease.add_log_line(f"version {made.version} is served, although {made.worse}")
        return made

    async def _trained(self, directory: Path) -> dict[str, Any]:
        """Run a training process, and return its result."""
        try:
            files = InputFiles(self._context, self._record, self._lease.number, directory)
            await self._lease.retry_until_stored(files.fetch)
        except (DatasetNotFound, BlobDamaged, FilesChanged) as error:
            raise TaskFailed("dataset_changed", str(error)) from error
        await self._lease.wait_until_valid()
        process = await ChildProcess.start(directory, self._record.threads, self._lease.valid_until)
        self._lease.process = process
        checkpoints = CheckpointUploads(self._context, self._lease, self._task.checkpoint)
        storing = asyncio.create_task(checkpoints.store(), name=f"checkpoints of {self._record.id}")
        seconds = self._context.settings.job_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._listen(process, directory, checkpoints)
        except TimeoutError:
            raise TaskFailed(
                "timed_out", f"it took longer than job_timeout_seconds, {seconds:g} s, in one attempt"
            ) from None
        finally:
            self._lease.process = None
            storing.cancel()
            await process.kill()
            await asyncio.gather(storing, return_exceptions=True)
            self._task.checkpoint = checkpoints.kept

    async def _listen(self, process: ChildProcess, directory: Path, checkpoints: CheckpointUploads) -> dict[str, Any]:
        result = None
        async for event in process.events():
            match event.pop("event"):
                case "progress":
                    self._lease.progress = event
                case "log":
                    self._lease.add_log_line(event["text"])
                case "checkpoint":
                    checkpoints.add(directory / event["file"], event["iteration"])
                case "result":
                    result = event
                case "failed":
                    raise TaskFailed(event["code"], event["detail"])
        status = await process.ended()
        if status == 0 and result is not None:
            return result
        for line in process.last_lines:
            self._lease.add_log_line(line)
        raise _ended(status, list(process.last_lines))


async def _while_leased(renewing: Coroutine[Any, Any, None], working: Coroutine[Any, Any, TaskChange]) -> TaskChange:
    """Run the work while the lease is renewed; an error of the renewal ends the work."""
    renewal, worker = asyncio.create_task(renewing), asyncio.create_task(working)
    try:
        await asyncio.wait((renewal, worker), return_when=asyncio.FIRST_COMPLETED)
    finally:
        renewal.cancel()
        worker.cancel()
        await asyncio.gather(renewal, worker, return_exceptions=True)
    if worker.cancelled():
        renewal.result()
    return worker.result()


def _failure(error: Exception) -> tuple[str, str]:
    """Return code and detail of the job's error."""
    if isinstance(error, TaskFailed):
        return error.code, error.detail
    return ("disk_error", str(error)) if isinstance(error, OSError) else ("internal_error", repr(error))


def _ended(status: int, lines: list[str]) -> Exception:
    """Return the error for a process with this exit status."""
    last = f"; its last line: {lines[-1]}" if lines else ""
    if status < 0:
        hint = ", perhaps because memory ran out" if status == -9 else ""
        return ProcessDied(f"the training process was killed by signal {-status}{hint}{last}")
    if status == ORPHANED:
        return ProcessOrphaned()
    if status == 0:
        return ProcessDied(f"the training process ended without a result{last}")
    return TaskFailed("training_failed", f"the training process ended with status {status}{last}")


def _named(record: JobDocument, number: int) -> str:
    """Return the name of a task for messages."""
    stage = record.tasks[number].stage
    trials = [n for n, task in enumerate(record.tasks) if task.stage == "trial"]
    return f"trial {trials.index(number) + 1} of {len(trials)}" if stage == "trial" else f"the {stage}"
