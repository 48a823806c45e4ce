"""What calls about jobs take and give: plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from manylabel_clients.http.types import picked

TrainingData: TypeAlias = str | Mapping[str, Any]
"""The name of a data set, ``{"dataset": name, "split": "train"}``, or ``{"stream": model, "last": n}``."""

ENDED = ("succeeded", "failed", "cancelled")
"""States of a job that does nothing any more."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job has come."""

    iteration: int
    objective: float | None
    """Value of what is minimised."""
    gap: float | None
    """Relative distance to the best value possible, at most."""
    seconds: float
    """Spent on the fit under way."""
    checkpoint: int | None
    """Iteration from which it would go on if its worker died now."""
    trials: dict[str, int] | None
    """Of a search: how many are ``done``, and the ``total``."""
    best: dict[str, Any] | None
    """Of a search: ``params`` and ``score`` of the best trial so far."""


@dataclass(frozen=True, slots=True)
class JobError:
    """Why a job failed."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job has made."""

    model: str
    version: int
    rows: int
    """Examples learnt from."""
    held_out: dict[str, Any] | None
    """``rows``, ``measures``, and ``labels`` with the scores of each label, on rows that were not learnt."""
    params: dict[str, Any]
    """Those of the model: of a search, the best."""
    trials: list[dict[str, Any]]
    """Of a search: ``params``, ``score``, ``scores`` and ``seconds`` of each trial."""
    seconds: float


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as the server describes it."""

    id: str
    state: str
    """``queued``, ``running``, ``succeeded``, ``failed`` or ``cancelled``."""
    trainer: str
    params: dict[str, Any]
    data: dict[str, Any]
    holdout: Any
    search: dict[str, Any] | None
    seed: int
    model: str
    """Name of the model that it makes."""
    promote: bool
    """Whether the new version is served as soon as it is there."""
    created: str
    started: str | None
    ended: str | None
    attempt: int
    """How often it has been begun."""
    progress: JobProgress | None
    result: JobResult | None
    error: JobError | None

    @property
    def has_ended(self) -> bool:
        """Whether it does nothing any more."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job."""

    kind: str
    """``state``, ``progress`` or ``log``."""
    id: str
    """`events` goes on after it. Opaque."""
    data: dict[str, Any]
    """As the server's documentation has it."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a job's log."""

    n: int
    """Its number, from 1."""
    time: str
    """When: RFC 3339, UTC."""
    text: str


@dataclass(frozen=True, slots=True)
class Trainer:
    """What a server can train."""

    name: str
    title: str
    """What it is."""
    needs: str
    """What data it learns from."""
    params: dict[str, Any]
    """JSON schema of its parameters: types, bounds, defaults."""


def job_status(answer: Mapping[str, Any]) -> JobStatus:
    """A job from its JSON."""
    parts = {"progress": JobProgress, "result": JobResult, "error": JobError}
    made = {name: answer[name] and picked(kind, answer[name]) for name, kind in parts.items()}
    return picked(JobStatus, {**answer, **made})


def log_line(answer: Mapping[str, Any]) -> LogLine:
    """A line of a log from its JSON."""
    return picked(LogLine, answer)


def trainer(answer: Mapping[str, Any]) -> Trainer:
    """A trainer from its JSON."""
    return picked(Trainer, answer)
