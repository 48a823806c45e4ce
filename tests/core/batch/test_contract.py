"""Contract of every batch trainer, checked learner by learner; `test_segments` has stopping and resuming."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tests.core.batch.support import LEARNERS, given, learner, related

X, Y = related(60, 6, 3, own=1.0, noise=1.0)
EVERY = pytest.mark.parametrize("name", LEARNERS)
pytestmark = pytest.mark.filterwarnings("ignore:not converged")


class Frame:
    """A data frame, as far as a learner looks at it."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def attributes(model) -> dict[str, bytes]:
    """Return what a fit has left, as bytes."""
    return {name: np.asarray(value).tobytes() for name, value in vars(model).items() if name.endswith("_")}


@EVERY
def test_the_same_fit_gives_the_same_bits_and_changes_no_input(name):
    examples, labels = X.copy(), Y.copy()
    views = given(name, examples)
    model = learner(name).fit(views, labels)
    np.testing.assert_array_equal(examples, X)
    np.testing.assert_array_equal(labels, Y)
    examples.flags.writeable = labels.flags.writeable = False
    assert clone(model).fit(given(name, examples), labels).to_bytes() == model.to_bytes()


@EVERY
def test_bytes_restore_the_model(name):
    model = learner(name).set_params(random_state=7, warm_start=True)
    model.fit(given(name, X), Y, label_names=["däs", "", "c" * 300])
    back = type(model).from_bytes(model.to_bytes())
    assert back.to_bytes() == model.to_bytes()
    assert back.get_params() == model.get_params()
    assert vars(back).keys() == vars(model).keys()
    assert [*back.label_names_] == ["däs", "", "c" * 300]
    np.testing.assert_array_equal(back.decision_function(given(name, X)), model.decision_function(given(name, X)))


@EVERY
def test_label_names_are_those_of_the_last_fit(name):
    model = learner(name).set_params(max_iter=2).fit(given(name, X), Frame(Y, ["a", "b", "c"]))
    assert [*model.label_names_] == ["a", "b", "c"]
    model.fit(given(name, X), Frame(Y, ["a", "b", "c"]), label_names=["d", "e", "f"])
    assert [*model.label_names_] == ["d", "e", "f"]
    assert not hasattr(model.fit(given(name, X), Frame(Y, [0, 1, 2])), "label_names_")


@EVERY
def test_labels_of_one_class_are_predicted_as_that_class(name):
    labels = Y.copy()
    labels[:, 0], labels[:, 2] = 0, 1
    predicted = learner(name).fit(given(name, X), labels).predict(given(name, X))
    assert not predicted[:, 0].any()
    assert predicted[:, 2].all()


@EVERY
def test_sparse_and_dense_rows_give_the_same_model(name):
    thin = np.where(np.abs(X) < 0.4, 0.0, X)
    thin[5] = 0.0  # an empty row
    model = learner(name)
    if name != "lsa_mml":  # lsa_mml takes the same steps with both, and has no proven optimum
        model.set_params(max_iter=10_000)
    dense = clone(model).fit(given(name, thin), Y).decision_function(given(name, thin))
    sparse = model.fit(given(name, thin, sp.csr_array), sp.csc_array(Y))
    np.testing.assert_allclose(sparse.decision_function(given(name, thin, sp.csr_array)), dense, atol=2e-3)
    np.testing.assert_allclose(sparse.decision_function(given(name, thin)), dense, atol=2e-3)


@pytest.mark.parametrize("name", ["prml", "prbr", "lsa_mml"])  # the other solvers restart the order of their visits
def test_a_warm_start_leaves_a_converged_model_unchanged(name):
    model = learner(name).set_params(warm_start=True, tol=1e-4, max_iter=3000).fit(given(name, X), Y)
    converged = attributes(model)
    assert attributes(model.fit(given(name, X), Y)) == converged


@EVERY
def test_a_warm_start_with_other_shapes_is_a_new_fit(name):
    model = learner(name).set_params(warm_start=True).fit(given(name, X), Y)
    model.fit(given(name, X[:50]), Y[:50, :2])
    anew = learner(name).set_params(warm_start=True).fit(given(name, X[:50]), Y[:50, :2])
    assert attributes(model) == attributes(anew)


PRICES = {"m3l": "C", "mlrl": "lam", "ssmlrl": "lam1", "prml": "C", "prbr": "C", "lsa_mml": "beta"}
"""A parameter of each learner that changes the optimum."""


def objective(model) -> float:
    found = [getattr(model, name, None) for name in ("primal_objective_", "objective_", "objective_trace_")]
    return float(np.ravel(next(value for value in found if value is not None))[-1])


@pytest.mark.parametrize("change", ["a higher price", "a lower price", "rows", "labels", "a label of one class"])
@EVERY
def test_a_warm_start_after_a_change_reaches_the_objective_of_a_new_fit(name, change):
    model = learner(name).set_params(warm_start=True, tol=1e-4, max_iter=3000).fit(given(name, X), Y)
    rows = X[::-1] if change == "rows" else X
    labels = Y[::-1] if change == "labels" else Y * [0, 1, 1] if change == "a label of one class" else Y
    if change.endswith("price"):
        factor = 5.0 if "higher" in change else 0.2
        model.set_params(**{PRICES[name]: factor * getattr(model, PRICES[name])})
    expected = objective(clone(model).set_params(warm_start=False).fit(given(name, rows), labels))
    near = {"prml": 2e-2, "lsa_mml": 3e-2}.get(name, 2e-3)
    assert objective(model.fit(given(name, rows), labels)) == pytest.approx(expected, rel=near)


@EVERY
def test_too_few_iterations_are_a_warning(name):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        learner(name).set_params(max_iter=1).fit(given(name, X), Y)


@EVERY
def test_progress_counts_iterations_up_to_the_last(name):
    told = []
    model = learner(name).fit(given(name, X), Y, progress=lambda now: told.append(now) and None)
    iterations = [now.iteration for now in told]
    assert iterations == sorted(iterations)
    assert iterations[-1] <= model.n_iter_
    stopped = learner(name)
    stopped.fit(given(name, X), Y, progress=lambda now: now.iteration >= 1)
    assert stopped.n_iter_ < model.n_iter_
    assert np.isfinite(stopped.decision_function(given(name, X))).all()
