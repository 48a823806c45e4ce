"""The second-order expert against a transcription of Eq. (10i) of docs/mathematics.md, and what its tables promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core import FALT, SALT
from manylabel_core.explanation import Scorer
from manylabel_core.online.models.second_order._second_order import MAX_FEATURES, MAX_LABELS
from manylabel_core.online.models.second_order.model import SecondOrder
from manylabel_core.online.models.stack.model import Stack
from manylabel_core.rows import Rows, Targets, as_rows, as_targets

Array = NDArray[np.float64]
CONSTANT = 0.3


def stream(n: int = 120, d: int = 7, n_labels: int = 4) -> tuple[Array, NDArray[np.int8], NDArray[np.bool_], Array]:
    """Examples with zeros, labels, known truth, and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    Y = (X @ rng.normal(size=(d, n_labels)) > 0.3).astype(np.int8)
    return X, Y, rng.random(Y.shape) < 0.8, rng.choice([0.5, 1.0, 3.0], n)


def targets_of(Y: NDArray[np.int8], known: NDArray[np.bool_] | None = None, weights: Array | None = None) -> Targets:
    targets = as_targets(Y, known)
    return targets if weights is None else targets._replace(weights=weights)


def learn(model: SecondOrder, X: Array, targets: Targets, reserve: bool = True) -> Array:
    """Log-odds before each row was learnt."""
    width = int(targets.n_labels.max(initial=0))
    if reserve:
        model.reserve(X.shape[1], width)
    scores = np.full((len(X), 1 + width), np.nan)
    model.learn(as_rows(sp.csr_array(X), "float64")[0], targets, scores)
    assert not scores[:, 0].any()
    return scores[:, 1:]


def bits(model: SecondOrder, n_features: int, n_labels: int) -> dict[str, bytes]:
    return {name: np.array(array).tobytes() for name, array in model.arrays(n_features, n_labels).items()}


def plain(X: Array, Y: NDArray[np.int8], known: NDArray[np.bool_], weights: Array) -> tuple[Array, Array, Array, Array]:
    """Log-odds before each row was learnt, P, W and C of Eq. (10i)."""
    Z, n_labels = np.column_stack([np.full(len(X), CONSTANT), X]), Y.shape[1]
    P = np.diag([33 / 4, *[3 / 4] * X.shape[1]])
    W, C, t, logits = np.zeros((Z.shape[1], n_labels)), np.full(n_labels, 2.5), 0.0, np.zeros(Y.shape)
    known = known & (np.cumsum(Y * known, axis=0) > 0)  # a label begins with its first relevant example
    for i, z in enumerate(Z):
        g, w = P @ z, weights[i]
        v, logits[i] = z @ g, z @ W
        p = 1 / (1 + np.exp(-logits[i]))
        s = w * np.maximum(p * (1 - p), 1e-4) * known[i]
        W += np.outer(g, w * (Y[i] - p) * known[i] / (C / (t + 10) + s * v))
        C, t = C + s, t + w
        P -= np.outer(g, g) / (1 / w + v)
    return logits, P, W, C


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_literal_algorithm(weighted: bool) -> None:
    X, Y, known, weights = stream()
    weights = weights if weighted else np.ones(len(X))
    model = SecondOrder(CONSTANT)
    found = learn(model, X, targets_of(Y, known, weights))
    logits, P, W, C = plain(X, Y, known, weights)
    np.testing.assert_allclose(found, logits, rtol=1e-9, atol=1e-10)
    arrays = model.arrays(X.shape[1], Y.shape[1])
    for name, due in (("covariance", P), ("weights", W), ("curvatures", C), ("seen", [weights.sum()])):
        np.testing.assert_allclose(arrays[name], due, rtol=1e-9, atol=1e-10)
    assert np.abs(logits).max() > 2.0


