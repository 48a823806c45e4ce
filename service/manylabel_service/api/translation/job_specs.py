"""Conversion of the body of a request to a job."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from manylabel_service.api.web.validation import Path, validated
from manylabel_service.jobs.spec.schemas import DataOfSet, DataOfStream, GridSearch, JobSpec, RandomSearch, Rows
from manylabel_service.jobs.spec.trainers import PARAMS

_BRANCHES = {
    "data": {"dataset", "stream"},
    "holdout": {"share", "rows"},
    "search": {"grid", "random"},
}
"""Names of union branches, which pydantic inserts into locations."""


def to_spec(document: Any) -> JobSpec:
    """Return the job that a body describes. Raises a Problem."""
    return validated(JobSpec, document, (), path_in_job, _described(document))


def path_in_job(location: Sequence[str | int]) -> Path:
    """Return the path inside a job."""
    if len(location) < 2 or location[1] not in _BRANCHES.get(str(location[0]), ()):
        return _without_forms(location)
    return _without_forms((location[0], *location[2:]))


def _without_forms(location: Sequence[str | int]) -> Path:
    """Return a path without the parts that only name the tried type of value."""
    if location[:2] == ("search", "params"):
        return tuple(location[:3]) + tuple(part for part in location[3:] if isinstance(part, int) or part in _RANGE)
    if location[:1] == ("params",):
        return tuple(location[:2]) + tuple(part for part in location[2:] if isinstance(part, int))
    return tuple(location)


_RANGE = ("low", "high", "log")


def _described(document: Any) -> dict[Path, type[BaseModel]]:
    """Return the known fields of each object of a job, by path."""
    given = document if isinstance(document, dict) else {}
    name, data, search = given.get("trainer"), given.get("data"), given.get("search")
    described: dict[Path, type[BaseModel]] = {(): JobSpec, ("holdout",): Rows}
    if isinstance(data, dict):
        described["data",] = DataOfStream if "stream" in data else DataOfSet
    if isinstance(search, dict):
        described["search",] = RandomSearch if search.get("kind") == "random" else GridSearch
    if isinstance(name, str) and name in PARAMS:
        described["params",] = PARAMS[name]
    return described
