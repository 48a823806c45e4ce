"""FALT, SALT and KernelFALT against plain dense transcriptions of the paper, pass by literal pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT

Array = NDArray[np.float64]
PASSES = [1, 2, 7, 100, None]
"""Numbers of passes; None is the number of labels, and at least one pass."""


class Stream(NamedTuple):
    X: Array
    Y: NDArray[np.int64]
    known: NDArray[np.bool_]


def make_stream(seed: int, n: int = 60, d: int = 9, n_labels: int = 6, density: float = 0.6) -> Stream:
    """Learnable labels, among them examples with no label, with all labels, and with few known labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    Y = (X @ rng.normal(size=(d, n_labels)) + 0.3 * rng.normal(size=(n, n_labels)) > 0.5).astype(int)
    Y[3], Y[4], X[5] = 0, 1, 0
    known = rng.random((n, n_labels)) < rng.choice([0.0, 0.5, 1.0], size=(n, 1))
    return Stream(X, Y, known)


class Side(NamedTuple):
    relevant: list[int]
    irrelevant: list[int]


def sides(y: NDArray[np.int64], known: NDArray[np.bool_]) -> Side:
    return Side([i for i in range(len(y)) if known[i] and y[i]], [i for i in range(len(y)) if known[i] and not y[i]])


def loss(scores: Array, side: Side) -> float:
    """Eq. (4); the threshold is the last score; a mean over an empty set is 0."""
    labels, threshold = scores[:-1], scores[-1]
    up = [max(0.0, 1.0 - (labels[i] - threshold)) for i in side.relevant]
    down = [max(0.0, 1.0 - (threshold - labels[i])) for i in side.irrelevant]
    return (float(np.mean(up)) if up else 0.0) + (float(np.mean(down)) if down else 0.0)


def slopes(scores: Array, side: Side) -> Array:
    """Factors of x in the gradients below Eq. (6), the threshold last."""
    labels, threshold = scores[:-1], scores[-1]
    factor = np.zeros(len(scores))
    for i in side.relevant:
        if labels[i] - threshold < 1.0:
            factor[i] = -1.0 / len(side.relevant)
            factor[-1] += 1.0 / len(side.relevant)
    for i in side.irrelevant:
        if threshold - labels[i] < 1.0:
            factor[i] = 1.0 / len(side.irrelevant)
            factor[-1] -= 1.0 / len(side.irrelevant)
    return factor


def given(passes: int | None) -> dict[str, Any]:
    return {"passes": passes, "step": "gradient", "scaling": "none", "optimise": "none"}


def limit(passes: int | None, n_labels: int) -> int:
    return passes or max(1, n_labels)


def plain_falt(stream: Stream, eta: float, passes: int | None) -> tuple[Array, Array]:
    """Scores before each example, and W (d, L + 1) at the end, by Eq. (6)."""
    n_labels = stream.Y.shape[1]
    W, seen = np.zeros((stream.X.shape[1], n_labels + 1)), []
    for x, y, known in zip(*stream, strict=True):
        side = sides(y, known)
        seen.append(x @ W)
        for _ in range(limit(passes, n_labels)):
            if loss(x @ W, side) == 0.0:
                break
            W = W - eta * np.outer(x, slopes(x @ W, side))
    return np.array(seen), W


def plain_salt(stream: Stream, eta: float, delta: float, passes: int | None) -> tuple[Array, Array, Array]:
    """Scores before each example, W, and the sums of squared gradients, by Algorithm 3."""
    n_labels = stream.Y.shape[1]
    W = np.zeros((stream.X.shape[1], n_labels + 1))
    S, seen = np.zeros_like(W), []
    for x, y, known in zip(*stream, strict=True):
        side = sides(y, known)
        seen.append(x @ W)
        for _ in range(limit(passes, n_labels)):
            if loss(x @ W, side) == 0.0:
                break
            gradient = np.outer(x, slopes(x @ W, side))
            S = S + gradient**2
            W = W - eta * gradient / (delta + np.sqrt(S))
    return np.array(seen), W, S


def plain_kernel_falt(stream: Stream, eta: float, passes: int | None, kernel: Callable[[Array, Array], float]) -> Array:
    """Scores before each example, by section 5: one vector per round that had a loss, passes run literally."""
    n_labels = stream.Y.shape[1]
    vectors: list[Array] = []
    alpha: list[Array] = []
    seen = []
    for x, y, known in zip(*stream, strict=True):
        side = sides(y, known)
        scores = sum((kernel(v, x) * a for v, a in zip(vectors, alpha, strict=True)), np.zeros(n_labels + 1))
        seen.append(scores.copy())
        tau = np.zeros(n_labels + 1)
        for _ in range(limit(passes, n_labels)):
            now = scores + kernel(x, x) * tau
            if loss(now, side) == 0.0:
                break
            tau = tau - eta * slopes(now, side)
        if tau.any():
            vectors.append(x)
            alpha.append(tau)
    return np.array(seen)


def threshold_first(scores: Array) -> Array:
    return np.roll(scores, 1, axis=1)


