"""The coupled dual against a general convex solver, and against its own optimality conditions."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.cases import for_each
from tests.support.lazy import lazy

from manylabel_core.solvers import DualResult, solve_kernel_dual, solve_linear_dual

cp = lazy("cvxpy")

TIGHT = {"tol": 1e-9, "max_iter": 100_000}
FORMS = ["kernel", "dense", "csr"]
BIAS = 0.7


class Data(NamedTuple):
    X: np.ndarray
    Y: np.ndarray
    K: np.ndarray


@cache
def data() -> Data:
    """26 points: unbalanced labels, labels with one class only, equal points with equal and with opposite labels."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(26, 5))
    Y = np.where(X @ rng.normal(size=(5, 6)) + rng.normal(size=(26, 6)) > [0, 2.0, -1.5, 0, 0, 0], 1, -1)
    Y[:, 3], Y[:, 4] = 1, -1
    X[1], Y[1] = X[0], Y[0]
    X[3], Y[3, :3] = X[2], -Y[2, :3]
    return Data(X, Y, X @ X.T + BIAS**2)


@cache
def coupling(kind: str) -> np.ndarray:
    A = np.random.default_rng(1).normal(size=(6, 6))
    dense = A @ A.T / 6 + 0.05 * np.eye(6)
    assert (dense < -0.05).any()
    if kind == "dense":
        return dense
    if kind == "diagonal":
        return np.diag([1.0, 0.2, 3.0, 1.0, 0.5, 2.0])
    singular = A[:, :2] @ A[:, :2].T
    singular[5] = singular[:, 5] = 0.0  # a label without length: its dual is linear
    return singular


def solve(form: str, S: np.ndarray, c: float, equality: bool, **options) -> DualResult:
    X, Y = data().X, data().Y
    options = TIGHT | options
    if form == "kernel":
        return solve_kernel_dual(data().K, Y, S, c, equality=equality, **options)
    matrix = X if form == "dense" else sp.csr_matrix(X)
    return solve_linear_dual(matrix, Y, S, c, equality=equality, bias_feature=BIAS, **options)


def uneven() -> np.ndarray:
    """Weights of the points."""
    return np.random.default_rng(3).choice([0.05, 0.5, 1.0, 3.0, 20.0], 26)


@cache
def oracle(kind: str, c: float, equality: bool, weighted: bool = False) -> float:
    """The optimum by an interior-point method, scaled to variables in [0, 1], or up to the weights."""
    Y, S = data().Y, coupling(kind)
    half_K, half_S = root(data().K), root(S)
    a = cp.Variable(Y.shape)
    B = cp.multiply(Y, a)
    constraints = [a >= 0, a <= (uneven()[:, None] if weighted else 1)]
    if equality:
        constraints.append(cp.sum(B, axis=0) == 0)
    objective = cp.sum(a) - 0.5 * c * cp.sum_squares(half_K @ B @ half_S)
    problem = cp.Problem(cp.Maximize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert problem.status == cp.OPTIMAL
    return c * float(problem.value)


def root(M: np.ndarray) -> np.ndarray:
    """Symmetric square root."""
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def scores(result: DualResult) -> np.ndarray:
    """Scores with bias, from what the model is."""
    if result.F is not None:
        return result.F + result.bias
    return data().X @ result.Z + result.bias


def check_feasible(result: DualResult, c: float, equality: bool) -> None:
    assert result.alpha.min() >= 0
    assert result.alpha.max() <= c
    if equality:
        assert np.abs((data().Y * result.alpha).sum(axis=0)).max() <= 1e-12 * c * len(data().Y)


@pytest.mark.usefixtures("dev_extra")
@for_each("equality", [False, True])
@for_each("c", [1e-4, 0.3, 300.0])
@for_each("kind", ["dense", "diagonal", "singular"])
@for_each("form", FORMS)
def test_the_optimum_is_that_of_a_general_solver(form, kind, c, equality):
    result = solve(form, coupling(kind), c, equality)
    assert result.converged
    check_feasible(result, c, equality)
    best = oracle(kind, c, equality)
    assert result.dual == pytest.approx(best, rel=1e-6)
    assert result.primal == pytest.approx(best, rel=1e-6)


@pytest.mark.usefixtures("dev_extra")
@for_each("equality", [False, True])
@for_each("kind", ["dense", "diagonal", "singular"])
@for_each("form", FORMS)
def test_each_point_may_have_a_bound_of_its_own(form, kind, equality):
    c = 0.3 * uneven()
    result = solve(form, coupling(kind), c, equality)
    assert result.converged
    assert (result.alpha >= 0).all()
    assert (result.alpha <= c[:, None]).all()
    best = oracle(kind, 0.3, equality, weighted=True)
    assert result.dual == pytest.approx(best, rel=1e-6)
    assert result.primal == pytest.approx(best, rel=1e-6)
    again = solve(form, coupling(kind), c, equality, alpha0=result.alpha, tol=1e-6)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.alpha, result.alpha)
    np.testing.assert_allclose(again.bias, result.bias, atol=1e-9)


