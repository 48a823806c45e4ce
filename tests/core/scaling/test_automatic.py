"""Automatic scaling: against NumPy over the whole stream so far."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.rows import dense

from manylabel_core import FALT, KernelFALT
from manylabel_core.rows import Rows, as_rows
from manylabel_core.scaling.automatic import AutomaticScaling

Array = NDArray[np.float64]


def mixed_matrix(seed: int, n: int = 40) -> Array:
    """Quantities with an offset, words, a category that most have, a rare quantity, a constant, and nothing."""
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [
            rng.normal(50.0, 3.0, n),
            rng.normal(0.0, 1e-3, n) * (rng.random(n) < 0.8),
            rng.random(n) < 0.1,
            rng.random(n) < 0.9,
            rng.normal(0.0, 1e4, n) * (rng.random(n) < 0.2),
            np.full(n, 7.0),
            np.zeros(n),
        ]
    )


def divided_by_length(z: Array, quantities: NDArray[np.bool_]) -> Array:
    """Divide a row by its length; rows of up to ten quantities, and as many other features at most, keep theirs."""
    if 1 <= quantities.sum() <= 10 and np.count_nonzero(z[~quantities]) <= quantities.sum():
        return z / np.sqrt(quantities.sum())
    return z / max(np.linalg.norm(z), 1e-300)


def within_reach(known: list[float], value: float, far: float) -> float:
    """A value as it counts after those known: after ten, one beyond the reach is taken for one at its end."""
    given = np.array([v for v in known if v != 0])
    if value == 0 or len(given) < 10:
        return value
    mean, varies = given.mean(), given.var() > 1e-6 * given.mean() ** 2
    reach = far * given.std() if varies else 0.5 * np.sqrt(1e-6 * len(given)) * abs(mean)
    return float(np.clip(value, mean - reach, mean + reach))


def transcription(X: Array) -> Array:
    """Each row by the statistics of the values that are not NaN up to it: a quantity that it lacks is at the mean."""
    known: list[list[float]] = [[] for _ in X.T]
    quantities, Z = np.zeros(X.shape[1], dtype=bool), np.zeros(X.shape)
    for i, x in enumerate(X):
        far = [5.0 if quantity and quantities.sum() <= 10 else 10.0 for quantity in quantities]
        for feature in range(X.shape[1]):
            if not np.isnan(x[feature]):
                known[feature].append(within_reach(known[feature], x[feature], far[feature]))
            values = np.array(known[feature])
            given = values[values != 0]
            quantities[feature] = 2 * len(given) > i + 1 and given.var() > 1e-6 * given.mean() ** 2
            if np.isnan(x[feature]):
                continue
            if quantities[feature]:
                Z[i, feature] = (values[-1] - values.mean()) / values.std()
            elif len(given):
                Z[i, feature] = values[-1] / np.sqrt(np.mean(given**2)) * ((i + 2) / (len(given) + 1)) ** 0.125
        Z[i] = divided_by_length(Z[i], quantities)
    return Z


@given(st.integers(0, 1000), st.sampled_from([1.0, 1e3, -1e6]), st.sampled_from([0, 8, 9]))
def test_rows_are_scaled_by_the_statistics_of_the_stream_so_far(seed: int, wild: float, n_more: int) -> None:
    """One row may be wild: its values count as values at the end of the reach. There are 2, 10 or 11 quantities."""
    X = np.hstack([mixed_matrix(seed), np.random.default_rng(seed).normal(5.0, 1.0, (40, n_more))])
    X[25] *= wild
    scaling = AutomaticScaling()
    scaling.grow(X.shape[1])
    scaled = scaling.learn(as_rows(X, "float64")[0])
    np.testing.assert_allclose(dense(scaled, X.shape[1]), transcription(X), atol=1e-7)
    assert scaled.values.all(), "what is 0 is not stored"


def test_scoring_is_learning_without_a_trace() -> None:
    X = mixed_matrix(1)
    scaling = AutomaticScaling()
    scaling.grow(5)
    scaling.learn(as_rows(X[:20, :5], "float64")[0])
    before = {name: array.copy() for name, array in scaling.state().items()}
    scored = dense(scaling.score(as_rows(X[20:22], "float64")[0]), 7)
    for name, array in scaling.state().items():
        np.testing.assert_array_equal(array, before[name])
    for i in (20, 21):  # each as if it came next, with two features not seen before
        past = np.hstack([X[:20, :5], np.zeros((20, 2))])
        np.testing.assert_allclose(scored[i - 20], transcription(np.vstack([past, X[i]]))[-1], atol=1e-9)


@given(st.integers(0, 1000))
def test_a_missing_quantity_stands_at_the_mean(seed: int) -> None:
    X = mixed_matrix(seed)
    X[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
    scaling, none_learnt = AutomaticScaling(), AutomaticScaling()
    for each in (scaling, none_learnt):
        each.grow(X.shape[1])
    scaled = scaling.learn(as_rows(X, "float64")[0])
    np.testing.assert_allclose(dense(scaled, X.shape[1]), transcription(X), atol=1e-7)
    has = ~np.isnan(X)
    np.testing.assert_array_equal(scaling.state()["scaling.moments"][:, 3], has.sum(axis=0))
    listed = sp.csr_array((X[has], np.nonzero(has)[1], np.concatenate([[0], has.sum(axis=1).cumsum()])), shape=X.shape)
    again = none_learnt.learn(as_rows(listed, "float64")[0])
    assert [array.tobytes() for array in again] == [array.tobytes() for array in scaled], "NaN is what is not listed"


@given(st.integers(0, 1000))
def test_a_missing_quantity_is_0_if_that_is_asked_for(seed: int) -> None:
    X = mixed_matrix(seed)
    lacking = X.copy()
    lacking[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
    states = []
    for rows in (np.nan_to_num(lacking), lacking):
        scaling = AutomaticScaling("zero")
        scaling.grow(X.shape[1])
        scaled = scaling.learn(as_rows(rows, "float64")[0])
        states.append([array.tobytes() for array in [*scaled, *scaling.state().values()]])
    assert states[0] == states[1]


def test_the_work_is_in_proportion_to_the_values() -> None:
    """However many features there are, rows are scaled to about the number of values that they have."""
    rng = np.random.default_rng(3)
    n_features = 100_000
    indices = np.sort(np.concatenate([[0, 1], rng.choice(np.arange(2, n_features), 8, replace=False)]).astype(np.int32))
    scaling = AutomaticScaling()
    scaling.grow(n_features)
    for _ in range(50):
        values = rng.normal(5.0, 1.0, 10)
        scaled = scaling.learn(Rows(np.array([0, 10]), indices, values))
        indices = np.sort(
            np.concatenate([[0, 1], rng.choice(np.arange(2, n_features), 8, replace=False)]).astype(np.int32)
        )
    assert len(scaled.values) <= 10
    few = scaling.score(Rows(np.array([0, 1]), np.array([5], dtype=np.int32), np.ones(1)))
    assert few.indices.tolist() == [5], "what it lacks stands at its mean"
    scaling = AutomaticScaling("zero")
    scaling.grow(n_features)
    for _ in range(50):
        scaling.learn(Rows(np.array([0, 10]), indices, rng.normal(5.0, 1.0, 10)))
        indices = np.sort(np.concatenate([[0, 1], rng.choice(np.arange(2, n_features), 8, replace=False)]))
        indices = indices.astype(np.int32)
    few = scaling.score(Rows(np.array([0, 1]), np.array([5], dtype=np.int32), np.ones(1)))
    assert few.indices.tolist() == [0, 1, 5], "of what it lacks, only the two quantities that most examples have"


@pytest.mark.parametrize("factor", [1e-150, 1e-6, 1e9])
def test_units_do_not_matter(factor: float) -> None:
    X = mixed_matrix(4)
    scaling, other = AutomaticScaling(), AutomaticScaling()
    for each in (scaling, other):
        each.grow(X.shape[1])
    one = dense(scaling.learn(as_rows(X, "float64")[0]), X.shape[1])
    two = dense(other.learn(as_rows(X * factor, "float64")[0]), X.shape[1])
    np.testing.assert_allclose(one, two, atol=1e-7)


@pytest.mark.parametrize("make", [FALT, KernelFALT])
def test_a_learner_with_it_learns_what_was_scaled(make: type[FALT]) -> None:
    X = mixed_matrix(5)
    Y = (X[:, :3] > np.median(X[:, :3], axis=0)).astype(int)
    by_itself = make(dtype="float64").partial_fit(X, Y)
    rows = transcription(X)
    beforehand = make(scaling="none", dtype="float64").partial_fit(rows, Y)
    name = "weights" if make is FALT else "coefficients"
    np.testing.assert_allclose(by_itself.state()[name], beforehand.state()[name], atol=1e-5)
    assert by_itself.state()[name].any()


@pytest.mark.parametrize("missing", ["mean", "zero"])
def test_the_values_after_are_those_of_the_restored_state(missing: str) -> None:
    scaling, X = AutomaticScaling(missing), mixed_matrix(5)
    X[::3, 2] = np.nan
    scaling.reserve(X.shape[1], 0)
    for at in range(0, len(X), 4):
        rows = as_rows(X[at : at + 4], np.float64)[0]
        scaling.learn(rows)
        arrays = scaling.arrays(X.shape[1], 0)
        restored = AutomaticScaling(missing)
        restored.restore({name: array.copy() for name, array in arrays.items()}, X.shape[1], 0)
        asked = X.shape[1], 10, 20
        seen = int(restored._moments[:, 0].sum()) + 20
        due = 20 + 10 * min(X.shape[1], 2 * seen // (at + 5) + 1)
        assert scaling.values_after(*asked) == restored.values_after(*asked) == due
