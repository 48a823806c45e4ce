"""Served predictions of a trained model's versions are measured by labels that come later; nothing is learnt."""

import asyncio
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.service.online.folds import partial
from tests.service.trained.test_trained_serving import dense
from tests.support.waiting import eventually_async

from manylabel_service import ulid as prediction_ids
from manylabel_service.errors import ModelDamaged, NotReady, PredictionLabelled, VersionNotFound
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models import restarts
from manylabel_service.online.prediction_store import NO_FEATURES
from manylabel_service.online.spec.trained import TrainedSpec
from manylabel_service.online.state import served_metrics as answers_module
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.served_metrics import ServedBy, ServedMetrics
from manylabel_service.trained.model import TrainedModel

LABELS = ("rock", "jazz", "pop")


class Given(NamedTuple):
    """A prediction that a client has, and the labels that it has submitted for it."""

    version: int
    labels: frozenset[str]
    truth: dict[str, bool]


def by_hand(given: list[Given]) -> dict[str, Any]:
    """Return some metrics, computed from the predictions and the submitted labels."""
    wrong = [sum((name in labels) != true for name, true in truth.items()) for _, labels, truth in given]
    right = sum(true and name in labels for _, labels, truth in given for name, true in truth.items())
    return {
        "examples": len(given),
        "micro_f1": 2 * right / (2 * right + sum(wrong)) if right else 0.0,
        "hamming_loss": float(np.mean([n / len(one.truth) for n, one in zip(wrong, given, strict=True)])),
        "subset_accuracy": float(np.mean([n == 0 for n in wrong])),
    }


def new_id(rng: random.Random) -> str:
    return prediction_ids.make(1_700_000_000_000 + rng.randrange(10**9), rng.randbytes(prediction_ids.N_RANDOM_BYTES))


class Watched:
    """A trained model on some servers, whose clients submit labels for its predictions."""

    def __init__(self, fleet: Any, rng: random.Random) -> None:
        self.fleet, self.rng = fleet, rng
        self.given: dict[str, Given] = {}
        self.told: list[tuple[list[str], list[Labels], IdempotencyKey, Any]] = []

    async def model(self) -> Any:
        return await self.rng.choice(list(self.fleet._stores)).get("m")

    async def predict(self, X: Any, at_least: str | None = None) -> None:
        model = await self.model()
        xs = [dense(row) for row in self.rng.sample(list(X), self.rng.randint(1, 3))]
        answered = await model.predict(xs, at_least)
        ids = [new_id(self.rng) for _ in xs]
        await model.keep(ids, xs, answered.predictions, answered.version)
        for id, prediction in zip(ids, answered.predictions, strict=True):
            self.given[id] = Given(answered.version, frozenset(prediction.labels), {})

    async def label(self, wanted: list[str]) -> None:
        """Submit all labels of some predictions, or one label more, to any server."""
        ids, ys = [], []
        for id in wanted:
            given = self.given[id]
            left = [name for name in (*LABELS, "unheard of") if name not in given.truth]
            if not left:
                continue
            if given.truth or self.rng.random() < 0.5:
                truth = {self.rng.choice(left): self.rng.random() < 0.5}
                ys.append(partial(**truth))
            else:
                relevant = self.rng.sample(LABELS, self.rng.randint(0, 2))
                truth = dict.fromkeys((*LABELS, "unheard of"), False) | dict.fromkeys(relevant, True)
                ys.append(Labels.all_of(relevant))
            self.given[id] = given._replace(truth=given.truth | truth)
            ids.append(id)
        if ids:
            key = IdempotencyKey(f"k{len(self.told)}", bytes(16))
            answer = await self.post(await self.model(), ids, ys, key)
            self.told.append((ids, ys, key, answer))

    @staticmethod
    async def post(model: Any, ids: list[str], ys: list[Labels], key: IdempotencyKey | None) -> Any:
        kept = await model.answers.kept(ids, ys)
        return await model.answers.update(
            [Example(one.x, y) for one, y in zip(kept, ys, strict=True)],
            key=key,
            prediction_ids=ids,
            served=[one.scores for one in kept],
            answered=[one.answered for one in kept],
        )

    async def check(self) -> None:
        """All servers have the same measures, which are those by hand, and the same bits."""
        models = [await registry.get("m") for registry in self.fleet._stores]
        for model in models:
            await model.answers.sync()
        assert len({model.answers.position for model in models}) == 1
        assert len({model.answers.model.to_bytes() for model in models}) == 1
        told = [given for given in self.given.values() if given.truth]
        for model in models:
            for version in {given.version for given in told}:
                number, measured, _ = await model.measured(version)
                own = [given for given in told if given.version == version]
                # A label that no truth named until then counts for no answer before.
                names = set(measured.labels.names)
                own = [given._replace(truth={k: v for k, v in given.truth.items() if k in names}) for given in own]
                due = by_hand(own)
                found = measured.measures()["cumulative"]
                assert number == version
                assert {name: found[name] for name in due} == pytest.approx(due)


