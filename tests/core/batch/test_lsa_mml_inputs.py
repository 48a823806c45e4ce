"""Bad input to LSA-MML: a ValueError that names the argument, every time."""

import re
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from tests.core.batch.support import with_value
from tests.support.cases import for_each

from manylabel_core.batch import LSAMML

N = 12


def data():
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(N, 4)), "b": rng.normal(size=(N, 3))}
    return X, rng.integers(0, 2, size=(N, 2))


X, Y = data()
quick = partial(LSAMML, tol=0.1, scaling="none")
"""A learner that converges after a round or two, for tests that do not depend on the model."""
HALF = np.arange(N) < 6


class Frame:
    """The part of a data frame that is used."""

    def __init__(self, values, columns):
        self.values, self.columns, self.shape = values, columns, values.shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


def view(name, matrix):
    return X | {name: matrix}


BAD_ARGUMENTS = {
    "X is a matrix": ((X["a"], Y), "X must be a mapping of view names to matrices, not ndarray; a single view is {'x'"),
    "X is a list": (([X["a"]], Y), "X must be a mapping of view names to matrices, not list"),
    "X is empty": (({}, Y), "X must have at least one view"),
    "a name is a number": (({0: X["a"]}, Y), "X must have names of views, not 0, as its keys"),
    "a name is empty": (({"": X["a"]}, Y), "X must have names of views, not '', as its keys"),
    "views have different row counts": ((view("b", X["b"][:-1]), Y), "X['b'] has 11 rows, but X['a'] has 12"),
    "a view holds NaN": ((view("b", with_value(X["b"], np.nan)), Y), "X['b'] must contain finite numbers"),
    "a view holds infinity": ((view("a", with_value(X["a"], np.inf)), Y), "X['a'] must contain finite numbers"),
    "a sparse view holds NaN": (
        (view("a", sp.csr_array(with_value(X["a"], np.nan))), Y),
        "X['a'] must contain finite numbers",
    ),
    "a view is a vector": ((view("a", X["a"][:, 0]), Y), "X['a']: Expected 2D array, got 1D"),
    "a view has no rows": (({"a": X["a"][:0]}, Y[:0]), "X['a']: Found array with 0 sample(s)"),
    "a view has no features": ((view("a", X["a"][:, :0]), Y), "X['a']: Found array with 0 feature(s)"),
    "a view holds text": ((view("a", np.full((N, 2), "x")), Y), "X['a']: "),
    "a view is complex": ((view("a", X["a"] + 1j), Y), "X['a']: Complex data not supported"),
    "a view is constant": ((view("b", np.ones((N, 2))), Y), "X['b'] must have rows that differ"),
    "a view is 0": ((view("b", sp.csr_array((N, 2))), Y), "X['b'] must have rows that differ"),
    "a view overflows": (
        (view("b", 1e200 * X["b"]), Y),
        "X['b'] has values that are too large: their squares overflow",
    ),
    "Y is None": ((X, None), "Y must be an indicator matrix"),
    "Y holds 2": ((X, with_value(Y, 2)), "Y must contain only 0 and 1, not 2"),
    "sparse Y holds 3": ((X, sp.csr_array(3 * Y)), "Y must contain only 0 and 1, not 3"),
    "Y is text, some of it unlabelled": ((X, Y.astype(str), HALF), "Y must contain only 0 and 1, but its type is <U"),
    "Y has too few rows": ((X, Y[:-1]), "Y must have 12 rows, like X, not 11"),
    "no row is labelled": ((X, Y, np.zeros(N, bool)), "labelled must be True for at least one row"),
    "labelled holds indices": ((X, Y, np.arange(N)), "labelled must be a mask of True and False, not of type int64"),
    "labelled is too short": ((X, Y, HALF[:-1]), "labelled must have one entry for each of the 12 rows, not of shape"),
    "missing is a mask": ((X, Y, None, HALF), "missing must be a mapping of view names to masks of rows, not ndarray"),
    "missing names no view": ((X, Y, None, {"c": HALF}), "missing names the view 'c', which X does not have"),
    "missing holds numbers": ((X, Y, None, {"a": 1.0 * HALF}), "missing['a'] must be a mask of True and False"),
    "missing is too short": ((X, Y, None, {"a": HALF[:3]}), "missing['a'] must have one entry for each of the 12 rows"),
    "a row has no view": ((X, Y, None, {"a": HALF, "b": np.arange(N) == 4}), "row 4 has no view at all"),
    "a view has no row": ((X, Y, None, {"a": np.ones(N, bool)}), "missing: no row has the view 'a'"),
    "too few label names": ((X, Y, None, None, ["one"]), "label_names must contain 2 different names"),
}


