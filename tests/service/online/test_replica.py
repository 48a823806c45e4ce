"""Hosted models on a real store: group commit, failures, limits and waiting."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.limits import settings_of
from tests.support.snapshot_files import snapshot_files
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.app import open_registry
from manylabel_service.errors import (
    InvalidExample,
    KeyInFlight,
    KeyReused,
    LimitExceeded,
    ModelNotFound,
    NotReady,
    StorageUnavailable,
)
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.hosting.predictions import PredictResult
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.models import restarts
from manylabel_service.models.registry import Registry
from manylabel_service.online import replica as online_replica
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.log_entries import decode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.storage import Entry, SQLiteStore
from manylabel_service.storage.snapshots import Snapshots
from manylabel_service.storage.sqlite.logs import SQLiteLogs

Hosting = Callable[..., AbstractAsyncContextManager[Registry]]


class ObstructedLogs(SQLiteLogs):
    """Logs that a test can hold up or make fail."""

    def __init__(self, store: "ObstructedStore") -> None:
        super().__init__(store.engine)
        self.store = store

    async def append(self, record: Any, payloads: Sequence[bytes], after: str) -> list[Entry]:
        self.store.group_sizes.append(len(payloads))
        await self.store.appends.wait()
        if self.store.failing:
            raise StorageUnavailable("the disk is full", heals=True)
        return await super().append(record, payloads, after)


class ObstructedSnapshots(Snapshots):
    """Snapshots that a test can hold up."""

    def __init__(self, store: "ObstructedStore") -> None:
        super().__init__(store.gate, store.logs, store.documents, store.blobs)
        self.store = store

    async def put(self, *args: Any) -> None:
        await self.store.snapshots_may_be_put.wait()
        await super().put(*args)


class ObstructedStore(SQLiteStore):
    """A store that a test can hold up or make fail."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.appends = asyncio.Event()
        self.appends.set()
        self.snapshots_may_be_put = asyncio.Event()
        self.snapshots_may_be_put.set()
        self.failing = False
        self.group_sizes: list[int] = []
        self.logs = ObstructedLogs(self)
        self.snapshots = ObstructedSnapshots(self)


@pytest.fixture
def hosting(tmp_path: Path) -> Hosting:
    """Open the registry on this test's directory; leaving stops it, or kills it with `kill=True`."""

    @asynccontextmanager
    async def host(kill: bool = False, **settings: Any) -> AsyncIterator[Registry]:
        store = ObstructedStore(tmp_path / "data")
        await store.open()
        registry = open_registry(store, settings_of(**settings))
        await registry.start()
        registry.store = store  # type: ignore[attr-defined]
        try:
            yield registry
        finally:
            if not kill:
                await registry.stop()
            for replica in registry.resident():
                await replica.drop()
            await store.close()

    return host


def store_of(registry: Registry) -> ObstructedStore:
    store = registry.store  # type: ignore[attr-defined]
    assert isinstance(store, ObstructedStore)
    return store


def spec(name: str = "m", **fields: Any) -> ModelSpec:
    return ModelSpec.model_validate({"name": name, "algorithm": "falt", **fields})


def example(i: int) -> Example:
    values = np.array([1.0, i % 7], dtype=np.float32)
    return Example(Features(("a", f"b{i % 5}"), None, values), Labels.all_of([f"l{i % 3}"]))


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


async def learn(replica: Replica, n: int, start: int = 0) -> list[UpdateResult]:
    return await asyncio.gather(*(replica.update([example(i)]) for i in range(start, start + n)))


async def replayed_from_log(registry: Registry, replica: Replica) -> OnlineModel:
    """Return a new model that has applied the whole log."""
    model = OnlineModel(replica.spec)
    entries = await store_of(registry).logs.read(replica.record, "0", 100_000)
    folding = ApplyBatch(model, [LogEntry(entry.position, decode(entry.payload)) for entry in entries])
    while folding.step(1):
        pass
    return model


