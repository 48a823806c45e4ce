"""The files that a training process needs are put into its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from manylabel_service.errors import BlobNotFound
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_record import JobRecord
from manylabel_service.jobs.job_store import gathered_key
from manylabel_service.jobs.spec.schemas import DataOfSet, Rows
from manylabel_service.jobs.training.request import CHECKPOINT, DATA, HELD, UNLABELLED, FitRequest, Part
from manylabel_service.storage import blob_to_file

TEST_OF = {"train": "test"}
"""The split to measure on, by the one that is learnt from, where no rows are named."""


class FilesChanged(Exception):
    """The data are not, or no longer, what they were when the job was submitted."""


async def fetch_files(context: JobContext, record: JobRecord, number: int, directory: Path) -> None:
    """Write the files of a task into a directory.

    Raises
    ------
    DatasetNotFound, FilesChanged
    StorageGone
        Call it again.
    """
    await _Files(context, record, number, directory).fetch()


class _Files:
    def __init__(self, context: JobContext, record: JobRecord, number: int, directory: Path) -> None:
        self._context, self._record, self._directory = context, record, directory
        self._task = record.tasks[number]
        self._splits: dict[str, int] = {}
        """Of the data set that is learnt from."""

    async def fetch(self) -> None:
        spec, settings = self._record.spec, self._context.settings
        rows = await self._rows()
        request = FitRequest(
            kind="trial" if self._task.stage == "trial" else "fit",
            trainer=spec.trainer,
            params=self._task.params,
            seed=spec.seed,
            rows=rows,
            held=await self._held(),
            unlabelled=await self._unlabelled(),
            folds=spec.search.folds if spec.search else 2,
            measure=spec.search.measure if spec.search else "micro_f1",
            threads=self._record.threads,
            segment_work=self._record.segment_work,
            memory_bytes=settings.job_memory_bytes,
            niceness=settings.job_niceness,
        )
        await self._checkpoint()
        request.write(self._directory)

    async def _rows(self) -> Part:
        data = self._record.spec.data
        if isinstance(data, DataOfSet):
            self._splits = await self._dataset(data.dataset, DATA)
            return Part(file=DATA, split=data.split)
        try:
            await blob_to_file(self._context.store.blobs, gathered_key(self._record.id), self._directory / DATA)
        except BlobNotFound as error:
            raise FilesChanged("the examples taken from the stream are no longer there") from error
        return Part(file=DATA, split=None)

    async def _held(self) -> float | Part | None:
        data, holdout = self._record.spec.data, self._record.spec.holdout
        if isinstance(holdout, float):
            return holdout
        if self._task.stage == "trial":
            return None  # the folds are what it is measured on
        if holdout is not None:
            return await self._part(holdout, HELD)
        test = TEST_OF.get(data.split or "") if isinstance(data, DataOfSet) else None
        return Part(file=DATA, split=test) if test in self._splits else None

    async def _unlabelled(self) -> Part | None:
        data = self._record.spec.data
        if isinstance(data, DataOfSet) and data.unlabelled is not None:
            return await self._part(data.unlabelled, UNLABELLED)
        return None

    async def _part(self, rows: Rows, file: Literal["held", "unlabelled"]) -> Part:
        data = self._record.spec.data
        if isinstance(data, DataOfSet) and rows.dataset == data.dataset:
            return Part(file=DATA, split=rows.split)
        await self._dataset(rows.dataset, file)
        return Part(file=file, split=rows.split)

    async def _dataset(self, name: str, file: str) -> dict[str, int]:
        found = await self._context.datasets.fetch(name, self._directory / file)
        if found.checksum != self._record.checksums[name]:
            raise FilesChanged(f"the data set {name!r} is another one than when the job was submitted")
        return found.splits

    async def _checkpoint(self) -> None:
        """Fetch the checkpoint to go on from; if it is lost, the fit begins anew, to the same result."""
        if self._task.checkpoint is None:
            return
        try:
            await blob_to_file(self._context.store.blobs, self._task.checkpoint.key, self._directory / CHECKPOINT)
        except BlobNotFound:
            (self._directory / CHECKPOINT).unlink(missing_ok=True)
