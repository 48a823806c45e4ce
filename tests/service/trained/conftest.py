"""Versions made without jobs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from tests.service.fleet import version_meta

from manylabel_core.batch import LSAMML, M3L, MLRL
from manylabel_service.trained.artifact import Convergence, ModelArtifact
from manylabel_service.trained.version import VersionMeta

LABELS = ("rock", "jazz", "pop")
NAMES = ("a", "b", "c", "d")


class Trained(NamedTuple):
    """A fitted estimator, its examples, and the contents of its version."""

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
    fitted = LSAMML(n_components=3, max_iter=5, tol=0.9, scaling="none").fit(X, Y)
    words = tuple(f"word{i}" for i in range(8))
    return Trained(fitted, X, ModelArtifact(fitted.to_bytes(), LABELS, {"text": words, "image": 6}).to_bytes())


@pytest.fixture(scope="session")
def one() -> Trained:
    return trained(M3L(scaling="none"))


@pytest.fixture(scope="session")
def two() -> Trained:
    """Other weights than `one`."""
    return trained(M3L(C=5.0, scaling="none"), seed=1)


@pytest.fixture(scope="session")
def curved() -> Trained:
    """With a kernel, and with correlations."""
    return trained(MLRL(lam=1e-2, kernel="rbf", gamma=0.3, scaling="none"), features=4)


@pytest.fixture(scope="session")
def views() -> Trained:
    return trained_views()


@pytest.fixture(scope="session")
def make() -> Callable[..., Trained]:
    return trained


@pytest.fixture(scope="session")
def meta_of() -> Callable[..., VersionMeta]:
    return version_meta
