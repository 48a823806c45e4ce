"""Translation of a job request to tasks; everything that can be checked is checked before anything is queued."""

import math
from collections.abc import Iterator, Mapping
from itertools import product
from random import Random
from typing import Any

from pydantic import ValidationError

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_service.datasets.records import DatasetMeta
from manylabel_service.errors import InvalidJob, ModelNotFound
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_record import Task
from manylabel_service.jobs.spec.schemas import DataOfSet, DataOfStream, JobSpec, RandomSearch, Range, Rows, SearchSpec
from manylabel_service.jobs.spec.trainers import PARAMS, complete
from manylabel_service.online.spec.trained import is_trained, read_spec
from manylabel_service.trained.publishing import check_publishable

Path = tuple[str, ...]


async def check(context: JobContext, spec: JobSpec) -> dict[str, str]:
    """Check that the store has the datasets and models that a job names, and that they fit together. Raises InvalidJob,
    DatasetNotFound, ModelNotFound, ModelIsOnline, LimitExceeded or StorageUnavailable.

    Returns
    -------
    dict of str to str
        Checksums of the datasets of the job, by name.
    """
    checksums: dict[str, str] = {}
    if isinstance(spec, SearchSpec):
        return checksums

    async def rows(at: Path, given: Rows) -> DatasetMeta:
        found = await context.datasets.get(given.dataset)
        checksums[given.dataset] = found.checksum
        if given.split not in (None, "all", *found.splits):
            raise InvalidJob((*at, "split"), f"must be one of {', '.join([*found.splits, 'all'])}, or null")
        return found

    if isinstance(spec.data, DataOfSet):
        found = await rows(("data",), spec.data)
        views = found.views
        if spec.data.unlabelled is not None:
            if not TRAINERS[spec.trainer].unlabelled:
                raise InvalidJob(("data", "unlabelled"), f"must be null: {spec.trainer} learns from labelled rows only")
            at = ("data", "unlabelled")
            other = await rows(at, spec.data.unlabelled)
            views = other.views | views if TRAINERS[spec.trainer].views else views  # labelled rows may lack some
            _check_views(at, spec, other, views)
        _check_learnable(spec, found, len(views))
        n_rows = found.rows if spec.data.split in (None, "all") else found.splits[spec.data.split]
        _check_number(spec, n_rows, found.labels)
        if isinstance(spec.holdout, Rows):
            _check_views(("holdout",), spec, await rows(("holdout",), spec.holdout), views)
    else:
        await _check_stream(context, spec, spec.data)
        if isinstance(spec.holdout, Rows):
            await rows(("holdout",), spec.holdout)
    await check_publishable(context.store, context.settings, spec.model)
    return checksums


async def with_split(context: JobContext, spec: JobSpec) -> JobSpec:
    """Return the job; if it names no split and the dataset has train and test, set its split to train."""
    data = spec.data
    if not isinstance(data, DataOfSet) or data.split is not None:
        return spec
    if not {"train", "test"} <= (await context.datasets.get(data.dataset)).splits.keys():
        return spec
    return spec.model_copy(update={"data": data.model_copy(update={"split": "train"})})


def _check_learnable(spec: JobSpec, found: DatasetMeta, n_views: int) -> None:
    if found.weighted and not TRAINERS[spec.trainer].weights:
        able = ", ".join(name for name, trainer in TRAINERS.items() if trainer.weights)
        raise InvalidJob(
            ("data", "dataset"),
            f"must have no weights, because {spec.trainer} does not support weights: choose another dataset, "
            f"or one of {able}",
        )
    if found.labels == 0:
        raise InvalidJob(("data", "dataset"), f"must have labels; {found.name} has none")
    R = spec.params.get("R")
    if isinstance(R, list) and [len(row) for row in R] != found.labels * [found.labels]:
        raise InvalidJob(("params", "R"), f"must be {found.labels} rows of {found.labels} numbers, one for each label")
    if TRAINERS[spec.trainer].views and n_views < 2:
        raise InvalidJob(
            ("data", "dataset"),
            f"must have several views for {spec.trainer}; {found.name} has one: choose another trainer",
        )


