"""LSA-MML's half-steps: each against a general minimiser of the objective, written down literally."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from tests.support.lazy import lazy

from manylabel_core.batch.base.reporting import Reporter
from manylabel_core.batch.views import steps
from manylabel_core.batch.views.alternation import Alternation, Model, Prices
from manylabel_core.batch.views.block import Block
from manylabel_core.batch.views.start import start

cp = lazy("cvxpy")

N, WIDTHS, L, K = 14, (5, 4, 3), 2, 2
PRICES = Prices(r=1.7, beta=0.8, gamma=0.02, ridge=0.1)


@dataclass
class Case:
    """Views and labels as literal matrices, with NaN in rows that are missing, and the model's view of them."""

    views: list[np.ndarray]
    labels: np.ndarray
    run: Alternation
    model: Model
    P: np.ndarray

    def objective(self, P=None, bases=None, W=None, alpha=None) -> float:
        """(8), by loops over rows and pairs of views."""
        P = self.P if P is None else P
        bases = self.model.bases if bases is None else bases
        W = self.model.W if W is None else W
        alpha = self.model.alpha if alpha is None else alpha
        prices = self.run.prices
        present = [~np.isnan(X[:, 0]) for X in self.views]
        total = prices.ridge * (P**2).sum() + prices.beta * (W**2).sum()
        scale = sum(rows.mean() for rows in present)
        for X, B, rows, weight in zip(self.views, bases, present, alpha, strict=True):
            error = sum(((X[i] - B @ P[i]) ** 2).sum() + 1.0 for i in np.flatnonzero(rows))
            total += (scale * weight) ** prices.r * error
        for i in np.flatnonzero(~np.isnan(self.labels[:, 0])):
            total += prices.beta * ((self.labels[i] - W @ P[i]) ** 2).sum()
        return total / N - prices.gamma * independence(bases)


def independence(bases) -> float:
    C = np.eye(K) - np.ones((K, K)) / K
    pairs = [(v, w) for v in range(len(bases)) for w in range(len(bases)) if v != w]
    traces = [np.trace(bases[v].T @ bases[v] @ C @ bases[w].T @ bases[w] @ C) for v, w in pairs]
    return sum(traces) / (K - 1) ** 2 if K > 1 else 0.0


def case(*, missing: bool, sparse: bool = False, prices: Prices = PRICES, seed: int = 0, iterations: int = 1) -> Case:
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(N, K))
    views, blocks = [], []
    for v, d in enumerate(WIDTHS):
        X = hidden @ rng.normal(size=(K, d)) + rng.normal(size=(N, d))
        X[np.abs(X) < 0.3] = 0
        mean, scale = rng.normal(size=d), 1.0 + v
        present = rng.random(N) < 0.6 if missing and v else None
        stored = X if present is None else np.where(present[:, None], X, 0)
        blocks.append(Block(sp.csr_array(stored) if sparse else stored, present, mean, scale))
        views.append((X - mean) / scale)
        if present is not None:
            views[-1][~present] = np.nan
    Y, labelled = (rng.random((N, L)) < 0.4).astype(float), rng.random(N) < 0.7
    means = Y[labelled].mean(axis=0)
    labels = Block(sp.csr_array(np.where(labelled[:, None], Y, 0)), labelled, means, 1.0)
    run = Alternation(blocks, labels, prices, Reporter(None))
    model = start(blocks, labels, prices, K, np.random.RandomState(0))
    reached = run.run(model, [], 1e-12, iterations).model
    literal = Y - means
    literal[~labelled] = np.nan
    # A representation that is not the best one, so that every half-step has something to do.
    P = run.representation(reached) + 0.3 * rng.normal(size=(N, K))
    return Case(views, literal, run, reached, P)


MISSING = pytest.mark.parametrize("missing", [False, True])
SPARSE = pytest.mark.parametrize("sparse", [False, True])


@MISSING
@SPARSE
def test_the_objective_is_that_of_the_paper(missing, sparse):
    given = case(missing=missing, sparse=sparse)
    assert given.run.objective(given.model, given.run.moments(given.P)) == pytest.approx(given.objective(), rel=1e-12)


