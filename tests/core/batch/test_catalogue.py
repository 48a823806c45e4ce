"""The catalogue of trainers says what the estimators are."""

import inspect
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from tests.core.batch.support import LEARNERS

from manylabel_core import batch, metrics, priors
from manylabel_core.batch.catalogue import TRAINERS, arguments
from manylabel_core.metrics.measures import MEASURES, REPORTED
from manylabel_core.parameters import Choice, Flag, Number

NOT_CHOSEN = {"warm_start", "random_state", "n_threads", "cache_mb"}
"""Parameters of the caller, and a start to which the end is the same."""


def test_every_learner_is_listed_once():
    assert sorted(trainer.estimator for trainer in TRAINERS.values()) == sorted(batch.__all__)


def test_every_learner_is_in_the_contract_suite():
    assert {name: make.__name__ for name, (make, _) in LEARNERS.items()} == {
        name: trainer.estimator for name, trainer in TRAINERS.items()
    }


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=lambda trainer: trainer.name)
def test_parameters_are_those_of_the_estimator(trainer):
    known = {
        name: parameter.default for name, parameter in inspect.signature(trainer.estimator_class()).parameters.items()
    }
    assert known["scaling"] == "auto"
    assert {parameter.name: parameter.default for parameter in trainer.parameters} == {
        name: default for name, default in known.items() if name not in NOT_CHOSEN
    }
    fit = inspect.signature(trainer.estimator_class().fit).parameters
    assert trainer.unlabelled == bool({"X_unlabelled", "labelled"} & set(fit))
    assert trainer.views == ("missing" in fit)


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=lambda trainer: trainer.name)
def test_weights_are_accepted_as_declared(trainer):
    X = np.random.default_rng(0).normal(size=(20, 3))
    Y = (X[:, :2] > 0).astype(int)
    learner = trainer.estimator_class()(optimise="none")
    given = {"a": X, "b": X} if trainer.views else X
    with nullcontext() if trainer.weights else pytest.raises(ValueError, match="sample_weight must be None"):
        learner.fit(given, Y, sample_weight=np.full(20, 2.0))


def at_the_bounds(kind):
    """Values that are just allowed."""
    if isinstance(kind, Choice):
        return list(kind.words)
    if isinstance(kind, Flag):
        return [True, False]
    if not isinstance(kind, Number):
        return []
    if kind.integer:
        return [int(kind.least), int(kind.most)]
    low = kind.least if kind.above is None else np.nextafter(kind.above, np.inf) if kind.above else 1e-9
    return [low, kind.most if kind.below is None else np.nextafter(kind.below, 0)]


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=lambda trainer: trainer.name)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_accept_the_bounds_of_their_parameters(trainer):
    """Other errors are allowed: data of three features cannot have a representation of 10,000 components."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(12, 3)), rng.integers(0, 2, (12, 2))
    X = {"a": X, "b": X + 1.0} if trainer.views else X
    refused = []
    for parameter in trainer.parameters:
        for value in (value for kind in parameter.kinds for value in at_the_bounds(kind)):
            quick = {"max_iter": 1, "optimise": "none"} if parameter.name != "max_iter" else {"tol": 0.9}
            try:
                trainer.estimator_class()(**arguments({**quick, parameter.name: value}, sp.csr_array(Y))).fit(X, Y)
            except ValueError as error:
                refused.append((parameter.name, value, str(error)))
    assert [name for name, _, why in refused if why.startswith(f"{name} must")] == ["n_components"] * trainer.views


def test_arguments_convert_priors():
    Y = sp.csr_array(np.eye(3, dtype=np.int8))
    assert arguments({"rho": 2.0, "R": None}, Y) == {"rho": 2.0, "R": None}
    np.testing.assert_array_equal(arguments({"R": [[1, 0], [0, 2]]}, Y)["R"], np.diag([1.0, 2.0]))
    np.testing.assert_array_equal(arguments({"R": "label_correlation"}, Y)["R"].R, priors.label_correlation(Y).R)


def test_every_measure_is_listed_and_knows_which_way_is_better():
    functions = {name.removesuffix(f"_{measure.depth}") for name, measure in MEASURES.items()}
    assert {*functions, "Prequential"} == set(metrics.__all__)
    assert [name for name in MEASURES if name not in REPORTED] == ["f1"]
    Y = np.tile([[1, 0, 1], [0, 1, 0], [1, 1, 0]], (1, 40))  # more labels than the deepest measure looks at
    right, wrong = 2.0 * Y - 1, 1 - 2.0 * Y
    for measure in MEASURES.values():
        assert measure.is_better(measure(Y, right), measure(Y, wrong)), measure.name
        depth = {} if measure.depth is None else {"k": measure.depth}
        function = getattr(metrics, measure.name.removesuffix(f"_{measure.depth}"))
        assert measure(Y, right) == function(Y, right if measure.of_scores else Y, **depth)
