"""A trained model predicts as its estimator does, bit by bit, and is promoted without a pause."""

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.stores import wait_until_available
from tests.support.waiting import eventually_async

from manylabel_core.batch import LSAMML, M3L
from manylabel_core.records import RecordEncoder, TextSettings
from manylabel_core.rows import as_rows
from manylabel_core.state import DamagedState
from manylabel_service.errors import (
    InvalidExample,
    ModelNotFound,
    NotReady,
    StorageUnavailable,
    VersionDamaged,
)
from manylabel_service.hosting.examples import Features
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.settings import Settings
from manylabel_service.storage import collection, pieces_of, position_key
from manylabel_service.trained import model as model_module
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.inputs import Record, Views, as_features
from manylabel_service.trained.predictor import Predictor
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version import Version, VersionMeta
from manylabel_service.trained.version_store import MAX_CHANGES, META_SUFFIX, VersionStore

NAMES = ("a", "b", "c", "d")


def dense(row: Any) -> Features:
    return Features(None, None, np.asarray(row, dtype=np.float32))


def sparse(row: Any) -> Features:
    indices = np.flatnonzero(row).astype(np.int32)
    return Features(None, indices, np.asarray(row, dtype=np.float32)[indices])


def named(row: Any, names: tuple[str, ...] = NAMES) -> Features:
    """In another order than the columns, with a name that no column has."""
    pairs = [(name, value) for name, value in zip(names, row, strict=True) if value][::-1]
    return Features(
        ("unheard of", *(name for name, _ in pairs)), None, np.array([9, *(v for _, v in pairs)], dtype=np.float32)
    )


def scores(predictions: Any) -> list[list[float]]:
    return [list(prediction.scores.values()) for prediction in predictions]


def artifact_of(trained: Any) -> bytes:
    """The estimator as it is now, in an artifact with the same names."""
    before = ModelArtifact.from_bytes(trained.contents)
    return ModelArtifact(trained.estimator.to_bytes(), before.labels, before.features).to_bytes()


@pytest.fixture
def serving(meta_of: Any) -> Any:
    return lambda trained: Predictor(Version(1, "1", 0, meta_of()), trained.contents)


class TestMissingValues:
    def test_a_quantity_is_at_the_mean_with_automatic_scaling(self, serving: Any, make: Any) -> None:
        trained = make(M3L(scaling="auto"))
        predictor, lacking = serving(trained), [np.nan, 0.0, -1.5, 0.0]
        alone = scores(predictor.predict([dense(lacking)]))
        assert alone == trained.scores(np.float32([lacking]))
        assert alone != scores(predictor.predict([dense(np.nan_to_num(lacking))]))
        listed = Features(("c", "d", "b"), None, np.float32([-1.5, 0.0, 0.0]))
        by_index = Features(None, np.array([1, 2, 3], dtype=np.int32), np.float32([0.0, -1.5, 0.0]))
        for group in ([listed], [by_index], [listed, dense(lacking), by_index]):
            np.testing.assert_allclose(scores(predictor.predict(group)), alone * len(group), rtol=1e-12)
        scaling = trained.estimator.scaling_.scaling
        assert scaling.score(as_rows([lacking], "float64")[0]).indices.tolist() == [1, 2, 3]

    @pytest.mark.parametrize("scaling", ["none", "standard", "max_abs"])
    def test_a_quantity_is_0_with_other_scaling(self, serving: Any, make: Any, scaling: str) -> None:
        predictor = serving(make(M3L(scaling=scaling)))
        zeros = scores(predictor.predict([dense([0.0, 0.0, -1.5, 0.0])]))
        assert scores(predictor.predict([dense([np.nan, 0.0, -1.5, np.nan])])) == zeros
        np.testing.assert_allclose(scores(predictor.predict([named([0, 0, -1.5, 0])])), zeros, rtol=1e-12)


