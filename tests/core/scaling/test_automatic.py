"""Automatic scaling: against a plain transcription of its rule."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.core.scaling.transcription import Array, transcription
from tests.support.rows import dense

from manylabel_core import FALT, KernelFALT
from manylabel_core.rows import Rows, as_rows
from manylabel_core.scaling._automatic import COUNT, HAVING, SINCE
from manylabel_core.scaling.automatic import AutomaticScaling


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


def changing_matrix(seed: int, n: int = 120) -> Array:
    """Features that get another level or unit, optional and late quantities, heavy tails, and repeated values."""
    rng = np.random.default_rng(seed)
    late = np.arange(n) >= n // 2
    z, has = rng.normal(0.0, 1.0, (n, 8)), rng.random((n, 2)) < 0.3
    return np.column_stack(
        [
            np.where(late, 1000.0, 1.0) * (2.0 + 0.3 * z[:, 0]),
            np.where(late, 0.01, 1.0) * z[:, 1],
            np.where(late, 100.0, 5.0) + z[:, 2],
            np.where(late, 5.0 + z[:, 3], 5.0),
            np.where(has[:, 0], 100.0 + 3.0 * z[:, 4], np.nan),
            np.where(late, 273.15 + 0.01 * z[:, 5], np.nan),
            rng.standard_cauchy(n),
            np.round(3.0 + z[:, 6]),
            np.where(has[:, 1], np.round(z[:, 7]), np.nan),
            np.where(np.arange(n) < 5, 1e9, z[:, 0]),
        ]
    )


def learnt(X: Array, missing: str = "mean", at_once: int = 1000) -> tuple[AutomaticScaling, Array]:
    """Return a scaling that has learnt rows, some in each call, and the rows scaled."""
    scaling = AutomaticScaling(missing)
    scaling.grow(X.shape[1])
    parts = [scaling.learn(as_rows(X[at : at + at_once], "float64")[0]) for at in range(0, len(X), at_once)]
    return scaling, np.vstack([dense(part, X.shape[1]) for part in parts])


@given(st.integers(0, 1000), st.sampled_from([1.0, 1e3, -1e6]), st.sampled_from([0, 8, 9]))
def test_rows_are_scaled_by_the_statistics_of_the_stream_so_far(seed: int, wild: float, n_more: int) -> None:
    """One row may be wild: its values count as values at the end of the reach. There are 2, 10 or 11 quantities."""
    X = np.hstack([mixed_matrix(seed), np.random.default_rng(seed).normal(5.0, 1.0, (40, n_more))])
    X[25] *= wild
    np.testing.assert_array_equal(learnt(X)[1], transcription(X))


@given(st.integers(0, 1000), st.sampled_from(["mean", "zero"]), st.sampled_from([0, 6]), st.sampled_from([1, 7]))
def test_changes_are_followed_bit_for_bit_however_rows_are_grouped(
    seed: int, missing: str, n_more: int, at_once: int
) -> None:
    X = np.hstack([changing_matrix(seed), np.random.default_rng(seed).normal(5.0, 1.0, (120, n_more))])
    scaling, scaled = learnt(X, missing, at_once)
    np.testing.assert_array_equal(scaled, transcription(X, missing == "zero"))
    moments = scaling.state()["scaling.moments"]
    assert (moments[:, SINCE] < moments[:, COUNT])[[0, 2, 9]].all(), "these have restarted"


@given(st.integers(0, 1000), st.sampled_from([1, 7, 1000]), st.floats(0.0, 4.0))
def test_a_number_with_a_feature_that_says_so_is_a_quantity_however_near_to_zero(
    seed: int, at_once: int, away: float
) -> None:
    rng = np.random.default_rng(seed)
    has = rng.random(120) < 0.3
    X = np.column_stack([mixed_matrix(seed, 120), np.where(has, away + rng.normal(size=120), np.nan)])
    flag = np.where(has & (np.arange(120) > 20), 1.0, np.nan)  # it begins late
    X, pair = np.column_stack([X, flag]), (X.shape[1] - 1, X.shape[1])
    scaling = AutomaticScaling()
    scaling.grow(X.shape[1])
    scaling.pair([pair])
    parts = [scaling.learn(as_rows(_listed(X[at : at + at_once]), "float64")[0]) for at in range(0, 120, at_once)]
    scaled = np.vstack([dense(part, X.shape[1]) for part in parts])
    np.testing.assert_array_equal(scaled, transcription(X, pairs=[pair]))
    again = AutomaticScaling()
    again.restore(scaling.state(), X.shape[1], 0)
    again.pair([pair])
    row = as_rows(_listed(X[119:]), "float64")[0]
    assert again.score(row).values.tobytes() == scaling.score(row).values.tobytes()


def _listed(X: Array) -> sp.csr_array:
    """Return the values of rows that are not missing, as a record lists them."""
    has = ~np.isnan(X)
    return sp.csr_array((X[has], np.nonzero(has)[1], np.concatenate([[0], has.sum(axis=1).cumsum()])), shape=X.shape)


def test_scoring_is_learning_without_a_trace() -> None:
    X = mixed_matrix(1)
    scaling = AutomaticScaling()
    scaling.grow(5)
    scaling.learn(as_rows(X[:20, :5], "float64")[0])
    before = {name: array.copy() for name, array in scaling.state().items()}
    scored = dense(scaling.score(as_rows(X[20:22], "float64")[0]), 7)
    for name, array in scaling.state().items():
        np.testing.assert_array_equal(array, before[name])
    for i in (20, 21):  # each row is scaled as if it came next, with two new features
        past = np.hstack([X[:20, :5], np.zeros((20, 2))])
        np.testing.assert_array_equal(scored[i - 20], transcription(np.vstack([past, X[i]]))[-1])


@pytest.mark.parametrize("n_learnt", [69, 70, 75, 90])
def test_scoring_counts_a_row_as_if_it_were_learnt_restarts_included(n_learnt: int) -> None:
    X = changing_matrix(2)
    scaling, _ = learnt(X[:n_learnt])
    before = [array.tobytes() for array in scaling.state().values()]
    scored = dense(scaling.score(as_rows(X[n_learnt:], "float64")[0]), X.shape[1])
    assert [array.tobytes() for array in scaling.state().values()] == before
    for i in range(n_learnt, len(X)):
        np.testing.assert_array_equal(scored[i - n_learnt], transcription(np.vstack([X[:n_learnt], X[i]]))[-1])


@given(st.integers(0, 1000))
def test_a_missing_quantity_stands_at_the_mean(seed: int) -> None:
    X = mixed_matrix(seed)
    X[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
    scaling, none_learnt = AutomaticScaling(), AutomaticScaling()
    for each in (scaling, none_learnt):
        each.grow(X.shape[1])
    scaled = scaling.learn(as_rows(X, "float64")[0])
    np.testing.assert_array_equal(dense(scaled, X.shape[1]), transcription(X))
    has = ~np.isnan(X)
    np.testing.assert_array_equal(scaling.state()["scaling.moments"][:, HAVING], has.sum(axis=0))
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
    scaling.n_features = X.shape[1]
    for at in range(0, len(X), 4):
        rows = as_rows(X[at : at + 4], np.float64)[0]
        scaling.learn(rows)
        arrays = scaling.arrays(X.shape[1], 0)
        restored = AutomaticScaling(missing)
        restored.restore({name: array.copy() for name, array in arrays.items()}, X.shape[1], 0)
        asked = X.shape[1], 10, 20
        seen = int(restored._moments[:, COUNT].sum()) + 20
        due = 20 + 10 * min(X.shape[1], 2 * seen // (at + 5) + 1)
        assert scaling.values_after(*asked) == restored.values_after(*asked) == due
