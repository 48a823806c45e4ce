"""The jobs of a store as several processes see them, and the detection of dead processes."""

import asyncio
import fcntl
import os
from types import SimpleNamespace

import pytest
from tests.service.jobs.test_jobs_tasks import job
from tests.support.waiting import eventually_async

from manylabel_service import ulid
from manylabel_service.errors import JobNotFound, StorageUnavailable
from manylabel_service.jobs import monitor as monitor_module
from manylabel_service.jobs.context import VALID_SECONDS
from manylabel_service.jobs.job_record import Unchanged
from manylabel_service.jobs.job_store import KIND, JobStore, blobs_of
from manylabel_service.jobs.monitor import JobMonitor
from manylabel_service.jobs.supervision import lease as lease_module
from manylabel_service.jobs.supervision.child_process import remove_stale
from manylabel_service.jobs.supervision.lease import TaskLease
from manylabel_service.storage import MAX_DOCUMENT_BYTES, collection, pieces_of

OF_A_DELETED_MODEL = "history/999/01890000000000000000000000"
DELETED_JOB = "01890000000000000000000000"
"""Key of an old blob."""


class IdleRunner:
    """A runner that does nothing and remembers what it was offered."""

    def __init__(self):
        self.offered = []
        self.offers = 0

    async def offer(self, queued):
        self.offers += 1
        self.offered = [(record.id, number) for record, number in queued]

    async def stop(self):
        pass


async def test_an_unchanged_job_is_not_stored_again(store):
    job_store = JobStore(store)
    before = await job_store.add(job())

    def nothing(record, now):
        record.tasks[0].heartbeats += 1
        raise Unchanged

    await job_store.change("a", nothing)
    assert (await job_store.get("a")).revision == before.revision
    for id in ("b", "", "x" * 300):
        with pytest.raises(JobNotFound):
            await job_store.get(id)


async def test_a_job_that_grows_too_large_fails(store):
    job_store = JobStore(store)
    await job_store.add(job())

    def grow(record, now):
        record.tasks[0].outcome = {"much": "x" * MAX_DOCUMENT_BYTES}

    record = await job_store.change("a", grow)
    assert (record.state, record.error.code) == ("failed", "too_large")


