"""Batch kernels against scikit-learn's, dense against sparse, stored against computed."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.metrics import pairwise
from tests.support.cases import for_each

from manylabel_core import mercer
from manylabel_core import rows as rows_module
from manylabel_core.mercer import GramRows, Kernel, gram, mean_distance, scale_gamma
from manylabel_core.rows import row_blocks

KERNELS = [
    Kernel("linear"),
    Kernel("linear", constant=1.0),
    Kernel("rbf", gamma=0.3),
    Kernel("rbf", gamma=0.3, constant=2.0),
    Kernel("poly", gamma=0.5, coef0=1.5, degree=3),
    Kernel(lambda X, Z: pairwise.linear_kernel(X, Z) ** 2),
]


def examples(n_samples: int = 40, dtype: type = np.float64) -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(n_samples, 7)).astype(dtype)
    X[X < 0] = 0
    return X


@for_each(
    ("kernel", "expected"),
    [
        (KERNELS[0], lambda X, Z: X @ Z.T),
        (KERNELS[1], lambda X, Z: X @ Z.T + 1),
        (KERNELS[2], lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.3)),
        (KERNELS[3], lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.3) + 2),
        (KERNELS[4], lambda X, Z: pairwise.polynomial_kernel(X, Z, gamma=0.5, coef0=1.5, degree=3)),
        (KERNELS[5], lambda X, Z: (X @ Z.T) ** 2),
    ],
)
def test_a_kernel_is_what_its_formula_says(kernel, expected):
    X, Z = examples(20), examples(40)[20:]
    np.testing.assert_allclose(kernel(X, Z), expected(X, Z), rtol=1e-12, atol=1e-12)


@for_each("kernel", KERNELS)
def test_sparse_examples_have_the_kernel_values_of_dense_ones(kernel):
    X = examples()
    values = kernel(sp.csr_array(X), sp.csr_array(X))
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, kernel(X, X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_gram_matrix_is_symmetric_and_its_rows_and_diagonal_can_be_had_alone(kernel, dtype, monkeypatch):
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 7 * 8 * 40)  # seven rows at a time
    X = examples(dtype=dtype)
    K = gram(kernel, X)
    assert K.dtype == dtype
    np.testing.assert_array_equal(K, K.T)
    rows = GramRows(kernel, X)
    block = np.array([3, 30, 4])
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(rows.rows(block), K[block], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(rows.rows(slice(5, 9)), K[5:9], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(rows.diagonal(), np.diag(K), rtol=tolerance, atol=tolerance)


def test_an_rbf_of_large_close_values_keeps_its_precision_in_float32():
    X = (1e4 + np.random.default_rng(0).normal(size=(10, 3))).astype(np.float32)
    K = gram(Kernel("rbf", gamma=0.5), X)
    np.testing.assert_allclose(K, pairwise.rbf_kernel(X.astype(float), gamma=0.5), atol=1e-6)


def test_the_mean_distance_is_over_different_examples(monkeypatch):
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 7 * 8 * 40)
    X = examples()
    state = np.random.RandomState(0)
    np.testing.assert_allclose(mean_distance(X, state), pdist(X).mean(), rtol=1e-6)
    np.testing.assert_allclose(mean_distance(sp.csr_array(X), state), pdist(X).mean(), rtol=1e-6)
    assert mean_distance(X[:1], state) == 0


def test_the_mean_distance_of_many_examples_comes_from_a_repeatable_sample(monkeypatch):
    monkeypatch.setattr(mercer, "DISTANCE_ROWS", 300)
    X = examples(2000)
    sampled = mean_distance(X, np.random.RandomState(5))
    assert sampled == mean_distance(X, np.random.RandomState(5))
    assert sampled != mean_distance(X, np.random.RandomState(6))
    assert sampled == pytest.approx(pdist(X).mean(), rel=0.05)


def test_scale_is_that_of_scikit_learn():
    X = examples()
    assert scale_gamma(X) == pytest.approx(1 / (X.shape[1] * X.var()))
    assert scale_gamma(sp.csr_array(X)) == pytest.approx(1 / (X.shape[1] * X.var()))
    assert scale_gamma(np.ones((3, 2))) == 1
    assert scale_gamma(sp.csr_array(np.full((300, 7), 0.1))) == 1


@for_each("offset", [0.0, 1.0, 1e4, 1e8, 1e12])
@for_each("density", [0.3, 1.0])
@for_each("dtype", [np.float32, np.float64])
def test_scale_gamma_of_sparse_rows_is_that_of_dense_ones(offset, density, dtype):
    """The oracle subtracts the mean in exact arithmetic."""
    rng = np.random.default_rng(3)
    X = ((offset + rng.normal(size=(50, 8))) * (rng.random((50, 8)) < density)).astype(dtype)
    entries = [Fraction(float(x)) for x in X.ravel()]
    mean = sum(entries) / len(entries)
    variance = float(sum((x - mean) ** 2 for x in entries) / len(entries))
    rows = sp.csr_array(X)
    expected = 1 / (8 * variance) if variance else 1.0
    assert scale_gamma(rows) == pytest.approx(expected, rel=1e-9)
    assert scale_gamma(X) == pytest.approx(expected, rel=1e-6)
    parts = sp.csr_array((np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), rows.shape)
    assert scale_gamma(parts) == pytest.approx(expected, rel=1e-9)
    assert parts.nnz == 2 * rows.nnz, "the caller's matrix is as it was"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda X, Z: X @ Z[:-1].T,
        lambda X, Z: np.full((len(X), len(Z)), np.nan),
        lambda X, Z: np.full((len(X), len(Z)), "a"),
    ],
)
def test_a_callable_that_gives_no_kernel_values_is_refused(wrong):
    with pytest.raises(ValueError, match="kernel must return"):
        Kernel(wrong)(examples(), examples())


def test_blocks_of_rows_cover_all_of_them():
    for n_rows in (0, 1, 999, 1000, 1001):
        covered = [i for part in row_blocks(n_rows, rows_module.BLOCK_BYTES // 100) for i in range(n_rows)[part]]
        assert covered == list(range(n_rows))
    assert next(row_blocks(5, 10 * rows_module.BLOCK_BYTES)) == slice(0, 1)
