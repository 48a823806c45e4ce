"""Passive-aggressive binary relevance, against a transcription of the paper and scikit-learn, label by label."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier
from tests.support.cases import for_each

from manylabel_core import FALT, KernelFALT, KernelPassiveAggressive, PassiveAggressive

Array = NDArray[Any]
VARIANTS = ["PA-I", "PA-II"]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 6)) * (RNG.random((80, 6)) < 0.7)
Y = (X @ RNG.normal(size=(6, 4)) + 0.5 * RNG.normal(size=(80, 4)) > 0).astype(int)


def transcribed(X: Array, Y: Array, known: Array, C: float, variant: str) -> tuple[Array, Array]:
    """Fig. 1 of Crammer et al. for each label by itself: scores before each step, and weights (d, L)."""
    W, scores = np.zeros((X.shape[1], Y.shape[1])), np.zeros(Y.shape)
    for t, x in enumerate(X):
        scores[t] = x @ W
        for label in np.flatnonzero(known[t]):
            y = 1 if Y[t, label] else -1
            loss = max(0.0, 1.0 - y * (x @ W[:, label]))
            if x @ x == 0.0:
                continue
            tau = min(C, loss / (x @ x)) if variant == "PA-I" else loss / (x @ x + 1 / (2 * C))
            W[:, label] += tau * y * x
    return scores, W


@for_each("variant", VARIANTS)
@for_each("C", [0.01, 0.3, 50.0])
@for_each("constant", [None, 0.3])
@for_each("partial", [False, True])
def test_it_is_the_algorithm_of_the_paper(variant: str, C: float, constant: float | None, partial: bool) -> None:
    known = np.random.default_rng(1).random(Y.shape) < 0.6 if partial else np.ones(Y.shape, dtype=bool)
    model = PassiveAggressive(
        C=C, variant=variant, scaling="none", fit_intercept=constant is not None, dtype="float64"
    ).partial_fit(X, Y, known if partial else None)
    first = np.full((len(X), 1), constant or 0.0)
    _, W = transcribed(np.hstack([first, X]), Y, known, C, variant)
    weights = model.state()["weights"]
    assert not weights[:, 0].any(), "the threshold has moved"
    np.testing.assert_allclose(weights[1:, 1:], W[1:], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(weights[0, 1:], W[0], rtol=1e-10, atol=1e-12)


@for_each(("variant", "rate"), [("PA-I", "pa1"), ("PA-II", "pa2")])
@for_each("C", [0.05, 1.0])
def test_each_label_is_a_model_of_scikit_learn(variant: str, rate: str, C: float) -> None:
    constant = 0.3
    with_constant = np.hstack([X, np.full((len(X), 1), constant)])
    model = PassiveAggressive(C=C, variant=variant, scaling="none", dtype="float64").partial_fit(X, Y)
    for label in range(Y.shape[1]):
        peer = SGDClassifier(
            penalty=None, learning_rate=rate, eta0=C, fit_intercept=False, max_iter=1, tol=None, shuffle=False
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(with_constant, Y[:, label])
        ours = model.decision_function(X)[:, label]
        np.testing.assert_allclose(ours, peer.decision_function(with_constant), rtol=1e-9, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from(VARIANTS), st.sampled_from([0.1, 1.0, 2.0**20]))
def test_a_step_does_what_the_loss_demands_and_no_more(seed: int, variant: str, C: float) -> None:
    """PA-I: margin 1 is met exactly or the step is C; PA-II: the loss left is tau / (2 C)."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(1, 3)), rng.integers(0, 2, size=(1, 4))
    model = PassiveAggressive(C=C, variant=variant, scaling="none", fit_intercept=False, dtype="float64")
    model.partial_fit(rng.normal(size=(5, 3)), rng.integers(0, 2, size=(5, 4)))
    before = model.state()["weights"]
    side = 2 * y[0] - 1
    slack = 1.0 - side * model.decision_function(x)[0]
    model.partial_fit(x, y)
    tau = side * ((model.state()["weights"] - before)[1:, 1:].T @ x[0]) / (x @ x.T).item()
    left = np.maximum(1.0 - side * model.decision_function(x)[0], 0.0)
    assert (tau >= -1e-9).all()
    np.testing.assert_allclose(tau[slack <= 0], 0.0, atol=1e-12)
    moved = slack > 0
    if variant == "PA-I":
        assert (tau <= C * (1 + 1e-9)).all()
        short = moved & (tau < C * (1 - 1e-9))
        np.testing.assert_allclose(left[short], 0.0, atol=1e-7)
    else:
        np.testing.assert_allclose(left[moved], tau[moved] / (2 * C), rtol=1e-6, atol=1e-9)


