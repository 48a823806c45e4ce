"""Scaling as a part of a learner: against NumPy over the whole stream so far."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.rows import dense

from manylabel_core import FALT, KernelFALT
from manylabel_core.rows import as_rows
from manylabel_core.scaling.scaling import UnitNorm


def sparse_matrix(seed: int, n: int = 30, d: int = 7) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d), loc=rng.normal(size=d)) * (rng.random((n, d)) < 0.6) * 10.0 ** rng.integers(-3, 4, d)
    X[:, 2] = 0.1  # never varies
    X[:, 4] = 0.0
    return X


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unit_norm(dtype: str) -> None:
    X = np.random.default_rng(0).normal(size=(6, 4)) * 10.0 ** np.array([[-4], [0], [3], [14], [-30], [0]])
    X[5] = 0.0
    scaled = dense(UnitNorm().learn(as_rows(X, dtype)[0]), 4)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), [1, 1, 1, 1, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(scaled[:5], X[:5] / np.linalg.norm(X[:5], axis=1, keepdims=True), rtol=1e-6)


def test_unit_norm_of_the_smallest_numbers() -> None:
    for value in (1e-300, 5e-324):
        assert UnitNorm().learn(as_rows([[value, 0.0]], "float64")[0]).values.tolist() == [1.0]


@pytest.mark.parametrize("make", [FALT, KernelFALT])
def test_a_learner_with_scaling_is_a_learner_on_scaled_rows(make: type[FALT]) -> None:
    X = sparse_matrix(3)
    Y = (X[:, :3] > np.median(X[:, :3], axis=0)).astype(int)
    unit = make(scaling="unit", dtype="float64").partial_fit(X, Y)
    beforehand = make(scaling="none", dtype="float64").partial_fit(X / np.linalg.norm(X, axis=1, keepdims=True), Y)
    for name in {"weights", "coefficients"} & unit.state().keys():
        np.testing.assert_allclose(unit.state()[name], beforehand.state()[name], rtol=1e-6, atol=1e-9)
        assert unit.state()[name].any()
