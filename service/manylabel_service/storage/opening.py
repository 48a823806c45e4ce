"""Opening of the store named by the settings."""

from pathlib import Path
from typing import Protocol

from pydantic import SecretStr

from manylabel_service.storage.address import EMBEDDED, Address, is_redis
from manylabel_service.storage.sqlite import SQLiteStore
from manylabel_service.storage.store import Store


class StoreSettings(Protocol):
    """Settings that `open_store` reads."""

    @property
    def store(self) -> str: ...
    @property
    def data_dir(self) -> Path: ...
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
        return SQLiteStore(settings.data_dir)
    if not is_redis(settings.store):
        raise ValueError(f"there is no store {settings.store.partition('://')[0]!r}; there are sqlite and redis")
    # Imported only if needed: the client library takes 0.1 s to import.
    from manylabel_service.storage.redis import RedisStore

    return RedisStore(redis_address(settings), settings.redis_timeout_seconds)


def redis_address(settings: StoreSettings) -> Address:
    """Return the address of the Redis that the settings name, with its secrets."""
    password = settings.redis_password.get_secret_value() if settings.redis_password else None
    files = settings.redis_ca_file, settings.redis_cert_file, settings.redis_key_file
    return Address.parse(settings.store, password, *files)


def store_address(settings: StoreSettings) -> str:
    """Return where the store is, without secrets, for people to read."""
    if settings.store == EMBEDDED:
        return str(settings.data_dir)
    return str(Address.parse(settings.store))
