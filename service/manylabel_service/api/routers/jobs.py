"""/v1/jobs and /v1/trainers: training jobs."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import pydantic_core
from fastapi.sse import format_sse_event
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.batch.catalogue import TRAINERS, Trainer
from manylabel_service.access.grant import Access
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.schemas.base import ResponseModel, omitted_if_empty
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.bodies import idempotency_key, note_replayed
from manylabel_service.api.web.large_json import read_json
from manylabel_service.api.web.parameters import Parameters, from_query, one_of, up_to
from manylabel_service.api.web.routes import Router, content
from manylabel_service.api.web.streaming import EventStream, last_event_id, resumable
from manylabel_service.api.web.validation import Path, validated
from manylabel_service.audit.call import note
from manylabel_service.errors import JobNotAllowed
from manylabel_service.jobs.spec.schemas import (
    ENDED,
    DataOfSet,
    DataOfStream,
    GridSearch,
    Job,
    JobSpec,
    LogLine,
    RandomSearch,
    Rows,
    names_of,
)
from manylabel_service.jobs.spec.trainers import PARAMS, needs

router = Router("jobs", errors=["job_not_found"])


class JobList(ResponseModel):
    """Jobs, newest first."""

    jobs: list[Job]
    damaged: list[str] = omitted_if_empty()
    """Ids of jobs that cannot be read; present only if there are any, for a caller whose key includes all models."""


class JobLog(ResponseModel):
    """Log of a job, oldest line first; only the latest lines of a long log are stored."""

    lines: list[LogLine]


class TrainerDescription(ResponseModel):
    """Trainer and its parameters."""

    name: str
    """Name, as in `trainer` of a job."""
    title: str
    """Title for people."""
    needs: str
    """Kind of data that the trainer learns from."""
    weights: bool
    """Whether the trainer accepts row weights; if not, the data must have none."""
    params: dict[str, Any]
    """JSON schema of the parameters: types, bounds, defaults."""
    search: dict[str, list[float]]
    """Values that a search tries by default."""
    rbf_search: dict[str, list[float | str]]
    """Additional values that a search tries if the kernel is `rbf`, for parameters that have their defaults."""


class TrainerList(ResponseModel):
    """All trainers, by name."""

    trainers: list[TrainerDescription]


MAX_LISTED = 1000


class Listing(Parameters):
    """Filter of the list of jobs."""

    state: one_of(("queued", "running", *sorted(ENDED))) | None = None  # type: ignore[valid-type]
    """State of the listed jobs."""
    limit: up_to(MAX_LISTED) = 100  # type: ignore[valid-type]
    """Maximum number of jobs listed."""


_EXAMPLE = {
    "trainer": "m3l",
    "params": {"C": 1.0},
    "data": {"dataset": "yeast", "split": "train"},
    "holdout": 0.2,
    "model": "yeast-m3l",
}


@router.endpoint(
    "POST /v1/jobs",
    "Train a model",
    "train",
    Job,
    ["model_not_found", "dataset_not_found", "model_is_online", "jobs_full", "limit_exceeded", "storage_full"],
    takes=JobSpec,
    example=_EXAMPLE,
    keyed=True,
    status=202,
)
async def submit_job(request: Request, response: Response, context: ContextOf, access: AccessOf) -> Job:
    """Queues a job, which publishes its result as a new version of its model. The header Location has the address of
    the job."""
    document, raw = await read_json(request)
    key = idempotency_key(request, "jobs", raw)
    spec = validated(JobSpec, document, (), _path_in_job, _described(document))
    note(request.scope, model=spec.model)
    access.require_names(*names_of(spec))
    job, replayed = await context.jobs.submit(spec, key)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    note_replayed(response, replayed)
    return job


@router.endpoint("GET /v1/jobs", "List jobs", "read", JobList)
async def list_jobs(context: ContextOf, access: AccessOf, query: Annotated[Listing, from_query(Listing)]) -> JobList:
    """Lists the jobs of models that the caller may see, newest first. Only the latest finished jobs are stored."""
    jobs = await context.jobs.list(query.state, query.limit, access.may_see)
    return JobList(jobs=list(jobs), damaged=list(context.jobs.damaged) if access.sees_all else [])


@router.endpoint("GET /v1/jobs/{id}", "Show a job", "read", Job)
async def show_job(context: ContextOf, access: AccessOf, id: str) -> Job:
    """Shows a job with its progress and result."""
    return await _job(context, access, id)


@router.endpoint("GET /v1/jobs/{id}/log", "Show the log of a job", "read", JobLog)
async def read_job_log(context: ContextOf, access: AccessOf, id: str) -> JobLog:
    """Returns the log of a job."""
    await _job(context, access, id)
    return JobLog(lines=list(await context.jobs.log(id)))


@router.endpoint(
    "GET /v1/jobs/{id}/events",
    "Stream events of a job",
    "read",
    None,
    ["invalid_request"],
    responses={
        200: {
            "description": "Server-sent events",
            **content(Job, LogLine, media_type="text/event-stream"),
        }
    },
    response_class=Response,
    openapi_extra=resumable(r"^[0-9]+$"),
)
async def watch_job(request: Request, context: ContextOf, access: AccessOf, id: str) -> Response:
    """Sends `state` when the state changes, `progress` (to a slow client only the latest), and `log` for each line of
    the log. The events begin with the current state, or after the event in the header Last-Event-ID. The stream ends
    when the job ends."""
    after = last_event_id(request, _read_revision, "must be the id of an event of this job, sent once")
    job = await _job(context, access, id)
    return EventStream(
        context.jobs.watch(job.id, after),
        _event_bytes,
        "events of this job follow",
        context.draining,
        context.settings.limits.idle_timeout_seconds,
    )


@router.endpoint("DELETE /v1/jobs/{id}", "Cancel a job", "train", Job, ["job_ended"])
async def cancel_job(context: ContextOf, access: AccessOf, id: str) -> Job:
    """Cancels a job, which stops within two seconds without a result."""
    await _job(context, access, id)
    return await context.jobs.cancel(id)


@router.endpoint(
    "POST /v1/jobs/{id}/retry",
    "Retry a job",
    "train",
    Job,
    ["dataset_not_found", "job_not_retryable", "jobs_full"],
    status=202,
)
async def retry_job(context: ContextOf, access: AccessOf, id: str) -> Job:
    """Queues a failed or cancelled job again; it resumes from its last checkpoint if it has one. The caller's key must
    include the model, dataset and stream of the job."""
    job = await _job(context, access, id)
    access.require_names(*names_of(job))
    return await context.jobs.retry(id)


@router.endpoint("GET /v1/trainers", "List trainers", "read", TrainerList, stored=False)
async def list_trainers() -> TrainerList:
    """Lists the trainers of jobs, with their parameters."""
    return TrainerList(trainers=[_trainer(TRAINERS[name]) for name in sorted(TRAINERS)])


async def _job(context: Context, access: Access, id: str) -> Job:
    """Return a job; raise JobNotFound, or JobNotAllowed if the caller may not see its model."""
    job = await context.jobs.get(id)
    if not access.may_see(job.model):
        raise JobNotAllowed(id)
    return job


def _trainer(trainer: Trainer) -> TrainerDescription:
    return TrainerDescription(
        name=trainer.name,
        title=trainer.title,
        needs=needs(trainer),
        weights=trainer.weights,
        params=PARAMS[trainer.name].model_json_schema(),
        search={name: list(values) for name, values in trainer.search.items()},
        rbf_search={name: list(values) for name, values in trainer.rbf_search.items()},
    )


def _read_revision(value: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", value):
        raise ValueError
    return int(value)


_BRANCHES = {
    "data": {"dataset", "stream"},
    "holdout": {"share", "rows"},
    "search": {"grid", "random"},
}
"""Names of union branches, which pydantic inserts into locations."""


def _path_in_job(location: Sequence[str | int]) -> Path:
    """Return the path inside a job."""
    if len(location) < 2 or location[1] not in _BRANCHES.get(str(location[0]), ()):
        return _without_forms(location)
    return _without_forms((location[0], *location[2:]))


def _without_forms(location: Sequence[str | int]) -> Path:
    """Return a path without the parts that pydantic inserts for the type that it tried."""
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


def _event_bytes(event: tuple[int, str, dict[str, Any]]) -> bytes:
    revision, kind, data = event
    return format_sse_event(data_str=pydantic_core.to_json(data).decode(), event=kind, id=str(revision))
