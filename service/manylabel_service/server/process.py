"""Server process: startup and shutdown of the application on a socket."""

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI
from uvicorn.lifespan.on import LifespanOn

from manylabel_service.app import create_app
from manylabel_service.server.connections import ConnectionLimits
from manylabel_service.server.protocol import protocol_for
from manylabel_service.server.sockets import BACKLOG, listen, url_of, warn_if_open
from manylabel_service.server.tls import HSTS, SHUTDOWN_SECONDS, Certificate, certificate_of
from manylabel_service.server.worker_place import WorkerSlot
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store, store_address
from manylabel_service.telemetry import tracing
from manylabel_service.telemetry.worker_metrics import WorkerMetrics

log = structlog.get_logger()

SWITCH_SECONDS = 1e-4
"""Seconds for which a thread may hold the interpreter while another waits for it."""

GC_OBJECTS = 20_000
"""Number of new objects after which the garbage collector runs.

64 waiting updates have 3,700 objects. At Python's default of 700, the collector would scan them several times without
finding garbage.
"""

POLL_SECONDS = 0.02
"""Poll interval in seconds of a worker that waits for permission to accept connections."""

MAX_BACKGROUND_THREADS = 6
NICENESS = 10
"""Niceness of background threads relative to the event loop, which needs the processor briefly but immediately."""

_ENDING = (signal.SIGTERM, signal.SIGINT)


def serve(settings: Settings) -> int:
    """Serve with this process until SIGTERM or SIGINT.

    Returns
    -------
    int
        The exit status: 0 after a clean stop, 1 if the server could not start, or a part of it could not be stopped.
    """
    try:
        listener = listen(settings)
    except OSError as error:
        log.error("cannot_start", error=f"cannot listen on {settings.host} port {settings.port}: {error}")
        return 1
    url = url_of(settings, listener)
    log.info("starting", url=url, store=store_address(settings))
    warn_if_open(settings)
    try:
        return run(settings, listener, on_ready=lambda: log.info("serving", url=url, docs=f"{url}/docs"))
    finally:
        log.info("stopped")


def run(
    settings: Settings, listener: socket.socket, *, on_ready: Callable[[], None], place: WorkerSlot | None = None
) -> int:
    """Serve on a socket until SIGTERM or SIGINT; needs the main thread.

    Parameters
    ----------
    settings : settings of the server.
    listener : listening or bound socket; closed at the end.
    on_ready : callback when the server is ready.
    place : slot of this process among the server processes; None if it is the only one.

    Returns
    -------
    int
        Exit status like that of `serve`.
    """
    # The store's threads wait for the GIL after each call of SQLite. At the default switch interval of 5 ms, a busy
    # event loop would delay every append by several times that.
    sys.setswitchinterval(SWITCH_SECONDS)
    status = 0

    def end(*_: object) -> None:
        for number in _ENDING:  # another signal would interrupt the shutdown
            signal.signal(number, signal.SIG_IGN)
        raise SystemExit(status)

    def fail() -> None:
        nonlocal status
        status = 1
        signal.raise_signal(signal.SIGTERM)

    def ready() -> None:
        # The objects loaded so far are permanent. If the garbage collector tracked them, each full collection would
        # delay requests by a tenth of a second or more.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_OBJECTS, 10, 10)
        # The priority is lowered only now, because compiling and restoring at a low priority would take many minutes on
        # a busy machine.
        asyncio.get_running_loop().set_default_executor(background_threads())
        on_ready()

    # uvicorn replaces the handlers of these signals, shuts down gracefully, and then calls the earlier handlers.
    for number in _ENDING:
        signal.signal(number, end)
    try:
        certificate = certificate_of(settings)
    except (OSError, ValueError) as error:
        log.error("cannot_start", error=f"cannot use tls_cert_file and tls_key_file: {error}")
        return 1
    workers = None if place is None else WorkerMetrics(place.directory, place.number, place.count)
    tracing.start(settings.otel_endpoint)
    try:
        app = create_app(settings, open_store(settings), workers=workers, on_ready=ready, on_failure=fail)
        gc.freeze()
        gc.enable()
        limits = ConnectionLimits(settings, app.state.context.telemetry)
        if certificate is not None:
            app.state.context.telemetry.watch_certificate(lambda: certificate.expires_at - time.time())
        _Server(_config(settings, app, limits), app, place, limits, certificate).run(sockets=[listener])
        return status
    finally:
        tracing.stop()


