"""From an order to its tasks: the combinations that a search tries, each checked before anything is queued."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from random import Random
from typing import Any

from pydantic import ValidationError

from manylabel_service.errors import InvalidJob
from manylabel_service.jobs.job_record import Task
from manylabel_service.jobs.spec.schemas import DataOfStream, JobSpec, RandomSearch, Range
from manylabel_service.jobs.spec.trainers import PARAMS, complete


def plan(spec: JobSpec) -> list[Task]:
    """Return the tasks of a job, in their order; none is queued yet.

    Raises
    ------
    InvalidJob
        A search varies a parameter that the trainer does not have, or to a value that is not allowed.
    """
    gather = [Task(stage="gather", params={})] if isinstance(spec.data, DataOfStream) else []
    trials = [Task(stage="trial", params=_complete(spec, values), values=values) for values in _combinations(spec)]
    return [*gather, *trials, Task(stage="fit", params=spec.params)]


def _combinations(spec: JobSpec) -> Iterator[dict[str, Any]]:
    search = spec.search
    if search is None:
        return
    for name, values in search.params.items():
        _check(spec, name, values)
    if isinstance(search, RandomSearch):
        random = Random(spec.seed)
        for _ in range(search.trials):
            drawn = {name: _drawn(values, random) for name, values in search.params.items()}
            for name, value in drawn.items():  # a range may have a gap, as that of rank has between shares and numbers
                _check_value(spec, name, value, ("search", "params", name))
            yield drawn
    else:
        for combination in product(*search.params.values()):
            yield dict(zip(search.params, combination, strict=True))


def _check(spec: JobSpec, name: str, values: Any) -> None:
    """Return whether the trainer has the parameter and allows each of the values."""
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
    number = min(max(number, low), high)  # the logarithm and back may lose a bit
    return round(number) if whole else number