@pytest.mark.parametrize("seed", range(2))
async def test_metrics_are_those_of_the_answers_whatever_is_served_meanwhile(
    any_fleet: Any, one: Any, two: Any, seed: int
) -> None:
    rng = random.Random(seed)
    n_servers = 1 if any_fleet.server is None else 2
    await any_fleet.start_several(n_servers, snapshot_every_updates=7)
    first = next(iter(any_fleet._stores))
    for version in (one, two, one):
        await any_fleet.publish(first, version, promote="always" if version is one else "never")
    watched = Watched(any_fleet, rng)
    # True labels that no version has come first, so that they count for all responses alike.
    for number in (1, 2, 3):
        promoted = await (await watched.model()).promote(number)
        await watched.predict(one.X, promoted.position)
        id = next(id for id, given in watched.given.items() if given.version == number and not given.truth)
        truth = {"unheard of": True}
        watched.given[id] = watched.given[id]._replace(truth=truth)
        await watched.post(await watched.model(), [id], [partial(**truth)], None)
    for _ in range(60):
        action = rng.random()
        if action < 0.35:
            await watched.predict(one.X)
        elif action < 0.8:
            await watched.label(rng.sample(sorted(watched.given), min(2, len(watched.given))))
        elif action < 0.87:
            await (await watched.model()).promote(rng.randint(1, 3))
        elif action < 0.94 and watched.told:
            ids, ys, key, answer = rng.choice(watched.told)
            model = await watched.model()
            with pytest.raises(PredictionLabelled):
                await watched.post(model, ids, ys, None)
            again = await model.answers.update([], key=key)
            assert (again.replayed, again.position) == (True, answer.position)
        else:
            registry = rng.choice(list(any_fleet._stores))
            await (any_fleet.kill if rng.random() < 0.5 else any_fleet.stop)(registry)
            await any_fleet.start(snapshot_every_updates=7)
    await watched.check()
    model = await watched.model()
    for version in {1, 2, 3} - {model.status()["version"]}:
        await model.retire(version)
    await watched.check()


class TestFold:
    """The state of the measures."""

    @staticmethod
    def update(version: int, scores: list[float], y: Labels, id: str, labels: tuple[str, ...] = LABELS) -> Update:
        example = Example(NO_FEATURES, y)
        by = ServedBy(version, labels)
        return Update((example,), prediction_ids=(id,), served=(np.array(scores),), answered=(by,))

    def folded(self, updates: list[Update]) -> OnlineModel:
        model = OnlineModel(TrainedSpec(name="m"))
        entries = [LogEntry(str(n), decode(encode(update))) for n, update in enumerate(updates, 1)]
        fold = ApplyBatch(model, entries)
        while fold.step(3):
            pass
        assert all(not isinstance(outcome.answer, Exception) for outcome in fold.outcomes), fold.outcomes
        return model

    def test_a_copy_has_the_metrics_without_the_requests(self) -> None:
        rng = random.Random(0)
        updates = [self.update(1 + n % 2, [1, -1, n % 3 - 1], partial(rock=True), new_id(rng)) for n in range(40)]
        model = self.folded(updates)
        copy = OnlineModel.from_bytes(model.seed("m"), requests=False)
        assert model.answers is not None
        assert copy.answers is not None
        assert copy.answers[2].measures() == model.answers[2].measures()
        assert copy.answers[2].measures()["cumulative"]["examples"] == 20

    def test_drift_is_detected_in_the_answers(self) -> None:
        rng = random.Random(0)
        truth = Labels.all_of(["rock"])
        updates = [self.update(1, [1, -1, -1] if n < 300 else [-1, 1, -1], truth, new_id(rng)) for n in range(600)]
        updates += [self.update(2, [1, -1, -1], truth, new_id(rng)) for n in range(300)]
        model = self.folded(updates)
        assert model.answers is not None
        worse, alike = (model.answers[version].measures()["drift"] for version in (1, 2))
        assert worse["alarms"] == 1
        assert 300 < worse["labels"]["rock"]["last"] < 400
        assert (alike["alarms"], alike["labels"]) == (0, {})

    def test_the_number_of_measured_versions_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(answers_module, "MAX_MEASURED", 2)
        rng = random.Random(0)
        ids = [new_id(rng) for _ in range(4)]
        updates = [
            self.update(version, [1, 1, 1], partial(rock=True), id)
            for version, id in zip((1, 2, 1, 3), ids, strict=True)
        ]
        model = self.folded(updates)
        assert model.answers is not None
        assert list(model.answers) == [1, 3]
        assert list(model.labelled.parts) == [ids[0], ids[2], ids[3]]
        assert OnlineModel.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()

    def test_another_version_with_the_same_number_begins_anew(self) -> None:
        """The store came back from a backup, and another version has the number."""
        rng = random.Random(0)
        model = self.folded(
            [
                self.update(1, [1, 1, 1], Labels.all_of(["rock"]), new_id(rng)),
                self.update(1, [1], Labels.all_of(["a"]), new_id(rng), ("a",)),
            ]
        )
        assert model.answers is not None
        assert model.answers[1].labels.names == ("a",)
        assert model.answers[1].measures()["cumulative"]["micro_f1"] == 1

    def test_forged_states_are_refused(self) -> None:
        rng = random.Random(0)
        model = self.folded([self.update(1, [1, 1, 1], partial(rock=True), new_id(rng))])
        assert model.answers is not None
        with pytest.raises(ValueError, match="differs from the number of updates"):
            model.answers.check(2, model.labelled.parts)
        with pytest.raises(ValueError, match="not measured"):
            ServedMetrics().check(0, model.labelled.parts)
        for data in (b"", b"\x91\x00", b"\x92\x00\x91\x92\x01\xc4\x00"):
            with pytest.raises(ValueError, match=r"answers|npack"):
                ServedMetrics.from_array(np.frombuffer(data, dtype=np.uint8))


