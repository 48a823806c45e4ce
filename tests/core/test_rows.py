"""Matrices to index arrays: one form for dense and sparse, and clear refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.cases import for_each

from manylabel_core.rows import MAX_MAGNITUDE, Rows, as_rows, as_targets

X = np.array([[0.0, 1.5, 0.0], [0.0, 0.0, 0.0], [-2.0, 0.0, 3.0]])
FORMS = [np.asarray, np.ndarray.tolist, sp.csr_array, sp.csr_matrix, sp.csc_matrix, sp.coo_array, np.asfortranarray]


@for_each("form", FORMS)
def test_every_form_gives_the_same_rows(form: type) -> None:
    rows, n_features = as_rows(form(X))
    assert n_features == 3
    if not sp.issparse(form(X)):
        assert [array.tolist() for array in rows] == [[0, 3, 6, 9], [0, 1, 2] * 3, X.ravel().tolist()]
        rows = rows.without_zeros()
    assert rows.indptr.tolist() == [0, 1, 1, 3]
    assert rows.indices.tolist() == [1, 0, 2]
    assert rows.values.tolist() == [1.5, -2.0, 3.0]
    assert [array.dtype for array in rows] == [np.int64, np.int32, np.float32]


def test_sparse_input_is_put_in_order_and_not_changed() -> None:
    data, indices, indptr = np.array([3.0, 1.0, 2.0, 0.0, 5.0, -5.0]), np.array([2, 0, 2, 1, 1, 1]), np.array([0, 3, 6])
    given = sp.csr_array((data, indices, indptr), shape=(2, 4))
    rows, n_features = as_rows(given)
    assert n_features == 4
    assert (rows.indptr.tolist(), rows.indices.tolist()) == ([0, 2, 3], [0, 2, 1])
    assert rows.values.tolist() == [1.0, 5.0, 0.0], "repeated entries are added, and a stored 0 is a value"
    assert given.data.tolist() == [3.0, 1.0, 2.0, 0.0, 5.0, -5.0]


def test_values_too_small_for_the_dtype_are_0() -> None:
    assert as_rows([[1e-60, 1.0]], "float32")[0].values.tolist() == [0.0, 1.0]
    assert as_rows([[1e-60, 1.0]], "float64")[0].values.tolist() == [1e-60, 1.0]


@for_each("dtype", [np.bool_, np.int8, np.uint64, np.float64, np.longdouble])
@for_each("form", [np.asarray, sp.csr_array])
def test_real_dtypes_are_accepted(dtype: type, form: type) -> None:
    rows = as_rows(form(np.array([[0, 1], [1, 0]], dtype=dtype)))[0].without_zeros()
    assert (rows.indices.tolist(), rows.values.tolist()) == ([1, 0], [1.0, 1.0])


def test_nan_is_a_missing_value_of_a_dense_matrix() -> None:
    rows, _ = as_rows([[np.nan, 0.0], [2.0, np.nan]])
    np.testing.assert_array_equal(rows.values, [np.nan, 0.0, 2.0, np.nan])
    assert [array.tolist() for array in rows.without_zeros()] == [[0, 0, 1], [0], [2.0]]


def test_half_precision_is_accepted() -> None:
    assert as_rows(np.array([[0.5, 0.0]], dtype=np.float16))[0].values.tolist() == [0.5, 0.0]


@for_each(
    ("form", "value"),
    [
        (sp.csr_array, np.nan),
        *((form, value) for form in (np.asarray, sp.csr_array) for value in (np.inf, -np.inf, 1.01 * MAX_MAGNITUDE)),
    ],
)
def test_values_that_are_not_finite_or_too_large_are_named(form: type, value: float) -> None:
    bad = X.copy()
    bad[2, 1] = value
    with pytest.raises(ValueError, match=r"X\[2, 1\] is .*: values must be finite and at most 1e\+15"):
        as_rows(form(bad))
    as_rows(np.where(X, np.sign(X) * MAX_MAGNITUDE, 0))


@for_each(
    ("bad", "message"),
    [
        ([1.0, 2.0], "X must be 2-D of shape .n_samples, n_features., not 1-D"),
        ([[["a"]]], "X must be 2-D"),
        ([["a", "b"]], "X must contain real numbers"),
        ([[1j]], "X must contain real numbers, not complex128"),
        ([[None, 1.0]], "X must contain real numbers, not object"),
    ],
)
def test_matrices_of_other_kinds_are_refused(bad: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_rows(bad)  # type: ignore[arg-type]


Y = np.array([[1, 0, 1], [0, 0, 0]])


@for_each("form", FORMS)
def test_complete_targets_list_the_relevant(form: type) -> None:
    targets = as_targets(form(Y))
    assert (targets.indptr.tolist(), targets.indices.tolist()) == ([0, 2, 2], [0, 2])
    assert (targets.signs.tolist(), targets.complete.tolist()) == ([1, 1], [True, True])
    assert targets.n_labels.tolist() == [3, 3]
    assert [array.dtype for array in targets] == [np.int64, np.int32, np.int8, np.bool_, np.int64, np.float64]


@for_each("form", FORMS)
def test_partial_targets_list_the_known(form: type) -> None:
    known = np.array([[0, 1, 1], [1, 0, 0]], dtype=np.int8)
    targets = as_targets(form(Y), form(known))
    assert (targets.indptr.tolist(), targets.indices.tolist()) == ([0, 2, 3], [1, 2, 0])
    assert (targets.signs.tolist(), targets.complete.tolist()) == ([-1, 1, -1], [False, False])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_labels_other_than_0_and_1_are_refused(form: type) -> None:
    for wrong in (2.0, -1.0, 0.5, np.nan):
        with pytest.raises(ValueError, match=f"Y must contain only 0 and 1, not {wrong}"):
            as_targets(form(np.array([[0.0, wrong]])))
    with pytest.raises(ValueError, match="known must contain only 0 and 1"):
        as_targets([[0, 1]], form(np.array([[0, 2]])))
    with pytest.raises(ValueError, match=r"known must have the shape of Y, \(1, 2\), not \(1, 3\)"):
        as_targets([[0, 1]], form(np.array([[0, 1, 1]])))


def test_parts() -> None:
    rows, _ = as_rows(sp.csr_array(X))
    assert [array.tolist() for array in rows.part(1, 3)] == [[0, 0, 2], [0, 2], [-2.0, 3.0]]
    assert [array.tolist() for array in rows.part(1, 1)] == [[0], [], []]
    assert [array.tolist() for array in rows.row(2)] == [[0, 2], [-2.0, 3.0]]
    targets = as_targets(Y[::-1]).part(1, 2)
    assert [array.tolist() for array in targets] == [[0, 2], [0, 2], [1, 1], [True], [3], []]
    weighted = as_targets(Y)._replace(weights=np.array([1.0, 2.0, 3.0])[: len(Y)])
    assert weighted.part(1, 2).weights.tolist() == [2.0]


def test_zeros_can_be_dropped_later() -> None:
    rows = Rows(np.array([0, 2, 3]), np.array([0, 4, 1], np.int32), np.array([0.0, 2.0, 0.0], np.float32))
    assert [array.tolist() for array in rows.without_zeros()] == [[0, 1, 1], [4], [2.0]]
    assert [array.dtype for array in rows.without_zeros()] == [array.dtype for array in rows]


def test_columns_beyond_int32_are_refused():
    """They would wrap around to columns that exist."""
    wide = sp.csr_array((np.ones(1), (np.zeros(1, np.int64), np.array([2**32]))), shape=(1, 2**32 + 1))
    with pytest.raises(ValueError, match="X must have at most 2,147,483,647 columns"):
        as_rows(wide)
    with pytest.raises(ValueError, match="Y must have at most"):
        as_targets(wide.astype(np.int8))
