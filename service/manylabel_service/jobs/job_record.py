"""Job document: a job with all its tasks, and its state changes.

A job consists of tasks. For data from a stream, the task `gather` samples the examples once, so that every attempt gets
the same examples. Then the `trial` tasks of a search run, in parallel if there are several workers. The result of the
last task, `fit`, is published. All tasks are in one document, so that any change of a job is one compare-and-set.

The worker of a task holds its lease, identified by a token. The lease is lost when the job is cancelled, or when its
holder has timed out. The holder must then stop working on the task.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field

from manylabel_core.metrics.measures import MEASURES
from manylabel_service.errors import JobEnded, JobNotRetryable
from manylabel_service.jobs.spec.schemas import (
    ENDED,
    Best,
    DoubtsSpec,
    DryRunResult,
    DryRunSpec,
    Job,
    JobFailure,
    JobSpec,
    LogLine,
    Progress,
    Result,
    State,
    StreamSample,
    Trial,
    Trials,
)
from manylabel_service.storage import StoredModel, StoredPart

MAX_LINE = 300
"""Maximum characters of a line of the log."""
MAX_LINES = 200
"""Number of log lines stored per job."""
MAX_DETAIL = 2000
"""Maximum characters of the reason of a failure."""

Stage = Literal["gather", "trial", "fit"]


class LeaseLost(Exception):
    """The lease on a task was revoked."""


class NotClaimable(Exception):
    """The task is not queued."""


class Unchanged(Exception):
    """The change has no effect."""


class Checkpoint(StoredPart):
    """Saved state of a fit: the key of its blob, and the iteration."""

    key: str
    iteration: int


class Task(StoredPart):
    """Unit of work that one worker runs at a time.

    Attributes
    ----------
    params : all parameters of a trial or a fit; `values` are the parameters that a search varies.
    state : waiting (for other tasks), queued, running, done.
    lease : token of the holder while it is running.
    heartbeats : number of heartbeats, which grows while the holder is alive.
    times_queued : number of times queued: at first, after a crash, after a release, and after a retry of its job.
    attempt : number of the attempt, from 1; incremented only after a crash of its worker or process, not after a
        release at a graceful shutdown.
    publishing : whether its result is about to be published, which cannot be undone.
    outcome : result of a completed task.
    """

    stage: Stage
    params: dict[str, Any]
    values: dict[str, Any] = Field(default_factory=dict)
    state: Literal["waiting", "queued", "running", "done"] = "waiting"
    lease: str | None = None
    heartbeats: int = 0
    times_queued: int = 0
    attempt: int = 1
    publishing: bool = False
    checkpoint: Checkpoint | None = None
    progress: dict[str, Any] | None = None
    outcome: dict[str, Any] | None = None


class Line(StoredPart):
    """Line of a job's log; `after` is the revision of the job before it was written."""

    n: int
    time: str
    text: str
    after: int


