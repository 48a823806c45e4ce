"""Assembly of the application."""

import signal
from collections.abc import Callable
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi_offline import FastAPIOffline
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from manylabel_service.access.key import KeyStore
from manylabel_service.access.keyring import Keyring
from manylabel_service.api.context import Context
from manylabel_service.api.dispatch import Dispatcher
from manylabel_service.api.openapi import add_page, describe
from manylabel_service.api.routers import (
    corrections,
    doubts,
    events,
    forgetting,
    history,
    keys,
    label_health,
    labels,
    learning,
    metrics,
    model_labels,
    models,
    page,
    prefixes,
    server,
    snapshots,
    stream,
    versions,
    webhooks,
)
from manylabel_service.api.routers import datasets as dataset_calls
from manylabel_service.api.routers import jobs as job_calls
from manylabel_service.api.web.bodies import BodyBuffer
from manylabel_service.api.web.large_json import ParseQueue
from manylabel_service.api.web.middleware import RequestMiddleware
from manylabel_service.api.web.origins import OriginCheck
from manylabel_service.api.web.routes import check_guarded
from manylabel_service.archive.service import ArchiveService
from manylabel_service.audit.log import AuditFile, AuditLog, AuditOutput
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.hosting.kernels import Kernels
from manylabel_service.integrations.annif import router as annif
from manylabel_service.integrations.label_studio import router as label_studio
from manylabel_service.integrations.label_studio.notes import ModelNotes
from manylabel_service.integrations.open_inference import router as open_inference
from manylabel_service.jobs.job_service import open_jobs
from manylabel_service.lifespan import lifespan
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.models.membership import Membership
from manylabel_service.models.promoting import Promoter
from manylabel_service.models.registry import Registry
from manylabel_service.models.successions import Successions
from manylabel_service.online.snapshots.quota import SnapshotQuota
from manylabel_service.settings import Settings
from manylabel_service.storage import Store
from manylabel_service.storage.places import open_place
from manylabel_service.telemetry import tracing
from manylabel_service.telemetry.metrics import Telemetry
from manylabel_service.telemetry.worker_metrics import WorkerMetrics
from manylabel_service.ui import Files
from manylabel_service.webhooks.deliverer import Deliverer
from manylabel_service.webhooks.sources import Sources

_PARTS = (
    learning,
    labels,
    stream,
    open_inference,
    models,
    prefixes,
    metrics,
    model_labels,
    snapshots,
    history,
    corrections,
    doubts,
    label_health,
    forgetting,
    versions,
    dataset_calls,
    job_calls,
    events,
    label_studio,
    annif,
    keys,
    webhooks,
    server,
    page,
)


def create_app(
    settings: Settings,
    store: Store,
    *,
    workers: WorkerMetrics | None = None,
    kernels: Kernels | None = None,
    on_ready: Callable[[], None] = lambda: None,
    on_failure: Callable[[], None] = lambda: signal.raise_signal(signal.SIGTERM),
) -> FastAPI:
    """Return the application. Raises TypeError.

    Parameters
    ----------
    settings : settings of the server.
    store : store, opened at startup and closed at shutdown.
    workers : server processes of this server, if it has several.
    kernels : compilation and loading of compiled functions.
    on_ready : callback when the server is ready.
    on_failure : callback when the application cannot start, or a part of it could not be stopped; it must end the
        server.
    """
    # Routes are tried in order, so the most frequent ones come first. include_router would add a second search of 5 us
    # per request.
    routes = [route for part in _PARTS for route in part.router.routes]
    check_guarded(routes)
    registry, telemetry = open_registry(store, settings, kernels), Telemetry(workers, settings.metrics_models)
    datasets = DatasetStore(store, settings)
    jobs = open_jobs(store, settings, datasets, registry.poll)
    audit = _audit_log(settings, telemetry)
    reached_at = None if settings.is_local or settings.insecure else settings.host
    keyring = Keyring(KeyStore(store.documents, settings.limits.max_keys), reached_at)
    sources = Sources(store, settings, registry, jobs)
    deliverer = Deliverer(store, settings, registry, sources, telemetry.attempted_delivery)
    archive = None
    if settings.archive is not None:
        archive = ArchiveService(store, registry, open_place(settings.archive), settings)
    held = BodyBuffer(settings.limits.max_buffered_bytes, lambda: telemetry.refused("memory"))
    telemetry.watch_bodies(lambda: held.n_bytes)
    turns = ParseQueue(held, settings.max_queue_wait_seconds)
    page = Files.shipped()
    context = Context(
        settings,
        registry,
        Forgetter(registry.successions),
        Promoter(registry),
        telemetry,
        datasets,
        jobs,
        keyring,
        deliverer,
        page,
        held,
        turns,
        audit,
        archive,
    )
    app = FastAPIOffline(
        title="ManyLabel",
        version=version("manylabel"),
        routes=routes,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # otherwise looked up at every request
        lifespan=lambda _: lifespan(context, store, on_ready, on_failure),
    )
    app.state.context, app.state.drain, app.state.is_ready = context, context.draining.set, lambda: registry.ready
    app.state.label_studio = ModelNotes()
    add_page(app)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    app.build_middleware_stack = lambda: _stack(app)  # type: ignore[method-assign]
    if settings.allowed_origins:
        # A browser sends a preflight request, and shows the response to the page only if the server allows it.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["*"],
        )
    origins = OriginCheck(settings.host, settings.allowed_hosts, settings.allowed_origins)
    log_requests = settings.log_level == "debug"
    app.add_middleware(RequestMiddleware, telemetry=telemetry, log_requests=log_requests, audit=audit, origins=origins)
    if tracing.enabled():
        app.add_middleware(tracing.TracingMiddleware)
    return app


def open_registry(store: Store, settings: Settings, kernels: Kernels | None = None) -> Registry:
    """Return the registry of the models of a store, not started yet."""
    room = SnapshotQuota(store, settings.max_snapshot_bytes)
    membership = Membership(store, "server")
    successions = Successions(store, settings, room, membership)
    return Registry(store, settings, kernels or Kernels(), room, membership, successions)


def _stack(app: FastAPI) -> ASGIApp:
    """Return the middleware stack without FastAPI's layers, which would catch errors and count bytes again."""
    stack: ASGIApp = Dispatcher(AsyncExitStackMiddleware(app.router), app.routes, app.state.context)
    for middleware in reversed(app.user_middleware):
        stack = middleware.cls(stack, *middleware.args, **middleware.kwargs)
    return stack


def _audit_log(settings: Settings, telemetry: Telemetry) -> AuditLog | None:
    place = settings.audit_place
    if place is None:
        return None
    return AuditLog(AuditOutput() if place == "stdout" else AuditFile(place), telemetry.lost_audit)
