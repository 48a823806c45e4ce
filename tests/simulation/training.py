"""Simulated training processes, which run the tasks of jobs under leases."""

import asyncio
from collections.abc import Callable

from tests.simulation.loop import SimulatedLoop

from manylabel_service.jobs.job_record import JobDocument, Task
from manylabel_service.jobs.job_store import now
from manylabel_service.jobs.spec.schemas import JobSpec, Result
from manylabel_service.jobs.supervision.child_process import ChildProcess
from manylabel_service.jobs.supervision.lease import TaskChange
from manylabel_service.jobs.supervision.supervisor import ProcessDied, ProcessOrphaned, Supervision

STEP_SECONDS = 0.25
"""Virtual time in which a training computes without looking at its deadline."""

RESULT = Result(
    model="t",
    version=1,
    rows=1,
    converged=True,
    gap=None,
    promoted=True,
    not_promoted_because=None,
    held_out=None,
    params={},
    trials=[],
    seconds=1.0,
)


def job(id: str) -> JobDocument:
    """Return a new job with one task."""
    spec = JobSpec.model_validate({"trainer": "m3l", "data": {"stream": "m", "last": 1}, "model": "t"})
    record = JobDocument(
        id=id,
        spec=spec,
        digest=None,
        checksums={},
        threads=1,
        segment_work=1.0,
        created=now(),
        tasks=[Task(stage="fit", params={})],
    )
    record.queue_next()
    return record


class Trainings:
    """All training processes of a lifetime; one task has at most one that computes.

    Parameters
    ----------
    loop : runs them.
    fail : called with a text if two processes compute for one task.
    """

    def __init__(self, loop: SimulatedLoop, fail: Callable[[str], None]) -> None:
        self.loop = loop
        self._fail = fail
        self._computing: dict[str, tuple[object, float]] = {}
        self._n = 0

    def start(self, id: str, until: float) -> "Training":
        """Start a process for a job, which may compute until a time."""
        self._n += 1
        training = Training(self, id, until)
        training.task = self.loop.spawn(f"training {self._n}", training.run())
        return training

    def compute(self, training: "Training", seconds: float) -> None:
        """Note that a process computes for some time."""
        time = self.loop.time()
        other, until = self._computing.get(training.id, (training, 0.0))
        if other is not training and until > time:
            self._fail(f"two processes train for job {training.id}")
        self._computing[training.id] = training, time + seconds

    def end(self, training: "Training") -> None:
        """Note that a process was killed."""
        if self._computing.get(training.id, (None, 0.0))[0] is training:
            del self._computing[training.id]


class Training(ChildProcess):
    """Training process, which outlives its supervisor until its deadline."""

    task: asyncio.Task[None]

    def __init__(self, trainings: Trainings, id: str, until: float) -> None:
        self.id = id
        self.orphaned = self.died = self._paused = False
        self._trainings, self._until = trainings, until
        self._left = trainings.loop.rng.expovariate(1 / 6)
        self._dies = trainings.loop.rng.random() < 0.1

    async def run(self) -> None:
        """Compute until the work is done or the deadline has passed."""
        loop = self._trainings.loop
        while self._left > 0:
            if self._paused:
                await asyncio.sleep(STEP_SECONDS)
                continue
            seconds = min(STEP_SECONDS, self._until - loop.time())
            if seconds <= 0:
                self.orphaned = True
                return
            self._trainings.compute(self, seconds)
            self._left -= seconds
            await asyncio.sleep(seconds)
        self.died = self._dies

    def allow(self, until: float) -> None:
        self._until, self._paused = until, False

    def pause(self) -> None:
        self._paused = True

    async def kill(self) -> None:
        self.task.cancel()
        self._trainings.end(self)


def supervision(trainings: Trainings) -> type[Supervision]:
    """Return a class of supervision whose processes are simulated."""

    class SimulatedSupervision(Supervision):
        async def _work(self) -> TaskChange:
            number, token = self._lease.number, self._lease.token
            await self._lease.wait_until_valid()
            training = self._lease.process = trainings.start(self._record.id, self._lease.valid_until)
            try:
                await asyncio.wait([training.task])
            finally:
                self._lease.process = None
                await training.kill()
            if training.orphaned:
                raise ProcessOrphaned
            if training.died:
                raise ProcessDied("it was killed")
            return lambda record, _, now: record.succeed(number, token, RESULT, now)

    return SimulatedSupervision
