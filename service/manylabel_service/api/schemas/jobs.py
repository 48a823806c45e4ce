"""Answers about jobs and trainers; `manylabel_service.jobs.spec.schemas` describes a job itself."""

from typing import Any

from pydantic import Field

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.jobs.spec.schemas import Job, LogLine


class JobList(ResponseModel):
    """Jobs, the newest first."""

    jobs: list[Job]
    damaged: list[str] = Field(default_factory=list)
    """Ids of jobs that cannot be read; only there if there are any, for a caller whose key is for all models."""


class JobLog(ResponseModel):
    """The log of a job has its lines, the oldest first; of a long log the latest lines are kept."""

    lines: list[LogLine]


class TrainerDescription(ResponseModel):
    """A trainer fits models from data."""

    name: str
    """The name is what `trainer` of a job takes."""
    title: str
    """The title says what the trainer is."""
    needs: str
    """This says what data the trainer learns from."""
    weights: bool
    """Whether it takes weights of rows; for one that does not, the data may have none."""
    params: dict[str, Any]
    """This JSON schema describes the parameters: types, bounds, defaults."""
    search: dict[str, list[float]]
    """A search that names no params tries these values."""
    rbf_search: dict[str, list[float | str]]
    """It tries these values too where the kernel is `rbf`, of parameters that are at their defaults."""


class TrainerList(ResponseModel):
    """All trainers, by name."""

    trainers: list[TrainerDescription]