@MISSING
@SPARSE
def test_the_representation_is_the_minimiser(missing, sparse):
    given = case(missing=missing, sparse=sparse)
    P = given.run.representation(given.model)
    found = minimize(lambda p: given.objective(P=p.reshape(N, K)), given.P.ravel(), tol=1e-10)
    assert given.objective(P=P) <= found.fun + 1e-12
    np.testing.assert_allclose(P, found.x.reshape(N, K), atol=1e-4)


@MISSING
def test_the_weights_of_labels_are_the_minimiser(missing):
    given = case(missing=missing)
    W = given.run._weights(given.model, given.run.moments(given.P)).W
    found = minimize(lambda w: given.objective(W=w.reshape(L, K)), np.zeros(L * K), tol=1e-12)
    assert given.objective(W=W) <= found.fun + 1e-12
    np.testing.assert_allclose(W, found.x.reshape(L, K), atol=1e-5)


def in_ball_minimum(problem: steps.Quadratic) -> np.ndarray:
    B = cp.Variable(problem.R.shape)
    quadratic = sum(cp.quad_form(B[i], cp.psd_wrap(problem.H)) for i in range(problem.R.shape[0]))
    inside = [cp.norm(B[:, j]) <= 1 for j in range(problem.R.shape[1])]
    cp.Problem(cp.Minimize(quadratic - 2 * cp.sum(cp.multiply(problem.R, B))), inside).solve(solver=cp.CLARABEL)
    return np.asarray(B.value)


@pytest.mark.usefixtures("dev_extra")
@MISSING
@pytest.mark.parametrize("gamma", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("v", [0, 1, 2])
def test_a_basis_is_the_minimiser_where_that_is_convex(missing, gamma, v):
    given = case(missing=missing, prices=PRICES._replace(gamma=gamma))
    problem = given.run.basis_problem(v, given.model.bases, given.model.alpha, given.run.moments(given.P))
    assert np.linalg.eigvalsh(problem.H)[0] > 0
    B = steps.basis(problem, given.model.bases[v], precision=1e-10, most=100_000)
    assert np.linalg.norm(B, axis=0).max() <= 1 + 1e-12
    reference = in_ball_minimum(problem)
    assert problem.value(B) == pytest.approx(problem.value(reference), abs=1e-7)
    np.testing.assert_allclose(B, reference, atol=1e-4)


def test_the_problem_of_a_basis_is_its_part_of_the_objective():
    given = case(missing=True)
    moments = given.run.moments(given.P)
    for v in range(len(WIDTHS)):
        problem = given.run.basis_problem(v, given.model.bases, given.model.alpha, moments)
        for seed in (1, 2):
            other = [*given.model.bases]
            other[v] = steps.in_ball(np.random.default_rng(seed).normal(size=other[v].shape))
            apart = problem.value(other[v]) - problem.value(given.model.bases[v])
            assert given.objective(bases=other) - given.objective() == pytest.approx(apart, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_basis_is_a_local_minimiser_where_that_is_not_convex(seed):
    given = case(missing=False, prices=PRICES._replace(gamma=10.0), seed=seed)
    problem = given.run.basis_problem(0, given.model.bases, given.model.alpha, given.run.moments(given.P))
    assert np.linalg.eigvalsh(problem.H)[0] < 0
    B = steps.basis(problem, given.model.bases[0], precision=1e-12, most=100_000)
    inside = {"type": "ineq", "fun": lambda b: 1 - (b.reshape(B.shape) ** 2).sum(axis=0)}
    found = minimize(
        lambda b: problem.value(b.reshape(B.shape)), B.ravel(), constraints=inside, options={"ftol": 1e-12}
    )
    assert problem.value(B) <= found.fun + 1e-6 * abs(found.fun)


def test_a_basis_that_would_raise_the_objective_is_refused(monkeypatch):
    given = case(missing=False)
    moments = given.run.moments(given.P)
    monkeypatch.setattr(steps, "basis", lambda problem, start: -start)
    refused = given.run._bases(given.model, moments)
    for before, after in zip(given.model.bases, refused.bases, strict=True):
        assert after is before


def test_a_rise_of_the_objective_is_in_the_trace_and_ends_the_run(monkeypatch):
    given = case(missing=False)
    factors, best = iter([1.0, 1.0, 1.0, 2.0]), given.run.representation
    monkeypatch.setattr(given.run, "representation", lambda model: next(factors) * best(model))
    at = given.run.run(given.model, [], 1e-12, 50)
    assert at.converged
    assert at.n_iter == 3
    assert at.trace[-1] > at.trace[-2]
