"""Rows that lack views, to LSA-MML: against literal normal distributions, and beside columns that are filled in."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from manylabel_core.batch import LSAMML
from manylabel_core.batch.views import factors as module
from manylabel_core.batch.views.block import Block
from manylabel_core.batch.views.factors import Factors, fit_factors
from manylabel_core.metrics import macro_auc

N, K, WIDTHS = 60, 3, (5, 4, 2)


def case(seed=0):
    """Blocks that lack rows, the literal rows with NaN for them, and bases."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(N, K)) * [2.0, 1.0, 0.5]
    blocks, rows, bases = [], [], []
    for v, d in enumerate(WIDTHS):
        B = rng.normal(size=(d, K))
        X = hidden @ B.T + 0.5 * rng.normal(size=(N, d))
        present = rng.random(N) < 0.7 if v else np.ones(N, bool)
        mean, scale = X[present].mean(axis=0), float(np.sqrt(((X - X.mean(axis=0)) ** 2).sum() / N))
        blocks.append(Block(np.where(present[:, None], X, 0.0), present if v else None, mean, scale))
        rows.append(np.where(present[:, None], (X - mean) / scale, np.nan))
        bases.append(B / np.linalg.norm(B, axis=0))
    return blocks, np.hstack(rows), bases


def joint(factors, bases):
    """The covariance of all columns."""
    B = np.vstack(bases)
    noise = np.repeat(factors.noise, [len(each) for each in bases])
    return B @ np.linalg.inv(factors.precision) @ B.T + np.diag(noise)


def log_likelihood(factors, bases, rows):
    covariance, total = joint(factors, bases), 0.0
    for row in rows:
        has = ~np.isnan(row)
        total += multivariate_normal.logpdf(row[has], cov=covariance[np.ix_(has, has)])
    return total


def random_factors(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(K, K))
    return Factors(root @ root.T + 0.1 * np.eye(K), rng.uniform(0.05, 0.5, size=len(WIDTHS)))


@pytest.mark.parametrize("seed", range(3))
def test_a_row_is_represented_by_its_conditional_expectation(seed):
    blocks, rows, bases = case(seed)
    factors = random_factors(seed)
    P = factors.represent(blocks, bases, range(3))
    covariance = joint(factors, bases)
    toward = np.linalg.inv(factors.precision) @ np.vstack(bases).T  # of P with the columns
    for row, p in zip(rows, P, strict=True):
        has = ~np.isnan(row)
        expected = toward[:, has] @ np.linalg.solve(covariance[np.ix_(has, has)], row[has])
        np.testing.assert_allclose(p, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(factors.represent([blocks[1]], [bases[1]], [1])[0] != 0, blocks[1].present[0])


@pytest.mark.parametrize("seed", range(2))
def test_rounds_raise_the_likelihood_to_a_maximum(seed, monkeypatch):
    blocks, rows, bases = case(seed)
    P = np.random.default_rng(seed).normal(size=(N, K))
    monkeypatch.setattr(module, "STRENGTH", 1.0)
    values = []
    for rounds in (1, 2, 3, 5, 10, 700):
        monkeypatch.setattr(module, "ROUNDS", rounds)
        found = fit_factors(blocks, bases, P)
        values.append(log_likelihood(found, bases, rows))
    assert np.all(np.diff(values) > 0)
    covariance, rng = np.linalg.inv(found.precision), np.random.default_rng(seed)
    for _ in range(20):
        turn = rng.normal(size=(K, K))
        change = 1e-3 * (turn + turn.T) * np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        noise = found.noise * np.exp(1e-3 * rng.normal(size=len(WIDTHS)))
        other = Factors(np.linalg.inv(covariance + change), noise)
        assert log_likelihood(other, bases, rows) < values[-1] + 1e-6


def test_the_first_covariance_is_that_of_complete_rows():
    """Rows that lack views do not show how views depend on each other."""
    blocks, rows, _ = case()
    P = np.random.default_rng(0).normal(size=(N, K))
    whole = ~np.isnan(rows).any(axis=1)
    first = module._first_covariance(module.Patterns(blocks), P)
    expected = P[whole].T @ P[whole] / whole.sum() + module.SHARE * P.T @ P / N
    np.testing.assert_allclose(first, expected)
    no_complete_row = [Block(block.X, np.arange(N) % 3 == v, block.mean, block.scale) for v, block in enumerate(blocks)]
    np.testing.assert_allclose(module._first_covariance(module.Patterns(no_complete_row), P), P.T @ P / N)


def planted(n, seed, widths=(40, 30, 50), noise=1.0):
    """Three views of one thing, each with much that is its own, and labels of that thing."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 6))
    X = {}
    for name, d in zip(("sound", "text", "image"), widths, strict=True):
        own = rng.normal(size=(n, 6))
        X[name] = (
            common @ rng.normal(size=(6, d)) + 1.5 * own @ rng.normal(size=(6, d)) + noise * rng.normal(size=(n, d))
        )
    return X, (common @ rng.normal(size=(6, 4)) + 0.5 * rng.normal(size=(n, 4)) > 0.5).astype(int)


def test_rows_that_all_lack_a_view_are_learnt_and_predicted():
    X, Y = planted(600, 4)
    missing = {name: np.arange(600) % 3 == v for v, name in enumerate(X)}
    train, test = np.arange(600) < 400, np.arange(600) >= 400
    model = LSAMML(optimise="none", scaling="none").fit(X, Y, train, missing)
    scores = model.label_scores({k: x[test] for k, x in X.items()}, {k: mask[test] for k, mask in missing.items()})
    assert macro_auc(Y[test], scores) > 0.85
    assert macro_auc(Y[test], model.label_scores({"text": X["text"][test]})) > 0.75


def test_complete_rows_need_no_factors():
    X, Y = planted(100, 5)
    lacking = {"text": np.arange(100) % 2 == 0}
    model = LSAMML(optimise="none", scaling="none").fit(X, Y, missing=lacking)
    assert model.precision_.shape == (100, 100)
    assert model.noise_variances_.shape == (3,)
    model.fit(X, Y)
    assert not hasattr(model, "precision_")
    assert not hasattr(model, "noise_variances_")
