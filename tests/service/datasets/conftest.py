"""Stores of both kinds, and catalogues over them."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from manylabel_service.datasets.catalogue import Datasets
from manylabel_service.settings import Settings
from manylabel_service.storage import Address, SQLiteStore, Store
from manylabel_service.storage.redis import RedisStore


@pytest.fixture(params=["sqlite", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open store with nothing in it."""
    if request.param == "sqlite":
        store: Store = SQLiteStore(tmp_path / "data")
    else:
        store = RedisStore(Address.parse(request.getfixturevalue("redis_server").url))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[Store]:
    store = SQLiteStore(tmp_path / "data")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def settings_with(tmp_path: Path) -> Callable[..., Settings]:
    """Settings whose data directory is the test's own."""

    def make(**settings: Any) -> Settings:
        return Settings(data_dir=tmp_path / "data", **settings)

    return make


@pytest.fixture
def catalogue(settings_with: Callable[..., Settings]) -> Callable[..., Datasets]:
    """Make catalogues: ``catalogue(store, max_datasets=2)``."""
    return lambda store, **settings: Datasets(store, settings_with(**settings))
