"""Quota of snapshots: a bounded number of bytes in memory, however many models are due at once."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from manylabel_service.errors import ModelGone, StorageUnavailable
from manylabel_service.online.snapshots import quota
from manylabel_service.online.snapshots.snapshotter import Snapshotter
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelMeta, SnapshotMeta


async def test_snapshots_wait_for_room(lone_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "MAX_BYTES_IN_MEMORY", 1)
    registry = await lone_fleet.start()
    replicas = [await registry.create(lone_fleet.spec(f"m{n}")) for n in range(4)]
    for replica in replicas:
        await replica.update([lone_fleet.example(0)])
    snapshots, storing, most = lone_fleet.store(registry).snapshots, 0, 0
    put: Callable[..., Any] = snapshots.put

    async def counted(*args: Any) -> None:
        nonlocal storing, most
        storing += 1
        most = max(most, storing)
        await put(*args)
        storing -= 1

    monkeypatch.setattr(snapshots, "put", counted)
    taken = await asyncio.gather(*(replica.take_snapshot() for replica in replicas))
    assert [record.position for record in taken] == [replica.position for replica in replicas]
    assert (most, registry.snapshot_room.bytes_in_memory) == (1, 0)


@pytest.mark.parametrize(
    "error",
    [ModelGone("m", 1), StorageUnavailable("away", heals=True), asyncio.CancelledError(), RuntimeError("unexpected")],
    ids=repr,
)
@pytest.mark.parametrize("fails", ["all", "to_buffer"])
async def test_memory_is_released_after_any_error(error: BaseException, fails: str, tmp_path: Path) -> None:
    async def all_snapshots(_record: ModelMeta) -> list[SnapshotMeta]:
        return fail() if fails == "all" else []

    def fail(*_: object) -> Any:
        raise error

    store: Any = SimpleNamespace(snapshots=SimpleNamespace(all=all_snapshots), documents=None, blobs=None)
    model: Any = SimpleNamespace(nbytes=100, position="1", to_buffer=fail)
    shared = quota.SnapshotQuota(store, max_stored_bytes=1)
    record, settings = ModelMeta("m", 1, b"{}"), Settings(data_dir=tmp_path)
    taker = Snapshotter(record, store, settings, shared, lambda: None)
    taker.soon()
    with suppress(BaseException):
        await taker.take_if_due(model)
    assert (shared.bytes_in_memory, taker.busy) == (0, False)


@pytest.mark.parametrize("noticed", [False, True])
async def test_a_deletion_drops_the_snapshot_that_is_being_stored(
    any_fleet: Any, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    """The replica may notice that its model is gone before `delete` returns."""
    registry = await any_fleet.start()
    replica = await registry.create(any_fleet.spec("m"))
    await replica.update([any_fleet.example(0)])
    began = asyncio.Event()

    async def never(*_: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    models = any_fleet.store(registry).models
    delete = models.delete

    async def delete_and_notice(record: ModelMeta) -> None:
        await delete(record)
        if noticed:
            replica.handle_error(ModelGone(record.name, record.incarnation))

    monkeypatch.setattr(any_fleet.store(registry).snapshots, "put", never)
    monkeypatch.setattr(models, "delete", delete_and_notice)
    replica.snapshot_soon()
    await began.wait()
    assert registry.snapshot_room.bytes_in_memory
    await registry.delete("m")
    assert registry.snapshot_room.bytes_in_memory == 0


def test_a_waiting_caller_is_called_once_there_is_room() -> None:
    one = quota.SnapshotQuota(store=None, max_stored_bytes=1)  # type: ignore[arg-type]
    called: list[str] = []
    large = one.reserve(quota.MAX_BYTES_IN_MEMORY * 2, lambda: called.append("first"))
    assert large is not None, "a larger one alone"
    assert one.reserve(1, lambda: called.append("second")) is None
    assert called == []
    large.close()
    large.close()  # a second time gives nothing back
    assert called == ["second"]
    assert one.reserve(1, lambda: called.append("again")) is not None
    assert one.reserve(quota.MAX_BYTES_IN_MEMORY - 1, lambda: called.append("more")) is not None
    assert one.reserve(1, lambda: called.append("too much")) is None
    assert one.bytes_in_memory == quota.MAX_BYTES_IN_MEMORY
