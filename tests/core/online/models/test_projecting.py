"""Projection of support vectors, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from manylabel_core import KernelFALT
from manylabel_core.online.models.expansion import project as projecting
from manylabel_core.online.models.expansion._project import (
    RIDGE,
    least_missed,
    multiply,
    project,
)
from manylabel_core.online.models.expansion.project import Project

Array = NDArray[np.float64]


def gram(X: Array, gamma: float = 0.5) -> Array:
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=-1))


def inverse(C: Array) -> Array:
    return np.linalg.inv(C + RIDGE * np.eye(len(C)))


@pytest.mark.parametrize("slot", [0, 7])
def test_projection_is_least_squares(slot: int) -> None:
    """The coefficients given to the others, and the squared distance that 1 / q promises, with the ridge's part."""
    rng = np.random.default_rng(2)
    C, alpha = gram(rng.normal(size=(8, 4)), 0.2), rng.normal(size=(8, 3))
    others = np.arange(8) != slot
    K = C[np.ix_(others, others)] + RIDGE * np.eye(7)
    shares = np.linalg.solve(K, C[others, slot])
    missed = 1.0 + RIDGE - C[others, slot] @ shares
    q = inverse(C)[:, slot]
    np.testing.assert_allclose(1.0 / q[slot], missed, rtol=1e-9)
    by_least_squares = np.linalg.lstsq(
        np.linalg.cholesky(K).T, np.linalg.solve(np.linalg.cholesky(K), C[others, slot]), rcond=None
    )[0]
    np.testing.assert_allclose(-q[others] / q[slot], by_least_squares, rtol=1e-6)
    projected, weights = alpha.copy(), np.zeros(8)
    project(projected, weights, slot, -q / q[slot], np.ones(8), 8)
    np.testing.assert_allclose(projected[others], alpha[others] + shares[:, None] * alpha[slot], rtol=1e-6)
    np.testing.assert_allclose(weights[others], (projected[others] ** 2).sum(axis=1))
    # For each label, the function changes at most by the part of the vector that is not projected.
    full, less = alpha, projected[others]
    lost = (
        full.T @ C @ full
        + less.T @ C[np.ix_(others, others)] @ less
        - full.T @ C[:, others] @ less
        - less.T @ C[others] @ full
    )
    assert (np.diag(lost) <= (alpha[slot] ** 2) * missed * (1 + 1e-9)).all()


def test_the_vector_with_the_least_loss_is_removed() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        C, scales = gram(rng.normal(size=(9, 2))), rng.uniform(0.5, 2.0, size=9)
        weights, product = rng.exponential(size=9), np.empty(8)
        Q = inverse(C[:8, :8])
        rest = multiply(Q, C[8], 8, product)
        expected = int(np.argmin(weights * scales**2 / np.diag(inverse(C))))
        assert least_missed(Q, product, rest, scales, weights, 8) == expected


@pytest.mark.parametrize(("kernel", "gamma"), [("rbf", 1.0), ("linear", 1.0), ("poly", 0.5)])
def test_the_inverse_stays_accurate_over_a_long_stream(
    kernel: str, gamma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    refreshed = []
    # Without a refresh, so that rounding errors accumulate.
    monkeypatch.setattr(Project, "_refresh", lambda *_: refreshed.append(1))
    model = KernelFALT(budget=15, strategy="project", kernel=kernel, gamma=gamma, scaling="none", eta=1.0)
    for _ in range(20):
        X = rng.normal(size=(200, 4)) * rng.choice([0.1, 1.0, 3.0], size=(200, 1))
        model.partial_fit(X, rng.integers(0, 2, size=(200, 3)))
    arrays = model.state()
    vectors = np.zeros((15, 4))
    for v in range(15):
        entries = slice(arrays["vectors.indptr"][v], arrays["vectors.indptr"][v + 1])
        vectors[v, arrays["vectors.indices"][entries]] = arrays["vectors.values"][entries]
    products = vectors @ vectors.T
    K = {"rbf": gram(vectors, gamma), "linear": products, "poly": (gamma * products + 1.0) ** 2}[kernel]
    C = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    assert len(refreshed) >= 3, "many vectors were replaced"
    np.testing.assert_allclose(arrays["inverse"] @ (C + RIDGE * np.eye(15)), np.eye(15), atol=1e-6)


def test_a_refresh_is_a_function_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projecting, "REFRESH", 1)
    rng = np.random.default_rng(6)
    X, Y = rng.normal(size=(150, 3)), rng.integers(0, 2, size=(150, 2))
    whole = KernelFALT(budget=5, strategy="project").partial_fit(X, Y)
    parts = KernelFALT(budget=5, strategy="project")
    for i in range(150):
        parts.partial_fit(X[[i]], Y[[i]])
        arrays, parts = parts.state(), KernelFALT(budget=5, strategy="project")
        parts.restore(arrays)
    for name, array in whole.state().items():
        assert array.tobytes() == parts.state()[name].tobytes(), name


def test_equal_vectors_and_a_span_of_few_dimensions() -> None:
    """A linear kernel in two dimensions, with far more vectors than those: all of it stays finite and right."""
    rng = np.random.default_rng(7)
    X = np.repeat(rng.normal(size=(100, 2)), 3, axis=0)
    Y = (X > 0).astype(int)
    free = KernelFALT(kernel="linear", scaling="none", dtype="float64")
    small = KernelFALT(kernel="linear", scaling="none", dtype="float64", budget=6, strategy="project")
    for model in (free, small):
        model.partial_fit(X, Y)
    expected = free.decision_function(X)
    np.testing.assert_allclose(small.decision_function(X), expected, atol=0.05 * np.abs(expected).max())
