"""The SVM+ dual with two slacks: against a general solver, its gap, its feasibility, its path."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.lazy import lazy

from manylabel_core.solvers import Privileged, solve_privileged_dual
from manylabel_core.solvers.privileged.task import kinds_of

cp = lazy("cvxpy")

N, D, L = 40, 5, 5
PRICES = [(0.1, 0.05), (0.1, 0.3), (1.0, 20.0), (2.0, 2.0), (0.01, 0.03)]
"""C and rho."""
INTERCEPTS = (10.0, 0.0)
"""B^2 of intercepts beside the weights; 0 for none."""


def data(n: int = N, d: int = D, n_labels: int = L, seed: int = 0):
    """Features with a constant, and signs; duplicates of examples and labels, and a label with one class."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.normal(size=(n, d)), np.ones((n, 1))])
    Y = np.where(X[:, :-1] @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0.7, 1, -1)
    X[1], Y[1] = X[0], Y[0]
    Y[:, -1] = -1
    Y[:, 0] = Y[:, 1]
    X[2, :-1] = 0
    return X, Y.astype(np.int8)


def coupling(n_labels: int = L, rank: int = 3) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(rank, n_labels))


def features(Y: np.ndarray, label: int) -> np.ndarray:
    """The privileged features of all examples for a label, by their definition."""
    return np.hstack([np.delete(Y, label, axis=1).astype(float), np.ones((len(Y), 1))])


def optimum(X, Y, C, rho, gamma, *, intercept=0.0, W=None, weights=1.0) -> float:
    """The primal problem as it is written, by an interior-point method."""
    n_labels = Y.shape[1]
    if W is None:
        Z = cp.Variable((X.shape[1], n_labels))
        cost, scores = cp.sum_squares(Z) / 2, X @ Z
    else:
        dictionary = cp.Variable((len(W), X.shape[1]))
        cost, scores = cp.sum_squares(dictionary) / 2, X @ dictionary.T @ W
    if intercept:
        b = cp.Variable((1, n_labels))
        cost, scores = cost + cp.sum_squares(b) / (2 * intercept), scores + np.ones((len(X), 1)) @ b
    limits = []
    for label in range(n_labels):
        T = features(Y, label)
        w = cp.Variable(T.shape[1])
        margin = cp.multiply(Y[:, label].astype(float), scores[:, label])
        counts = np.broadcast_to(weights, len(X))
        cost += gamma / 2 * cp.sum_squares(w) + C * counts @ (T @ w)
        limits.append(T @ w >= 0)
        cost += rho / 2 * counts @ cp.square(cp.pos(1 - margin - T @ w))
    problem = cp.Problem(cp.Minimize(cost), limits)
    return float(problem.solve(solver=cp.CLARABEL))


def check(result, best: float, tol: float) -> None:
    """Both objectives are on their sides of the optimum, and as near to it as the gap says."""
    slack = 1e-7 * max(1.0, abs(best))
    assert result.converged
    assert result.gap <= tol
    assert best * (1 - tol) - slack <= result.dual <= best + slack
    assert best - slack <= result.primal <= best * (1 + 1.1 * tol) + slack


TOL = 1e-5


CASES = [
    *[(*prices, (0.3, 20.0)[k % 2], None, False) for k, prices in enumerate(PRICES)],
    *[(*prices, 1.0, (2, 5)[k % 2], False) for k, prices in enumerate(PRICES)],
    *[(0.1, 0.3, 1.0, None, True), (0.1, 0.3, 1.0, 3, True), (2.0, 2.0, 1.0, 3, True)],
]
"""C, rho, gamma, the rank of the coupling if labels are coupled, and whether rows have weights."""


@pytest.mark.usefixtures("dev_extra")
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize(("C", "rho", "gamma", "rank", "weighted"), CASES)
def test_the_optimum_is_that_of_a_general_solver(C, rho, gamma, rank, weighted, intercept):
    X, Y = data()
    W = None if rank is None else coupling(rank=rank)
    weights = np.random.default_rng(2).choice([0.1, 1.0, 2.0, 7.0], len(X)) if weighted else np.ones(len(X))
    problem = Privileged(Y, C=C, rho=rho, gamma=gamma, intercept=intercept, weights=weights)
    result = solve_privileged_dual(X, problem, W=W, tol=TOL, max_iter=20_000)
    check(result, optimum(X, Y, C, rho, gamma, intercept=intercept, W=W, weights=weights), TOL)
    if W is not None:
        np.testing.assert_allclose(result.Z, W.T @ result.D, atol=1e-9)
        np.testing.assert_allclose(result.D, W @ ((result.at.alpha * Y.T) @ X), atol=1e-8)
    if not weighted:
        check_conditions(result, problem, X)


