"""From the files of a training process to checkpoints that survive it."""

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
    """Stores the checkpoints of one task; of several that wait, the latest.

    Parameters
    ----------
    office : of this process.
    claim : on the task.
    kept : what there is of an earlier attempt.

    Attributes
    ----------
    kept : the last one that the job's document names.
    """

    def __init__(self, office: JobContext, claim: TaskLease, kept: Checkpoint | None) -> None:
        self._office, self._claim = office, claim
        self._waiting: list[tuple[Path, int]] = []
        self._there = asyncio.Event()
        self.kept = kept

    def add(self, path: Path, iteration: int) -> None:
        """A file to be stored, and then removed."""
        self._waiting.append((path, iteration))
        self._there.set()

    async def store(self) -> None:
        """Store what comes, without an end; raises ClaimLost."""
        while True:
            await self._there.wait()
            self._there.clear()
            waiting, self._waiting = self._waiting, []
            path, iteration = waiting[-1]
            try:
                await self._keep(path, iteration)
            except StorageFull as error:
                self._claim.say(f"the checkpoint at iteration {iteration} is not kept: {error}")
            for path, _ in waiting:
                path.unlink()

    async def _keep(self, path: Path, iteration: int) -> None:
        """The blob, then the document that names it; then what it named before is removed."""
        key = f"{blobs_of(self._claim.id)}{self._claim.number}/{self._claim.token}/{path.name}"
        new, old = Checkpoint(key=key, iteration=iteration), self.kept

        def name(_: JobRecord, task: Task, __: str) -> None:
            task.checkpoint = new

        await self._claim.insist(lambda: self._office.store.blobs.put(key, pieces_of_file(path)))
        await self._claim.settle(name)
        self.kept = new
        if old is not None:
            with suppress(StorageGone):  # else it goes when the job does
                await self._office.store.blobs.delete(old.key)
