"""Long work on the event loop lets other tasks run between slices."""

import asyncio

import pytest

from manylabel_service.slices import Pace, in_slices


async def test_items_come_in_order_and_other_tasks_run_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "seconds", 0.0)
    seen: list[int] = []
    other = asyncio.create_task(asyncio.sleep(0, result=None))
    items = []
    async for item in in_slices(range(5)):
        items.append(item)
        seen.append(other.done())
    assert items == [*range(5)]
    assert seen[-1], "the other task has run"
    assert [item async for item in in_slices([])] == []


async def test_a_slice_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "seconds", 3600.0)
    other = asyncio.create_task(asyncio.sleep(0))
    assert [other.done() async for _ in in_slices(range(5))] == [False] * 5
    await other
