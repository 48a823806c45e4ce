"""The implicit step: each round is the solution of its problem, whatever way one goes to find it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each
from tests.support.lazy import lazy

from manylabel_core import FALT, SALT
from manylabel_core.rows import as_rows, as_targets

cp = lazy("cvxpy")

Array = NDArray[np.float64]

DOUBLE = {"dtype": "float64", "scaling": "none", "calibrate": False}


class Round:
    """One round: an example, its weight and its truth, the weights before it (threshold first), a metric, and eta."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n_features, n_labels = rng.integers(1, 6), rng.integers(1, 9)
        self.x = rng.normal(size=n_features) * 10.0 ** rng.uniform(-1, 0.5)
        self.W = rng.normal(size=(n_features, 1 + n_labels)) * rng.choice([0.0, 0.3, 2.0])
        self.y = rng.random(n_labels) < rng.choice([0.0, 0.3, 1.0])
        self.known = rng.random(n_labels) < rng.choice([0.5, 1.0])
        self.eta = float(10.0 ** rng.uniform(-3, 1))
        self.metric = 10.0 ** rng.uniform(-1, 1, size=self.W.shape)
        self.weight = float(rng.choice([1.0, 1.0, 0.03, 40.0]))

    def objective(self, W: Array | cp.Variable, metric: Array, over: type | object = np) -> Array:
        """The problem of the round; `over` is NumPy or cvxpy."""
        total, pos = (cp.sum, cp.pos) if over is cp else (np.sum, lambda value: np.maximum(value, 0.0))
        margins = self.x @ W[:, 1:] - self.x @ W[:, 0]
        square = cp.square if over is cp else np.square
        value = 0.5 * total(cp.multiply(metric, square(W - self.W)) if over is cp else metric * square(W - self.W))
        for sign, members in ((1.0, self.known & self.y), (-1.0, self.known & ~self.y)):
            if members.any():
                chosen = np.flatnonzero(members)
                value = value + self.factor / len(chosen) * total(pos(1.0 - sign * margins[chosen]))
        return value

    @property
    def factor(self) -> float:
        return self.weight * self.eta * int(self.known.sum())

    def solved(self, metric: Array) -> Array:
        W = cp.Variable(self.W.shape)
        cp.Problem(cp.Minimize(self.objective(W, metric, cp))).solve(
            solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
        )
        return np.asarray(W.value)

    def learnt_by(self, model: FALT, **arrays: Array) -> Array:
        """The weights after the round."""
        model.pipeline.grow(len(self.x), len(self.y))
        model.restore({**model.state(), **arrays})
        rows, _ = as_rows(self.x[np.newaxis], "float64")
        targets = as_targets(self.y[np.newaxis], self.known[np.newaxis])
        model.pipeline.learn(rows, targets._replace(weights=np.array([self.weight])))
        return model.state()["weights"]


def with_constant(W: Array) -> Array:
    """Weights as a state has them, where there is no constant feature."""
    return np.vstack([np.zeros(W.shape[1]), W])


@pytest.mark.usefixtures("dev_extra")
@for_each("seed", range(25))
def test_falt_solves_the_round(seed: int) -> None:
    one = Round(seed)
    model = FALT(eta=one.eta, step="implicit", fit_intercept=False, **DOUBLE)
    learnt = one.learnt_by(model, weights=with_constant(one.W))[1:]
    metric = np.ones_like(one.W)
    best = one.objective(one.solved(metric), metric)
    assert one.objective(learnt, metric) <= best + 1e-7 * max(1.0, best)
    np.testing.assert_allclose(learnt, one.solved(metric), atol=2e-4)


@pytest.mark.usefixtures("dev_extra")
@for_each("seed", range(25))
def test_falt_solves_the_round_in_the_metric_of_its_features(seed: int) -> None:
    one = Round(seed)
    seen = np.concatenate([[0.0], 10.0 ** np.random.default_rng(seed).uniform(-3, 3, len(one.x))])
    model = FALT(eta=one.eta, step="adaptive", fit_intercept=False, **DOUBLE)
    learnt = one.learnt_by(model, weights=with_constant(one.W), feature_squares=seen)[1:]
    metric = np.broadcast_to(np.sqrt(1.0 + seen[1:, np.newaxis]), one.W.shape)
    best = one.objective(one.solved(metric), metric)
    assert one.objective(learnt, metric) <= best + 1e-7 * max(1.0, best)
    after = model.state()["feature_squares"]
    moved = bool((learnt != one.W).any())
    np.testing.assert_allclose(after[1:], seen[1:] + (one.weight * one.x**2 if moved else 0.0), rtol=1e-12)


@pytest.mark.usefixtures("dev_extra")
@for_each("seed", range(25))
def test_salt_solves_the_round_in_its_metric(seed: int) -> None:
    one = Round(seed)
    squares = (one.metric - 0.05) ** 2
    model = SALT(eta=one.eta, delta=0.05, step="implicit", fit_intercept=False, **DOUBLE)
    learnt = one.learnt_by(model, weights=with_constant(one.W), squares=with_constant(squares))[1:]
    best = one.objective(one.solved(one.metric), one.metric)
    assert one.objective(learnt, one.metric) <= best + 1e-7 * max(1.0, best)
    gradient = one.metric * (one.W - learnt) / one.eta  # gradient of the loss at the stationary point of the round
    np.testing.assert_allclose(model.state()["squares"][1:], squares + gradient**2, rtol=1e-6, atol=1e-9)


def test_passes_select_the_published_step() -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(40, 5)), rng.integers(0, 2, size=(40, 3))
    short = FALT(eta=0.1, passes=2).partial_fit(X, Y).state()
    spelt = FALT(eta=0.1, passes=2, step="gradient", scaling="none").partial_fit(X, Y).state()
    for name, array in spelt.items():
        np.testing.assert_array_equal(short[name], array)
    assert set(short) == set(spelt)


def test_the_step_cannot_be_changed_in_use() -> None:
    model = FALT(step="implicit").partial_fit([[1.0]], [[1]])
    model.step = "adaptive"
    with pytest.raises(ValueError, match=r"step, .* cannot be changed"):
        model.partial_fit([[1.0]], [[1]])
