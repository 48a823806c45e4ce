"""LSA-MML with a map for each view: the kernel, the same model for sparse rows, and all detours."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import rbf_kernel

from manylabel_core.batch import LSAMML
from manylabel_core.batch.views.landmarks import landmark_map
from manylabel_core.metrics import macro_auc


def rings(n=300, seed=0):
    """Labels are distances from the middle: no line tells them."""
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(n, 2))
    X = {"a": P + 0.2 * rng.normal(size=(n, 2)), "b": P @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(n, 3))}
    return X, np.column_stack([(P**2).sum(axis=1) > 2, np.abs(P[:, 0]) > 0.8]).astype(int)


def test_all_rows_as_landmarks_give_the_kernel():
    X = np.random.default_rng(0).normal(size=(40, 6))
    there = np.ones(40, bool)
    found = landmark_map("a", X, there, 40, np.random.RandomState(0))
    distances = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    width = np.median(distances[np.triu_indices(40, 1)] ** 2) ** 0.5
    assert found.gamma == pytest.approx(1 / (2 * width**2))
    images = found(X, there)
    np.testing.assert_allclose(images @ images.T, RBF(width)(X), atol=1e-7)


def test_landmarks_are_rows_that_have_the_view():
    X = np.random.default_rng(0).normal(size=(40, 3))
    there = np.arange(40) % 2 == 0
    found = landmark_map("a", X, there, 9, np.random.RandomState(0))
    assert len({tuple(row) for row in found.landmarks} & {tuple(row) for row in X[there]}) == 9
    images = found(np.where(there[:, None], X, 0), there)
    assert not images[~there].any()
    K = rbf_kernel(found.landmarks, gamma=found.gamma)
    np.testing.assert_allclose(images[there] @ found.root.T @ K, rbf_kernel(X[there], found.landmarks, found.gamma))


def test_equal_landmarks_and_far_rows_have_finite_images():
    X = np.repeat(np.eye(2), [30, 2], axis=0)
    there = np.ones(32, bool)
    found = landmark_map("a", X, there, 32, np.random.RandomState(0))
    images = found(X, there)
    np.testing.assert_allclose(images @ images.T, rbf_kernel(X, gamma=found.gamma), atol=1e-7)
    far = found(np.array([[1e300, -1e300]]), np.ones(1, bool))
    np.testing.assert_array_equal(far, 0)


def test_rbf_views_learn_labels_that_linear_views_cannot():
    X, Y = rings()
    train, new = np.arange(300) < 200, np.arange(300) >= 200
    quality = {}
    for kernel in ("linear", "rbf"):
        model = LSAMML(scaling="none", optimise="none", kernel=kernel, n_landmarks=100).fit(
            {k: v[train] for k, v in X.items()}, Y[train]
        )
        quality[kernel] = macro_auc(Y[new], model.label_scores({k: v[new] for k, v in X.items()}))
    assert quality["rbf"] > 0.9 > 0.7 > quality["linear"]


def test_fit_equals_a_linear_fit_to_the_mapped_views():
    """The same model, fitted to images that were made before."""
    X, Y = rings()
    missing = {"a": np.arange(300) % 3 == 0}
    model = LSAMML(scaling="none", optimise="none", n_components=10, kernel="rbf", n_landmarks=30).fit(
        X, Y, missing=missing
    )
    images = {
        name: rbf_kernel(X[name], Z, gamma) @ root
        for name, Z, gamma, root in zip(X, model.view_landmarks_, model.view_gammas_, model.view_roots_, strict=True)
    }
    plain = LSAMML(scaling="none", optimise="none", n_components=10).fit(images, Y, missing=missing)
    np.testing.assert_allclose(model.label_scores(X, missing), plain.label_scores(images, missing), atol=1e-8)
    np.testing.assert_allclose(model.label_scores({"b": X["b"]}), plain.label_scores({"b": images["b"]}), atol=1e-8)
    assert [*model.view_widths_] == [2, 3]
    assert model.n_features_in_ == 5
    assert model.bases_["b"].shape == (30, 10)


def test_sparse_and_dense_views_give_the_same_model():
    X, Y = rings()
    X = {name: np.where(np.abs(view) < 0.5, 0, view) for name, view in X.items()}
    sparse = {name: sp.csr_array(view) for name, view in X.items()}
    dense = LSAMML(scaling="none", optimise="none", n_components=10, kernel="rbf", n_landmarks=30).fit(X, Y)
    other = LSAMML(scaling="none", optimise="none", n_components=10, kernel="rbf", n_landmarks=30).fit(sparse, Y)
    assert sp.issparse(other.view_landmarks_[0])
    np.testing.assert_allclose(other.label_scores(sparse), dense.label_scores(X), atol=1e-7)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_stopped_fit_resumes_from_bytes_bit_by_bit(sparse):
    X, Y = rings()
    X = {name: sp.csr_array(view) if sparse else view for name, view in X.items()}
    parameters = {
        "optimise": "none",
        "kernel": "rbf",
        "n_landmarks": 20,
        "tol": 1e-4,
        "max_iter": 500,
        "warm_start": True,
    }
    whole = LSAMML(scaling="none", n_components=8, **parameters).fit(X, Y)
    model = LSAMML(scaling="none", n_components=8, **parameters).fit(
        X, Y, progress=lambda progress: progress.iteration == 2
    )
    model = LSAMML.from_bytes(model.to_bytes())
    assert model.n_iter_ == 2 < whole.n_iter_
    assert model.fit(X, Y).to_bytes() == whole.to_bytes()
    model.set_params(kernel="linear", n_components=5).fit(X, Y)
    assert not hasattr(model, "view_landmarks_")
    assert model.bases_["a"].shape == (2, 5)
    assert model.set_params(kernel="rbf").fit(X, Y).bases_["a"].shape == (20, 5)


def test_bad_views_are_refused_by_name():
    X, Y = rings()
    with pytest.raises(ValueError, match="at most 20, not 21: the views have 20 features"):
        LSAMML(kernel="rbf", n_landmarks=10, n_components=21, scaling="none").fit(X, Y)
    for b, message in (
        (1e200 * X["b"], "X['b'] has values that are too large"),
        (np.ones((300, 2)), "X['b'] must have rows"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            LSAMML(kernel="rbf", scaling="none").fit(X | {"b": b}, Y)
