"""Training jobs of a server: submit, list, watch, wait, stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from manylabel_clients.http.errors import Conflict, ManyLabelError
from manylabel_clients.http.resources.resource import (
    AsyncResource,
    Connections,
    Resource,
    SyncResource,
    call,
    events,
    given,
    handle,
    new_key,
    path_of,
    with_query,
)
from manylabel_clients.http.responses import LogLine, Trainer, _JobStatus
from manylabel_clients.http.transport.exchange import Exchange, Pause, Request, read, send
from manylabel_clients.http.transport.json_body import encode
from manylabel_clients.http.transport.sse import EventStream

TrainingData: TypeAlias = str | Mapping[str, Any]
"""Name of a dataset, ``{"dataset": name, "split": "train"}``, or ``{"stream": model, "last": n}``."""

Promote: TypeAlias = Literal["if_better", "always", "never"]
"""Rule for serving the version that a job makes; see `Client.train`."""

ENDED = ("succeeded", "failed", "cancelled")
"""Terminal states of a job."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Event of a job."""

    kind: str
    """``state``, ``progress`` or ``log``."""
    id: str
    """Opaque position, after which `events` resumes."""
    data: dict[str, Any]
    """Fields of the event; the server's documentation describes them."""


class JobStatus(_JobStatus):
    """Status of a job."""

    __slots__ = ()

    @property
    def has_ended(self) -> bool:
        """True if the job has succeeded, failed or been cancelled."""
        return self.state in ENDED


class JobFailed(ManyLabelError):
    """The job failed or was cancelled.

    Attributes
    ----------
    job : JobStatus
        Final status; `job.error` has the reason.
    """

    def __init__(self, job: JobStatus) -> None:
        why = job.error.detail if job.error else "there is no result"
        super().__init__(f"job {job.id} {'was cancelled' if job.state == 'cancelled' else f'failed: {why}'}")
        self.job = job


FIRST_POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0


class JobCalls(Resource):
    """Calls of `Job` and `AsyncJob`."""

    def __init__(self, connections: Connections, id: str) -> None:
        super().__init__(connections, path_of("jobs", id))
        self.id: Final = id
        """Id of the job on the server."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connections.shown_url!r}, {self.id!r})"

    @call
    def status(self) -> Exchange[JobStatus]:
        """Return the status of the job."""
        return (yield from self._get(self._path, JobStatus))

    @call
    def wait(self, timeout: float | None = None) -> Exchange[JobStatus]:
        """Wait until the job has ended, for at most `timeout` seconds; None for no limit.

        Raises JobFailed if it failed or was cancelled, and TimeoutError if it has not ended; the job then continues.
        """
        clock = self._connections.clock
        deadline = None if timeout is None else clock() + timeout
        pause_seconds = FIRST_POLL_SECONDS
        while not (job := (yield from self._get(self._path, JobStatus))).has_ended:
            left = MAX_POLL_SECONDS if deadline is None else deadline - clock()
            if left <= 0:
                raise TimeoutError(f"job {job.id} is still {job.state} after {timeout:g} s; it continues")
            yield Pause(min(pause_seconds, left))
            pause_seconds = min(1.5 * pause_seconds, MAX_POLL_SECONDS)
        if job.state != "succeeded":
            raise JobFailed(job)
        return job

    @events
    def events(self, *, after: str | None = None) -> EventStream[JobEvent]:
        """Iterate over the events of the job until it ends, from its current state or after an earlier event.

        A lost connection is restored, and the events resume after the last one received.
        """
        return EventStream(f"{self._path}/events", after, self._retry, JobEvent, _is_end)

    @call
    def log(self) -> Exchange[list[LogLine]]:
        """Return the log of the job."""
        return (yield from self._list(f"{self._path}/log", "lines", LogLine))

    @call
    def cancel(self) -> Exchange[JobStatus]:
        """Cancel the job; it has no result. Raises Conflict if it has ended."""
        return (yield from self._change(Request("DELETE", self._path), lambda job: job.state == "cancelled"))

    @call
    def retry(self) -> Exchange[JobStatus]:
        """Queue a failed or cancelled job again; it resumes from its last checkpoint.

        Raises Conflict if it neither failed nor was cancelled.
        """
        request = Request("POST", f"{self._path}/retry")
        return (yield from self._change(request, lambda job: job.state not in ("failed", "cancelled")))

    def _change(self, request: Request, is_done: Callable[[JobStatus], bool]) -> Exchange[JobStatus]:
        """Change the state of the job. After an attempt without a response, it is a success if the job has the new
        state."""
        try:
            return read((yield from send(request, self._retry)), JobStatus)
        except Conflict as conflict:
            job = (yield from self._get(self._path, JobStatus)) if conflict.maybe_done else None
            if job is None or not is_done(job):
                raise
            return job


def _is_end(event: JobEvent) -> bool:
    return event.kind == "state" and event.data["state"] in ENDED


class Job(JobCalls, SyncResource):
    """Training job of a server, from `Client.train` or `Client.job`."""


class AsyncJob(JobCalls, AsyncResource):
    """Training job of a server with the calls of `Job`, awaited."""


class TrainingCalls(Resource):
    """Calls about the jobs and trainers of a server."""

    @call
    def trainers(self) -> Exchange[list[Trainer]]:
        """Return the trainers of the server, with their parameters."""
        return (yield from self._list("/v1/trainers", "trainers", Trainer))

    @handle(Job, AsyncJob)
    def train(
        self,
        trainer: str,
        data: TrainingData,
        model: str,
        *,
        params: Mapping[str, Any] | None = None,
        holdout: float | Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        seed: int | None = None,
        promote: Promote = "if_better",
        key: str | None = None,
    ) -> Exchange[str]:
        """Submit a training job; returns as soon as the job is queued.

        Parameters
        ----------
        data : str or mapping
            Name of a dataset, ``{"dataset": name, "split": "all"}``, or ``{"stream": model, "last": n}``.
        key : str, optional
            Idempotency key: calls with the same key and the same job create one job, even from several processes.
        """
        spec = given(
            trainer=trainer,
            params=params,
            holdout=holdout,
            search=search,
            seed=seed,
            model=model,
            promote=promote,
            data={"dataset": data} if isinstance(data, str) else dict(data),
        )
        return read((yield from self._post("/v1/jobs", encode(spec), new_key(key))), JobStatus).id

    @call
    def jobs(self, *, state: str | None = None, limit: int | None = None) -> Exchange[list[JobStatus]]:
        """Return the jobs of the server, newest first; with `state`, only the jobs in this state."""
        return (yield from self._list(with_query("/v1/jobs", state=state, limit=limit), "jobs", JobStatus))
