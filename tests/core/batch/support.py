"""Datasets that several tests of batch learners are about, and checks that they share."""

from collections.abc import Callable
from typing import Any

import numpy as np

from manylabel_core.batch import LSAMML, M3L, MLRL, SSMLRL, PrBR, PrML

LEARNERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "m3l": (M3L, {"kernel": "rbf", "gamma": 0.2, "C": 10.0, "tol": 1e-8}),
    "mlrl": (MLRL, {"lam": 1e-4, "tol": 1e-7, "max_iter": 30}),
    "ssmlrl": (SSMLRL, {"lam1": 1e-4, "tol": 1e-7, "max_iter": 30}),
    "prml": (PrML, {"C": 0.1, "rho": 1.0, "rounds": 2, "tol": 1e-6, "max_iter": 200}),
    "prbr": (PrBR, {"C": 0.1, "rho": 1.0, "tol": 1e-9, "max_iter": 200}),
    "lsa_mml": (LSAMML, {"tol": 1e-9, "max_iter": 30}),
}
"""Every trainer, with parameters by which a fit takes some iterations."""


def learner(name: str) -> Any:
    """Return a learner of that name without thresholds or scaling."""
    make, params = LEARNERS[name]
    return make(**params, optimise="none", scaling="none")


def given(name: str, X: np.ndarray, form: Callable[[np.ndarray], Any] = np.asarray) -> Any:
    """Return rows as the learner takes them, in views or not."""
    return {"a": form(X[:, :3]), "b": form(X[:, 3:])} if name == "lsa_mml" else form(X)


def related(
    n_samples: int,
    n_features: int,
    n_labels: int,
    seed: int = 0,
    *,
    own: float = 0.0,
    noise: float = 0.5,
    threshold: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Labels of two hidden directions, each with some of its `own`, and noise: so that they know of each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    W = rng.normal(size=(n_features, 2)) @ rng.normal(size=(2, n_labels))
    if own:
        W += own * rng.normal(size=(n_features, n_labels))
    Y = (X @ W + noise * rng.normal(size=(n_samples, n_labels)) > threshold).astype(np.int8)
    return X, Y


def with_value(matrix: np.ndarray, value: float) -> np.ndarray:
    """Return a matrix with another value in one place."""
    changed = matrix.astype(float)
    changed[3, 1] = value
    return changed


def check_relations_trace(model: MLRL | SSMLRL) -> None:
    """Each round has the objective of its weights; one that lowers it has that of the best covariance as well.

    That covariance costs no more than the one before (Eq. 11), but for the eps that a singular one has on its diagonal
    (1e-7 of the trace), which the last steps no longer save.
    """
    values, least, rounds = iter(model.objective_trace_), np.inf, 0
    for found in values:
        rounds += 1
        assert found >= model.dual_objective_
        if found < least:
            relations = next(values)
            assert relations <= found * (1 + 2e-7)
            least = min(found, relations)
    assert rounds == model.n_iter_ >= 4
    assert least == model.primal_objective_ < model.objective_trace_[0]