def _config(settings: Settings, app: FastAPI, limits: ConnectionLimits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol_for(limits),  # type: ignore[arg-type]  # any maker of protocols will do
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        headers=[] if settings.tls_cert_file is None else [HSTS],
        backlog=BACKLOG,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.limits.shutdown_timeout_seconds,
    )


class _Server(uvicorn.Server):
    """Uvicorn server that notifies the application when it stops, and can wait until the application is ready.

    Parameters
    ----------
    config : configuration with the application.
    app : application whose state has the functions `drain` and `is_ready`.
    place : see `run`.
    limits : limits of the connections.
    certificate : certificate for TLS; None without TLS.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: FastAPI,
        place: WorkerSlot | None,
        limits: ConnectionLimits,
        certificate: Certificate | None,
    ) -> None:
        super().__init__(config)
        self._certificate = certificate
        self._watching: asyncio.Task[None] | None = None
        self._limits = limits
        self._drain, self._is_ready = app.state.drain, app.state.is_ready
        self._held = place is not None and place.held
        self._is_worker = place is not None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal, as uvicorn does; a worker leaves SIGINT to its parent."""
        # Ctrl+C reaches the parent and the worker, and the parent also signals the worker; a second signal would stop
        # it at once.
        if not (self._is_worker and sig == signal.SIGINT):
            super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start like uvicorn, which accepts connections after the startup of the lifespan."""
        if self._held:
            self.lifespan = _HeldLifespan(self.config, lambda: self._is_ready() or self.should_exit)
        self._limits.start(self.server_state.connections)
        if self._certificate is None:
            await super().startup(sockets)
            return
        await super().startup([])
        self.servers = [await self._listen(each, self._certificate) for each in sockets or ()]
        self._watching = asyncio.create_task(self._certificate.watch(), name="certificate")

    async def _listen(self, listener: socket.socket, certificate: Certificate) -> asyncio.Server:
        """Accept connections like uvicorn, with timeouts for the start and end of TLS."""
        config = self.config

        def make() -> asyncio.Protocol:
            protocol: Any = config.http_protocol_class
            made: asyncio.Protocol = protocol(
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        return await asyncio.get_running_loop().create_server(
            make,
            sock=listener,
            backlog=BACKLOG,
            ssl=certificate.context,
            ssl_handshake_timeout=self._limits.header_timeout_seconds,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop like uvicorn, which waits for running responses; endless ones end now."""
        self._drain()
        await super().shutdown(sockets)
        self._limits.stop()
        if self._watching is not None:
            self._watching.cancel()


class _HeldLifespan(LifespanOn):
    """Lifespan whose startup waits for a condition."""

    def __init__(self, config: uvicorn.Config, until: Callable[[], bool]) -> None:
        super().__init__(config)
        self._until = until

    async def startup(self) -> None:
        await super().startup()
        while not (self._until() or self.should_exit):  # noqa: ASYNC110  uvicorn sets a flag, no event, when it has to end
            await asyncio.sleep(POLL_SECONDS)


def background_threads() -> ThreadPoolExecutor:
    """Return the executor of `asyncio.to_thread` in a ready server; its threads have a low priority if supported."""
    return ThreadPoolExecutor(MAX_BACKGROUND_THREADS, "manylabel-background", initializer=_lower_priority)


def _lower_priority() -> None:
    if sys.platform == "linux":  # only Linux has priorities per thread
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
