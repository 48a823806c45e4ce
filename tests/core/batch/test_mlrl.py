"""MLRL: the optimum of a convex problem, whatever the way there."""

import numpy as np
import pytest
from tests.core.batch.support import check_relations_trace, related
from tests.support.lazy import lazy

from manylabel_core import priors
from manylabel_core.batch import M3L, MLRL

cp = lazy("cvxpy")

TOL = 1e-4


def data(n_samples: int = 80, n_features: int = 6, n_labels: int = 5, seed: int = 0):
    return related(n_samples, n_features, n_labels, seed, own=0.3, threshold=-0.3)


def nuclear_optimum(X: np.ndarray, Y: np.ndarray, lam: float) -> float:
    """min mean hinge + lam/2 |W|_*^2, which is (6) with the best covariance put in."""
    W, b = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    scores = X @ W + np.ones((len(X), 1)) @ b
    loss = cp.sum(cp.pos(1 - cp.multiply(2.0 * Y - 1, scores))) / len(X)
    problem = cp.Problem(cp.Minimize(loss + lam / 2 * cp.square(cp.normNuc(W))))
    return float(problem.solve(solver=cp.CLARABEL))


def objective(model: MLRL, X: np.ndarray, Y: np.ndarray) -> float:
    """(6) of a fitted linear model, from its weights, intercepts and covariance alone."""
    W = model.coef_.T
    loss = np.maximum(0, 1 - (2.0 * Y - 1) * model.decision_function(X)).sum() / len(X)
    return float(loss + model.lam / 2 * np.trace(np.linalg.solve(model.label_covariance_, W.T @ W)))


@pytest.mark.usefixtures("dev_extra")
@pytest.mark.parametrize("lam", [1.0, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_nuclear_norm_problem_has_the_same_optimum(lam, seed):
    X, Y = data(seed=seed)
    model = MLRL(optimise="none", lam=lam, tol=TOL, max_iter=500, scaling="none").fit(X, Y)
    optimum = nuclear_optimum(X, Y, lam)
    # The gap itself may be larger: a fit also ends where rounding keeps its lower bound from rising.
    assert model.dual_objective_ <= optimum * (1 + 1e-7)
    assert optimum * (1 - 1e-7) <= model.primal_objective_ <= optimum * (1 + TOL)
    gap = (model.primal_objective_ - model.dual_objective_) / model.primal_objective_
    assert model.duality_gap_ == pytest.approx(gap)


@pytest.mark.parametrize("lam", [0.1, 0.001])
def test_the_reported_objective_is_that_of_the_model(lam):
    X, Y = data()
    model = MLRL(optimise="none", lam=lam, tol=TOL, scaling="none").fit(X, Y)
    # The objective (6) uses the best intercepts. At the optimum, they equal those of the optimality conditions.
    assert 1 - 1e-9 <= objective(model, X, Y) / model.primal_objective_ <= 1 + TOL


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("lam", [1.0, 0.01, 1e-4])
def test_the_trace_holds_every_half_step(lam, kernel):
    X, Y = data()
    check_relations_trace(
        MLRL(optimise="none", lam=lam, kernel=kernel, tol=TOL, max_iter=1000, scaling="none").fit(X, Y)
    )


def test_the_covariance_is_the_best_one_for_the_weights():
    X, Y = data()
    model = MLRL(optimise="none", lam=0.01, scaling="none").fit(X, Y)
    squares, V = np.linalg.eigh(model.coef_ @ model.coef_.T)
    root = (V * np.sqrt(squares)) @ V.T
    np.testing.assert_allclose(model.label_covariance_, root / np.trace(root), atol=1e-6)
    assert np.trace(model.label_covariance_) == pytest.approx(1)
    spread = np.sqrt(np.diag(model.label_covariance_))
    np.testing.assert_allclose(model.label_correlation_ * np.outer(spread, spread), model.label_covariance_)
    np.testing.assert_array_equal(np.diag(model.label_correlation_), 1)


def test_primal_weights_and_the_kernel_trick_agree():
    X, Y = data()
    linear = MLRL(optimise="none", lam=0.01, tol=1e-5, max_iter=1000, scaling="none").fit(X, Y)
    kernel = MLRL(optimise="none", lam=0.01, kernel=lambda U, V: U @ V.T, tol=1e-5, max_iter=1000, scaling="none").fit(
        X, Y
    )
    assert kernel.primal_objective_ == pytest.approx(linear.primal_objective_, rel=2e-5)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), atol=2e-2)


def test_equal_labels_are_fully_correlated_and_make_the_covariance_singular():
    X, Y = data()
    Y[:, 4] = Y[:, 0]
    model = MLRL(optimise="none", lam=1e-3, scaling="none").fit(X, Y)
    assert model.label_correlation_[0, 4] == pytest.approx(1, abs=1e-3)
    assert np.linalg.eigvalsh(model.label_covariance_)[0] > 0


@pytest.mark.parametrize("value", [0, 1])
def test_labels_of_one_class_give_a_zero_gap(value):
    X, Y = data()
    model = MLRL(optimise="none", lam=1e-3, scaling="none").fit(X, np.full_like(Y, value))
    assert (model.predict(X) == value).all()
    assert model.duality_gap_ == 0
    np.testing.assert_allclose(model.label_covariance_, np.eye(5) / 5)


def test_examples_without_features_are_learnt_by_their_majority():
    _, Y = data()
    model = MLRL(optimise="none", scaling="none").fit(np.zeros((len(Y), 3)), Y)
    np.testing.assert_array_equal(model.predict(np.zeros((1, 3)))[0], (Y.mean(axis=0) > 0.5).astype(int))


def test_a_fit_can_stop_within_the_first_half_step():
    X, Y = data(200)
    told = []
    model = MLRL(optimise="none", kernel="rbf", scaling="none").fit(
        X, Y, progress=lambda progress: told.append(progress) or True
    )
    assert told[0].objective == told[0].gap == np.inf
    assert model.n_iter_ == 1
    assert model.decision_function(X).shape == Y.shape


def test_progress_reports_the_whole_objective():
    X, Y = data(200)
    told = []
    model = MLRL(optimise="none", lam=1e-3, scaling="none").fit(X, Y, progress=lambda progress: told.append(progress))
    objectives = [progress.objective for progress in told]
    assert objectives == sorted(objectives, reverse=True)
    assert told[-1].objective == model.primal_objective_
    assert told[-1].iteration <= model.n_iter_


def test_the_relations_found_are_a_prior_for_m3l():
    X, Y = data()
    found = MLRL(optimise="none", lam=0.01, scaling="none").fit(X, Y)
    prior = priors.from_mlrl(found)
    assert np.trace(prior.R) - prior.eps * 5 == pytest.approx(5)
    np.testing.assert_allclose(prior.R - prior.eps * np.eye(5), 5 * found.label_covariance_)
    assert M3L(optimise="none", R=prior, scaling="none").fit(X, Y).prior_eps_ == prior.eps
