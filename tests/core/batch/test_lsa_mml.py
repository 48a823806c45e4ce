"""LSA-MML: planted structure found again, from any views, with some labels, and the same after every detour."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tests.support.cases import for_each

from manylabel_core.batch import LSAMML
from manylabel_core.batch.decisions.thresholds import half_or_best_cuts
from manylabel_core.batch.views.alternation import Prices
from manylabel_core.batch.views.block import Block
from manylabel_core.batch.views.start import start
from manylabel_core.metrics import macro_auc

WIDTHS = {"sound": 12, "text": 16, "image": 9}


def planted(n: int = 200, hidden: int = 3, noise: float = 1.0, widths: dict[str, int] = WIDTHS, seed: int = 0):
    """Views and labels of one hidden representation, which is given last."""
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(n, hidden))
    X = {
        name: P @ rng.normal(size=(hidden, d)) + noise * rng.normal(size=(n, d)) + rng.normal(size=d)
        for name, d in widths.items()
    }
    Y = (P @ rng.normal(size=(hidden, 6)) + 0.2 * rng.normal(size=(n, 6)) > 0.4).astype(int)
    return X, Y, P


def rows(X, which):
    return {name: view[which] for name, view in X.items()}


def fit(X, Y, *args, **parameters) -> LSAMML:
    """A fit that may end early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LSAMML(scaling="none", **{"optimise": "none", **parameters}).fit(X, Y, *args)


def quality(model: LSAMML, X, Y) -> float:
    return macro_auc(Y, model.label_scores(X))


def canonical_correlations(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    bases = [np.linalg.qr(M - M.mean(axis=0))[0] for M in (A, B)]
    return np.linalg.svd(bases[0].T @ bases[1])[1]


def check_trace(model: LSAMML) -> None:
    """Half-steps are minimisers, or are refused: the objective rises by no more than it is rounded.

    It is made of differences of sums of squares, which come to about the objective at the start.
    """
    trace = model.objective_trace_
    assert len(trace) == 1 + 3 * model.n_iter_
    assert np.diff(trace).max() <= 1e-14 * np.abs(trace[0])


@pytest.mark.parametrize("gamma", [0.0, 0.01])
def test_a_planted_representation_is_found(gamma):
    X, Y, P = planted(400, noise=0.3)
    train, new = np.arange(400) < 300, np.arange(400) >= 300
    model = LSAMML(scaling="none", n_components=3, gamma=gamma, tol=1e-6, max_iter=500, optimise="none").fit(
        rows(X, train), Y[train], np.arange(300) < 150
    )
    assert canonical_correlations(model.transform(rows(X, new)), P[new]).min() > 0.97
    assert quality(model, rows(X, new), Y[new]) > 0.97
    assert (model.predict(rows(X, new)) == Y[new]).mean() > 0.9


@pytest.mark.parametrize("parameters", [{}, {"gamma": 1.0}, {"beta": 30.0}, {"r": 6.0, "ridge": 1e-3}])
@pytest.mark.parametrize("lacking", [0.0, 0.3])
def test_the_objective_never_rises(parameters, lacking):
    X, Y, _ = planted(150)
    missing = {"sound": np.random.default_rng(1).random(150) < lacking}
    model = fit(X, Y, np.arange(150) < 60, missing, n_components=5, tol=1e-9, max_iter=60, **parameters)
    check_trace(model)
    assert model.n_iter_ > 4
    assert np.linalg.norm(model.bases_["text"], axis=0).max() <= 1 + 1e-12
    assert model.view_weights_ @ model.view_shares_ == pytest.approx(1)


def test_an_omitted_view_equals_a_view_that_all_rows_lack():
    X, Y, _ = planted()
    model = LSAMML(scaling="none", n_components=3, optimise="none").fit(X, Y)
    expected = model.decision_function(X, {"text": np.ones(200, dtype=bool)})
    seen = {name: X[name] for name in ("image", "sound")}  # in another order, too
    np.testing.assert_allclose(model.decision_function(seen), expected, rtol=1e-12, atol=1e-12)


def test_every_row_is_predicted_from_the_views_it_has():
    X, Y, _ = planted()
    model = LSAMML(scaling="none", n_components=3, optimise="none").fit(X, Y)
    missing = {"sound": np.arange(200) % 2 == 0, "image": np.arange(200) % 3 == 0}
    together = model.decision_function(X, missing)
    for i in range(12):
        seen = {name: X[name][i : i + 1] for name in X if name not in missing or not missing[name][i]}
        np.testing.assert_allclose(model.decision_function(seen)[0], together[i], rtol=1e-10, atol=1e-12)


def test_the_representation_is_that_of_the_attributes():
    X, Y, _ = planted()
    model = LSAMML(scaling="none", n_components=3, r=3.0, optimise="none").fit(X, Y)
    factors = (3 * model.view_weights_) ** 3.0
    normal, right = model.ridge * np.eye(3), np.zeros((200, 3))
    means = np.split(model.view_means_, np.cumsum(model.view_widths_)[:-1])
    for factor, name, mean, scale in zip(factors, model.view_names_, means, model.view_scales_, strict=True):
        B = model.bases_[name]
        normal, right = normal + factor * B.T @ B, right + factor * (X[name] - mean) / scale @ B
    expected = np.linalg.solve(normal, right.T).T
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-9, atol=1e-12)
    scores = expected @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores - model.threshold_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))