def _check_number(spec: JobSpec, n_rows: int, n_labels: int) -> None:
    """Check that there are enough rows for the labels, the hold-out and the folds, if all rows are labelled."""
    if n_rows < n_labels:
        raise InvalidJob(
            ("data", "dataset"), f"must have at least as many rows as labels ({n_labels:,}), not {n_rows:,}"
        )
    if isinstance(spec.holdout, float):
        n_held = round(spec.holdout * n_rows)
        if not 0 < n_held < n_rows:
            raise InvalidJob(
                ("holdout",),
                f"must leave rows for training and for evaluation, but holds out {n_held} of {n_rows} rows",
            )
        n_rows -= n_held
        if n_rows < n_labels:
            detail = f"must leave at least as many training rows as labels, {n_labels:,}; it leaves {n_rows:,}"
            raise InvalidJob(("holdout",), detail)
    if spec.search is not None and spec.search.folds > n_rows:
        raise InvalidJob(("search", "folds"), f"must be at most the number of rows, {n_rows}")
    if spec.search is not None and (n_learnt := n_rows - math.ceil(n_rows / spec.search.folds)) < n_labels:
        detail = f"must leave at least as many training rows as labels, {n_labels:,}; a fold leaves {n_learnt:,}"
        raise InvalidJob(("search", "folds"), detail)


def _check_views(at: Path, spec: JobSpec, other: DatasetMeta, views: Mapping[str, int]) -> None:
    """Check that other rows have the views of the training rows; for a multi-view trainer, exactly those."""
    lacking_allowed = TRAINERS[spec.trainer].views
    if other.views.keys() - views.keys() or (views.keys() - other.views.keys() and not lacking_allowed):
        of = "some of the views" if lacking_allowed else "the views"
        raise InvalidJob(
            (*at, "dataset"), f"must have {of} {', '.join(views)}; {other.name} has {', '.join(other.views)}"
        )


async def _check_stream(context: JobContext, spec: JobSpec, data: DataOfStream) -> None:
    if TRAINERS[spec.trainer].views:
        raise InvalidJob(("data", "stream"), f"must be a dataset with several views for {spec.trainer}")
    record = await context.store.models.find(data.stream)
    if record is None:
        raise ModelNotFound(data.stream)
    record.check()
    if is_trained(record.spec):
        raise InvalidJob(("data", "stream"), f"must be a model that learns online; {data.stream} is trained by jobs")
    limits = read_spec(record.spec).limits
    if limits is not None and limits.hashes:
        raise InvalidJob(("data", "stream"), f"must be a model without hashed features, unlike {data.stream}")


def plan(spec: JobSpec) -> list[Task]:
    """Return the tasks of a job, in order; no task is queued yet. Raises InvalidJob."""
    gather = [Task(stage="gather", params={})] if isinstance(spec.data, DataOfStream) else []
    trials = [Task(stage="trial", params=_complete(spec, values), values=values) for values in _combinations(spec)]
    return [*gather, *trials, Task(stage="fit", params=spec.params)]


def _combinations(spec: JobSpec) -> Iterator[dict[str, Any]]:
    search = spec.search
    if search is None:
        return
    for name, values in search.params.items():
        _check_values(spec, name, values)
    if isinstance(search, RandomSearch):
        random = Random(spec.seed)
        for _ in range(search.trials):
            drawn = {name: _drawn(values, random) for name, values in search.params.items()}
            for name, value in drawn.items():  # a range may have a gap, such as that of rank between shares and numbers
                _check_value(spec, name, value, ("search", "params", name))
            yield drawn
    else:
        for combination in product(*search.params.values()):
            yield dict(zip(search.params, combination, strict=True))


def _check_values(spec: JobSpec, name: str, values: Any) -> None:
    """Check that the trainer has the parameter and allows each of the values."""
    places: Mapping[str | int, Any] = (
        {"low": values.low, "high": values.high} if isinstance(values, Range) else dict(enumerate(values))
    )
    known = PARAMS[spec.trainer].model_fields
    if name not in known:
        raise InvalidJob(("search", "params", name), f"is not a parameter of {spec.trainer}; it has {', '.join(known)}")
    for place, value in places.items():
        _check_value(spec, name, value, ("search", "params", name, place))


def _check_value(spec: JobSpec, name: str, value: Any, path: tuple[str | int, ...]) -> None:
    try:
        _complete(spec, {name: value})
    except ValidationError as error:
        found = [each for each in error.errors() if each["loc"][:1] == (name,)]
        if found:
            message = found[0]["msg"].replace("Input should", "must")
            raise InvalidJob(path, f"{message}, not {value!r}") from error


def _complete(spec: JobSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    return complete(spec.trainer, {**spec.params, **values})


def _drawn(values: Any, random: Random) -> Any:
    if not isinstance(values, Range):
        return random.choice(values)
    low, high = values.low, values.high
    whole = isinstance(low, int) and isinstance(high, int)
    number = math.exp(random.uniform(math.log(low), math.log(high))) if values.log else random.uniform(low, high)
    number = min(max(number, low), high)  # rounding in logarithm and exponential may leave the range
    return round(number) if whole else number