class TestScores:
    @pytest.mark.parametrize("n", [1, 2, 60])
    def test_dense(self, one: Any, curved: Any, serving: Any, n: int) -> None:
        for trained in (one, curved):
            predictions = serving(trained).predict([dense(row) for row in trained.X[:n]])
            assert scores(predictions) == trained.scores(trained.X[:n])
            shared = np.ptp(trained.estimator.threshold_) == 0
            assert predictions[0].threshold == (trained.estimator.threshold_[0] if shared else 0)

    @pytest.mark.parametrize("n", [1, 2, 60])
    def test_sparse_and_named(self, one: Any, curved: Any, make: Any, serving: Any, n: int) -> None:
        fitted_sparse = make(M3L(kernel="rbf", scaling="none"), sparse=True)
        for trained in (one, curved, fitted_sparse):
            rows = trained.X[:n]
            due = trained.scores(sp.csr_array(rows))
            assert scores(serving(trained).predict([sparse(row) for row in rows])) == due
            if trained is not curved:
                assert scores(serving(trained).predict([named(row) for row in rows])) == due

    def test_forms_of_features_may_mix(self, one: Any, serving: Any) -> None:
        forms = [form(row) for form, row in zip(itertools.cycle([dense, sparse, named]), one.X, strict=False)]
        assert scores(serving(one).predict(forms)) == one.scores(sp.csr_array(one.X))

    @pytest.mark.parametrize("own", [False, True])
    def test_labels_and_probabilities_are_those_of_the_estimator(self, make: Any, serving: Any, own: bool) -> None:
        trained = make(M3L(C=0.01, scaling="none"))
        if own:
            trained.estimator.threshold_[:] = [-0.3, 0.0, 0.2]
            trained = trained._replace(contents=artifact_of(trained))
        predictor = serving(trained)
        X = trained.X
        found = predictor.predict([dense(row) for row in X], probabilities=True)
        assert scores(found) == trained.scores(X)
        assert [each.threshold for each in found] == len(X) * [0.0 if own else trained.estimator.threshold_[0]]
        labels = [[name in each.labels for name in ("rock", "jazz", "pop")] for each in found]
        np.testing.assert_array_equal(labels, trained.estimator.predict(X))
        likely = [list(each.probabilities.values()) for each in found]
        np.testing.assert_array_equal(likely, trained.estimator.predict_proba(X))
        assert predictor.predict([dense(X[0])])[0].probabilities is None

    def test_thresholds_that_do_not_fit_the_labels_are_damage(self, make: Any, serving: Any) -> None:
        for attribute, value in (("threshold_", np.zeros(2)), ("curves_", np.zeros((2, 4))), ("threshold_", None)):
            trained = make(M3L(scaling="none"))
            setattr(trained.estimator, attribute, value)
            with pytest.raises(DamagedState, match="thresholds or probabilities"):
                serving(trained._replace(contents=artifact_of(trained)))

    def test_missing_views(self, views: Any, serving: Any) -> None:
        text, image = views.X["text"].toarray(), views.X["image"]
        items: list[dict[str, Features]] = [{"text": sparse(text[i]), "image": dense(image[i])} for i in range(9)]
        missing = {"text": np.zeros(9, dtype=bool), "image": np.zeros(9, dtype=bool)}
        for i, view in ((0, "text"), (3, "image"), (4, "text")):
            del items[i][view]
            missing[view][i] = True
        due = views.estimator.decision_function({"text": views.X["text"][:9], "image": image[:9]}, missing=missing)
        assert scores(serving(views).predict(list(map(Views, items)))) == due.tolist()
        alone = [Views({"image": dense(image[i])}) for i in range(9)]
        assert scores(serving(views).predict(alone)) == views.scores({"image": image[:9]})

    def test_named_features_are_refused_by_numbered_columns(self, curved: Any, serving: Any) -> None:
        with pytest.raises(InvalidExample, match="numbered"):
            serving(curved).predict([named(curved.X[0])])


