"""The stack of KernelFALT and KernelSALT against a transcription of Eqs. (10a) to (10d) of docs/mathematics.md."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from manylabel_core import FALT, SALT, KernelFALT, KernelSALT
from manylabel_core.metrics import micro_f1
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.stack import model as stack_model

Array = NDArray[np.float64]
DOUBLE: dict[str, Any] = {"dtype": "float64"}
ALONE: dict[str, Any] = {**DOUBLE, "calibrate": False}
LATE = 40
"""The example that brings the last label."""


def stream(seed: int, n: int = 160, d: int = 6) -> tuple[Array, NDArray[np.int64], NDArray[np.bool_]]:
    """Two linear labels, two local ones, a rare one, and one that comes late; some truth is unknown."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    linear, local = X @ rng.normal(size=(d, 2)) > 0.5, np.abs(X[:, :2]) < 0.6
    Y = np.column_stack([linear, local, rng.random(n) < 0.03, X[:, 2] > 0.2]).astype(int)
    Y[LATE, -1] = 1
    return X, Y, rng.random(Y.shape) < rng.choice([0.0, 0.5, 1.0], size=(n, 1))


def experts(make: type[OnlineLearner]) -> list[OnlineLearner]:
    """The three models of a stack, each as a learner of its own."""
    steady = FALT(step="implicit", eta=0.4, intercept_scaling=1.0, **ALONE)
    if make is KernelSALT:
        return [SALT(step="implicit", **ALONE), steady, KernelSALT(step="implicit", gamma=1.0, budget=30, **ALONE)]
    return [FALT(step="adaptive", **ALONE), steady, KernelFALT(step="implicit", gamma=3.0, **ALONE)]


def learn(model: OnlineLearner, X: Array, Y: NDArray[np.int64], known: NDArray[np.bool_]) -> Array:
    """Margins before each example; NaN for a label that is not there yet."""
    margins = np.full(Y.shape, np.nan)
    for i in range(len(X)):
        n_labels = Y.shape[1] - (i < LATE)
        if model.n_labels_:
            margins[i, : model.n_labels_] = model.decision_function(X[[i]])[0]
        model.partial_fit(X[[i]], Y[[i], :n_labels], known[[i], :n_labels])
    return margins


