"""Resources of the synchronous and the asynchronous client, made from the same calls without I/O.

A class of calls defines each call of a resource once, as an exchange without I/O. The decorators `call`, `handle` and
`events` make it a public method with the same name, parameters and docstring. A `SyncResource` waits for the result, an
`AsyncResource` returns a coroutine.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from functools import wraps
from types import FunctionType, MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote, urlencode

import httpx2

from manylabel_clients.http.errors import NotFound
from manylabel_clients.http.transport.connections import AsyncConnections, SyncConnections
from manylabel_clients.http.transport.exchange import Batched, Exchange, Request, read, send
from manylabel_clients.http.transport.json_body import JSON, encode, from_json
from manylabel_clients.http.transport.sse import EventStream

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])

Connections = SyncConnections | AsyncConnections

MAX_KEY_OF_MANY = 240
"""Maximum length of a key of a call with many examples; later requests of the call append their offsets to it."""


class Resource:
    """Calls of a resource of a server. `path` is the path of a single resource."""

    def __init__(self, connections: Connections, path: str = "") -> None:
        self._connections = connections
        self._retry = connections.retry
        self._path = path

    def _get(self, path: str, kind: Callable[..., T]) -> Exchange[T]:
        return read((yield from send(Request("GET", path), self._retry)), kind)

    def _list(self, path: str, name: str, kind: Callable[..., T]) -> Exchange[list[T]]:
        """Return the objects in the list `name` of a response."""
        return (yield from self._get(path, lambda answer: [from_json(kind, one) for one in answer[name]]))

    def _download(self, path: str) -> Exchange[bytes]:
        return (yield from send(Request("GET", path), self._retry)).content

    def _post(
        self, path: str, body: bytes | None, key: str | None = None, method: str = "POST", *, once: bool = False
    ) -> Exchange[httpx2.Response]:
        headers: Mapping[str, str] = {} if body is None else JSON
        if key is not None:
            headers = {**headers, "Idempotency-Key": key}
        return (yield from send(Request(method, path, body, headers), self._retry, once=once))

    def _learn(
        self, path: str, body: Mapping[str, Any] | None, key: str | None, kind: Callable[..., T], method: str = "POST"
    ) -> Exchange[T]:
        """Change a model once under a key; return the receipt."""
        return receipt([(yield from self._post(path, encode(body), new_key(key), method))], kind)

    def _delete(self, path: str) -> Exchange[None]:
        """Delete; after an attempt without a response, a missing object counts as success."""
        try:
            yield from send(Request("DELETE", path), self._retry)
        except NotFound as error:
            if not error.maybe_done:
                raise


class SyncResource:
    """Marker of resources whose calls wait for their results."""


class AsyncResource:
    """Marker of resources whose calls are awaited."""


class Method(Generic[P, S, A]):
    """Method of a resource: returns S, or A if the resource is asynchronous."""

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


def call(method: Callable[Concatenate[Any, P], Exchange[T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    """Make a method that returns the result of an exchange."""

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._connections.run(method(self, *args, **kwargs))  # type: ignore[no-any-return]

    async def awaited(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._connections.run(method(self, *args, **kwargs))  # type: ignore[no-any-return]

    return Method(_described(run, method, "{}"), _described(awaited, method, "{}"))


def handle(
    kind: Callable[[Any, str], S], awaited_kind: Callable[[Any, str], A]
) -> Callable[[Callable[Concatenate[Any, P], Exchange[str]]], Method[P, S, Coroutine[Any, Any, A]]]:
    """Make a method that returns the resource whose name or id an exchange returns."""

    def decorate(method: Callable[Concatenate[Any, P], Exchange[str]]) -> Method[P, S, Coroutine[Any, Any, A]]:
        def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> S:
            return kind(self._connections, self._connections.run(method(self, *args, **kwargs)))

        async def awaited(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> A:
            return awaited_kind(self._connections, await self._connections.run(method(self, *args, **kwargs)))

        return Method(
            _described(run, method, kind.__name__, kind),
            _described(awaited, method, awaited_kind.__name__, awaited_kind),
        )

    return decorate


def events(
    method: Callable[Concatenate[Any, P], EventStream[T] | Batched[T]],
) -> Method[P, Iterator[T], AsyncIterator[T]]:
    """Make a method that iterates over events, or over the results of a stream."""

    def each(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._connections.each(method(self, *args, **kwargs))

    def awaited(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._connections.each(method(self, *args, **kwargs))

    return Method(
        _described(each, method, "Iterator[{}]", Iterator),
        _described(awaited, method, "AsyncIterator[{}]", AsyncIterator),
    )


def _described(made: F, method: Callable[..., Any], returns: str, *named: Any) -> F:
    """Copy name, parameters and docstring of a method; `returns` formats the type that the exchange returns."""
    assert isinstance(method, FunctionType)
    names = method.__globals__ | {one.__name__: one for one in named}
    like = FunctionType(method.__code__, names, method.__name__, method.__defaults__)
    like.__kwdefaults__, like.__doc__ = method.__kwdefaults__, method.__doc__
    inner = method.__annotations__["return"].partition("[")[2].removesuffix("]")
    like.__annotations__ = {**method.__annotations__, "return": returns.format(inner)}
    return wraps(like)(made)  # type: ignore[return-value]  # `wraps` keeps the type of what it wraps


def path_of(*parts: str) -> str:
    """Return the path of a resource."""
    return "/v1" + "".join(f"/{quote(part, safe='')}" for part in parts)


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def with_query(path: str, **parameters: Any) -> str:
    """Return a path with the parameters that are not None; a list becomes one parameter for each element."""
    query = urlencode(given(**parameters), doseq=True)
    return f"{path}?{query}" if query else path


def new_key(key: str | None, max_length: int | None = None) -> str:
    """Return the passed or a new idempotency key; raise ValueError if it does not fit a header."""
    if key is None:
        return uuid.uuid4().hex
    if not re.fullmatch("[!-~]+", key):
        raise ValueError(f"key must consist of visible ASCII characters, not {key!r}")
    if max_length is not None and len(key) > max_length:
        raise ValueError(f"key must have at most {max_length} characters here, not {len(key)}")
    return key


def receipt(responses: list[httpx2.Response], kind: Callable[..., T]) -> T:
    """Return the last response as a receipt, whose position and counts include all requests."""
    if not responses:
        raise ValueError("there must be at least one example")
    # The header says that the response repeats that of an earlier request with the same key.
    replayed = any(response.headers.get("Idempotent-Replayed") == "true" for response in responses)
    return read(responses[-1], lambda answer: from_json(kind, {**answer, "replayed": replayed}))