class Gate:
    """Holds up a version on its way out of the store."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self._reached = asyncio.Event()

    async def passed(self) -> None:
        self._reached.set()
        await self.open.wait()

    async def reached(self) -> None:
        await asyncio.wait_for(self._reached.wait(), 120)


async def on_two_servers(fleet: Any, *versions: Any) -> tuple[Any, Any, Any, Any]:
    """Publish versions, of which the first is served; return two registries, and the model in each."""
    here, there = await fleet.start_several(2)
    for n, version in enumerate(versions):
        await fleet.publish(here, version, promote="never" if n else "always")
    return here, there, await here.get("m"), await there.get("m")


async def gated(fleet: Any, registry: Any, monkeypatch: pytest.MonkeyPatch) -> dict[int, Gate]:
    """A gate for each version, by its number; all are shut."""
    store = fleet.store(registry)
    versions, *_ = await (await fleet.versions(registry)).all()
    read = store.blobs.read
    gates = {version.number: Gate() for version in versions}
    by_id = {version.id: gates[version.number] for version in versions}

    async def slow(key: str) -> Any:
        if not key.endswith(META_SUFFIX):
            await by_id[key.rpartition("/")[2]].passed()
        async for piece in read(key):
            yield piece

    monkeypatch.setattr(store.blobs, "read", slow)
    return gates


async def test_promoting_back_and_forth_under_predictions(fleet: Any, one: Any, two: Any) -> None:
    """Each answer is from one version, and its position never decreases."""
    registries = await fleet.start_several(2)
    await fleet.publish(registries[0], one)
    await fleet.publish(registries[1], two, promote="never")
    xs = [dense(row) for row in one.X[:4]]
    due = {1: one.scores(one.X[:4]), 2: two.scores(one.X[:4])}
    done = False
    seen: set[int] = set()

    async def predict(registry: Any) -> dict[str, int]:
        versions: dict[str, int] = {}
        last: tuple[int, ...] = (0,)
        while not done:
            predicted = await (await registry.get("m")).predict(xs)
            found = scores(predicted.predictions)
            number = next(number for number, expected in due.items() if expected == found)
            assert position_key(predicted.position) >= last
            assert versions.setdefault(predicted.position, number) == number
            last = position_key(predicted.position)
            seen.add(number)
            await asyncio.sleep(0)
        return versions

    async def promote() -> dict[str, int]:
        nonlocal done
        promoted: dict[str, int] = {}
        try:
            for turn in range(12):
                number = 2 - turn % 2
                model = await registries[turn % 2].get("m")
                change = await model.promote(number)
                assert (change.version, change.previous) == (number, 3 - number)
                promoted[change.position] = number
                assert scores((await model.predict(xs)).predictions) == due[number], "here it is served at once"
                other = await registries[1 - turn % 2].get("m")
                elsewhere = await other.predict(xs, at_least=change.position)
                assert scores(elsewhere.predictions) == due[number], "and there, for who asks for it"
                assert position_key(elsewhere.position) >= position_key(change.position)
        finally:
            done = True
        return promoted

    promoted, *answered = await asyncio.gather(promote(), *map(predict, registries))
    assert seen == {1, 2}
    for versions in answered:
        assert len(versions) > 10
        assert all(promoted.get(position, number) == number for position, number in versions.items())


class TestPromotion:
    async def test_the_old_version_answers_until_the_new_one_is_loaded(
        self, fleet: Any, one: Any, two: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, there, model, far = await on_two_servers(fleet, one, two)
        before = (await far.predict([dense(one.X[0])])).position
        loading, go_on = asyncio.Event(), asyncio.Event()
        blobs = fleet.store(there).blobs
        read = blobs.read

        async def slow(key: str) -> Any:
            loading.set()
            await go_on.wait()
            async for piece in read(key):
                yield piece

        monkeypatch.setattr(blobs, "read", slow)
        promoted = await model.promote(2)
        await asyncio.wait_for(loading.wait(), 120)
        waiting = asyncio.create_task(far.predict([dense(one.X[0])], at_least=promoted.position))
        events = far.events.subscribe()
        for _ in range(3):
            predicted = await far.predict([dense(one.X[0])])
            assert scores(predicted.predictions) == one.scores(one.X[:1])
            assert position_key(before) <= position_key(predicted.position) < position_key(promoted.position)
        assert not waiting.done()
        assert far.status()["version"] == 1
        go_on.set()
        assert scores((await waiting).predictions) == two.scores(one.X[:1])
        await events.aclose()

    async def test_a_version_overtaken_while_loading_is_not_served(
        self, fleet: Any, one: Any, two: Any, curved: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, there, near, far = await on_two_servers(fleet, one, two, curved)
        gates = await gated(fleet, there, monkeypatch)
        own = asyncio.create_task(far.promote(3, force=True))
        await gates[3].reached()
        await near.promote(2)
        await eventually_async(lambda: far._versions.catalogue.served == 2)
        gates[3].open.set()
        change = await asyncio.wait_for(own, 120)
        await gates[2].reached()
        gates[3].open.clear()
        gates[2].open.set()
        await eventually_async(lambda: far.evictable)  # it has nothing more to load
        predicted = await far.predict([dense(one.X[0])])
        assert (predicted.position, far.status()["version"]) == (change.position, 3)

    async def test_a_position_never_runs_ahead_of_the_version(
        self, fleet: Any, one: Any, two: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, there, near, far = await on_two_servers(fleet, one, two)
        gates = await gated(fleet, there, monkeypatch)
        to_two = await near.promote(2)
        await gates[2].reached()
        back = await near.promote(1)
        await eventually_async(lambda: far._versions.catalogue.served == 1)
        gates[2].open.set()
        await gates[1].reached()
        assert (far.status()["version"], far.status()["position"]) == (2, to_two.position)
        gates[1].open.set()
        predicted = await far.predict([dense(one.X[0])], at_least=back.position)
        assert (predicted.position, scores(predicted.predictions)) == (back.position, one.scores(one.X[:1]))

    async def test_long_work_is_done_in_a_thread(
        self, lone_fleet: Any, curved: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registry = await lone_fleet.start()
        await lone_fleet.publish(registry, curved)
        model = await registry.get("m")
        xs = [dense(row) for row in curved.X]
        due = curved.scores(curved.X)
        assert scores((await model.predict(xs)).predictions) == due
        used: list[Any] = []
        to_thread = asyncio.to_thread
        monkeypatch.setattr(model_module, "INLINE_WORK", 10)

        def watched(*args: Any, **more: Any) -> Any:
            used.append(args[0])
            return to_thread(*args, **more)

        monkeypatch.setattr(asyncio, "to_thread", watched)
        assert scores((await model.predict(xs)).predictions) == due
        assert len(used) == 1


class TestHosted:
    async def test_it_comes_back_after_a_restart(self, lone_fleet: Any, one: Any, two: Any) -> None:
        registry = await lone_fleet.start()
        await lone_fleet.publish(registry, one)
        await lone_fleet.publish(registry, two)
        await (await registry.get("m")).promote(1)
        predicted = await (await registry.get("m")).predict([dense(one.X[0])])
        await lone_fleet.stop(registry)
        again = await lone_fleet.start()
        assert [hosted.record.name for hosted in again.resident()] == ["m"]
        after = await (await again.get("m")).predict([dense(one.X[0])])
        assert (scores(after.predictions), after.position) == (one.scores(one.X[:1]), predicted.position)

    async def test_an_evicted_model_is_loaded_again(self, lone_fleet: Any, one: Any) -> None:
        registry = await lone_fleet.start(evict_idle_seconds=1e-6)
        await lone_fleet.publish(registry, one)
        await registry._eviction.sweep()
        assert registry.resident() == []
        assert (await registry.list())[0] == [{"name": "m", "algorithm": "trained", "loaded": False}]
        async with registry.use("m") as model:
            assert scores((await model.predict([dense(one.X[0])])).predictions) == one.scores(one.X[:1])
            await registry._eviction.sweep()
            assert (await model.versions())[1] == 1
            assert (await model.promote(1)).version == 1
            assert registry.resident() == [model]
        await registry._eviction.sweep()
        assert registry.resident() == []

    async def test_its_size_counts_as_resident_memory(self, lone_fleet: Any, one: Any, make: Any) -> None:
        registry = await lone_fleet.start()
        await lone_fleet.publish(registry, one)
        model = await registry.get("m")
        assert await registry._eviction.resident_bytes() == model.nbytes > 0
        await lone_fleet.publish(registry, make(M3L(kernel="rbf", scaling="none")))
        labels = model.answers.nbytes
        small = model.nbytes - labels
        await eventually_async(lambda: model.status()["version"] == 2)
        assert await registry._eviction.resident_bytes() == model.nbytes > labels + 2 * small

    async def test_deleted_elsewhere(self, fleet: Any, one: Any, two: Any) -> None:
        here, there = await fleet.start_several(2)
        await fleet.publish(here, one)
        model = await there.get("m")
        await here.delete("m")
        await eventually_async(lambda: not there.resident())
        with pytest.raises(ModelNotFound):
            await model.predict([dense(one.X[0])])
        with pytest.raises(ModelNotFound):
            await there.get("m")
        await fleet.publish(here, two)
        predicted = await (await there.get("m")).predict([dense(one.X[0])])
        assert scores(predicted.predictions) == two.scores(one.X[:1])

    async def test_it_predicts_while_the_store_is_away(self, fleet: Any, one: Any, two: Any) -> None:
        registry = await fleet.start()
        await fleet.publish(registry, one)
        await fleet.publish(registry, two, promote="never")
        model = await registry.get("m")
        fleet.server.stop()
        with pytest.raises(StorageUnavailable):
            await model.promote(2)
        predicted = await model.predict([dense(one.X[0])])
        assert predicted.stale_seconds is not None
        assert scores(predicted.predictions) == one.scores(one.X[:1])
        fleet.server.start()
        await wait_until_available(fleet.store(registry))
        await model.promote(2)
        assert scores((await model.predict([dense(one.X[0])])).predictions) == two.scores(one.X[:1])

    @pytest.mark.parametrize("with_error", [True, False], ids=["with an error", "between two calls"])
    async def test_a_version_lost_by_the_store_is_no_longer_served(
        self, fleet: Any, one: Any, two: Any, monkeypatch: pytest.MonkeyPatch, with_error: bool
    ) -> None:
        """Redis returns with its data from before the second version, and a call may fail meanwhile or not."""
        monkeypatch.setattr(collection, "WHOLE_SECONDS", 0.5)
        here, there = await fleet.start_several(2)
        await fleet.publish(here, one)
        model = await there.get("m")
        fleet.server.stop()
        saved = {path: path.read_bytes() for path in fleet.server.directory.rglob("*.aof")}
        manifest = {path: path.read_bytes() for path in fleet.server.directory.rglob("*.manifest")}
        fleet.server.start()
        await wait_until_available(fleet.store(here))
        await wait_until_available(fleet.store(there))
        await fleet.publish(here, two)
        await eventually_async(lambda: model.status()["version"] == 2)
        events = model.events.subscribe()
        if not with_error:
            there._tasks[0].cancel()  # this task would call the store
        fleet.server.stop()
        for path, content in {**saved, **manifest}.items():
            path.write_bytes(content)
        fleet.server.start()
        await eventually_async(lambda: model.status()["version"] == 1)
        assert scores((await model.predict([dense(one.X[0])])).predictions) == one.scores(one.X[:1])
        assert (await asyncio.wait_for(anext(events), 120)).kind == "dropped"
        await wait_until_available(fleet.store(here))
        await fleet.publish(here, two)
        await eventually_async(lambda: model.status()["version"] == 2)
        assert scores((await model.predict([dense(one.X[0])])).predictions) == two.scores(one.X[:1])

    async def test_a_damaged_served_version_can_be_replaced_by_promotion(
        self, lone_fleet: Any, one: Any, two: Any
    ) -> None:
        registry = await lone_fleet.start()
        await lone_fleet.publish(registry, one)
        version = await lone_fleet.publish(registry, two)
        record = (await registry.get("m")).record
        store = lone_fleet.store(registry)
        key = VersionStore(record, store).key(version.meta.job, version.id)
        await store.blobs.put(key, pieces_of(b"damaged"))
        await lone_fleet.stop(registry)
        again = await lone_fleet.start()
        assert again.failed == ["m"]
        model = await again.get("m")
        with pytest.raises(VersionDamaged, match="promote another"):
            await model.predict([dense(one.X[0])])
        await model.promote(1)
        assert again.failed == []
        assert scores((await model.predict([dense(one.X[0])])).predictions) == one.scores(one.X[:1])
        for number, failed in ((2, ["m"]), (1, [])):  # by another server, while version 1 predicts
            await (await lone_fleet.versions(again)).promote(number)
            model.poll()
            await eventually_async(lambda failed=failed: again.failed == failed)
            assert scores((await model.predict([dense(one.X[0])])).predictions) == one.scores(one.X[:1])

    async def test_events_tell_every_change_once_it_is_made(self, fleet: Any, one: Any, two: Any) -> None:
        _, _, near, far = await on_two_servers(fleet, one, two)
        watching = [model.events.subscribe() for model in (near, far)]
        changes = [await near.promote(number) for number in (2, 1, 2)]
        for events in watching:
            told = [await asyncio.wait_for(anext(events), 120) for _ in changes]
            assert [event.kind for event in told] == ["promoted"] * 3
            assert [event.data for event in told] == [change._asdict() for change in changes]
        resumed = far.events.subscribe(after=changes[0].position)
        assert (await anext(resumed)).data["position"] == changes[1].position

    async def test_events_report_a_version_that_is_held_back(self, fleet: Any, one: Any, two: Any) -> None:
        here, _, near, far = await on_two_servers(fleet, one)
        watching = [model.events.subscribe() for model in (near, far)]
        store = fleet.store(here)
        unmeasured = VersionMeta("unmeasured", "m3l", {}, 60, None, 1_700_000_000_000)
        await publish(store, Settings(), "m", two.contents, unmeasured, promote="if_better")
        listed = (await (await fleet.versions(here)).find(2)).position
        promoted = await near.promote(2)
        for events in watching:
            not_promoted_because, then = [await asyncio.wait_for(anext(events), 120) for _ in range(2)]
            assert (not_promoted_because.kind, not_promoted_because.position) == ("not_promoted", listed)
            assert not_promoted_because.data == {"position": listed, "version": 2, "reason": "it was not evaluated"}
            assert (then.kind, then.data) == ("promoted", promoted._asdict())

    async def test_a_subscriber_that_missed_too_many_changes_is_told(self, fleet: Any, one: Any, two: Any) -> None:
        here, there, _, far = await on_two_servers(fleet, one, two)
        events = far.events.subscribe()
        for task in there._tasks:
            task.cancel()  # it does not poll
        versions = await fleet.versions(here)
        for turn in range(MAX_CHANGES + 1):
            change = await versions.promote(2 - turn % 2)
        far.poll()
        assert (await asyncio.wait_for(anext(events), 120)).kind == "dropped"
        assert far.status()["position"] == change.position

    async def test_waiting_for_an_unknown_position_times_out(self, lone_fleet: Any, one: Any) -> None:
        registry = await lone_fleet.start(position_wait_seconds=0.1)
        await lone_fleet.publish(registry, one)
        with pytest.raises(NotReady, match=str(10**17)):
            await (await registry.get("m")).predict([dense(one.X[0])], at_least=str(10**17))


TITLE, PAIRS = TextSettings(fields=("title",)), TextSettings(fields=("title",), ngrams=(1, 2))


def read_as(trained: Any, names: tuple[str, ...], text: TextSettings | None) -> Any:
    """The same estimator, whose features have these names and whose texts were read so."""
    estimator, labels = trained.estimator.to_bytes(), ModelArtifact.from_bytes(trained.contents).labels
    return trained._replace(contents=ModelArtifact(estimator, labels, {"x": names}, text=text).to_bytes())


def test_the_features_digest_ignores_words_but_not_how_texts_are_read(one: Any, serving: Any) -> None:
    def digest(names: tuple[str, ...], text: TextSettings | None) -> str:
        return str(serving(read_as(one, names, text)).features_digest)

    before = digest(("n", "title=cat", "title=dog", "c=FR"), TITLE)
    assert digest(("c=JP", "title=owl", "title=emu", "n"), TITLE) == before
    assert digest(("m", "title=cat", "title=dog", "c=FR"), TITLE) != before, "a number has gone"
    assert digest(("n", "title=cat", "title=dog", "c=FR"), PAIRS) != before
    assert digest(("n", "title=cat", "title=dog", "c=FR"), None) != digest(
        ("n", "title=cat", "title=dog", "c=JP"), None
    )


def test_a_record_is_read_again_by_a_version_with_other_text_settings(one: Any, serving: Any) -> None:
    """Another version may be served between the reading of a request and its prediction."""
    served = serving(read_as(one, ("n", "title=cat", "title=owl", "title=cat owl"), PAIRS))
    x, earlier = {"title": "cat owl", "n": 2.0}, RecordEncoder(TITLE)
    stale = Record(x, as_features(earlier.read(x)), earlier)
    fresh = Record(x, as_features(served.records.read(x)), served.records)
    assert scores(served.predict([stale])) == scores(served.predict([fresh]))
    assert scores(served.predict([fresh])) != scores(served.predict([stale.features]))
    with pytest.raises(InvalidExample, match="must be a string"):
        served.predict([Record({"title": ["cat", 1]}, stale.features, earlier)])


def test_an_example_says_which_optional_numbers_of_the_training_records_it_has(one: Any, serving: Any) -> None:
    served = serving(read_as(one, ("price", "c=x", "size", "price=given"), TITLE))

    def record(x: Any) -> Record:
        return Record(x, as_features(served.records.read(x)), served.records)

    def features(x: dict[str, float]) -> Features:
        return Features(tuple(x), None, np.array(list(x.values()), dtype=np.float32))

    whole = scores(served.predict([features({"size": 2, "price": 3, "price=given": 1})]))
    assert scores(served.predict([record({"size": 2, "price": 3})])) == whole
    assert scores(served.predict([features({"size": 2, "price": 3})])) == whole
    assert scores(served.predict([record({"price": "given", "size": 2, "c": "x"})])) == scores(
        served.predict([features({"c=x": 1, "size": 2, "price=given": 1})])
    )
    assert scores(served.predict([record({"size": 2})])) != whole
    x = record({"size": -2, "price": 3})
    (found,) = served.predict([x], explainer=Explainer(9, 100))
    parts = {part.feature: part.value for each in found.explanations.values() for part in each.parts}
    assert found.labels
    assert parts == {"size": -2.0, "price": 3.0, "price=given": 1.0}


def test_a_record_with_vectors_suits_views_and_numbers(meta_of: Any) -> None:
    rng = np.random.default_rng(0)
    Y = (rng.random((40, 2)) < 0.5).astype(np.int8)
    words, vectors = Y.astype(np.float32), (Y + 0.3 * rng.standard_normal((40, 2))).astype(np.float32)
    names: dict[str, tuple[str, ...] | int] = {"x": ("c=a", "c=b"), "v": ("v[0]", "v[1]")}
    by_views = LSAMML(scaling="none").fit({"x": words, "v": vectors}, Y)
    by_numbers = M3L(scaling="none").fit(np.hstack([words, vectors]), Y)

    def predictor(estimator: Any, features: Any) -> Predictor:
        artifact = ModelArtifact(estimator.to_bytes(), ("p", "q"), features, text=TITLE)
        return Predictor(Version(1, "1", 0, meta_of()), artifact.to_bytes())

    def asked(served: Predictor, raw: Any) -> Any:
        return scores(served.predict([Record(raw, as_features(served.records.read(raw)), served.records)]))

    served = predictor(by_numbers, {"x": (*names["x"], *names["v"])})  # type: ignore[misc]
    plain = {"c=a": 1, "v[0]": 0.5, "v[1]": -1.0}
    assert asked(served, {"c": "a", "v": [0.5, -1.0]}) == asked(served, plain)
    served = predictor(by_views, names)
    whole = Views({"x": Features(("c=a",), None, np.ones(1, np.float32)), "v": dense([0.5, -1.0])})
    assert asked(served, {"c": "a", "v": [0.5, -1.0]}) == scores(served.predict([whole]))
    lacking = Views({"x": Features(("c=a",), None, np.ones(1, np.float32))})
    assert asked(served, {"c": "a"}) == scores(served.predict([lacking]))
    with pytest.raises(InvalidExample, match="must have 2 numbers"):
        asked(served, {"c": "a", "v": [0.5]})


def test_the_fields_follow_from_the_names_of_the_features() -> None:
    names = ("age", "age=given", "town=A", "town=B=c", "title=war", "vector[0]", "both", "both=x")
    rng = np.random.default_rng(0)
    fitted = M3L(scaling="none").fit(rng.normal(size=(40, 8)), rng.integers(0, 2, size=(40, 2)))

    def fields(text: TextSettings | None, features: tuple[str, ...] | int = names) -> dict[str, str]:
        data = ModelArtifact(fitted.to_bytes(), ("p", "q"), {"x": features}, text=text).to_bytes()
        return {each["name"]: each["kind"] for each in Predictor(None, data).fields}  # type: ignore[arg-type]

    records = {"age": "number", "town": "category", "title": "text", "vector": "vector", "both": "mixed"}
    assert fields(TextSettings(fields=["title"])) == records
    assert fields(None) == dict.fromkeys(names, "number")
    assert fields(None, 8) == {}
