"""Probabilities: the equations, what they converge to, and that they come from the past alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT
from manylabel_core._elementary import MAX_LOGIT
from manylabel_core.online.calibration._logistic import START
from manylabel_core.online.calibration.calibration import Calibration, make_calibration
from manylabel_core.rows import as_rows, as_targets

Array = NDArray[np.float64]


def logistic(z: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-np.clip(z, -MAX_LOGIT, MAX_LOGIT)))


def as_scores(margins: Array) -> Array:
    """Scores with these margins, and thresholds that are not 0."""
    thresholds = 0.25 * (np.arange(len(margins)) % 9)[:, None]
    return np.hstack([thresholds, margins + thresholds])


def calibrated(margins: Array, Y: Array, known: NDArray[np.bool_] | None = None) -> tuple[Array, Calibration]:
    """The probabilities of examples, each before its truth is known."""
    calibration = make_calibration(True, "none")
    assert isinstance(calibration, Calibration)
    calibration.grow(n_labels=Y.shape[1])
    probabilities = np.empty(Y.shape)
    calibration.learn(as_scores(margins), as_targets(Y, known), probabilities)
    return probabilities, calibration


class PlainLabel:
    """Newton's step, with the curvature as a matrix and a general solver."""

    def __init__(self) -> None:
        self.theta, self.weight, self.centre, self.spread = np.array(START[:2]), 1.0, 0.0, 1.0

    def learn(self, margin: float, y: float) -> None:
        p = logistic(self.theta @ [margin, 1.0])
        before, own = max(0.999 * self.weight, 1.0), p * (1.0 - p)
        mean = (before * self.centre + own * margin) / (before + own)
        self.spread = max(0.999 * self.spread, 1.0) + before * (self.centre - mean) ** 2 + own * (margin - mean) ** 2
        self.weight, self.centre = before + own, mean
        across = self.weight * mean
        H = np.array([[self.spread + across * mean, across], [across, self.weight]])
        self.theta = self.theta - np.linalg.solve(H, (p - y) * np.array([margin, 1.0]))
        if self.theta[0] < 0.0:  # the minimum of the quadratic with a slope of 0
            self.theta = np.array([0.0, self.theta[1] + H[0, 1] / H[1, 1] * self.theta[0]])


