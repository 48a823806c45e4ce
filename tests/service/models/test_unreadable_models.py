"""A model that could not be read for another reason than damage is neither reported as damaged nor given up."""

from typing import Any

import pytest
import structlog
from tests.support.waiting import eventually_async

from manylabel_core.vocabulary import Vocabulary
from manylabel_service.errors import NotReady, StorageUnavailable
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.successor.rewriter import Selection


@pytest.fixture
async def stored(lone_fleet: Any) -> Any:
    """A fleet whose store has a model with two snapshots."""
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    for n in range(2):
        await replica.update([lone_fleet.example(n)])
        await replica.take_snapshot()
    await lone_fleet.stop(registry)
    return lone_fleet


async def test_lack_of_memory_is_not_damage(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from_state = Vocabulary.from_state
    calls = []

    def once(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise MemoryError
        return from_state(*args)

    registry = await stored.start(preload=False)
    with structlog.testing.capture_logs() as lines:
        monkeypatch.setattr(Vocabulary, "from_state", once)
        with pytest.raises(NotReady, match="being restored after an error") as refused:
            await registry.get("m")
        assert refused.value.retry_after
        replica = await eventually_async(lambda: registry.get("m"), ignore=NotReady)
        assert replica.model.updates == 2
    assert [line["event"] for line in lines if "damaged" in line["event"]] == []
    assert registry.failed == []


async def test_a_server_starts_without_a_model_for_which_memory_is_short(
    stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Vocabulary, "from_state", _no_memory)
        registry = await stored.start()
        assert (registry.resident(), registry.failed) == ([], ["m"])
    assert (await eventually_async(lambda: registry.get("m"), ignore=NotReady)).model.updates == 2


async def test_lack_of_memory_for_a_spec_is_not_damage(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await stored.start(preload=False)
    with monkeypatch.context() as patch:
        patch.setattr(ModelSpec, "from_bytes", _no_memory)
        with pytest.raises(NotReady, match="too little memory"):
            await registry.get("m")
    assert registry.failed == []
    assert (await registry.get("m")).model.updates == 2


def _no_memory(*args: Any) -> Any:
    raise MemoryError


async def test_an_interruption_is_not_a_damaged_snapshot(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load = SnapshotReader.load
    calls = []

    async def once(reader: SnapshotReader, position: str) -> Any:
        calls.append(position)
        if len(calls) == 1:
            raise StorageUnavailable("for the test", heals=True)
        return await load(reader, position)

    registry = await stored.start(preload=False)
    monkeypatch.setattr(SnapshotReader, "load", once)
    with structlog.testing.capture_logs() as lines:
        assert (await registry.get("m")).model.updates == 2
    assert [line["event"] for line in lines if line["event"].startswith("snapshot")] == []
    assert calls[0] == calls[1], "it falls back to no older snapshot"


async def test_a_store_that_does_not_answer_is_not_a_damaged_snapshot(
    stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await stored.start(preload=False)
    with structlog.testing.capture_logs() as lines, monkeypatch.context() as patch:

        async def gone(*args: Any) -> Any:
            patch.setattr(type(registry._store.models), "find", _not_found)
            raise StorageUnavailable("for the test", heals=True)

        patch.setattr(SnapshotReader, "load", gone)
        with pytest.raises(StorageUnavailable):
            await registry.get("m")
    assert [line["event"] for line in lines if line["event"].startswith("snapshot")] == []
    assert (await registry.get("m")).model.updates == 2


async def _not_found(*args: Any) -> Any:
    raise StorageUnavailable("for the test", heals=True)


async def test_the_next_model_of_a_name_has_no_receipts_of_a_deleted_one(
    lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await lone_fleet.start()
    replica = await registry.create(lone_fleet.spec())
    await replica.update([lone_fleet.example(0)])
    receipt = await Forgetter(registry.successions).begin(
        replica, Selection(positions=frozenset([replica.position])), None
    )

    async def is_done() -> bool:
        return (await Forgetter(registry.successions).receipt("m", receipt.id)).status == "done"

    await eventually_async(is_done)
    with monkeypatch.context() as patch:
        patch.setattr(CatalogueStore, "delete_all", _gone)
        await registry.delete("m")  # as if the process died before it deleted the rest
    await registry.create(lone_fleet.spec())
    assert await Forgetter(registry.successions).receipts("m") == ()


async def _gone(store: CatalogueStore) -> None:
    raise StorageUnavailable("for the test", heals=True)