def test_a_label_that_nobody_has_seen_scores_0_and_is_not_predicted() -> None:
    unknown = np.ones(Y.shape, dtype=bool)
    unknown[:, 2] = False
    model = PassiveAggressive().partial_fit(X, Y, unknown)
    assert not model.decision_function(X)[:, 2].any()
    assert not model.predict(X)[:, 2].any()


def test_labels_do_not_know_of_each_other() -> None:
    together = PassiveAggressive().partial_fit(X, Y)
    for label in range(Y.shape[1]):
        alone = PassiveAggressive().partial_fit(X, Y[:, [label]])
        np.testing.assert_array_equal(alone.decision_function(X)[:, 0], together.decision_function(X)[:, label])


@for_each(
    ("parameters", "text"),
    [
        ({"C": 0.0}, "C must be a number above 0"),
        ({"C": 2.0**21}, "C must be a number above 0"),
        ({"C": "1"}, "C must be a number above 0"),
        ({"variant": "PA"}, "variant must be one of 'PA-I', 'PA-II'"),
    ],
)
def test_parameters_that_are_not_allowed(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        PassiveAggressive(**parameters).partial_fit(X, Y)


def test_it_takes_no_state_with_a_threshold() -> None:
    state = FALT(step="implicit").partial_fit(X, Y).state()
    assert state["weights"][:, 0].any()
    with pytest.raises(ValueError, match="weights with a first column of 0"):
        PassiveAggressive().restore(state)


@for_each("variant", VARIANTS)
@for_each("fit_intercept", [False, True])
def test_the_kernel_version_is_that_of_the_paper(variant: str, fit_intercept: bool) -> None:
    """Each label's coefficients by the kernel matrix alone."""
    gamma, C = 0.4, 0.7
    distances = ((X[:, np.newaxis] - X[np.newaxis]) ** 2).sum(axis=2)
    K = np.exp(-gamma * distances) + (0.09 if fit_intercept else 0.0)
    alpha = np.zeros(Y.shape)
    for t in range(len(X)):
        for label in range(Y.shape[1]):
            y = 2 * Y[t, label] - 1
            loss = max(0.0, 1.0 - y * (K[t] @ alpha[:, label]))
            alpha[t, label] = y * (min(C, loss / K[t, t]) if variant == "PA-I" else loss / (K[t, t] + 0.5 / C))
    model = KernelPassiveAggressive(
        C=C, variant=variant, gamma=gamma, fit_intercept=fit_intercept, scaling="none", dtype="float64"
    ).partial_fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), K @ alpha, rtol=1e-8, atol=1e-10)
    assert model.n_support_ == np.count_nonzero(alpha.any(axis=1))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_linear_kernel_is_the_linear_learner(variant: str) -> None:
    linear = PassiveAggressive(variant=variant, scaling="none", dtype="float64").partial_fit(X, Y)
    kernel = KernelPassiveAggressive(
        variant=variant, kernel="linear", fit_intercept=True, scaling="none", dtype="float64"
    ).partial_fit(X, Y)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), rtol=1e-8, atol=1e-10)


@for_each("strategy", ["rff", "nystroem"])
@for_each("variant", VARIANTS)
def test_features_of_a_kernel_are_learnt_like_others(strategy: str, variant: str) -> None:
    """With as many landmarks as examples, Nystroem features are the kernel itself; random ones come near it."""
    model = KernelPassiveAggressive(variant=variant, budget=1024, strategy=strategy, gamma=0.3, scaling="none")
    exact = KernelPassiveAggressive(variant=variant, gamma=0.3, scaling="none")
    ours, theirs = (each.partial_fit(X, Y).decision_function(X) for each in (model, exact))
    assert not model.state()["weights"][:, 0].any()
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.97


@pytest.mark.parametrize("name", ["coefficients", "intercept"])
def test_a_kernel_model_takes_no_state_with_a_threshold(name: str) -> None:
    model = KernelPassiveAggressive(fit_intercept=True, budget=10, strategy="merge").partial_fit(X, Y)
    state = model.state()
    state[name][0, 0] = 0.5
    with pytest.raises(ValueError, match=f"{name} with a first column of 0"):
        model.restore(state)
    with pytest.raises(ValueError, match="coefficients with a first column of 0"):
        KernelPassiveAggressive().restore(KernelFALT().partial_fit(X, Y).state())
