"""Counters and histograms of /metrics."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Set
from importlib.metadata import version
from itertools import accumulate, chain
from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from manylabel_service.telemetry.exposition import write
from manylabel_service.telemetry.worker_metrics import WorkerMetrics

BUCKETS_SECONDS = (
    *(50e-6, 100e-6, 250e-6, 500e-6),
    *(1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3),
    *(1.0, 2.5, 5.0, 10.0),
)

WAKE_BUCKETS = (1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of delays of the event loop, in seconds."""

OTHERS = "_others"
"""Label for the counts of the models without separate series; no model can have this name."""

DELAY_BUCKETS_SECONDS = (1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86_400.0, 3 * 86_400.0, 7 * 86_400.0)
"""Upper bounds, in seconds, of the buckets of the delay of submitted labels."""


class _Series(NamedTuple):
    """Counters of a model that are needed in each request, and their label."""

    model: str
    predictions: Counter
    updates: Counter


class _LoopDelays(Collector):
    """Histogram of delays. One thread observes delays fifty times a second, even on an idle server, so it takes no
    locks."""

    def __init__(self) -> None:
        self._counts = [0] * (len(WAKE_BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a delay."""
        self._counts[bisect_left(WAKE_BUCKETS, seconds)] += 1
        self._sum += seconds

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily("manylabel_event_loop_delay_seconds", "Delay of the event loop in seconds.")
        bounds = [*map(floatToGoString, WAKE_BUCKETS), "+Inf"]
        family.add_metric([], list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)
        return [family]


class Telemetry:
    """Counters of one application.

    Parameters
    ----------
    workers : exchange of metrics between server processes, if there are several.
    max_models : maximum number of models with separate series.

    Attributes
    ----------
    registry : registry of /metrics, to which collectors can be added.
    in_progress : number of running requests, including streams and event subscriptions.
    """

    def __init__(self, workers: WorkerMetrics | None = None, max_models: int = 200) -> None:
        self.workers = workers
        self._max_models = max_models
        disable_created_metrics()  # type: ignore[no-untyped-call]  # an unused extra series for each counter
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        build = Gauge("manylabel_build_info", "The program.", ["version"], registry=self.registry)
        build.labels(version("manylabel")).set(1)
        self._requests = self._counter("http_requests", "Answers.", "handler", "method", "status")
        self._request_seconds = self._histogram(
            "http_request_duration_seconds", "Seconds from request to response.", "handler", "method"
        )
        self.in_progress = 0
        self._gauge("http_requests_inprogress", "Running requests, including streams and events.").set_function(
            lambda: self.in_progress
        )
        self._problems = self._counter(
            "manylabel_rejections", "Requests rejected with an error, by its code.", "reason"
        )
        self._audit_lost = self._counter("manylabel_audit_lost", "Audit lines lost because they could not be written.")
        self._webhook_deliveries = self._counter(
            "manylabel_webhook_deliveries", "Attempts to deliver an event to a webhook: delivered, failed.", "outcome"
        )
        self._predictions = self._counter("manylabel_predictions", "Examples predicted.", "model")
        self._updates = self._counter("manylabel_updates", "Examples learnt.", "model")
        self._rejected = self._counter("manylabel_updates_rejected", "Rejected updates.", "model", "reason")
        self._alarms = self._counter("manylabel_drift_alarms", "Drift alarms.", "model", "detector")
        self._predict_seconds = self._histogram(
            "manylabel_predict_duration_seconds", "Seconds from the complete body of predict to its response."
        )
        self._update_seconds = self._histogram(
            "manylabel_update_duration_seconds",
            "Seconds from the complete body of an update until it is logged and learnt.",
        )
        self._label_delay_seconds = self._histogram(
            "manylabel_label_delay_seconds",
            "Seconds from a stored prediction to its labels.",
            buckets=DELAY_BUCKETS_SECONDS,
        )
        self._refusals = self._counter(
            "manylabel_refusals", "Connections and requests ended before they reached the application.", "reason"
        )
        self._connections = self._gauge("manylabel_connections", "Open connections.")
        self._unsent_bytes = self._gauge("manylabel_unsent_bytes", "Bytes of responses that clients have not read.")
        self._body_bytes = self._gauge("manylabel_body_bytes", "Bytes of request bodies being received or waiting.")
        self._loop_delay_seconds = _LoopDelays()
        self.registry.register(self._loop_delay_seconds)
        self._by_request: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._by_model: dict[str, _Series] = {}

    def requested(self, handler: str, method: str, status: int, seconds: float) -> None:
        """Count a response. `handler` is the route's template, never a path."""
        children = self._by_request.get((handler, method, status))
        if children is None:
            children = (
                self._requests.labels(handler, method, status),
                self._request_seconds.labels(handler, method),
            )
            self._by_request[handler, method, status] = children
        count, duration = children
        count.inc()
        duration.observe(seconds)

    def answered_problem(self, code: str) -> None:
        """Count a response with a problem document."""
        self._problems.labels(code).inc()

    def lost_audit(self, n_calls: int) -> None:
        """Count calls missing from the audit log."""
        self._audit_lost.inc(n_calls)

    def attempted_delivery(self, outcome: str) -> None:
        """Count an attempt to deliver an event to a webhook: ``delivered`` or ``failed``."""
        self._webhook_deliveries.labels(outcome).inc()

    def predicted(self, model: str, n_examples: int, seconds: float) -> None:
        """Count a prediction."""
        self._of_model(model).predictions.inc(n_examples)
        self._predict_seconds.observe(seconds)

    def updated(self, model: str, n_examples: int, seconds: float, alarms: Iterable[str | None] = ()) -> None:
        """Count an update; a replayed response has learnt 0 examples.

        `alarms` are the labels whose drift detectors fired, None for the detector of all labels.
        """
        series = self._of_model(model)
        series.updates.inc(n_examples)
        self._update_seconds.observe(seconds)
        for label in alarms:
            self._alarms.labels(series.model, "all" if label is None else "label").inc()

    def labelled(self, delay_seconds: float) -> None:
        """Count a stored prediction that got its labels."""
        self._label_delay_seconds.observe(delay_seconds)

    def rejected(self, model: str, reason: str) -> None:
        """Count a rejected update."""
        self._rejected.labels(self._of_model(model).model, reason).inc()

    def refused(self, reason: str) -> None:
        """Count a connection or request that ended before the application received all of it."""
        self._refusals.labels(reason).inc()

    def watch_connections(self, n_open: Callable[[], int], unsent_bytes: Callable[[], int]) -> None:
        """Export the number of open connections and the bytes that clients have not read."""
        self._connections.set_function(n_open)
        self._unsent_bytes.set_function(unsent_bytes)

    def watch_certificate(self, expires_in_seconds: Callable[[], float]) -> None:
        """Export the remaining validity of the server's certificate."""
        name, about = "manylabel_tls_certificate_expires_seconds", "Seconds until the server's certificate expires."
        Gauge(name, about, registry=self.registry).set_function(expires_in_seconds)

    def watch_bodies(self, n_bytes: Callable[[], int]) -> None:
        """Export the bytes of incoming or waiting request bodies."""
        self._body_bytes.set_function(n_bytes)

    def woke(self, late_seconds: float) -> None:
        """Count the delay of a wake-up by the event loop."""
        self._loop_delay_seconds.observe(late_seconds)

    async def exposition(self, *others: Metric) -> bytes:
        """Return all metrics of this process in Prometheus' text format, with additional families."""
        labels = {} if self.workers is None else {"worker": str(self.workers.number)}
        return await write(chain(self.registry.collect(), others), labels)

    @property
    def models(self) -> Set[str]:
        """Names of the models that have series."""
        return self._by_model.keys() - {OTHERS}

    @property
    def full(self) -> bool:
        """True if no other model can have separate series."""
        return len(self.models) >= self._max_models

    def has_series(self, model: str) -> bool:
        """Return whether a model has separate series; create them if the limit allows."""
        return self._of_model(model).model == model

    def keep(self, models: Collection[str]) -> None:
        """Drop the series of all other models."""
        for model in self.models - set(models):
            del self._by_model[model]
            for counter in (self._predictions, self._updates, self._rejected, self._alarms):
                counter.remove_by_labels({"model": model})

    def _of_model(self, model: str) -> _Series:
        series = self._by_model.get(model)
        if series is None:
            if len(self._by_model) - (OTHERS in self._by_model) >= self._max_models:
                return self._by_model.get(OTHERS) or self._add_series(OTHERS)
            return self._add_series(model)
        return series

    def _add_series(self, model: str) -> _Series:
        series = self._by_model[model] = _Series(model, self._predictions.labels(model), self._updates.labels(model))
        return series

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = BUCKETS_SECONDS) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)
