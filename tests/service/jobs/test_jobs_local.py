"""Jobs from their submission to a version, with training processes of this process."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.service.jobs.conftest import (
    LONG,
    SHORT,
    add_songs,
    estimator_of,
    songs,
    spec,
    wait_for_checkpoint,
    wait_until_ended,
)
from tests.support.processes import TRAINER, processes
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_core.batch import M3L
from manylabel_service.errors import (
    DatasetInUse,
    DatasetNotFound,
    InvalidJob,
    JobEnded,
)
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.jobs.job_service import JobService
from manylabel_service.jobs.local_runner import LocalRunner
from manylabel_service.jobs.supervision import lease
from manylabel_service.storage import SQLiteStore

KEY = IdempotencyKey("k1", b"0123456789abcdef")


async def no_blobs(store):
    return await store.blobs.keys("jobs/") == []


async def test_a_job_makes_a_version_and_its_repetition_none(store, jobs_of):
    jobs = await jobs_of(store, job_checkpoint_work=1e9)
    context = jobs._context
    await add_songs(context)
    job, replayed = await jobs.submit(spec(SHORT), KEY)
    assert (job.state, replayed, job.params["C"]) == ("queued", False, 1.0)
    events = [event async for event in jobs.watch(job.id)]
    done = await jobs.get(job.id)
    assert done.state == "succeeded"
    train, test = songs().split("train"), songs().split("test")
    expected = M3L(scaling="auto").fit(train.X, train.Y, label_names=train.label_names)
    assert await estimator_of(context, "songs") == expected.to_bytes()
    assert (done.result.version, done.result.rows, done.result.held_out.rows) == (1, 225, test.n_rows)
    # events while the job ran
    states = [data["state"] for _, kind, data in events if kind == "state"]
    assert states == ["queued", "running", "succeeded"]
    assert events[-1][2]["result"] == done.result.model_dump()
    assert [line["n"] for _, kind, line in events if kind == "log"] == [1, 2]
    assert [line.text.split(" on ")[0] for line in await jobs.log(job.id)] == [
        "the fit begins",
        "published as version 1 of model songs",
    ]
    revisions = [revision for revision, _, _ in events]
    assert revisions == sorted(revisions)
    again = [event async for event in jobs.watch(job.id, after=revisions[-1])]
    assert [kind for _, kind, _ in again] == ["state"]
    assert await jobs.submit(spec(SHORT), KEY) == (done, True), "the same key"
    await eventually_async(lambda: no_blobs(store))
    assert jobs.counts()["succeeded"] == 1


async def test_the_end_of_a_task_is_no_lost_lease(sqlite_store, jobs_of, monkeypatch):
    monkeypatch.setattr(lease, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.001)
    jobs = await jobs_of(sqlite_store, job_checkpoint_work=0.1)  # with checkpoints
    store = jobs._context.job_store
    remove_blobs = store.remove_blobs

    async def slowly(*args, **kwargs):
        await asyncio.sleep(0.2)  # many heartbeats
        await remove_blobs(*args, **kwargs)

    monkeypatch.setattr(store, "remove_blobs", slowly)
    await add_songs(jobs._context)
    with capture_logs() as logs:
        job, _ = await jobs.submit(spec(SHORT), KEY)
        assert (await wait_until_ended(jobs, job.id)).state == "succeeded"
        await eventually_async(lambda: no_blobs(sqlite_store))
    assert [line["event"] for line in logs if line["event"] in ("task_finished", "lease_lost")] == ["task_finished"]


@pytest.mark.parametrize("claimed", [True, False])
async def test_events_include_a_state_that_ended_between_two_polls(sqlite_store, context_of, claimed):
    context = context_of(sqlite_store)
    await add_songs(context)
    jobs = JobService(context, LocalRunner(context, 1))  # not started: the job stays queued
    job, _ = await jobs.submit(spec(SHORT), None)
    events = jobs.watch(job.id)
    assert (await anext(events))[2]["state"] == "queued"
    if claimed:
        await context.job_store.change(job.id, lambda record, now: record.claim(0, "token", now))
    done = await jobs.cancel(job.id)
    states = [data for _, kind, data in [event async for event in events] if kind == "state"]
    assert [data["state"] for data in states] == (["running"] if claimed else []) + ["cancelled"]
    assert states[-1] == done.model_dump()
    assert all((data["started"], data["ended"]) == (done.started, None) for data in states[:-1])


@pytest.mark.parametrize("known", [True, False], ids=["known", "not yet known"])
async def test_the_events_of_a_removed_job_end(sqlite_store, context_of, known):
    context = context_of(sqlite_store)
    await add_songs(context)
    jobs = JobService(context, LocalRunner(context, 1))  # not started: the job stays queued
    job, _ = await jobs.submit(spec(SHORT), None)
    if known:
        await context.job_store.refresh()
    events = jobs.watch(job.id)
    assert (await anext(events))[1] == "state"
    await context.job_store.remove(await context.job_store.get(job.id))
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert [event async for event in events] == []


async def test_a_job_that_is_killed_cancelled_retried_and_released_gives_the_same_version(
    tmp_path, jobs_of, undisturbed_estimator
):
    store = SQLiteStore(tmp_path / "data")
    await store.open()
    jobs = await jobs_of(store)
    context = jobs._context
    place = context.settings.data_dir
    await add_songs(context)
    job, _ = await jobs.submit(spec(LONG), None)
    other, _ = await jobs.submit(spec(SHORT), None)
    await wait_for_checkpoint(jobs, job.id)
    assert (await jobs.get(other.id)).state == "queued", "there is one slot"
    await jobs.cancel(other.id)
    with pytest.raises(DatasetInUse):
        await context.datasets.delete("songs", jobs.uses_dataset)
    # its process is killed
    [pid] = processes(TRAINER, directory=place)
    os.kill(pid, signal.SIGKILL)
    await eventually_async(lambda: _attempt(jobs, job.id, 2))
    [pid] = await eventually_async(lambda: processes(TRAINER, directory=place))
    iteration = (await jobs.get(job.id)).progress.checkpoint
    # it is cancelled
    assert (await jobs.cancel(job.id)).state == "cancelled"
    await eventually_async(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(JobEnded):
        await jobs.cancel(job.id)
    # it is retried, and its server stops
    assert (await jobs.retry(job.id)).state == "queued"
    await eventually_async(lambda: processes(TRAINER, directory=place))
    await jobs.stop()
    assert processes(TRAINER, directory=place) == set()
    assert list((place / "jobs").iterdir()) == []
    left = await jobs.get(job.id)
    assert (left.state, left.attempt) == ("queued", 1)
    await store.close()
    # another server finishes it
    store = SQLiteStore(tmp_path / "data")
    await store.open()
    jobs = await jobs_of(store)
    done = await wait_until_ended(jobs, job.id)
    assert (done.state, done.attempt) == ("succeeded", 1)
    assert await estimator_of(jobs._context, "songs-long") == undisturbed_estimator
    goes_on = [line.text for line in await jobs.log(job.id) if "resumes from iteration" in line.text]
    assert len(goes_on) == 3
    assert int(goes_on[1].split("iteration ")[1].split()[0]) >= iteration > 0
    await jobs._context.datasets.delete("songs", jobs.uses_dataset)
    await jobs.stop()
    await store.close()


async def _attempt(jobs, id, number):
    return (await jobs.get(id)).attempt == number


async def test_the_error_of_a_failed_job_names_the_reason(sqlite_store, jobs_of):
    jobs = await jobs_of(sqlite_store, job_timeout_seconds=0.5, job_max_attempts=1)
    await add_songs(jobs._context)
    refused, _ = await jobs.submit(spec(SHORT, params={"R": [[0.0] * 3] * 3}), None)
    slow, _ = await jobs.submit(spec(LONG, params={**LONG["params"], "max_iter": 1_000_000}), None)
    first, second = await wait_until_ended(jobs, refused.id), await wait_until_ended(jobs, slow.id)
    assert first.state == second.state == "failed"
    assert {first.error.code, second.error.code} <= {"training_refused", "timed_out"}
    assert second.error.code == "timed_out"
    assert "job_timeout_seconds, 0.5 s" in second.error.detail
    assert processes(TRAINER, directory=jobs._context.settings.data_dir) == set()


async def test_an_impossible_job_is_refused_when_it_is_submitted(sqlite_store, jobs_of):
    """Further reasons are in the table of tests/service/api/routers/test_jobs.py."""
    jobs = await jobs_of(sqlite_store, job_slots=0)
    await add_songs(jobs._context)
    huge = {"kind": "grid", "params": {"kernel": ["x" * 256] * 500}}
    for error, path, changes in (
        (InvalidJob, ("data", "unlabelled"), {"data": {"dataset": "songs", "unlabelled": {"dataset": "songs"}}}),
        (InvalidJob, None, {"search": huge}),
        (DatasetNotFound, None, {"holdout": {"dataset": "nope"}}),
    ):
        with pytest.raises(error) as refused:
            await jobs.submit(spec(SHORT, **changes), None)
        assert path is None or refused.value.path == path
    assert await jobs.list() == []
