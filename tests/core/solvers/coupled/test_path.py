"""The way to the optimum: traces, stops, starts, and repeatability."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.cases import for_each

from manylabel_core.solvers import DualResult, Progress, solve_kernel_dual, solve_linear_dual

FORMS = ["kernel", "kernel float32", "dense", "csr", "csr float32"]
N, D, L = 500, 40, 6


@cache
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.3)
    Y = np.where(X @ rng.normal(size=(D, L)) + rng.normal(size=(N, L)) > [0, 0, 1, 2, 3, -2], 1, -1)
    A = rng.normal(size=(L, L))
    return X, Y, A @ A.T / L + 0.1 * np.eye(L)


def solve(form: str, **options) -> DualResult:
    X, Y, S = data()
    dtype = np.float32 if "float32" in form else np.float64
    options = {"S": S, "c": 0.5, **options}
    if form.startswith("kernel"):
        return solve_kernel_dual((X @ X.T).astype(dtype), Y, **options)
    matrix = sp.csr_matrix(X) if form.startswith("csr") else X
    return solve_linear_dual(matrix.astype(dtype), Y, bias_feature=0.5, **options)


def rounding(form: str) -> float:
    """Relative, of the objectives."""
    return 1e-6 if "float32" in form else 1e-12


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_the_trace_climbs_below_the_optimum(form, equality, diagonal):
    S = np.eye(L) if diagonal else data()[2]
    result = solve(form, S=S, equality=equality, tol=2e-5)
    best = solve(form.split()[0], S=S, equality=equality, tol=1e-8, max_iter=20_000).dual
    objective = np.array([step.objective for step in result.trace])
    gap = np.array([step.gap for step in result.trace])
    slack = rounding(form) * best
    assert result.converged
    assert len(result.trace) == result.n_iter + 1 > 3
    assert [step.iteration for step in result.trace] == list(range(len(result.trace)))
    assert objective[0] == 0
    assert (np.diff(objective) >= -slack).all()
    assert (objective <= best + slack).all(), "weak duality"
    assert (gap >= -1e-9).all()
    assert gap[0] == 1
    assert gap[-1] <= 2e-5 < gap[-2]
    assert (np.diff([step.seconds for step in result.trace]) >= 0).all()
    active = np.array([step.active for step in result.trace])
    assert active[0] == 1
    assert (active > 0).all()
    assert active[-1] < active[0]


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_result_can_be_continued(form, equality):
    part = solve(form, equality=equality, max_iter=2)
    assert not part.converged
    assert part.n_iter == 2
    rest = solve(form, equality=equality, alpha0=part.alpha, tol=1e-4)
    assert rest.trace[0].objective == pytest.approx(part.dual, rel=rounding(form))
    assert rest.converged
    whole = solve(form, equality=equality, tol=1e-4)
    assert rest.n_iter <= whole.n_iter + 2
    assert rest.dual == pytest.approx(whole.dual, rel=1e-4)


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("form", ["kernel", "dense", "csr"])
def test_any_feasible_start_ends_at_the_optimum(form, equality):
    Y = data()[1]
    alpha0 = np.random.default_rng(0).random(Y.shape) * 0.5
    alpha0[:100], alpha0[100:200] = 0.0, 0.5
    if equality:
        positive, negative = (np.where(sign == Y, alpha0, 0).sum(axis=0) for sign in (1, -1))
        least = np.minimum(positive, negative)
        alpha0 *= np.where(Y > 0, least / positive, least / negative)
    cold = solve(form, equality=equality, tol=1e-7, max_iter=10_000)
    warm = solve(form, equality=equality, tol=1e-7, max_iter=10_000, alpha0=alpha0)
    assert warm.trace[0].gap > 1e-2
    assert warm.converged
    assert warm.dual == pytest.approx(cold.dual, rel=1e-6)
    assert (np.diff([step.objective for step in warm.trace]) >= -1e-12 * cold.dual).all()


@for_each("form", FORMS)
def test_a_start_is_not_changed(form):
    alpha0 = np.full((N, L), 0.25)
    solve(form, alpha0=alpha0, max_iter=1)
    assert (alpha0 == 0.25).all()


@for_each("form", FORMS)
def test_the_caller_can_stop(form):
    told: list[Progress] = []

    def progress(step: Progress) -> bool:
        told.append(step)
        return step.iteration == 3

    result = solve(form, progress=progress, tol=1e-9)
    assert told == result.trace
    assert not result.converged
    assert result.n_iter == 3
    assert result.gap == told[-1].gap > 1e-9
    assert result.dual == told[-1].objective


def test_without_passes_the_start_is_the_result():
    result = solve("kernel", max_iter=0)
    assert (result.alpha == 0).all()
    assert result.primal == 0.5 * N * L
    assert result.dual == 0
    assert not result.converged


@for_each("n_threads", [1, 2])
@for_each("diagonal", [False, True])
@for_each("equality", [False, True])
@for_each("form", FORMS)
def test_equal_calls_give_equal_results(form, equality, diagonal, n_threads):
    options = {"S": np.eye(L) if diagonal else data()[2], "equality": equality, "n_threads": n_threads, "max_iter": 6}
    one, other = (solve(form, seed=7, **options) for _ in range(2))
    np.testing.assert_array_equal(one.alpha, other.alpha)
    np.testing.assert_array_equal(one.bias, other.bias)
    different = solve(form, seed=8, **options)
    assert not np.array_equal(one.alpha, different.alpha)
