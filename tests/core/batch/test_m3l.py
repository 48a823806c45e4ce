"""M3L against cvxpy, scikit-learn and itself."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import LinearSVC
from tests.support.lazy import lazy

from manylabel_core import priors
from manylabel_core.batch import M3L
from manylabel_core.mercer import Kernel, gram

cp = lazy("cvxpy")

PRECISE = {"tol": 1e-7, "max_iter": 100_000}


def data(n_samples: int = 60, n_features: int = 5, n_labels: int = 4, seed: int = 0):
    """Unbalanced labels, some of them nearly opposed, a pair of equal rows with different labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    W = rng.normal(size=(n_features, n_labels))
    W[:, 1] = -W[:, 0] + 0.1 * W[:, 1]
    Y = (X @ W + 0.5 * rng.normal(size=(n_samples, n_labels)) + np.linspace(-1, 1, n_labels) > 0).astype(np.int8)
    X[1], Y[1] = X[0], 1 - Y[0]
    return X, Y


def coupled(n_labels: int = 4, seed: int = 1) -> np.ndarray:
    """A dense prior with negative entries."""
    A = np.random.default_rng(seed).normal(size=(n_labels, n_labels))
    R = A @ A.T + 0.1 * np.eye(n_labels)
    assert (R < 0).any()
    return R


def paper_optimum(X: np.ndarray, Y: np.ndarray, R: np.ndarray, C: float) -> float:
    """The minimum of P2 with the Hamming loss and a linear kernel."""
    half = np.linalg.cholesky(np.linalg.inv(R))
    Z = cp.Variable((X.shape[1], Y.shape[1]))
    slack = cp.pos(2 - 2 * cp.multiply(2.0 * Y - 1, X @ Z))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(Z @ half) + C * cp.sum(slack)))
    return float(problem.solve(solver=cp.CLARABEL))


@pytest.mark.usefixtures("dev_extra")
@pytest.mark.parametrize("C", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize("kernel", ["linear", "callable"])
def test_the_objectives_are_those_of_the_paper(kernel, C):
    X, Y = data()
    R = coupled()
    kernel = (lambda U, V: U @ V.T) if kernel == "callable" else kernel
    model = M3L(optimise="none", C=C, R=R, kernel=kernel, fit_intercept=False, scaling="none", **PRECISE).fit(X, Y)
    optimum = paper_optimum(X, Y, R, C)
    assert model.primal_objective_ == pytest.approx(optimum, rel=1e-6)
    assert model.dual_objective_ == pytest.approx(optimum, rel=1e-6)
    assert 0 <= model.duality_gap_ <= PRECISE["tol"]
    loss = np.maximum(0, 2 - 2 * (2.0 * Y - 1) * model.decision_function(X)).sum()
    assert C * loss <= optimum * (1 + 1e-6)


@pytest.mark.usefixtures("dev_extra")
def test_the_intercept_is_a_constant_feature():
    X, Y = data()
    R = coupled()
    with_one = np.column_stack([X, np.ones(len(X))])
    optimum = paper_optimum(with_one, Y, R, 0.5)
    for kernel in ("linear", lambda U, V: U @ V.T):
        model = M3L(optimise="none", C=0.5, R=R, kernel=kernel, scaling="none", **PRECISE).fit(X, Y)
        plain = M3L(optimise="none", C=0.5, R=R, kernel=kernel, fit_intercept=False, scaling="none", **PRECISE).fit(
            with_one, Y
        )
        assert model.primal_objective_ == pytest.approx(optimum, rel=1e-6)
        np.testing.assert_allclose(model.decision_function(X), plain.decision_function(with_one), atol=1e-3)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_the_identity_gives_a_liblinear_machine_for_each_label_at_twice_the_c(C):
    X, Y = data(200)
    model = M3L(optimise="none", C=C, scaling="none", **PRECISE).fit(X, Y)
    for label in range(Y.shape[1]):
        machine = LinearSVC(C=2 * C, loss="hinge", tol=1e-10, max_iter=1_000_000, random_state=0)
        machine.fit(X, Y[:, label])
        np.testing.assert_allclose(model.coef_[label], machine.coef_[0], atol=2e-3)
        np.testing.assert_allclose(model.intercept_[label], machine.intercept_[0], atol=2e-3)


def test_a_kernel_gives_the_machine_of_its_feature_map():
    X, Y = data(80, n_features=3)
    squared = np.column_stack([np.einsum("ni,nj->nij", X, X).reshape(len(X), -1), np.ones(len(X))])
    kernel = M3L(
        optimise="none", kernel="poly", gamma=1.0, degree=2, coef0=0.0, R=coupled(), scaling="none", **PRECISE
    ).fit(X, Y)
    explicit = M3L(optimise="none", R=coupled(), fit_intercept=False, scaling="none", **PRECISE).fit(squared, Y)
    assert kernel.primal_objective_ == pytest.approx(explicit.primal_objective_, rel=1e-6)
    np.testing.assert_allclose(kernel.decision_function(X), explicit.decision_function(squared), atol=2e-3)


def test_a_precomputed_gram_matrix_gives_the_model_of_its_kernel():
    X, Y = data()
    kernel = Kernel("rbf", gamma=0.4)
    direct = M3L(optimise="none", kernel="rbf", gamma=0.4, scaling="none").fit(X, Y)
    given = M3L(optimise="none", kernel="precomputed", scaling="none").fit(gram(kernel, X), Y)
    new = np.random.default_rng(5).normal(size=(9, X.shape[1]))
    np.testing.assert_allclose(given.decision_function(kernel(new, X)), direct.decision_function(new), atol=1e-9)


@pytest.mark.parametrize("gamma", ["scale", "mean_distance", 0.7])
def test_the_width_is_kept_for_prediction(gamma):
    X, Y = data()
    model = M3L(optimise="none", kernel="rbf", gamma=gamma, scaling="none").fit(X, Y)
    again = M3L(optimise="none", kernel="rbf", gamma=model.gamma_, scaling="none").fit(X, Y)
    np.testing.assert_array_equal(again.decision_function(X[:5]), model.decision_function(X[:5]))


def test_a_gram_matrix_over_cache_mb_is_computed_row_by_row():
    X, Y = data(300)
    stored = M3L(optimise="none", kernel="rbf", R=coupled(), scaling="none", **PRECISE).fit(X, Y)
    computed = M3L(optimise="none", kernel="rbf", R=coupled(), cache_mb=0.1, scaling="none", **PRECISE).fit(X, Y)
    assert computed.duality_gap_ <= PRECISE["tol"]
    np.testing.assert_allclose(computed.decision_function(X), stored.decision_function(X), atol=2e-3)


def test_only_support_vectors_are_kept():
    X, Y = data(300)
    far = M3L(optimise="none", kernel="rbf", C=100.0, tol=1e-6, max_iter=10_000, scaling="none").fit(
        X[:, :1], (X[:, :1] > 0).astype(int)
    )
    assert len(far.support_) == len(far.support_vectors_) == len(far.dual_coef_) < 150
    assert not (M3L(optimise="none", scaling="none").fit(X, Y).coef_ == 0).any()


def test_a_prior_reports_its_eps():
    X, Y = data()
    prior = priors.category_attributes(Y[:2])
    model = clone(M3L(optimise="none", R=prior, scaling="none")).fit(X, Y)
    assert model.prior_eps_ == prior.eps > 0
    np.testing.assert_array_equal(model.coef_, M3L(optimise="none", R=prior.R, scaling="none").fit(X, Y).coef_)
