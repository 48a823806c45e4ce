"""Nystroem features, against scikit-learn's and the kernel model without a budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem

from manylabel_core import FALT, SALT, KernelFALT, KernelSALT
from manylabel_core.online.models.features.nystroem import NOVELTY, Landmarks
from manylabel_core.online.models.points import KernelSettings
from manylabel_core.rows import as_rows

Array = NDArray[np.float64]


def landmarks(X: Array, budget: int, shape: tuple[int, float, float, int]) -> Landmarks:
    features = Landmarks(KernelSettings(shape, 0.0, budget, "float64"), budget)
    rows, _ = as_rows(X, np.float64)
    for i in range(len(X)):
        features.learn(rows.part(i, i + 1), X.shape[1])
    return features


def points_of(features: Landmarks, n_features: int) -> Array:
    arrays = features.arrays()
    X = np.zeros((features.n_points, n_features))
    for i in range(len(X)):
        entries = slice(arrays["landmarks.indptr"][i], arrays["landmarks.indptr"][i + 1])
        X[i, arrays["landmarks.indices"][entries]] = arrays["landmarks.values"][entries]
    return X


KERNELS: dict[str, tuple[tuple[int, float, float, int], dict[str, Any]]] = {
    "rbf": ((0, 0.3, 0.0, 1), {"kernel": "rbf", "gamma": 0.3}),
    "linear": ((1, 1.0, 0.0, 1), {"kernel": "linear"}),
    "poly": ((2, 0.5, 1.0, 3), {"kernel": "poly", "gamma": 0.5, "coef0": 1.0, "degree": 3}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_is_that_of_scikit_learn_on_the_same_landmarks(name: str) -> None:
    rng = np.random.default_rng(0)
    shape, parameters = KERNELS[name]
    X, new = rng.normal(size=(60, 7)), rng.normal(size=(25, 7))
    features = landmarks(X, 12, shape)
    points = points_of(features, 7)
    assert len(points) == (7 if name == "linear" else 12), "a linear kernel has no more directions than features"
    Z = features.score(as_rows(new, np.float64)[0], 7)
    peer = Nystroem(n_components=len(points), random_state=0, **parameters).fit(points)
    theirs = peer.transform(new)
    np.testing.assert_allclose(Z @ Z.T, theirs @ theirs.T, rtol=1e-6, atol=1e-8 * np.abs(theirs @ theirs.T).max())


def test_landmarks_are_the_first_that_are_new() -> None:
    X = np.array([[1.0, 0.0], [1.0, 0.0], [1.001, 0.0], [0.0, 3.0], [5.0, 5.0], [-4.0, 4.0]])
    features = landmarks(X, 3, (0, 1.0, 0.0, 1))
    np.testing.assert_array_equal(points_of(features, 2), X[[0, 3, 4]])
    own = features.score(as_rows(X[[0, 3, 4]], np.float64)[0], 2)
    np.testing.assert_allclose((own**2).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.triu(own, 1), 0.0, atol=1e-12, err_msg="each adds one direction")


@pytest.mark.parametrize("rounds", [{"step": "implicit"}, {"passes": 4}])
def test_before_the_budget_is_full_it_learns_as_without_one(rounds: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(80, 4)), rng.integers(0, 2, size=(80, 3))
    common = {"gamma": 1.0, "scaling": "none", "dtype": "float64", "fit_intercept": True, "eta": 0.5, **rounds}
    free = KernelFALT(**common).partial_fit(X, Y)
    model = KernelFALT(budget=80, strategy="nystroem", **common)
    seen = 0
    for i in range(80):
        K = np.exp(-((X[: i + 1, None] - X[None, : i + 1]) ** 2).sum(axis=-1))
        rest = 1.0 if i == 0 else 1.0 - K[i, :i] @ np.linalg.solve(K[:i, :i], K[:i, i])
        if rest <= 2 * NOVELTY:
            break
        model.partial_fit(X[[i]], Y[[i]])
        seen += 1
    assert seen > 15
    free = KernelFALT(**common).partial_fit(X[:seen], Y[:seen])
    assert model.n_support_ == seen
    probe = rng.normal(size=(30, 4))
    for one, other in zip(model.scores(probe), free.scores(probe), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("kernel", "linear"), [(KernelFALT, FALT), (KernelSALT, SALT)])
def test_with_all_landmarks_it_is_the_linear_learner_on_the_features(kernel: type, linear: type) -> None:
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(150, 4)), rng.integers(0, 2, size=(150, 3))
    common = {"eta": 0.5, "step": "implicit", "scaling": "none", "dtype": "float64", "calibrate": False}
    model = kernel(budget=10, strategy="nystroem", gamma=0.5, fit_intercept=False, **common)
    model.partial_fit(X[:60], Y[:60])
    assert model.n_support_ == 10
    features = model.pipeline.model._landmarks
    other = linear(fit_intercept=False, **common)
    other.pipeline.grow(10, 3)
    other.restore({**other.state(), **{name: array for name, array in model.state().items() if name in other.state()}})
    Z = features.score(as_rows(X, np.float64)[0], 4)
    model.partial_fit(X[60:], Y[60:])
    other.partial_fit(Z[60:], Y[60:])
    np.testing.assert_array_equal(model.scores(X)[0], other.scores(Z)[0])


def test_examples_before_the_first_label_give_no_landmarks() -> None:
    model = KernelFALT(budget=5, strategy="nystroem", scaling="none").partial_fit([[0.0], [3.0]], np.zeros((2, 0)))
    assert model.n_support_ == 0
