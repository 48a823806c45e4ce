"""Archives with parts, segments and states so small that a test has several of each."""

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.service.archive import origin
from tests.service.stores import STORES

from manylabel_service.archive import restoring, shipping
from manylabel_service.online.history import archiver as archivers
from manylabel_service.storage import Store
from manylabel_service.storage.places.files import FilePlace


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # the default of data_dir is relative to it
    monkeypatch.setattr(shipping, "PART_BYTES", 400)
    monkeypatch.setattr(shipping, "STATE_ENTRIES", 12)
    monkeypatch.setattr(shipping, "JOINED_PARTS", 4)
    monkeypatch.setattr(archivers, "SEGMENT_BYTES", 450)
    monkeypatch.setattr(archivers, "STATE_EXAMPLES", 10)
    monkeypatch.setattr(archivers, "STATE_SHARE", 0)
    monkeypatch.setattr(restoring, "SEGMENT_BYTES", 450)
    monkeypatch.setattr(restoring, "EXPIRY_SECONDS", 0.1)


@pytest.fixture(autouse=True)
async def _ended() -> AsyncIterator[None]:
    """End what a test began."""
    yield
    while origin.FLEETS:
        await origin.FLEETS.pop().end()
    while origin.STORES:
        await origin.STORES.pop().close()


@pytest.fixture
def place(tmp_path: Path) -> FilePlace:
    return FilePlace(tmp_path / "archive")


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Callable[[], Store]]:
    """Makes a place for stores of a kind."""
    numbers = itertools.count()

    def make(kind: str) -> Callable[[], Store]:
        directory = tmp_path / f"store-{next(numbers)}"
        directory.mkdir()
        return STORES[kind](request, directory).new

    return make
