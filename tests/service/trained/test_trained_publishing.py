"""A job's result becomes one version, wherever publishing breaks off; nothing is listed that cannot be loaded."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.service.trained.test_trained_serving import dense
from tests.support.crashes import crash_at_every_step
from tests.support.limits import settings_of

from manylabel_core.batch import M3L
from manylabel_core.state import DamagedState
from manylabel_service.errors import (
    DocumentDamaged,
    LimitExceeded,
    ModelIsOnline,
    StorageUnavailable,
    VersionDamaged,
    VersionDiffers,
    VersionNotFound,
    VersionServed,
)
from manylabel_service.models.garbage import collect_garbage
from manylabel_service.settings import Settings
from manylabel_service.storage import MAX_DOCUMENT_BYTES, pieces_of
from manylabel_service.trained import version_store
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.publishing import check_publishable, publish
from manylabel_service.trained.version_store import (
    BLOBS,
    KIND,
    MAX_CHANGES,
    META_SUFFIX,
    VersionCatalogue,
    VersionStore,
)

SETTINGS = Settings()


async def listed(fleet: Any, registry: Any) -> list[tuple[int, str]]:
    """Return the versions that any server lists, after each was loaded."""
    model = await registry.get("m")
    versions, *_ = await model.versions()
    for version in versions:
        await model._active.load(version)
    return [(version.number, version.meta.job) for version in versions]


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
async def test_publishing_that_fails_at_any_call_makes_at_most_one_version(
    any_fleet: Any, one: Any, two: Any, meta_of: Any, done: bool
) -> None:
    registry = await any_fleet.start()
    store = any_fleet.store(registry)
    await publish(store, SETTINGS, "m", one.contents, meta_of("before"), promote="always")

    async def published(store: Any, step: int, version: Any = two) -> int:
        about = meta_of(f"job-{step}")
        number, _ = await publish(store, SETTINGS, "m", version.contents, about, promote="always")
        return number

    async def check(step: int) -> None:
        assert len(await listed(any_fleet, registry)) in (step + 1, step + 2)
        assert await published(store, step) == step + 2
        before = await listed(any_fleet, registry)
        assert before[0] == (step + 2, f"job-{step}")
        assert await published(store, step, one) == step + 2
        assert await listed(any_fleet, registry) == before

    cuts = await crash_at_every_step(store, published, check, done=done)
    assert cuts >= 6
    numbers = await listed(any_fleet, registry)
    assert numbers == [(n + 2, f"job-{n}") for n in reversed(range(cuts + 1))] + [(1, "before")]
    assert len(await store.blobs.keys(BLOBS)) == 2 * (cuts + 2), "an artifact and its metadata each"


@pytest.mark.parametrize("n_jobs", [1, 6])
async def test_each_job_publishes_one_version_under_concurrency(
    fleet: Any, one: Any, meta_of: Any, n_jobs: int
) -> None:
    registry = await fleet.start()
    store = fleet.store(registry)
    jobs = [f"job-{i % n_jobs}" for i in range(6)]
    made = await asyncio.gather(
        *(publish(store, SETTINGS, "m", one.contents, meta_of(job), promote="always") for job in jobs)
    )
    assert {number for number, _ in made} == set(range(1, n_jobs + 1))
    assert {job for _, job in await listed(fleet, registry)} == set(jobs)
    assert len(await store.blobs.keys(BLOBS)) == 2 * n_jobs


async def test_blobs_of_a_dead_publisher_are_deleted_with_the_next_version(
    lone_fleet: Any, one: Any, meta_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died between the blobs and the document; until it is known to be dead, it may still make a version."""
    registry = await lone_fleet.start()
    store = lone_fleet.store(registry)
    await lone_fleet.publish(registry, one)

    async def cut(*args: Any, **kwargs: Any) -> int:
        raise StorageUnavailable("cut", heals=True)

    with monkeypatch.context() as patch:
        patch.setattr(store.documents, "put", cut)
        with pytest.raises(StorageUnavailable):
            await publish(store, SETTINGS, "m", one.contents, meta_of("slow"), promote="always")
    await lone_fleet.publish(registry, one)
    assert [job for _, job in await listed(lone_fleet, registry)] == ["job-2", "job-1"]
    assert len([key for key in await store.blobs.keys(BLOBS) if "slow" in key]) == 2
    monkeypatch.setattr("manylabel_service.storage.blob_collection.ORPHANED_SECONDS", -1.0)
    await lone_fleet.publish(registry, one)
    assert len(await store.blobs.keys(BLOBS)) == 6
    assert not any("slow" in key for key in await store.blobs.keys(BLOBS))


