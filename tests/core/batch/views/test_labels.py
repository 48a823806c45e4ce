"""LSA-MML's regression on labels and its weights of views from them: against brute force and a general solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.lazy import lazy

from manylabel_core.batch import LSAMML
from manylabel_core.batch.views.block import Block
from manylabel_core.batch.views.label_weights import RATIO, doubled_or_halved, label_weights, principal_axes
from manylabel_core.batch.views.representation import gauge
from manylabel_core.batch.views.ridge import PENALTIES, fit_ridge, rotate

cp = lazy("cvxpy")


def literal(F, Y, penalty):
    """Weights and intercepts by the normal equations of features and a constant without a price."""
    A = np.column_stack([F, np.ones(len(F))])
    price = np.diag([penalty] * F.shape[1] + [0.0])
    both = np.linalg.solve(A.T @ A + price, A.T @ Y)
    return both[:-1].T, both[-1]


def refitted(F, Y, penalty):
    """Scores of each row by a fit to all others."""
    found = np.empty(Y.shape)
    for i in range(len(F)):
        others = np.arange(len(F)) != i
        coef, intercept = literal(F[others], Y[others], penalty)
        found[i] = F[i] @ coef.T + intercept
    return found


def features(n, d, rank=None, seed=0):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, d)) if rank is None else rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    return F + rng.normal(size=d), (rng.random((n, 3)) < 0.4).astype(float)


SHAPES = pytest.mark.parametrize(
    ("n", "d", "rank"),
    [(30, 4, None), (12, 11, None), (12, 12, None), (9, 20, None), (30, 8, 3), (10, 20, 3), (2, 3, 1)],
)


@SHAPES
def test_leave_one_out_residuals_equal_those_of_separate_fits(n, d, rank):
    F, Y = features(n, d, rank)
    rotated = rotate(F - F.mean(axis=0), Y - Y.mean(axis=0))
    for penalty in rotated.penalties()[4::6]:
        expected = Y - refitted(F, Y, penalty)
        np.testing.assert_allclose(rotated.residuals(penalty), expected, rtol=1e-5, atol=1e-7)


@SHAPES
def test_penalty_has_the_least_leave_one_out_error(n, d, rank):
    F, Y = features(n, d, rank)
    centred = F - F.mean(axis=0)
    largest = np.linalg.eigvalsh(centred.T @ centred)[-1]
    fitted = fit_ridge(F, Y)
    errors = [((refitted(F, Y, share * largest) - Y) ** 2).sum() for share in PENALTIES if share > 1e-5]
    assert fitted.error <= min(errors) * (1 + 1e-6)
    assert fitted.error == pytest.approx(((refitted(F, Y, fitted.penalty) - Y) ** 2).sum(), rel=1e-5)


@pytest.mark.usefixtures("dev_extra")
@SHAPES
def test_the_regression_is_the_minimiser(n, d, rank):
    F, Y = features(n, d, rank)
    fitted = fit_ridge(F, Y)
    coef, intercept = literal(F, Y, fitted.penalty)
    np.testing.assert_allclose(fitted.coef, coef, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(fitted.intercept, intercept, rtol=1e-5, atol=1e-8)
    A, b = cp.Variable(coef.shape), cp.Variable(len(intercept))
    loss = cp.sum_squares(F @ A.T + np.ones((n, 1)) @ cp.reshape(b, (1, 3), order="C") - Y)
    problem = cp.Problem(cp.Minimize(loss + fitted.penalty * cp.sum_squares(A)))
    problem.solve(solver=cp.CLARABEL)
    value = ((F @ fitted.coef.T + fitted.intercept - Y) ** 2).sum() + fitted.penalty * (fitted.coef**2).sum()
    assert value == pytest.approx(problem.value, rel=1e-6, abs=1e-9)


def test_leverage_of_exactly_fitted_rows_is_accurate():
    """The residual is right even with as many directions as rows and hardly a penalty."""
    rng = np.random.default_rng(0)
    F, Y = rng.normal(size=(8, 30)), rng.normal(size=(8, 2))
    rotated = rotate(F - F.mean(axis=0), Y - Y.mean(axis=0))
    left = rotated.residuals(1e-13)
    for i in range(8):
        others = np.arange(8) != i
        centre = F[others].mean(axis=0)
        told = (F[i] - centre) @ np.linalg.pinv(F[others] - centre) @ (Y[others] - Y[others].mean(axis=0))
        np.testing.assert_allclose(left[i], Y[i] - Y[others].mean(axis=0) - told, rtol=1e-6, atol=1e-9)


def test_one_row_and_features_without_spread_give_the_means_of_labels():
    F, Y = np.ones((6, 2)), np.tile([[1.0, 0.0]], (6, 1))
    Y[0] = 0.0, 1.0
    for rows in (slice(0, 1), slice(None)):
        fitted = fit_ridge(F[rows], Y[rows])
        np.testing.assert_allclose(fitted.coef, 0, atol=1e-12)
        np.testing.assert_allclose(fitted.intercept, Y[rows].mean(axis=0))


def views(n=240, seed=0):
    """A view that tells the labels, one that is easy to reproduce and tells nothing, and one between them."""
    rng = np.random.default_rng(seed)
    P, noise = rng.normal(size=(n, 4)), rng.normal(size=(n, 3)) @ rng.normal(size=(3, 40))
    X = {
        "tells": P @ rng.normal(size=(4, 30)) + rng.normal(size=(n, 30)),
        "loud": noise + 0.1 * rng.normal(size=(n, 40)),
        "half": P[:, :2] @ rng.normal(size=(2, 12)) + 2 * rng.normal(size=(n, 12)),
    }
    return X, (P @ rng.normal(size=(4, 5)) + 0.5 * rng.normal(size=(n, 5)) > 0.3).astype(int)


def test_the_gauge_makes_a_refit_independent_of_the_basis_of_the_representation():
    rng = np.random.default_rng(1)
    P, bases, factors = rng.normal(size=(40, 4)), [rng.normal(size=(d, 4)) for d in (6, 3)], [0.5, 2.0]
    Y, T = rng.normal(size=(40, 2)), rng.normal(size=(4, 4))
    root = gauge(bases, factors)
    np.testing.assert_allclose(root @ root, sum(f * B.T @ B for f, B in zip(factors, bases, strict=True)))
    expected = fit_ridge(P @ root, Y)
    turned = [B @ np.linalg.inv(T).T for B in bases]
    found = fit_ridge(P @ T @ gauge(turned, factors), Y)
    assert found.penalty == pytest.approx(expected.penalty)
    scores = P @ T @ gauge(turned, factors) @ found.coef.T + found.intercept
    np.testing.assert_allclose(scores, P @ root @ expected.coef.T + expected.intercept, atol=1e-9)


@pytest.mark.parametrize("n_labelled", [5, 30, 200])
def test_weights_of_labels_are_refitted_to_the_representation(n_labelled):
    X, Y = views()
    labelled = np.arange(240) < n_labelled
    model = LSAMML(n_components=20, r=3.0, optimise="none", scaling="none").fit(X, Y, labelled)
    P = model.transform({name: view[labelled] for name, view in X.items()})
    factors = (3 * model.view_weights_) ** 3.0
    root = gauge([*model.bases_.values()], factors)
    fitted = fit_ridge(P @ root, Y[labelled].astype(float))
    np.testing.assert_allclose(model.coef_, fitted.coef @ root, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, fitted.intercept, rtol=1e-6, atol=1e-9)
    # The same share of the largest eigenvalue, which is computed from features that were rotated in another order.
    assert model.label_penalty_ == pytest.approx(fitted.penalty, rel=1e-9)


def test_views_that_predict_the_labels_have_larger_weights():
    X, Y = views()
    factors = LSAMML(n_components=20, max_iter=1, tol=0.5, optimise="none", scaling="none").fit(X, Y).view_weights_ ** 2
    assert factors[0] >= 4 * factors[1]
    assert factors.max() <= 16.001 * factors.min()


@pytest.mark.parametrize("r", [1.5, 2.0, 5.0])
def test_factors_of_views_do_not_depend_on_r(r):
    X, Y = views()
    expected = (
        LSAMML(scaling="none", n_components=20, r=2.0, max_iter=1, tol=0.5, optimise="none").fit(X, Y).view_weights_
        ** 2
    )
    found = (
        LSAMML(scaling="none", n_components=20, r=r, max_iter=1, tol=0.5, optimise="none").fit(X, Y).view_weights_ ** r
    )
    np.testing.assert_allclose(found / found[0], expected / expected[0])


def test_views_have_equal_weights_with_few_labels():
    X, Y = views()
    few = np.arange(240) < 49
    np.testing.assert_allclose(LSAMML(scaling="none", optimise="none").fit(X, Y, few).view_weights_, 1 / 3)
    missing = {"loud": np.arange(240) % 2 == 0}
    model = LSAMML(scaling="none", optimise="none").fit(X, Y, few, missing)
    np.testing.assert_allclose(model.view_weights_, 1 / 2.5)


def test_rows_lacking_a_view_do_not_affect_its_weight():
    X, Y = views()
    lacks = np.arange(240) % 3 == 0
    X["loud"][lacks] = np.nan
    found = LSAMML(scaling="none", n_components=20, optimise="none").fit(X, Y, None, {"loud": lacks}).view_weights_
    whole = {name: view[~lacks] for name, view in X.items()}
    expected = LSAMML(scaling="none", n_components=20, optimise="none").fit(whole, Y[~lacks]).view_weights_
    np.testing.assert_allclose(found / found[0], expected / expected[0])
    never = {"loud": np.arange(240) < 200}  # of the labelled rows, all but 40
    many = X | {"loud": np.zeros((240, 1)) + lacks[:, None]}
    found = LSAMML(scaling="none", n_components=20, optimise="none").fit(many, Y, None, never).view_weights_
    np.testing.assert_allclose(found, 1 / (2 + 1 / 6))


def test_no_weight_could_be_doubled_or_halved():
    """A literal search: ridge regression of the views side by side, every row left out in turn."""
    X, Y = views(60)
    blocks = [
        Block(view, None, view.mean(axis=0), np.linalg.norm(view - view.mean(axis=0)) / 60**0.5) for view in X.values()
    ]
    truth = Y.astype(float)
    found = label_weights(blocks, truth, np.arange(60))

    def error(weights):
        F = np.hstack(
            [c**0.5 * block.times(np.eye(block.X.shape[1])) for c, block in zip(weights, blocks, strict=True)]
        )
        return fit_ridge(F, truth).error

    assert found.max() <= RATIO * found.min()
    for v in range(3):
        for factor in (0.5, 2.0):
            trial = found.copy()
            trial[v] *= factor
            if trial.max() <= RATIO * trial.min():
                assert error(trial) > (1 - 2e-3) * error(found)


def test_search_stops_at_the_largest_ratio():
    found = doubled_or_halved(lambda c: float(np.exp(c[1] - c[0])), 2)
    assert found[0] == RATIO * found[1]
    np.testing.assert_array_equal(doubled_or_halved(lambda c: 1.0, 3), 1.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_principal_axes_reproduce_a_view(sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 5)) @ rng.normal(size=(5, 30)) + 100 * rng.normal(size=30)
    block = Block(sp.csr_array(X) if sparse else X, None, rng.normal(size=30), 2.0)
    whole = (X - X.mean(axis=0)) / 2
    for n_axes in (5, 6, 29, 30, 40):
        F = principal_axes(block, n_axes)
        assert F.shape == (50, min(n_axes, 30))
        np.testing.assert_allclose(F @ F.T, whole @ whole.T, atol=1e-7)
        np.testing.assert_allclose(F.sum(axis=0), 0, atol=1e-7)
    F = principal_axes(block, 2)
    np.testing.assert_allclose((F**2).sum(), (np.linalg.svd(whole)[1][:2] ** 2).sum(), rtol=1e-9)