def plain_stack(margins: list[Array], Y: NDArray[np.int64], known: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Log-odds before each example, and the margins that are shown with thresholds for micro-F1."""
    n_labels, E = Y.shape[1], len(margins)
    start = np.array([-1.0, *[2.0 / E] * E, 0.0])
    shared_ridge, ridge = 2.0 * np.eye(E + 2), np.diag([10.0] + [20.0] * (E + 1))
    g, v = start.copy(), np.zeros((n_labels, E + 2))
    Hg, H = np.zeros((E + 2, E + 2)), np.zeros((n_labels, E + 2, E + 2))
    true, seen, hits, total = np.zeros(n_labels), np.zeros(n_labels), 0.25, 1.0
    logits, shown = np.full(Y.shape, np.nan), np.full(Y.shape, np.nan)
    for i in range(len(Y)):
        old = [label for label in range(n_labels) if not np.isnan(margins[0][i, label])]
        phi, p = np.zeros((n_labels, E + 2)), np.zeros(n_labels)
        for label in old:
            base = (true[label] + 0.25) / (seen[label] + 1.0)
            clipped = [np.clip(margin[i, label], -4.0, 4.0) for margin in margins]
            phi[label] = [1.0, *clipped, np.log(base / (1.0 - base)) + 1.0]
            logits[i, label] = (g + v[label]) @ phi[label]
            p[label] = 1.0 / (1.0 + np.exp(-logits[i, label]))
            F = 2.0 * hits / total
            cut = true[label] / (true[label] + 2.0) * np.log(F / 2 / (1.0 - F / 2))
            shown[i, label] = 0.5 * (logits[i, label] - cut)
        learnt = [label for label in old if known[i, label]]
        if not learnt:
            continue
        predicted = shown[i] > 0
        hits = 0.999 * hits + sum(p[label] for label in learnt if predicted[label])
        total = 0.999 * total + sum(p[label] + predicted[label] for label in learnt)
        Hg *= 0.999
        gradient = np.zeros(E + 2)
        for label in learnt:
            curvature = p[label] * (1.0 - p[label]) * np.outer(phi[label], phi[label])
            error = (p[label] - Y[i, label]) * phi[label]
            Hg, gradient = Hg + curvature, gradient + error
            H[label] = 0.999 * H[label] + curvature
            v[label] -= np.linalg.solve(H[label] + ridge, error + 0.001 * ridge @ v[label])
            true[label] += Y[i, label]
            seen[label] += 1
        g = g - np.linalg.solve(Hg + shared_ridge, gradient + 0.002 * (g - start))
    return logits, shown


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("make", "parameters"), [(KernelFALT, {}), (KernelSALT, {"budget": 30})])
def test_a_stack_is_the_literal_algorithm(make: type[OnlineLearner], parameters: dict[str, Any], seed: int) -> None:
    X, Y, known = stream(seed)
    margins = [learn(expert, X, Y, known) for expert in experts(make)]
    logits, shown = plain_stack(margins, Y, known)
    np.testing.assert_allclose(learn(make(**ALONE, **parameters), X, Y, known), logits, rtol=1e-8, atol=1e-9)
    model = make(**DOUBLE, **parameters)
    np.testing.assert_allclose(learn(model, X, Y, known), shown, rtol=1e-8, atol=1e-9)
    assert np.nanmax(np.abs(logits)) > 2.0


def test_the_state_is_that_of_the_experts() -> None:
    """Each learns as if it were alone."""
    X, Y, known = stream(2)
    model = KernelFALT(**DOUBLE).partial_fit(X, Y, known)
    state = model.state()
    for expert, prefix in zip(experts(KernelFALT), ("adaptive.", "steady.", ""), strict=True):
        for name, array in expert.partial_fit(X, Y, known).state().items():
            if not name.startswith("scaling."):
                np.testing.assert_array_equal(state[prefix + name], array)


def test_many_labels_are_stacked_in_parts_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, known = stream(3)
    whole = KernelFALT().partial_fit(X, Y, known)
    monkeypatch.setattr(stack_model, "MAX_SCALED_VALUES", 3 * (1 + Y.shape[1]))
    parts = KernelFALT().partial_fit(X, Y, known)
    for name, array in whole.state().items():
        assert array.tobytes() == parts.state()[name].tobytes(), name
    assert whole.scores(X)[0].tobytes() == parts.scores(X)[0].tobytes()


def test_a_stack_trusts_the_expert_that_knows_label_by_label() -> None:
    """Linear labels are learnt better than by the kernel, local ones much better than by a linear model."""
    rng = np.random.default_rng(4)
    linear, local = slice(0, 3), slice(3, 6)
    makers = {"stack": KernelFALT, "kernel": partial(KernelFALT, step="implicit"), "linear": FALT}
    reached: dict[str, list[list[float]]] = {name: [] for name in makers}
    for _ in range(3):
        X = rng.normal(size=(2500, 8))
        Y = np.column_stack([X @ rng.normal(size=(8, 3)) > 1.0, X[:, :3] ** 2 + X[:, 3:6] ** 2 < 1.0]).astype(np.int8)
        for name, make in makers.items():
            predicted = make().partial_fit(X[:2000], Y[:2000]).predict(X[2000:])
            reached[name].append([micro_f1(Y[2000:, part], predicted[:, part]) for part in (linear, local)])
    stack, kernel, straight = (np.mean(reached[name], axis=0) for name in makers)
    assert stack[0] > kernel[0]
    assert stack[1] > kernel[1] - 0.01
    assert stack[1] > straight[1] + 0.1


def test_a_stack_has_a_narrower_kernel_where_it_may_hold_every_vector() -> None:
    assert KernelFALT().resolved_params() == {**KernelFALT(step="stacked", eta=0.4, gamma=3.0).resolved_params()}
    assert KernelFALT(budget=9).resolved_params()["gamma"] == 1.0
    assert KernelFALT(kernel="poly").resolved_params()["gamma"] == 1.0
    assert KernelFALT(passes=3).resolved_params()["gamma"] == 1.0
    assert KernelSALT().resolved_params()["step"] == "stacked"
    assert KernelSALT().resolved_params()["gamma"] == 1.0
    with pytest.raises(ValueError, match=r"^gamma must be a number above 0"):
        KernelFALT(gamma=0.0).resolved_params()
