"""The application on a socket: how the process starts and ends."""

import gc
import signal
import socket
import sys

import structlog
import uvicorn
from fastapi import FastAPI
from prometheus_client import disable_created_metrics

from manylabel_service.app import create_app
from manylabel_service.settings import Settings
from manylabel_service.storage.sqlite import SQLiteStore

log = structlog.get_logger()

SWITCH_SECONDS = 1e-4
"""How long one thread may keep the interpreter from another that waits for it."""

BACKLOG = 2048
"""Connections that may wait to be accepted."""


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT.

    Returns
    -------
    int
        The exit status: 0 after a clean stop, 1 if the server could not start.
    """
    # The store's threads wait for the interpreter each time they are back from SQLite. At the default of 5 ms, a busy
    # event loop makes every append pay that several times.
    sys.setswitchinterval(SWITCH_SECONDS)
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each counter, read by nobody
    try:
        listener = _listen(settings)
    except OSError as error:
        log.error("cannot_start", error=f"cannot listen on {settings.host} port {settings.port}: {error}")
        return 1
    return _serve(settings, listener)


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)


def _serve(settings: Settings, listener: socket.socket) -> int:
    url = _url(settings, listener)
    status = 0

    def end(*_: object) -> None:
        raise SystemExit(status)

    def fail() -> None:
        nonlocal status
        status = 1
        signal.raise_signal(signal.SIGTERM)

    def ready() -> None:
        # What is loaded by now stays. Left to the collector, every full collection walks all of it, and holds up
        # requests for a tenth of a second and more.
        gc.collect()
        gc.freeze()
        log.info("serving", url=url, docs=f"{url}/docs")

    # uvicorn takes these signals over, stops in good order, then hands them on to the handlers it found.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    app = create_app(settings, SQLiteStore(settings.data_dir), on_ready=ready, on_failure=fail)
    log.info("starting", url=url, store=settings.store, data_dir=str(settings.data_dir))
    try:
        uvicorn.Server(_config(settings, app)).run(sockets=[listener])
    finally:
        log.info("stopped")
    return status


def _config(settings: Settings, app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=settings.drain_seconds,
    )


def _url(settings: Settings, listener: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}"