@pytest.mark.parametrize("sparse", [False, True])
def test_values_of_missing_rows_are_ignored_and_no_input_is_changed(sparse):
    X, Y, _ = planted()
    missing = {"sound": np.arange(200) % 3 == 0, "image": np.arange(200) % 5 == 1}
    labelled = np.arange(200) % 2 == 0
    for mask in (*missing.values(), labelled):
        mask.flags.writeable = False
    models = []
    for rest in (0.0, 7.0, np.nan, np.inf):
        views = {name: view.copy() for name, view in X.items()}
        for name, mask in missing.items():
            views[name][mask] = rest
        if sparse:
            views = {name: sp.csr_array(view) for name, view in views.items()}
        for view in views.values():
            (view.data if sparse else view).flags.writeable = False
        labels = Y.astype(float)
        labels[~labelled] = rest
        models.append(fit(views, labels, labelled, missing, n_components=4, max_iter=20))
        scores = models[-1].decision_function(views, missing)
        np.testing.assert_array_equal(scores, models[0].decision_function(views, missing))
    assert all(model.to_bytes() == models[0].to_bytes() for model in models)


def test_sparse_views_may_have_unsorted_and_duplicate_entries():
    X, Y, _ = planted()
    entries = sp.coo_array(X["text"])
    order = np.random.default_rng(0).permutation(2 * entries.nnz)
    where = [np.tile(axis, 2)[order] for axis in (entries.row, entries.col)]
    halves = np.tile(entries.data / 2, 2)[order]
    coo = sp.coo_array((halves, where), shape=entries.shape)
    by_row = np.argsort(where[0], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(where[0], minlength=200))])
    twice = sp.csr_array((halves[by_row], where[1][by_row], indptr), shape=entries.shape)
    assert twice.nnz == 2 * entries.nnz
    expected = (
        LSAMML(scaling="none", n_components=3, optimise="none")
        .fit(X | {"text": sp.csr_array(X["text"])}, Y)
        .view_scales_
    )
    for view in (coo, twice):
        found = LSAMML(scaling="none", n_components=3, optimise="none").fit(X | {"text": view}, Y).view_scales_
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert twice.nnz == 2 * entries.nnz


@for_each(
    "parameters",
    [{}, {"gamma": 0.0}, {"beta": 1e-6}, {"n_components": 15}],
)
def test_components_beyond_the_rank_do_not_depend_on_rounding(parameters):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(100, 3))
    X = {"a": hidden @ rng.normal(size=(3, 12)), "b": hidden @ rng.normal(size=(3, 10))}
    Y = (hidden @ rng.normal(size=(3, 5)) > 0).astype(int)
    expected = fit(X, Y, **parameters)
    assert expected.n_components_ > 8  # of views and labels, the rank
    for other in (
        {name: sp.csr_array(view) for name, view in X.items()},
        {name: view + 1e-13 * rng.normal(size=view.shape) for name, view in X.items()},
    ):
        np.testing.assert_allclose(fit(other, Y, **parameters).label_scores(X), expected.label_scores(X), atol=1e-10)


