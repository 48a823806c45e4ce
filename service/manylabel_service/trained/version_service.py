"""Versions of one model are listed, read, promoted and deleted."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from manylabel_service.errors import NoVersionServed, ServiceError, StorageGone, VersionNotFound, VersionServed
from manylabel_service.trained.active_version import ActiveVersion
from manylabel_service.trained.version import Version
from manylabel_service.trained.version_store import Promoted, VersionStore

T = TypeVar("T")

log = structlog.get_logger()


class VersionService:
    """A version service answers requests about the versions of one model.

    Parameters
    ----------
    name : of the model.
    versions : in the store.
    active : the version that predicts.
    handle_error : given what went wrong with the store; returns what is to be raised.
    """

    def __init__(
        self,
        name: str,
        versions: VersionStore,
        active: ActiveVersion,
        handle_error: Callable[[Exception], ServiceError],
    ) -> None:
        self._name = name
        self._versions = versions
        self._active = active
        self._handle_error = handle_error

    async def versions(self) -> tuple[list[Version], int | None]:
        """Return the versions, the newest first, and the number of the one served.

        Raises
        ------
        VersionDamaged, StorageGone, ModelGone
        """
        versions, served = await self._stored(self._versions.all())
        return sorted(versions, key=lambda version: -version.number), served

    async def version(self, number: int | None) -> tuple[Version, bytes]:
        """Return a version, or the one served, with its artifact as it is stored.

        Raises
        ------
        NoVersionServed, VersionNotFound, VersionDamaged, StorageGone, ModelGone
        """
        catalogue = await self._stored(self._versions.read())
        if number is None:
            number = catalogue.served
        if number is None:
            raise NoVersionServed(self._name)
        listed = catalogue.versions.get(number)
        if listed is None:
            raise VersionNotFound(self._name, number)
        version = await self._stored(self._versions.version(listed))
        return version, await self._versions.artifact(version)

    async def promote(self, number: int) -> Promoted:
        """Have a version served, here and on every other server, from one position on.

        It is loaded here first: one that cannot be is never promoted.

        Raises
        ------
        VersionNotFound, VersionDamaged, StorageGone, ModelGone
        """
        loaded = await self._active.load(await self._stored(self._versions.find(number)))
        promoted = await self._stored(self._versions.promote(number))
        self._active.is_current(loaded)
        return promoted

    async def retire(self, number: int) -> None:
        """Delete a version.

        Raises
        ------
        VersionNotFound, VersionServed, StorageGone, ModelGone
        """
        await self._stored(self._versions.delete(number))
        try:
            await self._versions.collect_garbage()
        except StorageGone as error:  # there is no such version any more; its bytes go with the next one
            log.warning("version_delete_failed", model=self._name, version=number, error=str(error))

    async def _stored(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except (VersionNotFound, VersionServed):
            raise
        except Exception as error:
            raise self._handle_error(error) from error
