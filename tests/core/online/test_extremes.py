"""Finite input never leads to an infinite or undefined state, however extreme it is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT, KernelPassiveAggressive, KernelSALT, PassiveAggressive
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.updates._multipass import MAX_PASSES, pass_limit
from manylabel_core.rows import MAX_MAGNITUDE, as_rows, as_targets

LARGE: list[tuple[type[FALT] | type[SALT] | type[KernelFALT], dict[str, Any]]] = [
    (FALT, {}),
    (SALT, {"delta": 1e-300}),
    (SALT, {"delta": 2.0**20}),
    (KernelFALT, {"kernel": "rbf", "gamma": 2.0**20}),
    (KernelFALT, {"kernel": "rbf", "gamma": 1e-300}),
    (KernelFALT, {"kernel": "linear"}),
    (KernelFALT, {"kernel": "poly", "gamma": 2.0**20, "degree": 10}),
]

UNDER_A_BUDGET: list[dict[str, Any]] = [
    *(
        {"strategy": strategy, "kernel": "rbf", "gamma": gamma}
        for strategy in ("project", "nystroem")
        for gamma in (2.0**20, 1.0, 1e-300)
    ),
    *(
        {"strategy": strategy, **kernel}
        for strategy in ("project", "nystroem")
        for kernel in ({"kernel": "linear"}, {"kernel": "poly", "gamma": 2.0**20, "degree": 10, "coef0": 0.0})
    ),
]


ETAS = (2.0**20, 1e-300)
DTYPES = ("float32", "float64")


@pytest.mark.parametrize("parameters", UNDER_A_BUDGET, ids=str)
def test_states_under_a_budget_stay_finite(parameters: dict[str, Any]) -> None:
    for eta, scaling, dtype in itertools.product(ETAS, ("auto", "none"), DTYPES):
        common = {"eta": eta, "scaling": scaling, "dtype": dtype, "budget": 6, **parameters}
        for passes, fit_intercept in ((3000, True), (None, False), (None, True)):
            stays_finite(KernelFALT(passes=passes, fit_intercept=fit_intercept, **common))
        if parameters["strategy"] == "nystroem":
            stays_finite(KernelSALT(delta=1e-300, **common))


@for_each("variant", ["PA-I", "PA-II"])
@for_each("C", [2.0**20, 1e-300, 5e-324])
@for_each("dtype", DTYPES)
def test_states_of_passive_aggressive_learners_stay_finite(variant: str, C: float, dtype: str) -> None:
    common = {"C": C, "variant": variant, "dtype": dtype}
    for scaling, fit_intercept in itertools.product(("auto", "none", "unit"), (False, True)):
        stays_finite(PassiveAggressive(scaling=scaling, fit_intercept=fit_intercept, **common))
    for kernel in ("rbf", "linear", "poly"):
        stays_finite(KernelPassiveAggressive(kernel=kernel, degree=10, gamma=2.0**20, scaling="none", **common))


@pytest.mark.parametrize(("make", "parameters"), LARGE)
def test_states_stay_finite(make: Any, parameters: dict[str, Any]) -> None:
    for eta, scaling, dtype in itertools.product(ETAS, ("auto", "none", "unit"), DTYPES):
        for passes in (3000, None):
            stays_finite(make(eta=eta, passes=passes, scaling=scaling, dtype=dtype, **parameters))


def stays_finite(model: OnlineLearner) -> None:
    """Assert that a model of these parameters stays finite, whatever it learns."""
    rng = np.random.default_rng(0)
    X = np.vstack(
        [
            rng.choice([-MAX_MAGNITUDE, MAX_MAGNITUDE, 0.0], size=(20, 30)),
            rng.normal(size=(5, 30)) * 10.0 ** rng.integers(-300, 15, size=(5, 30)),
            np.full((5, 30), 1e-30),
            rng.choice([-MAX_MAGNITUDE, MAX_MAGNITUDE], size=(20, 30)),
            np.repeat(10.0 ** np.array([[-155.0], [-100.0], [-80.0], [-40.0], [-20.0]]), 30, axis=1),
        ]
    )
    Y = rng.integers(0, 2, size=(55, 4))
    for _ in range(2):
        assert np.isfinite(scores_before(model, X, Y)).all()
        for scores in model.scores(X):
            assert np.isfinite(scores).all(), model
    for name, array in model.state().items():
        assert np.isfinite(array).all(), (name, model)


def scores_before(model: OnlineLearner, X: NDArray[np.float64], Y: NDArray[np.int64]) -> NDArray[np.float64]:
    model.pipeline.grow(X.shape[1], Y.shape[1])
    rows, _ = as_rows(X, model.dtype)
    return model.pipeline.learn(rows, as_targets(Y)).scores


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_metric_at_the_edge_of_what_a_state_may_hold(dtype: str) -> None:
    """Sums so large, or small, that rates differ by all that they can; and an example just as uneven."""
    rng = np.random.default_rng(0)
    x = 10.0 ** rng.uniform(-38, 15, size=(40, 200))
    Y = rng.integers(0, 2, size=(40, 6))
    model = SALT(step="implicit", eta=2.0**20, delta=1e-300, dtype=dtype, scaling="none").partial_fit(x[:1], Y[:1])
    state = model.state()
    edges = np.array([0.0, 1e-30, 1.0, 3e38], dtype=dtype)
    state["squares"] = rng.choice(edges, size=state["squares"].shape)
    state["weights"] = rng.choice(np.array([-1e28, 1e28, 0.0], dtype=dtype), size=state["weights"].shape)
    model.restore(state)
    assert np.isfinite(scores_before(model, x, Y)).all()
    for name, array in model.state().items():
        assert np.isfinite(array).all(), name


def test_a_step_out_of_the_box_ends_on_its_edge() -> None:
    """The first feature makes the loss huge and hardly moves; the second moves as far as the largest eta lets it."""
    model = SALT(step="implicit", eta=2.0**20, delta=1e-300, scaling="none", fit_intercept=False)
    model.pipeline.grow(2, 6)
    state = model.state()
    state["weights"][1, :2] = [1e28, -1e28]
    state["squares"][1] = 3e38
    model.restore(state)
    model.partial_fit([[MAX_MAGNITUDE, 1e4]], [[1, 0, 0, 0, 0, 0]])
    weights = model.state()["weights"]
    assert np.isfinite(weights).all()
    assert weights[2, 1] == np.float32(1e28)


@pytest.mark.parametrize("make", [FALT, SALT])
def test_sums_in_float32_stop_long_before_they_overflow(make: type[FALT]) -> None:
    """Weights and sums of squares so large that the largest possible step is lost in rounding."""
    model = make(eta=2.0**20, passes=MAX_PASSES)
    model.pipeline.grow(2, 1)
    state = model.state()
    state["weights"][:, 0] = 1e34  # the threshold is far too high for a relevant label, and the label too low
    state["weights"][:, 1] = -1e34
    if "squares" in state:
        state["squares"][:] = 1e38
    model.restore(state)
    model.partial_fit([[MAX_MAGNITUDE, MAX_MAGNITUDE]], [[1]])
    for name in {"weights", "squares"} & set(state):
        np.testing.assert_array_equal(model.state()[name], state[name])


def test_passes_are_as_many_as_labels_within_bounds() -> None:
    assert [pass_limit(0, n_labels) for n_labels in (0, 7, MAX_PASSES + 1)] == [1, 7, MAX_PASSES]
    assert pass_limit(3, 7) == 3


@given(st.lists(st.floats(-MAX_MAGNITUDE, MAX_MAGNITUDE), min_size=3, max_size=3), st.integers(1, 5000))
def test_any_example_can_be_learnt_by_any_number_of_passes(x: list[float], passes: int) -> None:
    for model in (FALT(passes=passes), SALT(passes=min(passes, 300)), KernelFALT(kernel="linear", passes=passes)):
        for y in ([1, 0], [0, 0], [1, 1]):
            model.partial_fit([x], [y])
        assert all(np.isfinite(array).all() for array in model.state().values())


def test_an_example_of_zeros_teaches_a_model_without_intercept_nothing() -> None:
    X, Y = np.zeros((3, 4)), np.ones((3, 2))
    variants = [PassiveAggressive(variant=variant, fit_intercept=False) for variant in ("PA-I", "PA-II")]
    for model in (FALT(fit_intercept=False), SALT(fit_intercept=False), *variants):
        assert not model.partial_fit(X, Y).state()["weights"].any()
    assert KernelFALT(kernel="linear").partial_fit(X, Y).n_support_ == 0
    assert KernelFALT(kernel="rbf").partial_fit(X, Y).n_support_ > 0, "0 is a point like others for this kernel"


def test_an_rbf_kernel_is_at_most_1_where_distances_are_lost_in_rounding() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.0, size=30) * MAX_MAGNITUDE
    near = np.nextafter(x, np.where(rng.random((200, 30)) < 0.5, 0.0, np.inf))
    model = KernelFALT(eta=0.2, passes=1, gamma=1.0, dtype="float64").partial_fit([x], [[1, 0]])
    for own, others in zip(model.scores([x]), model.scores(near), strict=True):
        assert (np.abs(others) <= np.abs(own)).all()
