"""The scikit-learn face of the online learners, and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT, KernelPassiveAggressive, KernelSALT, PassiveAggressive
from manylabel_core.rows import Rows, Targets

THRESHOLDING = [FALT, SALT, KernelFALT, KernelSALT]
ALL = [*THRESHOLDING, PassiveAggressive, KernelPassiveAggressive]
X = np.random.default_rng(0).normal(size=(40, 5))
Y = (X[:, :3] > 0).astype(int)


@for_each("make", ALL)
def test_parameters_are_kept_and_cloned(make: type[FALT]) -> None:
    model = make(intercept_scaling=0.25, scaling="unit").partial_fit(X, Y)
    assert model.get_params()["intercept_scaling"] == 0.25
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(X)
    assert "intercept_scaling=0.25" in repr(model)


@for_each("make", ALL)
def test_learners_follow_the_conventions_of_scikit_learn(make: type[FALT]) -> None:
    model = make().set_params(drift="adwin", scaling="unit")
    assert repr(model) == f"{make.__name__}(drift='adwin', scaling='unit')"
    with pytest.raises(ValueError, match=f"{make.__name__} has no parameter 'sclaing'; it has .*, scaling"):
        model.set_params(drift=None, sclaing="none")
    assert model.drift == "adwin"
    assert get_tags(model) == get_tags(BaseEstimator())
    pipe = make_pipeline(FunctionTransformer(), model)
    assert clone(pipe).set_params(**{f"{make.__name__.lower()}__drift": None})[-1].get_params()["drift"] is None


@for_each("make", ALL)
def test_shapes_and_types_of_predictions(make: type[FALT]) -> None:
    model = make().partial_fit(X, Y)
    labels, thresholds = model.scores(X[:7])
    assert (labels.shape, thresholds.shape) == ((7, 3), (7,))
    decision = model.decision_function(X[:7])
    np.testing.assert_array_equal(decision, labels - thresholds[:, None])
    predicted = model.predict(sp.csr_array(X[:7]))
    assert (predicted.dtype, predicted.shape) == (np.uint8, (7, 3))
    np.testing.assert_array_equal(predicted, decision > 0)
    assert (model.n_features_, model.n_labels_) == (5, 3)


@for_each("make", ALL)
def test_an_unfitted_learner_cannot_predict(make: type[FALT]) -> None:
    for method in ("predict", "decision_function", "scores"):
        with pytest.raises(NotFittedError, match=f"this {make.__name__} has not learnt anything yet"):
            getattr(make(), method)(X)


@for_each("make", ALL)
def test_more_columns_are_growth_and_fewer_an_error(make: type[FALT]) -> None:
    model = make().partial_fit(X[:, :3], Y[:, :2]).partial_fit(X, Y)
    assert (model.n_features_, model.n_labels_) == (5, 3)
    before = model.state()
    with pytest.raises(ValueError, match="X must have at least the 5 columns seen before, not 4"):
        model.partial_fit(X[:, :4], Y)
    with pytest.raises(ValueError, match="Y must have at least the 3 columns seen before, not 2"):
        model.partial_fit(np.hstack([X, X]), Y[:, :2])
    with pytest.raises(ValueError, match="X must have at least the 5 columns seen before, not 4"):
        model.predict(X[:, :4])
    assert model.n_features_ == 5, "a refused call makes no room"
    assert_unchanged(model, before)
    assert model.predict(np.hstack([X, X])).shape == (40, 3), "features never learnt are no obstacle"


def assert_unchanged(model: FALT, before: dict[str, Any]) -> None:
    for name, array in model.state().items():
        np.testing.assert_array_equal(array, before[name])


@for_each("make", ALL)
@for_each(
    ("bad", "message"),
    [
        ({"X": np.full((2, 5), -np.inf)}, r"X\[0, 0\] is -inf: values must be finite"),
        ({"X": np.full((2, 5), np.inf)}, r"X\[0, 0\] is inf: values must be finite"),
        ({"X": np.full((2, 5), 1e16)}, r"X\[0, 0\] is 1e\+16: values must be finite and at most 1e\+15"),
        ({"X": X[0]}, "X must be 2-D"),
        ({"X": X[:3]}, "Y must have 3 rows, like X, not 2"),
        ({"Y": Y[:2] * 2}, "Y must contain only 0 and 1"),
        ({"Y": Y[0]}, "Y must be 2-D"),
        ({"known": np.ones((2, 4))}, r"known must have the shape of Y, \(2, 3\), not \(2, 4\)"),
        ({"known": np.full((2, 3), 0.5)}, "known must contain only 0 and 1"),
    ],
)
def test_bad_arguments_are_named_and_change_nothing(make: type[FALT], bad: dict[str, Any], message: str) -> None:
    model = make().partial_fit(X, Y)
    before = model.state()
    with pytest.raises(ValueError, match=message):
        model.partial_fit(**{"X": X[:2], "Y": Y[:2], **bad})
    assert_unchanged(model, before)


BAD_PARAMETERS: list[tuple[type, dict[str, Any], str]] = [
    *(
        (make, {name: value}, f"{name} must be a number above 0 and at most 1048576, not ")
        for make, names in (
            (FALT, ["eta", "intercept_scaling"]),
            (SALT, ["eta", "delta"]),
            (KernelFALT, ["eta", "gamma"]),
            (PassiveAggressive, ["C"]),
            (KernelPassiveAggressive, ["C", "gamma"]),
        )
        for name in names
        for value in (0, 2.0**21)
    ),
    *(
        (make, parameters, message)
        for make in THRESHOLDING
        for parameters, message in (
            ({"step": "newton"}, "step must be one of .*'implicit', 'gradient'.*, not 'newton'"),
            ({"step": "implicit", "passes": 3}, "passes must be None with step='implicit'"),
        )
    ),
    *(
        (make, parameters, message)
        for make in ALL
        for parameters, message in (
            ({"scaling": "minmax"}, "scaling must be one of 'auto', 'none', 'unit', not 'minmax'"),
            ({"dtype": "float16"}, "dtype must be one of 'float32', 'float64', not 'float16'"),
            ({"fit_intercept": "yes"}, "fit_intercept must be True or False, not 'yes'"),
            ({"drift": "ddm"}, "drift must be one of 'adwin', not 'ddm'"),
            ({"on_drift": "raise"}, "on_drift must be None without drift, not 'raise'"),
            ({"drift": "adwin", "on_drift": "forget"}, "on_drift must be one of 'raise', 'restart', not 'forget'"),
        )
    ),
    (SALT, {"step": "adaptive"}, "step must be one of .*'implicit', 'gradient'.*, not 'adaptive'"),
    *((FALT, {"passes": value}, "passes must be an integer from 1 to 100000") for value in (0, 100_001)),
    (PassiveAggressive, {"variant": "PA"}, "variant must be one of 'PA-I', 'PA-II', not 'PA'"),
    (KernelFALT, {"kernel": "sigmoid"}, "kernel must be one of 'rbf', 'linear', 'poly', not 'sigmoid'"),
    (KernelFALT, {"coef0": -1.0}, "coef0 must be a number from 0 to 1048576, not -1.0"),
    (KernelFALT, {"degree": 0}, "degree must be an integer from 1 to 10, not 0"),
    (KernelFALT, {"budget": 0}, "budget must be an integer from 1 to 4096, not 0"),
]
"""Bounds of each parameter; `test_parameters` has what is no number, no flag or no word."""


@for_each(("make", "parameters", "message"), BAD_PARAMETERS)
def test_bad_parameters_are_named_at_the_first_use(make: type, parameters: dict[str, Any], message: str) -> None:
    model = make(**parameters)
    with pytest.raises(ValueError, match=message):
        model.pipeline.grow(1, 1)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, Y)


def test_numpy_numbers_are_parameters_too() -> None:
    plain = KernelFALT(eta=0.5, passes=3, degree=3, budget=10).partial_fit(X, Y)
    numpy = KernelFALT(eta=np.float32(0.5), passes=np.int64(3), degree=np.int8(3), budget=np.int16(10))
    np.testing.assert_array_equal(numpy.partial_fit(X, Y).scores(X)[0], plain.scores(X)[0])


def test_parameters_may_be_changed_where_they_can() -> None:
    changed = SALT(eta=0.5, passes=1).partial_fit(X, Y)
    changed.set_params(eta=0.01, delta=3.0, passes=2).partial_fit(X, Y)
    other = SALT(eta=0.01, delta=3.0, passes=2)
    other.restore(SALT(eta=0.5, passes=1).partial_fit(X, Y).state())
    np.testing.assert_array_equal(changed.scores(X)[0], other.partial_fit(X, Y).scores(X)[0])
    with pytest.raises(ValueError, match=r"scaling, missing, calibrate, .* cannot be changed once a learner is in use"):
        changed.set_params(scaling="unit").partial_fit(X, Y)


ONE = Rows(np.array([0, 1]), np.array([0], np.int32), np.array([1.0], np.float32))
TRUE = Targets(np.array([0, 1]), np.array([0], np.int32), np.array([1], np.int8), np.array([True]), np.array([2]))
int32, int8 = np.int32, np.int8


@for_each(
    ("rows", "targets", "message"),
    [
        (
            ONE._replace(indices=np.array([3], int32)),
            TRUE,
            "feature columns of rows must be at least 0 and below the number of features",
        ),
        (ONE._replace(indices=np.array([-1], int32)), TRUE, "feature columns of rows must be"),
        (ONE._replace(indptr=np.array([0, 2])), TRUE, "indptr must ascend"),
        (ONE._replace(indptr=np.array([1, 1])), TRUE, "indptr must ascend"),
        (ONE._replace(indptr=np.array([0, 1, 1])), TRUE, "same number of examples"),
        (
            ONE._replace(indptr=np.array([0, 3, 1])),
            TRUE._replace(indptr=np.array([0, 1, 1])),
            "same number of examples",
        ),
        (ONE._replace(values=np.zeros(2, np.float32)), TRUE, "indptr must ascend from 0 to the number of"),
        (ONE, TRUE._replace(indptr=np.array([0, 0])), "indptr must ascend"),
        (
            ONE,
            TRUE._replace(indices=np.array([2], int32)),
            "label columns of targets must be at least 0 and below n_labels",
        ),
        (ONE, TRUE._replace(indices=np.array([-1], int32)), "label columns of targets must be"),
        (ONE, TRUE._replace(n_labels=np.array([4])), "n_labels of targets must be from 0 to the number of labels"),
        (ONE, TRUE._replace(n_labels=np.array([-1])), "n_labels of targets must be from 0 to the number of labels"),
        (ONE, TRUE._replace(signs=np.array([0], int8)), r"signs of targets must be \+1 or -1"),
        (ONE, TRUE._replace(signs=np.zeros(0, int8)), "indptr must ascend"),
    ],
)
def test_index_arrays_that_do_not_fit_are_refused(rows: Rows, targets: Targets, message: str) -> None:
    for make in ALL:
        model = make()
        model.pipeline.grow(3, 3)
        before = model.state()
        with pytest.raises(ValueError, match=message):
            model.pipeline.learn(rows, targets)
        assert_unchanged(model, before)


def test_arrays_of_a_state_must_fit_together() -> None:
    model = SALT().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"weights and squares must have the same shape"):
        model.restore({**model.state(), "squares": model.state()["squares"][1:]})
    kernel = KernelFALT().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"one row of 1 \+ n_labels numbers for each support vector"):
        kernel.restore({**kernel.state(), "coefficients": kernel.state()["coefficients"][1:]})


@for_each("make", ALL)
def test_learners_can_be_copied_by_pickling(make: type[FALT]) -> None:
    model = make().partial_fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301  our own bytes
    np.testing.assert_array_equal(copy.partial_fit(X, Y).scores(X)[0], model.partial_fit(X, Y).scores(X)[0])


@for_each("make", ALL)
def test_no_rows_and_no_labels(make: type[FALT]) -> None:
    model = make().partial_fit(np.zeros((0, 4)), np.zeros((0, 2)))
    assert model.partial_fit(X, Y).predict(np.zeros((0, 5))).shape == (0, 3)
    unlabelled = make().partial_fit(X, np.zeros((40, 0)))
    assert unlabelled.n_labels_ == 0
    assert unlabelled.partial_fit(X, Y).n_labels_ == 3


@pytest.mark.parametrize("learner", [FALT(), SALT(), KernelFALT()], ids=str)
def test_growth_that_finds_no_memory_changes_nothing(learner, monkeypatch):
    learner = clone(learner).partial_fit([[1.0, 2.0]], [[1, 0]])
    before = learner.state()

    def no_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(learner.pipeline.model), "reserve", no_memory)
        with pytest.raises(MemoryError):
            learner.pipeline.grow(10, 10)
    assert (learner.n_features_, learner.n_labels_) == (2, 2)
    learner.partial_fit([[1.0, 2.0, 3.0]], [[1, 0, 1]])
    assert (learner.n_features_, learner.n_labels_) == (3, 3)
    assert before.keys() == learner.state().keys()


def test_reserving_changes_no_state():
    one, other = (FALT().partial_fit([[1.0, 2.0]], [[1, 0]]) for _ in range(2))
    one.pipeline.reserve(1000, 50, touch=True)
    assert (one.n_features_, one.n_labels_, one.pipeline.nbytes) == (2, 2, other.pipeline.nbytes)
    for model in (one, other):
        model.partial_fit([[1.0, 0.0, 3.0]], [[1, 0, 1]])
    assert {k: v.tobytes() for k, v in one.state().items()} == {k: v.tobytes() for k, v in other.state().items()}
