"""Startup of an application, and shutdown."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NoReturn

import structlog

from manylabel_service.api.context import Context
from manylabel_service.api.routers.server import exposition
from manylabel_service.archive.store_documents import check_complete
from manylabel_service.errors import ServiceError
from manylabel_service.storage import Store, open_when_available
from manylabel_service.storage.blob_places import agree_on_blobs
from manylabel_service.telemetry.metrics import Telemetry

BACKOFF_SECONDS = (0.1, 5.0)
"""Minimum and maximum seconds between two attempts to reach a store that is not available yet."""

SLEEP_SECONDS = 0.02
"""Duration in seconds of the sleep that measures the delay of the event loop; shorter delays may go unnoticed."""

log = structlog.get_logger()


@asynccontextmanager
async def lifespan(
    context: Context, store: Store, on_ready: Callable[[], None], on_failure: Callable[[], None]
) -> AsyncIterator[None]:
    """Serve in the context; the application starts in the background, so that /livez responds at once.

    Parameters
    ----------
    context : components of the application; its registry and then its jobs are started when the store is open, and
        stopped in reverse order.
    store : store, opened at startup and closed at shutdown.
    on_ready : callback when the server is ready.
    on_failure : callback when the server cannot become ready, or when a part could not be stopped; called after the
        reason was logged.
    """
    workers = context.telemetry.workers
    if workers is not None:
        await workers.listen(lambda: exposition(context))
    ending = _Shutdown()
    async with AsyncExitStack() as steps:  # each step runs, even if an earlier step failed or was cancelled
        if workers is not None:
            steps.callback(workers.close)
        if context.audit is not None:
            steps.push_async_callback(ending.step, "audit", context.audit.close)
        steps.push_async_callback(ending.step, "store", store.close)
        steps.push_async_callback(ending.step, "keyring", context.keyring.stop)
        if context.archive is not None:
            steps.push_async_callback(ending.step, "archive", context.archive.stop)
        steps.push_async_callback(ending.step, "models", context.registry.stop)
        steps.push_async_callback(ending.step, "jobs", context.jobs.stop)
        steps.push_async_callback(ending.step, "webhooks", context.webhooks.stop)
        measuring = asyncio.create_task(_measure_loop_delay(context.telemetry))
        starting = asyncio.create_task(_start(context, store, on_ready, on_failure))
        steps.push_async_callback(_cancelled, starting, measuring)
        yield
    if ending.failed:
        on_failure()


class _Shutdown:
    """Steps of a shutdown; `failed` is True once a step has failed."""

    def __init__(self) -> None:
        self.failed = False

    async def step(self, part: str, stop: Callable[[], Awaitable[None]]) -> None:
        """Stop a part; an error is logged."""
        try:
            await stop()
        except Exception:
            self.failed = True
            log.exception("stop_failed", part=part)


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _start(context: Context, store: Store, on_ready: Callable[[], None], on_failure: Callable[[], None]) -> None:
    try:
        await open_when_available(store, lambda: _start_components(context, store), BACKOFF_SECONDS)
    except (ServiceError, OSError) as error:
        log.error("cannot_start", error=str(error))
        on_failure()
    except Exception:
        log.exception("cannot_start")
        on_failure()
    else:
        on_ready()


async def _start_components(context: Context, store: Store) -> None:
    await check_complete(store)
    await agree_on_blobs(store, context.settings.blobs)
    workers = context.telemetry.workers
    await context.keyring.start(check=workers is None or workers.number == 0)
    if context.audit is not None:
        await context.audit.check()
    await context.registry.start()
    await context.jobs.start()
    await context.webhooks.start()
    if context.archive is not None:
        context.archive.start()


async def _measure_loop_delay(telemetry: Telemetry) -> NoReturn:
    """Sleep repeatedly, and count the delay of each wake-up."""
    while True:
        due = time.perf_counter() + SLEEP_SECONDS
        await asyncio.sleep(SLEEP_SECONDS)
        telemetry.woke(max(0.0, time.perf_counter() - due))
