"""SSMLRL: MLRL with another kernel, exactly."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.core.batch.support import check_relations_trace, related
from tests.support.lazy import lazy

from manylabel_core.batch import MLRL, SSMLRL
from manylabel_core.mercer import Kernel, gram

cp = lazy("cvxpy")

TOL = 1e-4
LAM1, LAM2 = 0.01, 0.0005


def data(n_labelled: int = 40, n_unlabelled: int = 70, n_features: int = 5, n_labels: int = 4, seed: int = 0):
    X, Y = related(n_labelled + n_unlabelled, n_features, n_labels, seed)
    return X[:n_labelled], Y[:n_labelled], X[n_labelled:]


def optimum(X: np.ndarray, Y: np.ndarray, U: np.ndarray) -> float:
    """The minimum of (14) with a linear kernel: the best Omega makes its two last terms half a squared norm."""
    W, b = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    scores = X @ W + np.ones((len(X), 1)) @ b
    loss = cp.sum(cp.pos(1 - cp.multiply(2.0 * Y - 1, scores))) / len(X)
    both = np.linalg.cholesky(LAM1 * np.eye(X.shape[1]) + LAM2 * U.T @ U).T  # of W'(lam1 I + lam2 U'U)W
    return float(cp.Problem(cp.Minimize(loss + 0.5 * cp.square(cp.normNuc(both @ W)))).solve(solver=cp.CLARABEL))


@pytest.mark.usefixtures("dev_extra")
def test_the_optimum_is_that_of_the_problem_in_the_paper_and_the_weights_reach_it():
    X, Y, U = data()
    model = SSMLRL(LAM1, LAM2, optimise="none", tol=TOL, max_iter=1000, scaling="none").fit(X, Y, U)
    best = optimum(X, Y, U)
    assert model.dual_objective_ <= best * (1 + 1e-7)
    assert best * (1 - 1e-7) <= model.primal_objective_ <= best * (1 + TOL)
    W, F = model.coef_.T, U @ model.coef_.T
    loss = np.maximum(0, 1 - (2.0 * Y - 1) * model.decision_function(X)).sum() / len(X)
    price = np.trace(np.linalg.solve(model.label_covariance_, LAM1 * W.T @ W + LAM2 * F.T @ F)) / 2
    assert loss + price == pytest.approx(model.primal_objective_, rel=TOL)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_new_examples_are_predicted_with_the_other_kernel(kernel):
    X, Y, U = data()
    model = SSMLRL(LAM1, LAM2, optimise="none", kernel=kernel, gamma=0.1, tol=1e-5, max_iter=2000, scaling="none").fit(
        X, Y, U
    )
    base = Kernel(kernel, gamma=0.1)
    M = np.linalg.inv(LAM1 / LAM2 * np.eye(len(U)) + gram(base, U))

    def other(A, B):
        return base(A, B) - base(A, U) @ M @ base(U, B)

    supervised = MLRL(LAM1, optimise="none", kernel=other, tol=1e-5, max_iter=2000, scaling="none").fit(X, Y)
    new = np.random.default_rng(9).normal(size=(20, X.shape[1]))
    assert model.primal_objective_ == pytest.approx(supervised.primal_objective_, rel=2e-5)
    np.testing.assert_allclose(model.decision_function(new), supervised.decision_function(new), atol=2e-2)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("nothing", [None, np.zeros((0, 5)), sp.csr_array((0, 5))])
def test_without_unlabelled_examples_it_is_mlrl(kernel, nothing):
    X, Y, _ = data()
    semi = SSMLRL(LAM1, LAM2, optimise="none", kernel=kernel, tol=1e-5, max_iter=2000, scaling="none").fit(
        X, Y, nothing
    )
    supervised = MLRL(LAM1, optimise="none", kernel=kernel, tol=1e-5, max_iter=2000, scaling="none").fit(X, Y)
    assert semi.primal_objective_ == pytest.approx(supervised.primal_objective_, rel=2e-5)
    np.testing.assert_allclose(semi.decision_function(X), supervised.decision_function(X), atol=2e-2)


def test_the_trace_holds_every_half_step():
    X, Y, U = data()
    check_relations_trace(
        SSMLRL(LAM1, LAM2, optimise="none", kernel="rbf", tol=TOL, max_iter=1000, scaling="none").fit(X, Y, U)
    )


def test_sparse_unlabelled_examples_give_the_model_of_dense_ones():
    X, Y, U = data()
    U[np.abs(U) < 0.5] = 0
    dense = SSMLRL(LAM1, LAM2, optimise="none", tol=TOL, scaling="none").fit(X, Y, U)
    for labelled in (X, sp.csr_array(X)):
        sparse = SSMLRL(LAM1, LAM2, optimise="none", tol=TOL, scaling="none").fit(labelled, Y, sp.csr_array(U))
        assert sparse.primal_objective_ == pytest.approx(dense.primal_objective_, rel=2 * TOL)
        np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=5e-2)


def test_the_width_is_over_all_examples():
    X, Y, U = data()
    model = SSMLRL(LAM1, LAM2, optimise="none", kernel="rbf", gamma="mean_distance", scaling="none").fit(X, Y, 10 * U)
    assert (
        model.gamma_
        == MLRL(optimise="none", kernel="rbf", scaling="none").fit(np.vstack([X, 10 * U]), np.ones((110, 1))).gamma_
    )


def test_a_precomputed_matrix_holds_the_kernel_values_with_all_examples():
    X, Y, U = data()
    kernel = Kernel("rbf", gamma=0.1)
    everything = np.vstack([X, U])
    K = gram(kernel, everything)
    direct = SSMLRL(LAM1, LAM2, optimise="none", kernel="rbf", gamma=0.1, scaling="none").fit(X, Y, U)
    given = SSMLRL(LAM1, LAM2, optimise="none", kernel="precomputed", scaling="none").fit(K[: len(X)], Y, K[len(X) :])
    new = np.random.default_rng(9).normal(size=(20, X.shape[1]))
    np.testing.assert_allclose(
        given.decision_function(kernel(new, everything)), direct.decision_function(new), atol=1e-9
    )
    with pytest.raises(ValueError, match="X must be a square Gram matrix"):
        SSMLRL(optimise="none", kernel="precomputed", scaling="none").fit(K[: len(X)], Y)


@pytest.mark.parametrize(
    ("unlabelled", "message"),
    [
        (np.ones((3, 4)), "X_unlabelled: X has 4 features, but SSMLRL is expecting 5"),
        (np.full((3, 5), np.nan), "X_unlabelled: Input X contains NaN"),
        (np.ones(5), "X_unlabelled: Expected 2D array"),
    ],
)
def test_wrong_unlabelled_examples_are_refused_by_name(unlabelled, message):
    X, Y, _ = data()
    with pytest.raises(ValueError, match=message):
        SSMLRL(optimise="none", scaling="none").fit(X, Y, unlabelled)
