"""Whether a job can be done, as far as the store can tell before it is."""

from __future__ import annotations

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_service.datasets.records import DatasetRecord
from manylabel_service.errors import InvalidJob, ModelNotFound
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.spec.schemas import DataOfSet, DataOfStream, JobSpec, Rows
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.trained.publishing import check_publishable
from manylabel_service.trained.spec import is_trained

Path = tuple[str, ...]


async def check(context: JobContext, spec: JobSpec) -> dict[str, str]:
    """Look at all that a job names.

    Returns
    -------
    dict of str to str
        Checksums of the data sets that it needs, by name.

    Raises
    ------
    InvalidJob, DatasetNotFound, ModelNotFound, ModelIsOnline, LimitExceeded, StorageGone
    """
    checksums: dict[str, str] = {}

    async def rows(at: Path, given: Rows) -> DatasetRecord:
        found = await context.datasets.get(given.dataset)
        checksums[given.dataset] = found.checksum
        if given.split not in (None, "all", *found.splits):
            raise InvalidJob((*at, "split"), f"must be one of {', '.join([*found.splits, 'all'])}, or null")
        return found

    if isinstance(spec.data, DataOfSet):
        found = await rows(("data",), spec.data)
        _check_learnable(spec, found)
        _check_number(spec, found.rows if spec.data.split in (None, "all") else found.splits[spec.data.split])
        if isinstance(spec.holdout, Rows):
            _check_alike(("holdout",), await rows(("holdout",), spec.holdout), found)
        if spec.data.unlabelled is not None:
            if not TRAINERS[spec.trainer].unlabelled:
                raise InvalidJob(("data", "unlabelled"), f"must be null: {spec.trainer} learns from labelled rows only")
            at = ("data", "unlabelled")
            _check_alike(at, await rows(at, spec.data.unlabelled), found)
    else:
        await _check_stream(context, spec, spec.data)
        if isinstance(spec.holdout, Rows):
            await rows(("holdout",), spec.holdout)
    await check_publishable(context.store, context.settings, spec.model)
    return checksums


def _check_learnable(spec: JobSpec, found: DatasetRecord) -> None:
    if found.labels == 0:
        raise InvalidJob(("data", "dataset"), f"must have labels; {found.name} has none")
    R = spec.params.get("R")
    if isinstance(R, list) and [len(row) for row in R] != found.labels * [found.labels]:
        raise InvalidJob(("params", "R"), f"must be {found.labels} rows of {found.labels} numbers, one for each label")
    if TRAINERS[spec.trainer].views and len(found.views) < 2:
        raise InvalidJob(
            ("data", "dataset"),
            f"must have several views for {spec.trainer}; {found.name} has one: choose another trainer",
        )


def _check_number(spec: JobSpec, n_rows: int) -> None:
    """Return whether the rows, if all are labelled, suffice for what is held out and for folds."""
    if isinstance(spec.holdout, float):
        n_held = round(spec.holdout * n_rows)
        if not 0 < n_held < n_rows:
            raise InvalidJob(("holdout",), f"must leave rows on both sides; of {n_rows} it holds out {n_held}")
        n_rows -= n_held
    if spec.search is not None and spec.search.folds > n_rows:
        raise InvalidJob(("search", "folds"), f"must be at most the number of rows, {n_rows}")


def _check_alike(at: Path, other: DatasetRecord, found: DatasetRecord) -> None:
    if other.views.keys() != found.views.keys():
        raise InvalidJob(
            (*at, "dataset"), f"must have the views {', '.join(found.views)}; {other.name} has {', '.join(other.views)}"
        )


async def _check_stream(context: JobContext, spec: JobSpec, data: DataOfStream) -> None:
    if TRAINERS[spec.trainer].views:
        raise InvalidJob(("data", "stream"), f"must be a data set with several views for {spec.trainer}")
    record = await context.store.models.find(data.stream)
    if record is None:
        raise ModelNotFound(data.stream)
    if is_trained(record.spec):
        raise InvalidJob(("data", "stream"), f"must be a model that learns online; {data.stream} is trained by jobs")
    limits = ModelSpec.from_bytes(record.spec).limits
    if limits is not None and limits.hashes:
        raise InvalidJob(("data", "stream"), f"must be a model that hashes no features; {data.stream} does")
