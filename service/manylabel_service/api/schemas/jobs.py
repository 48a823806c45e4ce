"""Responses about jobs and trainers; `manylabel_service.jobs.spec.schemas` describes a job itself."""

from typing import Any

from pydantic import Field

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.jobs.spec.schemas import Job, LogLine


class JobList(ResponseModel):
    """Jobs, newest first."""

    jobs: list[Job]
    damaged: list[str] = Field(default_factory=list)
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
    """Values tried by a search that names none."""
    rbf_search: dict[str, list[float | str]]
    """Further values tried if the kernel is `rbf`, for parameters at their defaults."""


class TrainerList(ResponseModel):
    """All trainers, by name."""

    trainers: list[TrainerDescription]
