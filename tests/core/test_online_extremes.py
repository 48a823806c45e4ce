"""Finite input never leads to an infinite or undefined state, however extreme it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manylabel_core import FALT, SALT, KernelFALT
from manylabel_core.online._rounds import MAX_PASSES
from manylabel_core.rows import MAX_MAGNITUDE

LARGE: list[tuple[type[FALT] | type[SALT] | type[KernelFALT], dict[str, Any]]] = [
    (FALT, {}),
    (SALT, {"delta": 1e-300}),
    (SALT, {"delta": 2.0**20}),
    (KernelFALT, {"kernel": "rbf", "gamma": 2.0**20}),
    (KernelFALT, {"kernel": "rbf", "gamma": 1e-300}),
    (KernelFALT, {"kernel": "linear"}),
    (KernelFALT, {"kernel": "poly", "gamma": 2.0**20, "degree": 10}),
]


@pytest.mark.parametrize("scaling", ["none", "unit", "standard"])
@pytest.mark.parametrize(("make", "parameters"), LARGE)
@pytest.mark.parametrize("eta", [2.0**20, 1e-300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_states_stay_finite(make: Any, parameters: dict[str, Any], eta: float, scaling: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    X = np.vstack(
        [
            rng.choice([-MAX_MAGNITUDE, MAX_MAGNITUDE, 0.0], size=(20, 30)),
            rng.normal(size=(5, 30)) * 10.0 ** rng.integers(-300, 15, size=(5, 30)),
            np.full((5, 30), 1e-30),
            rng.choice([-MAX_MAGNITUDE, MAX_MAGNITUDE], size=(20, 30)),
        ]
    )
    Y = rng.integers(0, 2, size=(50, 4))
    model = make(eta=eta, passes=3000, scaling=scaling, dtype=dtype, **parameters)
    for _ in range(3):
        model.partial_fit(X, Y)
        for scores in model.scores(X):
            assert np.isfinite(scores).all()
    for name, array in model.state().items():
        assert np.isfinite(array).all(), name


@pytest.mark.parametrize("make", [FALT, SALT])
def test_sums_in_float32_stop_long_before_they_overflow(make: type[FALT]) -> None:
    """Weights and sums of squares so large that the largest possible step is lost in rounding."""
    model = make(eta=2.0**20, passes=MAX_PASSES)
    model.grow(2, 1)
    state = model.state()
    state["weights"][:, 0] = 1e34  # the threshold is far too high for a relevant label, and the label too low
    state["weights"][:, 1] = -1e34
    if "squares" in state:
        state["squares"][:] = 1e38
    model.restore(state)
    model.partial_fit([[MAX_MAGNITUDE, MAX_MAGNITUDE]], [[1]])
    for name, array in model.state().items():
        np.testing.assert_array_equal(array, state[name])


def test_passes_as_a_multiple_of_many_labels_are_limited() -> None:
    n_labels = 1100
    Y = (np.arange(n_labels) % 2)[None, :]
    limited = FALT(eta=1e-6, passes=100.0).partial_fit([[1.0]], Y)
    most = FALT(eta=1e-6, passes=MAX_PASSES).partial_fit([[1.0]], Y)
    np.testing.assert_array_equal(limited.scores([[1.0]])[0], most.scores([[1.0]])[0])


@given(st.lists(st.floats(-MAX_MAGNITUDE, MAX_MAGNITUDE), min_size=3, max_size=3), st.integers(1, 5000))
def test_any_example_can_be_learnt_by_any_number_of_passes(x: list[float], passes: int) -> None:
    for model in (FALT(passes=passes), SALT(passes=min(passes, 300)), KernelFALT(kernel="linear", passes=passes)):
        for y in ([1, 0], [0, 0], [1, 1]):
            model.partial_fit([x], [y])
        assert all(np.isfinite(array).all() for array in model.state().values())


def test_an_example_of_zeros_teaches_a_model_without_intercept_nothing() -> None:
    X, Y = np.zeros((3, 4)), np.ones((3, 2))
    for model in (FALT(fit_intercept=False), SALT(fit_intercept=False)):
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
