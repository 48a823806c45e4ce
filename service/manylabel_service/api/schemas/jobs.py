"""Answers about jobs and trainers. (A job itself is described by `manylabel_service.jobs.spec.schemas`.)"""

from typing import Any

from manylabel_service.api.schemas.base import Answer
from manylabel_service.jobs.spec.schemas import Job, LogLine


class JobList(Answer):
    """Jobs, the newest first."""

    jobs: list[Job]


class JobLog(Answer):
    """What a job has written, the oldest line first; of a long log the latest lines."""

    lines: list[LogLine]


class TrainerDescription(Answer):
    """Something that trains."""

    name: str
    """For `trainer` of a job."""
    title: str
    """What it is."""
    needs: str
    """What data it learns from."""
    params: dict[str, Any]
    """JSON schema of its parameters: types, bounds, defaults."""


class TrainerList(Answer):
    """All trainers, by name."""

    trainers: list[TrainerDescription]
