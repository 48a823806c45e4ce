"""Random Fourier features, against the kernel that they stand for and the linear learner that they feed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT, KernelPassiveAggressive, KernelSALT, PassiveAggressive
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.features.fourier import RandomFeatures
from manylabel_core.online.models.points import KernelSettings
from manylabel_core.rows import as_rows

Array = NDArray[np.float64]


def features_of(X: Array, budget: int, seed: int, gamma: float = 2.0, dtype: str = "float64") -> Array:
    features = RandomFeatures(KernelSettings((0, gamma, 1.0, 2), 0.0, budget, seed, False, dtype), budget)
    features.enlarge(X.shape[1])
    return features.score(as_rows(X, dtype)[0], X.shape[1])


def plain_features(X: Array, budget: int, seed: int, gamma: float) -> Array:
    """Compute the features by their definition, with Python integers and NumPy."""
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


STEPS: tuple[dict[str, Any], ...] = (
    {"eta": 0.3, "step": "implicit"},
    {"eta": 0.3, "passes": 5},
    {"eta": 0.3, "step": "gradient"},
)
LEARNERS: list[tuple[type[OnlineLearner], type[OnlineLearner], dict[str, Any]]] = [
    *((KernelFALT, FALT, step) for step in STEPS),
    *((KernelSALT, SALT, step) for step in STEPS),
    *((KernelPassiveAggressive, PassiveAggressive, {"variant": variant}) for variant in ("PA-I", "PA-II")),
]


@for_each("average", [False, True])
@for_each(("kernel", "linear", "step"), LEARNERS)
def test_it_is_the_linear_learner_on_the_features(kernel, linear, step, average) -> None:
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(120, 5)).astype(np.float32), rng.integers(0, 2, size=(120, 3))
    common = {"average": average, "fit_intercept": True, "scaling": "none", "calibrate": False, **step}
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
