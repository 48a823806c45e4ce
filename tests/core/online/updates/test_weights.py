"""Weights of examples: each step is that of the loss times the weight, and a weight of 1 changes no bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.core.online.catalogue import EXPANSIONS, LEARNERS, LINEAR, Make, again
from tests.support.cases import for_each
from tests.support.lazy import lazy

from manylabel_core import FALT, SALT, KernelFALT, KernelPassiveAggressive, PassiveAggressive
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, as_rows, as_targets

cp = lazy("cvxpy")

PLAIN: dict[str, Any] = {"dtype": "float64", "scaling": "none", "calibrate": False, "optimise": "none"}


def stream(n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(11)
    X = generator.normal(size=(n, 5)) * (generator.random((n, 5)) < 0.8)
    Y = (X @ generator.normal(size=(5, 3)) > 0.3).astype(int)
    return X, Y, np.where(generator.random(n) < 0.5, 1.0, 10.0 ** generator.uniform(-2, 3, n))


def same(one: OnlineLearner, other: OnlineLearner) -> bool:
    return all(np.array_equal(array, other.state()[name]) for name, array in one.state().items())


LOSSLESS = [name for name in {**LINEAR, **EXPANSIONS} if "stacked" not in name]
"""Learners that come to have no loss: vectors that are merged always have some, and log-odds too."""

every_learner = pytest.mark.parametrize("make", LEARNERS.values(), ids=list(LEARNERS))


@every_learner
def test_a_weight_of_1_changes_no_bit(make: Make) -> None:
    X, Y, _ = stream()
    plain, weighted = (make() for _ in range(2))
    plain.partial_fit(X, Y)
    weighted.pipeline.grow(5, 3)
    rows, targets = as_rows(X, weighted.dtype)[0], as_targets(Y)
    weighted.pipeline.learn(rows, targets._replace(weights=np.ones(len(X))))
    assert same(plain, weighted)


@every_learner
def test_weights_count_however_examples_are_grouped(make: Make) -> None:
    X, Y, weights = stream()
    whole, single, plain = make(), make(), make()
    whole.partial_fit(X, Y, sample_weight=weights)
    for x, y, weight in zip(X, Y, weights, strict=True):
        single.partial_fit(x[np.newaxis], y[np.newaxis], sample_weight=[weight])
        restored = again(single)
        restored.restore(single.state())
        single = restored
    plain.partial_fit(X, Y)
    assert same(whole, single)
    assert not same(whole, plain)


@for_each("name", LOSSLESS)
def test_an_example_without_a_loss_moves_nothing_whatever_it_weighs(name: str) -> None:
    make: Make = LEARNERS[name]
    if "project" in name:
        make = partial(make, budget=8)  # enough to have no loss
    X, Y = np.eye(3) * 2.0, np.eye(3, dtype=int)
    model = make(calibrate=False, optimise="none", scaling="none", dtype="float64")
    for _ in range(100):
        model.partial_fit(X, Y, sample_weight=[100.0] * 3)
    names = [name for name in model.state() if name.split(".")[-1] in ("weights", "squares", "coefficients")]
    assert names
    margins = model.decision_function(X)
    assert (np.where(Y, margins, -margins) >= 1.0 - 1e-9).all()
    before = model.state()
    model.partial_fit(X, Y, sample_weight=[1.0, 1e-3, 1000.0])
    for name in names:
        np.testing.assert_allclose(model.state()[name], before[name], rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("dev_extra")
@for_each("weight", [0.05, 3.0, 700.0])
@for_each("variant", ["PA-I", "PA-II"])
def test_passive_aggressive_steps_solve_their_problem(variant: str, weight: float) -> None:
    generator = np.random.default_rng(2)
    for C in (0.01, 1.0):
        x, y = generator.normal(size=4), generator.random(3) < 0.5
        W = generator.normal(size=(4, 3))
        model = PassiveAggressive(C=C, variant=variant, fit_intercept=False, **PLAIN)
        model.pipeline.grow(4, 3)
        weights = np.zeros((5, 4))
        weights[1:, 1:] = W
        model.restore({**model.state(), "weights": weights})
        model.partial_fit(x[np.newaxis], y[np.newaxis], sample_weight=[weight])
        V = cp.Variable((4, 3))
        slack = cp.pos(1.0 - cp.multiply(2.0 * y - 1.0, x @ V))
        loss = cp.sum(slack if variant == "PA-I" else cp.square(slack))
        problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(V - W) + C * weight * loss))
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        np.testing.assert_allclose(model.state()["weights"][1:, 1:], V.value, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "linear"),
    [
        (KernelFALT(step="implicit", kernel="linear", fit_intercept=True, **PLAIN), FALT(step="implicit", **PLAIN)),
        (KernelFALT(passes=3, kernel="linear", fit_intercept=True, **PLAIN), FALT(passes=3, **PLAIN)),
        (
            KernelPassiveAggressive(kernel="linear", fit_intercept=True, variant="PA-II", **PLAIN),
            PassiveAggressive(variant="PA-II", **PLAIN),
        ),
    ],
    ids=["implicit", "passes", "passive-aggressive"],
)
def test_kernel_steps_are_the_linear_ones_with_a_linear_kernel(kernel: OnlineLearner, linear: OnlineLearner) -> None:
    X, Y, weights = stream()
    kernel, linear = again(kernel, eta=0.3) if hasattr(kernel, "eta") else kernel, linear
    linear = again(linear, eta=0.3) if hasattr(linear, "eta") else linear
    for model in (kernel, linear):
        model.partial_fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), rtol=1e-8, atol=1e-8)


@for_each("weight", [0.1, 8.0])
@for_each("make", [FALT, SALT])
def test_a_weight_multiplies_the_gradient_of_a_pass(make: Any, weight: float) -> None:
    """FALT then steps as with a larger eta; SALT also squares the weighted gradient."""
    X, Y, _ = stream(1)
    weighted = make(eta=0.1, passes=3, **PLAIN).partial_fit(X, Y, sample_weight=[weight]).state()
    if make is FALT:
        assert (
            weighted["weights"] == FALT(eta=0.1 * weight, passes=3, **PLAIN).partial_fit(X, Y).state()["weights"]
        ).all()
        return
    once = SALT(eta=0.1, passes=1, **PLAIN)
    plain, heavy = once.partial_fit(X, Y).state(), again(once).partial_fit(X, Y, sample_weight=[weight]).state()
    np.testing.assert_allclose(heavy["squares"], weight**2 * plain["squares"])
    gradient = np.sqrt(heavy["squares"])
    np.testing.assert_allclose(np.abs(heavy["weights"]), 0.1 * gradient / (1.0 + gradient), atol=1e-15)


@every_learner
def test_heavy_examples_of_any_size_stay_finite(make: Make) -> None:
    X = np.array([[1e15, -1e15], [1e-30, 3.0], [1e15, 1e15], [0.0, 0.0]])
    model = make()
    for _ in range(20):
        model.partial_fit(X, [[1, 0], [0, 1], [1, 1], [0, 0]], sample_weight=[1000.0, 1e-300, 1e-12, 999.0])
    assert all(np.isfinite(array).all() for array in model.state().values())
    again(model).restore(model.state())


def test_probabilities_count_weights() -> None:
    """An example counts as evidence in proportion to its weight: heavy positives make a rare label likely."""
    X, Y = np.zeros((400, 1)), np.random.default_rng(0).permutation(np.arange(400) % 10 == 0).astype(int)[:, np.newaxis]
    plain = FALT().partial_fit(X, Y)
    heavy = FALT().partial_fit(X, Y, sample_weight=np.where(Y[:, 0], 9.0, 1.0))
    assert plain.predict_proba(X[:1])[0, 0] < 0.25
    assert 0.35 < heavy.predict_proba(X[:1])[0, 0] < 0.65


@for_each(
    "wrong", [[0.0], [-1.0], [np.nan], [np.inf], [1000.1], [1.0, 1.0], 1.0, ["1"], [True], [[1.0]], [None]], ids=str
)
def test_invalid_weights_are_refused(wrong: Any) -> None:
    model = FALT()
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit([[1.0]], [[1]], sample_weight=wrong)
    assert model.n_labels_ == 0


@for_each("wrong", [[0.0], [np.nan], [2 * MAX_EXAMPLE_WEIGHT], [1.0, 1.0]])
def test_arrays_of_weights_are_checked(wrong: list[float]) -> None:
    model = FALT()
    model.pipeline.grow(1, 1)
    targets = as_targets([[1]])._replace(weights=np.array(wrong))
    with pytest.raises(ValueError, match="weight"):
        model.pipeline.learn(as_rows(sp.csr_array([[1.0]]))[0], targets)
