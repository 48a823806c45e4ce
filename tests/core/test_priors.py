"""Priors: positive definite, what they say they are, and honest about what was added."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.cases import for_each

from manylabel_core import priors

INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])  # eigenvalues -1 and 3


def smallest(R: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(R)[0])


def label_sets(n_samples: int = 300, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n_samples, 1))
    scores = factor * np.array([1.0, 1.0, -1.0, 0.0]) + rng.normal(size=(n_samples, 4))
    return (scores > 0.3).astype(np.int8)


def test_the_identity_adds_nothing():
    prior = priors.identity(3)
    np.testing.assert_array_equal(prior.R, np.eye(3))
    assert prior.eps == 0


def test_a_matrix_that_is_positive_definite_passes_unchanged():
    R = np.array([[1.0, -0.7], [-0.7, 2.0]])
    np.testing.assert_array_equal(priors.matrix(R), R)


def test_a_matrix_that_is_not_positive_definite_is_refused_with_its_smallest_eigenvalue():
    with pytest.raises(ValueError, match=r"R must be positive definite, but its smallest eigenvalue is -1 "):
        priors.matrix(INDEFINITE)
    with pytest.raises(ValueError, match="R must be positive definite, but its smallest eigenvalue is"):
        priors.matrix(np.ones((2, 2)))


@for_each(
    ("R", "message"),
    [
        (np.ones((2, 3)), "R must be a square matrix"),
        (np.zeros((0, 0)), "R must be a square matrix"),
        (np.eye(3), r"R must have the shape \(n_labels, n_labels\), \(2, 2\)"),
        (np.array([[1.0, 0.2], [0.1, 1.0]]), "R must be symmetric, but it differs from its transpose by up to 0.1"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "R must contain finite real numbers"),
        (np.array([["1", "0"], ["0", "1"]]), "R must contain finite real numbers"),
    ],
)
def test_a_matrix_that_is_no_prior_is_refused_by_name(R, message):
    with pytest.raises(ValueError, match=message):
        priors.matrix(R, 2)


def test_making_a_matrix_positive_definite_adds_what_is_missing_and_says_so():
    prior = priors.positive_definite(INDEFINITE)
    assert prior.eps == pytest.approx(1.0, rel=1e-4)
    np.testing.assert_allclose(prior.R, INDEFINITE + prior.eps * np.eye(2))
    largest = np.linalg.eigvalsh(prior.R)[-1]
    assert smallest(prior.R) == pytest.approx(priors.FLOOR * largest, rel=1e-6)


def test_making_a_matrix_positive_definite_adds_nothing_where_nothing_is_missing():
    assert priors.positive_definite([[1.0, 0.5], [0.5, 1.0]]).eps == 0


def test_an_eps_that_is_asked_for_is_added_and_must_suffice():
    assert priors.positive_definite(INDEFINITE, eps=2.0).R[0, 0] == 3.0
    with pytest.raises(ValueError, match=r"its smallest eigenvalue is -0\.5"):
        priors.positive_definite(INDEFINITE, eps=0.5)
    with pytest.raises(ValueError, match="eps must be"):
        priors.positive_definite(INDEFINITE, eps=-1.0)
    with pytest.raises(ValueError, match="R must have a positive eigenvalue"):
        priors.positive_definite(-np.eye(2))


def test_category_attributes_are_averaged_outer_products():
    attributes = np.array([[1, 1, 0], [1, 0, 0]])
    prior = priors.category_attributes(attributes, p=[3, 1], eps=0.25)
    signs = 2 * attributes - 1
    expected = 0.75 * np.outer(signs[0], signs[0]) + 0.25 * np.outer(signs[1], signs[1]) + 0.25 * np.eye(3)
    np.testing.assert_allclose(prior.R, expected)
    assert prior.eps == 0.25


def test_few_categories_give_a_prior_with_eps():
    attributes = np.random.default_rng(0).integers(0, 2, size=(10, 85))
    prior = priors.category_attributes(attributes)
    assert 0 < prior.eps < 1e-3
    assert smallest(prior.R) > 0
    np.testing.assert_allclose(np.diag(prior.R) - prior.eps, 1.0)
    np.testing.assert_array_equal(prior.R, priors.category_attributes(sp.csr_array(attributes)).R)


@for_each("p", [[1.0], [0.5, -0.5], [0.0, 0.0], [np.nan, 1.0]])
def test_category_weights_that_are_no_distribution_are_refused(p):
    with pytest.raises(ValueError, match="p must contain 2 numbers"):
        priors.category_attributes([[1, 0], [0, 1]], p=p)


@for_each("wrong", [[[1, 2]], [[0.5, 1]], [1, 0], np.zeros((0, 3))])
def test_attributes_that_are_no_indicator_matrix_are_refused(wrong):
    with pytest.raises(ValueError, match="attributes must"):
        priors.category_attributes(wrong)


def test_unshrunk_correlation_is_that_of_numpy():
    Y = label_sets()
    np.testing.assert_allclose(priors.label_correlation(Y, shrinkage=0).R, np.corrcoef(Y.T), atol=1e-12)
    np.testing.assert_allclose(priors.label_correlation(sp.csr_array(Y), 0).R, np.corrcoef(Y.T), atol=1e-12)


def test_shrinkage_scales_what_is_beside_the_diagonal():
    Y = label_sets()
    np.testing.assert_allclose(priors.label_correlation(Y, 0.4).R, 0.6 * np.corrcoef(Y.T) + 0.4 * np.eye(4), atol=1e-12)
    np.testing.assert_allclose(priors.label_correlation(Y, 1.0).R, np.eye(4))


def test_the_estimated_shrinkage_is_the_textbook_sum_over_products():
    Y = label_sets(60).astype(float)
    n = len(Y)
    Z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    products = Z[:, :, None] * Z[:, None, :]
    corr = products.mean(axis=0)
    variance = products.var(axis=0) / (n - 1)
    apart = ~np.eye(4, dtype=bool)
    s = variance[apart].sum() / (corr[apart] ** 2).sum()
    np.testing.assert_allclose(priors.label_correlation(Y).R, (1 - s) * corr + s * np.eye(4), atol=1e-12)


def test_fewer_examples_are_shrunk_more():
    strength = [abs(priors.label_correlation(label_sets(n)).R[0, 2]) for n in (10, 5000)]
    raw = [abs(np.corrcoef(label_sets(n).T)[0, 2]) for n in (10, 5000)]
    assert strength[0] / raw[0] < 0.9 < 0.99 < strength[1] / raw[1]


def test_a_label_with_one_class_is_uncorrelated():
    Y = label_sets()
    Y[:, 1] = 1
    R = priors.label_correlation(Y).R
    np.testing.assert_array_equal(R[1], [0, 1, 0, 0])
    assert smallest(R) > 0


def test_a_single_example_says_nothing():
    np.testing.assert_array_equal(priors.label_correlation([[1, 0]]).R, np.eye(2))


@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, "some"])
def test_a_shrinkage_out_of_range_is_refused(shrinkage):
    with pytest.raises(ValueError, match="shrinkage must be 'auto' or a number from 0 to 1"):
        priors.label_correlation(label_sets(), shrinkage)


def test_labels_that_are_no_indicator_matrix_are_refused():
    with pytest.raises(ValueError, match="Y must contain only 0 and 1"):
        priors.label_correlation([[2, 1]])
    with pytest.raises(ValueError, match="Y must contain only 0 and 1"):
        priors.label_correlation(sp.csr_array([[2, 1]]))