def test_unpredictable_labels_do_not_take_all_components():
    rng = np.random.default_rng(0)
    seen, unseen = np.split(np.linalg.qr(rng.normal(size=(60, 5)))[0], [3], axis=1)
    X = {"a": seen @ rng.normal(size=(3, 6)), "b": seen @ rng.normal(size=(3, 5))}
    blocks = [Block(view, None, np.zeros(view.shape[1]), np.linalg.norm(view) / 60**0.5) for view in X.values()]
    labels = Block(sp.csr_array(unseen), None, np.zeros(2), 1.0)
    model = start(blocks, labels, Prices(2.0, 1e6, 0.01, 0.5), 2, np.random.RandomState(0))
    for view, B in zip(X.values(), model.bases, strict=True):
        rank = np.linalg.matrix_rank(np.vstack([view, B.T]))
        assert rank == 3  # bases are of the rows of the views
    assert np.linalg.norm(model.bases[0], axis=0).min() > 0.1


@pytest.mark.parametrize("lacking", [0.0, 0.3])
def test_the_objective_is_as_documented(lacking):
    X, Y, _ = planted(80)
    n, labelled, rng = 80, np.arange(80) < 50, np.random.default_rng(1)
    there = {"sound": rng.random(n) >= lacking, "text": np.ones(n, bool), "image": rng.random(n) >= lacking}
    missing = {name: ~mask for name, mask in there.items()}
    model = fit(X, Y, labelled, missing, n_components=4, beta=0.7, warm_start=True)
    means = np.split(model.view_means_, np.cumsum(model.view_widths_)[:-1])
    shares = np.array([mask.mean() for mask in there.values()])
    f = (model.view_weights_ * shares.sum()) ** 2.0
    assert model.view_weights_ @ shares == pytest.approx(1.0)
    centred = np.where(labelled[:, None], Y - Y[labelled].mean(axis=0), 0.0)
    weight = 0.7 / ((centred**2).sum() / labelled.sum())
    terms = [
        (factor, mask, (X[name] - mean) / scale, model.bases_[name])
        for factor, (name, mask), mean, scale in zip(f, there.items(), means, model.view_scales_, strict=True)
    ]
    W, P = model.joint_coef_, np.empty((n, 4))
    for i in range(n):
        has = [(c, x[i], B) for c, mask, x, B in terms if mask[i]] + [(weight, centred[i], W)] * int(labelled[i])
        P[i] = np.linalg.solve(0.5 * np.eye(4) + sum(c * B.T @ B for c, _, B in has), sum(c * x @ B for c, x, B in has))
    total = 0.5 * (P**2).sum() + weight * (((centred - P @ W.T)[labelled] ** 2).sum() + (W**2).sum())
    for factor, mask, x, B in terms:
        total += factor * (((x - P @ B.T)[mask] ** 2).sum() + mask.sum())
    C = np.eye(4) - 0.25
    grams = [C @ B.T @ B @ C for _, _, _, B in terms]
    pairs = sum(np.vdot(one, other) for v, one in enumerate(grams) for w, other in enumerate(grams) if v != w)
    assert model.objective_trace_[-1] == pytest.approx(total / n - 0.01 * pairs / 3**2, rel=1e-10)


