"""Responses of FALT and SALT to an alarm: they forget a label, and let steps be large again."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, PassiveAggressive

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 5))
Y = (X @ rng.normal(size=(5, 4)) > 0.2).astype(int)


def test_salt_resets_the_squares_of_one_or_all_labels() -> None:
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
def test_falt_resets_feature_squares_for_all_labels_only(step: str) -> None:
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
