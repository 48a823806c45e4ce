"""Authentication and authorisation: the key of a request, and the guard of a route."""

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from manylabel_service.access.grant import Access
from manylabel_service.access.grant import Scope as AccessScope

E = TypeVar("E", bound=Callable[..., Any])

NAME = "name"
"""Part of a path that names a model or a dataset."""

_DECLARED = "__scopes__"


def needs(*needed: AccessScope) -> Callable[[E], E]:
    """Declare that callers of an endpoint need all of these scopes; without scopes, the endpoint needs no key."""

    def declare(endpoint: E) -> E:
        setattr(endpoint, _DECLARED, needed)
        return endpoint

    return declare


OPEN = needs()
"""Declaration that an endpoint needs no key."""


def needed_by(endpoint: Callable[..., Any]) -> tuple[AccessScope, ...]:
    """Return the declared scopes of an endpoint; raise TypeError if it has declared nothing."""
    declared: tuple[AccessScope, ...] | None = getattr(endpoint, _DECLARED, None)
    if declared is None:
        raise TypeError(f"{endpoint.__module__}.{endpoint.__qualname__} does not say which scope it @needs, if any")
    return declared


_UNLIMITED = nullcontext()


def admitted(scope: Scope, needed: tuple[AccessScope, ...]) -> AbstractContextManager[None]:
    """Return the context in which a request runs, if the caller has all of these scopes for the object that the path
    names.

    Raises AccessError; entering the context raises RateLimited.
    """
    if not needed:
        return _UNLIMITED
    access: Access = scope["access"]
    access.require(needed, scope["path_params"].get(NAME))
    return access.limits or _UNLIMITED


def guarded(app: ASGIApp, needed: tuple[AccessScope, ...]) -> ASGIApp:
    """Return the application of a route that admits only callers with all of these scopes for the objects in its
    path."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        with admitted(scope, needed):
            await app(scope, receive, send)

    return guard


def access_of(request: Request) -> Access:
    """Return the permissions of the caller of a request."""
    access: Access = request.scope["access"]
    return access


async def _access(request: Request) -> Access:
    return access_of(request)  # a coroutine, because FastAPI runs plain functions in a thread


AccessOf = Annotated[Access, Depends(_access)]
"""Permissions of the caller as a parameter of an endpoint, which FastAPI sets."""


def shown_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the key that a request sends; None if missing."""
    for name, value in headers:
        if name == b"authorization":
            return _authorization(value)
        if name == b"api-key":
            return value.decode("latin-1")
    return None


def _authorization(value: bytes) -> str:
    """Return the key in the header Authorization; an empty text for none."""
    if value.startswith(b"Bearer ml_"):
        return value[7:].decode("latin-1").rstrip()
    scheme, _, rest = value.decode("latin-1").partition(" ")
    if scheme.lower() == "basic":
        try:
            return b64decode(rest, validate=True).decode("latin-1").partition(":")[2]
        except binascii.Error:
            return ""
    return rest.strip() if scheme.lower() == "bearer" else ""
