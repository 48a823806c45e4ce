"""Traces of requests by OpenTelemetry, which is imported only if `start` is called.

Each request has a span. An update has three child spans: `queue` (waiting), `append` (written to the log, with the
updates that share the append), and `fold` (applied to the model). Spans contain names of routes and models, and
positions, but no data of requests.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, NamedTuple

MAX_TRACED_UPDATES = 100
"""Maximum number of updates of one request, such as a stream, with spans."""
EXPORT_SECONDS = 5.0
"""Timeout in seconds of the collector; spans wait meanwhile, up to a maximum number."""

_provider: Any = None
_tracer: Any = None


class _Traced:
    """Traced request: the context, which is the parent of further spans, and the number of updates left to trace."""

    __slots__ = ("context", "updates_left")

    def __init__(self, context: Any) -> None:
        self.context = context
        self.updates_left = MAX_TRACED_UPDATES


class Mark(NamedTuple):
    """Position of an update in a trace, and the time when it began to wait."""

    context: Any
    unix_ns: int


_request: ContextVar[_Traced | None] = ContextVar("manylabel_traced_request", default=None)


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

    global _provider, _tracer
    name = os.environ.get("OTEL_SERVICE_NAME", "manylabel")
    resource = Resource.create({"service.name": name, "service.version": version("manylabel")})
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS)
    _provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = _provider.get_tracer("manylabel_service")


def stop() -> None:
    """Send the remaining spans, and stop tracing."""
    global _provider, _tracer
    if _provider is not None:
        _provider.shutdown()
    _provider = _tracer = None


def enabled() -> bool:
    """Return whether requests of this process are traced."""
    return _tracer is not None


class RequestSpan:
    """Span of a request, from its parsed headers to the end of its response.

    Parameters
    ----------
    method : method of the request.
    carrier : headers `traceparent` and `tracestate` of the request, if any, whose trace the span continues.
    """

    def __init__(self, method: str, carrier: Mapping[str, str]) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract(carrier) if carrier else None
        self._method = method
        self._span = _tracer.start_span(method, context=parent, kind=SpanKind.SERVER)
        _request.set(_Traced(set_span_in_context(self._span)) if self._span.is_recording() else None)

    def end(self, route: str | None, status: int, code: str | None, attributes: Mapping[str, str | None]) -> None:
        """End the span.

        Parameters
        ----------
        route : path template; None for an unknown path.
        status, code : status of the response, and its error code, if any.
        attributes : further attributes; None is omitted.
        """
        from opentelemetry.trace import StatusCode

        span = self._span
        if route is not None:
            span.update_name(f"{self._method} {route}")
        known = {"http.request.method": self._method, "http.route": route, "error.type": code, **attributes}
        span.set_attributes({name: value for name, value in known.items() if value is not None})
        span.set_attribute("http.response.status_code", status)
        if status >= 500 or not status:
            span.set_status(StatusCode.ERROR)
        span.end()


def mark() -> Mark | None:
    """Return the trace position of an update that starts to wait; None if it is not traced."""
    if _tracer is None or (traced := _request.get()) is None or not traced.updates_left:
        return None
    traced.updates_left -= 1
    return Mark(traced.context, time.time_ns())


class Stages:
    """Stages of updates that pass through the log together, with spans for the traced ones.

    Parameters
    ----------
    marks : traced updates with their indices.
    model : name of the model.
    """

    def __init__(self, marks: Sequence[tuple[int, Mark]], model: str) -> None:
        self._marks = marks
        self._model = model
        self._began = time.time_ns()
        for _, one in marks:
            self._span("queue", one.context, one.unix_ns, None)

    def done(self, stage: str, positions: Sequence[str | None] = ()) -> None:
        """End the stage that began when the previous one ended.

        Parameters
        ----------
        stage : name of the stage.
        positions : log positions of all updates, if known.
        """
        for place, one in self._marks:
            self._span(stage, one.context, self._began, positions[place] if positions else None)
        self._began = time.time_ns()

    def _span(self, name: str, context: Any, began: int, position: str | None) -> None:
        attributes = {"manylabel.model": self._model}
        if position is not None:
            attributes["manylabel.position"] = position
        _tracer.start_span(name, context=context, start_time=began, attributes=attributes).end()


def stages(marks: Iterable[Mark | None], model: str) -> Stages | None:
    """Return the stages of updates that leave the queue now; None if none of them is traced."""
    if _tracer is None:
        return None
    found = [(place, one) for place, one in enumerate(marks) if one is not None]
    return Stages(found, model) if found else None
