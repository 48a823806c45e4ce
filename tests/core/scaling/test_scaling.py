"""Scaling as a part of a learner: against NumPy over the whole stream so far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from manylabel_core import FALT, KernelFALT
from manylabel_core.rows import Rows, as_rows
from manylabel_core.scaling.scaling import RunningStandardisation, UnitNorm


def dense(rows: Rows, n_features: int) -> NDArray[np.float64]:
    X = np.zeros((len(rows.indptr) - 1, n_features))
    for i in range(len(X)):
        features, values = rows.row(i)
        X[i, features] = values
    return X


def sparse_matrix(seed: int, n: int = 30, d: int = 7) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d), loc=rng.normal(size=d)) * (rng.random((n, d)) < 0.6) * 10.0 ** rng.integers(-3, 4, d)
    X[:, 2] = 0.1  # never varies
    X[:, 4] = 0.0
    return X


def standardised(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row by the mean and deviation of all rows up to it."""
    Z = np.zeros_like(X)
    for i in range(len(X)):
        mean, deviation = X[: i + 1].mean(axis=0), X[: i + 1].std(axis=0)
        varies = np.ptp(X[: i + 1], axis=0) > 0
        Z[i, varies] = ((X[i] - mean) / np.where(varies, deviation, 1.0))[varies]
    return Z


@given(st.integers(0, 1000))
def test_running_standardisation(seed: int) -> None:
    X = sparse_matrix(seed)
    rows, d = as_rows(X, "float64")
    scaling = RunningStandardisation()
    scaling.grow(d)
    scaled = scaling.learn(rows)
    np.testing.assert_allclose(dense(scaled, d), standardised(X), rtol=1e-9, atol=1e-9)
    assert scaled.values.all(), "what is 0 is not stored"
    state = scaling.state()
    assert state["scaling.count"].tolist() == [len(X)]
    np.testing.assert_allclose(state["scaling.moments"][:, 0], X.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(state["scaling.moments"][:, 1], len(X) * X.var(axis=0), rtol=1e-6, atol=1e-12)


def test_features_that_appear_later_have_been_0() -> None:
    X = sparse_matrix(1)
    X[:20, 5:] = 0.0
    scaling = RunningStandardisation()
    scaling.grow(5)
    first = scaling.learn(as_rows(X[:20, :5], "float64")[0])
    scaling.grow(7)
    then = scaling.learn(as_rows(X[20:], "float64")[0])
    np.testing.assert_allclose(np.vstack([dense(first, 7), dense(then, 7)]), standardised(X), rtol=1e-9, atol=1e-9)


def test_scoring_leaves_no_trace_in_the_statistics() -> None:
    X = sparse_matrix(2)
    scaling = RunningStandardisation()
    scaling.grow(4)
    scaling.learn(as_rows(X[:10, :4], "float64")[0])
    before = {name: array.copy() for name, array in scaling.state().items()}
    scored = dense(scaling.score(as_rows(X[10:12], "float64")[0]), 7)
    for name, array in scaling.state().items():
        np.testing.assert_array_equal(array, before[name])
    for i in (10, 11):  # each as if it came next, with the three features not seen before
        past = np.hstack([X[:10, :4], np.zeros((10, 3))])
        np.testing.assert_allclose(scored[i - 10], standardised(np.vstack([past, X[i]]))[-1], rtol=1e-9, atol=1e-9)


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
    by_itself = make(scaling="standard", dtype="float64").partial_fit(X, Y)
    beforehand = make(scaling="none", dtype="float64").partial_fit(standardised(X), Y)
    unit = make(scaling="unit", dtype="float64").partial_fit(X, Y)
    unit_beforehand = make(scaling="none", dtype="float64").partial_fit(X / np.linalg.norm(X, axis=1, keepdims=True), Y)
    for one, other in ((by_itself, beforehand), (unit, unit_beforehand)):
        for name, array in one.state().items():
            if name in ("weights", "coefficients"):
                np.testing.assert_allclose(array, other.state()[name], rtol=1e-6, atol=1e-9)
                assert array.any()
