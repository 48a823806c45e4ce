"""Merging of support vectors, against the definition: least loss in feature space, by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from manylabel_core.online.models.expansion._merge import _least_loss, best_mixture, find_partner, mix
from manylabel_core.online.models.expansion.merge import Merge
from manylabel_core.online.models.expansion.strategy import Example, SupportVectors
from manylabel_core.online.models.points import KernelSettings

Array = NDArray[np.float64]
GRID = np.linspace(0.0, 1.0, 20_001)


def losses(alpha_a: Array, alpha_b: Array, value: float, h: Array) -> Array:
    """Loss with z = h a + (1 - h) b and the best coefficients, for each h."""
    at_a, at_b = value ** ((1 - h) ** 2), value ** (h**2)  # exp(-g |a - z|^2), exp(-g |b - z|^2)
    merged = np.outer(at_a, alpha_a) + np.outer(at_b, alpha_b)
    before = alpha_a @ alpha_a + alpha_b @ alpha_b + 2 * value * (alpha_a @ alpha_b)
    return before - (merged**2).sum(axis=1)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.one_of(st.floats(1e-12, 1.0), st.floats(0.9, 1.0)),
    st.floats(0.01, 1.0),
)
def test_the_mixture_is_the_best_of_all(seed: int, n_columns: int, value: float, shorter: float) -> None:
    rng = np.random.default_rng(seed)
    alpha_a, alpha_b = rng.normal(size=n_columns), rng.normal(size=n_columns)
    alpha_a *= shorter * np.linalg.norm(alpha_b) / np.linalg.norm(alpha_a)
    h, loss = best_mixture(alpha_a @ alpha_a, alpha_b @ alpha_b, alpha_a @ alpha_b, value)
    by_grid = losses(alpha_a, alpha_b, value, GRID)
    scale = alpha_b @ alpha_b
    assert loss <= by_grid.min() + 1e-9 * scale
    np.testing.assert_allclose(loss, losses(alpha_a, alpha_b, value, np.array([h]))[0], atol=1e-12 * scale)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.floats(1e-3, 1.0))
def test_the_bound_on_the_loss_skips_no_better_partner(seed: int, n_columns: int, value: float) -> None:
    """The bound by which partners are passed over is what is lost with the best direction of the two's plane."""
    rng = np.random.default_rng(seed)
    alpha = rng.normal(size=(2, n_columns)) * rng.exponential(size=(2, 1))
    bound = _least_loss(alpha[0] @ alpha[0], alpha[1] @ alpha[1], alpha[0] @ alpha[1], value)
    root = np.linalg.cholesky(np.array([[1.0, value], [value, 1.0 + 1e-12]]))
    singular = np.linalg.svd(root.T @ alpha, compute_uv=False)
    scale = (alpha**2).sum()
    np.testing.assert_allclose(bound, singular[1] ** 2 if n_columns > 1 else 0.0, atol=1e-6 * scale)
    assert bound <= losses(alpha[0], alpha[1], value, GRID).min() + 1e-7 * scale


def rbf(U: Array, V: Array, gamma: float) -> Array:
    return np.exp(-gamma * ((U[:, None] - V[None]) ** 2).sum(axis=-1))


@pytest.mark.parametrize("seed", range(8))
def test_the_partner_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, gamma = 40, [0.05, 0.5, 3.0, 60.0][seed % 4]
    X, alpha = rng.normal(size=(n, 3)), rng.normal(size=(n, 1, 4)) * rng.exponential(size=(n, 1, 1))
    weights = (alpha[:, 0] ** 2).sum(axis=1)
    slot = int(np.argmin(weights))
    column = rbf(X, X[[slot]], gamma)[:, 0]
    partner, h = find_partner(alpha, weights, slot, column, n)
    least = [losses(alpha[slot, 0], alpha[v, 0], column[v], GRID).min() if v != slot else np.inf for v in range(n)]
    found = losses(alpha[slot, 0], alpha[partner, 0], column[partner], np.array([h]))[0]
    assert found <= min(least) + 1e-9 * weights.max()
    assert partner == int(np.argmin(least)) or np.isclose(least[partner], min(least), atol=1e-9)


def test_vectors_too_far_apart_for_a_kernel_above_0() -> None:
    alpha = np.array([[[1.0, 0.0]], [[0.0, 2.0]], [[3.0, 0.0]]])
    partner, h = find_partner(alpha, np.array([1.0, 4.0, 9.0]), 0, np.array([1.0, 0.0, 0.0]), 3)
    assert partner in (1, 2)
    assert h == 0.0, "the partner stays where it is"


def test_a_merger_in_the_model_is_that_of_the_equations() -> None:
    rng = np.random.default_rng(3)
    gamma, X = 0.7, rng.normal(size=(4, 5))
    tau = rng.normal(size=(4, 2, 3))
    support, merge = (
        SupportVectors("float64", 2),
        Merge(KernelSettings((0, gamma, 1.0, 2), 0.0, 3, 0, True, "float64"), 3),
    )
    support.grow(3)
    columns = np.arange(5, dtype=np.int32)
    for x, one in zip(X, tau, strict=True):
        merge.add(support, Example(columns, x, np.zeros(0), 1.0, float(x @ x), np.zeros((2, 5))), one)
    tau[:3] *= 1 - 1 / (100 * 3)  # a merger makes everything shrink but the newest
    K, norms = rbf(X, X, gamma), (tau[:, 0] ** 2).sum(axis=1)
    slot = int(np.argmin(norms))
    _, partner, h = min(
        (
            losses(tau[slot, 0], tau[v, 0], K[slot, v], GRID[:10_001]).min(),
            v,
            losses(tau[slot, 0], tau[v, 0], K[slot, v], GRID[:10_001]).argmin() / 20_000,
        )
        for v in range(4)
        if v != slot
    )
    z = h * X[slot] + (1 - h) * X[partner]
    merged = tau[slot] * rbf(X[[slot]], z[None], gamma) + tau[partner] * rbf(X[[partner]], z[None], gamma)
    assert support.n_points == 3
    vectors = [support.point(v)[1] for v in range(3)]
    at = int(np.argmin([np.abs(vector - z).sum() for vector in vectors]))
    np.testing.assert_allclose(vectors[at], z, atol=1e-4)
    np.testing.assert_allclose(support.alpha[at], merged, atol=1e-3)
    others = [v for v in range(4) if v not in (slot, partner)]
    kept = {tuple(vectors[v]) for v in range(3) if v != at}
    assert kept == {tuple(X[v]) for v in others}


sparse = st.dictionaries(st.integers(0, 12), st.sampled_from([-2.0, -1.0, 0.5, 1.0]), max_size=8)


@given(sparse, sparse, st.sampled_from([0.0, 0.25, 0.5]))
def test_a_mixture_of_sparse_vectors(a: dict[int, float], b: dict[int, float], h: float) -> None:
    def arrays(x: dict[int, float]) -> tuple[NDArray[np.int32], Array]:
        return np.array(sorted(x), dtype=np.int32), np.array([x[j] for j in sorted(x)], dtype=np.float64)

    indices, values = np.empty(len(a) + len(b), np.int32), np.empty(len(a) + len(b))
    n = mix(*arrays(a), *arrays(b), h, indices, values)
    expected = {j: h * a.get(j, 0.0) + (1 - h) * b.get(j, 0.0) for j in a.keys() | b.keys()}
    assert indices[:n].tolist() == sorted(j for j, value in expected.items() if value != 0)
    assert values[:n].tolist() == [expected[j] for j in indices[:n]]
