"""A test client that checks each response against the description of its route."""

from functools import cache, cached_property
from typing import Any

import httpx2
from pydantic import TypeAdapter
from starlette.routing import Match
from starlette.testclient import TestClient

from manylabel_service.api.web.problems import MEDIA_TYPE, InferenceError, ProblemDocument
from manylabel_service.api.web.routes import GuardedRoute

BYTES = "application/octet-stream"
"""Media type of tensors as binary data, which have no schema."""
BEFORE_ROUTES = {"host_not_allowed", "origin_not_allowed", "method_not_allowed"}
"""Codes of problems that do not depend on the route."""


class DescribedClient(TestClient):
    """Client of an application in this process. A response that the description does not have is an AssertionError."""

    def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request, and check the response unless it is streamed."""
        response = super().send(request, stream=stream, **options)
        route = None if stream or request.method == "HEAD" else self._route_of(request.method, request.url.path)
        if route is not None:
            _check(route, response)
        return response

    @cached_property
    def _routes(self) -> dict[tuple[str, str], GuardedRoute | None]:
        """Routes of earlier requests, by method and path."""
        return {}

    def _route_of(self, method: str, path: str) -> GuardedRoute | None:
        if (method, path) not in self._routes:
            app: Any = self.app
            scope = {"type": "http", "path": path, "method": method, "root_path": ""}
            routes = (route for route in app.routes if route.matches(scope)[0] is Match.FULL)
            guarded = (route for route in routes if isinstance(route, GuardedRoute) and route.include_in_schema)
            self._routes[method, path] = next(guarded, None)
        return self._routes[method, path]


def _check(route: GuardedRoute, response: httpx2.Response) -> None:
    status, kind = response.status_code, response.headers.get("content-type")
    told = (response.request.method, route.path, status, kind, response.content[:500])
    if status == route.status_code:
        if route.response_model is not None and kind != BYTES:
            assert kind == "application/json", told
            _adapter(route.response_model).validate_json(response.content, strict=True)
    elif status >= 400:
        is_problem = kind == MEDIA_TYPE
        assert is_problem or kind == "application/json", told
        error = _adapter(ProblemDocument if is_problem else InferenceError).validate_json(response.content, strict=True)
        code = getattr(error, "code", None)  # errors of the Open Inference Protocol have none
        if code not in BEFORE_ROUTES:
            assert status in route.responses, told
            assert code is None or f"`{code}`" in route.responses[status]["description"], told


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)
