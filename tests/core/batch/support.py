"""Datasets that several tests of batch learners are about, and checks that they share."""

import numpy as np

from manylabel_core.batch import MLRL, SSMLRL


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