def test_sparse_views_stay_sparse():
    rng = np.random.default_rng(0)
    wide = sp.random_array((2_000, 40_000), density=2e-4, format="csr", rng=rng)
    Y = rng.integers(0, 2, (2_000, 3))
    tracemalloc.start()
    fit({"words": wide, "few": sp.random_array((2_000, 40), density=0.1, rng=rng)}, Y, n_components=5, max_iter=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # dense: 640e6


def test_scales_of_views_do_not_matter():
    X, Y, _ = planted()
    model = LSAMML(scaling="none", n_components=4, optimise="none").fit(X, Y)
    other = {"sound": X["sound"] * 1e90, "text": X["text"] * 1e-90, "image": X["image"]}
    again = LSAMML(scaling="none", n_components=4, optimise="none").fit(other, Y)
    np.testing.assert_allclose(again.view_weights_, model.view_weights_, rtol=1e-6)
    np.testing.assert_allclose(again.decision_function(other), model.decision_function(X), rtol=1e-5, atol=1e-7)


def test_thresholds_follow_the_scores_of_labelled_rows():
    X, Y, _ = planted(noise=3.0)
    labelled = np.arange(200) < 120
    model = LSAMML(n_components=3, optimise="none", scaling="none").fit(X, Y, labelled)
    expected = half_or_best_cuts(model.label_scores(rows(X, labelled)), Y[labelled])
    np.testing.assert_allclose(model.threshold_, expected)


def test_a_threshold_is_midway_between_scores():
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    Y = np.array([[1, 1, 0, 1, 0, 0, 0, 0]]).T
    scores = np.column_stack([scores, np.where(scores > 0.15, 0.2, 0.1)])
    scores[-1, 1] = 0.1
    both = np.column_stack([Y, [1, 1, 1, 1, 1, 1, 1, 0]])
    np.testing.assert_allclose(half_or_best_cuts(scores, both), [0.55, 0.15])


RESUMED = {"optimise": "none", "n_components": 4, "tol": 1e-5, "max_iter": 1000, "warm_start": True}


def test_refitting_a_converged_model_changes_nothing():
    X, Y, _ = planted()
    model = LSAMML(scaling="none", **RESUMED).fit(X, Y)
    before, told = model.to_bytes(), []
    model.fit(X, Y, progress=told.append)
    assert not told
    assert model.to_bytes() == before


@pytest.mark.parametrize("change", ["Y", "X", "views", "rows lack views", "beta", "n_components"])
def test_a_warm_start_after_a_change_converges_again(change):
    X, Y, _ = planted(noise=2.0)
    model = LSAMML(scaling="none", **RESUMED | {"tol": 1e-4}).fit(X, Y)
    missing = None
    if change == "Y":
        Y = 1 - Y
    elif change == "X":
        X = {name: view[::-1] for name, view in X.items()}
    elif change == "views":
        X = {name: X[name] for name in ("sound", "text")}
    elif change == "rows lack views":
        missing = {"sound": np.arange(200) % 2 == 0}
    else:
        model.set_params(**{change: 3})
    told = []
    model.fit(X, Y, missing=missing, progress=told.append)
    assert len(told) == model.n_iter_ > 0
    check_trace(model)
    assert model.view_weights_ @ model.view_shares_ == pytest.approx(1)
    anew = clone(model).fit(X, Y, missing=missing)
    assert model.objective_trace_[-1] == pytest.approx(anew.objective_trace_[-1], rel=0.03)


def test_progress_reports_every_iteration():
    X, Y, _ = planted()
    told = []
    model = LSAMML(n_components=3, optimise="none", scaling="none").fit(X, Y, progress=told.append)
    assert [progress.iteration for progress in told] == [*range(1, model.n_iter_ + 1)]
    assert [progress.objective for progress in told] == model.objective_trace_[3::3].tolist()
    falls = -np.diff(model.objective_trace_[::3]) / np.abs(model.objective_trace_[3::3])
    np.testing.assert_allclose([progress.gap for progress in told], falls)
    assert told[-1].gap == model.relative_change_ <= model.tol < told[-2].gap


@given(
    st.integers(2, 20),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(1, 2),
    st.integers(1, 6),
    st.floats(0, 0.6),
    st.integers(0, 2**16),
)
def test_any_shape_is_learnt(n, widths, n_labels, n_components, lacking, seed):
    rng = np.random.default_rng(seed)
    X = {str(v): rng.normal(size=(n, d)) for v, d in enumerate(widths)}
    if seed % 2:
        X["0"] = sp.csr_array(X["0"])
    missing = {str(v): rng.random(n) < lacking for v in range(1, len(widths))}
    for mask in missing.values():
        mask[:2] = False
    labelled = rng.random(n) < 0.5
    labelled[0] = True
    k = min(n_components, n, sum(widths))
    model = fit(X, rng.integers(0, 2, (n, n_labels)), labelled, missing, n_components=k, max_iter=8)
    check_trace(model)
    assert max(np.linalg.norm(B, axis=0).max() for B in model.bases_.values()) <= 1 + 1e-12
    assert model.view_weights_ @ model.view_shares_ == pytest.approx(1)
    assert model.predict(X, missing).shape == (n, n_labels)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.transform({"0": X["0"]}).shape == (n, k)
