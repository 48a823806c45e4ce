"""The jobs of a store as several processes see them, and who is taken for dead."""

import asyncio
import fcntl
import os
from types import SimpleNamespace

import pytest
from tests.service.jobs.test_jobs_tasks import job
from tests.support.waiting import eventually_async

from manylabel_service.errors import JobNotFound, RevisionConflict, StorageUnavailable
from manylabel_service.jobs import monitor as monitor_module
from manylabel_service.jobs.context import VALID_SECONDS
from manylabel_service.jobs.job_record import Unchanged
from manylabel_service.jobs.job_store import KIND, JobStore, blobs_of
from manylabel_service.jobs.monitor import JobMonitor
from manylabel_service.jobs.supervision import lease as lease_module
from manylabel_service.jobs.supervision.lease import TaskLease
from manylabel_service.jobs.supervision.workdirs import remove_stale
from manylabel_service.storage import MAX_DOCUMENT_BYTES, document_follower, pieces_of


class Idle:
    """A runner that does nothing and remembers what it was offered."""

    def __init__(self):
        self.offered = []
        self.offers = 0

    async def offer(self, queued):
        self.offers += 1
        self.offered = [(record.id, number) for record, number in queued]

    async def stop(self):
        pass


async def test_steps_at_the_same_time_are_all_made(store):
    job_store, other = JobStore(store), JobStore(store)
    await job_store.add(job())

    def send_heartbeat(record, now):
        record.tasks[0].heartbeats += 1

    await asyncio.gather(*(each.change("a", send_heartbeat) for each in (job_store, other) * 10))
    assert (await job_store.get("a")).tasks[0].heartbeats == 20
    with pytest.raises(RevisionConflict):
        await other.add(job())


async def test_a_step_that_changes_nothing_or_fails_writes_nothing(store):
    job_store = JobStore(store)
    before = await job_store.add(job())

    def nothing(record, now):
        record.tasks[0].heartbeats += 1
        raise Unchanged

    await job_store.change("a", nothing)
    with pytest.raises(ZeroDivisionError):
        await job_store.change("a", lambda record, now: 1 / 0)
    assert (await job_store.get("a")).revision == before.revision
    for id in ("b", "", "x" * 300):
        with pytest.raises(JobNotFound):
            await job_store.get(id)


async def test_what_grows_too_large_fails_instead_of_being_stuck(store):
    job_store = JobStore(store)
    await job_store.add(job())

    def grow(record, now):
        record.tasks[0].outcome = {"much": "x" * MAX_DOCUMENT_BYTES}

    record = await job_store.change("a", grow)
    assert (record.state, record.error.code) == ("failed", "too_large")


async def test_a_look_tells_of_changes_by_others_and_a_whole_one_of_what_is_gone(store, monkeypatch):
    job_store, other = JobStore(store), JobStore(store)
    for id in "abc":
        await other.add(job(id))
    await job_store.refresh()
    assert set(job_store.jobs) == {"a", "b", "c"}
    waiting = asyncio.create_task(job_store.wait(30))
    await other.change("b", lambda record, now: record.cancel(now))
    await other.refresh()
    await other.remove(other.jobs["c"])
    await job_store.refresh()
    await waiting
    assert {id: record.state for id, record in job_store.jobs.items()} == {
        "a": "queued",
        "b": "cancelled",
        "c": "queued",
    }
    monkeypatch.setattr(document_follower, "WHOLE_SECONDS", 0.0)
    await job_store.refresh()
    assert set(job_store.jobs) == {"a", "b"}
    await store.documents.put(KIND, "future", b'{"id": "future"}', revision=None)
    await job_store.refresh()
    assert set(job_store.jobs) == {"a", "b"}, "what cannot be read is left alone"


