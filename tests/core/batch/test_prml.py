"""PrML and PrBR: what they promise beyond their solver."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC
from tests.core.batch.support import related
from tests.support.cases import for_each
from tests.support.lazy import lazy

from manylabel_core.batch import PrBR, PrML
from manylabel_core.batch.privileged import factors as factors_module
from manylabel_core.batch.privileged.factors import leading

cp = lazy("cvxpy")

BOTH = [PrML, PrBR]


def data(n_samples: int = 120, n_features: int = 8, n_labels: int = 6, seed: int = 0):
    return related(n_samples, n_features, n_labels, seed, threshold=0.5)


X, Y = data()


def objective(model: PrML) -> float:
    """(29) from D, W, b and w~ alone."""
    signs = 2.0 * Y - 1
    total = np.sum(model.dictionary_**2) / 2 + model.gamma1 * np.sum(model.label_factors_**2) / 2
    total += np.sum(model.intercept_**2) / (2 * model.intercept_scaling**2)
    ones = np.ones((len(X), 1))
    scores = X @ model.dictionary_.T @ model.label_factors_ + model.intercept_
    for label in range(Y.shape[1]):
        features = np.hstack([signs, ones])
        features[:, label] = 0
        w = model.correcting_coef_[label]
        slack = features @ w
        assert (slack >= -1e-9).all()
        zeta = np.maximum(0, 1 - signs[:, label] * scores[:, label] - slack)
        total += model.gamma2 / 2 * w @ w + model.C * slack.sum() + model.rho * (zeta**2).sum() / 2
    return float(total)


def check_trace(model: PrML) -> None:
    """Each round has two values. A split keeps Z and costs the least; what a round gives may be above by its gap."""
    trace = model.objective_trace_
    assert len(trace) == 2 * model.rounds == 2 * model.n_rounds_
    splits, ends = trace[::2], trace[1::2]
    assert (splits[1:] <= ends[:-1] * (1 + 1e-9)).all()
    assert (ends <= splits / (1 - model.tol)).all()
    assert model.objective_ == trace[-1]


@pytest.mark.parametrize("rho", [0.05, 0.3])
@pytest.mark.parametrize("C", [0.02, 1.0])
def test_the_objective_falls_and_is_that_of_the_model(C, rho):
    model = PrML(optimise="none", C=C, rho=rho, rounds=4, tol=1e-3, max_iter=100_000, scaling="none").fit(X, Y)
    check_trace(model)
    assert model.objective_trace_[-1] < model.objective_trace_[0]
    assert model.objective_ == pytest.approx(objective(model), rel=1e-6)
    assert 0 <= model.duality_gap_ <= model.tol


def test_trace_shows_rounds_that_raise_the_objective():
    """Rounds as rough as that may raise the objective, and the trace tells."""
    model = PrML(optimise="none", C=0.1, rho=0.5, rounds=20, tol=0.5, scaling="none").fit(X, Y)
    assert np.diff(model.objective_trace_).max() > 0
    check_trace(model)


@pytest.mark.usefixtures("dev_extra")
@pytest.mark.parametrize("parameters", [{"C": 2.0}, {"C": 0.05}])
def test_rounds_go_to_the_optimum_of_the_nuclear_norm(parameters):
    """At full rank, (29) is convex: the loss and sqrt(gamma1) times the nuclear norm of Z."""
    model = PrML(
        optimise="none",
        rank=1.0,
        gamma1=2.0,
        rho=0.1,
        rounds=60,
        tol=1e-5,
        max_iter=100_000,
        scaling="none",
        **parameters,
    ).fit(X, Y)
    signs, n_labels = 2.0 * Y - 1, Y.shape[1]
    Z, b = cp.Variable((n_labels, X.shape[1])), cp.Variable((1, n_labels))
    cost = np.sqrt(2.0) * cp.normNuc(Z) + cp.sum_squares(b) / (2 * model.intercept_scaling**2)
    margins = cp.multiply(signs, X @ Z.T + np.ones((len(X), 1)) @ b)
    limits = []
    for label in range(n_labels):
        features = np.hstack([np.delete(signs, label, axis=1), np.ones((len(X), 1))])
        w = cp.Variable(n_labels)
        slack, zeta = features @ w, cp.Variable(len(X), nonneg=True)
        limits += [slack >= 0, margins[:, label] >= 1 - slack - zeta]
        price = cp.sum_squares(zeta) / 2
        cost += cp.sum_squares(w) / 2 + model.C * cp.sum(slack) + model.rho * price
    best = cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.SCS, eps=1e-6)
    assert best * (1 - 1e-4) <= model.objective_ <= best * (1 + 5e-3)
    assert (np.abs(model.correcting_coef_).max() > 0) == (model.C < 1)


@for_each("learner", [PrML, PrBR])
@for_each(("rho", "C"), [(0.05, 3 * 0.05), (2.0, 6.0)])
def test_c_defaults_to_three_times_rho(learner, rho, C):
    options = {"rho": rho, "optimise": "none", "tol": 1e-2}
    found, same, other = (learner(C=price, **options).fit(X, Y) for price in (None, C, C / 100))
    np.testing.assert_array_equal(found.coef_, same.coef_)
    assert not np.array_equal(found.coef_, other.coef_)
    copied = learner.from_bytes(found.to_bytes())
    assert copied.C is None


@for_each("rho", [0.05, 1.0])
def test_prbr_with_idle_privileged_labels_is_a_linear_svm_per_label(rho):
    common = {"optimise": "none", "intercept_scaling": 2.0, "tol": 1e-6, "max_iter": 100_000, "scaling": "none"}
    model = PrBR(C=100 * rho, rho=rho, **common)
    model.fit(X, Y)
    gap = (model.primal_objective_ - model.dual_objective_) / model.primal_objective_
    assert 0 <= model.duality_gap_ <= 1e-6
    assert model.duality_gap_ == pytest.approx(gap)
    for label in range(Y.shape[1]):
        machine = LinearSVC(C=rho / 2, tol=1e-8, max_iter=1_000_000, intercept_scaling=2.0)
        machine.fit(X, Y[:, label])
        np.testing.assert_allclose(model.coef_[label], machine.coef_[0], atol=5e-3)
        assert model.intercept_[label] == pytest.approx(machine.intercept_[0], abs=5e-3)


def test_fit_without_intercept_has_zero_intercepts():
    ones = np.ones((len(X), 1))
    model = PrBR(optimise="none", fit_intercept=False, tol=1e-6, max_iter=10_000, scaling="none").fit(
        np.hstack([X, ones]), Y
    )
    beside = PrBR(optimise="none", intercept_scaling=1.0, tol=1e-6, max_iter=10_000, scaling="none").fit(X, Y)
    assert (model.intercept_ == 0).all()
    np.testing.assert_allclose(model.coef_, np.column_stack([beside.coef_, beside.intercept_]), atol=2e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@for_each("learner", BOTH)
@for_each("C", [1e-8, 1e6])
def test_extreme_values_of_c_give_finite_scores(learner, C):
    model = learner(optimise="none", C=C, rho=3 * C, max_iter=100).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()
    if C > 1:
        assert (model.predict(X) == Y).mean() > 0.8


@pytest.mark.parametrize("learner", BOTH)
def test_one_label_and_one_example(learner):
    assert learner(optimise="none", C=10.0, rho=10.0).fit([[2.0]], [[1]]).predict([[2.0]]).tolist() == [[1]]


@for_each(("rank", "expected"), [(1, 1), (3, 3), (0.5, 3), (1.0, 6), (1000, 6)])
def test_rank_sets_the_size_of_the_factors(rank, expected):
    model = PrML(optimise="none", rank=rank, scaling="none").fit(X, Y)
    assert model.dictionary_.shape == (expected, 8)
    assert model.label_factors_.shape == (expected, 6)
    np.testing.assert_allclose(model.label_factors_.T @ model.dictionary_, model.coef_, atol=1e-12)


def test_the_papers_rank_is_nine_tenths_of_the_labels():
    labels = np.random.default_rng(0).integers(0, 2, size=(120, 14))
    assert (
        PrML(optimise="none", C=0.01, rho=0.01, scaling="none")
        .fit(np.random.default_rng(1).normal(size=(120, 20)), labels)
        .dictionary_.shape[0]
        == 13
    )


def test_a_share_of_many_labels_is_400_at_most():
    assert PrML(scaling="none")._rank(445, 1000) == PrML(scaling="none")._rank(4000, 5000) == 400
    assert PrML(scaling="none")._rank(444, 1000) == 400
    assert PrML(rank=600, scaling="none")._rank(4000, 5000) == 600


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
@pytest.mark.parametrize("rank", [2, 4, 6])
def test_the_cheapest_factors(shape, rank, single, monkeypatch):
    monkeypatch.setattr(factors_module, "SINGLE", 0 if single else 1000)
    near = 1e-5 if single else 1e-10
    Z = np.random.default_rng(0).normal(size=shape)
    factors = leading(Z, rank, 3.0)
    U, values, V = np.linalg.svd(Z, full_matrices=False)
    k = min(rank, 4)
    np.testing.assert_allclose(factors.product(), (U[:, :k] * values[:k]) @ V[:k], atol=near)
    assert factors.cost(3.0) == pytest.approx(np.sqrt(3.0) * values[:k].sum(), rel=near)
    assert factors.D.shape == (rank, shape[1])


LONG = {"tol": 1e-4, "rounds": 3, "C": 0.1, "rho": 0.4, "warm_start": True}
"""A fit with several rounds and passes in each, whose privileged labels are not idle."""


def test_a_stop_before_the_first_round_leaves_prbr():
    part = PrML(optimise="none", rank=2, scaling="none", **LONG)
    part.fit(X, Y, progress=lambda now: now.iteration == 1)
    assert part.n_rounds_ == 0
    assert len(part.objective_trace_) == 0
    assert np.linalg.matrix_rank(part.coef_) == 6
    assert np.linalg.matrix_rank(part.label_factors_.T @ part.dictionary_) == 2


def test_more_rounds_continue_a_finished_fit():
    model = PrML(optimise="none", scaling="none", **{**LONG, "rounds": 1}).fit(X, Y)
    model.set_params(rounds=3).fit(X, Y)
    same(model, PrML(optimise="none", scaling="none", **LONG).fit(X, Y))


def same(one, other) -> None:
    attributes = [name for name in vars(other) if name.endswith("_")]
    assert set(attributes) == {name for name in vars(one) if name.endswith("_")}
    for name in attributes:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


CHANGES = [
    ({}, {"rho": 14.0}),
    ({"rho": 14.0}, {"rho": 3.0}),
]


@for_each(("before", "after"), CHANGES)
@for_each("learner", BOTH)
def test_a_warm_start_keeps_privileged_weights_feasible(learner, before, after):
    """Privileged weights of an earlier fit may break the constraints of other prices or labels."""
    rng = np.random.default_rng(2)
    examples, labels = rng.normal(size=(6, 2)), (rng.random((6, 3)) < 0.5).astype(int)
    parameters = {"C": 0.7, "rho": 2.0, "gamma2": 1.0, "tol": 1e-4, "max_iter": 20_000}
    model = learner(optimise="none", **{**parameters, **before}, warm_start=True).fit(examples, labels)
    labels = labels[:, ::-1] if before else labels
    model.set_params(**after).fit(examples, labels)
    fresh = learner(optimise="none", **{**parameters, **before, **after}).fit(examples, labels)
    assert (
        0 <= model.duality_gap_ <= (1e-4 if learner is PrBR else 1e-2)
    )  # PrML's halves may take more than 1,000 passes
    name = "objective_" if learner is PrML else "primal_objective_"
    assert getattr(model, name) == pytest.approx(getattr(fresh, name), rel=2e-2 if learner is PrML else 3e-4)
    for label, w in enumerate(model.correcting_coef_):
        assert w[label] == 0
        assert ((2 * labels - 1) @ w[:-1] + w[-1] >= -1e-9).all()


@pytest.mark.parametrize("learner", BOTH)
def test_dual_variables_are_kept_only_with_warm_start(learner):
    assert not hasattr(learner(optimise="none").fit(X, Y), "alpha_")
    model = learner(optimise="none", warm_start=True).fit(X, Y)
    assert model.alpha_.shape == Y.shape
    smaller = model.fit(X[:50], Y[:50])
    assert smaller.alpha_.shape == (50, Y.shape[1])


def test_progress_reports_round_gap_and_objective():
    told = []
    model = PrML(optimise="none", tol=1e-3, scaling="none").fit(X, Y, progress=lambda now: told.append(now) and None)
    rounds = [now.iteration for now in told]
    assert rounds == sorted(rounds)
    assert rounds[0] == 0
    assert rounds[-1] == model.n_iter_
    assert told[-1].gap == model.duality_gap_ < told[0].gap == 1
    W = np.sum(model.label_factors_**2) / 2  # the problem of a round does not contain this term
    assert told[-1].objective == pytest.approx((model.objective_ - W) * (1 - model.duality_gap_))
