"""Cuts against every threshold there is, and curves against a general minimiser."""

from itertools import product

import numpy as np
import pytest
import scipy.optimize
import sklearn.metrics
from tests.support.cases import for_each

from manylabel_core.batch.decisions.calibration import PRICE, fit_curves, probabilities
from manylabel_core.batch.decisions.choice import divided, tune_thresholds, validated_scores
from manylabel_core.batch.decisions.thresholds import MEASURES, best_cuts, between, value


def some_scores(seed: int, n_samples: int, n_labels: int, *, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scores that say something of the labels, of which the last one is never true."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n_samples, n_labels)) < rng.uniform(0.1, 0.6, n_labels)
    Y[:, -1] = False
    scores = rng.normal(size=Y.shape) + Y
    return (np.round(scores, 1) if ties else scores), Y


def every_threshold(scores: np.ndarray) -> np.ndarray:
    """One threshold between any two scores, one below and one above all."""
    found = np.unique(scores)
    return np.concatenate([[found[0] - 1], (found[1:] + found[:-1]) / 2, [found[-1] + 1]])


def measured(Y: np.ndarray, P: np.ndarray, measure: str) -> float:
    if measure == "hamming":
        return 1.0 - sklearn.metrics.hamming_loss(Y, P)
    return sklearn.metrics.f1_score(Y, P, average=measure.removesuffix("_f1"), zero_division=0)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("seed", range(3))
def test_one_cut_is_as_good_as_any_threshold(measure, seed, ties):
    scores, Y = some_scores(seed, 20, 3, ties=ties)
    cuts = best_cuts(scores, Y, measure, shared=True)
    assert np.ptp(cuts) == 0
    best = max(measured(Y, scores > threshold, measure) for threshold in every_threshold(scores))
    assert measured(Y, scores > cuts, measure) == pytest.approx(best, abs=1e-12)
    assert value(scores - cuts, Y, measure) == pytest.approx(best, abs=1e-12)


@for_each("ties", [False, True])
@for_each("measure", MEASURES)
@for_each("seed", range(3))
def test_cuts_of_labels_are_as_good_as_any_combination_of_thresholds(measure, seed, ties):
    scores, Y = some_scores(seed, 9, 3, ties=ties)
    cuts = best_cuts(scores, Y, measure, shared=False)
    combinations = product(*(every_threshold(column) for column in scores.T))
    best = max(value(scores - np.array(each), Y, measure) for each in combinations)
    assert measured(Y, scores > cuts, measure) == pytest.approx(best, abs=1e-12)


@for_each("ties", [False, True])
@for_each("shared", [True, False])
@for_each("measure", MEASURES)
def test_a_whole_weight_equals_the_row_repeated(measure, shared, ties):
    scores, Y = some_scores(3, 40, 3, ties=ties)
    weights = np.random.default_rng(4).integers(1, 5, 40)
    repeated = np.repeat(np.arange(40), weights)
    cuts = best_cuts(scores, Y, measure, weights.astype(float), shared=shared)
    often = best_cuts(scores[repeated], Y[repeated], measure, shared=shared)
    np.testing.assert_array_equal(cuts, often)
    reached = value(scores - cuts, Y, measure, weights.astype(float))
    assert reached == pytest.approx(value((scores - often)[repeated], Y[repeated], measure), abs=1e-12)
    assert value(scores - cuts, Y, measure, weights / 100.0) == pytest.approx(reached, abs=1e-12)
    np.testing.assert_array_equal(cuts, best_cuts(scores, Y, measure, weights / 1024.0, shared=shared))


def test_curves_use_weights():
    scores, Y = some_scores(3, 40, 3, ties=False)
    weights = np.random.default_rng(4).integers(1, 5, 40)
    repeated = np.repeat(np.arange(40), weights)
    found = fit_curves(scores, Y, weights.astype(float))
    np.testing.assert_allclose(found, fit_curves(scores[repeated], Y[repeated]), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(fit_curves(scores, Y), fit_curves(scores, Y, np.ones(40)))


@for_each("shared", [True, False])
@for_each("measure", MEASURES)
def test_labels_that_no_row_or_every_row_has(measure, shared):
    scores = np.random.default_rng(0).normal(size=(10, 2))
    nothing = best_cuts(scores, np.zeros((10, 2), bool), measure, shared=shared)
    assert not (scores > nothing).any()
    everything = best_cuts(scores, np.ones((10, 2), bool), measure, shared=shared)
    assert (scores > everything).all()


def test_a_cut_between_neighbouring_numbers_separates_them():
    lower = np.array([1.0, -3.0, 0.0])
    upper = np.nextafter(lower, np.inf)
    cuts = between(lower, upper)
    assert ((lower <= cuts) & (cuts < upper)).all()


def test_folds_decide_whether_labels_have_cuts_of_their_own():
    rng = np.random.default_rng(0)
    Y = rng.random((300, 4)) < 0.3
    alike = Y + rng.normal(size=Y.shape)
    moved = alike + np.array([0.0, 3.0, -2.0, 5.0])
    parts = divided(300, 3, 0)
    assert np.ptp(tune_thresholds(alike, Y, parts, "micro_f1")) == 0
    own = tune_thresholds(moved, Y, parts, "micro_f1")
    np.testing.assert_allclose(own - own[0], [0, 3, -2, 5], atol=1.0)


def test_validated_scores_use_cuts_of_other_folds():
    """Scores that say nothing look good by their own cuts, and as bad as they are by those of other folds."""
    rng = np.random.default_rng(0)
    scores, Y = rng.normal(size=(60, 20)), rng.random((60, 20)) < 0.5
    parts = divided(60, 3, 0)
    own = value(scores - best_cuts(scores, Y, "hamming", shared=False), Y, "hamming")
    honest = value(validated_scores(scores, Y, parts, "hamming"), Y, "hamming")
    assert own > 0.58
    assert honest < 0.55
    for number, (_, held) in enumerate(parts):
        others = np.concatenate([part for other, (_, part) in enumerate(parts) if other != number])
        kinds = [scores[held] - best_cuts(scores[others], Y[others], "hamming", shared=kind) for kind in (True, False)]
        found = validated_scores(scores, Y, parts, "hamming")[held]
        assert any((found == each).all() for each in kinds)


@pytest.mark.parametrize(("n_samples", "n_folds"), [(5, 3), (1, 2)])
def test_too_few_rows_give_no_folds(n_samples, n_folds):
    assert divided(n_samples, n_folds, 0) == []


def test_curves_are_the_minimum_of_their_problem():
    scores, Y = some_scores(0, 80, 4, ties=False)
    scores[:, 1] *= -1  # falls: its slope is 0
    slopes, intercepts = fit_curves(scores, Y)
    width = scores.std()
    z = scores / width

    def loss(curve: np.ndarray, z: np.ndarray, y: np.ndarray, near: np.ndarray) -> float:
        logits = z * curve[0] + curve[1]
        return float(np.logaddexp(0, np.where(y, -logits, logits)).sum() + PRICE / 2 * ((curve - near) ** 2).sum())

    def best(z: np.ndarray, y: np.ndarray, near: np.ndarray) -> np.ndarray:
        found = scipy.optimize.minimize(loss, near, (z, y, near), tol=1e-12)
        return found.x

    common = best(z.ravel(), Y.ravel(), np.zeros(2))
    for label in (0, 2):
        wanted = best(z[:, label], Y[:, label], common)
        np.testing.assert_allclose([slopes[label] * width, intercepts[label]], wanted, atol=1e-4)
    assert slopes[1] == 0
    assert probabilities(scores, np.stack([slopes, intercepts]))[0, 1] == pytest.approx(Y[:, 1].mean(), abs=0.05)


def test_scores_of_any_size_give_the_same_probabilities():
    scores, Y = some_scores(1, 60, 4, ties=False)
    plain = probabilities(scores, fit_curves(scores, Y))
    np.testing.assert_allclose(probabilities(1e6 * scores, fit_curves(1e6 * scores, Y)), plain, atol=1e-9)
    flat = np.full_like(scores, 3.0)
    found = probabilities(flat, fit_curves(flat, Y))
    np.testing.assert_allclose(found[0], Y.mean(axis=0), atol=0.1)
