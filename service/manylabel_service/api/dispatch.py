"""Dispatch of requests: the caller, the route, the compression of downloads, and the response to an error."""

from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from manylabel_service.api.context import Context
from manylabel_service.api.web.access import shown_key
from manylabel_service.api.web.problems import Problem, no_route, problem_of, problem_response
from manylabel_service.api.web.routes import DirectRoute
from manylabel_service.errors import ServiceError
from manylabel_service.hosting.kernels import BASE

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

MIN_COMPRESSED_BYTES = 2**10
"""Minimum bytes of a response to compress; smaller responses are sent faster uncompressed."""
_LEVEL = 6
"""Compression level, which is the default of zlib; with level 1, the pages of the web UI would be 10 % larger."""
_EXCLUDED_TYPES = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/octet-stream")
"""Media types that are compressed already: snapshots, and datasets in NPZ."""


class Dispatcher:
    """Application that calls the route of a request, with ``scope["context"]`` and ``scope["access"]``.

    It is one layer, because each layer costs 1 to 2 us per request. One lookup finds the routes of calls on a named
    object; the router would try a regular expression for each route in turn, which takes 10 us per prediction.
    Responses to GET are compressed if the client accepts it. Responses to POST, such as predictions, are not, because
    the check takes 9 us even if nothing is compressed.
    """

    def __init__(self, router: ASGIApp, routes: Iterable[BaseRoute], context: Context) -> None:
        self._router, self._context = router, context
        self._gate = context.registry.kernels.gate
        self._compressed = GZipMiddleware(
            self._routed, MIN_COMPRESSED_BYTES, _LEVEL, exclude_content_types=_EXCLUDED_TYPES
        )
        self._direct = {route.call: route for route in routes if isinstance(route, DirectRoute) and route.call}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        context = self._context
        scope["context"] = context
        scope["access"] = context.keyring.access(shown_key(scope["headers"]))
        try:
            if scope["method"] in ("GET", "HEAD"):
                await self._compressed(scope, receive, send)
                return
            if self._gate.closed and scope["method"] in _WITH_BODY:
                self._gate.require((BASE,))  # a large body is parsed by a compiled function
            await self._route(scope)(scope, receive, send)
        except Problem as error:
            await problem_response(error, scope)(scope, receive, send)
        except ServiceError as error:
            await problem_response(problem_of(error), scope)(scope, receive, send)
        except HTTPException as error:
            await problem_response(no_route(error, scope), scope)(scope, receive, send)

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._route(scope)(scope, receive, send)

    def _route(self, scope: Scope) -> ASGIApp:
        named, slash, call = scope["path"].rpartition("/")
        before = named.rfind("/") + 1
        route = self._direct.get((scope["method"], named[:before], slash + call))
        if route is None or before == len(named):
            return self._router
        scope["route"], scope["path_params"] = route, {"name": named[before:]}
        return route.app
