"""The jobs of a store as several processes see them, and who is taken for dead."""

import asyncio
import fcntl
import os
from types import SimpleNamespace

import pytest
from tests.service.jobs.test_jobs_tasks import job

from manylabel_service.errors import DocumentChanged, JobNotFound, StorageGone
from manylabel_service.jobs import monitor as keeper_module
from manylabel_service.jobs.job_record import JobRecord, Unchanged
from manylabel_service.jobs.job_store import KIND, JobStore, blobs_of
from manylabel_service.jobs.monitor import JobMonitor
from manylabel_service.jobs.supervision.workdirs import sweep_places
from manylabel_service.storage import MAX_DOCUMENT_BYTES, pieces_of


class Idle:
    """A runner that does nothing and remembers what it was offered."""

    def __init__(self):
        self.offered = []

    async def offer(self, queued):
        self.offered = [(record.id, number) for record, number in queued]

    async def stop(self):
        pass


async def test_steps_at_the_same_time_are_all_made(store):
    ledger, other = JobStore(store), JobStore(store)
    await ledger.add(job())

    def beat(record, now):
        record.tasks[0].beat += 1

    await asyncio.gather(*(each.change("a", beat) for each in (ledger, other) * 10))
    assert (await ledger.get("a")).tasks[0].beat == 20
    with pytest.raises(DocumentChanged):
        await other.add(job())


async def test_a_step_that_changes_nothing_or_fails_writes_nothing(store):
    ledger = JobStore(store)
    before = await ledger.add(job())

    def nothing(record, now):
        record.tasks[0].beat += 1
        raise Unchanged

    await ledger.change("a", nothing)
    with pytest.raises(ZeroDivisionError):
        await ledger.change("a", lambda record, now: 1 / 0)
    assert (await ledger.get("a")).revision == before.revision
    for id in ("b", "", "x" * 300):
        with pytest.raises(JobNotFound):
            await ledger.get(id)


async def test_what_grows_too_large_fails_instead_of_being_stuck(store):
    ledger = JobStore(store)
    await ledger.add(job())

    def grow(record, now):
        record.tasks[0].outcome = {"much": "x" * MAX_DOCUMENT_BYTES}

    record = await ledger.change("a", grow)
    assert (record.state, record.error.code) == ("failed", "too_large")