async def test_an_update_is_answered_once_it_is_logged_and_learnt(hosting: Hosting) -> None:
    async with hosting() as registry:
        replica = await registry.create(spec())
        await learn(replica, 1)
        store_of(registry).appends.clear()
        update = asyncio.create_task(replica.update([example(0)]))
        await eventually_async(lambda: store_of(registry).group_sizes == [1, 1])
        assert (await replica.predict([example(0).x])).position == "1", "predictions do not wait for the log"
        assert not update.done()
        assert replica.model.updates == 1
        store_of(registry).appends.set()
        assert (await update).updates == replica.model.updates == 2


def large_example(n_features: int, n_labels: int) -> Example:
    names = tuple(f"f{i}" for i in range(n_features))
    values = np.ones(n_features, dtype=np.float32)
    return Example(Features(names, None, values), Labels.all_of([f"l{i}" for i in range(n_labels)]))


async def test_a_large_example_does_not_block_other_models(hosting: Hosting, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is learnt in a thread. Predictions by its own model are of the state before or after, never of one between."""
    may_end, plain = threading.Event(), ApplyBatch.learn

    def held(fold: ApplyBatch) -> None:
        plain(fold)
        assert threading.current_thread() is threading.main_thread() or may_end.wait(DEADLINE_SECONDS)

    async with hosting() as registry:
        monkeypatch.setattr(ApplyBatch, "learn", held)  # not in the thread that warms up
        replica, other = await registry.create(spec()), await registry.create(spec("other"))
        await learn(other, 3)
        assert not replica.model.learner.n_features_
        update = asyncio.create_task(replica.update([large_example(1_000, 500)]))
        await eventually_async(lambda: replica.model.learner.n_features_ == 1_000)
        own = [asyncio.create_task(replica.predict([example(0).x, example(1).x])) for _ in range(3)]
        assert (await other.predict([example(0).x])).position == other.position
        await learn(other, 3)
        assert not update.done()
        assert not any(prediction.done() for prediction in own)
        may_end.set()
        position = (await update).position
        assert [(await prediction).position for prediction in own] == [position] * 3
        assert (await replayed_from_log(registry, replica)).to_bytes() == replica.model.to_bytes()


async def test_predictions_are_answered_between_large_examples(hosting: Hosting) -> None:
    async with hosting() as registry:
        replica = await registry.create(spec())
        await replica.update([large_example(1_000, 500)])
        update = asyncio.create_task(replica.update([large_example(1_000, 500 + i) for i in range(50)]))
        seen = set[int]()
        while not update.done():
            seen.add(len((await replica.predict([example(0).x])).predictions[0].scores))
            await asyncio.sleep(0)
        assert len(seen) > 5
        assert (await update).updates == 51


class TestExplanations:
    """Nothing changes a model while a thread explains."""

    @pytest.fixture
    def may_end(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
        """Event that ends the threads; all explanations are made in threads."""
        may_end, plain = threading.Event(), OnlineModel.explain

        def held(model: OnlineModel, *args: Any) -> Any:
            assert may_end.wait(DEADLINE_SECONDS)
            return plain(model, *args)

        monkeypatch.setattr(OnlineModel, "explain", held)
        monkeypatch.setattr(online_replica, "EXPLAINED_AT_ONCE", -1)
        yield may_end
        may_end.set()

    async def test_a_rollback_waits_for_one_that_began_while_its_target_was_loaded(
        self, hosting: Hosting, may_end: threading.Event
    ) -> None:
        async with hosting() as registry:
            replica = await registry.create(spec())
            await learn(replica, 5)
            snapshot = await replica.take_snapshot()
            await learn(replica, 3)
            lock, replayer = replica.learning, replica._replayer
            explained, load = list[asyncio.Task[Any]](), replayer._target

            async def loaded(position: str) -> OnlineModel:
                target = await load(position)
                explained.append(asyncio.create_task(explain(replica)))
                await eventually_async(lock.locked)
                return target

            replayer._target = loaded
            change = asyncio.create_task(replica.rollback(snapshot.position))
            await eventually_async(lambda: change.done() or bool(lock._waiters))
            assert replica.model.updates == 8
            may_end.set()
            assert (await change).updates == 5
            assert (await explained[0]).position in ("8", replica.position)

    async def test_an_update_waits_for_the_thread_of_a_cancelled_request(
        self, hosting: Hosting, may_end: threading.Event
    ) -> None:
        async with hosting() as registry:
            replica = await registry.create(spec())
            await learn(replica, 5)
            lock = replica.learning
            explained = asyncio.create_task(explain(replica))
            await eventually_async(lock.locked)
            explained.cancel()
            await asyncio.sleep(0)
            change = asyncio.create_task(replica.update([example(5)]))
            await eventually_async(lambda: change.done() or bool(lock._waiters))
            assert replica.model.updates == 5
            may_end.set()
            assert (await change).updates == 6
            await asyncio.wait([explained])
            assert explained.cancelled()


async def explain(replica: Replica) -> PredictResult:
    return await replica.predict([example(0).x], explainer=Explainer(3, 100))


async def test_updates_that_wait_together_share_an_append(hosting: Hosting) -> None:
    async with hosting() as registry:
        replica = await registry.create(spec())
        store = store_of(registry)
        store.appends.clear()
        first = asyncio.create_task(replica.update([example(0)]))
        await eventually_async(lambda: len(store.group_sizes) == 1)
        others = asyncio.create_task(learn(replica, 50, start=1))
        await eventually_async(lambda: replica.queue.examples == 51)
        store.appends.set()
        answers = [await first, *await others]
        assert store.group_sizes == [1, 50]
        assert sorted(answer.updates for answer in answers) == list(range(1, 52))
        assert len({answer.position for answer in answers}) == 51
        assert replica.queue.examples == 0


class TestKeys:
    key = IdempotencyKey("k", b"d" * 16)

    async def test_a_key_in_flight_is_refused_and_replayed_later(self, hosting: Hosting) -> None:
        async with hosting() as registry:
            replica = await registry.create(spec())
            store_of(registry).appends.clear()
            first = asyncio.create_task(replica.update([example(0)], key=self.key, want_predictions=True))
            await eventually_async(lambda: replica.queue.examples == 1)
            with pytest.raises(KeyInFlight):
                await replica.update([example(0)], key=self.key)
            store_of(registry).appends.set()
            answer = await first
            again = await replica.update([example(0)], key=self.key, want_predictions=True)
            assert again.replayed
            assert (again.position, again.updates) == ("1", 1)
            assert list(again.predictions or ()) == list(answer.predictions or ())
            with pytest.raises(KeyReused):
                await replica.update([example(1)], key=IdempotencyKey("k", b"e" * 16))
            assert replica.model.updates == 1

    async def test_a_key_is_free_again_after_a_failed_append(self, hosting: Hosting) -> None:
        async with hosting() as registry:
            replica = await registry.create(spec())
            store_of(registry).failing = True
            with pytest.raises(StorageUnavailable):
                await replica.update([example(0)], key=self.key)
            store_of(registry).failing = False
            assert not (await replica.update([example(0)], key=self.key)).replayed


class TestLimits:
    @pytest.mark.parametrize("limit", [{"max_features": 5}, {"max_labels": 2}, {"max_model_bytes": 200_000}], ids=str)
    async def test_growth_stops_at_the_limit(self, hosting: Hosting, limit: dict[str, int]) -> None:
        async with hosting(**limit) as registry:
            replica = await registry.create(spec())
            await replica.update([example(0), example(1)])
            names = tuple(f"f{i}" for i in range(20_000))
            wide = Example(
                Features(names, None, np.ones(len(names), dtype=np.float32)), Labels.all_of(["l0", "l1", "l2"])
            )
            before = replica.model.to_bytes()
            with pytest.raises(LimitExceeded) as refused:
                await replica.update([wide])
            assert refused.value.limit == next(iter(limit.values()))
            assert replica.model.to_bytes() == before
            assert (await replica.update([example(0)])).updates == 3

    async def test_updates_that_wait_together_keep_to_the_limit(self, hosting: Hosting) -> None:
        async with hosting(max_labels=100) as registry:
            replica = await registry.create(spec())
            store_of(registry).appends.clear()
            updates = [
                asyncio.create_task(
                    replica.update([Example(example(0).x, Labels.all_of([f"{i}-{j}" for j in range(30)]))])
                )
                for i in range(10)
            ]
            await eventually_async(lambda: sum(update.done() for update in updates) == 7)
            store_of(registry).appends.set()
            results = await asyncio.gather(*updates, return_exceptions=True)
            assert sorted(type(result).__name__ for result in results) == ["QueueFull"] * 7 + ["UpdateResult"] * 3
            assert len(replica.model.labels) == 90
            with pytest.raises(LimitExceeded):  # now it is certain
                await replica.update([Example(example(0).x, Labels.all_of([f"x{j}" for j in range(30)]))])

    @pytest.mark.parametrize("fields", [{"features": 2**24, "labels": [f"l{i}" for i in range(400)]}], ids=["huge"])
    async def test_a_model_that_declares_too_many_columns_is_refused(
        self, hosting: Hosting, fields: dict[str, Any]
    ) -> None:
        async with hosting() as registry:
            with pytest.raises(LimitExceeded, match="bytes of model"):
                await registry.create(spec(**fields))
        async with hosting() as registry:
            assert await registry.list() == ([], [])


class TestPredictionsDoNotWait:
    async def test_for_the_storing_of_a_snapshot_and_neither_do_updates(self, hosting: Hosting) -> None:
        async with hosting(snapshot_every_updates=1) as registry:
            store = store_of(registry)
            store.snapshots_may_be_put.clear()
            replica = await registry.create(spec())
            await learn(replica, 5)
            assert (await replica.update([example(0)])).updates == 6
            assert len((await replica.predict([example(0).x])).predictions) == 1
            assert await store.snapshots.all(replica.record) == []
            store.snapshots_may_be_put.set()

    async def test_for_a_long_batch_of_updates(self, hosting: Hosting) -> None:
        async with hosting() as registry:
            replica = await registry.create(spec())
            await learn(replica, 10)  # by now slices have their size
            batch = asyncio.create_task(replica.update([example(i) for i in range(3_000)]))
            answered_before_its_end = 0
            while not batch.done():
                await replica.predict([example(0).x])
                answered_before_its_end += not batch.done()
                await asyncio.sleep(0)
            assert (await batch).updates == 3_010
            assert answered_before_its_end > 10


class TestSnapshots:
    @pytest.mark.parametrize("damage", ["damaged", "unreadable"])
    async def test_a_bad_snapshot_costs_only_a_longer_replay(
        self, hosting: Hosting, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
    ) -> None:
        before = await _two_snapshots(hosting)
        newest = snapshot_files(tmp_path / "data")[-1]
        if damage == "damaged":
            flip_a_bit(newest)
        else:
            newest.unlink()
            newest.mkdir()
        async with hosting() as registry:
            assert registry.failed == []
            assert (await registry.get("m")).model.to_bytes() == before
        assert damage == "unreadable" or "snapshot_damaged" in capsys.readouterr().out

    async def test_a_model_without_an_intact_snapshot_is_refused_and_others_serve(
        self, hosting: Hosting, tmp_path: Path
    ) -> None:
        await _two_snapshots(hosting)
        for snapshot in snapshot_files(tmp_path / "data"):
            flip_a_bit(snapshot)
        async with hosting() as registry:
            with pytest.raises(NotReady):
                await (await registry.get("m")).predict([example(0).x])
            assert registry.failed == ["m"]
            with pytest.raises(NotReady):
                await (await registry.get("m")).update([example(0)])
            assert (await (await registry.get("other")).update([example(0)])).updates == 2
            with pytest.raises(NotReady):
                (await registry.get("m")).status()
            await registry.delete("m")
            assert registry.failed == []
            assert (await (await registry.create(spec())).update([example(0)])).updates == 1

    async def test_a_snapshot_without_memory_stops_no_update(
        self, hosting: Hosting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async with hosting(snapshot_every_updates=1) as registry:
            replica, other = await registry.create(spec()), await registry.create(spec("other"))

            def no_memory() -> bytes:
                raise MemoryError

            monkeypatch.setattr(replica.model, "to_buffer", no_memory)
            await learn(replica, 3)
            assert (await replica.update([example(0)])).updates == 4
            await learn(other, 1)
        assert "snapshot_failed" in capsys.readouterr().out
        async with hosting() as registry:
            assert ((await registry.get("m")).model.updates, (await registry.get("other")).model.updates) == (4, 1)

    async def test_a_snapshot_that_cannot_be_stored_is_tried_again(self, hosting: Hosting, tmp_path: Path) -> None:
        async with hosting(snapshot_every_seconds=0.01) as registry:
            store = store_of(registry)
            failures, put_snapshot = 2, store.snapshots.put

            async def put(*args: Any) -> None:
                nonlocal failures
                if failures:
                    failures -= 1
                    raise StorageUnavailable("the disk is full", heals=True)
                await put_snapshot(*args)

            store.snapshots.put = put  # type: ignore[assignment, method-assign]
            replica = await registry.create(spec())
            await learn(replica, 1)
            await eventually_async(lambda: snapshot_files(tmp_path / "data"))
            assert failures == 0


async def _two_snapshots(hosting: Hosting) -> bytes:
    """Leave behind model `m` with two snapshots and a trimmed log, and model `other`; return the state of `m`."""
    async with hosting(snapshot_every_updates=10, snapshot_retention_count=2, history_bytes=0) as registry:
        replica, other = await registry.create(spec()), await registry.create(spec("other"))
        for start in range(0, 40, 10):
            await learn(replica, 10, start)
            await eventually_async(lambda: not replica.snapshotter.busy)
        await learn(other, 1)
        return replica.model.to_bytes()


class TestModels:
    async def test_deleted_while_updates_wait(self, hosting: Hosting) -> None:
        async with hosting() as registry:
            replica = await registry.create(spec())
            store_of(registry).appends.clear()
            updates = [asyncio.create_task(replica.update([example(i)])) for i in range(5)]
            await eventually_async(lambda: replica.queue.examples == 5)
            await registry.delete("m")
            store_of(registry).appends.set()
            results = await asyncio.gather(*updates, return_exceptions=True)
            assert [type(result) for result in results] == [ModelNotFound] * 5
            with pytest.raises(ModelNotFound):
                await registry.get("m")
            assert (await (await registry.create(spec())).update([example(0)])).updates == 1

    async def test_invalid_examples_do_not_reach_the_log(self, hosting: Hosting) -> None:
        async with hosting() as registry:
            replica = await registry.create(spec(features=["a"]))
            with pytest.raises(InvalidExample):
                await replica.update([example(0)])
            assert await store_of(registry).logs.read(replica.record, "0", 10) == []

    async def test_a_model_that_failed_to_learn_is_not_ready_and_not_stored(
        self, hosting: Hosting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(restarts, "PAUSES_SECONDS", (3600.0, 3600.0))
        async with hosting(snapshot_every_updates=1) as registry:
            replica = await registry.create(spec())

            def broken(*_: object) -> None:
                raise MemoryError

            monkeypatch.setattr(replica.model.learner.pipeline, "learn", broken)
            calls: list[Awaitable[object]] = [replica.update([example(0)]), replica.predict([example(0).x])]
            for call in calls:
                with pytest.raises(NotReady, match="is being restored after an error"):
                    await call
        assert snapshot_files(tmp_path / "data") == []
        monkeypatch.undo()
        async with hosting() as registry:
            assert (await registry.get("m")).model.updates == 1  # it was logged, so the restarted model learns it

    async def test_no_update_is_accepted_while_stopping(
        self, hosting: Hosting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with hosting() as registry:
            replica, others_stopped = await registry.create(spec()), asyncio.Event()
            monkeypatch.setattr(registry.successions, "stop", others_stopped.wait)
            store_of(registry).appends.clear()
            update = asyncio.create_task(replica.update([example(0)]))
            await eventually_async(lambda: replica.queue.examples == 1)
            stopping = asyncio.create_task(registry.stop())
            try:
                await eventually_async(lambda: not registry.ready)
                with pytest.raises(NotReady):
                    async with asyncio.timeout(DEADLINE_SECONDS):
                        await replica.update([example(1)])
            finally:
                others_stopped.set()
                store_of(registry).appends.set()
            await stopping
            assert (await update).updates == 1
