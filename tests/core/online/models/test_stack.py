"""The stack against a transcription of Eqs. (10) to (10d) of docs/mathematics.md, for all learners that have one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from tests.core.online.calibration.test_calibration import PlainBend
from tests.core.online.models.test_second_order import plain as plain_second_order
from tests.core.scaling.transcription import plain_ranks

from manylabel_core import FALT, SALT, KernelFALT, KernelSALT
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.linear import _centroid
from manylabel_core.online.models.stack import model as stack_model

Array = NDArray[np.float64]
DOUBLE: dict[str, Any] = {"dtype": "float64", "scaling": "none"}
ALONE: dict[str, Any] = {**DOUBLE, "calibrate": False}
LATE = 40
"""The example that brings the last label."""
MAKERS: dict[str, tuple[type[OnlineLearner], dict[str, Any]]] = {
    "falt": (FALT, {}),
    "salt": (SALT, {}),
    "kernel-falt": (KernelFALT, {}),
    "kernel-salt": (KernelSALT, {"budget": 30}),
}


def stream(seed: int, n: int = 160, d: int = 6) -> tuple[sp.csr_array, NDArray[np.int64], NDArray[np.bool_]]:
    """Two linear labels, two local ones, a rare one, and one that comes late; some truth is unknown, never all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < np.linspace(0.2, 1.0, d))
    X[:, -1] += 0.1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    linear, local = X @ rng.normal(size=(d, 2)) > 0.2, np.abs(X[:, -2:]) < 0.4
    Y = np.column_stack([linear, local, rng.random(n) < 0.03, X[:, 2] > 0.2]).astype(int)
    Y[LATE, -1] = 1
    known = rng.random(Y.shape) < rng.choice([0.0, 0.5, 1.0], size=(n, 1))
    known[:, 0] |= ~known[:, :-1].any(axis=1)
    return sp.csr_array(X), Y, known


def experts(make: type[OnlineLearner]) -> dict[str, OnlineLearner]:
    """The models of a stack that are learners by themselves, by the prefix of their arrays, in their order."""
    adaptive, implicit = FALT(step="adaptive", **ALONE), SALT(step="implicit", **ALONE)
    if make in (FALT, SALT):
        return {"": adaptive if make is FALT else implicit}
    if make is KernelSALT:
        return {"": KernelSALT(step="implicit", gamma=1.0, budget=30, **ALONE), "adaptive.": implicit}
    return {"": KernelFALT(step="implicit", gamma=3.0, **ALONE), "adaptive.": adaptive}


def plain_centroid(
    X: sp.csr_array, Y: NDArray[np.int64], known: NDArray[np.bool_], weights: Array, largest: float = 2.0**32
) -> Array:
    """The margins of Eq. (10) before each example; NaN for a label that is not there yet."""
    rows, n_labels = X.toarray(), Y.shape[1]
    C, w, q, having = np.zeros((n_labels, X.shape[1])), np.ones(n_labels), np.zeros(n_labels), np.zeros(X.shape[1])
    margins = np.full(Y.shape, np.nan)
    for i, x in enumerate(rows):
        z = x * ((i + 2) / (having + 2)) ** 0.25
        old = n_labels - (i <= LATE)
        margins[i, :old] = (C @ z / np.sqrt(np.maximum(q, 1e-12)))[:old] if i else np.nan
        having += x != 0
        for label in np.flatnonzero(Y[i] * known[i] * (np.arange(n_labels) < n_labels - (i < LATE))):
            C[label] += weights[i] * w[label] * z
            w[label] += weights[i] * w[label] / 16
            q[label] = C[label] @ C[label]
            if w[label] > largest:
                C[label], w[label], q[label] = C[label] / largest, w[label] / largest, q[label] / largest**2
    return margins


def learn(
    model: OnlineLearner, X: sp.csr_array, Y: NDArray[np.int64], known: NDArray[np.bool_], weights: Array
) -> Array:
    """Margins before each example; NaN for a label that is not there yet."""
    margins = np.full(Y.shape, np.nan)
    for i in range(len(Y)):
        n_labels = Y.shape[1] - (i < LATE)
        if model.n_labels_:
            margins[i, : model.n_labels_] = model.decision_function(X[[i]])[0]
        model.partial_fit(X[[i]], Y[[i], :n_labels], known[[i], :n_labels], weights[[i]])
    return margins


