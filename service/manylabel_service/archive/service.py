"""Continuous archiving of the store of a running server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

import structlog

from manylabel_service.archive.shipping import Shipper
from manylabel_service.environment import time
from manylabel_service.errors import ServiceError, StorageUnavailable
from manylabel_service.models.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.storage import Store
from manylabel_service.storage.places.place import ArchiveError, Place

LAST_SECONDS = 20.0
"""Maximum seconds for the last pass when the server stops."""

log = structlog.get_logger()


class ArchiveStatus(NamedTuple):
    """Progress of archiving on a server.

    Attributes
    ----------
    lag_seconds : seconds since the beginning of the last complete pass; None if this server does not archive.
    objects, size_bytes : number and bytes of objects written by this process.
    error : reason why the last pass is incomplete; None if it is complete.
    """

    lag_seconds: float | None
    objects: int
    size_bytes: int
    error: str | None


class ArchiveService:
    """Archiver of the store, active while this server is the leader.

    Parameters
    ----------
    store, registry : of the server.
    place : place of the archive.
    settings : settings of this server.
    """

    def __init__(self, store: Store, registry: Registry, place: Place, settings: Settings) -> None:
        self._store = store
        self._registry = registry
        self._place = place
        self._settings = settings
        self._shipper: Shipper | None = None
        self._reached = 0.0
        self._objects = self._size_bytes = 0
        self._error: str | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def status(self) -> ArchiveStatus:
        """Current progress."""
        lag = None if self._shipper is None else time.monotonic() - self._reached
        return ArchiveStatus(lag, self._objects, self._size_bytes, self._error)

    def start(self) -> None:
        """Archive from now on; the registry has started."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Archive the remaining data after the last request, then stop."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._shipper is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self._pass(self._shipper)

    async def _run(self) -> None:
        while True:
            if self._registry.membership.leads:
                if self._shipper is None:
                    self._shipper, self._reached = Shipper(self._store, self._place, self._settings), time.monotonic()
                await self._pass(self._shipper)
            else:
                self._shipper, self._error = None, None
            await asyncio.sleep(self._settings.archive_seconds)

    async def _pass(self, shipper: Shipper) -> None:
        began = time.monotonic()
        try:
            shipped = await shipper.ship()
        except (ArchiveError, ServiceError, OSError) as error:
            self._note(str(error), gone=isinstance(error, StorageUnavailable))
        except Exception as error:  # otherwise this process would stop archiving
            log.exception("archive_failed")
            self._error = f"{type(error).__name__}: {error}"
        else:
            if self._error is not None:
                log.info("archive_available")
            self._reached, self._error = began, None
            self._objects += shipped.objects
            self._size_bytes += shipped.size_bytes

    def _note(self, error: str, gone: bool) -> None:
        if error != self._error and not gone:  # unavailability of the store is logged elsewhere
            action = "nothing is archived until it responds; updates continue"
            log.error("archive_unavailable", error=error, action=action)
        self._error = error
