"""Gate that admits calls while a store is open; to close, the store waits for calls in progress."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from manylabel_service.errors import StorageUnavailable, StoreTooNew
from manylabel_service.release import FORMAT

T = TypeVar("T")
P = ParamSpec("P")

_passed: ContextVar[frozenset["Gate"]] = ContextVar("_passed", default=frozenset())
"""Gates that the current call has passed."""


class Gate:
    """Gate used as a context manager around each call; closed at first. For one event loop, not for threads.

    Attributes
    ----------
    too_new : error of every call, if the store has a format that this release does not know.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.too_new: StoreTooNew | None = None
        self._inside = 0
        self._empty = asyncio.Event()
        self._closing = asyncio.Event()

    def open(self) -> None:
        """Open the gate."""
        self.is_open = True
        self._closing.clear()

    def __enter__(self) -> None:
        if self.too_new is not None or not self.is_open:
            self.check()
        self._inside += 1

    def __exit__(self, *_: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    def check(self) -> None:
        """Raise `StorageUnavailable` if the gate is closed, unless within a call that has passed it."""
        self.check_format()
        if not self.is_open and self not in _passed.get():
            raise _not_open()

    def check_format(self) -> None:
        """Raise StoreTooNew if the format of the store is not supported."""
        if self.too_new is not None:
            raise StoreTooNew(self.too_new.detail, found=self.too_new.found, known=FORMAT)

    def supported(self, place: object, found: int) -> int:
        """Return the format number of the store; if this release does not know it, reject this and all later calls."""
        if found > FORMAT:
            self.too_new = StoreTooNew(str(place), found=found, known=FORMAT)
        self.check_format()
        return found

    async def until_closed(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a call that only waits; closing the gate ends the call with `StorageUnavailable`."""
        try:
            self.check()
        except StorageUnavailable:
            work.close()
            raise
        task, closing = asyncio.create_task(work), asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait((task, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            if not task.done():
                task.cancel()
        if task.done():
            return task.result()
        raise _not_open()

    async def close(self) -> None:
        """Reject new calls, and wait for those in progress."""
        self.is_open = False
        self._closing.set()
        while self._inside:
            self._empty.clear()
            await self._empty.wait()


def _not_open() -> StorageUnavailable:
    return StorageUnavailable("the store is not open", heals=False)


class Gated(Protocol):
    """Part of a store with the gate of the store."""

    @property
    def gate(self) -> Gate: ...


G = TypeVar("G", bound=Gated)


def gated(method: Callable[Concatenate[G, P], Awaitable[T]]) -> Callable[Concatenate[G, P], Coroutine[Any, Any, T]]:
    """Guard a method by the gate of its store. A closed gate rejects calls; closing it waits for running calls.

    A running call, and the tasks that it starts, can call other guarded methods even while the gate closes.
    """

    @wraps(method)
    async def call(self: G, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.gate:
            passed = _passed.set(_passed.get() | {self.gate})
            try:
                return await method(self, *args, **kwargs)
            finally:
                _passed.reset(passed)

    return call  # type: ignore[return-value]  # it binds as a method, which `wraps` hides