def plain_stack(
    margins: list[Array],
    Y: NDArray[np.int64],
    known: NDArray[np.bool_],
    weights: Array,
    starts: list[float],
    evidence: Array | None = None,
    titled: list[int] | None = None,
) -> tuple[Array, Array]:
    """Log-odds before each example, and the margins that are shown with thresholds for micro-F1.

    `starts` are the shared coefficients of the margins at the start. `evidence` is that of titles; `titled` are the
    labels that have one.
    """
    n_labels, E = Y.shape[1], len(margins)
    start = np.array([-1.0, 0.0, *starts, *([] if evidence is None else [0.5])])
    n_shared = len(start)
    shared_ridge, ridge = 2.0 * np.eye(n_shared), 5.0 * np.eye(E + 2)
    g, v = start.copy(), np.zeros((n_labels, E + 2))
    Hg, H = np.zeros((n_shared, n_shared)), np.zeros((n_labels, E + 2, E + 2))
    recent, bend, hits, total = np.zeros(n_labels), PlainBend(), 2.5, 10.0
    seen, logits, shown = np.zeros(n_labels), np.full(Y.shape, np.nan), np.full(Y.shape, np.nan)
    for i in range(len(Y)):
        old = [label for label in range(n_labels) if not np.isnan(margins[0][i, label])]
        phi, p, w = np.zeros((n_labels, n_shared)), np.zeros(n_labels), weights[i]
        settled = np.isin(np.arange(n_labels), titled or []) * (total > 20.0)
        for label in old:
            phi[label, : E + 2] = [1.0, 2.0 * np.sqrt(recent[label]), *(margin[i, label] for margin in margins)]
            phi[label, E + 2 :] = 0.0 if evidence is None else evidence[i, label]
            logits[i, label] = g @ phi[label] + v[label] @ phi[label, : E + 2]
            phi[label, 2 : E + 2] = np.clip(phi[label, 2 : E + 2], -16.0, 16.0)
            p[label] = 1.0 / (1.0 + np.exp(-logits[i, label]))
            cut = max(seen[label], settled[label]) * np.log(hits / (total - hits))
            shown[i, label] = 0.5 * (logits[i, label] - cut)
        learnt = [label for label in old if known[i, label]]
        rate = 0.35 * w / (0.65 + 0.35 * w)
        there = np.arange(n_labels) < n_labels - (i < LATE)
        recent = np.where(known[i] & there, (1.0 - rate) * recent + rate * Y[i], recent)
        seen = np.maximum(seen, known[i] * there * Y[i])
        if not learnt:
            continue
        predicted, likely = shown[i] > 0, bend.probabilities(logits[i])
        hits = 0.999 * hits + w * sum(likely[label] for label in learnt if predicted[label])
        total = 0.999 * total + w * sum(likely[label] + predicted[label] for label in learnt)
        bend.learn(logits[i, learnt], Y[i, learnt], w)
        Hg *= 0.9995
        gradient, errors = np.zeros(n_shared), np.zeros((n_labels, n_shared))
        for label in learnt:
            curvature = w * p[label] * (1.0 - p[label]) * np.outer(phi[label], phi[label])
            errors[label] = w * (p[label] - Y[i, label]) * phi[label]
            Hg, gradient = Hg + curvature, gradient + errors[label]
            H[label] = 0.9995 * H[label] + curvature[: E + 2, : E + 2]
        g = g - bounded_step(Hg + shared_ridge, gradient + 0.001 * (g - start), g)
        for label in old:  # the bound of a label without known truth may have moved, too
            own = errors[label, : E + 2] + 0.0005 * known[i, label] * ridge @ v[label]
            v[label] -= bounded_step(H[label] + ridge, own, v[label] + g[: E + 2])
        v[old, 2:] = np.maximum(v[old, 2:], -g[2 : E + 2])
    return logits, shown


def margins_of(
    make: type[OnlineLearner], X: sp.csr_array, Y: NDArray[np.int64], known: NDArray[np.bool_], weights: Array
) -> tuple[list[Array], list[float]]:
    """The margins of all experts of a stack before each example, and their shared coefficients at the start."""
    margins = [learn(expert, X, Y, known, weights) for expert in experts(make).values()]
    margins.append(plain_centroid(X, Y, known, weights))
    if make not in (FALT, SALT):
        return margins, [2 / 3] * 3
    known = known.copy()
    known[:LATE, -1] = False
    dense = X.toarray()
    inputs = np.hstack([dense, plain_ranks(np.where(dense == 0.0, np.nan, dense))])
    second = plain_second_order(inputs, Y, known, weights)[0]
    return [*margins, np.where(np.isnan(margins[0]), np.nan, second)], [1.0, 1.0, 0.0]