def check_conditions(result, problem, X) -> None:
    """The optimality conditions hold, as nearly as the gap says: b and zeta follow from alpha, and what has a price."""
    task, at = problem.task, result.at
    np.testing.assert_allclose(result.intercept, task.intercept * (at.alpha * task.Y).sum(axis=1), atol=1e-9)
    margins = task.Y * (result.Z @ X.T + result.intercept[:, None])
    for label, a in enumerate(at.alpha):
        slack = (task.features(label) @ at.known[label])[task.kinds]
        zeta = np.maximum(0, 1 - margins[label] - slack)
        np.testing.assert_allclose(a, task.rho * zeta, atol=0.02 * task.rho)
        assert (a[1 - margins[label] - slack < -0.05] < 0.02 * max(a.max(), 1e-12)).all()


@given(st.data())
def test_points_are_feasible_and_gaps_not_negative(drawn):
    """This holds for any problem, stopped after any number of passes."""
    n, n_labels = drawn.draw(st.integers(1, 12)), drawn.draw(st.integers(1, 5))
    rng = np.random.default_rng(drawn.draw(st.integers(0, 2**16)))
    X = np.hstack([rng.normal(size=(n, 3)) * (rng.random((n, 3)) < 0.6), np.ones((n, 1))])
    Y = np.where(rng.random((n, n_labels)) < 0.4, 1, -1)
    C = drawn.draw(st.sampled_from([1e-6, 0.1, 1.0, 1e4]))
    rho = drawn.draw(st.sampled_from([1e-6, 0.1, 3.0, 1e4]))
    gamma = drawn.draw(st.sampled_from([1e-3, 1.0, 1e4]))
    W = rng.normal(size=(2, n_labels)) if drawn.draw(st.booleans()) else None
    intercept = drawn.draw(st.sampled_from(INTERCEPTS))
    problem = Privileged(Y, C=C, rho=rho, gamma=gamma, intercept=intercept)
    result = solve_privileged_dual(X, problem, W=W, tol=1e-6, max_iter=drawn.draw(st.integers(0, 8)))
    at, task = result.at, problem.task
    assert (at.alpha >= 0).all()
    assert (at.beta >= 0).all()
    for label in range(n_labels):
        assert (task.features(label) @ at.known[label] >= -1e-9 * max(1.0, np.abs(at.known).max())).all()
    assert result.gap >= -1e-7
    assert (np.diff([step.objective for step in result.trace]) >= -1e-9 * max(1.0, abs(result.primal))).all()


@for_each("intercept", INTERCEPTS)
@for_each("coupled", [False, True])
def test_the_gap_is_that_of_the_problem_as_written(coupled, intercept):
    """The objectives are computed from Z, b, w~, alpha and beta alone, far from the optimum."""
    X, Y = data()
    C, rho, gamma, W = 0.1, 0.5, 2.0, coupling() if coupled else None
    problem = Privileged(Y, C=C, rho=rho, gamma=gamma, intercept=intercept)
    result = solve_privileged_dual(X, problem, W=W, tol=1e-9, max_iter=1)
    primal = np.sum(result.Z**2) / 2 if W is None else np.sum(result.D**2) / 2
    primal += np.sum(result.intercept**2) / (2 * intercept) if intercept else 0.0
    dual = result.at.alpha.sum() - primal - np.sum(result.at.alpha**2) / (2 * rho)
    for label in range(L):
        T = problem.task.features(label)[problem.task.kinds]
        w, a = result.at.known[label], result.at.alpha[label]
        slack = T @ w
        primal += gamma / 2 * w @ w + C * slack.sum()
        zeta = np.maximum(0, 1 - Y[:, label] * (X @ result.Z[label] + result.intercept[label]) - slack)
        primal += rho / 2 * (zeta**2).sum()
        e = a - C + (result.at.beta[label] / problem.task.sizes)[problem.task.kinds]
        dual -= np.sum((T.T @ e) ** 2) / (2 * gamma)
    assert result.primal == pytest.approx(primal)
    assert result.dual == pytest.approx(dual)
    assert 1e-4 < result.gap < 1


