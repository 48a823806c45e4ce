"""Crashes at every step of an action on a store, and checks of what they leave."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from manylabel_service.errors import StorageUnavailable

PARTS = ("blobs", "documents", "logs", "models", "predictions", "snapshots")
"""Parts of a store, whose calls count as calls of the store."""
GONE = StorageUnavailable("for the test", heals=True)


async def crash_at_every_step(
    target: Any,
    action: Callable[[Any, int], Awaitable[Any]],
    check: Callable[[int], Awaitable[Any]] | None = None,
    *,
    done: bool,
    error: Exception = GONE,
    lasting: bool = True,
    every: int = 1,
) -> int:
    """Run an action on a store or an archive that is gone at its first call, then at its second, and so on, until it
    succeeds.

    Returns the number of crashes.

    Parameters
    ----------
    action, check : the action, which gets the failing target, and the check after each crash. Both get the number of
        calls that succeed.
    done : whether the call at which the target is gone has its effect.
    error : what a call raises, and ends the action with.
    lasting : whether all later calls of the action fail too.
    every : difference between the numbers of calls that succeed.
    """
    crashes = 0
    while True:
        calls = every * crashes
        try:
            await action(Failing(target, calls, done, error, lasting), calls)
        except type(error):
            if check is not None:
                await check(calls)
            crashes += 1
        else:
            return crashes


class Failing:
    """Store or archive whose calls fail once `left` of them have succeeded."""

    def __init__(self, inner: Any, left: int, done: bool, error: Exception = GONE, lasting: bool = True) -> None:
        self.left = left
        self._inner, self._done, self._error, self._lasting = inner, done, error, lasting

    def of(self, inner: Any) -> "Failing":
        """Return another store or archive that fails like this one."""
        return Failing(inner, self.left, self._done, self._error, self._lasting)

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._inner, name)
        return _Part(self, inner) if name in PARTS else self.member(inner)

    def member(self, inner: Any) -> Any:
        """Return a method that fails, or another member as it is."""
        if not callable(inner):
            return inner

        def call(*args: Any, **kwargs: Any) -> Any:
            result = inner(*args, **kwargs)
            if hasattr(result, "__aiter__"):
                return self._stream(result)
            return self._call(result) if inspect.isawaitable(result) else result

        return call

    async def _call(self, result: Any) -> Any:
        self.left -= 1
        if not self._fails:
            return await result
        if self.left == -1 and self._done:
            await result
        else:
            result.close()
        raise self._error

    async def _stream(self, pieces: Any) -> AsyncIterator[Any]:
        self.left -= 1
        async with contextlib.aclosing(pieces):
            if self._fails:
                raise self._error
            async for piece in pieces:
                yield piece

    @property
    def _fails(self) -> bool:
        return self.left < 0 if self._lasting else self.left == -1


class _Part:
    def __init__(self, store: Failing, part: Any) -> None:
        self._store, self._part = store, part

    def __getattr__(self, name: str) -> Any:
        return self._store.member(getattr(self._part, name))


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
