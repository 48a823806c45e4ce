"""All background tasks are waited for, whatever their state."""

import asyncio

from manylabel_service.storage.background import BackgroundTasks


async def test_done_returns_if_all_tasks_have_just_ended() -> None:
    """The tasks have ended, and the callbacks that take them out have not run yet."""
    tasks = BackgroundTasks()
    ended = asyncio.Event()

    async def work() -> None:
        ended.set()

    tasks.begin(work())
    await ended.wait()
    await asyncio.wait_for(tasks.done(), 120)


async def test_done_waits_for_tasks_that_tasks_begin() -> None:
    tasks = BackgroundTasks()
    did = []

    async def second() -> None:
        did.append("second")

    async def first() -> None:
        await asyncio.sleep(0)
        tasks.begin(second())

    tasks.begin(first())
    await tasks.done()
    assert did == ["second"]


async def test_done_waits_for_failed_tasks() -> None:
    tasks = BackgroundTasks()

    async def fail() -> None:
        raise ValueError("no")

    failed = tasks.begin(fail())
    await tasks.done()
    assert isinstance(failed.exception(), ValueError)
