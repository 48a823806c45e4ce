"""Helpers for stores."""

import contextlib
from collections.abc import AsyncIterator

from tests.support.waiting import eventually_async

from manylabel_service.errors import StorageUnavailable
from manylabel_service.settings import Settings
from manylabel_service.storage import Store, open_store


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """The store of servers, opened by this process too."""
    store = open_store(Settings(store=url))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def wait_until_available(store: Store) -> None:
    """Wait until a store that was away answers again."""

    async def answers() -> bool:
        await store.models.all()
        return True

    await eventually_async(answers, ignore=StorageUnavailable)
