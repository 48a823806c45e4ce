"""/livez, /readyz and /metrics: health and metrics for load balancers, Kubernetes and Prometheus."""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Literal

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.samples import Sample
from pydantic import Field
from starlette.responses import Response

from manylabel_service.access.key import Key
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.problems import Compiling
from manylabel_service.api.web.routes import Router
from manylabel_service.clock import now_ms
from manylabel_service.errors import NotReady, StorageError
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.hosting.kernels import SERVED
from manylabel_service.models.membership import Member
from manylabel_service.slices import in_slices
from manylabel_service.telemetry.exposition import only

router = Router("server")

_GAUGES = {
    "model_labels": "Labels known.",
    "model_features": "Features known.",
    "model_bytes": "Bytes of memory of the model.",
    "model_ignored_features": "Features ignored in learnt examples because of the model's limits.",
    "model_ignored_labels": "Labels ignored in learnt examples because of the model's limits.",
    "model_version": "Served version of a trained model; 0 for none.",
    "queue_depth": "Examples waiting to be learnt.",
    "log_lag_entries": "Log entries that this process has not applied yet; counted up to about 1,000.",
    "snapshot_age_seconds": "Seconds since the last snapshot, or since the start of the process.",
    "snapshot_bytes": "Bytes of the last snapshot.",
    "history_bytes": "Compressed bytes of the history of the model at the last snapshot of this process.",
    "kept_prediction_bytes": "Bytes of stored predictions when this process last stored one.",
}

_TOTALS = {
    "ready": "Whether the server has started and is not stopping, like /readyz.",
    "storage_gone_seconds": "Seconds for which the store has been unreachable; 0 if it responds.",
    "failed_models": "Models that cannot be restored, or whose version cannot be loaded; /readyz lists them.",
    "archive_lag_seconds": "Seconds since the last complete pass of archiving began, on the server that archives.",
    "resident_models": "Models in memory.",
    "resident_bytes": "Bytes of memory of all models in memory.",
    "downloads": "Running downloads.",
    "snapshot_memory_bytes": "Bytes of memory of snapshots being stored.",
    "webhook_queue_events": "Events waiting for delivery to webhooks; 0 on a server that does not deliver.",
    "webhooks_disabled": "Disabled webhooks; 0 on a server that does not deliver.",
    "stored_snapshot_bytes": "Bytes of the snapshots of all models in the store, some seconds old.",
}
"""Metrics of the process, by name, with their descriptions."""


class Alive(ResponseModel):
    """Response that the process serves requests."""

    live: Literal[True]


class Ready(ResponseModel):
    """Response that the server handles requests; a model that is not in memory is restored by its first request."""

    ready: Literal[True]
    failed: list[str] = Field(default_factory=list)
    """Models that this server could not restore and that the caller may see; present with the scope `read`. The log of
    the server has the reasons."""
    storage_gone_seconds: float | None = None
    """Seconds for which the store has been unreachable; absent while it is reachable."""
    archive_lag_seconds: float | None = None
    """Seconds since the last complete pass of archiving began; present on the server that archives."""
    archive_error: str | None = None
    """Reason why the last pass of archiving is not complete; absent if the pass is complete."""
    compiling: Compiling | None = None
    """Progress of the compilation of functions that some models need; these models respond with 503 until it ends.
    Absent if nothing is compiled."""


class ReplicaDescription(ResponseModel):
    """Description of a process that shares the store."""

    id: str
    this: bool
    """Whether this process sent the response."""
    role: str
    """Role: `server` or `worker`."""
    host: str
    """Name of the machine or container."""
    pid: int
    release: str
    build: str
    """Build: processes of one build use the same code, the same libraries and the same kind of processor."""
    supports: int
    """Highest format number of a store that the process supports."""
    started_at: str
    ready: bool
    models: dict[str, str]
    """Positions of the most recently used models in memory; at most 100."""
    withheld: dict[str, str]
    """Models that the process must not serve, each with the error code; another release must serve them."""


class Replicas(ResponseModel):
    """Processes that share the store."""

    format: int
    """Format number of the store; `manylabel upgrade-store` raises it."""
    replicas: list[ReplicaDescription]
    """Processes in the order of their start."""


@router.endpoint("GET /livez", "Is the process alive?", None, Alive, stored=False)
async def is_live() -> Alive:
    """Responds with 200 as soon as the process serves requests."""
    return Alive(live=True)


@router.endpoint(
    "GET /readyz",
    "Is the server ready for requests?",
    None,
    Ready,
    ["not_ready", "release_too_old", "replay_mismatch"],
    stored=False,
    response_model_exclude_unset=True,
)
async def is_ready(context: ContextOf, access: AccessOf) -> Ready:
    """Responds with 503 while the server starts or stops. It also does so while another release must serve a model that
    this release cannot (`release_too_old`, `replay_mismatch`), so that a rolling upgrade stops. It also responds with
    503 if the store had keys and has lost all of them. The first start on a machine compiles functions; `compiling` has
    the progress. A model that cannot be restored, or whose version cannot be loaded, is in `failed` and does not block
    the others. Without the store, predictions continue, and updates respond with 503. A caller without the scope `read`
    sees only that the server is ready, and the progress of compilation."""
    registry = context.registry
    check_ready(context)
    ready = Ready(ready=True)
    if (compiling := registry.kernels.gate.compiling(SERVED)) is not None:
        ready.compiling = Compiling(**compiling._asdict())
    if not access.allows("read"):
        return ready
    ready.failed = list(filter(access.may_see, registry.failed))
    if registry.storage_gone_seconds is not None:
        ready.storage_gone_seconds = round(registry.storage_gone_seconds, 3)
    if context.archive is not None and (status := context.archive.status).lag_seconds is not None:
        ready.archive_lag_seconds = round(status.lag_seconds, 3)
        if status.error is not None and access.sees_all:
            ready.archive_error = status.error
    return ready


