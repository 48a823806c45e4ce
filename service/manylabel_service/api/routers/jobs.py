"""/v1/jobs and /v1/trainers: have models trained, and watch it."""

import re
from typing import Annotated, Any

import pydantic_core
from fastapi import APIRouter, Depends, Query
from fastapi.sse import format_sse_event
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.batch.catalogue import TRAINERS, Trainer
from manylabel_service.access.grant import Access
from manylabel_service.api import schemas
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.translation.job_specs import to_spec
from manylabel_service.api.web import idempotency, sse
from manylabel_service.api.web.access import AccessOf, needs
from manylabel_service.api.web.audited import note
from manylabel_service.api.web.large_json import read_json
from manylabel_service.api.web.parameters import Parameters, each_once, one_of
from manylabel_service.api.web.routes import GuardedRoute, body, content, json_answer, listed, problems
from manylabel_service.api.web.sse import EventStream, last_event_id
from manylabel_service.errors import JobNotAllowed
from manylabel_service.jobs.spec import trainers as trainer_specs
from manylabel_service.jobs.spec.schemas import ENDED, Job, JobSpec, LogLine, names_of

router = APIRouter(route_class=GuardedRoute, tags=["jobs"])

DEFAULT_LISTED = 100
MAX_LISTED = 1000


def _read_limit(value: object) -> object:
    if isinstance(value, str) and (not re.fullmatch("[0-9]{1,9}", value) or not 1 <= int(value) <= MAX_LISTED):
        raise ValueError(f"must be an integer from 1 to {MAX_LISTED}")
    return value


class Listing(Parameters):
    """Which jobs are listed."""

    state: one_of(("queued", "running", *sorted(ENDED))) | None = None  # type: ignore[valid-type]
    """Only jobs in this state are listed."""
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), BeforeValidator(_read_limit)] = DEFAULT_LISTED
    """Maximum number of jobs listed."""


_STORED = ("job_not_found", "not_ready", "storage_unavailable")
_EXAMPLE = {
    "trainer": "m3l",
    "params": {"C": 1.0},
    "data": {"dataset": "yeast", "split": "train"},
    "holdout": 0.2,
    "model": "yeast-m3l",
}


@router.post(
    "/v1/jobs",
    summary="Train a model",
    status_code=202,
    response_model=Job,
    responses=problems(
        "malformed_json",
        "model_not_found",
        "dataset_not_found",
        "model_is_online",
        "idempotency_in_flight",
        "body_too_large",
        "unsupported_media_type",
        "invalid_request",
        "idempotency_key_reused",
        "jobs_full",
        "not_ready",
        "storage_unavailable",
        "limit_exceeded",
        "storage_full",
    ),
    openapi_extra={**body(JobSpec, example=_EXAMPLE), **idempotency.PARAMETER},
)
@needs("train")
async def submit_job(request: Request, context: ContextOf, access: AccessOf) -> Response:
    """The job is queued; its address is in the header Location. It publishes its result as a new version of the model
    that it names."""
    document, raw = await read_json(request, context.settings.max_body_bytes)
    key = idempotency.idempotency_key(request, "jobs", raw)
    spec = to_spec(document)
    note(request.scope, model=spec.model)
    access.require_names(*names_of(spec))
    job, replayed = await context.jobs.submit(spec, key)
    headers = [(b"location", f"/v1/jobs/{job.id}".encode())]
    return json_answer(job, 202, [*headers, idempotency.REPLAYED] if replayed else headers)


@router.get(
    "/v1/jobs",
    summary="List jobs",
    response_model=schemas.JobList,
    responses=problems("invalid_request", "not_ready", "storage_unavailable"),
    dependencies=[Depends(each_once)],
)
@needs("read")
async def list_jobs(context: ContextOf, access: AccessOf, query: Annotated[Listing, Query()]) -> Response:
    """Lists the jobs for models that the caller may see, the newest first. Jobs that ended long ago are forgotten."""
    jobs = await context.jobs.list(query.state, query.limit, access.may_see)
    return json_answer(listed("jobs", jobs, context.jobs.damaged if access.sees_all else ()))