@pytest.mark.parametrize("coupled", [False, True])
def test_sparse_and_dense_rows_and_threads_agree(coupled):
    X, Y = data(25, 6, 40)
    X[np.abs(X) < 0.5] = 0
    W = coupling(40, 6) if coupled else None
    problem = Privileged(Y, C=0.1, rho=0.3, gamma=1.0)
    dense = solve_privileged_dual(X, problem, W=W, tol=1e-3)
    sparse = solve_privileged_dual(sp.csr_array(X), problem, W=W, tol=1e-3)
    assert sparse.primal == pytest.approx(dense.primal, rel=1e-3)
    threads = solve_privileged_dual(X, problem, W=W, tol=1e-3, n_threads=3)
    assert threads.primal == pytest.approx(dense.primal, rel=1e-3)
    # Coupled labels are visited in parts, whose sums round differently, so the two solvers stop at different points.
    if not coupled:
        np.testing.assert_allclose(threads.Z, dense.Z, atol=1e-9)


@pytest.mark.parametrize("coupled", [False, True])
def test_a_stopped_solver_goes_on_bit_by_bit(coupled):
    X, Y = data(100, 6, 40)
    problem = Privileged(Y, C=0.1, rho=0.3, gamma=1.0, intercept=2.0)
    options = {"W": coupling(40, 6) if coupled else None, "tol": 1e-4}
    whole = solve_privileged_dual(X, problem, **options, max_iter=8)
    part = solve_privileged_dual(X, problem, **options, progress=lambda now: now.iteration == 2)
    assert not part.converged
    weights = part.D if coupled else part.Z
    rest = solve_privileged_dual(X, problem, **options, max_iter=6, start=part.at, weights=weights, done=2)
    np.testing.assert_array_equal(rest.Z, whole.Z)
    for one, other in zip(rest.at, whole.at, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (rest.primal, rest.dual, rest.n_iter) == (whole.primal, whole.dual, whole.n_iter)


@pytest.mark.usefixtures("dev_extra")
def test_weights_that_do_not_match_the_start_are_recomputed():
    X, Y = data()
    problem = Privileged(Y, C=0.1, rho=0.3, gamma=1.0)
    part = solve_privileged_dual(X, problem, tol=1e-2)
    misled = solve_privileged_dual(X, problem, tol=1e-5, start=part.at, weights=part.Z + 1, max_iter=20_000)
    check(misled, optimum(X, Y, 0.1, 0.3, 1.0), 1e-5)
    W = coupling()
    part = solve_privileged_dual(X, problem, W=W, tol=1e-2)
    misled = solve_privileged_dual(X, problem, W=W, tol=1e-5, start=part.at, weights=part.D + 1, max_iter=20_000)
    check(misled, optimum(X, Y, 0.1, 0.3, 1.0, W=W), 1e-5)


@pytest.mark.usefixtures("dev_extra")
def test_a_start_is_made_feasible_and_not_changed():
    X, Y = data()
    far = solve_privileged_dual(X, Privileged(Y, C=1.0, rho=50.0, gamma=1.0)).at
    before = far.copy()
    near = solve_privileged_dual(X, Privileged(Y, C=0.1, rho=0.3, gamma=1.0), start=far, tol=TOL, max_iter=20_000)
    check(near, optimum(X, Y, 0.1, 0.3, 1.0), TOL)
    for one, other in zip(far, before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_kinds_are_the_different_label_sets():
    Y = np.array([[1, -1, 1], [-1, -1, -1], [1, -1, 1], [-1, 1, -1]], dtype=np.int8)
    kinds, sizes, indptr, indices = kinds_of(Y, np.ones(len(Y)))
    assert kinds.tolist() == [0, 1, 0, 2]
    assert sizes.tolist() == [2, 1, 1]
    assert [indices[a:b].tolist() for a, b in pairwise(indptr)] == [[0, 2], [], [1]]


X, Y = data(10)


@for_each(
    ("arguments", "message"),
    [
        ({"C": 0.0}, "C must be a number above 0"),
        ({"rho": np.nan}, "rho must be a number above 0"),
        ({"rho": np.inf}, "rho must be a number above 0"),
        ({"gamma": np.inf}, "gamma must be a number above 0"),
        ({"intercept": -1.0}, "intercept must be a finite number of at least 0"),
        ({"weights": np.ones(9)}, "weights must be finite and above 0, one for each row of Y"),
        ({"weights": np.zeros(10)}, "weights must be finite and above 0"),
        ({"Y": np.zeros((10, L))}, "Y must contain only -1 and \\+1"),
    ],
)
def test_a_bad_problem_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Privileged(**{"Y": Y, "C": 0.1, "rho": 0.2, "gamma": 1.0, **arguments})


@for_each(
    ("arguments", "message"),
    [
        ({"X": X[:-1]}, "X must have 10 rows, like Y, not 9"),
        ({"X": X * np.nan}, "X must be finite"),
        ({"W": np.ones((2, 3))}, "W must be finite, of shape"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve_privileged_dual(**{"X": X, "problem": Privileged(Y, C=0.1, rho=0.2, gamma=1.0), **arguments})