async def test_many_versions_with_large_parameters_are_stored(lone_fleet: Any, one: Any, meta_of: Any) -> None:
    """Parameters such as those of a trainer with a large matrix, which do not fit one document."""
    registry = await lone_fleet.start()
    store = lone_fleet.store(registry)
    due = {}
    for n in range(1, 9):
        due[n] = replace(meta_of(f"job-{n}"), params={"R": [[n / 7] * 100] * 100})
        await publish(store, SETTINGS, "m", one.contents, due[n], promote="always")
    assert sum(len(json.dumps(about.params)) for about in due.values()) > 1.2 * MAX_DOCUMENT_BYTES
    for _ in range(2):
        model = await registry.get("m")
        versions, served, _ = await model.versions()
        found = {version.number: replace(version.meta, features="") for version in versions}
        assert (found, served) == (due, 8)
        await model.promote(1)
        assert model.status()["params"] == due[1].params
        await model.promote(8)
        await lone_fleet.stop(registry)
        registry = await lone_fleet.start()


async def test_metadata_of_a_version_are_read_once(
    lone_fleet: Any, one: Any, meta_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await lone_fleet.start()
    blobs = lone_fleet.store(registry).blobs
    await lone_fleet.publish(registry, one)
    reads, read = [], blobs.read

    def counted(key: str) -> Any:
        reads.append(key)
        return read(key)

    monkeypatch.setattr(blobs, "read", counted)
    versions = await lone_fleet.versions(registry)
    for _ in range(3):
        assert [version.meta.job for version in (await versions.all())[0]] == ["job-1"]
    await lone_fleet.publish(registry, one)
    reads.clear()
    for _ in range(3):
        assert [version.meta.job for version in (await versions.all())[0]] == ["job-1", "job-2"]
    assert len(reads) == 1


@pytest.mark.parametrize("value", [None, b"", b"[]", b'{"job":"job-1"}'])
async def test_missing_or_damaged_metadata_are_reported(lone_fleet: Any, one: Any, value: bytes | None) -> None:
    registry = await lone_fleet.start()
    blobs = lone_fleet.store(registry).blobs
    damaged = await lone_fleet.publish(registry, one)
    await lone_fleet.publish(registry, one)
    versions = await lone_fleet.versions(registry)
    key = versions.key(damaged.meta.job, damaged.id) + META_SUFFIX
    await (blobs.delete(key) if value is None else blobs.put(key, pieces_of(value)))
    await lone_fleet.stop(registry)
    model = await (await lone_fleet.start()).get("m")
    with pytest.raises(VersionDamaged, match="metadata"):
        await model.promote(1)
    await model.retire(1)
    assert [version.number for version in (await model.versions())[0]] == [2]


async def test_a_version_that_is_deleted_while_all_are_read(
    lone_fleet: Any, one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await lone_fleet.start()
    blobs = lone_fleet.store(registry).blobs
    await lone_fleet.publish(registry, one, promote="never")
    await lone_fleet.publish(registry, one)
    model, versions, read = await registry.get("m"), await lone_fleet.versions(registry), blobs.read

    async def deleting(key: str) -> Any:
        monkeypatch.setattr(blobs, "read", read)
        await model.retire(1)
        async for piece in read(key):
            yield piece

    monkeypatch.setattr(blobs, "read", deleting)
    assert [version.number for version in (await versions.all())[0]] == [2]


async def test_garbage_collection_with_an_old_catalogue_keeps_newer_versions(lone_fleet: Any, one: Any) -> None:
    registry = await lone_fleet.start()
    store = lone_fleet.store(registry)
    await lone_fleet.publish(registry, one)
    behind = await lone_fleet.versions(registry)
    await behind.read()
    await lone_fleet.publish(registry, one)
    await behind.collect_garbage()
    assert len(await store.blobs.keys(BLOBS)) == 4


async def test_garbage_collection_keeps_blobs_with_names_of_a_later_release(lone_fleet: Any, one: Any) -> None:
    registry = await lone_fleet.start()
    store = lone_fleet.store(registry)
    await lone_fleet.publish(registry, one)
    versions = await lone_fleet.versions(registry)
    await versions.read()
    (artifact, _) = await store.blobs.keys(BLOBS)
    for key in (f"{artifact}.later", f"{artifact.rpartition('/')[0]}/later"):
        await store.blobs.put(key, pieces_of(b"some bytes"))
    await versions.collect_garbage()
    assert len(await store.blobs.keys(BLOBS)) == 4


@pytest.mark.parametrize("has_versions", [True, False])
async def test_a_model_deleted_during_publishing_is_created_again(
    lone_fleet: Any, one: Any, meta_of: Any, has_versions: bool
) -> None:
    """Between the artifact and the document, which neither brings the old model back nor is written after its end."""
    registry = await lone_fleet.start()
    store = lone_fleet.store(registry)
    if has_versions:
        await lone_fleet.publish(registry, one, job="before")
    put, deleted = store.documents.put, []

    async def deleting(*args: Any, **kwargs: Any) -> int:
        if not deleted and (found := await store.models.find("m")):
            deleted.append(found)
            await (registry.delete("m") if has_versions else store.models.delete(found))
        return await put(*args, **kwargs)

    store.documents.put = deleting
    number, _ = await publish(store, SETTINGS, "m", one.contents, meta_of("job"), promote="always")
    assert number == 1
    assert await listed(lone_fleet, registry) == [(1, "job")]
    record = await store.models.find("m")
    assert record.incarnation > deleted[0].incarnation
    assert [document.name for document in await store.documents.all(KIND)] == [str(record.incarnation)]
    assert len(await store.blobs.keys(BLOBS)) == 2


async def test_a_deleted_model_leaves_nothing(lone_fleet: Any, one: Any) -> None:
    registry = await lone_fleet.start()
    store = lone_fleet.store(registry)
    for name in ("m", "other", "left"):
        await lone_fleet.publish(registry, one, name=name)
    await registry.delete("m")
    await store.models.delete(await store.models.find("left"))  # and then the server died
    assert len(await store.blobs.keys(BLOBS)) == 2 * len(await store.documents.all(KIND)) == 4
    await collect_garbage(store)
    assert len(await store.blobs.keys(BLOBS)) == 2 * len(await store.documents.all(KIND)) == 2
    versions, served, _ = await (await registry.get("other")).versions()
    assert ([version.number for version in versions], served) == ([1], 1)


async def test_a_name_that_an_online_model_has_is_refused(lone_fleet: Any, one: Any, meta_of: Any) -> None:
    from manylabel_service.online.spec.spec import ModelSpec

    registry = await lone_fleet.start()
    store = lone_fleet.store(registry)
    await registry.create(ModelSpec.model_validate({"name": "m", "algorithm": "falt"}))
    with pytest.raises(ModelIsOnline):
        await check_publishable(store, SETTINGS, "m")
    with pytest.raises(ModelIsOnline):
        await lone_fleet.publish(registry, one)


async def test_limits_of_publishing(lone_fleet: Any, one: Any, meta_of: Any) -> None:
    registry = await lone_fleet.start()
    store = lone_fleet.store(registry)

    async def attempt(job: str, name: str = "m", **settings: Any) -> int:
        about = meta_of(job)
        number, _ = await publish(store, settings_of(**settings), name, one.contents, about, promote="always")
        return number

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
        await check_publishable(store, settings_of(max_versions=2), "m")
    assert await attempt("2", max_versions=2) == 2, "a retry is no other version"
    await (await registry.get("m")).retire(1)
    assert await attempt("3", max_versions=2) == 3


async def test_an_artifact_that_cannot_predict_is_not_published(lone_fleet: Any, one: Any, meta_of: Any) -> None:
    store = lone_fleet.store(await lone_fleet.start())
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
            await publish(store, SETTINGS, "m", contents, meta_of(), promote="always")
    assert await store.models.all() == []


class TestVersions:
    async def test_deleted_versions_keep_their_numbers(self, lone_fleet: Any, one: Any, two: Any) -> None:
        registry = await lone_fleet.start()
        for _ in range(3):
            await lone_fleet.publish(registry, one)
        model = await registry.get("m")
        await model.retire(1)
        with pytest.raises(VersionNotFound):
            await model.retire(1)
        with pytest.raises(VersionNotFound):
            await model.promote(1)
        with pytest.raises(VersionServed):
            await model.retire(3)
        for turn in range(5):
            await model.promote(2 + turn % 2)
        await model.retire(3)
        versions, served, _ = await model.versions()
        assert ([version.number for version in versions], served) == ([2], 2)
        key, meta_key = await lone_fleet.store(registry).blobs.keys(BLOBS)
        assert key.endswith(versions[0].id)
        assert meta_key == key + META_SUFFIX
        due = await model.versions()
        again = await lone_fleet.publish(registry, two, job="job-1")
        assert again.number == 1, "of a job that has published once, though its version is deleted"
        assert (await lone_fleet.publish(registry, two)).number == 4, "a number is never given twice"
        await lone_fleet.stop(registry)
        registry = await lone_fleet.start()
        versions, served, _ = await (await registry.get("m")).versions()
        assert (versions[1:], served) == (due[0], 4)

    async def test_a_damaged_version_is_not_promoted(self, lone_fleet: Any, one: Any, two: Any) -> None:
        registry = await lone_fleet.start()
        await lone_fleet.publish(registry, one)
        damaged = await lone_fleet.publish(registry, two, promote="never")
        model = await registry.get("m")
        store = lone_fleet.store(registry)
        key = (await lone_fleet.versions(registry)).key(damaged.meta.job, damaged.id)
        await store.blobs.put(key, pieces_of(two.contents[:-9]))
        with pytest.raises(VersionDamaged):
            await model.promote(2)
        await store.blobs.delete(key)
        with pytest.raises(VersionDamaged, match="missing"):
            await model.promote(2)
        assert (await model.versions())[1] == 1


class TestDocument:
    def test_positions_are_those_of_the_revisions(self) -> None:
        catalogue = VersionCatalogue()
        for revision, job in ((3, "a"), (8, "b")):
            catalogue.promote(catalogue.add(job, f"id-{job}", 7))
            catalogue = VersionCatalogue.model_validate_json(catalogue.to_bytes()).at(revision)
        assert [version.position for version in catalogue.versions.values()] == ["3", "8"]
        assert catalogue.changes == [("3", 1, None), ("8", 2, 1)]
        assert catalogue.changes_after("3") == [("8", 2, 1)]
        assert (catalogue.position, catalogue.served, catalogue.jobs) == ("8", 2, {"a": 1, "b": 2})

    def test_its_jobs_and_changes_are_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(version_store, "MAX_JOBS", 5)
        catalogue = VersionCatalogue()
        for n in range(20):
            catalogue.promote(catalogue.add(f"job-{n}", "id", 7))
        assert list(catalogue.jobs.values()) == [16, 17, 18, 19, 20]
        for turn in range(2 * MAX_CHANGES):
            catalogue.promote(19 + turn % 2)
        assert len(catalogue.changes) == MAX_CHANGES
        assert VersionCatalogue.model_validate_json(catalogue.to_bytes()).at(5).changes_after("0") is None

    @pytest.mark.parametrize("value", [b"", b"[]", b'{"last":1,"more":2}', b'{"last":"x"}', b"\x80"])
    async def test_a_damaged_document_is_refused(self, lone_fleet: Any, one: Any, value: bytes) -> None:
        registry = await lone_fleet.start()
        versions = await lone_fleet.publish(registry, one) and await lone_fleet.versions(registry)
        [document] = await lone_fleet.store(registry).documents.all(KIND)
        await lone_fleet.store(registry).documents.put(KIND, document.name, value, revision=document.revision)
        with pytest.raises(DocumentDamaged):
            await versions.read()

    async def test_a_document_beyond_the_limit_is_not_written(
        self, lone_fleet: Any, one: Any, meta_of: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registry = await lone_fleet.start()
        await lone_fleet.publish(registry, one)
        [document] = await lone_fleet.store(registry).documents.all(KIND)
        monkeypatch.setattr(version_store, "MAX_DOCUMENT_BYTES", len(document.value))
        with pytest.raises(LimitExceeded, match="what is known of the versions"):
            await publish(lone_fleet.store(registry), SETTINGS, "m", one.contents, meta_of("more"), promote="always")
        assert await listed(lone_fleet, registry) == [(1, "job-1")]


def test_an_artifact_round_trips(one: Any, make: Callable[..., Any]) -> None:
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


async def test_a_server_that_is_behind_reads_the_versions_for_at_least(fleet: Any, one: Any, two: Any) -> None:
    here, there = [await fleet.start() for _ in range(2)]
    await fleet.publish(here, one)
    await fleet.publish(here, two)
    near, far = await here.get("m"), await there.get("m")
    for task in there._tasks:
        task.cancel()  # it does not poll
    for turn in range(31):
        position = (await near.promote(1 + turn % 2)).position
    predicted = await far.predict([dense(one.X[0])], at_least=position)
    assert list(predicted.predictions[0].scores.values()) == one.scores(one.X[:1])[0]


class TestAutomaticPromotion:
    """A version is served by itself if it has converged, was measured, and takes the examples of the one before."""

    async def publish(self, fleet: Any, registry: Any, version: Any, about: Any, promote: Any = "if_better") -> Any:
        number, written = await publish(fleet.store(registry), SETTINGS, "m", version.contents, about, promote=promote)
        versions = await fleet.versions(registry)
        assert (await versions.find(number)).meta == written
        return written.not_promoted_because, versions.catalogue.served

    async def test_a_converged_and_measured_version_is_promoted(
        self, lone_fleet: Any, one: Any, two: Any, meta_of: Any
    ) -> None:
        registry = await lone_fleet.start()
        assert await self.publish(lone_fleet, registry, one, meta_of("a")) == (None, 1)
        assert await self.publish(lone_fleet, registry, two, meta_of("b")) == (None, 2)
        assert await self.publish(lone_fleet, registry, one, meta_of("c"), promote="never") == (None, 2)

    async def test_a_version_not_converged_or_not_measured_is_held_back(
        self, lone_fleet: Any, one: Any, meta_of: Any
    ) -> None:
        registry = await lone_fleet.start()
        loose = replace(meta_of("a"), converged=False, gap=0.66)
        assert await self.publish(lone_fleet, registry, one, loose) == ("its fit did not converge (gap 0.66)", None)
        blind = replace(meta_of("b"), measures=None)
        assert await self.publish(lone_fleet, registry, one, blind) == ("it was not evaluated", None)
        both = replace(loose, job="c", measures=None)
        reasons = "its fit did not converge (gap 0.66); it was not evaluated"
        assert await self.publish(lone_fleet, registry, one, both) == (reasons, None)
        assert await self.publish(lone_fleet, registry, one, both) == (reasons, None), "the same job again"
        assert await self.publish(lone_fleet, registry, one, replace(both, job="d"), promote="always") == (None, 4)

    async def test_a_version_with_other_features_or_scaling_is_held_back(
        self, lone_fleet: Any, one: Any, make: Any, meta_of: Any
    ) -> None:
        registry = await lone_fleet.start()
        await self.publish(lone_fleet, registry, one, meta_of("a"))
        turned, wider, scaled = (
            make(M3L(scaling="none"), ("d", "c", "b", "a")),
            make(M3L(scaling="none"), ("a", "b", "c", "e")),
            make(M3L(scaling="auto")),
        )
        assert await self.publish(lone_fleet, registry, turned, meta_of("b")) == (None, 2), "names in another order"
        assert await self.publish(lone_fleet, registry, wider, meta_of("c")) == (
            "it differs from version 2: its features differ",
            2,
        )
        assert await self.publish(lone_fleet, registry, scaled, meta_of("d")) == (
            "it differs from version 2: its scaling is auto, not none",
            2,
        )
        model = await registry.get("m")
        await model.sync()
        with pytest.raises(
            VersionDiffers, match=r"version 3 of model 'm' differs .* its features differ; send \"force\": true"
        ):
            await model.promote(3)
        with pytest.raises(VersionDiffers, match="its scaling is auto, not none"):
            await model.promote(4)
        assert (await model.promote(4, force=True)).previous == 2
        with pytest.raises(VersionDiffers, match="its scaling is none, not auto"):
            await model.promote(1)
        assert (await model.promote(4)).version == 4, "the one that is served"

    async def test_a_version_is_compared_with_one_promoted_during_publishing(
        self, lone_fleet: Any, one: Any, make: Any, meta_of: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registry = await lone_fleet.start()
        await self.publish(lone_fleet, registry, one, meta_of("a"))
        put = VersionStore.put_blobs

        async def overtaken(self: Any, meta: Any, artifact: bytes) -> str:
            monkeypatch.setattr(VersionStore, "put_blobs", put)
            scaled = make(M3L(scaling="auto"))
            await publish(self._store, SETTINGS, "m", scaled.contents, meta_of("b"), promote="always")
            return await put(self, meta, artifact)

        monkeypatch.setattr(VersionStore, "put_blobs", overtaken)
        assert await self.publish(lone_fleet, registry, one, meta_of("c")) == (
            "it differs from version 2: its scaling is none, not auto",
            2,
        )