class JobDocument(StoredModel):
    """Record of a job with all its tasks.

    Attributes
    ----------
    digest : digest of the request with an idempotency key, in hexadecimal.
    checksums : checksums of the datasets by name, at the submission of the job.
    threads, segment_work : settings of every fit.
    incarnation : incarnation of the model of a search or a dry run; None for other jobs.
    """

    id: str
    spec: JobSpec | DoubtsSpec | DryRunSpec
    digest: str | None
    checksums: dict[str, str]
    threads: int
    segment_work: float
    incarnation: int | None = None
    state: State = "queued"
    created: str
    started: str | None = None
    ended: str | None = None
    tasks: list[Task]
    lines: list[Line] = Field(default_factory=list)
    result: Result | DryRunResult | None = None
    error: JobFailure | None = None

    @property
    def has_ended(self) -> bool:
        """True if the job has succeeded, failed or been cancelled."""
        return self.state in ENDED

    # State changes; `now` is an RFC 3339 time.

    def add_log_lines(self, now: str, texts: Iterable[str]) -> None:
        """Add lines to the log, which stores the latest `MAX_LINES`."""
        first = self.lines[-1].n + 1 if self.lines else 1
        for n, text in enumerate(texts, first):
            self.lines.append(Line(n=n, time=now, text=text[:MAX_LINE], after=self._revision))
        del self.lines[:-MAX_LINES]

    def queue_next(self) -> None:
        """Queue the tasks whose prerequisites are done."""
        for stage in ("gather", "trial", "fit"):
            tasks = [task for task in self.tasks if task.stage == stage]
            if all(task.state == "done" for task in tasks):
                continue
            for task in tasks:
                if task.state == "waiting":
                    self._requeue(task)
                    if stage == "fit" and (best := self.best()) is not None:
                        task.params = best.params
            return

    def claim(self, number: int, token: str, now: str) -> Task:
        """Acquire the lease on a queued task; raises NotClaimable. A second claim with the same token gets the task
        again."""
        task = self.tasks[number]
        if not (task.state == "running" and task.lease == token):
            if self.has_ended or task.state != "queued":
                raise NotClaimable(f"task {number} of job {self.id} is {task.state}, the job is {self.state}")
            task.state, task.lease, task.heartbeats = "running", token, task.heartbeats + 1
        self.state, self.started = "running", self.started or now
        return task

    def leased(self, number: int, token: str) -> Task:
        """Return the task of this lease; raises LeaseLost."""
        task = self.tasks[number]
        if self.has_ended or task.lease != token:
            raise LeaseLost(f"task {number} of job {self.id} was reassigned")
        return task

    def requeue(self, number: int, token: str) -> None:
        """Queue a task again, to resume from its checkpoint; raises LeaseLost."""
        self._requeue(self.leased(number, token))
        self._update_state()

    def requeue_or_fail(self, task: Task, reason: str, max_attempts: int, now: str) -> None:
        """Queue a task again after a crash of its worker or process; fail the job after the last attempt."""
        if task.attempt >= max_attempts:
            self.fail("worker_died", f"{reason}; attempt {task.attempt} was the last", now)
            return
        task.attempt += 1
        self._requeue(task)
        self._update_state()

    def finish(self, number: int, token: str, outcome: dict[str, Any]) -> None:
        """Finish a task, and queue the tasks that waited for it; raises LeaseLost."""
        task = self.leased(number, token)
        task.state, task.lease, task.checkpoint, task.progress = "done", None, None, None
        task.outcome = outcome
        self.queue_next()

    def succeed(
        self,
        number: int,
        token: str,
        result: Result | DryRunResult | None,
        now: str,
        outcome: dict[str, Any] | None = None,
    ) -> None:
        """Finish the job after its last task, with its result published, or the `outcome` of a search for doubts;
        raises LeaseLost."""
        task = self.leased(number, token)
        task.state, task.lease, task.checkpoint, task.outcome = "done", None, None, outcome
        self.result = result
        self._end("succeeded", now)

    def fail(self, code: str, detail: str, now: str) -> None:
        """End without a result."""
        self.error = JobFailure(code=code, detail=detail[:MAX_DETAIL])
        self._end("failed", now)

    def give_up(self, code: str, detail: str, now: str) -> None:
        """Fail the job, and drop its largest fields."""
        self.lines, self.result = [], None
        for task in self.tasks:
            task.progress = task.outcome = None
        self.fail(code, detail, now)

    def cancel(self, now: str) -> None:
        """End the job on request; raises JobEnded."""
        if self.has_ended:
            raise JobEnded(self.id, f"is {self.state}" if self.state == "cancelled" else f"has {self.state}")
        if any(task.publishing for task in self.tasks):
            raise JobEnded(self.id, "is done, and its result is being published")
        self._end("cancelled", now)

    def retry(self) -> None:
        """Queue the unfinished tasks, from their checkpoints; raises JobNotRetryable."""
        if self.state not in ("failed", "cancelled"):
            raise JobNotRetryable(self.id, self.state)
        self.state, self.error, self.ended, self.started = "queued", None, None, None
        for task in self.tasks:
            task.attempt, task.publishing = 1, False
        self.queue_next()

    def _end(self, state: State, now: str) -> None:
        self.state, self.ended = state, now
        for task in self.tasks:
            task.lease = None
            if task.state != "done":
                task.state = "waiting"

    def _requeue(self, task: Task) -> None:
        task.state, task.lease, task.times_queued, task.publishing = "queued", None, task.times_queued + 1, False

    def _update_state(self) -> None:
        if not any(task.state == "running" for task in self.tasks):
            self.state = "queued"

    # Responses to clients.

    def trials(self) -> list[Trial]:
        """Return the trials that are done, in their order."""
        return [_trial(task) for task in self.tasks if task.stage == "trial" and task.outcome is not None]

    def best(self) -> Best | None:
        """Return the first best trial so far, with complete params."""
        best: Best | None = None
        for task in self.tasks:
            if self.spec.search is None or task.stage != "trial" or task.outcome is None:
                continue
            score = _trial(task).score
            if best is None or MEASURES[self.spec.search.measure].is_better(score, best.score):
                best = Best(params=task.params, score=score)
        return best

    def sampled(self) -> StreamSample | None:
        """Return the sample of a stream; None before sampling, and for other data."""
        outcome = next((task.outcome for task in self.tasks if task.stage == "gather"), None)
        return None if outcome is None else StreamSample.model_validate(outcome)

    def progress(self) -> Progress | None:
        """Return the progress of the job; None before the first task has started."""
        if self.started is None:
            return None
        running = next((task for task in self.tasks if task.state == "running"), None)
        unfinished = running or next((task for task in self.tasks if task.state != "done"), self.tasks[-1])
        reported = unfinished.progress or {}
        trials = [task for task in self.tasks if task.stage == "trial"]
        done = sum(task.state == "done" for task in trials)
        return Progress(
            iteration=reported.get("iteration", 0),
            objective=reported.get("objective"),
            gap=reported.get("gap"),
            seconds=reported.get("seconds", 0.0),
            fold=reported.get("fold"),
            folds=reported.get("folds"),
            checkpoint=None if unfinished.checkpoint is None else unfinished.checkpoint.iteration,
            trials=Trials(done=done, total=len(trials)) if trials else None,
            best=self.best(),
        )

    def log(self, after: int = 0) -> list[LogLine]:
        """Return the lines that were written after a revision."""
        return [LogLine(n=line.n, time=line.time, text=line.text) for line in self.lines if line.after >= after]

    def to_job(self) -> Job:
        """Return the job as clients see it."""
        facts = {
            name: getattr(self, name) for name in ("id", "state", "created", "started", "ended", "result", "error")
        }
        spec = {name: getattr(self.spec, name) for name in JobSpec.model_fields}
        attempt = max(task.attempt for task in self.tasks)
        return Job(**spec, **facts, attempt=attempt, sampled=self.sampled(), progress=self.progress())


def queued(jobs: Iterable[JobDocument]) -> list[tuple[JobDocument, int]]:
    """Return the queued tasks, those of the oldest job first."""
    waiting = sorted((job for job in jobs if not job.has_ended), key=lambda job: (job.created, job.id))
    return [(job, n) for job in waiting for n, task in enumerate(job.tasks) if task.state == "queued"]


def _trial(task: Task) -> Trial:
    assert task.outcome is not None
    scores: Sequence[float] = task.outcome["scores"]
    return Trial(
        params=task.values, score=sum(scores) / len(scores), scores=list(scores), seconds=task.outcome["seconds"]
    )
