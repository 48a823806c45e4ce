"""The stores that the contract suite runs through: a new one needs an entry in STORES, nothing else."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from manylabel_service.storage import SQLiteStore, Store

StoreFactory = Callable[[], Store]
"""Makes unopened stores over one place that outlives them; one of them is open at a time."""


def sqlite_in(place: Path) -> StoreFactory:
    return lambda: SQLiteStore(place / "data")


STORES: dict[str, Callable[[Path], StoreFactory]] = {"sqlite": sqlite_in}


@pytest.fixture(params=STORES)
def stores_in(request: pytest.FixtureRequest) -> Callable[[Path], StoreFactory]:
    """From a fresh directory to a factory of stores that has all it keeps there, or under its name."""
    return STORES[request.param]


@pytest.fixture
def new_store(stores_in: Callable[[Path], StoreFactory], tmp_path: Path) -> StoreFactory:
    """Makes stores over the place that belongs to the test."""
    return stores_in(tmp_path)


@pytest.fixture
async def store(new_store: StoreFactory) -> AsyncIterator[Store]:
    store = new_store()
    await store.open()
    yield store
    await store.close()
