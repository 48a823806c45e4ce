"""Responses of FALT and SALT to an alarm: they forget a label, and let steps be large again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, PassiveAggressive

LEARNERS: dict[str, tuple[type[FALT] | type[SALT], dict[str, Any]]] = {
    "falt": (FALT, {"average": True}),
    "falt-adaptive": (FALT, {"step": "adaptive"}),
    "falt-implicit": (FALT, {"step": "implicit"}),
    "falt-passes": (FALT, {"passes": 2, "average": True}),
    "salt": (SALT, {"average": True}),
    "salt-implicit": (SALT, {"step": "implicit"}),
    "salt-passes": (SALT, {"passes": 2}),
}
BY_COLUMN = ("weights", "squares", "accumulator", "centroid.sums")
BY_LABEL = ("centroid.labels", "stack.labels")

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 5))
Y = (X @ rng.normal(size=(5, 4)) > 0.2).astype(int)


@for_each(("make", "parameters"), LEARNERS.values(), ids=LEARNERS)
def test_a_label_that_is_forgotten_is_as_a_new_one(make: type[FALT], parameters: dict[str, Any]) -> None:
    """The last label, forgotten: the same bits from then on as if it had not been there, but for the others' past."""
    model = make(**parameters).partial_fit(X[:40], Y[:40])
    before = model.state()
    model.pipeline.model.forget(3)
    state = model.state()
    for name in set(BY_COLUMN) & set(state):
        np.testing.assert_array_equal(state[name][:, :4], before[name][:, :4])
        assert not state[name][:, 4].any()
        assert before[name][:, 4].any()
    shorter = {name: array[:, :4] if name in BY_COLUMN else array for name, array in state.items()}
    shorter |= {name: state[name][:, :3] for name in set(BY_LABEL) & set(state)}
    if "stack.existing" in state:
        shorter["stack.existing"] = np.array([3])
    if "n_seen" in state:
        assert state["n_seen"].tolist() == [40, 40, 40, 40, 0]
        shorter["n_seen"] = shorter["n_seen"][:4]
    shorter |= {name: array for name, array in fresh(make, parameters).items() if name not in state}
    new = make(calibrate=False, **parameters)
    new.restore({name: shorter[name] for name in new.state()})
    model.partial_fit(X[40:], Y[40:])
    new.partial_fit(X[40:], Y[40:])
    for name in set(BY_COLUMN) & set(state):
        np.testing.assert_array_equal(model.state()[name], new.state()[name])


def fresh(make: type[FALT], parameters: dict[str, Any]) -> dict[str, Any]:
    return make(**parameters).partial_fit(X[:1], Y[:1, :3]).state()


def test_salt_forgets_the_squares_of_a_label_or_of_all() -> None:
    model = SALT().partial_fit(X, Y)
    before = model.state()
    model.pipeline.model.reset_step_sizes(2)
    squares = model.state()["squares"]
    assert not squares[:, 3].any()
    np.testing.assert_array_equal(np.delete(squares, 3, axis=1), np.delete(before["squares"], 3, axis=1))
    model.pipeline.model.reset_step_sizes(None)
    assert not model.state()["squares"].any()
    for name in ("weights", "centroid.sums", "stack.labels"):
        np.testing.assert_array_equal(model.state()[name], before[name])


@pytest.mark.parametrize("step", ["stacked", "adaptive"])
def test_falt_forgets_what_it_has_seen_of_features_for_all_labels_only(step: str) -> None:
    model = FALT(step=step).partial_fit(X, Y)
    before = model.state()
    model.pipeline.model.reset_step_sizes(2)
    np.testing.assert_array_equal(model.state()["feature_squares"], before["feature_squares"])
    model.pipeline.model.reset_step_sizes(None)
    assert not model.state()["feature_squares"].any()
    np.testing.assert_array_equal(model.state()["weights"], before["weights"])


@for_each(
    ("model", "shrinks"),
    [
        (FALT(), True),
        (FALT(step="adaptive"), True),
        (FALT(step="implicit"), False),
        (FALT(passes=1), False),
        (SALT(), True),
        (SALT(step="implicit"), True),
        (SALT(passes=1), True),
        (PassiveAggressive(), False),
    ],
)
def test_only_steps_that_shrink_can_be_raised(model: FALT, shrinks: bool) -> None:
    model.set_params(drift="adwin", on_drift="raise")
    if shrinks:
        model.partial_fit(X, Y)
    else:
        with pytest.raises(ValueError, match=r"^on_drift must be None or 'restart'"):
            model.partial_fit(X, Y)
