"""Room for snapshots: so many bytes in memory at a time, however many models are due at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from manylabel_service.online.snapshots import room


async def test_models_take_turns_where_there_is_no_room_for_all(
    any_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_BYTES_IN_MEMORY", 1)
    registry = await any_fleet.start()
    replicas = [await registry.create(any_fleet.spec(f"m{n}")) for n in range(4)]
    for replica in replicas:
        await replica.update([any_fleet.example(0)])
    snapshots, storing, most = any_fleet.store(registry).snapshots, 0, 0
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


def test_who_finds_no_room_is_called_once_there_is_some() -> None:
    one = room.SnapshotRoom(store=None, max_stored_bytes=1)  # type: ignore[arg-type]
    called: list[str] = []
    assert one.take(room.MAX_BYTES_IN_MEMORY * 2, lambda: called.append("first")), "a larger one alone"
    assert not one.take(1, lambda: called.append("second"))
    assert called == []
    one.give_back(room.MAX_BYTES_IN_MEMORY * 2)
    assert called == ["second"]
    assert one.take(1, lambda: called.append("again"))
    assert one.take(room.MAX_BYTES_IN_MEMORY - 1, lambda: called.append("more"))
    assert not one.take(1, lambda: called.append("too much"))
    assert one.bytes_in_memory == room.MAX_BYTES_IN_MEMORY
