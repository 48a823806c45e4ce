"""Tasks of a store that run to completion even if their callers are cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import IO, Any, TypeVar

import structlog

from manylabel_service.errors import StorageError

T = TypeVar("T")

log = structlog.get_logger()


class BackgroundTasks:
    """Tasks that the store awaits before it closes."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work in the background; the caller need not wait for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Complete work even if the caller is cancelled."""
        return await asyncio.shield(self.begin(work))

    async def done(self) -> None:
        """Wait until no task is left."""
        while self._tasks:
            # `gather` does not work here: since Python 3.12, it returns without yielding if all tasks have ended, so
            # the callbacks that remove tasks would not run.
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks the error as retrieved, in case the caller was cancelled


async def attempt(work: Coroutine[Any, Any, None]) -> None:
    """Run work that will be repeated later if it fails."""
    try:
        await work
    except StorageError as error:
        log.warning("storage_maintenance_failed", error=str(error), action="nothing is lost; it is retried later")
    except Exception:
        log.exception("storage_maintenance_failed")


async def open_in_thread(open_file: Callable[[], IO[bytes]]) -> IO[bytes]:
    """Open a file in a thread; close it again if the caller is cancelled.

    Raises
    ------
    OSError
        The file cannot be opened.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(open_file))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close)
        raise


def _close(opening: asyncio.Future[IO[bytes]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
