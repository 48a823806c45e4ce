"""Versions made without jobs, and registries that serve them."""

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from tests.service.fleet import Fleet
from tests.support.stores import wait_until_available

from manylabel_core.batch import LSAMML, M3L, MLRL
from manylabel_service.errors import VersionNotFound
from manylabel_service.models.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.storage import Address, SQLiteStore, Store
from manylabel_service.storage.redis import RedisStore
from manylabel_service.trained.artifact import Convergence, ModelArtifact
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version import Promote, Version, VersionMeta
from manylabel_service.trained.version_store import VersionStore

LABELS = ("rock", "jazz", "pop")
NAMES = ("a", "b", "c", "d")


class Trained(NamedTuple):
    """An estimator, what it was fitted on, and the version that is made of it."""

    estimator: Any
    X: Any
    contents: bytes

    def scores(self, X: Any) -> list[list[float]]:
        found: list[list[float]] = self.estimator.decision_function(X).tolist()
        return found


def trained(estimator: Any, features: Any = NAMES, seed: int = 0, sparse: bool = False) -> Trained:
    """Fit an estimator of three labels on four features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0
    Y = (X @ rng.normal(size=(4, 3)) > 0).astype(int)
    fitted = estimator.fit(sp.csr_array(X) if sparse else X, Y)
    scores = {label: {"f1": 0.5, "precision": 0.6, "recall": 0.4, "support": 9.0 + n} for n, label in enumerate(LABELS)}
    trace = Convergence([1, 2], [3.0, 2.5], [float("inf"), 0.01], [0.1, 0.2])
    return Trained(fitted, X, ModelArtifact(fitted.to_bytes(), LABELS, {"x": features}, scores, trace).to_bytes())


def trained_views() -> Trained:
    """Fit an estimator of three labels on two views."""
    rng = np.random.default_rng(0)
    X: dict[str, Any] = {
        "text": sp.csr_array(np.round(rng.random((60, 8)), 2).astype(np.float32)),
        "image": rng.normal(size=(60, 6)).astype(np.float32),
    }
    Y = (X["image"] @ rng.normal(size=(6, 3)) > 0).astype(int)
    fitted = LSAMML(n_components=3, max_iter=5, tol=0.9).fit(X, Y)
    words = tuple(f"word{i}" for i in range(8))
    return Trained(fitted, X, ModelArtifact(fitted.to_bytes(), LABELS, {"text": words, "image": 6}).to_bytes())


def meta(job: str = "job-1", trainer: str = "m3l") -> VersionMeta:
    return VersionMeta(job, trainer, {"C": 1.0}, 60, {"micro_f1": 0.75}, 1_700_000_000_000)


@pytest.fixture(scope="session")
def one() -> Trained:
    return trained(M3L())


@pytest.fixture(scope="session")
def two() -> Trained:
    """Other weights than `one`."""
    return trained(M3L(C=5.0), seed=1)


@pytest.fixture(scope="session")
def curved() -> Trained:
    """With a kernel, and with correlations."""
    return trained(MLRL(lam=1e-2, kernel="rbf", gamma=0.3), features=4)


@pytest.fixture(scope="session")
def views() -> Trained:
    return trained_views()


@pytest.fixture(scope="session")
def make() -> Callable[..., Trained]:
    return trained


@pytest.fixture(scope="session")
def meta_of() -> Callable[..., VersionMeta]:
    return meta


class Servers(Fleet):
    """A fleet publishes versions, as jobs do."""

    def __init__(self, make_store: Callable[[], Store], server: Any = None) -> None:
        super().__init__(make_store, server)
        self._jobs = itertools.count(1)

    async def publish(
        self, registry: Registry, version: Trained, name: str = "m", promote: Promote = "always", job: str | None = None
    ) -> Version:
        """Publish a version as a job would in the process of this registry."""
        about = meta(job or f"job-{next(self._jobs)}")
        store = self.store(registry)
        number = await publish(store, Settings(), name, version.contents, about, promote=promote)
        registry.poll(name)
        try:
            return await (await self.versions(registry, name)).find(number)
        except VersionNotFound:  # it has been deleted since
            return Version(number, "", 0, about)

    async def versions(self, registry: Registry, name: str = "m") -> VersionStore:
        """Return the versions of a model in the store of this registry."""
        record = await self.store(registry).models.find(name)
        assert record is not None
        return VersionStore(record, self.store(registry))

    async def reached(self, *registries: Registry) -> None:
        """Wait until the store answers again."""
        for registry in registries:
            await wait_until_available(self.store(registry))


@pytest.fixture
async def redis_servers(redis_server: Any, quick: None) -> AsyncIterator[Servers]:
    servers = Servers(lambda: RedisStore(Address.parse(redis_server.url), servers.redis_timeout_seconds), redis_server)
    yield servers
    await servers.end()


@pytest.fixture
async def lone_server(tmp_path: Path, quick: None) -> AsyncIterator[Servers]:
    servers = Servers(lambda: SQLiteStore(tmp_path / "data"))
    yield servers
    await servers.end()


@pytest.fixture(params=["redis", "sqlite"])
def servers(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("redis_servers" if request.param == "redis" else "lone_server")
