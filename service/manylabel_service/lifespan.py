"""From an opened store to restored models, and back in good order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from manylabel_service.errors import ServiceError, StorageGone
from manylabel_service.jobs.job_service import JobService
from manylabel_service.models.registry import Registry
from manylabel_service.storage import Store

BACKOFF_SECONDS = (0.1, 5.0)
"""From, and up to: between two attempts to reach a store that is not there yet."""

log = structlog.get_logger()


class Lifespan:
    """The life of one application.

    Parameters
    ----------
    store : opened at the start, closed at the end.
    registry : started when the store is open, stopped before it is closed.
    jobs : started after it, and stopped before it.
    on_ready : called when every model is restored and caught up.
    on_failure : called when that is impossible, after the reason was logged.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        jobs: JobService,
        on_ready: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._jobs = jobs
        self._on_ready = on_ready
        self._on_failure = on_failure

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """The application serves inside; it gets ready meanwhile, so that /livez answers at once."""
        starting = asyncio.create_task(self._start())
        try:
            yield
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self._jobs.stop()
            await self._registry.stop()
            await self._store.close()

    async def _start(self) -> None:
        try:
            await self._reach()
        except ServiceError as error:
            log.error("cannot_start", error=str(error))
            self._on_failure()
        except Exception:
            log.exception("cannot_start")
            self._on_failure()
        else:
            self._on_ready()

    async def _reach(self) -> None:
        """Open the store and start; a store that is not there yet is waited for."""
        pause, is_open = BACKOFF_SECONDS[0], False
        while True:
            try:
                if not is_open:
                    await self._store.open()
                is_open = True
                await self._registry.start()
                await self._jobs.start()
                return
            except StorageGone as error:
                if not error.heals:
                    raise
                log.warning("store_not_there", error=str(error), action=f"trying again in {pause:g} s")
            await asyncio.sleep(pause)
            pause = min(2 * pause, BACKOFF_SECONDS[1])
