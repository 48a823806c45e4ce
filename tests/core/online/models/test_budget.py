"""Kernel learners under a budget: what they may hold, and what the strategies have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each

from manylabel_core import KernelFALT, KernelSALT

Array = NDArray[np.float64]
STRATEGIES = ("project", "nystroem")
ROUNDS: list[dict[str, Any]] = [{"step": "implicit"}, {"step": "gradient"}, {"passes": 3}]


def stream(n: int, seed: int = 0, d: int = 4, n_labels: int = 3) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, ((X[:, :n_labels] * X[:, 1 : 1 + n_labels] > 0) ^ (rng.random((n, n_labels)) < 0.1)).astype(int)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memory_is_flat_once_the_budget_is_full(strategy: str) -> None:
    model = KernelFALT(step="implicit", budget=20, strategy=strategy, fit_intercept=True)
    sizes, held = set(), set()
    for seed in range(12):
        model.partial_fit(*stream(150, seed))
        if seed >= 2:
            sizes.add(model.pipeline.nbytes)
            content = model.pipeline.model
            arrays = content._support if strategy == "project" else content._landmarks._points
            held.add(len(arrays.values))
    assert len(sizes) == 1
    assert model.pipeline.nbytes == model.pipeline.nbytes_after(4, 3, 2**53, 2**53)
    assert max(held) <= 3 * 20 * 4 + 100, "the pool behind the vectors does not grow either"


@for_each("rounds", ROUNDS)
def test_a_budget_for_all_vectors_equals_no_budget(rounds) -> None:
    X, Y = stream(60)
    free = KernelFALT(**rounds).partial_fit(X, Y)
    model = KernelFALT(budget=60, **rounds).partial_fit(X, Y)
    assert free.n_support_ > 30
    np.testing.assert_array_equal(model.scores(X)[0], free.scores(X)[0])
    np.testing.assert_array_equal(model.state()["coefficients"], free.state()["coefficients"])


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
    (KernelFALT, {"strategy": "nystroem"}, "^budget must be set with strategy='nystroem'"),
    (KernelFALT, {"strategy": "forget", "budget": 5}, "^strategy must be one of 'project', 'nystroem'"),
    (KernelFALT, {"strategy": "project", "budget": 4097}, "^budget must be an integer from 1 to 4096"),
    (KernelFALT, {"strategy": "nystroem", "budget": 4097}, "^budget must be an integer from 1 to 4096"),
    (KernelFALT, {"budget": True}, "^budget must be an integer from 1 to 4096"),
    (KernelSALT, {"budget": None}, "^budget must be an integer from 1 to 4096, not None"),
    (KernelSALT, {"strategy": "project"}, "^strategy must be "),
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
