"""The in-process estimators: the same bits as core, and the inputs of river's users."""

import copy
import inspect
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from river import compose, datasets, evaluate, metrics, preprocessing
from tests.support.cases import for_each

import manylabel_core as core
from manylabel_clients import river
from manylabel_clients.river import FALT, estimators
from manylabel_clients.river.online_classifier import OnlineClassifier
from manylabel_core import online
from manylabel_service.online.spec.params import PARAMS

ESTIMATORS = [getattr(river, name) for name in online.__all__]


def through_pickle(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - bytes of our own


def test_every_learner_of_core_is_an_estimator_here_and_an_algorithm_of_the_service() -> None:
    """A learner that is added to core and forgotten elsewhere fails here."""
    assert {one.__name__ for one in vars(estimators).values() if is_estimator(one)} == set(online.__all__)
    assert set(online.__all__) <= set(river.__all__)
    assert {params._learner.__name__ for params in PARAMS.values()} == set(online.__all__)
    for params in PARAMS.values():
        estimator = getattr(river, params._learner.__name__)
        # Scaling and missing values belong to the spec of a model; the dtype cannot be chosen in a service.
        assert {*params.model_fields, "scaling", "missing", "dtype", "text"} == inspect.signature(
            estimator
        ).parameters.keys()


def is_estimator(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, OnlineClassifier) and one is not OnlineClassifier


@for_each("estimator", ESTIMATORS)
def test_parameters_are_those_of_core(estimator: type[FALT]) -> None:
    there = getattr(core, estimator.__name__)
    parameters = inspect.signature(estimator).parameters
    assert [(p.name, p.default) for p in parameters.values()] == [
        *((p.name, p.default) for p in inspect.signature(there).parameters.values()),
        ("text", None),  # core accepts features only
    ]
    values = {"C": 0.75, "eta": 0.75, "passes": 3, "scaling": "unit", "drift": "adwin"}
    other = {name: value for name, value in values.items() if name in parameters}
    assert estimator(**other)._learner.get_params() == there(**other).get_params()
    assert estimator().clone(other)._get_params() == {**there(**other).get_params(), "text": None}


@for_each("estimator", ESTIMATORS)
@for_each("scaling", ["none", "unit"])
def test_same_bits_as_core(estimator: type[FALT], scaling: str) -> None:
    """Labels are partial: those that are not in y are masked."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 5)).round(1).astype(np.float32)  # some are 0
    Y, known = rng.random((60, 4)) < 0.4, rng.random((60, 4)) < 0.7
    known[0] = True
    model = estimator(scaling=scaling)
    learner = getattr(core, estimator.__name__)(scaling=scaling)
    for x, y, mask in zip(X, Y, known, strict=True):
        features = {("column", i): value for i, value in enumerate(x)}
        if model._encoder.features:
            scores = learner.decision_function(x[None])[0]
            assert list(model.predict_one(features).values()) == (scores > 0).tolist()
            probabilities = model.predict_proba_one(features)
            assert [p[True] for p in probabilities.values()] == learner.predict_proba(x[None])[0].tolist()
        model.learn_one(features, {i: bool(y[i]) for i in range(4) if mask[i]})
        learner.partial_fit(x[None], y[None].astype(np.int8), known=mask[None])
    state, expected = model._learner.state(), learner.state()
    assert state.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(state[name], array, err_msg=name)


def test_rows_are_in_the_form_of_core() -> None:
    """Columns ascending whatever the order of the dict, zeros stored, None left out; unknown features at the end."""
    model = FALT()
    for x in ({"a": 1, "b": 2}, {"c": 3, "b": 0, "a": 4}, {"d": 1e-60, "c": 5, "b": None, "z": None}):
        rows, _ = model._encoder.arrays(model._encoder.read([(x, {"rock": True})]))
        known = {name: np.float32(value) for name, value in x.items() if value is not None}
        columns = sorted((model._encoder.features[name], value) for name, value in known.items())
        assert list(zip(rows.indices.tolist(), rows.values.tolist(), strict=True)) == columns
        assert (rows.indices.dtype, rows.values.dtype, rows.indptr.tolist()) == (np.int32, np.float32, [0, len(known)])
    rows = model._encoder.rows([{"new": 7, "c": 5, "b": 0, "a": 1, "d": None}])
    assert (rows.indices.tolist(), rows.values.tolist()) == ([0, 1, 2, 4], [1, 0, 5, 7])


@for_each("estimator", ESTIMATORS)
def test_features_and_labels_may_appear_at_any_time(estimator: type[FALT]) -> None:
    model = estimator()
    assert model.predict_one({"a": 1}) == {}
    for _ in range(20):
        model.learn_one({"a": 1}, {"rock": True, "jazz": False})
    assert model.predict_one({"a": 1}) == {"rock": True, "jazz": False}
    assert model.predict_one({"a": 1, "never met": 0.5}).keys() == {"rock", "jazz"}
    for _ in range(20):
        model.learn_one({"b": 1}, {"folk": True, "rock": False})
    assert list(model.predict_one({"a": 1})) == ["rock", "jazz", "folk"]
    assert model.predict_one({"b": 1}) == {"rock": False, "jazz": False, "folk": True}
    assert len(model._encoder.features) == 2, "predicting must not give columns"


def test_keys_come_back_as_they_were_given() -> None:
    model = FALT()
    model.learn_one({0: 1.0, ("x", 1): 2.0, None: 1.0}, {1: True, "1": False, (2, 3): True})
    prediction = model.predict_one({0: 1.0})
    assert list(prediction) == [1, "1", (2, 3)]
    assert isinstance(prediction, dict)


def test_an_unknown_label_is_false_and_not_in_the_prediction() -> None:
    model = FALT()
    model.learn_one({"a": 1}, {"rock": True, "pop": False})
    prediction = model.predict_one({"a": 1})
    assert prediction["folk"] is False
    assert "folk" not in prediction
    assert len(prediction) == 2
    assert through_pickle(prediction)["folk"] is False


@pytest.mark.parametrize(
    "same",
    [
        {"a": 1, "b": 0, "c": 2},
        {"a": True, "b": False, "c": 2.0},
        {"c": np.float32(2), "a": np.int8(1), "b": 0},
        {"a": np.bool_(True), "b": np.bool_(False), "c": np.float64(2), "d": None},
        {"a": Decimal("1"), "c": 2, "b": -0.0},
    ],
)
def test_numbers_of_every_kind(same: dict[str, Any]) -> None:
    reference, model = FALT(), FALT()
    for target in (reference, model):
        target.learn_one({"a": 1.0, "b": 0.0, "c": 2.0}, {"rock": True, "pop": False})
    reference.learn_one({"a": 1.0, "b": 0.0, "c": 2.0}, {"rock": False, "pop": True})
    model.learn_one(same, {"rock": np.bool_(False), "pop": 1})
    assert pickle.dumps(model) == pickle.dumps(reference)


@for_each(
    ("x", "y", "error", "message"),
    [
        ({"a": b"rock"}, {}, TypeError, "feature 'a' is b'rock': must be a number, a bool, a string, or a list"),
        ({1: 1, "genre": "rock"}, {}, ValueError, "1 must have a string as its name"),
        ({"a": 1j}, {}, TypeError, "feature 'a' is 1j"),
        ({"a": [1.0, None], "b": 1}, {}, ValueError, r"a.1 must be a finite number"),
        ({"a": ["x"], "b": [2.0, "x"]}, {}, ValueError, r"b.1 must be a finite number"),
        ({"b": 1, "a": math.nan}, {}, ValueError, "feature 'a' is nan: must be finite"),
        ({"a": -math.inf}, {}, ValueError, "feature 'a' is -inf: must be finite"),
        ({"a": 1e300}, {}, ValueError, "feature 'a' is 1e.300: must be finite and at most 1e"),
        ({"a": 10**400}, {}, ValueError, "feature 'a' is 10+: must be finite and at most 1e"),
        ({"a": 1e39}, {}, ValueError, "feature 'a' is 1e.39: must be finite and at most 1e"),
        ({"a": 1}, {"rock": "yes"}, TypeError, "label 'rock' is 'yes': must be True or False"),
        ({"a": 1}, {"rock": True, "pop": 2}, TypeError, "label 'pop' is 2: must be True or False"),
        ({"a": 1}, {"rock": None}, TypeError, "label 'rock' is None"),
        ({"a": 1}, {"rock": math.nan}, TypeError, "label 'rock' is nan"),
        ({"a": 1}, ["rock"], TypeError, "y must be a dict of labels and bools, not list"),
    ],
)
def test_an_invalid_example_changes_nothing(x: Any, y: Any, error: type[Exception], message: str) -> None:
    model = FALT()
    model.learn_one({"z": 1.0}, {"folk": True})
    before = pickle.dumps(model)
    with pytest.raises(error, match=message):
        model.learn_one(x, y)
    if not y:
        with pytest.raises(error, match=message):
            model.predict_one(x)
    assert pickle.dumps(model) == before


def test_an_example_may_have_no_labels_and_no_features() -> None:
    model = FALT(scaling="unit")
    model.learn_one({}, {})
    assert model.predict_one({}) == {}
    model.learn_one({}, {"rock": True, "pop": False})
    assert model.predict_one({"a": 1}).keys() == {"rock", "pop"}


def test_a_score_equal_to_the_threshold_predicts_nothing() -> None:
    model = FALT(fit_intercept=False, step="gradient", passes=1, calibrate=False)
    model.learn_one({"a": 1}, {"rock": True})
    assert model.predict_one({"a": 1}) == {"rock": True}
    assert model.predict_one({"b": 1}) == {"rock": False}


@for_each("estimator", ESTIMATORS)
@for_each("duplicate", [copy.deepcopy, through_pickle])
def test_a_copy_continues_as_the_original(estimator: type[FALT], duplicate: Callable[[Any], Any]) -> None:
    rows = list(datasets.Yeast().take(60))
    model = estimator()
    for x, y in rows[:30]:
        model.learn_one(x, y)
    other = duplicate(model)
    for x, y in rows[30:]:
        assert other.predict_one(x) == model.predict_one(x)
        other.learn_one(x, y)
        model.learn_one(x, y)
    for name, array in model._learner.state().items():
        np.testing.assert_array_equal(other._learner.state()[name], array, err_msg=name)


METRICS = [
    metrics.multioutput.MicroAverage(metrics.F1()),
    metrics.multioutput.MacroAverage(metrics.Jaccard()),
    metrics.multioutput.SampleAverage(metrics.F1()),
    metrics.multioutput.ExactMatch(),
]


@for_each("metric", METRICS, ids=lambda metric: type(metric).__name__)
def test_pipelines_and_metrics(metric: Any) -> None:
    found, expected = copy.deepcopy(metric), copy.deepcopy(metric)
    pipeline = compose.Pipeline(preprocessing.StandardScaler(), FALT(scaling="unit", optimise="none"))
    evaluate.progressive_val_score(datasets.Yeast().take(150), pipeline, found)

    scaler, model = preprocessing.StandardScaler(), FALT(scaling="unit", optimise="none")
    for x, y in datasets.Yeast().take(150):
        prediction = model.predict_one(scaler.transform_one(x))
        if prediction:  # river does not measure what is predicted before the first label
            expected.update(y, prediction)
        scaler.learn_one(x)
        model.learn_one(scaler.transform_one(x), y)
    assert found.get() == expected.get() > 0


def test_metrics_survive_labels_that_appear_later() -> None:
    rows = [({"a": 1}, {"rock": True}), ({"a": 1}, {"rock": True, "folk": True}), ({"a": 1}, {"folk": False})]
    metric = metrics.multioutput.MicroAverage(metrics.Recall())
    evaluate.progressive_val_score(rows, FALT(), metric)
    # "folk", one of the two relevant labels after the first row, could not be predicted.
    assert metric.get() <= 0.5


def test_probabilities_are_dicts_that_river_measures() -> None:
    model, metric = FALT(), metrics.multioutput.MicroAverage(metrics.LogLoss())
    assert model.predict_proba_one({"a": 1}) == {}
    rows = list(datasets.Yeast().take(80))
    for x, y in rows:
        model.learn_one(x, y)
    for x, y in rows:
        probabilities = model.predict_proba_one(x)
        assert all(p == {False: 1 - p[True], True: p[True]} for p in probabilities.values())
        metric.update(y, probabilities)
    assert metric.get() < math.log(2)
    assert probabilities["never met"] == {False: 1.0, True: 0.0}
    assert "never met" not in probabilities


def test_without_calibration_there_are_no_probabilities() -> None:
    with pytest.raises(NotImplementedError, match="calibrate"):
        FALT(calibrate=False).predict_proba_one({"a": 1})


def test_drift_is_detected_when_it_is_watched() -> None:
    rng = np.random.default_rng(3)
    watching, blind = FALT(drift="adwin"), FALT()
    sounded = []
    for n in range(600):
        signal, chance = rng.integers(0, 2, 2).astype(bool).tolist(), rng.integers(0, 2, 2).astype(bool).tolist()
        y = dict(zip(("first", "second"), signal if n < 300 else chance, strict=True))
        for model in (watching, blind):
            model.learn_one({"a": signal[0], "b": signal[1]}, y)
        if watching.drift_detected:
            sounded.append(n)
    assert sounded
    assert all(n >= 300 for n in sounded)
    assert watching.n_drifts_detected >= len(sounded)
    assert (blind.drift_detected, blind.n_drifts_detected) == (False, 0)
    assert through_pickle(watching).n_drifts_detected == watching.n_drifts_detected
