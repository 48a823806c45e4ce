"""Single-flight loading: concurrent requests for a model share one load, and the number of concurrent loads is
limited."""

import asyncio
from collections.abc import Awaitable, Callable

from manylabel_service.errors import NotReady
from manylabel_service.hosting.hosted_model import HostedModel

LOADS_AT_A_TIME = 2
"""Maximum number of concurrent loads, because a restore occupies the event loop."""


class ModelLoader:
    """Loader of models by name, with single-flight loads and limited concurrency.

    Parameters
    ----------
    load : returns the ready replica of a model.
    wait_seconds : seconds that a caller waits before NotReady.
    """

    def __init__(self, load: Callable[[str], Awaitable[HostedModel]], wait_seconds: float) -> None:
        self._load = load
        self._wait_seconds = wait_seconds
        self._tasks: dict[str, asyncio.Task[HostedModel]] = {}
        self.slots = asyncio.Semaphore(LOADS_AT_A_TIME)

    async def get(self, name: str) -> HostedModel:
        """Return the loaded replica; a load continues even if its callers are cancelled. Raises NotReady, ModelNotFound
        or StorageUnavailable."""
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(self._one(name), name=f"load {name}")
            task.add_done_callback(_look_at)
        done, _ = await asyncio.wait([task], timeout=self._wait_seconds)
        if not done:
            raise NotReady(f"model {name!r} is being loaded")
        if task.cancelled():
            raise NotReady("the server is stopping")
        if (error := task.exception()) is not None:
            raise error.with_traceback(None)
        return task.result()

    async def _one(self, name: str) -> HostedModel:
        try:
            return await self._load(name)
        finally:
            del self._tasks[name]

    async def cancel(self) -> None:
        """Cancel running loads."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _look_at(task: asyncio.Task[HostedModel]) -> None:
    """Mark the error of a load as retrieved, in case all waiting requests were cancelled."""
    if not task.cancelled():
        task.exception()
