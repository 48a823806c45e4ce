"""Batch learners to bytes and back: the same scores, bit for bit, and nothing else accepted."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.cases import for_each

from manylabel_core import priors
from manylabel_core.batch import M3L, MLRL, SSMLRL
from manylabel_core.batch.base.problem import Expansion
from manylabel_core.state import DamagedState, State


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    X[np.abs(X) < 0.3] = 0
    return X, (X @ rng.normal(size=(4, 3)) > 0).astype(int)


X, Y = data()
MODELS = {
    "linear": M3L(scaling="none", R=priors.category_attributes(Y[:2]), warm_start=True),
    "matrix": M3L(scaling="none", C=0.1, R=np.array([[2.0, 0.3, 0], [0.3, 1, 0], [0, 0, 1]]), random_state=None),
    "rbf": M3L(scaling="none", kernel="rbf", gamma=0.3),
    "mean distance": MLRL(scaling="none", kernel="rbf", warm_start=True, max_iter=2),
    "poly": MLRL(scaling="none", kernel="poly", gamma="scale", degree=2, coef0=1.0, max_iter=2),
    "relations": MLRL(scaling="none", lam=0.01, max_iter=2),
    "semi": SSMLRL(scaling="none", kernel="rbf", max_iter=2),
    "semi linear": SSMLRL(scaling="none", max_iter=2),
}


def equal(one, other) -> bool:
    if isinstance(one, priors.Prior):
        return one.eps == other.eps and equal(one.R, other.R)
    if sp.issparse(one):
        return (one != other).nnz == 0
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and one == other


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_bytes_restore_the_model(name, kind):
    examples = {"dense": X, "float32": X.astype(np.float32), "sparse": sp.csr_array(X)}[kind]
    model = MODELS[name].fit(examples, Y, label_names=["däs", "", "c" * 300])
    back = type(model).from_bytes(model.to_bytes())
    assert back.to_bytes() == model.to_bytes()
    np.testing.assert_array_equal(back.decision_function(examples), model.decision_function(examples))
    assert vars(back).keys() == vars(model).keys()
    for attribute, value in vars(model).items():
        assert equal(value, getattr(back, attribute)), attribute


def test_names_of_features_are_kept():
    model = M3L(scaling="none").fit(X, Y)
    model.feature_names_in_ = np.array(["a", "b", "c", "d"], dtype=object)
    assert list(M3L.from_bytes(model.to_bytes()).feature_names_in_) == ["a", "b", "c", "d"]


def test_a_model_without_support_comes_back():
    model = M3L(kernel="rbf", fit_intercept=False, optimise="none", scaling="none").fit(
        np.vstack([X] * 2), np.zeros((60, 3))
    )
    model._keep_model(Expansion(X, np.zeros((30, 3)), np.zeros(3)))
    back = M3L.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(back.decision_function(X), np.zeros((30, 3)))
    assert not back.predict(X).any()


def test_a_callable_kernel_is_passed_to_from_bytes():
    def kernel(A, B):
        return A @ B.T

    model = MLRL(scaling="none", kernel=kernel, gamma=0.5, optimise="none").fit(X, Y)
    back = MLRL.from_bytes(model.to_bytes(), kernel=kernel)
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))


def test_an_unserialisable_parameter_is_named():
    model = M3L(random_state=np.random.RandomState(0), scaling="none").fit(X, Y)
    with pytest.raises(ValueError, match="random_state cannot be serialised: its type is RandomState"):
        model.to_bytes()


def test_the_bytes_of_another_estimator_are_refused():
    data = MLRL(scaling="none", optimise="none").fit(X, Y).to_bytes()
    with pytest.raises(ValueError, match="data holds the state of MLRL, not of M3L"):
        M3L.from_bytes(data)
    with pytest.raises(ValueError, match="data holds the state of None, not of M3L"):
        M3L.from_bytes(State({}, {}).to_bytes())


def test_every_flipped_byte_is_noticed():
    model = M3L(scaling="none").fit(X, Y)
    written = model.to_bytes()
    rng = np.random.default_rng(0)
    for position in [*range(16), *rng.integers(0, len(written), 60)]:
        damaged = bytearray(written)
        damaged[position] ^= 1 << int(rng.integers(8))
        try:
            back = M3L.from_bytes(bytes(damaged))
        except (DamagedState, ValueError):
            continue
        assert back.to_bytes() == written  # only the spelling of the JSON was touched
    with pytest.raises(DamagedState):
        M3L.from_bytes(written[:-1])


def test_an_unfitted_learner_has_no_state():
    with pytest.raises(ValueError, match="not fitted"):
        M3L(scaling="none").to_bytes()
    with pytest.raises(ValueError, match="not fitted"):
        M3L(scaling="none").state()


def test_state_returns_the_fitted_arrays():
    model = M3L(scaling="none").fit(X, Y)
    assert set(model.state()) == {"coef_", "intercept_", "threshold_", "curves_", "classes_"}


@for_each(
    ("changes", "message"),
    [
        *[({name: ["plain", 1]}, "unknown fitted attribute") for name in ("fit", "__class__", "_seed", "a b_")],
        *[
            ({"coef_": entry}, "not the state of an estimator|unknown")
            for entry in (["texts", None], ["csr", [1, 2]], ["unheard of", None], "plain")
        ],
        ({"duality_gap_": None}, "lacks duality_gap_"),
        ({"dual_objective_": ["plain", {}]}, "unknown kind 'plain'"),
    ],
)
def test_forged_fitted_attributes_are_refused(changes, message):
    arrays, header = State.from_bytes(M3L(scaling="none").fit(X, Y).to_bytes())
    model = {name: entry for name, entry in {**header["model"], **changes}.items() if entry is not None}
    with pytest.raises(DamagedState, match=message):
        M3L.from_bytes(State(arrays, {**header, "model": model}).to_bytes())


def test_a_state_without_its_arrays_is_refused():
    _, header = State.from_bytes(M3L(scaling="none").fit(X, Y).to_bytes())
    with pytest.raises(DamagedState):
        M3L.from_bytes(State({}, header).to_bytes())
