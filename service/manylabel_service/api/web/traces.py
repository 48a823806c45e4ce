"""The span of every request, around all other middleware."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from manylabel_service.audit.call import subject
from manylabel_service.telemetry.tracing import RequestSpan

_CARRIERS = frozenset({b"traceparent", b"tracestate"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class TracingMiddleware:
    """Traces requests; continues the trace that a request names (W3C `traceparent`)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        carrier = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _CARRIERS}
        span = RequestSpan(scope["method"] if scope["method"] in _METHODS else "other", carrier)
        status = 0

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        finally:
            route = getattr(scope.get("route"), "path", None)
            about = {} if route is None else subject(scope["path"])
            facts = {
                "manylabel.request_id": scope.get("request_id"),
                "manylabel.model": about.get("model"),
                "manylabel.position": scope.get("audit", {}).get("position"),
            }
            span.end(route, status, scope.get("problem"), facts)
