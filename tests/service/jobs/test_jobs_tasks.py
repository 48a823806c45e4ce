"""Changes of a job document, and random walks through them."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.service.jobs.conftest import SHORT, spec

from manylabel_service.errors import JobEnded, JobNotRetryable
from manylabel_service.jobs import job_record
from manylabel_service.jobs.job_record import Checkpoint, JobDocument, LeaseLost, NotClaimable, queued
from manylabel_service.jobs.plan import plan
from manylabel_service.jobs.spec.schemas import ENDED, Result, StreamSample

NOW = "2026-11-21T06:00:00.000Z"
GRID = {"kind": "grid", "params": {"C": [0.1, 1.0, 10.0]}, "folds": 2}
RESULT = Result(
    model="songs",
    version=1,
    rows=1,
    converged=True,
    gap=None,
    promoted=True,
    not_promoted_because=None,
    held_out=None,
    params={},
    trials=[],
    seconds=0.0,
)

TAKEN = StreamSample(asked=5, rows=5, learnt=5, partial=0, rolled_back=0, position="5", text="5 of 5 asked")
OUTCOMES = {"gather": TAKEN.model_dump(), "trial": {"scores": [0.5], "seconds": 1.0}}


def job(id="a", created=NOW, **changes) -> JobDocument:
    order = spec(SHORT, **changes)
    record = JobDocument(
        id=id, spec=order, digest=None, checksums={}, threads=1, segment_work=1.0, created=created, tasks=plan(order)
    )
    record.queue_next()
    return record


def reread(record: JobDocument, revision: int) -> JobDocument:
    return record.model_copy(deep=True).at(revision)


def states(record):
    return [task.state for task in record.tasks]


def test_stages_follow_one_another():
    record = job(search=GRID, data={"stream": "tags", "last": 5})
    assert states(record) == ["queued", "waiting", "waiting", "waiting", "waiting"]
    record.claim(0, "g", NOW)
    record.finish(0, "g", OUTCOMES["gather"])
    assert states(record) == ["done", "queued", "queued", "queued", "waiting"]
    for number, score in ((2, 0.5), (1, 0.7), (3, 0.7)):
        record.claim(number, "t", NOW)
        assert states(record)[4] == "waiting"
        record.finish(number, "t", {"scores": [score, score], "seconds": 1.0})
    assert states(record)[4] == "queued"
    assert record.state == "running", "it goes on at once"
    assert record.tasks[4].params["C"] == 0.1, "of equal trials the first"
    assert [trial.score for trial in record.trials()] == [0.7, 0.5, 0.7]
    record.claim(4, "f", NOW)
    record.succeed(4, "f", RESULT, NOW)
    assert (record.state, states(record)) == ("succeeded", ["done"] * 5)


def test_lower_is_better_for_a_loss():
    record = job(search={**GRID, "measure": "hamming_loss"})
    for number, score in enumerate((0.5, 0.2, 0.3)):
        record.claim(number, "t", NOW)
        record.finish(number, "t", {"scores": [score], "seconds": 1.0})
    assert record.tasks[3].params["C"] == 1.0
    assert record.to_job().progress.best.score == 0.2


def test_a_lease_is_exclusive_and_can_be_found_again():
    record = job()
    record.claim(0, "one", NOW)
    record.claim(0, "one", NOW)  # its answer got lost
    with pytest.raises(NotClaimable):
        record.claim(0, "two", NOW)
    with pytest.raises(LeaseLost):
        record.leased(0, "two")
    record.requeue(0, "one")
    assert (record.state, record.tasks[0].times_queued) == ("queued", 2)
    with pytest.raises(LeaseLost):
        record.finish(0, "one", {})


def test_no_task_of_a_job_that_has_ended_is_leased():
    record = job()
    record.claim(0, "one", NOW)
    record.state = "cancelled"  # as a release that left the lease would have written it
    with pytest.raises(LeaseLost):
        record.finish(0, "one", {})


def test_the_number_of_attempts_is_limited():
    record = job()
    for attempt in (1, 2):
        task = record.claim(0, f"c{attempt}", NOW)
        assert record.to_job().attempt == attempt
        record.requeue_or_fail(task, "it fell over", 2, NOW)
    assert record.state == "failed"
    assert record.error.code == "worker_died"
    assert "it fell over; attempt 2 was the last" in record.error.detail


def test_a_cancelled_job_loses_its_lease_unless_it_is_being_published():
    record = job()
    task = record.claim(0, "one", NOW)
    task.publishing = True
    with pytest.raises(JobEnded, match="being published"):
        record.cancel(NOW)
    task.publishing = False
    record.cancel(NOW)
    with pytest.raises(LeaseLost):
        record.succeed(0, "one", RESULT, NOW)
    with pytest.raises(JobEnded, match="it is cancelled"):
        record.cancel(NOW)


def test_a_retry_keeps_finished_tasks_and_checkpoints():
    record = job(search=GRID)
    with pytest.raises(JobNotRetryable, match="is queued"):
        record.retry()
    record.claim(0, "t", NOW)
    record.finish(0, "t", {"scores": [1.0], "seconds": 1.0})
    record.claim(1, "t", NOW).checkpoint = Checkpoint(key="k", iteration=7)
    record.fail("worker_died", "x", NOW)
    record.retry()
    assert (record.state, record.error, record.ended) == ("queued", None, None)
    assert states(record) == ["done", "queued", "queued", "waiting"]
    assert record.tasks[1].checkpoint.iteration == 7


def test_the_oldest_job_is_first():
    jobs = [job("b", "2"), job("a", "2", search=GRID), job("c", "1")]
    jobs[2].claim(0, "t", NOW)
    assert [(record.id, number) for record, number in queued(jobs)] == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]


def test_a_log_is_bounded_and_can_be_read_from_a_revision(monkeypatch):
    monkeypatch.setattr(job_record, "MAX_LINES", 3)
    record = job()
    record.add_log_lines(NOW, ["x" * 1000])
    record = reread(record, 5)
    record.add_log_lines(NOW, ["second", "third"])
    record = reread(record, 9)
    record.add_log_lines(NOW, ["fourth"])
    record = reread(record, 11)
    assert [line.n for line in record.log()] == [2, 3, 4]
    assert [line.text for line in record.log(9)] == ["fourth"]
    assert [line.n for line in record.log(6)] == [4]
    assert record.log(11) == []


def test_the_record_of_a_job_that_grew_too_large_is_small():
    record = job(search=GRID)
    record.claim(0, "t", NOW).outcome = {"scores": [0.5], "seconds": 1.0, "much": "x" * 10_000}
    record.add_log_lines(NOW, ["y" * 300] * 100)
    record.give_up("too_large", "z" * 10_000, NOW)
    assert record.state == "failed"
    assert len(record.to_bytes()) < 5000
    assert record.to_job().error.detail.startswith("zzz")


class Walk(RuleBasedStateMachine):
    """Workers, monitors and clients at one job, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.record = job(search=GRID, data={"stream": "tags", "last": 5})
        self.tokens = 0
        self.done: set[int] = set()

    def running(self):
        return [(n, task) for n, task in enumerate(self.record.tasks) if task.state == "running"]

    @precondition(lambda self: queued([self.record]))
    @rule(data=st.data())
    def claim(self, data):
        _, number = data.draw(st.sampled_from(queued([self.record])))
        self.tokens += 1
        self.record.claim(number, str(self.tokens), NOW)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), how=st.sampled_from(["finish", "release", "lose", "stale"]))
    def work(self, data, how):
        number, task = data.draw(st.sampled_from(self.running()))
        if how == "stale":
            with pytest.raises(LeaseLost):
                self.record.finish(number, "-1", {})
        elif how == "release":
            self.record.requeue(number, task.lease)
        elif how == "lose":
            self.record.requeue_or_fail(task, "died", 3, NOW)
        elif task.stage == "fit":
            self.record.succeed(number, task.lease, RESULT, NOW)
        else:
            self.record.finish(number, task.lease, OUTCOMES[task.stage])
            self.done.add(number)

    @rule()
    def cancel(self):
        if self.record.has_ended:
            with pytest.raises(JobEnded):
                self.record.cancel(NOW)
        else:
            self.record.cancel(NOW)

    @precondition(lambda self: self.record.state in ("failed", "cancelled"))
    @rule()
    def retry(self):
        self.record.retry()

    @invariant()
    def hold(self):
        record = reread(self.record, 1)
        assert record.to_bytes() == self.record.to_bytes()
        stages = [task.stage for task in record.tasks if task.state in ("queued", "running")]
        assert len(set(stages)) <= 1, "one stage at a time"
        assert all((task.lease is not None) == (task.state == "running") for task in record.tasks)
        assert all(record.tasks[number].state == "done" for number in self.done), "done once and for all"
        assert bool(stages) == (record.state not in ENDED), "what has not ended can go on"
        assert (record.ended is not None) == (record.state in ENDED)
        assert (record.error is not None) == (record.state == "failed")
        assert (record.result is not None) == (record.state == "succeeded")
        record.to_job()


TestWalk = Walk.TestCase
TestWalk.settings = settings(stateful_step_count=25)