def bounded_step(A: Array, b: Array, most: Array) -> Array:
    """The x with the least x'Ax / 2 - b'x of which elements from the third on are at most those of `most`, nearly: each
    is the best one for those found before, last to first, and then twice the best one for all others.
    """
    x = np.zeros(len(b))

    def best(at: int, free: list[int]) -> float:
        """Element `at` of the minimum over the free elements."""
        others = np.setdiff1d(np.arange(len(b)), free)
        return float(np.linalg.solve(A[np.ix_(free, free)], b[free] - A[np.ix_(free, others)] @ x[others])[-1])

    bounded = range(len(b) - 1, 1, -1)
    for k in bounded:
        x[k] = min(best(k, list(range(k + 1))), most[k])
    for k in [*bounded, *bounded]:
        x[k] = min(best(k, [0, 1, k]), most[k])
    x[1] = best(1, [0, 1])
    x[0] = best(0, [0])
    return x


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("make", "parameters"), MAKERS.values(), ids=MAKERS)
def test_a_stack_is_the_literal_algorithm(
    make: type[OnlineLearner], parameters: dict[str, Any], weighted: bool
) -> None:
    X, Y, known = stream(int(weighted))
    weights = np.random.default_rng(5).choice([0.5, 1.0, 3.0], len(Y)) if weighted else np.ones(len(Y))
    margins, starts = margins_of(make, X, Y, known, weights)
    logits, shown = plain_stack(margins, Y, known, weights, starts)
    found = learn(make(**ALONE, **parameters), X, Y, known, weights)
    np.testing.assert_allclose(found, logits, rtol=1e-7, atol=1e-8)
    model = make(**DOUBLE, **parameters)
    np.testing.assert_allclose(learn(model, X, Y, known, weights), shown, rtol=1e-7, atol=1e-8)
    assert np.nanmax(np.abs(logits)) > 2.0


def test_the_weights_of_a_centroid_are_divided_before_they_overflow() -> None:
    """The weight of a label that is always true exceeds 2^32 after 366 examples."""
    rng = np.random.default_rng(6)
    X, Y = sp.csr_array(rng.normal(size=(800, 3))), np.ones((800, 1), int)
    model = FALT(**DOUBLE).partial_fit(X, Y)
    state = model.state()
    weight, square = state["centroid.labels"][:, 0]
    assert 1.0 <= weight <= _centroid.MAX_WEIGHT
    np.testing.assert_allclose(square, (state["centroid.sums"] ** 2).sum(), rtol=1e-9)
    np.testing.assert_allclose(weight, 1.0625**800 / 2.0**64, rtol=1e-9)


def test_many_labels_are_stacked_in_parts_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, known = stream(3)
    whole = KernelFALT().partial_fit(X, Y, known)
    monkeypatch.setattr(stack_model, "MAX_SCALED_VALUES", 3 * (1 + Y.shape[1]))
    parts = KernelFALT().partial_fit(X, Y, known)
    for name, array in whole.state().items():
        assert array.tobytes() == parts.state()[name].tobytes(), name
    assert whole.scores(X)[0].tobytes() == parts.scores(X)[0].tobytes()


def test_a_stack_has_a_narrower_kernel_where_it_may_hold_every_vector() -> None:
    assert KernelFALT().resolved_params() == {**KernelFALT(step="stacked", eta=0.4, gamma=3.0).resolved_params()}
    assert KernelFALT(budget=9).resolved_params()["gamma"] == 1.0
    assert KernelFALT(kernel="poly").resolved_params()["gamma"] == 1.0
    assert KernelFALT(passes=3).resolved_params()["gamma"] == 1.0
    assert KernelSALT().resolved_params()["step"] == "stacked"
    assert KernelSALT().resolved_params()["gamma"] == 1.0
    with pytest.raises(ValueError, match=r"^gamma must be a number above 0"):
        KernelFALT(gamma=0.0).resolved_params()


@pytest.mark.parametrize("make", [FALT, KernelFALT])
def test_many_labels_are_restored_with_little_further_memory(make: type[OnlineLearner]) -> None:
    learner, again = make(), make()
    learner.pipeline.grow(1, 100_000)
    arrays = {name: array.copy() for name, array in learner.pipeline.arrays().items()}
    tracemalloc.start()
    try:
        again.pipeline.restore(arrays)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 1.25 * learner.pipeline.nbytes
