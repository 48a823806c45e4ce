"""Checkpoints of a training process are uploaded, so that they survive it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from manylabel_service.errors import StorageFull, StorageGone
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_record import Checkpoint, JobRecord, Task
from manylabel_service.jobs.job_store import blobs_of
from manylabel_service.jobs.supervision.lease import TaskLease
from manylabel_service.storage import pieces_of_file


class CheckpointUploads:
    """An upload stores the checkpoints of one task; of several that wait, the latest.

    Parameters
    ----------
    context : of this process.
    lease : on the task.
    kept : the checkpoint of an earlier attempt, if there is one.

    Attributes
    ----------
    kept : the last checkpoint that the job's document names.
    """

    def __init__(self, context: JobContext, lease: TaskLease, kept: Checkpoint | None) -> None:
        self._context, self._lease = context, lease
        self._waiting: list[tuple[Path, int]] = []
        self._added = asyncio.Event()
        self.kept = kept

    def add(self, path: Path, iteration: int) -> None:
        """Queue a file to be stored, and then removed."""
        self._waiting.append((path, iteration))
        self._added.set()

    async def store(self) -> None:
        """Store what comes, without an end; raises LeaseLost."""
        while True:
            await self._added.wait()
            self._added.clear()
            waiting, self._waiting = self._waiting, []
            path, iteration = waiting[-1]
            try:
                await self._upload(path, iteration)
            except StorageFull as error:
                self._lease.add_log_line(f"the checkpoint at iteration {iteration} is not kept: {error}")
            for path, _ in waiting:
                path.unlink()

    async def _upload(self, path: Path, iteration: int) -> None:
        """Store the blob, then the document that names it; then remove what that named before."""
        key = f"{blobs_of(self._lease.id)}{self._lease.number}/{self._lease.token}/{path.name}"
        new, old = Checkpoint(key=key, iteration=iteration), self.kept

        def set_checkpoint(_: JobRecord, task: Task, __: str) -> None:
            task.checkpoint = new

        await self._lease.retry_until_stored(lambda: self._context.store.blobs.put(key, pieces_of_file(path)))
        await self._lease.commit(set_checkpoint)
        self.kept = new
        if old is not None:
            with suppress(StorageGone):  # else it goes when the job does
                await self._context.store.blobs.delete(old.key)
