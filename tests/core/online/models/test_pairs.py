"""A pair of models, of which the better one predicts: it is the two of them, run apart, and a literal choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from manylabel_core import FALT, SALT
from manylabel_core.batch import M3L
from manylabel_core.online.models.linear._experts import DECAY

Array = NDArray[np.float64]


def make_stream(n: int = 300) -> tuple[Array, NDArray[np.int64], NDArray[np.bool_]]:
    """It drifts half-way, and the truth of some labels is unknown; of some examples all of it."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 8)) * (rng.random((n, 8)) < 0.5)
    first, second = rng.normal(size=(2, 8, 4))
    Y = np.where(np.arange(n)[:, None] < n // 2, X @ first > 0.3, X @ second > -0.2).astype(int)
    return X, Y, rng.random((n, 4)) < rng.choice([0.0, 0.6, 1.0, 1.0], size=(n, 1))


PAIRS: dict[str, tuple[type[FALT] | type[SALT], dict[str, Any], dict[str, Any]]] = {
    "falt": (FALT, {"step": "adaptive"}, {"eta": 0.4}),
    "falt-eta": (FALT, {"step": "adaptive", "eta": 0.1}, {"eta": 0.1}),
    "salt": (SALT, {"step": "implicit"}, {"eta": 0.4}),
    "salt-sizes": (SALT, {"step": "implicit", "eta": 0.5, "delta": 3.0}, {"eta": 0.2}),
}


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("make", "first", "second"), PAIRS.values(), ids=PAIRS)
def test_it_is_two_models_and_a_choice(
    make: type[FALT], first: dict[str, Any], second: dict[str, Any], intercept: bool, average: bool
) -> None:
    X, Y, known = make_stream()
    common = {"fit_intercept": intercept, "scaling": "unit", "dtype": "float64", "average": average, "calibrate": False}
    sizes = {name: value for name, value in first.items() if name != "step"}
    pair, one = make(**sizes, **common), make(**first, **common)
    other = FALT(step="implicit", intercept_scaling=1.0, **second, **common)
    record, leads = np.zeros((2, 2)), []
    for x, y, of in zip(X, Y, known, strict=True):
        for model in (pair, one, other):
            model.grow(len(x), len(y))
        apart = [model.scores([x]) for model in (one, other)]
        ratios = [2 * hits / size if size else 0.0 for hits, size in record]
        leads.append(int(ratios[1] > ratios[0]))
        for found, expected in zip(pair.scores([x]), apart[leads[-1]], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        if of.any():
            for q, (labels, thresholds) in enumerate(apart):
                predicted = (labels[0] > thresholds[0]) & of
                record[q] = DECAY * record[q] + [(predicted & (y == 1)).sum(), predicted.sum() + (of & (y == 1)).sum()]
        for model in (pair, one, other):
            model.partial_fit([x], [y], known=[of])
    np.testing.assert_allclose(pair.state()["expert_counts"], record, rtol=1e-9)
    np.testing.assert_allclose(pair.state()["weights"], one.state()["weights"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(pair.state()["steady"], other.state()["weights"], rtol=1e-9, atol=1e-12)
    assert 10 < sum(leads) < len(leads) - 10, "both lead at some time"


def test_the_first_predicts_when_they_are_level() -> None:
    model = FALT(dtype="float64", scaling="none", calibrate=False).partial_fit([[1.0, 0.0]], [[1, 0]])
    state = model.state()
    state["expert_counts"][:] = [[3.0, 8.0], [1.5, 4.0]]
    model.restore(state)
    x = np.array([0.3, 1.0, 0.0])  # the constant first
    labels, thresholds = model.scores([x[1:]])
    np.testing.assert_allclose([*thresholds, *labels[0]], x @ state["weights"])
    state["expert_counts"][1, 0] += 0.01
    model.restore(state)
    x[0] = 1.0
    labels, thresholds = model.scores([x[1:]])
    np.testing.assert_allclose([*thresholds, *labels[0]], x @ state["steady"])


def test_both_start_from_a_model_of_batch() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    Y = (X @ rng.normal(size=(5, 3)) > 0.2).astype(int)
    batch = M3L(optimise="none", C=1.0).fit(X, Y)
    model = FALT.from_linear(batch, scaling="none", dtype="float64", calibrate=False)
    for leading in ([[1.0, 2.0], [0.0, 2.0]], [[0.0, 2.0], [1.0, 2.0]]):
        model.restore({**model.state(), "expert_counts": np.array(leading)})
        np.testing.assert_allclose(model.decision_function(X), X @ batch.coef_.T + batch.intercept_, rtol=1e-9)


@pytest.mark.parametrize("make", [FALT, SALT])
def test_it_follows_a_stream_that_turns_round(make: type[FALT]) -> None:
    """All labels become their opposites: of the two, the steady one recovers first."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 10))
    Y = (X @ rng.normal(size=(10, 3)) > 0).astype(int)
    Y[3000:] = 1 - Y[3000:]
    model = make(calibrate=False).partial_fit(X[:3000], Y[:3000])
    alone = make(step="adaptive" if make is FALT else "implicit", calibrate=False).partial_fit(X[:3000], Y[:3000])
    wrong = {id(model): 0, id(alone): 0}
    for first in range(3000, 4000, 20):
        part = slice(first, first + 20)
        for one in (model, alone):
            wrong[id(one)] += int((one.predict(X[part]) != Y[part]).sum())
            one.partial_fit(X[part], Y[part])
    assert wrong[id(model)] < 0.95 * wrong[id(alone)]
