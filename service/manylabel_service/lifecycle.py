"""From an opened store to restored models, and back in good order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from manylabel_service.errors import ServiceError
from manylabel_service.replicas.registry import Registry
from manylabel_service.storage import Store

log = structlog.get_logger()


class Lifecycle:
    """The life of one application.

    Parameters
    ----------
    store : opened at the start, closed at the end.
    registry : started when the store is open, stopped before it is closed.
    on_ready : called when every model is restored and caught up.
    on_failure : called when that is impossible, after the reason was logged.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        on_ready: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._on_ready = on_ready
        self._on_failure = on_failure

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """The application serves inside; models are restored meanwhile, so that /livez answers at once."""
        if not await self._succeeds(self._store.open):
            yield  # nothing else to do until the server has ended
            return
        starting = asyncio.create_task(self._start())
        try:
            yield
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self._registry.stop()
            await self._store.close()

    async def _start(self) -> None:
        if await self._succeeds(self._registry.start):
            self._on_ready()

    async def _succeeds(self, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except ServiceError as error:
            log.error("cannot_start", error=str(error))
        except Exception:
            log.exception("cannot_start")
        else:
            return True
        self._on_failure()
        return False
