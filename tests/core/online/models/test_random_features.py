"""Random Fourier features, against the kernel that they stand for and the linear learner that they feed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT, KernelSALT
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.features._fourier import draw_table
from manylabel_core.online.models.features.fourier import RandomFeatures
from manylabel_core.online.models.points import KernelSettings
from manylabel_core.rows import as_rows

Array = NDArray[np.float64]


def features_of(X: Array, budget: int, seed: int, gamma: float = 2.0, dtype: str = "float64") -> Array:
    features = RandomFeatures(KernelSettings((0, gamma, 1.0, 2), 0.0, budget, seed, False, dtype), budget)
    features.enlarge(X.shape[1])
    return features.score(as_rows(X, dtype)[0], X.shape[1])


def plain_features(X: Array, budget: int, seed: int, gamma: float) -> Array:
    """In plain Python integers and NumPy, from the definition."""
    mask = 2**64 - 1

    def scramble(number: int) -> int:
        number = (number + 0x9E3779B97F4A7C15) & mask
        number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & mask
        number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & mask
        return number ^ (number >> 31)

    W = np.empty((X.shape[1], budget // 2))
    for column in range(X.shape[1]):
        start = scramble(scramble(seed) ^ column)
        for m in range(budget // 2):
            first, second = (scramble((start + at) & mask) >> 11 for at in (m - m % 2, m - m % 2 + 1))
            radius, angle = np.sqrt(-2 * np.log((first + 1) / 2**53)), 2 * np.pi * second / 2**53
            W[column, m] = np.sqrt(2 * gamma) * radius * (np.sin(angle) if m % 2 else np.cos(angle))
    angles = X @ W
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(budget // 2)


@pytest.mark.parametrize(("budget", "seed"), [(6, 0), (10, 2**63 - 1), (2, 7)])
def test_features_are_those_of_the_definition(budget: int, seed: int) -> None:
    X = np.random.default_rng(0).normal(size=(9, 4))
    np.testing.assert_allclose(features_of(X, budget, seed), plain_features(X, budget, seed, 2.0), atol=1e-12)


def test_the_scrambler_is_splitmix64() -> None:
    """The first outputs of the reference implementation for the seed 1234567, as published with it."""
    from manylabel_core.online.models.features._fourier import _scramble

    stride = 0x9E3779B97F4A7C15
    outputs = [int(_scramble(np.uint64((1234567 + i * stride) % 2**64))) for i in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_frequencies_are_normal_and_independent() -> None:
    table = np.empty((400, 250))
    draw_table(3, 0, 1.0, table)
    assert stats.kstest(table.ravel(), "norm").pvalue > 1e-3
    correlations = np.corrcoef(table)[np.triu_indices(400, 1)]
    assert abs(correlations.mean()) < 5e-3
    assert correlations.std() == pytest.approx(1 / np.sqrt(250), rel=0.05)
    other = np.empty((400, 250))
    draw_table(4, 0, 1.0, other)
    assert abs(np.corrcoef(table.ravel(), other.ravel())[0, 1]) < 0.02, "another seed, other numbers"


def test_the_error_of_the_kernel_falls_with_the_root_of_the_budget() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = np.exp(-2.0 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    errors = []
    for budget in (50, 200, 800, 3200):
        found = [features_of(X, budget, seed) for seed in range(12)]
        np.testing.assert_allclose((found[0] ** 2).sum(axis=1), 1.0, rtol=1e-12)
        errors.append(np.sqrt(np.mean([(Z @ Z.T - K) ** 2 for Z in found])))
        # Each frequency adds cos(w.(u - v)), of mean K and variance (1 + K^4) / 2 - K^2.
        expected = np.sqrt(((1 + K**4) / 2 - K**2).mean() / (budget // 2))
        assert errors[-1] == pytest.approx(expected, rel=0.25)
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 2.0, rtol=0.25)


LINEAR: dict[str, tuple[type[OnlineLearner], type[OnlineLearner]]] = {
    "FALT": (KernelFALT, FALT),
    "SALT": (KernelSALT, SALT),
}


@for_each("average", [False, True])
@for_each("rounds", [{"step": "implicit"}, {"passes": 5}, {"step": "gradient"}])
@for_each(("kernel", "linear"), LINEAR.values(), ids=LINEAR)
def test_it_is_the_linear_learner_on_the_features(kernel, linear, rounds, average) -> None:
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(120, 5)).astype(np.float32), rng.integers(0, 2, size=(120, 3))
    common = {"eta": 0.3, "average": average, "fit_intercept": True, "scaling": "none", "calibrate": False, **rounds}
    model = kernel(budget=40, strategy="rff", seed=5, gamma=0.7, **common)
    other = linear(**common)
    Z = features_of(X, 40, 5, 0.7, "float32")
    for part in (slice(0, 50), slice(50, 120)):
        model.partial_fit(X[part], Y[part])
        other.partial_fit(Z[part], Y[part])
        for one, two in zip(model.scores(X), other.scores(Z), strict=True):
            np.testing.assert_array_equal(one, two)


def test_features_of_columns_that_come_late_and_in_any_order() -> None:
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(30, 8)), rng.integers(0, 2, size=(30, 2))
    early, late = (KernelFALT(budget=20, strategy="rff", scaling="none", step="implicit") for _ in range(2))
    early.pipeline.grow(500, 2)
    early.pipeline.grow(501, 2)
    for i in range(30):
        early.partial_fit(np.pad(X[[i]], ((0, 0), (0, 493))), Y[[i]])
        late.partial_fit(np.where(np.arange(8) < 2 + i // 4, X[[i]], 0.0)[:, : min(8, 2 + i // 4)], Y[[i]])
    again = KernelFALT(budget=20, strategy="rff", scaling="none", step="implicit")
    again.restore(late.state())
    np.testing.assert_array_equal(again.scores(X)[0], late.scores(X)[0])
    frequencies = [model.pipeline.model._map._frequencies for model in (early, late)]
    np.testing.assert_array_equal(frequencies[0][:8], frequencies[1][:8])
    assert "frequencies" not in " ".join(late.state())


def test_seeds_differ() -> None:
    X = np.random.default_rng(4).normal(size=(20, 3))
    Y = (X[:, :2] > 0).astype(int)
    one, other = (KernelFALT(budget=20, strategy="rff", seed=seed).partial_fit(X, Y) for seed in (0, 1))
    assert not np.array_equal(one.scores(X)[0], other.scores(X)[0])
