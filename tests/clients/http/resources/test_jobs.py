"""Exchanges about training jobs: requests, results and retries."""

import json
from typing import Any

import httpx2
import pytest
from tests.clients.http.fake_server import FakeServer, ok, problem, unsent

from manylabel_clients import Conflict, JobFailed, JobProgress, Retry
from manylabel_clients.http.resources.jobs import MAX_POLL_SECONDS, JobCalls, TrainingCalls

RETRY = Retry(attempts=3, base_seconds=1, cap_seconds=100, jitter=0)
PROGRESS = {
    "iteration": 3, "objective": 1.5, "gap": 0.1, "seconds": 0.5, "checkpoint": None, "trials": None, "best": None,
}  # fmt: skip
JOB = {
    "id": "j1", "state": "running", "trainer": "m3l", "params": {"C": 1.0}, "data": {"dataset": "songs"},
    "holdout": None, "search": None, "seed": 0, "model": "m", "promote": "always", "created": "2026-11-21T00:00:00Z",
    "started": None, "ended": None, "attempt": 1, "sampled": None, "progress": PROGRESS, "result": None, "error": None,
}  # fmt: skip
RESULT = {
    "model": "m", "version": 2, "rows": 3, "converged": True, "gap": None, "promoted": True,
    "not_promoted_because": None, "held_out": None, "params": {"C": 1.0}, "trials": [], "seconds": 0.1,
}  # fmt: skip
DONE = {**JOB, "state": "succeeded", "progress": None, "result": RESULT}
FAILED = {**JOB, "state": "failed", "error": {"code": "training_refused", "detail": "Y has one class"}}
CUT = httpx2.ReadError("cut")


def training(fake: FakeServer) -> Any:
    return unsent(TrainingCalls, retry=RETRY, run=fake)


def job(clock: Any = lambda: 0.0) -> Any:
    return unsent(JobCalls, "j1", retry=RETRY, clock=clock)


SPEC: dict[str, Any] = {"trainer": "m3l", "model": "m", "params": {"C": 1.0}, "search": None, "seed": None}


@pytest.mark.parametrize("key", [None, "mine"])
def test_a_retried_job_is_submitted_under_one_key(key: str | None) -> None:
    fake = FakeServer(CUT, problem(503, "not_ready"), ok(JOB, 202))
    assert training(fake).train(data="songs", key=key, **SPEC).id == "j1"
    assert len(fake.requests) == 3
    assert len({(request.headers["Idempotency-Key"], request.body) for request in fake.requests}) == 1
    assert key in (None, fake.keys[0])
    assert fake.bodies[0] == {
        "trainer": "m3l",
        "model": "m",
        "params": {"C": 1.0},
        "data": {"dataset": "songs"},
        "promote": "if_better",
    }


def test_two_jobs_have_different_keys() -> None:
    fake = FakeServer(ok(JOB, 202), ok(JOB, 202))
    for _ in range(2):
        training(fake).train(data={"stream": "tags", "last": 10}, **SPEC)
    assert fake.keys[0] != fake.keys[1]
    assert fake.bodies[0]["data"] == {"stream": "tags", "last": 10}


def test_jobs_and_trainers_are_listed() -> None:
    fake = FakeServer(ok({"jobs": [JOB, DONE]}), ok({"jobs": []}))
    running, done = training(fake).jobs(state="running", limit=5)
    assert running.progress == JobProgress(**PROGRESS)  # type: ignore[arg-type]
    assert (running.has_ended, done.has_ended, done.result.version) == (False, True, 2)
    training(fake).jobs()
    assert [request.path for request in fake.requests] == ["/v1/jobs?state=running&limit=5", "/v1/jobs"]
    described = {"name": "m3l", "title": "M3L", "needs": "rows", "weights": True, "params": {}, "search": {}}
    described["rbf_search"] = {}
    (one,) = training(FakeServer(ok({"trainers": [described]}))).trainers()
    assert one.title == "M3L"


def test_waiting_polls_less_and_less_often() -> None:
    fake = FakeServer(*[ok(JOB)] * 20, ok(DONE))
    assert fake(job().wait()).result.version == 2
    assert fake.pauses == sorted(fake.pauses)
    assert (fake.pauses[0], fake.pauses[-1]) == (0.05, MAX_POLL_SECONDS)


def test_waiting_continues_after_a_restart_of_the_server() -> None:
    fake = FakeServer(ok(JOB), CUT, problem(503, "not_ready"), ok(DONE))
    assert fake(job().wait()).state == "succeeded"


@pytest.mark.parametrize(
    ("end", "message"), [(FAILED, "failed: Y has one class"), ({**JOB, "state": "cancelled"}, "was")]
)
def test_a_job_without_a_result_is_an_error(end: Any, message: str) -> None:
    with pytest.raises(JobFailed, match=message) as caught:
        FakeServer(ok(JOB), ok(end))(job().wait())
    assert caught.value.job.state == end["state"]


def test_waiting_ends_when_the_time_is_over() -> None:
    fake = FakeServer(*[ok(JOB)] * 100)
    with pytest.raises(TimeoutError, match="still running"):
        fake(job(lambda: sum(fake.pauses)).wait(2.0))
    assert sum(fake.pauses) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("call", "state", "code"), [("cancel", "cancelled", "job_ended"), ("retry", "queued", "job_not_retryable")]
)
def test_a_change_whose_response_was_lost_is_no_conflict(call: str, state: str, code: str) -> None:
    change, changed, conflict = getattr(job(), call), {**JOB, "state": state}, problem(409, code)
    assert FakeServer(ok(changed))(change()).state == state
    assert FakeServer(CUT, conflict, ok(changed))(change()).state == state
    for replies in ([conflict], [CUT, conflict, ok(FAILED)]):
        with pytest.raises(Conflict):
            FakeServer(*replies)(change())


def test_the_log_is_a_list_of_lines() -> None:
    (line,) = FakeServer(ok({"lines": [{"n": 1, "time": "t", "text": "begins"}]}))(job().log())
    assert (line.n, line.time, line.text) == (1, "t", "begins")


def test_events_of_a_job_are_read_and_resumed() -> None:
    events = job().events()
    text = f"event: progress\ndata: {json.dumps(PROGRESS)}\nid: 41\n\n"
    (event,) = [event for line in text.split("\n") if (event := events.feed(line)) is not None]
    assert (event.kind, event.id, event.data["gap"]) == ("progress", "41", 0.1)
    assert events.request.path == "/v1/jobs/j1/events"
    assert events.request.headers["Last-Event-ID"] == "41"
