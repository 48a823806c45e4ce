"""Crashes at every step of an action on a store, and checks of what they leave."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from manylabel_service.errors import StorageUnavailable


async def crash_at_every_step(
    store: Any,
    action: Callable[[Any, int], Awaitable[Any]],
    check: Callable[[int], Awaitable[Any]],
    *,
    done: bool,
) -> int:
    """Run an action on a store that is gone at its first call, then at its second, and so on, until it succeeds.

    Returns the number of crashes.

    Parameters
    ----------
    action, check : the action, which gets the failing store, and the check after each crash. Both get the number of
        calls that succeed.
    done : whether the call at which the store is gone has its effect.
    """
    crashes = 0
    while True:
        try:
            await action(_FailingStore(store, crashes, done), crashes)
        except StorageUnavailable:
            await check(crashes)
            crashes += 1
        else:
            return crashes


class _FailingStore:
    def __init__(self, store: Any, calls: int, done: bool) -> None:
        self._store, self._left, self._done = store, calls, done

    def __getattr__(self, part: str) -> Any:
        return _FailingPart(self, getattr(self._store, part))

    async def call(self, result: Any) -> Any:
        self._left -= 1
        if self._left >= 0:
            return await result
        if self._left == -1 and self._done:
            await result
        else:
            result.close()
        raise StorageUnavailable("for the test", heals=True)

    async def stream(self, pieces: Any) -> AsyncIterator[Any]:
        self._left -= 1
        async with contextlib.aclosing(pieces):
            if self._left < 0:
                raise StorageUnavailable("for the test", heals=True)
            async for piece in pieces:
                yield piece


class _FailingPart:
    def __init__(self, store: _FailingStore, part: Any) -> None:
        self._store, self._part = store, part

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = getattr(self._part, name)(*args, **kwargs)
            return self._store.stream(result) if hasattr(result, "__aiter__") else self._store.call(result)

        return call


@contextlib.contextmanager
def hanging_after(owner: Any, name: str) -> Iterator[asyncio.Event]:
    """Let calls of a coroutine method hang once they have had their effect; the event is set by the first."""
    done, call = asyncio.Event(), getattr(owner, name)

    async def hanging(*args: Any, **kwargs: Any) -> None:
        await call(*args, **kwargs)
        done.set()
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, hanging)
        yield done


@contextlib.asynccontextmanager
async def killed_after(fleet: Any, registry: Any, owner: Any, name: str) -> AsyncIterator[None]:
    """Kill a registry of a fleet just after a step of the action that the block starts; the block does not wait for
    the end of the action."""
    with hanging_after(owner, name) as reached:
        yield
        await reached.wait()
    await fleet.kill(registry)
