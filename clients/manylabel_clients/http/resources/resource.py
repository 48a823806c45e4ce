"""Resources of the synchronous and the asynchronous client, made from the same requests without I/O.

A resource has its calls once, as methods of a class of requests: they are exchanges, and have the docstrings. `sync`
and `awaited` make methods of them that users call, with the same name, parameters and docstring. Calls whose
parameters differ between the two clients are written out, and take their docstring by `documented_as`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from manylabel_clients.http.transport.connections import AsyncConnections, SyncConnections
from manylabel_clients.http.transport.exchange import Exchange
from manylabel_clients.http.transport.sse import EventStream

C = TypeVar("C", bound=SyncConnections | AsyncConnections)
R = TypeVar("R", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H")
F = TypeVar("F", bound=Callable[..., Any])


class _Resource(Generic[C, R]):
    def __init__(self, connections: C, requests: R) -> None:
        self._connections = connections
        self._requests = requests


class SyncResource(_Resource[SyncConnections, R]):
    """Resource of a server over synchronous connections."""


class AsyncResource(_Resource[AsyncConnections, R]):
    """Resource of a server over asynchronous connections."""


def sync(method: Callable[Concatenate[R, P], Exchange[T]]) -> Callable[Concatenate[SyncResource[R], P], T]:
    """Return a method that carries out an exchange and waits for its result."""

    def call(self: SyncResource[R], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._connections.run(method(self._requests, *args, **kwargs))

    return _described(call, method, "{}")


def awaited(
    method: Callable[Concatenate[R, P], Exchange[T]],
) -> Callable[Concatenate[AsyncResource[R], P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that carries out an exchange."""

    async def call(self: AsyncResource[R], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._connections.run(method(self._requests, *args, **kwargs))

    return _described(call, method, "{}")


def sync_handle(
    method: Callable[Concatenate[R, P], Exchange[str]], kind: Callable[[SyncConnections, str], H]
) -> Callable[Concatenate[SyncResource[R], P], H]:
    """Return a method whose result is the resource of the name, or the id, that an exchange returns."""

    def call(self: SyncResource[R], /, *args: P.args, **kwargs: P.kwargs) -> H:
        return kind(self._connections, self._connections.run(method(self._requests, *args, **kwargs)))

    return _described(call, method, kind.__name__, kind)


def awaited_handle(
    method: Callable[Concatenate[R, P], Exchange[str]], kind: Callable[[AsyncConnections, str], H]
) -> Callable[Concatenate[AsyncResource[R], P], Coroutine[Any, Any, H]]:
    """Return a coroutine method whose result is the resource of the name, or the id, that an exchange returns."""

    async def call(self: AsyncResource[R], /, *args: P.args, **kwargs: P.kwargs) -> H:
        return kind(self._connections, await self._connections.run(method(self._requests, *args, **kwargs)))

    return _described(call, method, kind.__name__, kind)


def sync_events(
    method: Callable[Concatenate[R, P], EventStream[T]],
) -> Callable[Concatenate[SyncResource[R], P], Iterator[T]]:
    """Return a method that iterates over events."""

    def call(self: SyncResource[R], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._connections.watch(method(self._requests, *args, **kwargs))

    return _described(call, method, "Iterator[{}]", Iterator)


def async_events(
    method: Callable[Concatenate[R, P], EventStream[T]],
) -> Callable[Concatenate[AsyncResource[R], P], AsyncIterator[T]]:
    """Return a method that iterates over events asynchronously."""

    def call(self: AsyncResource[R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._connections.watch(method(self._requests, *args, **kwargs))

    return _described(call, method, "AsyncIterator[{}]", AsyncIterator)


def documented_as(method: Callable[..., Any]) -> Callable[[F], F]:
    """Copy the docstring of another method to a method."""

    def documented(call: F) -> F:
        call.__doc__ = method.__doc__
        return call

    return documented


def _described(call: F, method: Callable[..., Any], returns: str, *named: Any) -> F:
    """Copy name, parameters and docstring of a method to a call, which keeps its own return type.

    Parameters
    ----------
    call : what carries out the method.
    method : the function that `inspect.signature` and `help` show.
    returns : the return type, with braces for the type that the method's exchange or event stream is of.
    named : types that it names, and that the method's module may not know.
    """
    assert isinstance(method, FunctionType)
    names = method.__globals__ | {one.__name__: one for one in named}
    like = FunctionType(method.__code__, names, method.__name__, method.__defaults__)
    like.__kwdefaults__, like.__doc__ = method.__kwdefaults__, method.__doc__
    inner = method.__annotations__["return"].partition("[")[2].removesuffix("]")
    like.__annotations__ = {**method.__annotations__, "return": returns.format(inner)}
    return wraps(like)(call)  # type: ignore[return-value]  # `wraps` keeps the type of what it wraps
