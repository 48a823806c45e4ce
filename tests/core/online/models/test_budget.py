"""Kernel learners under a budget: what they may hold, and what the strategies have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each

from manylabel_core import KernelFALT, KernelSALT

Array = NDArray[np.float64]
SUPPORT = ("merge", "project")
STRATEGIES = (*SUPPORT, "rff", "nystroem")
ROUNDS: list[dict[str, Any]] = [{"step": "implicit"}, {"step": "gradient"}, {"passes": 3}]


def stream(n: int, seed: int = 0, d: int = 4, n_labels: int = 3) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, ((X[:, :n_labels] * X[:, 1 : 1 + n_labels] > 0) ^ (rng.random((n, n_labels)) < 0.1)).astype(int)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memory_is_flat_once_the_budget_is_full(strategy: str, average: bool) -> None:
    model = KernelFALT(step="implicit", budget=20, strategy=strategy, average=average, fit_intercept=True)
    sizes, held = set(), set()
    for seed in range(12):
        model.partial_fit(*stream(150, seed))
        if seed >= 2:
            sizes.add(model.pipeline.nbytes)
            content = model.pipeline.model
            arrays = content._support if strategy in SUPPORT else getattr(content._map, "_points", None)
            held.add(len(arrays.values) if arrays is not None else 0)
    assert len(sizes) == 1
    assert model.pipeline.nbytes == model.pipeline.nbytes_after(4, 3, 2**53, 2**53)
    assert max(held) <= 3 * 20 * 4 + 100, "the pool behind the vectors does not grow either"


@for_each("rounds", ROUNDS)
@for_each("average", [False, True])
@for_each("strategy", SUPPORT)
def test_a_budget_for_all_vectors_equals_no_budget(strategy, average, rounds) -> None:
    X, Y = stream(60)
    free = KernelFALT(average=average, **rounds).partial_fit(X, Y)
    model = KernelFALT(budget=60, strategy=strategy, average=average, **rounds).partial_fit(X, Y)
    assert free.n_support_ > 30
    np.testing.assert_array_equal(model.scores(X)[0], free.scores(X)[0])
    np.testing.assert_array_equal(model.state()["coefficients"], free.state()["coefficients"])


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("strategy", [None, *STRATEGIES])
def test_averaging_is_the_mean_of_what_was_learnt(strategy: str | None, fit_intercept: bool) -> None:
    """Mean of the scores of probes after each example, by a learner without averaging, since a label exists."""
    X, Y = stream(90)
    probes = np.random.default_rng(9).normal(size=(6, 4))
    common = {
        "step": "implicit",
        "strategy": strategy,
        "budget": strategy and 10,
        "dtype": "float64",
        "scaling": "none",
    }
    plain, model = (
        KernelFALT(average=average, fit_intercept=fit_intercept, calibrate=False, **common) for average in (False, True)
    )
    total, ages = np.zeros((6, 4)), np.zeros(4)
    for i in range(90):
        n_labels = 2 if i < 40 else 3
        for learner in (plain, model):
            learner.partial_fit(X[[i]], Y[[i], :n_labels])
        labels, thresholds = plain.scores(probes)
        total[:, : 1 + n_labels] += np.column_stack([thresholds, labels])
        ages[: 1 + n_labels] += 1
        labels, thresholds = model.scores(probes)
        # Once a vector has left, its past has left with it, and the mean is another one.
        if strategy not in SUPPORT or model.n_support_ < 10:
            means = total[:, : 1 + n_labels] / ages[: 1 + n_labels]
            np.testing.assert_allclose(np.column_stack([thresholds, labels]), means, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("strategy", SUPPORT)
def test_the_accumulator_changes_with_the_coefficients(strategy: str) -> None:
    """If every change is made at the same age, coefficients and accumulator stay in proportion."""
    X, Y = stream(80)
    model = KernelFALT(budget=8, strategy=strategy, average=True, dtype="float64", scaling="none", step="implicit")
    model.pipeline.grow(4, 3)
    for i in range(80):
        model.partial_fit(X[[i]], Y[[i]])
        model.pipeline.model._n_seen[:] = 7
        if i < 3:  # the first changes were made at other ages
            model.pipeline.model._support.alpha[:, 1] = 7 * model.pipeline.model._support.alpha[:, 0]
    state = model.state()
    np.testing.assert_allclose(state["accumulator"], 7 * state["coefficients"], rtol=1e-7, atol=1e-9)
    assert np.abs(state["coefficients"]).max() > 0.1


def test_the_default_strategy() -> None:
    assert KernelFALT(budget=10).resolved_params()["strategy"] == "project"
    assert KernelFALT(budget=10, kernel="linear").resolved_params()["strategy"] == "project"
    assert KernelFALT().resolved_params()["strategy"] is None
    assert KernelSALT().resolved_params()["strategy"] == "nystroem"
    X, Y = stream(50)
    for parameters in ({"budget": 10}, {"budget": 10, "kernel": "poly"}):
        chosen = KernelFALT(**parameters)
        named = KernelFALT(**chosen.resolved_params())
        np.testing.assert_array_equal(chosen.partial_fit(X, Y).scores(X)[0], named.partial_fit(X, Y).scores(X)[0])


BAD: list[tuple[type, dict[str, Any], str]] = [
    (KernelFALT, {"strategy": "merge"}, "^budget must be set with strategy='merge'"),
    (
        KernelFALT,
        {"strategy": "forget", "budget": 5},
        "^strategy must be one of 'project', 'merge', 'rff', 'nystroem'",
    ),
    (
        KernelFALT,
        {"strategy": "merge", "budget": 5, "kernel": "linear"},
        "^strategy must be one of 'project', 'nystroem' with kernel='linear'",
    ),
    (KernelFALT, {"strategy": "rff", "budget": 6, "kernel": "poly"}, "^strategy must be one of .* with kernel='poly'"),
    (KernelFALT, {"strategy": "rff", "budget": 7}, "^budget must be even with strategy='rff', not 7"),
    (KernelFALT, {"strategy": "rff", "budget": 16386}, "^budget must be an integer from 1 to 16384"),
    (KernelFALT, {"strategy": "project", "budget": 4097}, "^budget must be an integer from 1 to 4096"),
    (KernelFALT, {"strategy": "nystroem", "budget": 4097}, "^budget must be an integer from 1 to 4096"),
    (KernelFALT, {"seed": -1}, "^seed must be an integer from 0 to"),
    (KernelFALT, {"seed": True}, "^seed must be an integer from 0 to"),
    (KernelFALT, {"seed": 2**63}, "^seed must be an integer from 0 to"),
    (KernelFALT, {"average": 2}, "^average must be True or False"),
    (KernelSALT, {"budget": None}, "^budget must be set with strategy='nystroem'"),
    (KernelSALT, {"strategy": "merge"}, "^strategy must be one of 'nystroem', 'rff', not 'merge'"),
    (KernelSALT, {"strategy": "rff", "kernel": "linear"}, "^strategy must be one of 'nystroem' with kernel='linear'"),
    (KernelSALT, {"delta": -1.0}, "^delta must be a number above 0"),
    (KernelSALT, {"step": "implicit", "passes": 3}, "^passes must be None"),
]


@for_each(("make", "parameters", "message"), BAD)
def test_bad_parameters_are_refused_before_memory_is_taken(
    make: type, parameters: dict[str, Any], message: str
) -> None:
    for use in (lambda model: model.resolved_params(), lambda model: model.pipeline.grow(1, 1)):
        with pytest.raises(ValueError, match=message):
            use(make(**parameters))


def test_an_eta_changed_in_use_reaches_the_learner_on_the_features() -> None:
    X, Y = stream(40)
    for make, changes in ((KernelFALT, {"eta": 0.01}), (KernelSALT, {"eta": 0.01, "delta": 9.0})):
        model = make(budget=10, strategy="nystroem", step="implicit").partial_fit(X[:20], Y[:20])
        other = make(budget=10, strategy="nystroem", step="implicit", **changes)
        other.restore(model.state())
        model.set_params(**changes).partial_fit(X[20:], Y[20:])
        np.testing.assert_array_equal(model.scores(X)[0], other.partial_fit(X[20:], Y[20:]).scores(X)[0])