@for_each("equality", [False, True])
@for_each("form", FORMS)
def test_a_common_bound_equals_the_same_bound_for_each_point(form, equality):
    one = solve(form, coupling("dense"), 0.3, equality, tol=1e-3)
    each = solve(form, coupling("dense"), np.full(26, 0.3), equality, tol=1e-3)
    np.testing.assert_array_equal(one.alpha, each.alpha)
    np.testing.assert_array_equal(one.bias, each.bias)
    assert (one.primal, one.dual, one.n_iter) == (each.primal, each.dual, each.n_iter)


@for_each("weighted", [False, True])
@for_each("equality", [False, True])
@for_each("form", FORMS)
def test_objectives_are_what_their_definitions_say(form, equality, weighted):
    """The point is far from the optimum, so no terms cancel. The primal is taken at the best bias."""
    S, c = coupling("dense"), 0.3 * uneven() if weighted else np.full(26, 0.3)
    result = solve(form, S, c if weighted else 0.3, equality, tol=1e-2)
    B = data().Y * result.alpha
    F = data().K @ B @ S
    quadratic = (B * F).sum()
    assert result.dual == pytest.approx(result.alpha.sum() - quadratic / 2)
    biases = data().Y - F if equality else np.zeros((1, 6))  # a piecewise linear function is least at one of its kinks
    hinges = np.maximum(0, 1 - data().Y * (F + biases[:, None, :]))
    assert result.primal == pytest.approx(quadratic / 2 + (c[:, None] * hinges).sum(axis=1).min(axis=0).sum())
    assert result.absolute_gap == pytest.approx(result.primal - result.dual)
    assert result.gap == pytest.approx(result.absolute_gap / result.primal)
    assert 1e-5 < result.gap <= 1e-2


@for_each("equality", [False, True])
@for_each("c", [0.01, 0.3, 30.0])
@for_each("form", FORMS)
def test_the_optimality_conditions_hold(form, c, equality):
    """Each score is within sqrt(S_ll K_ii) sqrt(2 gap) of its optimum, where the conditions hold exactly."""
    S = coupling("dense")
    result = solve(form, S, c, equality)
    slack = 2 * np.sqrt(2 * max(result.absolute_gap, 0) * S.diagonal() * data().K.diagonal()[:, None]) + 1e-9
    margin = data().Y * scores(result)
    free = (result.alpha > 0) & (result.alpha < c)
    assert (margin >= 1 - slack)[result.alpha == 0].all()
    assert (margin <= 1 + slack)[result.alpha == c].all()
    assert (np.abs(margin - 1) <= slack)[free].all()
    assert slack.max() < 2e-2


def test_the_bias_is_the_mean_over_the_free_points():
    """The point is far from the optimum, so the free points do not agree on the bias yet."""
    result = solve("kernel", coupling("dense"), 0.3, True, tol=1e-2)
    kinks = data().Y - result.F
    for label in range(3):
        free = kinks[(result.alpha[:, label] > 0) & (result.alpha[:, label] < 0.3), label]
        assert np.ptp(free) > 1e-3
        assert result.bias[label] == pytest.approx(free.mean())


def test_without_free_points_the_bias_is_the_middle_of_its_interval():
    """The interval left is -1 + 0.3 to 1 - 0.1, by the margins of the two points."""
    result = solve_kernel_dual(np.diag([1.0, 3.0]), [[1], [-1]], [[1.0]], 0.1, equality=True)
    assert (result.alpha == 0.1).all()
    assert result.bias[0] == pytest.approx(0.1)


@for_each("equality", [False, True])
@for_each("form", FORMS)
def test_a_single_block_takes_few_passes(form, equality):
    """The block is then solved for good; by passes of a few sweeps it would take about a thousand."""
    assert solve(form, coupling("dense"), 300.0, equality, tol=1e-6).n_iter < 200


def test_a_label_without_length_has_all_variables_at_c():
    result = solve("kernel", coupling("singular"), 0.3, False)
    assert (result.alpha[:, 5] == 0.3).all()
    assert (result.F[:, 5] == 0).all()
