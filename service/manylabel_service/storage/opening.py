"""Opening of the store named by the settings."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import structlog
from pydantic import SecretStr

from manylabel_service.backoff import pauses
from manylabel_service.errors import StorageUnavailable
from manylabel_service.storage.address import EMBEDDED, Address, is_redis
from manylabel_service.storage.protocol import Durability
from manylabel_service.storage.sqlite import SQLiteStore
from manylabel_service.storage.store import Store

log = structlog.get_logger()


class StoreSettings(Protocol):
    """Settings that `open_store` reads."""

    @property
    def store(self) -> str: ...
    @property
    def data_dir(self) -> Path: ...
    @property
    def durability(self) -> Durability: ...
    @property
    def redis_password(self) -> SecretStr | None: ...
    @property
    def redis_ca_file(self) -> Path | None: ...
    @property
    def redis_cert_file(self) -> Path | None: ...
    @property
    def redis_key_file(self) -> Path | None: ...
    @property
    def redis_timeout_seconds(self) -> float: ...


def open_store(settings: StoreSettings) -> Store:
    """Return the store of the settings, not open yet.

    Raises
    ------
    ValueError
        If the settings name no store.
    """
    if settings.store == EMBEDDED:
        return SQLiteStore(settings.data_dir, durability=settings.durability)
    if not is_redis(settings.store):
        raise ValueError(f"unknown store {settings.store.partition('://')[0]!r}; use sqlite or redis")
    # Imported only if needed: the client library takes 0.1 s to import.
    from manylabel_service.storage.redis import RedisStore

    return RedisStore(redis_address(settings), settings.redis_timeout_seconds, settings.durability)


async def open_when_available(
    store: Store, start: Callable[[], Awaitable[None]], backoff_seconds: tuple[float, float]
) -> None:
    """Open a store and call `start`; retry while the store is unavailable.

    Parameters
    ----------
    start : called with the open store; may be called again after it raised StorageUnavailable.
    backoff_seconds : minimum and maximum seconds between two attempts.

    Raises
    ------
    StoreUnusable
        The store cannot be used; or StorageUnavailable if waiting does not help.
    """
    is_open = False
    for pause in pauses(*backoff_seconds):
        try:
            if not is_open:
                await store.open()
            is_open = True
            await start()
            return
        except StorageUnavailable as error:
            if not error.heals:
                raise
            log.warning("store_unavailable", error=str(error), action=f"trying again in {pause:g} s")
        await asyncio.sleep(pause)


def redis_address(settings: StoreSettings) -> Address:
    """Return the address of the Redis server named in the settings, with its secrets."""
    password = settings.redis_password.get_secret_value() if settings.redis_password else None
    files = settings.redis_ca_file, settings.redis_cert_file, settings.redis_key_file
    return Address.parse(settings.store, password, *files)


def store_address(settings: StoreSettings) -> str:
    """Return the location of the store without secrets, for people to read."""
    if settings.store == EMBEDDED:
        return str(settings.data_dir)
    return str(Address.parse(settings.store))
