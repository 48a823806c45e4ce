"""The regret bound of Theorem 1, Eq. (7), which section 5 extends to kernels.

Comparators are expansions U = sum_s beta_s phi(x_s) over the stream itself, so that one test serves both
learners: with the Gram matrix K their scores are K beta, and |U|^2 is the trace of beta' K beta.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from manylabel_core import FALT, KernelFALT

Array = NDArray[np.float64]


def losses(scores: Array, Y: NDArray[np.bool_]) -> Array:
    """Eq. (4) of every row of scores, threshold first."""
    margins = scores[:, 1:] - scores[:, :1]
    hinge = np.maximum(0.0, 1.0 - np.where(Y, margins, -margins))
    up = (hinge * Y).sum(axis=1) / np.maximum(Y.sum(axis=1), 1)
    return np.asarray(up + (hinge * ~Y).sum(axis=1) / np.maximum((~Y).sum(axis=1), 1))


def slopes(scores: Array, Y: NDArray[np.bool_]) -> Array:
    """Subgradients of `losses` in the scores."""
    margins = scores[:, 1:] - scores[:, :1]
    up = (Y & (margins < 1)) / np.maximum(Y.sum(axis=1, keepdims=True), 1)
    down = (~Y & (-margins < 1)) / np.maximum((~Y).sum(axis=1, keepdims=True), 1)
    return np.hstack([(up - down).sum(axis=1, keepdims=True), down - up])


def good_comparator(K: Array, Y: NDArray[np.bool_], steps: int = 100) -> Array:
    """The best of some subgradient steps on the sum of losses: any U satisfies the bound, a good one tests it."""
    beta = np.zeros((len(Y), 1 + Y.shape[1]))
    best, least = beta, np.inf
    for step in range(steps):
        total = losses(K @ beta, Y).sum()
        if total < least:
            best, least = beta, total
        beta = beta - slopes(K @ beta, Y) / (np.diag(K).max() * np.sqrt(1.0 + step))
    return best


def regret_and_bound(scores: Array, K: Array, Y: NDArray[np.bool_], beta: Array, eta: float) -> tuple[float, float]:
    regret = float((losses(scores, Y) - losses(K @ beta, Y)).sum())
    return regret, float(np.einsum("sl,st,tl->", beta, K, beta) / (2 * eta) + eta * np.diag(K).max() * len(K))


def rbf(X: Array, gamma: float) -> Array:
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def run(kernel: str, X: Array, Y: NDArray[np.bool_], eta: float) -> tuple[Array, Array]:
    """Scores before each example, threshold first, and the Gram matrix."""
    if kernel == "linear":
        model: FALT | KernelFALT = FALT(eta=eta, passes=1, fit_intercept=False, dtype="float64")
        K = X @ X.T
    else:
        model, K = KernelFALT(eta=eta, passes=1, gamma=0.5, dtype="float64"), rbf(X, 0.5)
    model.pipeline.grow(X.shape[1], Y.shape[1])
    scores = []
    for x, y in zip(X, Y, strict=True):
        labels, threshold = model.scores([x])
        scores.append([*threshold, *labels[0]])
        model.partial_fit([x], [y])
    return np.array(scores), K


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 80),
    n_labels=st.integers(1, 6),
    noise=st.sampled_from([0.0, 0.3, 10.0]),
    eta=st.sampled_from([0.01, 0.1, 1.0, 10.0]),
)
def test_the_bound_holds(kernel: str, seed: int, n: int, n_labels: int, noise: float, eta: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * rng.choice([0.1, 1.0, 5.0])
    Y = X @ rng.normal(size=(5, n_labels)) + noise * rng.normal(size=(n, n_labels)) > rng.normal()
    scores, K = run(kernel, X, Y, eta)
    for beta in (
        np.zeros((n, 1 + n_labels)),
        good_comparator(K, Y),
        rng.normal(size=(n, 1 + n_labels)) / n,
    ):
        regret, bound = regret_and_bound(scores, K, Y, beta, eta)
        assert regret <= bound * (1 + 1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_bound_holds_against_an_opponent(kernel: str) -> None:
    """Every truth is the opposite of the prediction."""
    rng = np.random.default_rng(0)
    X, n_labels, eta = rng.normal(size=(60, 4)), 3, 0.1
    Y = np.zeros((60, n_labels), dtype=np.bool_)
    for t in range(60):
        scores, K = run(kernel, X[: t + 1], Y[: t + 1], eta)
        Y[t] = scores[t, 1:] <= scores[t, 0]
    scores, K = run(kernel, X, Y, eta)
    assert (losses(scores, Y) >= 1.0).all()
    for beta in (np.zeros((60, 1 + n_labels)), good_comparator(K, Y)):
        regret, bound = regret_and_bound(scores, K, Y, beta, eta)
        assert regret <= bound


def test_the_bound_is_not_empty() -> None:
    """On a stream that can be separated, a model that learns nothing would break it."""
    X = np.tile(np.eye(4), (150, 1))
    Y = np.tile(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1]], dtype=np.bool_), (150, 1))
    beta = np.zeros((600, 4))
    beta[:4, 1:] = np.where(Y[:4], 1.0, -1.0)
    scores, K = run("linear", X, Y, eta=0.1)
    assert losses(K @ beta, Y).sum() == 0.0
    regret, bound = regret_and_bound(scores, K, Y, beta, eta=0.1)
    lazy, _ = regret_and_bound(np.zeros_like(scores), K, Y, beta, eta=0.1)
    assert regret <= bound < lazy / 5