@for_each("case", BAD_ARGUMENTS)
def test_a_bad_argument_is_refused_by_name(case):
    arguments, message = BAD_ARGUMENTS[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        quick().fit(*arguments)


BAD_PARAMETERS = [
    ("n_components", 0, "n_components must be an integer from 1 to"),
    ("n_components", 8, "n_components must be at most 7, not 8: the views have 7 features together"),
    ("r", 1, "r must be"),
    *[(name, 0, f"{name} must be a finite number above 0") for name in ("beta", "ridge")],
    ("gamma", -1e-9, "gamma must be a finite number of at least 0"),
    ("warm_start", "no", "warm_start must be True or False"),
    *[("tol", value, "tol must be") for value in (0.0, 1.0)],
    ("max_iter", 0, "max_iter must be an integer from 1 to"),
    ("n_threads", 0, "n_threads must be an integer from 1 to"),
    ("kernel", "poly", "kernel must be one of 'linear', 'rbf', not 'poly'"),
    ("n_landmarks", 0, "n_landmarks must be an integer from 1 to"),
    ("random_state", "seed", "random_state: 'seed' cannot be used to seed"),
]


@for_each(("name", "value", "message"), BAD_PARAMETERS)
def test_a_bad_parameter_is_refused_by_name(name, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LSAMML(scaling="none", **{name: value}).fit(X, Y)


def test_the_limit_of_components():
    assert quick().fit(X, Y).n_components_ == 7
    few = {name: matrix[:2] for name, matrix in X.items()}
    with pytest.raises(ValueError, match="n_components must be at most 2, not 3: there are 2 rows"):
        LSAMML(n_components=3, scaling="none").fit(few, Y[:2])
    with pytest.warns(UserWarning, match="3 folds need at least 6 rows, not 2"):
        assert quick().fit(few, Y[:2]).n_components_ == 2
    assert quick().fit({"a": X["a"]}, Y).n_components_ == 4
    wide = {name: np.random.default_rng(0).normal(size=(250, 150)) for name in "ab"}
    assert LSAMML(max_iter=1, tol=0.5, scaling="none").fit(wide, np.arange(250)[:, None] % 2).n_components_ == 200


def test_a_ridge_too_small_for_a_unique_solution_is_named():
    missing = {"a": HALF}
    with pytest.raises(ValueError, match="ridge must be larger, because the solution is not unique"):
        LSAMML(n_components=7, ridge=1e-300, scaling="none").fit(X, Y, ~HALF, missing)


BAD_AT_PREDICT = {
    "X is a matrix": ((X["a"],), "X must be a mapping"),
    "X is empty": (({},), "X must have at least one view"),
    "an unknown view": ((X | {"c": X["a"]},), "X holds the unknown view 'c'; the views are 'a', 'b'"),
    "another width": ((view("a", X["b"]),), "X['a'] has 3 features, but 4 in fit"),
    "different row counts": ((view("b", X["b"][:2]),), "X['b'] has 2 rows, but X['a'] has 12"),
    "NaN": ((view("b", with_value(X["b"], np.nan)),), "X['b'] must contain finite numbers"),
    "a row has no view": ((X, {"a": HALF, "b": HALF}), "row 0 has no view at all"),
    "a row lacks the only view": (({"a": X["a"]}, {"a": HALF}), "row 0 has no view at all"),
    "missing names a view left out": (({"a": X["a"]}, {"b": HALF}), "missing names the view 'b', which X does not"),
}


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


@for_each("method", ["transform", "label_scores", "decision_function", "predict"])
@for_each("case", BAD_AT_PREDICT)
def test_predict_refuses_views_that_do_not_match_the_fit(fitted, case, method):
    arguments, message = BAD_AT_PREDICT[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(fitted, method)(*arguments)


@for_each("method", ["transform", "label_scores", "decision_function", "predict"])
def test_an_unfitted_learner_predicts_nothing(method):
    with pytest.raises(NotFittedError):
        getattr(LSAMML(scaling="none"), method)(X)
    with pytest.raises(NotFittedError):
        LSAMML(scaling="none").to_bytes()


def test_a_refused_fit_leaves_the_model_as_it_was():
    model = quick().fit(X, Y)
    before = model.to_bytes()
    for arguments, message in BAD_ARGUMENTS.values():
        with pytest.raises(ValueError, match=re.escape(message)):
            model.fit(*arguments)
    assert model.to_bytes() == before


@for_each("kind", [np.bool_, np.int8, np.int64, np.float32])
def test_labels_may_be_of_any_type(kind):
    expected = quick(optimise="none").fit(X, Y, HALF).decision_function(X)
    labels = Y.astype(kind)
    for given in (labels, labels.tolist(), sp.csr_array(labels), sp.coo_array(labels)):
        np.testing.assert_array_equal(quick(optimise="none").fit(X, given, HALF).decision_function(X), expected)


EMPTY = [None, "?", "", np.nan, -1, "ab", [1, 2, 3], object()]


@for_each("empty", EMPTY)
def test_labels_of_unlabelled_rows_are_ignored(empty):
    expected = quick(optimise="none").fit(X, Y, HALF).to_bytes()
    held = [row if known else [empty, empty] for row, known in zip(Y.tolist(), HALF, strict=True)]
    whole = [row if known else empty for row, known in zip(Y.tolist(), HALF, strict=True)]
    objects = Y.astype(object)
    for row in np.flatnonzero(~HALF):
        for label in range(2):
            objects[row, label] = empty
    for given in (held, tuple(whole), objects, Frame(objects, [0, 1])):
        assert quick(optimise="none").fit(X, given, HALF).to_bytes() == expected
    assert quick().fit(X, objects, HALF).to_bytes() == quick().fit(X, Y, HALF).to_bytes(), "thresholds, too"


@for_each(
    ("empty", "message"),
    [
        (None, "Y must contain only 0 and 1, but its type is object"),
        ("1", "Y must contain only 0 and 1, but its type is <U"),
        (2, "Y must contain only 0 and 1, not 2"),
        (np.nan, "Y must contain only 0 and 1, not nan"),
        ([0, 1], "Unknown label type: Y must "),
    ],
)
def test_labels_of_labelled_rows_are_validated(empty, message):
    objects = Y.astype(object)
    objects[3, 1] = empty
    for given in (objects, objects.tolist()):
        with pytest.raises(ValueError, match=re.escape(message)):
            quick().fit(X, given, HALF)


def test_views_may_be_of_any_type():
    whole = {"a": np.round(10 * X["a"]), "b": X["b"]}
    expected = quick().fit(whole, Y).decision_function(whole)
    for kind in (np.int64, np.float32):
        given = whole | {"a": whole["a"].astype(kind)}
        np.testing.assert_array_equal(quick().fit(given, Y).decision_function(given), expected)
    given = {"a": whole["a"].tolist(), "b": Frame(whole["b"], "xyz")}
    np.testing.assert_array_equal(quick().fit(given, Y).decision_function(given), expected)
    given = whole | {"a": np.asfortranarray(whole["a"])}
    np.testing.assert_array_equal(quick().fit(given, Y).decision_function(given), expected)
