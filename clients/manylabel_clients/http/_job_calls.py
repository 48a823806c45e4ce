"""Calls about training jobs, as conversations without I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from manylabel_clients.http import _wire
from manylabel_clients.http._exchange import Pause, Request, Steps, exchange, read
from manylabel_clients.http._model_calls import new_key
from manylabel_clients.http._watching import Watching
from manylabel_clients.http.errors import Conflict, JobFailed
from manylabel_clients.http.job_types import (
    JobEvent,
    JobStatus,
    LogLine,
    Trainer,
    TrainingData,
    job_status,
    log_line,
    trainer,
)
from manylabel_clients.http.retry import Retry

FIRST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 1.0


class TrainingCalls:
    """Submit and list jobs; say what can be trained."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry

    def submit(self, spec: Mapping[str, Any], data: TrainingData, key: str | None) -> Steps[JobStatus]:
        """Have a model trained, from the parts of a spec that are not None. Its key makes sure that it is one job."""
        given = {part: value for part, value in spec.items() if value is not None}
        given["data"] = {"dataset": data} if isinstance(data, str) else dict(data)
        headers = {**_wire.JSON, "Idempotency-Key": new_key(key)}
        response = yield from exchange(Request("POST", "/v1/jobs", _wire.encode(given), headers), self._retry)
        return read(response, job_status)

    def jobs(self, state: str | None, limit: int | None) -> Steps[list[JobStatus]]:
        """Jobs, the newest first."""
        given = {"state": state, "limit": limit}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        response = yield from exchange(Request("GET", f"/v1/jobs?{query}" if query else "/v1/jobs"), self._retry)
        return read(response, lambda answer: [job_status(one) for one in answer["jobs"]])

    def trainers(self) -> Steps[list[Trainer]]:
        """What can be trained."""
        response = yield from exchange(Request("GET", "/v1/trainers"), self._retry)
        return read(response, lambda answer: [trainer(one) for one in answer["trainers"]])


class JobCalls:
    """Look at one job, wait for it, stop it."""

    def __init__(self, id: str, retry: Retry, clock: Callable[[], float]) -> None:
        self._path = f"/v1/jobs/{quote(id, safe='')}"
        self._retry = retry
        self._clock = clock

    def status(self) -> Steps[JobStatus]:
        """What the server says about the job."""
        return read((yield from exchange(Request("GET", self._path), self._retry)), job_status)

    def log(self) -> Steps[list[LogLine]]:
        """What it has written."""
        response = yield from exchange(Request("GET", f"{self._path}/log"), self._retry)
        return read(response, lambda answer: [log_line(one) for one in answer["lines"]])

    def cancel(self) -> Steps[JobStatus]:
        """Stop it. That it has been cancelled after an attempt without an answer is success."""
        return (yield from self._moved(Request("DELETE", self._path), lambda job: job.state == "cancelled"))

    def again(self) -> Steps[JobStatus]:
        """Queue it again. That it has moved on after an attempt without an answer is success."""
        request = Request("POST", f"{self._path}/retry")
        return (yield from self._moved(request, lambda job: job.state not in ("failed", "cancelled")))

    def wait(self, timeout_seconds: float | None) -> Steps[JobStatus]:
        """Ask until it has ended."""
        deadline = None if timeout_seconds is None else self._clock() + timeout_seconds
        pause_seconds = FIRST_POLL_SECONDS
        while not (job := (yield from self.status())).has_ended:
            left = LONGEST_POLL_SECONDS if deadline is None else deadline - self._clock()
            if left <= 0:
                raise TimeoutError(f"job {job.id} is still {job.state} after {timeout_seconds:g} s; it goes on")
            yield Pause(min(pause_seconds, left))
            pause_seconds = min(1.5 * pause_seconds, LONGEST_POLL_SECONDS)
        if job.state != "succeeded":
            raise JobFailed(job)
        return job

    def watching(self, after: str | None) -> Watching[JobEvent]:
        """The events of the job."""
        return Watching(self._path, after, self._retry, JobEvent)

    def _moved(self, request: Request, has_moved: Callable[[JobStatus], bool]) -> Steps[JobStatus]:
        try:
            return read((yield from exchange(request, self._retry)), job_status)
        except Conflict as conflict:
            job = (yield from self.status()) if conflict.maybe_done else None
            if job is None or not has_moved(job):
                raise
            return job
