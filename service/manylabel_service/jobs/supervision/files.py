"""Files between the store and the directory of a task: data and checkpoint in, checkpoints and result out."""

import asyncio
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from manylabel_service.clock import now_ms
from manylabel_service.datasets.from_stream import rows_of_stream
from manylabel_service.errors import BlobDamaged, BlobNotFound, ModelGone, StorageFull, StorageUnavailable
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_record import Checkpoint, JobDocument, Task
from manylabel_service.jobs.job_store import blobs_of, doubts_key, gathered_key
from manylabel_service.jobs.spec.schemas import (
    DataOfSet,
    DataOfStream,
    DoubtsSpec,
    DryRunSpec,
    JobSpec,
    Result,
    Rows,
    SearchSpec,
    StreamSample,
)
from manylabel_service.jobs.supervision.lease import TaskLease
from manylabel_service.jobs.training.request import (
    CHECKPOINT,
    DATA,
    HELD,
    RESULT,
    UNLABELLED,
    FitRequest,
    FitResult,
    Part,
)
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.storage import blob_to_file, file_to_blob
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version import VersionMeta

TEST_OF = {"train": "test"}
"""Default evaluation split of each training split."""


class FilesChanged(Exception):
    """The data differ from those at the submission of the job."""


class InputFiles:
    """Fetches the input files of a task into the directory of its training process."""

    def __init__(self, context: JobContext, record: JobDocument, number: int, directory: Path) -> None:
        self._context, self._record, self._directory = context, record, directory
        self._task = record.tasks[number]
        self._splits: dict[str, int] = {}
        """Splits of the dataset that the task trains on, with their numbers of rows."""

    async def fetch(self) -> None:
        """Write all files and the request that names them. Raises DatasetNotFound, FilesChanged, StorageUnavailable."""
        spec, settings = self._record.spec, self._context.settings
        rows = await self._rows()
        request = FitRequest(
            kind=_kind_of(spec, self._task),
            trainer=spec.trainer,
            params=await self._params(),
            seed=spec.seed,
            rows=rows,
            held=await self._held(),
            unlabelled=await self._unlabelled(),
            folds=spec.search.folds if spec.search else 2,
            measure=spec.search.measure if spec.search else "micro_f1",
            threads=self._record.threads,
            segment_work=self._record.segment_work,
            memory_bytes=settings.job_memory_bytes,
            niceness=settings.limits.job_niceness,
        )
        await self._checkpoint()
        request.write(self._directory)

    async def _params(self) -> dict[str, Any]:
        """Return the parameters of the task; for a search or a dry run, also the spec of the model.

        Raises FilesChanged.
        """
        if not isinstance(self._record.spec, SearchSpec):
            return self._task.params
        record = await self._context.store.models.find(self._record.spec.model)
        if record is None or record.incarnation != self._record.incarnation:
            raise FilesChanged("the model was replaced after its examples were sampled; begin again")
        return {**self._task.params, "spec": read_spec(record.spec).to_bytes().decode()}

    async def _rows(self) -> Part:
        data = self._record.spec.data
        if isinstance(data, DataOfSet):
            self._splits = await self._dataset(data.dataset, DATA)
            return Part(file=DATA, split=data.split)
        try:
            await blob_to_file(self._context.store.blobs, gathered_key(self._record.id), self._directory / DATA)
        except (BlobNotFound, BlobDamaged) as error:
            raise FilesChanged("the examples sampled from the stream no longer exist") from error
        return Part(file=DATA, split=None)

    async def _held(self) -> float | Part | None:
        data, holdout = self._record.spec.data, self._record.spec.holdout
        if isinstance(holdout, float):
            return holdout
        if self._task.stage == "trial":
            return None  # the folds are used for evaluation
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
            raise FilesChanged(f"the dataset {name!r} has been replaced since the job was submitted")
        return found.splits

    async def _checkpoint(self) -> None:
        """Fetch the checkpoint from which to resume. If it is lost, the fit starts from scratch and has the same
        result."""
        if self._task.checkpoint is None:
            return
        try:
            await blob_to_file(self._context.store.blobs, self._task.checkpoint.key, self._directory / CHECKPOINT)
        except (BlobNotFound, BlobDamaged):
            (self._directory / CHECKPOINT).unlink(missing_ok=True)


def _kind_of(spec: JobSpec, task: Task) -> Literal["fit", "trial", "doubts", "dry_run"]:
    if isinstance(spec, DoubtsSpec | DryRunSpec):
        return spec.trainer
    return "trial" if task.stage == "trial" else "fit"


class TooFewExamples(Exception):
    """The log of a model no longer has enough examples for a job."""