class PlainBend:
    """Newton's step of what log-odds above 1.5 are multiplied by, for all labels together."""

    def __init__(self) -> None:
        self.bend, self.curvature = 1.0, 0.0

    def probabilities(self, logits: Array) -> Array:
        return np.asarray(logistic(np.minimum(logits, 1.5) + self.bend * np.maximum(logits - 1.5, 0.0)))

    def learn(self, logits: Array, y: Array, weight: float = 1.0) -> None:
        p, above = self.probabilities(logits), np.maximum(np.minimum(logits, MAX_LOGIT) - 1.5, 0.0)
        curvature = (p * (1.0 - p) * above**2).sum()
        if curvature > 0.0:
            self.curvature = 0.9995 * self.curvature + weight * curvature
            step = weight * ((p - y) * above).sum() + 0.0005 * 5.0 * (self.bend - 1.0)
            self.bend = min(max(self.bend - step / (self.curvature + 5.0), 1 / 64), 4.0)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_equations(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    n, n_labels = 60, 5
    margins = rng.normal(size=(n, n_labels)) * scale + rng.normal(size=n_labels)
    Y = (rng.random((n, n_labels)) < logistic(rng.normal(size=n_labels) * margins)).astype(float)
    known = rng.random((n, n_labels)) < 0.7
    probabilities, calibration = calibrated(margins, Y, known)
    labels, bend = [PlainLabel() for _ in range(n_labels)], PlainBend()
    for i in range(n):
        logits = np.array([label.theta @ [margins[i, column], 1.0] for column, label in enumerate(labels)])
        np.testing.assert_allclose(probabilities[i], bend.probabilities(logits), rtol=1e-6, atol=1e-12)
        if i > 0:  # the example that brings a label does not count
            bend.learn(logits[known[i]], Y[i, known[i]])
            for column in np.flatnonzero(known[i]):
                labels[column].learn(margins[i, column], Y[i, column])
    np.testing.assert_allclose(calibration.state()["calibration.bend"], [bend.bend, bend.curvature], rtol=1e-6)
    slope, intercept, *_, positives = calibration.state()["calibration.labels"]
    np.testing.assert_allclose(slope, [label.theta[0] for label in labels], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(intercept, [label.theta[1] for label in labels], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(positives, (Y * known)[1:].sum(axis=0))


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e9])
def test_probabilities_are_in_the_order_of_the_scores(scale: float) -> None:
    """This includes a label whose best slope would be negative, because lower scores are the better sign."""
    rng = np.random.default_rng(0)
    margins = rng.normal(size=(400, 3)) * scale
    Y = (rng.random((400, 3)) < logistic(margins / scale * [3.0, 0.0, -3.0])).astype(float)
    _, calibration = calibrated(margins, Y)
    ladder = np.sort(np.concatenate([rng.normal(size=300) * scale, [-1e30, 0.0, 1e30]]))
    rated = calibration.probabilities(np.column_stack([np.zeros(len(ladder)), *3 * [ladder]]))
    assert (np.diff(rated, axis=0) >= 0.0).all()
    assert rated[-1, 0] > 0.9
    assert rated[0, 0] < 0.1
    assert rated[-1, 2] == rated[0, 2], "a label whose scores say the opposite has its base rate"


def test_better_than_the_plain_sigmoid_and_than_base_rates_on_yeast() -> None:
    from river import datasets

    stream = list(datasets.Yeast())  # type: ignore[no-untyped-call]
    X = np.array([list(x.values()) for x, _ in stream])
    Y = np.array([list(y.values()) for _, y in stream], dtype=float)
    kernel = KernelFALT(optimise="none", step="implicit")
    for model in (FALT(optimise="none"), SALT(optimise="none"), kernel, KernelFALT(optimise="none")):
        rows, n_features = as_rows(X)
        model.pipeline.grow(n_features, Y.shape[1])
        scores, probabilities, _ = model.pipeline.learn(rows, as_targets(Y), probabilities=True)
        brier = ((probabilities - Y) ** 2).mean()
        rates = (np.cumsum(Y, axis=0) - Y + 0.5) / np.arange(1, 1 + len(Y))[:, None]
        plain = logistic(scores[:, 1:] - scores[:, :1])
        if model._stacked:  # its scores are log-odds
            np.testing.assert_allclose(probabilities[plain < 0.8], plain[plain < 0.8], rtol=1e-9)
        else:
            assert brier < 0.96 * ((plain - Y) ** 2).mean()
        assert brier < 0.96 * ((rates - Y) ** 2).mean()
        bins = np.minimum((probabilities * 10).astype(int), 9)
        gaps = [abs(probabilities[bins == b].sum() - Y[bins == b].sum()) for b in range(10)]
        assert sum(gaps) / Y.size < 0.02, "calibration error"


def test_the_bend_changes_no_score_and_no_decision() -> None:
    rng = np.random.default_rng(11)
    scores = as_scores(rng.normal(size=(200, 3)) * 3.0)
    for optimise in ("micro_f1", "macro_f1", "hamming"):
        calibration = make_calibration(True, optimise, fitted=False)
        calibration.grow(n_labels=3)
        state = {name: array.copy() for name, array in calibration.state().items()}
        state["calibration.bend"][0] = 0.25
        bent = make_calibration(True, optimise, fitted=False)
        bent.restore(state, 0, 3)
        one, two = scores.copy(), scores.copy()
        calibration.decide(one)
        bent.decide(two)
        assert one.tobytes() == two.tobytes()
        predicted = one[:, 1:] > one[:, :1]
        for each in (calibration, bent):
            np.testing.assert_array_equal(predicted, each.probabilities(one) > each.curves().threshold)
        assert (calibration.probabilities(one) > bent.probabilities(one)).any()


def test_states_stay_finite_and_probabilities_inside() -> None:
    rng = np.random.default_rng(5)
    margins = rng.choice([0.0, 1.0, 1e-300, 1e15, 1e30, 1e90], size=(3000, 4)) * rng.choice([-1.0, 1.0], size=(3000, 4))
    Y = rng.integers(0, 2, size=(3000, 4)).astype(float)
    for optimise in ("none", "micro_f1", "macro_f1", "hamming"):
        calibration = make_calibration(True, optimise)
        calibration.grow(n_labels=4)
        probabilities, scores = np.empty(Y.shape), as_scores(margins)
        calibration.learn(scores, as_targets(Y), probabilities)
        assert np.isfinite(scores).all()
        assert (probabilities > 0.0).all()
        assert (probabilities < 1.0).all()
        state = calibration.state()
        assert all(np.isfinite(array).all() for array in state.values())
        make_calibration(True, optimise).restore(state, 0, 4)


def test_a_label_does_not_count_in_the_example_that_brings_it() -> None:
    rng = np.random.default_rng(7)
    targets = as_targets(rng.integers(0, 2, size=(3, 2)).astype(float))
    targets.n_labels[:] = [1, 1, 2]
    targets.indices[:] = 0
    calibration = make_calibration(True, "macro_f1")
    calibration.grow(n_labels=5)
    fresh, probabilities = calibration.state()["calibration.labels"].copy(), np.empty((3, 5))
    calibration.learn(as_scores(rng.normal(size=(3, 5))), targets, probabilities)
    after = calibration.state()["calibration.labels"]
    assert (after[:2, 0] != fresh[:2, 0]).all()
    np.testing.assert_array_equal(after[:, 1:], fresh[:, 1:])
    assert not probabilities[:2, 1:].any()
    assert not probabilities[2, 2:].any()
    assert probabilities[2, :2].all()


def test_a_label_that_is_forgotten_is_as_a_new_one() -> None:
    rng = np.random.default_rng(8)
    margins, Y = rng.normal(size=(50, 3)), rng.integers(0, 2, size=(50, 3)).astype(float)
    _, calibration = calibrated(margins, Y)
    before = calibration.state()["calibration.labels"].copy()
    calibration.forget(1)
    after = calibration.state()["calibration.labels"]
    np.testing.assert_array_equal(after[:, 1], START)
    np.testing.assert_array_equal(after[:, [0, 2]], before[:, [0, 2]])


X = np.random.default_rng(9).normal(size=(80, 6))
Y = (X[:, :3] + 0.3 * X[:, 3:] > 0.2).astype(int)


@for_each("make", [FALT, SALT, KernelFALT])
@for_each("optimise", ["none", "micro_f1", "macro_f1", "hamming"])
def test_probabilities_of_learning_and_of_scoring_are_the_same_bits(make: type[FALT], optimise: str) -> None:
    model = make(optimise=optimise).partial_fit(X[:60], Y[:60])
    rows, _ = as_rows(X)
    for i in range(60, 80):
        shown = model.predict_proba(X[i : i + 1])
        scores = model.pipeline.score(rows.part(i, i + 1))
        learnt = model.pipeline.learn(rows.part(i, i + 1), as_targets(Y[i : i + 1]), probabilities=True)
        assert learnt.probabilities.tobytes() == shown.tobytes()
        assert scores.tobytes() == learnt.scores.tobytes()


@pytest.mark.parametrize("make", [FALT, SALT, KernelFALT])
def test_without_probabilities(make: type[FALT]) -> None:
    model, other = make(calibrate=False).partial_fit(X, Y), make(optimise="none").partial_fit(X, Y)
    assert not any(name.startswith("calibration") for name in model.state())
    assert model.pipeline.nbytes == other.pipeline.nbytes - sum(
        a.nbytes for n, a in other.state().items() if n.startswith("calibration")
    )
    np.testing.assert_array_equal(model.scores(X)[0], other.scores(X)[0])
    with pytest.raises(ValueError, match="calibrate must be True for probabilities"):
        model.predict_proba(X)
    rows, targets = as_rows(X)[0], as_targets(Y)
    before = model.state()
    with pytest.raises(ValueError, match="calibrate must be True for probabilities"):
        model.pipeline.learn(rows, targets, probabilities=True)
    assert all(array.tobytes() == before[name].tobytes() for name, array in model.state().items())
    assert other.pipeline.learn(rows, targets).probabilities is None
    with pytest.raises(ValueError, match="scores must have 4 columns"):
        other.pipeline.probabilities(np.zeros((2, 3)))


def test_returned_curves_are_copies() -> None:
    rng = np.random.default_rng(0)
    for n_labels in range(1, 9):  # whether or not every column is in use
        margins, Y = rng.normal(size=(40, n_labels)), rng.integers(0, 2, (40, n_labels))
        _, calibration = calibrated(margins, Y)
        read = calibration.curves()
        before = [np.copy(each) for each in read]
        calibration.learn(as_scores(margins), as_targets(1 - Y, None), np.empty(Y.shape))
        for each, expected in zip(read, before, strict=True):
            np.testing.assert_array_equal(each, expected)