async def test_a_damaged_log_stops_the_metrics_but_not_the_predictions(lone_fleet: Any, one: Any) -> None:
    registry = await lone_fleet.start()
    await lone_fleet.publish(registry, one)
    store = lone_fleet.store(registry)
    record = await store.models.find("m")
    await store.logs.append(record, [b"no entry"], "0")
    model = await registry.get("m")
    xs = [dense(one.X[0])]
    answered = await model.predict(xs)
    assert list(answered.predictions[0].scores.values()) == one.scores(one.X[:1])[0]
    assert registry.failed == ["m"]
    with pytest.raises(ModelDamaged, match="labels of its predictions"):
        await model.keep([new_id(random.Random(0))], xs, answered.predictions, answered.version)
    with pytest.raises(ModelDamaged):
        await model.measured(None)
    assert model.measures() is None
    assert model.gauges()["model_version"] == 1
    await registry.delete("m")
    assert registry.failed == []


async def test_a_model_predicts_while_its_metrics_are_restored(
    lone_fleet: Any, one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "PAUSES_SECONDS", (0.05, 0.2))
    registry = await lone_fleet.start()
    await lone_fleet.publish(registry, one)
    watched = Watched(lone_fleet, random.Random(0))
    await watched.predict(one.X)
    first, second, *_ = watched.given
    learn, failures, may_restore = ApplyBatch.learn, 3, asyncio.Event()
    restore = TrainedModel.restore

    def failing(batch: ApplyBatch) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise MemoryError
        learn(batch)

    async def waiting(self: TrainedModel, **options: Any) -> None:
        await may_restore.wait()
        await restore(self, **options)

    monkeypatch.setattr(ApplyBatch, "learn", failing)
    monkeypatch.setattr(TrainedModel, "restore", waiting)
    with pytest.raises(NotReady):
        await watched.label([first])
    model = await registry.get("m")
    assert (await model.predict([dense(one.X[0])])).version == 1
    assert registry.failed == ["m"]
    may_restore.set()
    await eventually_async(lambda: not registry.failed)
    model = await registry.get("m")
    assert model.answers.model.updates == 1
    await watched.post(model, [second], [Labels.all_of(["rock"])], None)
    assert model.answers.model.updates == 2


async def test_an_evicted_model_predicts_although_its_metrics_had_an_error(
    lone_fleet: Any, one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "PAUSES_SECONDS", (3600.0, 3600.0))
    registry = await lone_fleet.start()
    await lone_fleet.publish(registry, one)
    model = await registry.get("m")
    model.answers.crash(MemoryError())
    assert (await model.predict([dense(one.X[0])])).version == 1
    registry._evict(model)
    model = await registry.get("m")
    assert (await model.predict([dense(one.X[0])])).version == 1
    assert registry.failed == []


async def test_an_evicted_model_keeps_its_metrics(lone_fleet: Any, one: Any) -> None:
    registry = await lone_fleet.start(evict_idle_seconds=0)
    await lone_fleet.publish(registry, one)
    watched = Watched(lone_fleet, random.Random(0))
    await watched.predict(one.X)
    await watched.label(list(watched.given))
    model = await registry.get("m")
    registry._eviction._idle_seconds = 1e-9
    await registry._eviction.sweep()
    assert model not in registry.resident()
    registry._eviction._idle_seconds = 0
    await watched.check()


async def test_a_new_model_of_the_same_name_has_no_metrics(lone_fleet: Any, one: Any) -> None:
    registry = await lone_fleet.start()
    await lone_fleet.publish(registry, one)
    watched = Watched(lone_fleet, random.Random(0))
    await watched.predict(one.X)
    await watched.label(list(watched.given))
    await registry.delete("m")
    await lone_fleet.publish(registry, one)
    model = await registry.get("m")
    _, measured, position = await model.measured(None)
    assert (measured.updates, position) == (0, "0")
    assert measured.labels.names == LABELS
    with pytest.raises(VersionNotFound):
        await model.measured(7)