async def gather(context: JobContext, record: JobDocument, directory: Path) -> StreamSample:
    """Sample the examples of a stream and store them with the job; return their number. Raises TooFewExamples or
    ServiceError."""
    data, examples = record.spec.data, isinstance(record.spec, SearchSpec)
    assert isinstance(data, DataOfStream)
    if examples:
        await check_incarnation(context, record)
    counts = await rows_of_stream(context.store, context.settings, data.stream, data.last, directory / DATA, examples)
    text = counts.to_text()
    minimum = data.minimum or (0 if examples else counts.available)
    if counts.rows < minimum:
        raise TooFewExamples(f"{text}; the job needs {minimum:,}: request fewer, or lower the minimum")
    await file_to_blob(context.store.blobs, directory / DATA, gathered_key(record.id))
    facts = counts._asdict()
    return StreamSample(**{name: facts[name] for name in StreamSample.model_fields if name in facts}, text=text)


async def check_incarnation(context: JobContext, record: JobDocument) -> None:
    """Raise ModelGone if the model of a search or a dry run was replaced since the submission."""
    found = await context.store.models.find(record.spec.model)
    if found is None or found.incarnation != record.incarnation:
        raise ModelGone(record.spec.model, record.incarnation or 0)


async def store_doubts(context: JobContext, record: JobDocument, directory: Path) -> None:
    """Store the list of a search for doubts with the job, unless the model was replaced. Raises ModelGone,
    StorageFull or StorageUnavailable."""
    await check_incarnation(context, record)
    await file_to_blob(context.store.blobs, directory / RESULT, doubts_key(record.id))


class CheckpointUploads:
    """Uploader of the checkpoints of one task; if several wait, only the latest is stored.

    Attributes
    ----------
    kept : last checkpoint in the job's document.
    """

    def __init__(self, context: JobContext, lease: TaskLease, kept: Checkpoint | None) -> None:
        self._context, self._lease = context, lease
        self._waiting: list[tuple[Path, int]] = []
        self._added = asyncio.Event()
        self.kept = kept

    def add(self, path: Path, iteration: int) -> None:
        """Queue a file to store; it is removed afterwards."""
        self._waiting.append((path, iteration))
        self._added.set()

    async def store(self) -> None:
        """Store checkpoints until cancelled; raises LeaseLost."""
        while True:
            await self._added.wait()
            self._added.clear()
            waiting, self._waiting = self._waiting, []
            path, iteration = waiting[-1]
            try:
                await self._upload(path, iteration)
            except StorageFull as error:
                self._lease.add_log_line(f"the checkpoint at iteration {iteration} is not stored: {error}")
            for path, _ in waiting:
                path.unlink()

    async def _upload(self, path: Path, iteration: int) -> None:
        """Store the blob, then the document that names it; then remove the previous blob."""
        key = f"{blobs_of(self._lease.id)}{self._lease.number}/{self._lease.token}/{path.name}"
        new, old = Checkpoint(key=key, iteration=iteration), self.kept

        def set_checkpoint(_: JobDocument, task: Task, __: str) -> None:
            task.checkpoint = new

        await self._lease.retry_until_stored(lambda: file_to_blob(self._context.store.blobs, path, key))
        await self._lease.commit(set_checkpoint)
        self.kept = new
        if old is not None:
            with suppress(StorageUnavailable):  # otherwise the blob is deleted with the job
                await self._context.store.blobs.delete(old.key)


def _measured_on(record: JobDocument) -> str | None:
    """Return a digest of the held-out rows of a job; None for a stream, whose rows always differ."""
    data, holdout = record.spec.data, record.spec.holdout
    rows: tuple[object, ...]
    if isinstance(holdout, Rows):
        rows = record.checksums[holdout.dataset], holdout.split or "all"
    elif not isinstance(data, DataOfSet):
        return None
    elif holdout is None:
        rows = record.checksums[data.dataset], TEST_OF.get(data.split or "")
    else:
        rows = record.checksums[data.dataset], data.split or "all", holdout, record.spec.seed
    return blake2b(repr(rows).encode(), digest_size=16).hexdigest()


async def publish_result(context: JobContext, record: JobDocument, directory: Path, fit: FitResult) -> Result:
    """Publish the result of a fit as a version of the job's model; repeated calls publish it once."""
    spec, task, held_out = record.spec, record.tasks[-1], fit.held_out
    meta = VersionMeta(
        job=record.id,
        trainer=spec.trainer,
        params=task.params,
        rows=fit.rows,
        measures=None if held_out is None else held_out.measures,
        baseline=None if held_out is None else held_out.baseline,
        created_unix_ms=now_ms(),
        converged=fit.converged,
        gap=fit.gap,
        sampled=None if (sampled := record.sampled()) is None else sampled.model_dump(),
        data=spec.data.model_dump(mode="json"),
        measured_on=None if held_out is None else _measured_on(record),
    )
    artifact = await asyncio.to_thread((directory / RESULT).read_bytes)
    number, published = await publish(context.store, context.settings, spec.model, artifact, meta, promote=spec.promote)
    return Result(
        model=spec.model,
        version=number,
        rows=fit.rows,
        converged=fit.converged,
        gap=fit.gap,
        promoted=spec.promote != "never" and published.not_promoted_because is None,
        not_promoted_because=published.not_promoted_because,
        worse=published.worse,
        held_out=held_out,
        params=task.params,
        trials=record.trials(),
        seconds=fit.seconds,
    )
