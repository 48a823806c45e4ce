"""Gram matrices of double precision, stored in single precision as far as the gap allows."""

from functools import cache

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core.batch.base.problem import KernelProblem
from manylabel_core.mercer import Kernel, gram
from manylabel_core.solvers import CachedRows, DualResult, StoredGram, solve_kernel_dual
from manylabel_core.solvers.coupled.gram_rows import PROBED_ROWS

N, L = 500, 5
RBF = Kernel("rbf", gamma=0.1)


@cache
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 8))
    Y = np.where(X @ rng.normal(size=(8, L)) + rng.normal(size=(N, L)) > [0, 0, 1, 2, -2], 1, -1)
    A = rng.normal(size=(L, L))
    return X, Y.astype(np.int8), A @ A.T / L + 0.1 * np.eye(L)


def true_gap(K: np.ndarray, result: DualResult, c: float, equality: bool) -> float:
    """The relative gap of the variables found, in double precision."""
    _, Y, S = data()
    B = Y * result.alpha
    F = K @ B @ S
    T = Y - F if equality else np.zeros((1, L))
    losses = [np.maximum(0, 1 - Y[:, k] * (F[:, k] + T[:, k, None])).sum(axis=1).min() for k in range(L)]
    quadratic = (B * F).sum() / 2
    primal = quadratic + c * sum(losses)
    assert result.dual == pytest.approx(result.alpha.sum() - quadratic, rel=1e-4)
    return float((primal - (result.alpha.sum() - quadratic)) / primal)


@for_each("equality", [False, True])
@for_each("c", [0.1, 10.0])
@for_each(("tol", "dtype"), [(1e-3, np.float32), (1e-7, np.float64)])
def test_the_gap_decides_on_the_precision_and_holds_in_double_precision(tol, dtype, c, equality):
    X, Y, S = data()
    K = gram(RBF, X)
    stored = StoredGram.of(K)
    result = solve_kernel_dual(stored, Y, S, c, equality=equality, tol=tol, max_iter=10_000)
    assert stored.kept().dtype == dtype
    assert result.converged
    assert true_gap(K, result, c, equality) <= result.gap + 1e-13
    assert result.gap <= tol


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("coupled", [False, True])
def test_rounding_beyond_the_gap_switches_to_double_precision(coupled, n_threads):
    """A large constant has no part in the optimum with free biases, but leaves no digits for what matters."""
    X, Y, S = data()
    K, S = gram(RBF, X) + 1e5, S if coupled else np.eye(L)
    options = {"equality": True, "max_iter": 10_000, "n_threads": n_threads}
    stored = StoredGram.of(K)
    result = solve_kernel_dual(stored, Y, S, 10.0, **options)
    assert stored.kept().dtype == np.float64
    assert result.converged
    expected = solve_kernel_dual(K, Y, S, 10.0, tol=1e-6, **options)
    assert result.dual <= expected.primal
    assert result.primal >= expected.dual
    rounded = solve_kernel_dual(K.astype(np.float32), Y, S, 10.0, **options)
    assert not expected.dual <= rounded.primal or not rounded.dual <= expected.primal, "single precision breaks duality"


def test_a_single_example_of_large_kernel_values_is_probed():
    X, _, _ = data()
    many = np.concatenate([np.tile(X, (4, 1)), 1e3 * X[:1]])
    probe = StoredGram.of(many @ many.T).probe()
    assert len(many) - 1 in probe.points
    assert len(probe.points) == PROBED_ROWS
    assert probe.weights.sum() == pytest.approx(len(many), rel=0.2)
    np.testing.assert_array_equal(probe.rows, (many @ many.T)[probe.points])


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_values_that_single_precision_cannot_hold_stay_in_double(scale):
    X, Y, S = data()
    given = {"equality": False, "n_threads": 1, "seed": 0, "cache_mb": 100.0}
    problem = KernelProblem(Kernel("poly", degree=1), scale * X, Y, **given)
    assert problem.K.kept().dtype == np.float64
    result = problem.solve(S, 1.0 / scale**2, tol=1e-3, max_iter=10_000)
    unscaled = KernelProblem(Kernel("poly", degree=1), X, Y, **given)
    assert unscaled.K.kept().dtype == np.float32
    expected = unscaled.solve(S, 1.0, tol=1e-5, max_iter=10_000)
    assert result.dual * scale**2 == pytest.approx(expected.dual, rel=2e-3)


def test_rows_are_computed_where_memory_is_short_of_double_precision():
    X, Y, _ = data()
    problem = KernelProblem(RBF, X, Y, equality=False, n_threads=2, seed=0, cache_mb=6 * N * N / 1e6)
    loose = problem.solve(np.eye(L), 1.0, tol=1e-3, max_iter=10_000)
    assert problem.K.kept().dtype == np.float32
    tight = problem.solve(np.eye(L), 1.0, tol=1e-7, max_iter=10_000)
    assert isinstance(problem.K.kept(), CachedRows)
    assert tight.gap <= 1e-7
    assert 0 <= tight.dual - loose.dual <= loose.absolute_gap
