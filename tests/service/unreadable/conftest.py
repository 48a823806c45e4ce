"""A store with something of each kind, made once by a real server, and copied for each test."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.service.unreadable.filling import Filled, fill
from tests.service.unreadable.places import InDirectory, OnRedis, Place

from manylabel_service.models import log_watcher
from manylabel_service.online.history import archiver as archivers
from manylabel_service.storage import blob_collection
from manylabel_service.webhooks import deliverer

KINDS = ("sqlite", "redis")


@pytest.fixture(scope="module", autouse=True)
def _small_and_quick() -> Iterator[None]:
    """Segments are small, polls frequent, and every blob that nothing names is old enough to be collected."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archivers, "SEGMENT_BYTES", 300)
        patch.setattr(archivers, "STATE_EXAMPLES", 3)
        patch.setattr(archivers, "STATE_SHARE", 0)
        patch.setattr(blob_collection, "ORPHANED_SECONDS", -60.0)
        patch.setattr(log_watcher, "WAIT_SECONDS", 0.05)
        patch.setattr(deliverer, "POLL_SECONDS", 0.1)
        yield


@pytest.fixture(scope="module")
def new_place(tmp_path_factory: pytest.TempPathFactory, shared_redis: Callable[[], str]) -> Callable[[str], Place]:
    def make(kind: str) -> Place:
        directory = tmp_path_factory.mktemp("place")
        return InDirectory(directory) if kind == "sqlite" else OnRedis(directory, shared_redis())

    return make


@pytest.fixture(scope="module", params=KINDS)
def filled(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Filled:
    return fill(new_place(request.param))


@pytest.fixture
def copied(filled: Filled, new_place: Callable[[str], Place]) -> Iterator[Filled]:
    """The filled store, for one test."""
    place = new_place("sqlite" if isinstance(filled.place, InDirectory) else "redis")
    filled.place.copy(place)
    yield filled._replace(place=place)
    shutil.rmtree(Path(place.directory))
