"""Who asks, and whether they may: the middleware that knows the caller of a request, and the guard of a route."""

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from manylabel_service.access import scopes
from manylabel_service.access.grant import ANYONE

E = TypeVar("E", bound=Callable[..., Any])

_DECLARED = "__scopes__"


def needs(*needed: scopes.Scope) -> Callable[[E], E]:
    """Declare that callers of an endpoint need all of these scopes; without any, everybody may ask for it."""

    def declare(endpoint: E) -> E:
        setattr(endpoint, _DECLARED, needed)
        return endpoint

    return declare


OPEN = needs()
"""Declares that everybody may ask for an endpoint."""


def needed_by(endpoint: Callable[..., Any]) -> tuple[scopes.Scope, ...]:
    """Return the scopes that an endpoint has declared; raise TypeError if it has not said what it needs."""
    declared: tuple[scopes.Scope, ...] | None = getattr(endpoint, _DECLARED, None)
    if declared is None:
        raise TypeError(f"{endpoint.__module__}.{endpoint.__qualname__} does not say which scope it @needs, if any")
    return declared


class AccessMiddleware:
    """Finds out who asks: ``scope["access"]`` says what they may do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["access"] = ANYONE
        await self._app(scope, receive, send)
