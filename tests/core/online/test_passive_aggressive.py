"""Passive-aggressive binary relevance, against a transcription of the paper and scikit-learn, label by label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
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


def test_a_state_with_a_threshold_is_refused() -> None:
    state = FALT(step="implicit").partial_fit(X, Y).state()
    assert state["weights"][:, 0].any()
    with pytest.raises(ValueError, match=r"first column of weights \(the threshold\) must be 0"):
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


@pytest.mark.parametrize("name", ["coefficients", "intercept"])
def test_a_kernel_state_with_a_threshold_is_refused(name: str) -> None:
    model = KernelPassiveAggressive(fit_intercept=True, budget=10).partial_fit(X, Y)
    state = model.state()
    state[name].flat[0] = 0.5
    with pytest.raises(ValueError, match=rf"first column of {name} \(the threshold\) must be 0"):
        model.restore(state)
    with pytest.raises(ValueError, match=r"first column of coefficients \(the threshold\) must be 0"):
        KernelPassiveAggressive().restore(KernelFALT().partial_fit(X, Y).state())
