"""Every batch learner chooses cuts and probabilities by scores of rows that it has not learnt."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from tests.core.batch.support import related

from manylabel_core import FALT
from manylabel_core.batch import LSAMML, M3L, MLRL, SSMLRL, PrBR, PrML
from manylabel_core.batch.decisions.thresholds import best_cuts
from manylabel_core.batch.segments import fit_in_segments

X, Y = related(60, 5, 3, noise=1.5, threshold=0.6)
VIEWS = {"a": X[:, :3], "b": X[:, 2:]}
LEARNERS = {
    "m3l": M3L(),
    "m3l-rbf": M3L(kernel="rbf"),
    "mlrl": MLRL(lam=1e-2, max_iter=3),
    "ssmlrl": SSMLRL(lam1=1e-2, max_iter=3),
    "prml": PrML(max_iter=2),
    "prbr": PrBR(),
    "lsa_mml": LSAMML(max_iter=5),
}
MANY = pytest.mark.parametrize("name", LEARNERS)


def learner(name: str, **parameters):
    return type(LEARNERS[name])(**{**LEARNERS[name].get_params(), "scaling": "none", **parameters})


def given(name: str):
    """Rows, as the learner takes them."""
    return VIEWS if name == "lsa_mml" else X


def fitted(name: str, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learner(name, **parameters).fit(given(name), Y)


@MANY
def test_cuts_and_curves_are_those_of_out_of_fold_scores(name):
    """A model with cuts is the model without them, and its cuts are found again by hand from separate fits."""
    model, plain = fitted(name), fitted(name, optimise="none")
    rows = given(name)
    np.testing.assert_array_equal(model.label_scores(rows), plain.label_scores(rows))
    scores = np.empty(Y.shape)
    for learnt, held in model.parts(len(Y)):
        assert not set(learnt) & set(held)
        parts = [{view: each[which] for view, each in VIEWS.items()} for which in (learnt, held)]
        own, others = parts if name == "lsa_mml" else (X[learnt], X[held])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores[held] = learner(name, optimise="none").fit(own, Y[learnt]).label_scores(others)
    chosen = [best_cuts(scores, Y > 0, "micro_f1", shared=shared) for shared in (True, False)]
    assert any(np.array_equal(model.threshold_, cuts) for cuts in chosen)
    np.testing.assert_array_equal(model.decision_function(rows), model.label_scores(rows) - model.threshold_)
    np.testing.assert_array_equal(model.predict(rows), model.label_scores(rows) > model.threshold_)
    likely = model.predict_proba(rows)
    assert likely.shape == Y.shape
    assert 0 < likely.min() < likely.max() < 1
    assert np.mean(likely[Y > 0]) > np.mean(likely[Y == 0])


def test_cuts_are_chosen_by_held_out_rows():
    """A machine that knows its rows by heart has useless scores of them: only rows held out say where to cut."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 200))
    Y = np.column_stack([X[:, 0] + rng.normal(size=90) > 1.0, X[:, 1] + rng.normal(size=90) > 1.0]).astype(int)
    model = M3L(C=100.0, scaling="none").fit(X, Y)
    learnt = best_cuts(model.label_scores(X), Y > 0, "micro_f1", shared=True)
    by_heart = ((model.label_scores(X) > learnt) == Y).all()
    assert by_heart
    scores = np.empty(Y.shape)
    for rows, held in model.parts(len(Y)):
        scores[held] = M3L(C=100.0, optimise="none", scaling="none").fit(X[rows], Y[rows]).label_scores(X[held])
    honest = [best_cuts(scores, Y > 0, "micro_f1", shared=shared) for shared in (True, False)]
    assert any(np.array_equal(model.threshold_, cuts) for cuts in honest)
    assert not np.array_equal(model.threshold_, learnt)
    assert (scores > model.threshold_).mean() > 1.2 * (scores > 0).mean()


@pytest.mark.parametrize("name", ["m3l", "lsa_mml"])
def test_another_measure_chooses_other_cuts(name):
    assert (fitted(name, optimise="hamming").threshold_ != fitted(name).threshold_).all()


def test_without_a_measure_a_label_is_predicted_above_0():
    model = fitted("m3l", optimise="none")
    np.testing.assert_array_equal(model.decision_function(X), X @ model.coef_.T + model.intercept_)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) > 0)
    assert not hasattr(model, "predict_proba")
    likely = fitted("m3l", optimise="none", calibrate=True)
    assert not likely.threshold_.any()
    assert likely.predict_proba(X).shape == Y.shape
    assert not hasattr(fitted("m3l", calibrate=False), "predict_proba")


@pytest.mark.parametrize("kind", ["list", "sparse", "float32"])
def test_rows_of_any_array_type_are_divided(kind):
    forms = {
        "list": (X.tolist(), Y.tolist()),
        "sparse": (sp.coo_array(X), sp.coo_array(Y)),
        "float32": (X.astype(np.float32), Y.astype(bool)),
    }
    rows, labels = forms[kind]
    np.testing.assert_allclose(M3L(scaling="none").fit(rows, labels).threshold_, fitted("m3l").threshold_, atol=1e-2)


def test_a_gram_matrix_is_divided_on_both_sides():
    K = rbf_kernel(X, gamma=0.2)
    named, own = (
        M3L(kernel="precomputed", scaling="none").fit(K, Y),
        M3L(kernel="rbf", gamma=0.2, scaling="none").fit(X, Y),
    )
    np.testing.assert_allclose(named.threshold_, own.threshold_, atol=1e-6)


