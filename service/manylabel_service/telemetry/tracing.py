"""Traces of requests by OpenTelemetry, which is imported only if `start` is called.

A request has a separate span. An update has three below it: `queue` until its turn, `append` until it is in the log
with those that share the append, and `fold` until the model has learnt it. Spans have names of routes and models, and
positions; nothing of what was sent.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, NamedTuple

MAX_TRACED_UPDATES = 100
"""Updates of one request that have spans: a stream is one request."""
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
    """Position of an update in a trace, and the time at which it began to wait."""

    context: Any
    unix_ns: int


_request: ContextVar[_Traced | None] = ContextVar("manylabel_traced_request", default=None)


def start(endpoint: str | None) -> None:
    """Trace the requests of this process from now on, if there is the address of a collector.

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
    """The span of a request, from when its head was read to the end of its response.

    Parameters
    ----------
    method : of the request.
    carrier : its headers `traceparent` and `tracestate`, if it has them: the span continues with the trace they name.
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
        route : the template of the address; None where nothing is.
        status, code : of the response; the code of its error, if it has one.
        attributes : further ones; those that are None are omitted.
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
    marks : of the updates that are traced, each with its place among all of them.
    model : of the updates.
    """

    def __init__(self, marks: Sequence[tuple[int, Mark]], model: str) -> None:
        self._marks = marks
        self._model = model
        self._began = time.time_ns()
        for _, one in marks:
            self._span("queue", one.context, one.unix_ns, None)

    def done(self, stage: str, positions: Sequence[str | None] = ()) -> None:
        """End the stage that began with the end of the one before.

        Parameters
        ----------
        stage : its name.
        positions : of all updates in the log, where they are known.
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
