"""FALT started from a batch model: its scores at first, and learning from there on."""

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core import FALT
from manylabel_core.batch import M3L, MLRL, SSMLRL, PrBR, PrML


def data(n_samples: int = 300, n_features: int = 8, n_labels: int = 4, seed: int = 0):
    """Rows of unit norm whose labels all lean to one side, so that intercepts matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    W = np.random.default_rng(99).normal(size=(n_features, n_labels))
    return X, (X @ W - 0.5 > 0).astype(np.int8)


@pytest.mark.parametrize(
    "learner",
    [
        M3L(C=10.0, scaling="none"),
        MLRL(lam=1e-3, scaling="none"),
        SSMLRL(lam1=1e-3, scaling="none"),
        PrML(C=1.0, rho=1.0, scaling="none"),
        PrBR(scaling="none"),
    ],
)
@pytest.mark.parametrize("scaling", ["none", "unit"])
def test_it_scores_as_the_batch_model_does(learner, scaling):
    X, Y = data()
    model = learner.fit(X, Y)
    assert np.abs(model.intercept_).max() > 0.1
    started = FALT.from_linear(model, scaling=scaling, dtype="float64", intercept_scaling=0.7)
    np.testing.assert_allclose(started.decision_function(X), model.decision_function(X), atol=1e-12)
    assert not started.scores(X)[1].any()
    np.testing.assert_array_equal(FALT.from_linear(model).predict(X), model.predict(X))


def test_the_threshold_learns_too():
    X, Y = data()
    started = FALT.from_linear(M3L(scaling="none").fit(X, Y), step="adaptive")
    started.partial_fit(X, np.ones_like(Y))
    assert started.scores(X)[1].mean() < -0.1


@for_each("step", list(FALT.steps))
@for_each("settings", [{"calibrate": False}, *({"optimise": m} for m in ("none", "macro_f1", "hamming"))])
def test_every_step_and_measure_starts_from_the_scores_of_the_batch_model(step, settings):
    X, Y = data()
    model = M3L(C=10.0, scaling="none").fit(X, Y)
    started = FALT.from_linear(model, step=step, dtype="float64", **settings)
    np.testing.assert_allclose(started.decision_function(X), model.decision_function(X), atol=1e-12)


def test_the_batch_model_is_left_as_it_was():
    X, Y = data()
    model = M3L(scaling="none").fit(X, Y)
    coef = model.coef_.copy()
    FALT.from_linear(model, dtype="float64").partial_fit(X, 1 - Y)
    np.testing.assert_array_equal(model.coef_, coef)


class Shaped:
    def __init__(self, coef, intercept):
        self.coef_, self.intercept_ = np.asarray(coef), np.asarray(intercept)


X, Y = data(30)


@for_each(
    ("model", "parameters", "message"),
    [
        (M3L(scaling="none"), {}, "model must be fitted and linear"),
        (M3L(kernel="rbf", scaling="none").fit(X, Y), {}, "model must be fitted and linear"),
        (Shaped([1.0, 2.0], [1.0]), {}, r"model must have coef_ of shape .* not \(2,\) and \(1,\)"),
        (Shaped([[1.0, 2.0]], [1.0, 2.0]), {}, "model must have coef_ of shape"),
        (Shaped([[1.0, np.nan]], [1.0]), {}, "model must have finite weights"),
        (Shaped([[1.0, 2.0]], [1.0]), {"scaling": "auto"}, "scaling must be 'none' or 'unit'"),
        (Shaped([[1.0, 2.0]], [1.0]), {"fit_intercept": False}, "fit_intercept must be True: the model has intercepts"),
        (Shaped([[1.0, 2.0]], [1.0]), {"eta": 0}, "eta must be"),
    ],
)
def test_invalid_batch_models_are_refused_by_name(model, parameters, message):
    with pytest.raises(ValueError, match=message):
        FALT.from_linear(model, **parameters)


def test_a_model_without_intercepts_needs_no_constant_feature():
    model = M3L(fit_intercept=False, optimise="none", scaling="none").fit(X, Y)
    started = FALT.from_linear(model, fit_intercept=False)
    np.testing.assert_array_equal(started.predict(X), model.predict(X))
