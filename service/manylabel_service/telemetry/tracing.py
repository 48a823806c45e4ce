"""Traces of requests by OpenTelemetry, which is imported only if `start` is called."""

import os
from importlib.metadata import version
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

EXPORT_SECONDS = 5.0
"""Timeout in seconds for the collector; meanwhile, a limited number of spans waits."""

_provider: Any = None


def start(endpoint: str | None) -> None:
    """Trace the requests of this process if the address of a collector is set.

    OpenTelemetry reads the name of the service and the share of the requests that are traced from OTEL_SERVICE_NAME,
    OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.
    """
    if endpoint is None:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    global _provider
    name = os.environ.get("OTEL_SERVICE_NAME", "manylabel")
    resource = Resource.create({"service.name": name, "service.version": version("manylabel")})
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS)
    _provider.add_span_processor(BatchSpanProcessor(exporter))


def stop() -> None:
    """Send the remaining spans, and stop tracing."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
    _provider = None


def enabled() -> bool:
    """Return whether requests of this process are traced."""
    return _provider is not None


class TracingMiddleware:
    """Middleware that traces requests by OpenTelemetry's ASGI instrumentation, and continues the trace in `traceparent`
    (W3C).

    A span has the template of the path instead of the path and the query, which may have names and values of a client.
    """

    def __init__(self, app: ASGIApp) -> None:
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
        from opentelemetry.trace import get_current_span

        self._app, self._span = app, get_current_span
        self._traced = OpenTelemetryMiddleware(
            self._with_route,
            default_span_details=lambda scope: (scope["method"], {}),
            tracer_provider=_provider,
            exclude_spans=["receive", "send"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        hidden = {"path": "", "raw_path": b"", "query_string": b"", "traced": scope}
        await self._traced({**scope, **hidden}, receive, send)

    async def _with_route(self, hidden: Scope, receive: Receive, send: Send) -> None:
        scope, span = hidden["traced"], self._span()

        async def send_noting(message: Message) -> None:
            if message["type"] == "http.response.start":  # the span ends with the response
                route = getattr(scope.get("route"), "path", None)
                facts = {
                    "http.route": route,
                    "manylabel.request_id": scope.get("request_id"),
                    "error.type": scope.get("problem"),
                }
                span.set_attributes({name: value for name, value in facts.items() if value is not None})
                if route is not None:
                    span.update_name(f"{scope['method']} {route}")
            await send(message)

        await self._app(scope, receive, send_noting)
