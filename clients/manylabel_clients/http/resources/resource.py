"""Resources of the synchronous and the asynchronous client, made from the same requests without I/O.

A class of requests defines the calls of a resource once, as exchanges with docstrings. `call_of`, `handle_of` and
`events_of` convert them to public methods with the same name, parameters and docstring: a `SyncResource` waits for the
result, an `AsyncResource` returns a coroutine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import FunctionType, MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from manylabel_clients.http.transport.connections import AsyncConnections, SyncConnections
from manylabel_clients.http.transport.exchange import Batched, Exchange
from manylabel_clients.http.transport.sse import EventStream

R = TypeVar("R")
P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])

Connections = SyncConnections | AsyncConnections


class Resource(Generic[R]):
    """Resource of a server: its connections and its requests."""

    def __init__(self, connections: Connections, requests: R) -> None:
        self._connections = connections
        self._requests = requests


class SyncResource:
    """Marker of resources whose calls wait for their results."""


class AsyncResource:
    """Marker of resources whose calls are awaited."""


class Method(Generic[P, S, A]):
    """Method of a resource that returns S, or A if the resource is asynchronous."""

    def __init__(self, method: Callable[..., S], awaited: Callable[..., A]) -> None:
        self._method, self._awaited = method, awaited

    @overload
    def __get__(self, resource: SyncResource, kind: type) -> Callable[P, S]: ...
    @overload
    def __get__(self, resource: AsyncResource, kind: type) -> Callable[P, A]: ...
    @overload
    def __get__(self, resource: None, kind: type) -> Callable[..., Any]: ...
    def __get__(self, resource: object, kind: type) -> Any:
        method: Any = self._awaited if issubclass(kind, AsyncResource) else self._method
        return method if resource is None else MethodType(method, resource)


def call_of(method: Callable[Concatenate[Any, P], Exchange[T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    """Return a method that returns the result of an exchange."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._connections.run(method(self._requests, *args, **kwargs))  # type: ignore[no-any-return]

    async def awaited(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._connections.run(method(self._requests, *args, **kwargs))  # type: ignore[no-any-return]

    return Method(_described(call, method, "{}"), _described(awaited, method, "{}"))


def handle_of(
    method: Callable[Concatenate[Any, P], Exchange[str]],
    kind: Callable[[Any, str], S],
    awaited_kind: Callable[[Any, str], A],
) -> Method[P, S, Coroutine[Any, Any, A]]:
    """Return a method that wraps the name or id from an exchange in its resource."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> S:
        return kind(self._connections, self._connections.run(method(self._requests, *args, **kwargs)))

    async def awaited(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> A:
        return awaited_kind(self._connections, await self._connections.run(method(self._requests, *args, **kwargs)))

    return Method(
        _described(call, method, kind.__name__, kind), _described(awaited, method, awaited_kind.__name__, awaited_kind)
    )


def events_of(
    method: Callable[Concatenate[Any, P], EventStream[T] | Batched[T]],
) -> Method[P, Iterator[T], AsyncIterator[T]]:
    """Return a method that iterates over events, or over the results of a stream."""

    def each(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._connections.each(method(self._requests, *args, **kwargs))

    def awaited(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._connections.each(method(self._requests, *args, **kwargs))

    return Method(
        _described(each, method, "Iterator[{}]", Iterator),
        _described(awaited, method, "AsyncIterator[{}]", AsyncIterator),
    )


def _described(call: F, method: Callable[..., Any], returns: str, *named: Any) -> F:
    """Copy name, parameters and docstring of a method to a call; `returns` formats the type that the exchange
    returns."""
    assert isinstance(method, FunctionType)
    names = method.__globals__ | {one.__name__: one for one in named}
    like = FunctionType(method.__code__, names, method.__name__, method.__defaults__)
    like.__kwdefaults__, like.__doc__ = method.__kwdefaults__, method.__doc__
    inner = method.__annotations__["return"].partition("[")[2].removesuffix("]")
    like.__annotations__ = {**method.__annotations__, "return": returns.format(inner)}
    return wraps(like)(call)  # type: ignore[return-value]  # `wraps` keeps the type of what it wraps