def test_the_covariance_is_the_inverse_of_the_second_moments() -> None:
    X, Y, known, weights = stream()
    model = SecondOrder(CONSTANT)
    learn(model, X, targets_of(Y, known, weights))
    P = model.arrays(X.shape[1], Y.shape[1])["covariance"]
    Z = np.column_stack([np.full(len(X), CONSTANT), X])
    prior = np.diag([4 / 33, *[4 / 3] * X.shape[1]])
    np.testing.assert_allclose(P, np.linalg.inv(prior + (Z.T * weights) @ Z), rtol=1e-10, atol=1e-13)
    assert (P == P.T).all()


def test_a_weight_counts_in_the_moments_as_repeated_rows() -> None:
    """The steps of labels differ: the second of two equal rows is learnt with other probabilities."""
    X, Y, _, _ = stream()
    tripled, repeated = SecondOrder(CONSTANT), SecondOrder(CONSTANT)
    learn(tripled, X, targets_of(Y, None, np.full(len(X), 3.0)))
    learn(repeated, np.repeat(X, 3, axis=0), targets_of(np.repeat(Y, 3, axis=0)))
    size = X.shape[1], Y.shape[1]
    for name in ("covariance", "seen"):
        np.testing.assert_allclose(tripled.arrays(*size)[name], repeated.arrays(*size)[name], rtol=1e-9, atol=1e-12)


