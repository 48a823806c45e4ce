"""Automatic scaling of a fit: against NumPy, in any order of the rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.core.scaling.transcription import VARIES, Array

from manylabel_core import M3L
from manylabel_core.scaling._automatic import COUNT, HAVING, LAST, MEAN, RUN, SAME, SINCE, SQUARES
from manylabel_core.scaling._fitted import OUTLIER
from manylabel_core.scaling.fitted import FittedAutomaticScaling


def columns(seed: int, n: int = 300) -> Array:
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.0, (n, 8))
    return np.column_stack(
        [
            50.0 + 3.0 * z[:, 0],
            np.where(rng.random(n) < 0.02, 1e9, z[:, 1]),
            np.exp(2.0 * z[:, 2]),
            np.where(rng.random(n) < 0.05, 4.0, 3.0),
            np.where(rng.random(n) < 0.6, np.nan, 100.0 + z[:, 3]),
            z[:, 4] * (rng.random(n) < 0.3),
            np.round(z[:, 5]),
            rng.standard_cauchy(n),
            np.full(n, 7.0),
            np.zeros(n),
            np.full(n, np.nan),
        ]
    )


def expected(values: Array) -> tuple[int, float, float, float]:
    """Return count, mean, squares and repeats of the values of a column, by the definition."""
    given = values[~np.isnan(values) & (values != 0)]
    if not len(given):
        return 0, 0.0, 0.0, 0.0
    mean, variance, clipped = given.mean(), given.var(), given
    for _ in range(200):
        low, high = mean - OUTLIER * np.sqrt(variance), mean + OUTLIER * np.sqrt(variance)
        within = given[(given >= low) & (given <= high)]
        if len(within) == len(given) or not within.var() > VARIES * within.mean() ** 2:
            break
        clipped, before = np.clip(given, low, high), variance
        mean, variance = clipped.mean(), clipped.var()
        if abs(variance - before) <= 1e-6 * before:
            break
    times = np.unique(given, return_counts=True)[1]
    return len(given), mean, variance * len(given), np.floor((times * (times - 1.0)).sum() / len(given))


def moments(X: Any) -> Array:
    found: Array = FittedAutomaticScaling.fit(X).arrays()["scaling.moments"]
    return found


@given(st.integers(0, 1000), st.sampled_from(["float32", "float64"]))
def test_the_statistics_of_a_fit_do_not_depend_on_the_order_of_rows(seed: int, dtype: str) -> None:
    X = columns(seed).astype(dtype)
    found = moments(X)
    shuffled = X[np.random.default_rng(seed).permutation(len(X))]
    assert found.tobytes() == moments(shuffled).tobytes()
    assert FittedAutomaticScaling.fit(shuffled)(X).tobytes() == FittedAutomaticScaling.fit(X)(X).tobytes()
    for feature, values in enumerate(X.T.astype(np.float64)):
        n, mean, squares, same = expected(values)
        own = found[feature]
        assert (own[COUNT], own[SINCE], own[SAME], own[RUN], own[LAST]) == (n, n, same, 0, 0)
        assert own[HAVING] == (~np.isnan(values)).sum()
        assert (own[MEAN], own[SQUARES]) == pytest.approx((mean, squares), rel=1e-9, abs=1e-12)


def test_a_sparse_matrix_has_the_statistics_of_its_stored_values() -> None:
    X = columns(3)
    has = ~np.isnan(X)
    rows, features = np.nonzero(has)
    listed = sp.csr_array((X[has], features, np.searchsorted(rows, np.arange(len(X) + 1))), shape=X.shape)
    assert moments(listed).tobytes() == moments(X).tobytes()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 2)])
def test_small_matrices(shape: tuple[int, int]) -> None:
    assert moments(np.ones(shape))[:, COUNT].tolist() == [shape[0]] * shape[1]


def test_a_model_does_not_depend_on_the_order_of_the_file() -> None:
    """Rows sorted by a price, of which the last have another level, were once learnt as if all of these were alike."""
    rng = np.random.default_rng(0)
    price = np.sort(np.concatenate([rng.normal(2.0, 0.5, 1000), rng.normal(400.0, 100.0, 150)]))
    X, Y = np.column_stack([price, rng.normal(0.0, 1.0, len(price))]), (price > 400.0)[:, np.newaxis].astype(int)
    high = price > 100.0
    for order in (slice(None), slice(None, None, -1), rng.permutation(len(price))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = M3L(scaling="auto", optimise="none").fit(X[order], Y[order])
        assert (model.predict(X)[high] == Y[high]).mean() > 0.95