def check_ready(context: Context) -> None:
    """Raise NotReady unless the server can handle requests."""
    context.registry.check_ready()
    context.keyring.check_ready()


@router.endpoint("GET /v1/replicas", "List the processes that share the store", "read", Replicas, stored=False)
async def list_replicas(context: ContextOf, access: AccessOf) -> dict[str, Any]:
    """Lists the servers and workers that share the store, their releases, and the format number of the store. Entries
    of other processes are up to two seconds old; a process that crashed disappears after ten."""
    registry = context.registry
    members = registry.membership.members
    return {
        "format": registry.membership.format,
        "replicas": [
            {
                **member.model_dump(include=set(Member.model_fields) - {"format"}),
                "models": {name: at for name, at in member.models.items() if access.may_see(name)},
                "withheld": {name: why for name, why in member.withheld.items() if access.may_see(name)},
                "this": member.id == registry.membership.id,
            }
            for member in members
        ],
    }


@router.endpoint(
    "GET /metrics",
    "Metrics for Prometheus",
    "read",
    stored=False,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
async def scrape_metrics(context: ContextOf, access: AccessOf) -> Response:
    """Returns metrics in the Prometheus text format. Prometheus labels name models, routes and metrics, never a label
    or a feature."""
    content, workers = await exposition(context), context.telemetry.workers
    if workers is not None:
        content = await workers.joined(content)
    if not access.sees_all:
        content = await asyncio.to_thread(only, content, access.may_see)
    return Response(content, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def exposition(context: Context) -> bytes:
    """Return all series of this process."""
    registry, telemetry = context.registry, context.telemetry
    # Keep the counters of evicted models, because rate() is wrong if a counter restarts from 0.
    telemetry.keep(await registry.listing.existing(telemetry.models))
    resident = registry.resident(telemetry.models if telemetry.full else None)
    replicas = [replica for replica in resident if replica.serving and telemetry.has_series(replica.name)]
    gauges, is_ready = _Gauges(), False
    async for replica in in_slices(replicas):
        if replica.serving:  # the model may have been stopped in the meantime
            gauges.add_model(replica)
    for state, count in context.jobs.counts().items():
        gauges.add("jobs", count, state=state)
    for name, n_entries in (await registry.listing.log_lags(replicas)).items():
        gauges.add("log_lag_entries", n_entries, model=name)
    gauges.add_keys(context.keyring.known)
    with suppress(NotReady):
        check_ready(context)
        is_ready = True
    gauges.add("ready", is_ready)
    gauges.add("storage_gone_seconds", registry.storage_gone_seconds or 0.0)
    gauges.add("failed_models", len(registry.failed))
    gauges.add("resident_models", registry.n_resident)
    gauges.add("resident_bytes", await registry.resident_bytes())
    if context.archive is not None and (lag := context.archive.status.lag_seconds) is not None:
        gauges.add("archive_lag_seconds", lag)
    gauges.add("downloads", context.downloads.taken)
    gauges.add("snapshot_memory_bytes", registry.snapshot_room.bytes_in_memory)
    gauges.add("webhook_queue_events", context.webhooks.waiting)
    gauges.add("webhooks_disabled", context.webhooks.disabled)
    with suppress(StorageError):
        gauges.add("stored_snapshot_bytes", await registry.snapshot_room.stored_bytes())
    return await telemetry.exposition(*gauges.families)


class _Gauges:
    """Gauges of the process, its models, jobs and keys."""

    def __init__(self) -> None:
        texts = {
            **_GAUGES,
            **_TOTALS,
            "score": "Prequential measures.",
            "baseline_score": "Prequential measures of a predictor of the most frequent labels so far.",
            "jobs": "Jobs in the store.",
            "key_age_seconds": "Seconds since a key was created, by its id; without revoked keys.",
            "key_expires_seconds": "Seconds until a key expires, negative afterwards; without keys that never expire.",
        }
        self._families = {name: GaugeMetricFamily(f"manylabel_{name}", text) for name, text in texts.items()}

    @property
    def families(self) -> Collection[Metric]:
        """Metric families of all gauges."""
        return self._families.values()

    def add(self, gauge: str, value: float, **labels: str) -> None:
        """Add a sample of a gauge with these labels."""
        family = self._families[gauge]
        family.samples.append(Sample(family.name, labels, value))

    def add_keys(self, keys: Iterable[Key]) -> None:
        """Add the age and expiry of keys."""
        unix_ms = now_ms()
        for key in keys:
            if key.state(unix_ms) == "revoked":
                continue
            self.add("key_age_seconds", (unix_ms - key.created_unix_ms) / 1000, key=key.id)
            if key.expires_unix_ms is not None:
                self.add("key_expires_seconds", (key.expires_unix_ms - unix_ms) / 1000, key=key.id)

    def add_model(self, replica: HostedModel) -> None:
        """Add the gauges and metrics of a model."""
        name = replica.record.name
        for gauge, value in replica.gauges().items():
            self.add(gauge, value, model=name)
        if (measures := replica.measures()) is None:
            return
        for window in ("cumulative", "window"):
            baseline = measures[window]["baseline"]
            for gauge, found in (("score", measures[window]), ("baseline_score", baseline)):
                for measure, value in found.items():
                    if value is not None and value is not baseline:
                        self.add(gauge, value, model=name, measure=measure, window=window)