@router.get("/v1/jobs/{id}", summary="Show a job", response_model=Job, responses=problems(*_STORED))
@needs("read")
async def show_job(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Shows the job with its progress and its result."""
    return json_answer(await _job(context, access, id))


@router.get(
    "/v1/jobs/{id}/log", summary="Read a job's log", response_model=schemas.JobLog, responses=problems(*_STORED)
)
@needs("read")
async def read_job_log(context: ContextOf, access: AccessOf, id: str) -> Response:
    """Shows what the job has written so far."""
    await _job(context, access, id)
    return json_answer({"lines": await context.jobs.log(id)})


@router.get(
    "/v1/jobs/{id}/events",
    summary="Watch a job",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events",
            **content(Job, LogLine, media_type="text/event-stream"),
        },
        **problems(*_STORED, "invalid_request"),
    },
    openapi_extra=sse.described(r"^[0-9]+$"),
)
@needs("read")
async def watch_job(request: Request, context: ContextOf, access: AccessOf, id: str) -> Response:
    """Sends `state` when it changes, `progress` (of several at once the latest), and `log` for each line: from where
    the job stands, or after the event named. The answer ends when the job has."""
    after = last_event_id(request, _read_revision, "must be the id of an event of this job, given once")
    job = await _job(context, access, id)
    return EventStream(
        context.jobs.watch(job.id, after),
        _event_bytes,
        "events of this job follow",
        context.draining,
        context.settings.idle_timeout_seconds,
    )


@router.delete("/v1/jobs/{id}", summary="Cancel a job", response_model=Job, responses=problems(*_STORED, "job_ended"))
@needs("train")
async def cancel_job(context: ContextOf, access: AccessOf, id: str) -> Response:
    """The job stops within two seconds, and nothing comes of it."""
    await _job(context, access, id)
    return json_answer(await context.jobs.cancel(id))


@router.post(
    "/v1/jobs/{id}/retry",
    summary="Try a job again",
    status_code=202,
    response_model=Job,
    responses=problems(*_STORED, "job_not_retryable", "dataset_not_found", "jobs_full"),
)
@needs("train")
async def retry_job(context: ContextOf, access: AccessOf, id: str) -> Response:
    """A job that failed or was cancelled is queued again, and resumes from its last checkpoint if it has one. The
    caller's key must be for the model and for every data set and stream of the job."""
    job = await _job(context, access, id)
    access.require_names(*names_of(job))
    return json_answer(await context.jobs.retry(id), 202)


@router.get("/v1/trainers", summary="List trainers", response_model=schemas.TrainerList, responses=problems())
@needs("read")
async def list_trainers() -> Response:
    """Lists what `trainer` of a job may be, with the parameters of each."""
    return json_answer({"trainers": [_to_dict(TRAINERS[name]) for name in sorted(TRAINERS)]})


async def _job(context: Context, access: Access, id: str) -> Job:
    """Return a job; raise JobNotFound, or JobNotAllowed for one whose model the caller may not see."""
    job = await context.jobs.get(id)
    if not access.may_see(job.model):
        raise JobNotAllowed(id)
    return job


def _to_dict(trainer: Trainer) -> dict[str, Any]:
    schema = trainer_specs.PARAMS[trainer.name].model_json_schema()
    return {
        "name": trainer.name,
        "title": trainer.title,
        "needs": trainer_specs.needs(trainer),
        "weights": trainer.weights,
        "params": schema,
        "search": {name: list(values) for name, values in trainer.search.items()},
        "rbf_search": {name: list(values) for name, values in trainer.rbf_search.items()},
    }


def _read_revision(value: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", value):
        raise ValueError
    return int(value)


def _event_bytes(event: tuple[int, str, dict[str, Any]]) -> bytes:
    revision, kind, data = event
    return format_sse_event(data_str=pydantic_core.to_json(data).decode(), event=kind, id=str(revision))