def test_nearly_collinear_features_stay_accurate() -> None:
    """Forty thousand rows; the inputs differ by a thousandth."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40_000, 1)) + 1e-3 * rng.normal(size=(40_000, 6))
    model = SecondOrder(CONSTANT)
    learn(model, X, targets_of((X[:, :1] > 0).astype(np.int8)))
    P = model.arrays(6, 1)["covariance"]
    Z = np.column_stack([np.full(len(X), CONSTANT), X])
    exact = np.linalg.inv(np.diag([4 / 33, *[4 / 3] * 6]) + Z.T @ Z)
    np.testing.assert_allclose(P, exact, atol=1e-10)
    assert np.linalg.eigvalsh(P)[0] > 0.0


def test_new_features_and_labels_are_as_if_they_had_always_been_there() -> None:
    X, Y, known, weights = stream()
    X[:50, 4:], known[:70, 2:] = 0.0, False
    size, whole = (X.shape[1], Y.shape[1]), SecondOrder(CONSTANT)
    logits = learn(whole, X, targets_of(Y, known, weights))
    grown = SecondOrder(CONSTANT)
    parts = []
    for first, last, d, n in ((0, 50, 4, 2), (50, 70, 7, 2), (70, 120, 7, 4)):
        rows = slice(first, last)
        parts.append(learn(grown, X[rows, :d], targets_of(Y[rows, :n], known[rows, :n], weights[rows])))
    assert bits(grown, *size) == bits(whole, *size)
    assert np.vstack([part[:, :2] for part in parts]).tobytes() == logits[:, :2].tobytes()


@pytest.mark.parametrize("make", [FALT, SALT])
def test_batches_and_restored_states_change_no_bit(make: Any) -> None:
    X, Y, known, weights = stream()
    whole, single, middle = make(), make(), make()
    whole.partial_fit(X, Y, known, weights)
    for i in range(len(X)):
        if i == 60:
            middle.restore(single.state())
            single = middle
        single.partial_fit(X[[i]], Y[[i]], known[[i]], weights[[i]])
    states = [{name: array.tobytes() for name, array in model.state().items()} for model in (whole, single)]
    assert states[0] == states[1]
    assert whole.state()["second.weights"].any()


def test_scores_are_those_that_learning_returns() -> None:
    X, Y, known, weights = stream()
    model = FALT()
    model.partial_fit(X, Y, known, weights)
    rows = as_rows(sp.csr_array(X[:1].astype(np.float32)))[0]
    scored = model.pipeline.score(rows)
    assert scored.tobytes() == model.pipeline.learn(rows, as_targets(Y[:1])).scores.tobytes()


def beyond_limits(beyond: str, at: int = 80) -> tuple[Rows, Targets, tuple[int, int]]:
    """Rows and targets of which one has a feature or a label beyond the limits; the numbers of columns."""
    X, Y, _, _ = stream()
    wide, many = sp.lil_array((len(X), MAX_FEATURES + 1)), np.zeros((len(X), MAX_LABELS + 1), np.int8)
    wide[:, : X.shape[1]], many[:, : Y.shape[1]] = X, Y
    n_labels = np.full(len(X), Y.shape[1])
    if beyond == "features":
        wide[at, MAX_FEATURES] = 1.0
    else:
        n_labels[at:] = MAX_LABELS + 1
    return as_rows(sp.csr_array(wide))[0], as_targets(many)._replace(n_labels=n_labels), wide.shape[1:] + many.shape[1:]


each_limit = pytest.mark.parametrize("beyond", ["features", "labels"])


@each_limit
def test_it_stops_at_the_first_example_beyond_its_limits(beyond: str) -> None:
    """It scores this example and learns nothing from it, however many columns it was grown to before."""
    rows, targets, size = beyond_limits(beyond)
    model, before = SecondOrder(CONSTANT), SecondOrder(CONSTANT)
    scores = np.full((len(rows.indptr) - 1, 1 + size[1]), np.nan)
    for each, last in ((model, len(scores)), (before, 80)):
        each.reserve(*size)
        assert each.learn_until_stop(rows.part(0, last), targets.part(0, last), scores[:last]) == 80
    assert bits(model, *size) == bits(before, *size)
    scored = np.empty((1, 1 + size[1]))
    before.score(rows.part(80, 81), scored)
    assert scores[80].tobytes() == scored.tobytes()
    assert scored.any()
    assert np.isnan(scores[81:]).all()


@each_limit
@pytest.mark.parametrize("titles", [False, True])
def test_a_stack_drops_the_expert_that_has_stopped(beyond: str, titles: bool) -> None:
    """With its tables, its ranks, and its coefficients, however examples are grouped and states are restored."""
    rows, targets, size = beyond_limits(beyond)
    states, scores = [], []
    for length in (1, 40, 120):
        learner = FALT()
        learner.pipeline.grow(*size)
        if titles:
            learner.pipeline.set_titles({1: [7, 9]})
            learner.pipeline.link(np.arange(3, dtype=np.int32), np.array([7, 8, 9]))
        scores.append([])
        for first in range(0, 120, length):
            part = rows.part(first, first + length), targets.part(first, first + length)
            scores[-1].append(learner.pipeline.learn(*part).scores)
            if first + length in (80, 81):
                other = FALT()
                other.restore(learner.state())
                learner = other
                assert ("second.weights" in learner.state()) == (first + length == 80)
        states.append(learner.state())
    n = 4 + int(titles)
    assert [len(state["stack.shared"]) for state in states] == [n + n * (n + 1) // 2] * 3
    assert states[0]["stack.labels"].shape == (4 + 10 + 1, size[1])
    assert not [name for name in states[0] if name.startswith(("second.", "ranks."))]
    assert len({b"".join(array.tobytes() for array in state.values()) for state in states}) == 1
    assert len({np.vstack(group).tobytes() for group in scores}) == 1
    if not titles:
        assert learner.pipeline.linear_form().weights.shape == size


def test_a_stack_that_drops_the_expert_at_once_is_one_that_never_had_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, targets, size = beyond_limits("features", at=0)

    def make_model(learner: FALT) -> Stack:
        model = made(learner)
        return Stack(model.first, {"centroid": model._others["centroid"]})

    states, made = [], FALT._make_model
    for make in (made, make_model):
        monkeypatch.setattr(FALT, "_make_model", make)
        pipeline = FALT().pipeline
        pipeline.grow(*size)
        pipeline.learn(rows, targets)
        states.append({name: array.tobytes() for name, array in pipeline.arrays().items()})
    assert states[0] == states[1]


def test_a_score_is_the_sum_of_its_contributions() -> None:
    X, Y, known, weights = stream()
    model = SecondOrder(CONSTANT)
    learn(model, X, targets_of(Y, known, weights))
    scores = np.empty((1, 1 + Y.shape[1]))
    model.score(as_rows(sp.csr_array(X[:1]), "float64")[0], scores)
    for label in range(Y.shape[1]):
        weights_of, constant = model.scorer(np.arange(9, dtype=np.int32), label)
        np.testing.assert_allclose(scores[0, 1 + label], X[0] @ weights_of[:7] + constant)
        assert not weights_of[7:].any()
    model.forget(2)
    assert model.scorer(np.arange(9, dtype=np.int32), 2).constant == Scorer(np.zeros(0), 0.0).constant


def test_all_steps_begin_anew() -> None:
    X, Y, known, weights = stream()
    size, model = (X.shape[1], Y.shape[1]), SecondOrder(CONSTANT)
    learn(model, X, targets_of(Y, known, weights))
    before = model.arrays(*size)["weights"].copy()
    model.reset_step_sizes(1)
    assert model.arrays(*size)["curvatures"][1] == 2.5
    assert model.arrays(*size)["curvatures"][0] > 2.5
    model.reset_step_sizes(None)
    new = SecondOrder(CONSTANT)
    new.reserve(*size)
    assert {**bits(new, *size), "weights": before.tobytes()} == bits(model, *size)


def test_values_without_scaling_keep_it_finite() -> None:
    rng = np.random.default_rng(3)
    X = 10.0 ** rng.uniform(-15, 15, size=(3000, 5)) * rng.choice([-1, 0, 1], size=(3000, 5))
    X[::2] = X[0]
    model = SecondOrder(CONSTANT)
    logits = learn(model, X, targets_of(rng.integers(0, 2, (3000, 2)).astype(np.int8)))
    assert np.isfinite(logits).all()
    P = model.arrays(5, 2)["covariance"]
    assert 0.0 <= P.diagonal().min() <= np.abs(P).max() <= 33 / 4
    model.restore({name: np.array(each) for name, each in model.arrays(5, 2).items()}, 5, 2)


FORGED = {
    "asymmetric": ("covariance", lambda P: P + np.eye(len(P), k=1) * 1e-3),
    "diagonal-negative": ("covariance", lambda P: P - np.eye(len(P))),
    "diagonal-large": ("covariance", lambda P: P + np.eye(len(P))),
    "nan": ("covariance", lambda P: P * np.nan),
    "one-row-less": ("covariance", lambda P: P[1:, 1:].copy()),
    "no-row": ("covariance", lambda P: P[:0, :0].copy()),
    "weights-huge": ("weights", lambda W: W + 1e70),
    "weights-short": ("weights", lambda W: W[1:].copy()),
    "curvature-small": ("curvatures", lambda C: C - C + 1.0),
    "seen-negative": ("seen", lambda t: t - 1e9),
    "seen-long": ("seen", lambda t: np.append(t, 1.0)),
}


@pytest.mark.parametrize(("name", "forge"), FORGED.values(), ids=FORGED)
def test_a_forged_state_is_refused(name: str, forge: Any) -> None:
    X, Y, known, weights = stream()
    learner = FALT().partial_fit(X, Y, known, weights)
    state = learner.state()
    before = {key: array.tobytes() for key, array in state.items()}
    with pytest.raises(ValueError, match="state: "):
        learner.restore({**state, f"second.{name}": forge(state[f"second.{name}"])})
    with pytest.raises(ValueError, match="state: "):
        learner.restore({key: array for key, array in state.items() if key != f"second.{name}"})
    assert {key: array.tobytes() for key, array in learner.state().items()} == before
