"""A job's result becomes one version, wherever publishing breaks off; nothing is listed that cannot be loaded."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from manylabel_core.state import DamagedState
from manylabel_service.errors import (
    LimitExceeded,
    LogTrimmed,
    ModelIsOnline,
    StorageGone,
    VersionDamaged,
    VersionNotFound,
    VersionServed,
)
from manylabel_service.hosting.examples import Features
from manylabel_service.settings import Settings
from manylabel_service.storage import START
from manylabel_service.trained import ledger as ledger_module
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.entries import Commit, Delete, Promote, Reserve, decode, encode
from manylabel_service.trained.ledger import VersionLog
from manylabel_service.trained.publishing import check_publishable, publish, sweep
from manylabel_service.trained.version_store import VersionCatalogue

SETTINGS = Settings()


class Failing:
    """A store that does the first so many calls, and then is gone: before the next one, or after it was done."""

    def __init__(self, store: Any, calls: int, done: bool) -> None:
        self._store = store
        self._left = calls
        self._done = done

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        async def counted(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left >= 0:
                return await call(*args, **kwargs)
            if self._left == -1 and self._done:
                await call(*args, **kwargs)
            raise StorageGone("cut", heals=True)

        return counted


async def listed(servers: Any, registry: Any) -> list[tuple[int, str]]:
    """What any server says there is, each of which was loaded."""
    model = await registry.get("m")
    versions, _ = await model.versions()
    for version in versions:
        await model._stage.load(version)
    return [(version.number, version.meta.job) for version in versions]


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
async def test_it_may_break_off_anywhere(servers: Any, one: Any, two: Any, meta_of: Any, done: bool) -> None:
    registry = await servers.start()
    store = servers.store(registry)
    first = await publish(store, SETTINGS, "m", one.contents, meta_of("before"), promote=True)
    cuts = 0
    while True:
        job = f"job-{cuts}"
        try:
            await publish(Failing(store, cuts, done), SETTINGS, "m", two.contents, meta_of(job), promote=True)
        except StorageGone:
            cuts += 1
        else:
            break
        assert len(await listed(servers, registry)) in (cuts, cuts + 1)
        version = await publish(store, SETTINGS, "m", two.contents, meta_of(job), promote=True)
        assert (version.number, version.meta.job) == (cuts + 1, job)
        assert await publish(store, SETTINGS, "m", one.contents, meta_of(job), promote=True) == version
    assert cuts >= 5
    numbers = await listed(servers, registry)
    assert numbers == [(n + 2, f"job-{n}") for n in reversed(range(cuts + 1))] + [(1, first.meta.job)]
    snapshots = await store.snapshots.all((await registry.get("m")).record)
    assert len(snapshots) == cuts + 2
    assert all(snapshot.pinned for snapshot in snapshots)


async def test_two_that_publish_for_one_job_make_one_version(servers: Any, one: Any, meta_of: Any) -> None:
    registry = await servers.start()
    store = servers.store(registry)
    made = await asyncio.gather(
        *(publish(store, SETTINGS, "m", one.contents, meta_of("job"), promote=True) for _ in range(6))
    )
    assert {version.number for version in made} == {1}
    assert await listed(servers, registry) == [(1, "job")]
    assert len(await store.snapshots.all((await registry.get("m")).record)) == 1


async def test_jobs_that_publish_at_once_get_a_version_each(servers: Any, one: Any, meta_of: Any) -> None:
    registry = await servers.start()
    store = servers.store(registry)
    jobs = [f"job-{i}" for i in range(6)]
    made = await asyncio.gather(
        *(publish(store, SETTINGS, "m", one.contents, meta_of(job), promote=True) for job in jobs)
    )
    assert sorted(version.number for version in made) == [1, 2, 3, 4, 5, 6]
    assert {job for _, job in await listed(servers, registry)} == set(jobs)


async def test_what_a_dead_publisher_left_goes_with_the_next_version(lone_server: Any, one: Any, meta_of: Any) -> None:
    registry = await lone_server.start()
    store = lone_server.store(registry)
    await lone_server.publish(registry, one)
    model = await registry.get("m")
    await model.promote(1)
    record = model.record
    position = (await store.logs.append(record, [encode(Promote(version=1))], model.position, "log"))[-1].position
    await store.snapshots.put(record, position, b"of nobody")
    await lone_server.publish(registry, one)
    assert position not in {snapshot.position for snapshot in await store.snapshots.all(record)}
    assert len(await store.snapshots.all(record)) == 2


async def test_who_knows_less_removes_nothing_newer(lone_server: Any, one: Any) -> None:
    registry = await lone_server.start()
    store = lone_server.store(registry)
    await lone_server.publish(registry, one)
    record = (await registry.get("m")).record
    behind, ahead = VersionLog(record, store, SETTINGS), VersionLog(record, store, SETTINGS)
    await behind.read()
    await ahead.append(Reserve(job="other"))
    await store.snapshots.put(record, ahead.catalogue.drafts["other"], one.contents)
    await sweep(store, record, behind.catalogue)
    assert len(await store.snapshots.all(record)) == 2


async def test_a_name_that_an_online_model_has_is_refused(lone_server: Any, one: Any, meta_of: Any) -> None:
    from manylabel_service.online.spec.spec import ModelSpec

    registry = await lone_server.start()
    store = lone_server.store(registry)
    await registry.create(ModelSpec.model_validate({"name": "m", "algorithm": "falt"}))
    with pytest.raises(ModelIsOnline):
        await check_publishable(store, SETTINGS, "m")
    with pytest.raises(ModelIsOnline):
        await lone_server.publish(registry, one)


async def test_limits_hold(lone_server: Any, one: Any, meta_of: Any) -> None:
    registry = await lone_server.start()
    store = lone_server.store(registry)

    async def attempt(job: str, name: str = "m", **settings: Any) -> Any:
        return await publish(store, Settings(**settings), name, one.contents, meta_of(job), promote=True)

    with pytest.raises(LimitExceeded, match="bytes"):
        await attempt("j", max_model_bytes=100)
    assert await store.models.all() == []
    await attempt("1", max_models=1, max_versions=2)
    with pytest.raises(LimitExceeded, match="number of models"):
        await attempt("1", name="other", max_models=1)
    with pytest.raises(LimitExceeded, match="number of models"):
        await check_publishable(store, Settings(max_models=1), "other")
    await attempt("2", max_versions=2)
    with pytest.raises(LimitExceeded, match="number of versions"):
        await attempt("3", max_versions=2)
    with pytest.raises(LimitExceeded, match="number of versions"):
        await check_publishable(store, Settings(max_versions=2), "m")
    assert (await attempt("2", max_versions=2)).number == 2, "a retry is no other version"
    await (await registry.get("m")).retire(1)
    assert (await attempt("3", max_versions=2)).number == 3


async def test_what_cannot_predict_is_not_published(lone_server: Any, one: Any, meta_of: Any) -> None:
    store = lone_server.store(await lone_server.start())
    whole = ModelArtifact.from_bytes(one.contents)
    wrong = [
        one.contents[:-1] + bytes([one.contents[-1] ^ 1]),
        b"",
        ModelArtifact(whole.estimator, whole.labels[:2], whole.features).to_bytes(),
        ModelArtifact(whole.estimator, whole.labels, {"x": 5}).to_bytes(),
        ModelArtifact(whole.estimator, whole.labels, {}).to_bytes(),
        ModelArtifact(b"no estimator", whole.labels, whole.features).to_bytes(),
    ]
    for contents in wrong:
        with pytest.raises(DamagedState):
            await publish(store, SETTINGS, "m", contents, meta_of(), promote=True)
    assert await store.models.all() == []


class TestVersions:
    async def test_deleting(self, servers: Any, one: Any) -> None:
        registry = await servers.start()
        for _ in range(3):
            await servers.publish(registry, one)
        model = await registry.get("m")
        await model.retire(1)
        with pytest.raises(VersionNotFound):
            await model.retire(1)
        with pytest.raises(VersionNotFound):
            await model.promote(1)
        with pytest.raises(VersionServed):
            await model.retire(3)
        await model.promote(2)
        await model.retire(3)
        versions, served = await model.versions()
        assert ([version.number for version in versions], served) == ([2], 2)
        kept = await servers.store(registry).snapshots.all(model.record)
        assert [snapshot.position for snapshot in kept] == [versions[0].position]
        assert (await servers.publish(registry, one)).number == 4, "a number is never given twice"

    async def test_a_damaged_one_is_never_promoted(self, servers: Any, one: Any, two: Any) -> None:
        registry = await servers.start()
        await servers.publish(registry, one)
        damaged = await servers.publish(registry, two, promote=False)
        model = await registry.get("m")
        store = servers.store(registry)
        await store.snapshots.put(model.record, damaged.position, two.contents[:-9])
        with pytest.raises(VersionDamaged):
            await model.promote(2)
        await store.snapshots.pin(model.record, damaged.position, False)
        await store.snapshots.delete(model.record, damaged.position)
        with pytest.raises(VersionDamaged, match="gone"):
            await model.promote(2)
        assert (await model.versions())[1] == 1


@pytest.mark.parametrize(
    "entry",
    [
        Reserve(job="j"),
        Commit(
            job="j",
            at="1-2",
            promote=True,
            trainer="m3l",
            params={"C": 0.1, "kernel": None},
            rows=3,
            measures=None,
            created_unix_ms=1,
            size_bytes=7,
        ),
        Promote(version=3),
        Delete(version=4),
    ],
    ids=lambda entry: entry.kind,
)
def test_entries_come_back(entry: Any) -> None:
    assert decode(encode(entry)) == entry


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b'{"kind":"promote","version":1,"more":2}', b'{"kind":"new"}', b"\x80"]
)
def test_what_is_no_entry_is_refused(payload: bytes) -> None:
    from manylabel_service.errors import UnreadableEntry

    with pytest.raises(UnreadableEntry):
        decode(payload)


def test_contents_come_back(one: Any, make: Callable[..., Any]) -> None:
    contents = ModelArtifact.from_bytes(one.contents)
    assert contents.to_bytes() == one.contents
    assert contents.features == {"x": ("a", "b", "c", "d")}
    assert contents.label_scores is not None
    assert list(contents.label_scores) == ["rock", "jazz", "pop"]
    assert contents.label_scores["jazz"]["support"] == 10.0
    assert contents.convergence.iteration == [1, 2]
    assert contents.convergence.gap == [float("inf"), 0.01]


@pytest.mark.parametrize("field", ["labels", "features"])
def test_repeated_names_are_refused(field: str) -> None:
    fields: dict[str, Any] = {"labels": ("a", "b"), "features": {"x": 2}}
    fields[field] = ("a", "a") if field == "labels" else {"x": ("a", "a")}
    with pytest.raises(ValueError, match=field):
        ModelArtifact(b"", **fields).to_bytes()


class TestSummaries:
    async def test_promoting_to_and_fro_does_not_fill_the_log(
        self, servers: Any, one: Any, two: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger_module, "SUMMARY_ENTRIES", 10)
        registry = await servers.start()
        store = servers.store(registry)
        for version in (one, two, one):
            await servers.publish(registry, version)
        model = await registry.get("m")
        await model.retire(2)
        for turn in range(60):
            await model.promote(3 - 2 * (turn % 2))
            await model.promote(1 + 2 * (turn % 2))
        due = await model.versions()
        record = model.record
        with pytest.raises(LogTrimmed):
            await store.logs.read(record, START, 1)
        late = VersionLog(record, store, SETTINGS)
        await late.read()
        assert late.catalogue.summary() == model._ledger.catalogue.summary()
        assert late.catalogue.entries < 20
        again = await servers.publish(registry, two, job="job-2")
        assert again.number == 2, "of a job that has published once, though its version is deleted"
        assert (await servers.publish(registry, two)).number == 4
        await servers.stop(registry)
        registry = await servers.start()
        versions, served = await (await registry.get("m")).versions()
        assert (versions[1:], served) == (due[0], 4)

    async def test_another_server_that_is_behind_reads_the_summary(
        self, redis_servers: Any, one: Any, two: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger_module, "SUMMARY_ENTRIES", 10)
        here, there = [await redis_servers.start() for _ in range(2)]
        await redis_servers.publish(here, one)
        await redis_servers.publish(here, two)
        near, far = await here.get("m"), await there.get("m")
        there._tasks[0].cancel()  # without a follower
        for turn in range(31):
            position = (await near.promote(1 + turn % 2)).position
        predicted = await far.predict([dense_row(one.X[0])], at_least=position)
        assert list(predicted.predictions[0].scores.values()) == one.scores(one.X[:1])[0]

    async def test_of_two_summaries_at_once_the_one_that_fits_is_read(self, servers: Any, one: Any, two: Any) -> None:
        registry = await servers.start()
        store = servers.store(registry)
        for version in (one, two):
            await servers.publish(registry, version, promote=False)
        model = await registry.get("m")
        summaries = []
        for number in (1, 2):
            await model.promote(number)
            summaries.append(model._ledger.catalogue.summary())
        await store.logs.append(model.record, list(map(encode, summaries)), model.position, "log")
        await store.logs.trim(model.record, summaries[1].as_of)
        late = VersionLog(model.record, store, SETTINGS)
        await asyncio.wait_for(late.read(), 20)
        assert late.catalogue.served == 2
        assert set(late.catalogue.versions) == {1, 2}

    async def test_a_draft_from_before_a_summary_is_made_anew(
        self, servers: Any, one: Any, meta_of: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger_module, "SUMMARY_ENTRIES", 10)
        registry = await servers.start()
        store = servers.store(registry)
        await servers.publish(registry, one)
        await servers.publish(registry, one)
        model = await registry.get("m")
        await model._ledger.append(Reserve(job="slow"))
        for turn in range(31):
            await model.promote(1 + turn % 2)
        version = await publish(store, SETTINGS, "m", one.contents, meta_of("slow"), promote=True)
        assert version.number == 3
        assert len(await listed(servers, registry)) == 3
        assert len(await store.snapshots.all(model.record)) == 3

    def test_all_that_is_known_comes_back(self) -> None:
        catalogue = VersionCatalogue("m")
        for number in range(1, 8):
            job = f"job-{number}"
            catalogue.fold(str(2 * number), Reserve(job=job))
            if number < 6:
                whole = Commit(
                    job=job,
                    at=str(2 * number),
                    promote=number == 2,
                    trainer="mlrl",
                    params={"lam": 0.1},
                    rows=number,
                    measures=None,
                    created_unix_ms=number,
                    size_bytes=number,
                )
                catalogue.fold(str(2 * number + 1), whole)
        catalogue.fold("20", Delete(version=3))
        restored = VersionCatalogue.from_summary("m", catalogue.summary())
        for one in (catalogue, restored):
            assert one.of_job("job-3") is not None
            assert (set(one.versions), one.served, one.position) == ({1, 2, 4, 5}, 2, "20")
            assert list(one.drafts) == ["job-6", "job-7"]
        assert restored.summary() == catalogue.summary()
        assert restored.versions == catalogue.versions


def dense_row(row: Any) -> Any:
    return Features(None, None, row)