def learn_one_by_one(model: FALT | SALT | KernelFALT, stream: Stream) -> Array:
    """Scores before each example, threshold first."""
    model.pipeline.grow(stream.X.shape[1], stream.Y.shape[1])
    seen = []
    for x, y, known in zip(*stream, strict=True):
        labels, thresholds = model.scores([x])
        seen.append([*thresholds, *labels[0]])
        model.partial_fit([x], [y], known=[known])
    return np.array(seen)


def with_intercept(stream: Stream) -> Stream:
    return stream._replace(X=np.hstack([np.full((len(stream.X), 1), 0.7), stream.X]))


def assert_same(actual: Array, expected: Array) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(expected).max()))


@for_each("passes", PASSES)
@for_each("intercept", [False, True])
@for_each("seed", range(3))
def test_falt_is_the_literal_algorithm(seed: int, intercept: bool, passes: int | None) -> None:
    stream = make_stream(seed)
    model = FALT(eta=0.137, **given(passes), fit_intercept=intercept, intercept_scaling=0.7, dtype="float64")
    scores = learn_one_by_one(model, stream)
    seen, W = plain_falt(with_intercept(stream) if intercept else stream, 0.137, passes)
    assert_same(scores, threshold_first(seen))
    assert_same(model.state()["weights"][0 if intercept else 1 :], threshold_first(W))
    assert np.abs(W).max() > 0.1


@for_each("passes", PASSES)
@for_each("intercept", [False, True])
@for_each(("n_labels", "seed"), [(6, 0), (6, 1), (40, 2)])  # with 40, few violations among many
def test_salt_is_the_literal_algorithm(n_labels: int, seed: int, intercept: bool, passes: int | None) -> None:
    stream = make_stream(seed, n_labels=n_labels)
    model = SALT(eta=0.237, delta=0.4, **given(passes), fit_intercept=intercept, intercept_scaling=0.7, dtype="float64")
    scores = learn_one_by_one(model, stream)
    seen, W, S = plain_salt(with_intercept(stream) if intercept else stream, 0.237, 0.4, passes)
    assert_same(scores, threshold_first(seen))
    first = 0 if intercept else 1
    assert_same(model.state()["weights"][first:], threshold_first(W))
    assert_same(model.state()["squares"][first:], threshold_first(S))


KERNELS: dict[str, tuple[dict[str, object], Callable[[Array, Array], float]]] = {
    "rbf": ({"gamma": 0.3}, lambda u, v: float(np.exp(-0.3 * ((u - v) ** 2).sum()))),
    "linear": ({}, lambda u, v: float(u @ v)),
    "poly": ({"gamma": 0.5, "coef0": 0.7, "degree": 3}, lambda u, v: float((0.5 * (u @ v) + 0.7) ** 3)),
}


@for_each("passes", PASSES)
@for_each("intercept", [False, True])
@for_each("name", KERNELS)
def test_kernel_falt_is_the_literal_algorithm(name: str, intercept: bool, passes: int | None) -> None:
    stream = make_stream(4)
    parameters, kernel = KERNELS[name]
    eta = 0.0137 if name == "poly" else 0.137
    model = KernelFALT(
        eta=eta,
        **given(passes),
        kernel=name,
        fit_intercept=intercept,
        intercept_scaling=0.7,
        dtype="float64",
        **parameters,  # type: ignore[arg-type]
    )
    scores = learn_one_by_one(model, stream)
    expected = plain_kernel_falt(stream, eta, passes, lambda u, v: kernel(u, v) + 0.49 * intercept)
    np.testing.assert_allclose(scores, threshold_first(expected), rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_one_vector_for_each_round_that_had_a_loss() -> None:
    X, Y = np.eye(3), np.array([[1, 0], [0, 1], [1, 1]])
    model = KernelFALT(eta=0.6, passes=10, gamma=20.0).partial_fit(X, Y)
    assert model.n_support_ == 3
    assert model.partial_fit(X, Y).n_support_ == 3, "rows learnt with a margin of 1 need no vector"


@for_each("passes", [1, 18])
@for_each("make", [FALT, SALT, KernelFALT])
def test_float32_follows_float64(make: type[FALT], passes: int) -> None:
    stream = make_stream(6)
    single = learn_one_by_one(make(eta=0.137, **given(passes)), stream)
    double = learn_one_by_one(make(eta=0.137, **given(passes), dtype="float64"), stream)
    np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-3 * np.abs(double).max())


@pytest.mark.parametrize("make", [FALT, SALT, KernelFALT])
def test_a_margin_of_exactly_1_is_no_violation(make: type[FALT]) -> None:
    """One step of 1/2 up and one of the threshold down reach it; with a violation there would be more steps."""
    eta = 1.0 if make is SALT else 0.5  # SALT halves it: delta and the root of the squared gradient are 1
    model = make(eta=eta, passes=100, fit_intercept=False).partial_fit([[1.0]], [[1]])
    assert [scores.tolist() for scores in model.scores([[1.0]])] == [[[0.5]], [-0.5]]
    other_side = make(eta=eta, passes=100, fit_intercept=False).partial_fit([[1.0]], [[0]])
    assert [scores.tolist() for scores in other_side.scores([[1.0]])] == [[[-0.5]], [0.5]]
