"""Cuts: predictions come near the best that a cut of the same probabilities could do, by the measure asked for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.core.online.catalogue import Make
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT
from manylabel_core.online.calibration._logistic import SLOPE, START
from manylabel_core.online.calibration.calibration import MEASURES, make_calibration
from manylabel_core.rows import as_rows, as_targets

Array = NDArray[np.float64]


def f1(predicted: Array, Y: Array) -> Any:
    """F1 of every label; of all together where the arrays are flat."""
    return 2 * (predicted * Y).sum(axis=0) / np.maximum(1, (predicted + Y).sum(axis=0))


def decided(optimise: str, margins: Array, Y: Array) -> tuple[Array, Array]:
    """Predictions and probabilities of examples, each before its truth is known."""
    calibration = make_calibration(True, optimise)
    calibration.grow(n_labels=Y.shape[1])
    scores, probabilities = np.hstack([np.zeros((len(Y), 1)), margins]), np.empty(Y.shape)
    calibration.learn(scores, as_targets(Y), probabilities)
    return (scores[:, 1:] > scores[:, :1]).astype(float), probabilities


def rare_labels(n: int = 12_000, seed: int = 0) -> tuple[Array, Array, Array]:
    """Margins, chances and truth of labels from rare to frequent, some easy and some not."""
    rng = np.random.default_rng(seed)
    margins = rng.normal(size=(n, 8))
    slopes, intercepts = np.array([3, 1, 3, 1, 4, 0.5, 2, 2]), np.array([-5, -3, -2, -1, 0, 0, -4, -3])
    chances = 1.0 / (1.0 + np.exp(-(slopes * margins + intercepts)))
    return margins, chances, (rng.random(margins.shape) < chances).astype(float)


GRID = np.arange(0.01, 0.9, 0.01)


def measured(optimise: str, predicted: Array, Y: Array) -> float:
    """The metric after the first 2,000 examples; the share of right decisions for the Hamming loss."""
    predicted, Y = predicted[2000:].astype(float), Y[2000:]
    if optimise == "hamming":
        return float((predicted == Y).mean())
    return float(f1(predicted.ravel(), Y.ravel()) if optimise == "micro_f1" else f1(predicted, Y).mean())


@pytest.mark.parametrize(
    ("optimise", "other", "near", "far"),
    [("micro_f1", "none", 0.01, 0.05), ("macro_f1", "micro_f1", 0.02, 0.025), ("hamming", "none", 0.002, 0.05)],
)
def test_a_metric_is_near_that_of_the_best_cuts(optimise: str, other: str, near: float, far: float) -> None:
    """Cuts are those of each label for macro-F1. The cuts of another metric are far from the best."""
    margins, chances, Y = rare_labels()
    if optimise == "macro_f1":
        best = np.max([f1((chances > cut)[2000:].astype(float), Y[2000:]) for cut in GRID], axis=0).mean()
    else:
        best = max(measured(optimise, chances > cut, Y) for cut in GRID)
    assert measured(optimise, decided(optimise, margins, Y)[0], Y) > best - near
    assert measured(optimise, decided(other, margins, Y)[0], Y) < best - far, "the test can fail"


@pytest.mark.parametrize("optimise", ["micro_f1", "macro_f1"])
def test_labels_that_are_never_true_are_not_predicted(optimise: str) -> None:
    """An F of 0 asks for a cut at 0, and that would predict them everywhere."""
    rng = np.random.default_rng(2)
    margins, Y = rng.normal(size=(3000, 30)) - 2.0, np.zeros((3000, 30))
    Y[:, 0] = rng.random(3000) < 0.3
    predicted, _ = decided(optimise, margins, Y)
    np.testing.assert_array_equal(predicted[:, 1:], margins[:, 1:] > 0)


class Plain:
    """The cuts, label by label, of the probabilities of another."""

    def __init__(self, optimise: str, n_labels: int) -> None:
        self.optimise, self.positives = optimise, np.zeros(n_labels)
        self.hits, self.total = 2.5, 10.0
        self.own_hits, self.own_total = np.zeros(n_labels), np.zeros(n_labels)

    def cut(self, slope: Array, intercept: Array) -> Array:
        common = 0.5 if self.optimise == "hamming" else self.hits / self.total
        at = np.full(len(slope), common)
        if self.optimise == "macro_f1":
            at = (self.own_hits + 5.0 * common) / (self.own_total + 5.0)
        full = (np.log(at / (1 - at)) - intercept) / np.maximum(slope, 2.0**-10)
        return np.asarray(self.positives / (self.positives + 20.0) * full)

    def learn(self, predicted: Array, p: Array, y: Array, known: NDArray[np.bool_]) -> None:
        self.positives += y * known
        hits, total = known * predicted * p, known * (predicted + p)
        self.own_hits, self.own_total = self.own_hits + hits, self.own_total + total
        if known.any():
            self.hits, self.total = 0.999 * self.hits + hits.sum(), 0.999 * self.total + total.sum()


@given(st.integers(0, 2**32 - 1), st.sampled_from(["micro_f1", "macro_f1", "hamming"]))
def test_the_equations(seed: int, optimise: str) -> None:
    rng = np.random.default_rng(seed)
    margins = rng.normal(size=(40, 4))
    Y = (rng.random((40, 4)) < [0.1, 0.3, 0.5, 0.9]).astype(float)
    calibration, plain = make_calibration(True, optimise), Plain(optimise, 4)
    calibration.grow(n_labels=4)
    curves: Any = np.repeat(np.array(START)[:, None], 4, axis=1)
    for i in range(40):
        scores, p = np.array([[0.5, *(margins[i] + 0.5)]]), np.empty((1, 4))
        known = rng.random(4) < rng.choice([0.0, 0.5, 1.0])
        calibration.learn(scores, as_targets(Y[i : i + 1], known[None]), p)
        shown = scores[0, 1:] - scores[0, 0]
        expected = np.maximum(curves[0], 2.0**-10) / 2.0 * (margins[i] - plain.cut(*curves[:2]))
        np.testing.assert_allclose(shown, expected, rtol=1e-9, atol=1e-9)
        if i > 0:  # the example that brings a label does not count
            plain.learn((shown > 0).astype(float), p[0], Y[i], known)
        curves = calibration.state()["calibration.labels"].copy()


X = np.random.default_rng(3).normal(size=(200, 6))
Y = (X[:, :3] + 0.3 * X[:, 3:] > 0.7).astype(int)


@for_each("make", [FALT, SALT, KernelFALT, partial(KernelFALT, step="implicit")])
def test_the_metric_changes_only_the_shown_scores(make: Make) -> None:
    """Margins move by one number for each label, and are stretched by its slope; weights and probabilities stay."""
    plain = make(optimise="none").partial_fit(X[:150], Y[:150])
    for optimise in MEASURES:
        model = make(optimise=optimise).partial_fit(X[:150], Y[:150])
        for name, array in plain.state().items():
            if name in ("calibration.labels", "calibration.bend"):
                np.testing.assert_allclose(model.state()[name], array, rtol=1e-9)
            elif name != "calibration.counts":
                np.testing.assert_array_equal(model.state()[name], array)
        slopes = 1.0 if optimise == "none" else model.state()["calibration.labels"][SLOPE] / START[SLOPE]
        moved = plain.decision_function(X[150:]) - model.decision_function(X[150:]) / slopes
        np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-12)
        unmoved = ("none", "hamming") if model._stacked else ("none",)  # log-odds are cut at 0 anyway
        assert (np.abs(moved[0]) > 1e-3).all() == (optimise not in unmoved)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-9)
        np.testing.assert_array_equal(model.predict(X), model.decision_function(X) > 0)


def test_default_metrics() -> None:
    assert FALT().resolved_params()["optimise"] == "micro_f1"
    assert FALT(calibrate=False).resolved_params()["optimise"] == "none"
    assert FALT(passes=3).resolved_params()["optimise"] == "none", "as in the paper"
    assert FALT(passes=3, optimise="hamming").resolved_params()["optimise"] == "hamming"


def test_cuts_need_probabilities() -> None:
    rows, targets = as_rows(X)[0], as_targets(Y)
    for optimise in ("micro_f1", "macro_f1", "hamming"):
        with pytest.raises(ValueError, match=r"^optimise must be 'none' with calibrate=False"):
            FALT(calibrate=False, optimise=optimise).pipeline.learn(rows, targets)
    with pytest.raises(
        ValueError, match=r"^optimise must be one of 'none', 'micro_f1', 'macro_f1', 'hamming', not 'f1'"
    ):
        FALT(optimise="f1").pipeline.grow(1, 1)
    with pytest.raises(ValueError, match=r"^calibrate must be True or False"):
        FALT(calibrate="no").pipeline.grow(1, 1)  # type: ignore[arg-type]


@for_each("make", [FALT, SALT])
@for_each("optimise", ["none", "micro_f1", "macro_f1", "hamming"])
def test_a_label_is_not_predicted_before_its_first_example(make: Make, optimise: str) -> None:
    """Labels that were declared, or whose examples were rolled back, are there with nothing learnt."""
    model = make(optimise=optimise)
    model.pipeline.grow(2, 3)
    assert not model.predict(np.eye(2)).any()
    model.partial_fit(np.eye(2), [[1, 0, 0]] * 2)
    assert model.predict(np.eye(2)).tolist() == [[1, 0, 0]] * 2