async def test_a_whole_look_reads_only_the_jobs_that_have_changed(store, monkeypatch):
    monkeypatch.setattr(document_follower, "WHOLE_SECONDS", 0.0)
    job_store, other = JobStore(store), JobStore(store)
    for id in "abc":
        await other.add(job(id))
    await store.documents.put(KIND, "future", b'{"id": "future"}', revision=None)
    await job_store.refresh()
    read, every = [], store.documents.all

    async def counted(kind, after=0):
        documents = await every(kind, after)
        read.extend(document.name for document in documents)
        return documents

    monkeypatch.setattr(store.documents, "all", counted)
    await job_store.refresh()
    assert read == []
    await other.change("b", lambda record, now: record.cancel(now))
    await job_store.refresh()
    assert read == ["b"]
    assert {id: record.state for id, record in job_store.jobs.items()} == {
        "a": "queued",
        "b": "cancelled",
        "c": "queued",
    }


async def test_what_a_store_has_lost_is_read_again(store, monkeypatch):
    monkeypatch.setattr(document_follower, "WHOLE_SECONDS", 0.0)
    job_store = JobStore(store)
    older = await job_store.add(job("a"))
    await job_store.add(job("lost"))
    listed = {"a": older.revision}
    documents = await store.documents.all(KIND)
    await job_store.change("a", lambda record, now: record.cancel(now))
    await job_store.refresh()
    assert job_store.jobs["a"].state == "cancelled"

    async def revisions(kind):
        return listed

    async def restored(kind, after=0):
        return [document for document in documents if document.name in listed and document.revision > after]

    monkeypatch.setattr(store.documents, "revisions", revisions)
    monkeypatch.setattr(store.documents, "all", restored)
    await job_store.refresh()
    assert {id: (record.state, record.revision) for id, record in job_store.jobs.items()} == {
        "a": ("queued", older.revision)
    }


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(monitor_module, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def kept(sqlite_store, context_of, clock):
    """A monitor, and ways to let it look."""
    context, runner = context_of(sqlite_store, job_max_attempts=2), Idle()
    monitor = JobMonitor(context, runner)

    async def look(after=0.5, times=1):
        for _ in range(times):
            clock.now += after
            await monitor._poll()

    return SimpleNamespace(context=context, job_store=context.job_store, monitor=monitor, runner=runner, look=look)


async def claimed(kept):
    await kept.job_store.add(job())
    await kept.job_store.change("a", lambda record, now: record.claim(0, "t", now))
    await kept.look()


async def send_heartbeat(kept):
    def change(record, now):
        record.leased(0, "t").heartbeats += 1

    await kept.job_store.change("a", change)


async def test_who_gives_no_sign_of_life_is_dead_after_the_lease(kept):
    await claimed(kept)
    await kept.look(times=19)
    assert kept.job_store.jobs["a"].state == "running"
    await kept.look(times=2)
    record = await kept.job_store.get("a")
    assert (record.state, record.tasks[0].attempt) == ("queued", 2)
    assert "sent no heartbeat for 10 s" in record.log()[-1].text
    await kept.look()
    assert kept.runner.offered == [("a", 0)]
    await kept.job_store.change("a", lambda record, now: record.claim(0, "u", now))
    await kept.look(times=25)
    assert (await kept.job_store.get("a")).state == "failed", "job_max_attempts = 2"


async def test_who_gives_signs_of_life_is_not(kept):
    await claimed(kept)
    for _ in range(10):
        await kept.look(times=10)
        await send_heartbeat(kept)
    await kept.look(times=19)
    assert (await kept.job_store.get("a")).state == "running"


async def test_a_sign_of_life_at_the_last_moment_counts(kept, monkeypatch):
    await claimed(kept)
    bury = kept.monitor._expire

    async def late(id, number):
        await send_heartbeat(kept)
        await bury(id, number)

    monkeypatch.setattr(kept.monitor, "_expire", late)
    await kept.look(times=25)
    assert (await kept.job_store.get("a")).tasks[0].attempt == 1


async def test_time_without_the_store_does_not_count(kept, monkeypatch, clock):
    await claimed(kept)
    await kept.look(times=18)
    refresh = kept.job_store.refresh

    missed, offers = asyncio.Event(), kept.runner.offers

    async def gone():
        missed.set()
        raise StorageUnavailable("pulled out", heals=True)

    monkeypatch.setattr(kept.job_store, "refresh", gone)
    run = asyncio.create_task(kept.monitor.run())
    await missed.wait()
    clock.now += 1000
    monkeypatch.setattr(kept.job_store, "refresh", refresh)
    kept.monitor.wake()
    await eventually_async(lambda: kept.runner.offers > offers)  # the last step of a look
    run.cancel()
    assert kept.job_store.jobs["a"].state == "running"
    await kept.look(times=4)
    assert (await kept.job_store.get("a")).state == "queued", "what was counted before still counts"


async def test_a_lease_lasts_from_when_its_heartbeat_was_sent(monkeypatch):
    """The monitor may have seen the heartbeat as early as that."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(lease_module, "time", SimpleNamespace(monotonic=lambda: clock.now))

    async def slow(id, change):
        clock.now += 4.0

    lease = TaskLease(SimpleNamespace(job_store=SimpleNamespace(change=slow)), "a", 0, "t", 90.0)
    await lease.heartbeat()
    assert lease.valid_until == 100.0 + VALID_SECONDS


async def test_time_in_which_this_process_stood_still_does_not_count(kept):
    await claimed(kept)
    await kept.look(after=1000.0, times=4)
    assert kept.job_store.jobs["a"].state == "running"
    await kept.look(after=1000.0)
    assert (await kept.job_store.get("a")).state == "queued"


async def test_a_store_that_came_back_with_older_data_is_believed(kept, monkeypatch):
    await claimed(kept)
    older = await kept.job_store.get("a")
    older.tasks[0].state, older.tasks[0].lease, older.state = "queued", None, "queued"
    documents = [(await kept.context.store.documents.all(KIND))[0]._replace(revision=1, value=older.to_bytes())]
    is_away = False

    async def listed(kind, after=0):
        if is_away:
            raise StorageUnavailable("pulled out", heals=True)
        return [document for document in documents if document.revision > after]

    async def revisions(kind):
        return {document.name: document.revision for document in documents}

    monkeypatch.setattr(kept.context.store.documents, "all", listed)
    monkeypatch.setattr(kept.context.store.documents, "revisions", revisions)
    await kept.look()
    assert kept.runner.offered == []
    is_away = True
    with pytest.raises(StorageUnavailable):
        await kept.look()
    is_away = False
    await kept.look()
    assert kept.runner.offered == [("a", 0)]


async def test_old_jobs_are_forgotten_and_what_nobody_needs_is_removed(kept, monkeypatch):
    monkeypatch.setattr(monitor_module, "MAX_ENDED_JOBS", 1)
    store, job_store = kept.context.store, kept.job_store
    for id in "abcd":
        await job_store.add(job(id))
        await store.blobs.put(f"{blobs_of(id)}0/t/checkpoint", pieces_of(b"x"))
    await store.blobs.put(f"{blobs_of('nobody')}gathered", pieces_of(b"x"))
    for id, now in (("b", "1"), ("a", "2")):
        await job_store.change(id, lambda record, _, now=now: record.cancel(now))
    await kept.look(after=100.0)
    assert set(job_store.jobs) == {"a", "c", "d"}
    assert await store.blobs.keys("jobs/") == [f"{blobs_of(id)}0/t/checkpoint" for id in "acd"]


async def test_directories_that_dead_processes_left_are_swept_whatever_happens_to_them(tmp_path):
    left, held, gone = (tmp_path / f"task-{name}" for name in ("left", "held", "gone"))
    gone.symlink_to(tmp_path / "nowhere")  # as one that goes while it is looked at
    for place in (left, held):
        place.mkdir()
        (place / "lock").touch()
        os.utime(place, (0, 0))
    with (held / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(held, (0, 0))
        remove_stale(tmp_path)
    assert [place.name for place in (left, held) if place.exists()] == ["task-held"]
    new = tmp_path / "task-new"
    new.mkdir()
    remove_stale(tmp_path)
    assert new.exists(), "it may be about to be locked"
