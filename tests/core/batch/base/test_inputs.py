"""Bad input to the batch learners: a ValueError that names the argument, every time."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from tests.core.batch.support import with_value
from tests.support.cases import for_each

from manylabel_core.batch import M3L, MLRL, SSMLRL, PrBR, PrML

KERNEL_LEARNERS = [M3L, MLRL, SSMLRL]
PRIVILEGED = [PrML, PrBR]
LEARNERS = [*KERNEL_LEARNERS, *PRIVILEGED]


def data(n_samples: int = 12, n_features: int = 3, n_labels: int = 2):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_samples, n_features)), rng.integers(0, 2, size=(n_samples, n_labels))


def twice(labels: np.ndarray, *, half: float = 1.0) -> sp.csr_array:
    """Every entry as two, which SciPy adds."""
    once = sp.csr_array(half * labels)
    data, indices = np.repeat(once.data, 2), np.repeat(once.indices, 2)
    return sp.csr_array((data, indices, 2 * once.indptr), shape=once.shape)


X, Y = data()

BAD_ARGUMENTS = {
    "Y holds 2": (X, with_value(Y, 2), "Y must contain only 0 and 1, not 2"),
    "Y holds -1": (X, 2 * Y - 1, "Y must contain only 0 and 1, not -1"),
    "Y holds a half": (X, with_value(Y, 0.5), "Y must contain only 0 and 1, not 0.5"),
    "Y holds NaN": (X, with_value(Y, np.nan), "Y must contain only 0 and 1, not nan"),
    "Y holds infinity": (X, with_value(Y, np.inf), "Y must contain only 0 and 1, not inf"),
    "sparse Y holds 3": (X, sp.csr_array(3 * Y), "Y must contain only 0 and 1, not 3"),
    "sparse Y holds an entry twice": (X, twice(Y), "Y must contain only 0 and 1, not 2"),
    "Y holds text": (X, Y.astype(str), "Y must contain only 0 and 1, but its type is"),
    "Y holds objects": (X, Y.astype(object), "Y must contain only 0 and 1, but its type is object"),
    "Y is None": (X, None, "Y must be an indicator matrix"),
    "Y has rows of two lengths": (X, [[0, 1], [1]] * 6, "Y must be an indicator matrix"),
    "Y is a vector": (X, Y[:, 0], r"Y must be an indicator matrix of shape .*, not of shape \(12,\)"),
    "Y is a cube": (X, Y[:, :, None], "Y must be an indicator matrix of shape"),
    "Y has no labels": (X, Y[:, :0], "Y must be an indicator matrix of shape"),
    "Y has too few rows": (X, Y[:-1], "Y must have 12 rows, like X, not 11"),
    "Y has too many rows": (X[:-1], Y, "Y must have 11 rows, like X, not 12"),
    "Y is transposed": (X[:3], np.ones((2, 3)), r"Y must have 3 rows, like X, not 2; is it transposed\?"),
    "X holds NaN": (with_value(X, np.nan), Y, "Input X contains NaN"),
    "X holds infinity": (with_value(X, np.inf), Y, "Input X contains infinity"),
    "sparse X holds NaN": (sp.csr_array(with_value(X, np.nan)), Y, "Input X contains NaN"),
    "X is empty": (X[:0], Y[:0], r"^X: Found array with 0 sample\(s\)"),
    "X has no features": (X[:, :0], Y, r"^X: Found array with 0 feature\(s\)"),
    "X is a mapping": ({"a": X}, Y, "X must be an array"),
    "X is a vector": (X[:, 0], Y, "^X: Expected 2D array, got 1D array"),
    "X holds text": (X.astype(str)[:, :1] + "a", Y, "^X: could not convert string to float"),
    "X is complex": (X + 1j, Y, "^X: Complex data not supported"),
    "X has squares that overflow": (X * 1e200, Y, "X has values that are too large for float64"),
    "X has squares that overflow in single precision": (
        (X * 1e25).astype(np.float32),
        Y,
        "X has values that are too large for float32",
    ),
}


@for_each("learner", LEARNERS)
@for_each("case", BAD_ARGUMENTS)
def test_a_bad_argument_is_refused_by_name(learner, case):
    bad_X, bad_Y, message = BAD_ARGUMENTS[case]
    with pytest.raises(ValueError, match=message):
        learner(scaling="none").fit(bad_X, bad_Y)


BAD_PARAMETERS = [
    (M3L, "C", 0, "C must be a finite number above 0"),
    (M3L, "R", np.ones((2, 3)), "R must be a square matrix"),
    (M3L, "R", np.eye(3), r"R must have the shape \(n_labels, n_labels\), \(2, 2\), not \(3, 3\)"),
    (M3L, "fit_intercept", "yes", "fit_intercept must be True or False"),
    (MLRL, "lam", 0, "lam must be a finite number above 0"),
    *[(SSMLRL, name, 0, f"{name} must be a finite number above 0") for name in ("lam1", "lam2")],
    *[
        (learner, name, value, message)
        for learner in KERNEL_LEARNERS
        for name, value, message in [
            ("kernel", "cosine", "kernel must be one of 'linear', 'rbf'"),
            ("kernel", lambda a, b: -a @ b.T, "kernel must be positive semi-definite"),
            ("gamma", "auto", "gamma must be one of 'scale', 'mean_distance'"),
            ("gamma", -1.0, "gamma must be a finite number above 0"),
            ("degree", 0, "degree must be an integer from 1 to"),
            ("coef0", np.nan, "coef0 must be a finite number"),
            ("coef0", "a", "coef0 must be a finite number"),
        ]
    ],
    *[(learner, "cache_mb", 0, "cache_mb must be a finite number above 0") for learner in (M3L, MLRL)],
    *[
        (learner, name, value, message)
        for learner in LEARNERS
        for name, value, message in [
            ("tol", 0.0, "tol must be"),
            ("tol", 1.0, "tol must be"),
            ("max_iter", 0, "max_iter must be an integer from 1 to"),
            ("warm_start", 2, "warm_start must be True or False"),
            ("n_threads", 0, "n_threads must be an integer from 1 to"),
            ("random_state", "seed", "random_state: 'seed' cannot be used to seed"),
            ("optimise", "f1", "optimise must be one of"),
            ("calibrate", "yes", "calibrate must be"),
            ("folds", 1, "folds must be an integer from 2 to 100, not 1"),
        ]
    ],
    *[
        (learner, name, value, message)
        for learner in PRIVILEGED
        for name, value, message in [
            ("C", 0, "C must be a finite number above 0"),
            ("gamma2", 0, "gamma2 must be a finite number above 0"),
            ("rho", 0, "rho must be a finite number above 0"),
            ("rho", np.nan, "rho must be a finite number above 0"),
            ("rho", np.ones(2), "rho must be a finite number above 0"),
        ]
    ],
    (PrML, "gamma1", 0.0, "gamma1 must be a finite number above 0"),
    *[(PrML, "rank", value, "rank must be an integer") for value in (0, 0.0, 1.5, np.nan, "all", True)],
]
"""Bounds of each parameter; `test_parameters` has what is no number, no flag or no word."""


@for_each(("learner", "name", "value", "message"), BAD_PARAMETERS)
def test_a_bad_parameter_is_refused_by_name(learner, name, value, message):
    with pytest.raises(ValueError, match=message):
        learner(**{name: value}).fit(X, Y)


@for_each("learner", KERNEL_LEARNERS)
@for_each(
    ("K", "message"),
    [
        (np.ones((12, 11)), r"X must be a square Gram matrix with kernel='precomputed', not of shape \(12, 11\)"),
        (np.triu(np.ones((12, 12))), "X must be a symmetric Gram matrix"),
        (sp.eye_array(12, format="csr"), "X must be dense, not sparse"),
        (-np.eye(12), "X must be positive semi-definite, but has -1 on its diagonal"),
    ],
)
def test_a_precomputed_matrix_that_is_no_gram_matrix_is_refused(learner, K, message):
    with pytest.raises(ValueError, match=message):
        learner(kernel="precomputed").fit(K, Y)


@pytest.mark.parametrize("learner", KERNEL_LEARNERS)
def test_a_precomputed_matrix_may_round_its_halves_differently(learner):
    K = (X @ X.T).astype(np.float32)
    expected = learner(kernel="precomputed").fit(K, Y).decision_function(K)
    K[0, 1] *= 1 + 1e-6
    assert K[0, 1] != K[1, 0]
    found = learner(kernel="precomputed").fit(K, Y).decision_function(K)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())


@for_each("learner", LEARNERS)
@for_each("names", [["one"], ["one", "one"], ["one", "two", "three"]])
def test_label_names_must_match_the_labels(learner, names):
    with pytest.raises(ValueError, match="label_names must contain 2 different names"):
        learner().fit(X, Y, label_names=names)


@for_each("learner", LEARNERS)
def test_label_names_must_be_a_sequence(learner):
    with pytest.raises(ValueError, match="label_names must be a sequence of names"):
        learner().fit(X, Y, label_names=5)


@for_each("learner", LEARNERS)
def test_predict_refuses_other_features_and_unfitted_models(learner):
    with pytest.raises(NotFittedError):
        learner().predict(X)
    model = learner(scaling="none").fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.decision_function(with_value(X, np.nan))


@pytest.mark.parametrize("learner", LEARNERS)
def test_an_indicator_matrix_may_be_of_any_type(learner):
    expected = learner(optimise="none").fit(X, Y).decision_function(X)
    bools, small, large, floats = (Y.astype(kind) for kind in (np.bool_, np.int8, np.int64, np.float32))
    for labels in (bools, large.tolist(), sp.csr_array(small), sp.coo_array(floats)):
        np.testing.assert_array_equal(learner(optimise="none").fit(X, labels).decision_function(X), expected)


@pytest.mark.parametrize("learner", LEARNERS)
def test_duplicate_entries_of_sparse_labels_are_summed(learner):
    parts = twice(Y, half=0.5)
    expected = learner().fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(learner().fit(X, parts).decision_function(X), expected)
    assert parts.nnz == 2 * Y.sum()  # the caller's matrix is as it was


def test_a_flag_may_be_a_number_or_a_boolean_of_numpy():
    for flag in (np.True_, 1, 1.0):
        assert M3L(optimise="none", fit_intercept=flag, scaling="none").fit(X, Y).intercept_.any()