async def test_a_refresh_finds_changes_of_others_and_a_complete_one_deletions(store, monkeypatch):
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
    monkeypatch.setattr(collection, "WHOLE_SECONDS", 0.0)
    await job_store.refresh()
    assert set(job_store.jobs) == {"a", "b"}
    await store.documents.put(KIND, "future", b'{"id": "future"}', revision=None)
    await job_store.refresh()
    assert set(job_store.jobs) == {"a", "b"}, "what cannot be read is left alone"


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(monitor_module, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def monitored(sqlite_store, context_of, clock):
    """A monitor, and ways to let it look."""
    context, runner = context_of(sqlite_store, job_max_attempts=2), IdleRunner()
    monitor = JobMonitor(context, runner)

    async def poll(after=0.5, times=1):
        for _ in range(times):
            clock.now += after
            await monitor._poll()

    return SimpleNamespace(context=context, job_store=context.job_store, monitor=monitor, runner=runner, poll=poll)


async def claimed(monitored):
    await monitored.job_store.add(job())
    await monitored.job_store.change("a", lambda record, now: record.claim(0, "t", now))
    await monitored.poll()


async def send_heartbeat(monitored):
    def change(record, now):
        record.leased(0, "t").heartbeats += 1

    await monitored.job_store.change("a", change)


async def test_a_task_without_heartbeats_is_lost_after_the_lease(monitored):
    await claimed(monitored)
    await monitored.poll(times=19)
    assert monitored.job_store.jobs["a"].state == "running"
    await monitored.poll(times=2)
    record = await monitored.job_store.get("a")
    assert (record.state, record.tasks[0].attempt) == ("queued", 2)
    assert "sent no heartbeat for 10 s" in record.log()[-1].text
    await monitored.poll()
    assert monitored.runner.offered == [("a", 0)]
    await monitored.job_store.change("a", lambda record, now: record.claim(0, "u", now))
    await monitored.poll(times=25)
    assert (await monitored.job_store.get("a")).state == "failed", "job_max_attempts = 2"


async def test_a_task_with_heartbeats_is_not_lost(monitored):
    await claimed(monitored)
    for _ in range(10):
        await monitored.poll(times=10)
        await send_heartbeat(monitored)
    await monitored.poll(times=19)
    assert (await monitored.job_store.get("a")).state == "running"


async def test_a_heartbeat_at_the_last_moment_counts(monitored, monkeypatch):
    await claimed(monitored)
    expire = monitored.monitor._expire

    async def late(id, number):
        await send_heartbeat(monitored)
        await expire(id, number)

    monkeypatch.setattr(monitored.monitor, "_expire", late)
    await monitored.poll(times=25)
    assert (await monitored.job_store.get("a")).tasks[0].attempt == 1


async def test_time_without_the_store_does_not_count(monitored, monkeypatch, clock):
    await claimed(monitored)
    await monitored.poll(times=18)
    refresh = monitored.job_store.refresh

    missed, offers = asyncio.Event(), monitored.runner.offers

    async def gone():
        missed.set()
        raise StorageUnavailable("pulled out", heals=True)

    monkeypatch.setattr(monitored.job_store, "refresh", gone)
    run = asyncio.create_task(monitored.monitor.run())
    await missed.wait()
    clock.now += 1000
    monkeypatch.setattr(monitored.job_store, "refresh", refresh)
    monitored.monitor.wake()
    await eventually_async(lambda: monitored.runner.offers > offers)  # the last step of a look
    run.cancel()
    assert monitored.job_store.jobs["a"].state == "running"
    await monitored.poll(times=4)
    assert (await monitored.job_store.get("a")).state == "queued", "what was counted before still counts"


async def test_a_lease_lasts_from_when_its_heartbeat_was_sent(monkeypatch):
    """The monitor may have seen the heartbeat as early as that."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(lease_module, "time", SimpleNamespace(monotonic=lambda: clock.now))

    async def slow(id, change):
        clock.now += 4.0

    lease = TaskLease(SimpleNamespace(job_store=SimpleNamespace(change=slow)), "a", 0, "t", 90.0)
    await lease.heartbeat()
    assert lease.valid_until == 100.0 + VALID_SECONDS


async def test_time_while_this_process_is_stopped_does_not_count(monitored):
    await claimed(monitored)
    await monitored.poll(after=1000.0, times=4)
    assert monitored.job_store.jobs["a"].state == "running"
    await monitored.poll(after=1000.0)
    assert (await monitored.job_store.get("a")).state == "queued"


async def test_older_data_of_a_restored_store_are_used(monitored, monkeypatch):
    await claimed(monitored)
    older = await monitored.job_store.get("a")
    older.tasks[0].state, older.tasks[0].lease, older.state = "queued", None, "queued"
    documents = [(await monitored.context.store.documents.all(KIND))[0]._replace(revision=1, value=older.to_bytes())]
    is_away = False

    async def listed(kind, after=0):
        if is_away:
            raise StorageUnavailable("pulled out", heals=True)
        return [document for document in documents if document.revision > after]

    async def revisions(kind):
        return {document.name: document.revision for document in documents}

    monkeypatch.setattr(monitored.context.store.documents, "all", listed)
    monkeypatch.setattr(monitored.context.store.documents, "changes", lambda kind: None)
    monkeypatch.setattr(monitored.context.store.documents, "revisions", revisions)
    await monitored.poll()
    assert monitored.runner.offered == []
    is_away = True
    with pytest.raises(StorageUnavailable):
        await monitored.poll()
    is_away = False
    await monitored.poll()
    assert monitored.runner.offered == [("a", 0)]


async def test_old_jobs_and_unneeded_blobs_are_removed(monitored, monkeypatch):
    monkeypatch.setattr(monitor_module, "MAX_ENDED_JOBS", 1)
    store, job_store = monitored.context.store, monitored.job_store
    for id in "abcd":
        await job_store.add(job(id))
        await store.blobs.put(f"{blobs_of(id)}0/t/checkpoint", pieces_of(b"x"))
    await store.blobs.put(f"{blobs_of(DELETED_JOB)}gathered", pieces_of(b"x"))
    for id, now in (("b", "1"), ("a", "2")):
        await job_store.change(id, lambda record, _, now=now: record.cancel(now))
    await monitored.poll(after=100.0)
    assert set(job_store.jobs) == {"a", "c", "d"}
    assert await store.blobs.keys("jobs/") == [f"{blobs_of(id)}0/t/checkpoint" for id in "acd"]


async def test_directories_of_dead_processes_are_removed(tmp_path):
    left, held, gone = (tmp_path / f"task-{name}" for name in ("left", "held", "gone"))
    gone.symlink_to(tmp_path / "nowhere")  # like a directory that disappears during the check
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


@pytest.mark.parametrize("value", [b"???", b'{"format": 2, "release": "9.9"}'], ids=["damaged", "newer"])
async def test_an_unreadable_job_stays_with_its_blobs_and_other_remains_are_removed(monitored, value):
    store = monitored.context.store
    await store.documents.put(KIND, "unreadable", value, revision=None)
    for key in (f"{blobs_of('unreadable')}gathered", f"{blobs_of(DELETED_JOB)}gathered", OF_A_DELETED_MODEL):
        await store.blobs.put(key, pieces_of(b"some bytes"))
    await monitored.poll(after=100.0)
    assert await store.blobs.keys() == [f"{blobs_of('unreadable')}gathered"]
    assert [each.value for each in await store.documents.all(KIND)] == [value]


async def test_blobs_and_documents_with_names_of_a_later_release_stay(monitored):
    store = monitored.context.store
    keys = ["history/1.later/x", "history/7/later", "snapshots/7/later", "snapshots/7/1/2/later", "versions/later/x"]
    keys += ["jobs/later/x", f"snapshots/later/1/{ulid.make(1, bytes(10))}"]
    for key in (*keys, OF_A_DELETED_MODEL):
        await store.blobs.put(key, pieces_of(b"some bytes"))
    record = await store.models.create("m", b"{}")
    own = f"history/{record.incarnation}/later"
    await store.blobs.put(own, pieces_of(b"some bytes"))
    for kind in ("history", "snapshots", "versions"):
        await store.documents.put(kind, "later", b"{}", revision=None)
    await monitored.poll(after=100.0)
    deleted = {"history/7/later", OF_A_DELETED_MODEL}  # of deleted models
    assert set(await store.blobs.keys()) == {*keys, own} - deleted
