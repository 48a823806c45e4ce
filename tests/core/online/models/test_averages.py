"""Averages: prediction by the mean of the weights after each example, against literal snapshots of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from manylabel_core import FALT, SALT, PassiveAggressive
from manylabel_core.online.margin import MarginLearner
from manylabel_core.online.models.linear._table import accumulate, copy_rows

Array = NDArray[np.float64]

LEARNERS: dict[str, tuple[type[MarginLearner], dict[str, Any]]] = {
    "falt": (FALT, {}),
    "falt-adaptive": (FALT, {"step": "adaptive"}),
    "falt-implicit": (FALT, {"step": "implicit"}),
    "falt-passes": (FALT, {"passes": 3}),
    "salt": (SALT, {}),
    "salt-implicit": (SALT, {"step": "implicit"}),
    "salt-one-pass": (SALT, {"passes": 1}),
    "salt-passes": (SALT, {"passes": 7}),
    "passive-aggressive": (PassiveAggressive, {}),
}


def make_stream(n: int = 80, d: int = 6) -> tuple[Array, list[NDArray[np.int64]]]:
    """Two labels, from the 30th example on a third, and from the 31st two more; at the end examples without a loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[-20:] = X[-21]  # learnt again and again until there is nothing to learn
    Y = (X @ rng.normal(size=(d, 5)) > 0.4).astype(int)
    return X, [Y[t, : 2 if t < 30 else 3 if t < 31 else 5] for t in range(n)]


def means(snapshots: list[Array]) -> Array:
    """Mean of the weights (1 + n_features, 1 + n_labels) after each example: of every column since it exists."""
    latest = snapshots[-1]
    total, count = np.zeros_like(latest), np.zeros(latest.shape[1])
    for weights in snapshots:
        total[:, : weights.shape[1]] += weights
        count[: weights.shape[1]] += 1
    return total / count


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("make", "parameters"), LEARNERS.values(), ids=LEARNERS)
def test_the_mean_is_that_of_literal_snapshots(
    make: type[MarginLearner], parameters: dict[str, Any], intercept: bool
) -> None:
    X, Y = make_stream()
    common = {"scaling": "none", "optimise": "none", "fit_intercept": intercept, "dtype": "float64", **parameters}
    averaged, plain = make(average=True, **common), make(**common)
    snapshots: list[Array] = []
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        averaged.partial_fit([x], [y])
        plain.partial_fit([x], [y])
        state, other = averaged.state(), plain.state()
        np.testing.assert_array_equal(state["weights"], other["weights"], err_msg="the present weights learn")
        snapshots.append(other["weights"])
        found = state["weights"] - state["accumulator"] / state["n_seen"]
        np.testing.assert_allclose(found, means(snapshots), rtol=1e-11, atol=1e-11)
        moved = t == 0 or not np.array_equal(*snapshots[-2:])
        if not averaged._stacked:
            labels, thresholds = averaged.scores(X)
            constant = np.full((len(X), 1), averaged.intercept_scaling * intercept)
            expected = np.hstack([constant, X]) @ means(snapshots)
            np.testing.assert_allclose(np.column_stack([thresholds, labels]), expected, rtol=1e-9, atol=1e-9)
    assert not moved, "the last rounds are without a loss"
    assert state["n_seen"].tolist() == [80, 80, 80, 50, 49, 49]
    assert np.abs(means(snapshots) - snapshots[-1]).max() > 1e-3


def test_an_example_counts_for_all_labels_if_the_truth_of_one_is_known() -> None:
    X, Y = np.ones((3, 1)), np.ones((3, 2), dtype=int)
    model = FALT(average=True, passes=1, fit_intercept=False).partial_fit(X[:1], Y[:1])
    before = model.state()["n_seen"].tolist()
    model.partial_fit(X, Y, known=np.zeros_like(Y))
    assert model.state()["n_seen"].tolist() == before == [1, 1, 1]
    model.partial_fit(X, Y, known=Y * [1, 0])
    assert model.state()["n_seen"].tolist() == [4, 4, 4]


@pytest.mark.parametrize("start", [0, 10_000_000])
def test_the_mean_in_float32_keeps_its_bound(start: int) -> None:
    """Weights stay the same for `start` examples, then change often; snapshots in float64 are the reference."""
    rng = np.random.default_rng(1)
    n, width, every = 50_000, 16, 2  # half of the examples change nothing
    table = np.zeros((1, 2, width), dtype=np.float32)
    table[0, 0] = 0.7
    rows, before = np.zeros(1, dtype=np.int64), np.empty((1, width), dtype=np.float32)
    total = start * table[0, 0].astype(np.float64)
    distance = np.zeros(width)
    steps = rng.normal(size=(n // every, width)).astype(np.float32) * np.geomspace(1e-5, 0.1, width, dtype=np.float32)
    for i, step in enumerate(steps):
        age = np.full(width, start + every * i, dtype=np.float32)
        copy_rows(table, rows, before)
        table[0, 0] = np.float32(0.999) * table[0, 0] + step
        accumulate(table, rows, len(age), age, before)
        total += every * table[0, 0].astype(np.float64)
        present = table[0, 0].astype(np.float64)
        distance = np.maximum(distance, np.abs(present - total / (start + every * (i + 1))))
    found = present - table[0, 1].astype(np.float64) / (start + n)
    error = np.abs(found - total / (start + n))
    assert (error <= 2.0**-24 * len(steps) * distance).all()
    assert (error <= 3 * 2.0**-24 * np.sqrt(len(steps)) * distance).all(), "roundings do not conspire"
    assert np.abs(found - present).min() > 100 * error.max(), "the mean is something else than the present weight"