async def test_a_look_tells_of_changes_by_others_and_a_whole_one_of_what_is_gone(store):
    ledger, other = JobStore(store), JobStore(store)
    for id in "abc":
        await other.add(job(id))
    await ledger.refresh()
    assert set(ledger.jobs) == {"a", "b", "c"}
    waiting = asyncio.create_task(ledger.wait(30))
    await other.change("b", lambda record, now: record.cancel(now))
    await other.refresh()
    await other.remove(other.jobs["c"])
    await ledger.refresh()
    await waiting
    assert {id: record.state for id, record in ledger.jobs.items()} == {"a": "queued", "b": "cancelled", "c": "queued"}
    await ledger.refresh(whole=True)
    assert set(ledger.jobs) == {"a", "b"}
    await store.documents.put(KIND, "future", b'{"id": "future"}', revision=None)
    await ledger.refresh()
    assert set(ledger.jobs) == {"a", "b"}, "what cannot be read is left alone"


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(keeper_module, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def kept(sqlite_store, office_of, clock):
    """A keeper, and ways to let it look."""
    office, runner = office_of(sqlite_store, job_attempts=2), Idle()
    keeper = JobMonitor(office, runner)

    async def look(after=0.5, times=1):
        for _ in range(times):
            clock.now += after
            await keeper._look()

    return SimpleNamespace(office=office, ledger=office.ledger, keeper=keeper, runner=runner, look=look)


async def claimed(kept):
    await kept.ledger.add(job())
    await kept.ledger.change("a", lambda record, now: record.claim(0, "t", now))
    await kept.look()


async def beat(kept):
    def step(record, now):
        record.held(0, "t").beat += 1

    await kept.ledger.change("a", step)


async def test_who_gives_no_sign_of_life_is_dead_after_the_lease(kept):
    await claimed(kept)
    await kept.look(times=19)
    assert kept.ledger.jobs["a"].state == "running"
    await kept.look(times=2)
    record = await kept.ledger.get("a")
    assert (record.state, record.tasks[0].attempt) == ("queued", 2)
    assert "gave no sign of life for 10 s" in record.log()[-1].text
    await kept.look()
    assert kept.runner.offered == [("a", 0)]
    await kept.ledger.change("a", lambda record, now: record.claim(0, "u", now))
    await kept.look(times=25)
    assert (await kept.ledger.get("a")).state == "failed", "job_attempts = 2"


async def test_who_gives_signs_of_life_is_not(kept):
    await claimed(kept)
    for _ in range(10):
        await kept.look(times=10)
        await beat(kept)
    await kept.look(times=19)
    assert (await kept.ledger.get("a")).state == "running"


async def test_a_sign_of_life_at_the_last_moment_counts(kept, monkeypatch):
    await claimed(kept)
    bury = kept.keeper._bury

    async def late(id, number):
        await beat(kept)
        await bury(id, number)

    monkeypatch.setattr(kept.keeper, "_bury", late)
    await kept.look(times=25)
    assert (await kept.ledger.get("a")).tasks[0].attempt == 1


async def test_time_without_the_store_does_not_count(kept, monkeypatch, clock):
    await claimed(kept)
    await kept.look(times=18)
    refresh = kept.ledger.refresh

    async def gone(whole=False):
        raise StorageGone("pulled out", heals=True)

    monkeypatch.setattr(kept.ledger, "refresh", gone)
    run = asyncio.create_task(kept.keeper.run())
    await asyncio.sleep(0.05)
    clock.now += 1000
    monkeypatch.setattr(kept.ledger, "refresh", refresh)
    kept.keeper.wake()
    await asyncio.sleep(0.05)
    run.cancel()
    assert kept.ledger.jobs["a"].state == "running"


async def test_time_in_which_this_process_stood_still_does_not_count(kept):
    await claimed(kept)
    await kept.look(after=1000.0, times=4)
    assert kept.ledger.jobs["a"].state == "running"
    await kept.look(after=1000.0)
    assert (await kept.ledger.get("a")).state == "queued"


async def test_a_store_that_came_back_with_older_data_is_believed(kept, monkeypatch):
    await claimed(kept)
    older = JobRecord.read((await kept.office.store.documents.all(KIND))[0])
    older.tasks[0].state, older.tasks[0].claim, older.state = "queued", None, "queued"
    documents = [(await kept.office.store.documents.all(KIND))[0]._replace(revision=1, value=older.written())]

    async def listed(kind, after=0):
        return [document for document in documents if document.revision > after]

    monkeypatch.setattr(kept.office.store.documents, "all", listed)
    await kept.look()
    assert kept.runner.offered == []
    kept.keeper._lost_sight = True  # as after any error of the store
    await kept.look()
    assert kept.runner.offered == [("a", 0)]


async def test_old_jobs_are_forgotten_and_what_nobody_needs_is_removed(kept):
    kept.office.settings.__dict__["max_jobs"] = 1
    store, ledger = kept.office.store, kept.ledger
    for id in "abcd":
        await ledger.add(job(id))
        await store.blobs.put(f"{blobs_of(id)}0/t/checkpoint", pieces_of(b"x"))
    await store.blobs.put(f"{blobs_of('nobody')}gathered", pieces_of(b"x"))
    for id, now in (("b", "1"), ("a", "2")):
        await ledger.change(id, lambda record, _, now=now: record.cancel(now))
    await kept.look(after=100.0)
    assert set(ledger.jobs) == {"a", "c", "d"}
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
        sweep_places(tmp_path)
    assert [place.name for place in (left, held) if place.exists()] == ["task-held"]
    new = tmp_path / "task-new"
    new.mkdir()
    sweep_places(tmp_path)
    assert new.exists(), "it may be about to be locked"