def test_a_gram_matrix_with_unlabelled_examples_loses_those_held_out():
    K, unlabelled, parameters = rbf_kernel(X, gamma=0.2), np.arange(50, 60), {"kernel": "precomputed", "lam1": 1e-2}
    model = SSMLRL(scaling="none", **parameters).fit(K[:50], Y[:50], K[unlabelled])
    scores = np.empty((50, 3))
    for learnt, held in model.parts(50):
        columns = np.concatenate([learnt, unlabelled])
        fold = SSMLRL(scaling="none", **parameters, optimise="none")
        fold.fit(K[np.ix_(learnt, columns)], Y[learnt], K[np.ix_(unlabelled, columns)])
        scores[held] = fold.label_scores(K[np.ix_(held, columns)])
    chosen = [best_cuts(scores, Y[:50] > 0, "micro_f1", shared=shared) for shared in (True, False)]
    assert any(np.array_equal(model.threshold_, cuts) for cuts in chosen)


def test_unlabelled_rows_and_missing_views_are_divided_too():
    labels = Y.astype(float)
    labels[40:] = np.nan
    labelled = np.arange(60) < 40
    missing = {"a": np.arange(60) % 7 == 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LSAMML(max_iter=5, scaling="none").fit(VIEWS, labels, labelled, missing)
    assert model.threshold_.any()
    assert [len(held) for _, held in model.parts(40)] == [14, 13, 13]


def test_too_few_rows_are_cut_at_0():
    with pytest.warns(UserWarning, match="are not fitted: 3 folds need at least 6 rows, not 5"):
        model = M3L(scaling="none").fit(X[:5], Y[:5])
    assert not model.threshold_.any()
    assert model.curves_ is None
    with pytest.raises(ValueError, match="no probabilities were fitted"):
        model.predict_proba(X)


@MANY
def test_fewer_rows_than_labels_are_learnt_and_decided(name):
    rng = np.random.default_rng(0)
    labels = (rng.random((30, 31)) < 0.3).astype(int)
    rows = {view: each[:30] for view, each in VIEWS.items()} if name == "lsa_mml" else X[:30]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = learner(name).fit(rows, labels)
    assert model.predict(rows).shape == labels.shape
    assert model.threshold_.any()
    assert model.predict_proba(rows).shape == labels.shape


def test_a_fold_that_cannot_be_learnt_leaves_the_model_without_cuts():
    with pytest.warns(UserWarning, match="are not fitted, because a fold cannot be learnt: n_components"):
        model = LSAMML(n_components=30, max_iter=3, tol=0.5, scaling="none").fit({"a": np.hstack([X] * 7)[:32]}, Y[:32])
    assert model.curves_ is None


@pytest.mark.parametrize("error", [ValueError("unexpected"), FloatingPointError("unexpected")], ids=repr)
def test_another_error_in_a_fold_is_an_error(error, monkeypatch):
    def fail(**_):
        raise error

    monkeypatch.setattr(M3L, "for_fold", lambda self: SimpleNamespace(fit=fail))
    with pytest.raises(type(error), match="unexpected"):
        M3L(scaling="none").fit(X, Y)


def test_folds_change_no_filter_of_other_threads(monkeypatch):
    filters, seen = list(warnings.filters), []
    model = M3L(max_iter=1, tol=1e-9, scaling="none")
    label_scores = M3L.label_scores

    def watched(self, *args, **given):
        seen.append(list(warnings.filters) == filters_inside)
        return label_scores(self, *args, **given)

    monkeypatch.setattr(M3L, "label_scores", watched)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters_inside = list(warnings.filters)
        model.fit(X, Y)
    assert seen
    assert all(seen)
    assert [each.category for each in caught] == [ConvergenceWarning], "of the fit of all rows, and of no fold"
    assert list(warnings.filters) == filters


def test_progress_says_which_fold_and_a_stop_leaves_the_model_without_cuts():
    seen: list[int] = []
    model = M3L(kernel="rbf", scaling="none").fit(X, Y, progress=lambda at: seen.append(at.fold))
    assert sorted(set(seen)) == [0, 1, 2, 3] == list(dict.fromkeys(seen))
    stopped = M3L(kernel="rbf", scaling="none").fit(X, Y, progress=lambda at: at.fold == 2)
    np.testing.assert_array_equal(stopped.label_scores(X), model.label_scores(X))
    assert not stopped.threshold_.any()
    assert stopped.curves_ is None
    assert not M3L(kernel="rbf", scaling="none").fit(X, Y, progress=lambda at: True).threshold_.any()


def test_a_fit_in_segments_chooses_cuts_at_its_end():
    model = M3L(kernel="rbf", tol=1e-6, scaling="none")
    seen: list[tuple[int, int]] = []
    reached = fit_in_segments(
        model, lambda told: model.fit(X, Y, progress=told), 5, progress=lambda at: seen.append((at.fold, at.iteration))
    )
    assert reached.segments > 1
    assert reached.iterations == max(iteration for fold, iteration in seen if fold == 0)
    np.testing.assert_allclose(
        model.threshold_, M3L(kernel="rbf", tol=1e-6, scaling="none").fit(X, Y).threshold_, atol=1e-6
    )


@pytest.mark.parametrize("name", ["m3l", "prml"])
def test_an_online_learner_starts_from_the_cuts(name):
    model = fitted(name)
    assert model.threshold_.any()
    np.testing.assert_array_equal(FALT.from_linear(model, dtype="float64").predict(X), model.predict(X))
    if name == "prml":
        linear = model.to_linear()
        np.testing.assert_allclose(X @ linear.coef_.T + linear.intercept_, model.decision_function(X), atol=1e-12)
